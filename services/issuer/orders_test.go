package issuer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// holding is the highest number of admissions that held at one time, by the log: each until it was released, or leeway after its
// end.
func (w *world) holding() (highest int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	type slot struct{ from, to int64 }
	slots := map[queue.Ticket]*slot{}
	epoch, served := queue.Ticket(0), queue.Ticket(0)
	for _, r := range w.log {
		switch r.Kind {
		case queue.Claimed:
			epoch = r.Ticket
		case queue.Ended:
			served = r.Ticket
		case queue.Admitted:
			for _, p := range r.People {
				if r.Epoch == epoch && p.Ticket > served {
					served = p.Ticket
					slots[p.Ticket] = &slot{r.AtMs, p.ExpiresMs + pass.Leeway.Milliseconds()}
				}
			}
			now := 0
			for _, s := range slots {
				if s.from <= r.AtMs && r.AtMs < s.to {
					now++
				}
			}
			highest = max(highest, now)
		case queue.Released:
			if s := slots[r.Of]; s != nil {
				s.to = min(s.to, r.AtMs)
			}
		}
	}
	return highest
}

func TestCapacityIsNeverExceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, set := newWorld(t), settings(175)
		set.MaxActive, set.GrantTTL = 40, 20*time.Second
		w.shared.projected = true
		w.crowd(2000)
		_, stop := w.issuer("a", set, &w.shared)
		time.Sleep(5 * time.Second)
		all := w.admissions()
		require.Len(t, all, 40, "as many as there is room for, at the rate")

		// The site completes two: two others come within a batch.
		w.write(queue.Record{Kind: queue.Released, Visitor: all[3].Visitor, Of: all[3].Ticket})
		w.write(queue.Record{Kind: queue.Released, Visitor: all[7].Visitor, Of: all[7].Ticket})
		w.write(queue.Record{Kind: queue.Released, Visitor: all[7].Visitor, Of: all[7].Ticket}) // said twice
		time.Sleep(120 * time.Millisecond)
		require.Len(t, w.admissions(), 42)

		// Redis dies, empties and returns, and leaders change; those who never came free their room when the gate would refuse them.
		w.shared.set(func(s *shared) { s.down = true })
		time.Sleep(10 * time.Second)
		stop()
		_, stop = w.issuer("b", set, &w.shared)
		time.Sleep(9 * time.Second)
		require.Len(t, w.admissions(), 42, "their grants are over, and a gate with a slow clock may still let them in")
		w.shared.set(func(s *shared) { s.down = false })
		time.Sleep(60 * time.Second)
		stop()
		_, stop = w.issuer("c", set, &w.shared)
		time.Sleep(120 * time.Second)
		stop()
		all = w.admissions()
		checkRate(t, all, set)
		checkNobodySkipped(t, all)
		require.Greater(t, len(all), 150)
		require.Equal(t, 40, w.holding())
	})
}

// What was handed out and is no more than a part of what there is room for goes in parts, in order; nobody of it is lost.
func TestALowerCapacityLetsABatchGoInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, set := newWorld(t), settings(175)
		w.shared.projected = true
		w.crowd(300)
		a, stopA := w.issuer("a", set, &w.shared)
		time.Sleep(550 * time.Millisecond)
		a.mu.Lock()
		a.pause = time.Minute // it stops with a batch in its hands
		a.mu.Unlock()
		time.Sleep(200 * time.Millisecond)
		before := len(w.admissions())
		w.operate(func(e *queue.Entry) { e.Settings.MaxActive, e.Settings.GrantTTL = int64(before+5), 10*time.Minute })
		_, stopB := w.issuer("b", set, &w.shared)
		time.Sleep(5 * time.Second)
		all := w.admissions()
		require.Len(t, all, before+5)
		for _, p := range all[:30] {
			w.write(queue.Record{Kind: queue.Released, Visitor: p.Visitor, Of: p.Ticket})
		}
		time.Sleep(3 * time.Second)
		all = w.admissions()
		require.Len(t, all, before+35)
		checkNobodySkipped(t, all)
		time.Sleep(time.Minute)
		stopA()
		stopB()
	})
}

func TestAPauseStopsAdmissionsAndEarnsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, set, start := newWorld(t), settings(175), time.Now()
		w.crowd(5000)
		_, stop := w.issuer("a", set, nil)
		time.Sleep(3 * time.Second)
		w.operate(func(e *queue.Entry) { e.Paused = true })
		time.Sleep(30 * time.Second)
		w.operate(func(e *queue.Entry) { e.Paused = false })
		time.Sleep(5 * time.Second)
		stop()
		all := w.admissions()
		checkRate(t, all, set)
		require.Zero(t, count(all, start, 3200*time.Millisecond, 33*time.Second), "obeyed at the next tick")
		require.GreaterOrEqual(t, count(all, start, 33*time.Second, 38*time.Second), 175*38/10, "and goes on within a second or so")
	})
}

func TestRatesAndRulesAreObeyedWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, set, start := newWorld(t), settings(175), time.Now()
		w.crowd(5000)
		_, stop := w.issuer("a", set, nil)
		time.Sleep(5 * time.Second)
		w.operate(func(e *queue.Entry) { e.Settings.Rate, e.Settings.Reentry = 20, queue.Keep })
		time.Sleep(10 * time.Second)
		stop()
		all := w.admissions()
		require.Equal(t, 100, count(all, start, 10*time.Second, 15*time.Second))
		require.Equal(t, queue.Keep, w.State().Reentry, "what the fold depends on is in the log")
	})
}

func TestNobodyGoesBeforeTheOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, set, start := newWorld(t), settings(175), time.Now()
		set.OpensAtMs = start.Add(clockAhead + 90*time.Second).UnixMilli()
		w.crowd(1000)
		_, stop := w.issuer("a", set, nil)
		time.Sleep(100 * time.Second)
		stop()
		all := w.admissions()
		checkRate(t, all, set)
		checkNobodySkipped(t, all)
		require.Zero(t, count(all, start, 0, 90*time.Second))
		require.GreaterOrEqual(t, count(all, start, 90*time.Second, 92*time.Second), 315, "and from then on at the rate")
	})
}

func TestTheLotDecidesWhoEnteredBeforeTheOpening(t *testing.T) {
	for _, view := range []string{"redis", "direct", "redis dies at the opening"} {
		t.Run(view, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, set, start := newWorld(t), settings(175), time.Now()
				w.shared.projected = true
				var v View = &w.shared
				if view == "direct" {
					v = nil
				}
				set.OpensAtMs, set.Order = start.Add(clockAhead+30*time.Second).UnixMilli(), queue.ByDraw
				seed := queue.Seed{42}
				w.entry = &queue.Entry{ID: "main", Version: 1, Settings: set, Sealed: seed[:]}
				w.crowd(1000)
				_, stop := w.issuer("a", set, v)
				time.Sleep(29 * time.Second)
				if view == "redis dies at the opening" {
					w.shared.set(func(s *shared) { s.down = true })
				}
				time.Sleep(5 * time.Second)
				w.crowd(200) // after the opening: behind, in the order of arrival
				if view == "redis" {
					stop()
					_, stop = w.issuer("b", set, v) // leaders change; there is one draw
				}
				time.Sleep(20 * time.Second)
				stop()
				draw := w.State().Draw
				require.NotZero(t, draw.At)
				require.Equal(t, seed, draw.Seed)
				all := w.admissions()
				checkRate(t, all, set)
				require.Len(t, all, 1200)
				require.Zero(t, count(all, start, 0, 30*time.Second))
				order := 0
				entered := map[queue.Visitor]queue.Ticket{}
				for _, r := range w.log {
					if r.Kind == queue.Entered {
						entered[r.Visitor] = r.Ticket
					}
				}
				for i, a := range all {
					require.Equal(t, draw.Number(entered[a.Visitor]), a.Ticket)
					if i > 0 && i < 1000 && entered[a.Visitor] > entered[all[i-1].Visitor] {
						order++
					}
				}
				require.InDelta(t, 500, order, 100, "the order of arrival says nothing about the order of going in")
				for i := 1000; i < 1200; i++ {
					require.Equal(t, "v"+itoa(i+1), all[i].Visitor)
				}
			})
		})
	}
}

