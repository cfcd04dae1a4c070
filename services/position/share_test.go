package position

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// places is a view that answers after a while, fails or hangs.
type places struct {
	mu      sync.Mutex
	delay   time.Duration
	err     error
	calls   int
	asked   int
	largest int
	at      int // calls under way
	most    int
}

func (p *places) set(delay time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay, p.err = delay, err
}

func (p *places) called() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

// Places answers visitor "v<n>" with ticket n.
func (p *places) Places(ctx context.Context, visitors []queue.Visitor) (queue.Moment, []queue.Place, error) {
	p.mu.Lock()
	p.calls++
	p.asked += len(visitors)
	p.largest = max(p.largest, len(visitors))
	p.at++
	p.most = max(p.most, p.at)
	delay, err := p.delay, p.err
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.at--
	}()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return queue.Moment{}, nil, ctx.Err()
	}
	if err != nil {
		return queue.Moment{}, nil, err
	}
	out := make([]queue.Place, len(visitors))
	for i, v := range visitors {
		_, _ = fmt.Sscanf(v, "v%d", &out[i].Ticket)
		out[i].Ahead = int64(out[i].Ticket) - 1
	}
	return moment(1_000_000, 0, 1_000_000), out, nil
}

func TestConcurrentQuestionsShareCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &places{delay: 10 * time.Millisecond}
		s := Share(p)
		const n = 5000
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				m, place, err := s.Place(t.Context(), fmt.Sprint("v", i+1))
				if err != nil || place.Ticket != queue.Ticket(i+1) || m.Seq != 1_000_000 {
					t.Errorf("v%d: %+v %+v %v", i+1, m, place, err)
				}
			})
		}
		began := time.Now()
		all.Wait()
		require.Equal(t, n, p.asked)
		require.Equal(t, maxBatch, p.largest)
		require.Equal(t, maxCalls, p.most)
		require.LessOrEqual(t, p.calls, 25)
		require.LessOrEqual(t, time.Since(began), time.Duration(n/maxBatch/maxCalls+2)*p.delay)

		// One alone waits for nobody.
		began = time.Now()
		_, _, err := s.Place(t.Context(), "v1")
		require.NoError(t, err)
		require.Equal(t, p.delay, time.Since(began))
	})
}

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &places{err: errAway}
		s := Share(p)
		ask := func() (time.Duration, error) {
			began := time.Now()
			_, _, err := s.Place(t.Context(), "v1")
			return time.Since(began), err
		}
		refused := func(calls int) { // without being asked
			t.Helper()
			took, err := ask()
			require.ErrorIs(t, err, errAway)
			require.Zero(t, took)
			require.Equal(t, calls, p.called())
		}
		// closed → open
		_, err := ask()
		require.ErrorIs(t, err, errAway)
		refused(1)
		time.Sleep(restAfter - time.Millisecond)
		refused(1)
		// One tries, slowly; whoever comes meanwhile is refused at once. It fails: open again, for as long.
		time.Sleep(time.Millisecond)
		p.set(100*time.Millisecond, errAway)
		var tries sync.WaitGroup
		tries.Go(func() {
			took, err := ask()
			require.ErrorIs(t, err, errAway)
			require.Equal(t, 100*time.Millisecond, took)
		})
		synctest.Wait()
		refused(2)
		time.Sleep(99 * time.Millisecond)
		refused(2)
		tries.Wait()
		time.Sleep(restAfter - time.Millisecond)
		refused(2)
		// Another tries, and it is answered: closed, for everybody.
		time.Sleep(time.Millisecond)
		p.set(100*time.Millisecond, nil)
		tries.Go(func() {
			_, err := ask()
			require.NoError(t, err)
		})
		synctest.Wait()
		refused(3)
		tries.Wait()
		for range 3 {
			_, err = ask()
			require.NoError(t, err)
		}
		require.Equal(t, 6, p.called())
	})
}

// When a call fails, those who gather for the next one are told so with it.
func TestAFailureIsToldToAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &places{delay: time.Hour}
		s := Share(p)
		var all sync.WaitGroup
		began := time.Now()
		for range 10 * maxBatch {
			all.Go(func() {
				if _, _, err := s.Place(t.Context(), "v1"); err == nil {
					t.Error("answered")
				}
			})
		}
		all.Wait()
		require.Equal(t, callTimeout, time.Since(began))
		require.Equal(t, maxCalls, p.calls)
	})
}

// crowd polls q for a while, everybody every 250 ms, and returns how long the answers took, in order.
func crowd(t *testing.T, q *Queue, people int, while time.Duration, check func(answer)) []time.Duration {
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	end := time.Now().Add(while)
	for i := range people {
		all.Go(func() {
			time.Sleep(time.Duration(i) * 250 * time.Millisecond / time.Duration(people))
			r := pass.Receipt{Queue: "main", Visitor: fmt.Sprint("v", i+1), Ticket: queue.Ticket(i + 1), Ahead: queue.NoAhead}
			for time.Now().Before(end) {
				began := time.Now()
				a, err := q.ask(t.Context(), r, plain(), began)
				mu.Lock()
				took = append(took, time.Since(began))
				if err != nil {
					t.Errorf("%s: %v", r.Visitor, err)
				}
				check(a)
				mu.Unlock()
				time.Sleep(250 * time.Millisecond)
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	return took
}

func TestFault26_RedisAwayOrSlow(t *testing.T) {
	for name, tc := range map[string]struct {
		delay time.Duration
		err   error
	}{
		"hangs":          {time.Hour, nil},
		"two seconds":    {2 * time.Second, nil},
		"refuses":        {0, errAway},
		"refuses slowly": {300 * time.Millisecond, errAway},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &places{delay: 2 * time.Millisecond}
				q := &Queue{View: Share(p), Reading: &stub{state: queue.State{Seq: 2000}}}
				crowd(t, q, 1000, 2*time.Second, func(a answer) {
					if !a.exact || a.ahead != int64(a.ticket)-1 {
						t.Errorf("got %+v", a)
					}
				})
				p.set(tc.delay, tc.err)
				before := p.called()
				took := crowd(t, q, 1000, 20*time.Second, func(a answer) {
					if a.exact || a.ahead != int64(a.ticket)-1 {
						t.Errorf("got %+v", a)
					}
				})
				require.Less(t, took[len(took)*99/100], 500*time.Millisecond, "p99")
				require.LessOrEqual(t, took[len(took)-1], 2*callTimeout)
				require.Zero(t, took[len(took)*9/10], "nearly nobody waits for it")
				require.LessOrEqual(t, p.called()-before, 20+maxCalls, "it is left alone")

				p.set(2*time.Millisecond, nil)
				time.Sleep(restAfter)
				_, err := q.ask(t.Context(), pass.Receipt{Visitor: "v1", Ticket: 1, Ahead: queue.NoAhead}, plain(), time.Now())
				require.NoError(t, err)
				crowd(t, q, 1000, time.Second, func(a answer) {
					if !a.exact {
						t.Errorf("not exact though the view is back: %+v", a)
					}
				})
			})
		})
	}
}
