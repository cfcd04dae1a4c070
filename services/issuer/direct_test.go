package issuer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// switches lists the modes of the claims, in order, with when they were made.
func (w *world) switches() (modes []queue.Mode, at []time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.log {
		if r.Kind == queue.Claimed {
			modes = append(modes, r.Mode)
			at = append(at, time.UnixMilli(r.AtMs).Add(-clockAhead))
		}
	}
	return modes, at
}

func checkNobodySkipped(t *testing.T, all []admission) {
	t.Helper()
	for i := 1; i < len(all); i++ {
		if all[i].Ticket <= all[i-1].Ticket {
			t.Fatalf("ticket %d after %d", all[i].Ticket, all[i-1].Ticket)
		}
	}
	for i, a := range all {
		if want := i + 1; a.Visitor != "v"+itoa(want) {
			t.Fatalf("admission %d is of %s: the order is not that without an outage", want, a.Visitor)
		}
	}
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}

// Redis dies, or hangs, and returns as it was, empty, or older: the same people in the same order, none skipped, none twice, the
// rate kept at both switches, and a pause of less than four seconds.
func TestTheLineGoesOnWithoutRedis(t *testing.T) {
	for name, c := range map[string]struct {
		kill, mend func(*shared)
	}{
		"dies":    {func(s *shared) { s.down = true }, func(s *shared) { s.down = false }},
		"hangs":   {func(s *shared) { s.hang = 2 * time.Second }, func(s *shared) { s.hang = 0 }},
		"empties": {func(s *shared) { s.down = true }, func(s *shared) { s.down, s.line = false, line.New() }},
		"forgets": {func(s *shared) { s.down, s.line = true, s.line.Clone() }, func(s *shared) { s.down = false }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, set, start := newWorld(t), settings(175), time.Now()
				w.shared.projected = true
				w.crowd(15_000)
				_, stop := w.issuer("a", set, &w.shared)
				time.Sleep(5 * time.Second)
				var older *line.Line
				w.shared.set(func(s *shared) { older = s.line.Clone() })
				time.Sleep(5 * time.Second)
				w.shared.set(c.kill)
				time.Sleep(20 * time.Second)
				w.shared.set(c.mend)
				if name == "forgets" {
					w.shared.set(func(s *shared) { s.line = older })
				}
				time.Sleep(30 * time.Second)
				stop()
				all := w.admissions()
				checkNobodySkipped(t, all)
				checkRate(t, all, set)
				modes, at := w.switches()
				if want := []queue.Mode{queue.ModeRedis, queue.ModeDirect, queue.ModeRedis}; len(modes) != 3 || modes[1] != want[1] || modes[2] != want[2] {
					t.Fatalf("claims %v, want %v", modes, want)
				}
				pause := longestPause(all)
				if pause >= 4*time.Second {
					t.Errorf("a pause of %v", pause)
				}
				t.Logf("longest pause %v; direct after %v, back after %v; %d admitted", pause,
					at[1].Sub(start)-10*time.Second, at[2].Sub(at[1]), len(all))
			})
		})
	}
}

func TestFault27_ARedisThatFlapsIsLeftOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, set := newWorld(t), settings(175)
		w.shared.projected = true
		w.crowd(60_000)
		_, stop := w.issuer("a", set, &w.shared)
		for range 50 { // five minutes
			time.Sleep(3 * time.Second)
			w.shared.set(func(s *shared) { s.down = !s.down })
		}
		stop()
		all := w.admissions()
		checkNobodySkipped(t, all)
		checkRate(t, all, set)
		modes, at := w.switches()
		for i := 2; i < len(at); i++ {
			if d := at[i].Sub(at[i-1]); d < 30*time.Second {
				t.Errorf("switch %d (%v) %v after the one before", i, modes[i], d)
			}
		}
		if len(modes) < 2 {
			t.Error("it was never left")
		}
		if n := len(all); n < 24_000 {
			t.Errorf("only %d admitted in 150 seconds", n)
		}
	})
}

// The projector is dead: those already projected go in, then direct.
func TestADeadProjectorIsNoReasonToStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, set := newWorld(t), settings(175)
		w.shared.projected = true
		w.crowd(300)
		_, stop := w.issuer("a", set, &w.shared)
		time.Sleep(time.Second)
		w.shared.set(func(s *shared) { s.projected = false })
		w.crowd(3000)
		time.Sleep(15 * time.Second)
		stop()
		all := w.admissions()
		checkNobodySkipped(t, all)
		checkRate(t, all, set)
		if len(all) < 2000 {
			t.Errorf("%d admitted in 15 seconds", len(all))
		}
	})
}

// Who takes over in an outage does not wait to find out that Redis is away.
func TestASuccessorInAnOutageBeginsDirect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, set := newWorld(t), settings(175)
		w.shared.down = true
		w.crowd(500)
		_, stop := w.issuer("a", set, &w.shared)
		time.Sleep(time.Second)
		stop()
		if n := len(w.admissions()); n < 120 {
			t.Errorf("%d admitted in the first second", n)
		}
	})
}
