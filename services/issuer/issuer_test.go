package issuer

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

func settings(rate float64) queue.Settings {
	s := queue.DefaultSettings()
	s.Rate, s.ConservativeRate = rate, min(rate, s.ConservativeRate)
	return s
}

func TestTheRateIsExact(t *testing.T) {
	for _, rate := range []float64{175, 100, 3.3, 0.5, 1000.1, 10_000} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, start := newWorld(t), time.Now()
				w.crowd(int(rate*25) + 100)
				_, stop := w.issuer("a", settings(rate), nil)
				time.Sleep(22 * time.Second)
				stop()
				all := w.admissions()
				checkRate(t, all, settings(rate))
				want := int(rate * 10)
				got := count(all, start, 10*time.Second, 20*time.Second)
				// Ten seconds of a rate that is no whole number of people may end before or behind the fraction's turn.
				if slack := map[bool]int{true: 0, false: 1}[float64(want) == rate*10]; got < want || got > want+slack {
					t.Errorf("%d admitted in ten seconds, want %d", got, want)
				}
			})
		})
	}
}

func TestBatchesAre17And18ByTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.crowd(2000)
		_, stop := w.issuer("a", settings(175), nil)
		time.Sleep(5 * time.Second)
		stop()
		var sizes []int
		for _, r := range w.log {
			if r.Kind == queue.Admitted {
				sizes = append(sizes, len(r.People))
			}
		}
		if len(sizes) < 40 {
			t.Fatalf("%d batches in five seconds", len(sizes))
		}
		for i, n := range sizes[1:] {
			if n+sizes[i] != 35 || n < 17 || n > 18 {
				t.Fatalf("batches %v: they are 17 and 18 by turns", sizes)
			}
		}
	})
}

// Ten who all believe that they lead claim against each other without end; one of them stops between its pop and its append
// for three lease times and wakes as a zombie. Their clocks are an hour behind the broker's.
func TestFault15_TenIssuersAndAPausedLeaderKeepTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, set := newWorld(t), settings(175)
		w.shared.projected = true
		w.crowd(6000)
		var stops []func()
		var first *handle
		for i := range 10 {
			h, stop := w.issuer(fmt.Sprint("issuer", i), set, &w.shared)
			if first == nil {
				first = h
			}
			stops = append(stops, stop)
			time.Sleep(130 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		first.mu.Lock()
		first.pause = 18 * time.Second
		first.mu.Unlock()
		time.Sleep(25 * time.Second)
		for _, stop := range stops {
			stop()
		}
		all := w.admissions()
		highest := checkRate(t, all, set)
		if len(all) < 500 {
			t.Errorf("only %d admitted: nobody made progress", len(all))
		}
		t.Logf("%d admitted, highest second %d", len(all), highest)
	})
}

// The leader stops between its pop and its append; the successor hands the same people out; the late record is void.
func TestAPausedLeadersPeopleAreHandedOutByTheSuccessor(t *testing.T) {
	for _, view := range []string{"redis", "direct"} {
		t.Run(view, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, set := newWorld(t), settings(175)
				w.shared.projected = true
				var v View = &w.shared
				if view == "direct" {
					v = nil
				}
				w.crowd(3000)
				a, stopA := w.issuer("a", set, v)
				time.Sleep(time.Second)
				a.mu.Lock()
				a.pause = 18 * time.Second
				a.mu.Unlock()
				time.Sleep(6 * time.Second)
				before := len(w.admissions())
				_, stopB := w.issuer("b", set, v)
				time.Sleep(6 * time.Second)
				all := w.admissions()
				if len(all) < before+900 {
					t.Fatalf("%d admitted before the successor, %d after six seconds of it", before, len(all))
				}
				if got, want := all[before].Ticket, all[before-1].Ticket+1; got != want {
					t.Errorf("the successor began with ticket %d, and %d was popped by the paused leader", got, want)
				}
				time.Sleep(10 * time.Second) // a wakes: its record is void, it claims anew, they go on by turns
				stopA()
				stopB()
				all = w.admissions()
				checkRate(t, all, set)
				for i, adm := range all {
					if adm.Ticket != queue.Ticket(i+1) {
						t.Fatalf("admission %d has ticket %d: somebody was skipped", i+1, adm.Ticket)
					}
				}
			})
		})
	}
}

func TestFault16_NoBurstAfterAnIdleHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, set := newWorld(t), settings(175)
		w.crowd(10)
		_, stop := w.issuer("a", set, nil)
		time.Sleep(time.Hour)
		w.crowd(1000)
		time.Sleep(3 * time.Second)
		stop()
		all := w.admissions()
		checkRate(t, all, set)
		first := 0
		for _, a := range all[10:] {
			if a.atMs == all[10].atMs {
				first++
			}
		}
		if first > 18 {
			t.Errorf("the first batch after an idle hour had %d people", first)
		}
	})
}

func TestFault16_NoBurstAfterAStallOfTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, set, start := newWorld(t), settings(175), time.Now()
		w.crowd(5000)
		_, stop := w.issuer("a", set, nil)
		time.Sleep(5 * time.Second)
		w.mu.Lock()
		w.stall = time.Now().Add(5 * time.Second)
		w.mu.Unlock()
		time.Sleep(10 * time.Second)
		stop()
		all := w.admissions()
		checkRate(t, all, set)
		if got := count(all, start, 10*time.Second, 11*time.Second); got > 193 {
			t.Errorf("%d admitted in the second after a stall of five", got)
		}
		if got := count(all, start, 10*time.Second, 14*time.Second); got > 700+18+18 { // the batch that was in hand when it began, and one
			t.Errorf("%d admitted in the four seconds after a stall of five: it earned more than one batch", got)
		}
		if got := count(all, start, 12*time.Second, 14*time.Second); got != 350 {
			t.Errorf("%d admitted in two seconds once running again, want 350", got)
		}
	})
}

// A tick that is late by less than an interval loses nobody.
func TestLateTicksLoseNobody(t *testing.T) {
	now := time.Unix(0, 0)
	set := settings(175)
	p, sum := NewPacer(set, now), 0
	for i := range 1000 {
		late := time.Duration(i*37%90) * time.Millisecond
		at := now.Add(time.Duration(i+1)*set.Interval + late)
		n := p.Allow(at)
		p.Spend(at.Add(5*time.Millisecond), n)
		sum += n
	}
	if want := 17_500; sum < want-18 || sum > want+18 {
		t.Errorf("%d in a hundred seconds of late ticks, want %d", sum, want)
	}
}

func TestFault17_RatesThatChangeWhileRunning(t *testing.T) {
	now := time.Unix(0, 0)
	p := NewPacer(settings(1000), now)
	var spent []spending
	for i := range 600 {
		now = now.Add(100 * time.Millisecond)
		rate := []float64{1000, 3, 175, 10_000, 0.5, 50}[i/100]
		p.Set(settings(rate))
		n := p.Allow(now)
		p.Spend(now, n)
		spent = append(spent, spending{now, n})
		sum := 0
		for _, s := range spent {
			if s.until.After(now.Add(-time.Second)) {
				sum += s.people
			}
		}
		// In the second after a change down, what was let in before still counts: then nobody goes.
		if n > 0 && float64(sum) > rate*1.1+1 {
			t.Fatalf("step %d at rate %v: %d in a second", i, rate, sum)
		}
	}
	for _, rate := range []float64{0, -1, 1e12} {
		if settings(rate).Validate() == nil {
			t.Errorf("a rate of %v is taken", rate)
		}
	}
}

func TestFault09_LostRepliesLoseNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, set := newWorld(t), settings(175)
		w.shared.projected = true
		w.crowd(1500)
		_, stop := w.issuer("a", set, &w.shared)
		for range 20 {
			time.Sleep(210 * time.Millisecond)
			w.shared.set(func(s *shared) { s.cut = 2 })
		}
		time.Sleep(10 * time.Second)
		stop()
		all := w.admissions()
		checkRate(t, all, set)
		if len(all) != 1500 {
			t.Errorf("%d of 1,500 admitted", len(all))
		}
	})
}