// A seed that was sealed with another secret can't be opened: nobody is let in in an order that was not promised.
func TestASealedSeedKeepsTheQueueClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, set := newWorld(t), settings(175)
		set.OpensAtMs, set.Order = time.Now().Add(clockAhead+time.Second).UnixMilli(), queue.ByDraw
		w.entry = &queue.Entry{ID: "main", Version: 1, Settings: set, Sealed: []byte("another's")}
		w.crowd(100)
		_, stop := w.issuer("a", set, nil)
		time.Sleep(20 * time.Second)
		require.Empty(t, w.admissions())
		seed := queue.Seed{1}
		w.operate(func(e *queue.Entry) { e.Sealed = seed[:] })
		time.Sleep(5 * time.Second)
		stop()
		require.Len(t, w.admissions(), 100)
	})
}

func TestSoldOutEndsTheLineAndCanBeReopened(t *testing.T) {
	for _, view := range []string{"redis", "direct"} {
		t.Run(view, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, set := newWorld(t), settings(175)
				w.shared.projected = true
				var v View = &w.shared
				if view == "direct" {
					v = nil
				}
				w.crowd(1000)
				_, stop := w.issuer("a", set, v)
				time.Sleep(2 * time.Second)
				w.operate(func(e *queue.Entry) { e.Closed, e.Ending, e.Why = true, true, queue.WhySoldOut })
				time.Sleep(1500 * time.Millisecond)
				in := len(w.admissions())
				require.Zero(t, w.Waiting())
				s := w.State()
				require.Equal(t, queue.End{At: s.End.At, Why: queue.WhySoldOut, Over: true}, s.End)
				w.crowd(10) // taken by an enter service that had not heard of it yet
				time.Sleep(5 * time.Second)
				require.Zero(t, w.Waiting())
				w.operate(func(e *queue.Entry) { e.Closed, e.Ending, e.Why = false, false, "" })
				time.Sleep(1500 * time.Millisecond)
				w.crowd(30)
				time.Sleep(3 * time.Second)
				stop()
				all := w.admissions()
				require.Len(t, all, in+30)
				require.Equal(t, "v"+itoa(1011), all[in].Visitor)
			})
		})
	}
}

// Who leads a queue in which nobody waits asks nobody for anything, and whoever comes is let in as soon as ever.
func TestAnIdleQueueCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, set := newWorld(t), settings(175)
		w.shared.projected = true
		_, stop := w.issuer("a", set, &w.shared)
		time.Sleep(5 * time.Second)
		asks := func() (n int) {
			w.shared.set(func(s *shared) { n = s.asked })
			return n
		}
		asked := asks()
		require.Less(t, asked, 3)
		time.Sleep(time.Hour)
		require.Equal(t, asked, asks())
		for i := range 20 {
			time.Sleep(time.Duration(i*37%100)*time.Millisecond + 7*time.Second)
			came := time.Now()
			w.crowd(1)
			time.Sleep(150 * time.Millisecond)
			all := w.admissions()
			require.Len(t, all, i+1)
			require.Less(t, all[i].atMs-came.Add(clockAhead).UnixMilli(), int64(110))
		}
		records := int(w.State().Seq)
		time.Sleep(time.Hour)
		stop()
		require.LessOrEqual(t, len(w.log), records+2, "no checkpoint says what the last one said")
	})
}
