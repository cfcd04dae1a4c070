package drill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// room is a waiting room by its HTTP contract. Its answers are what the test says.
type room struct {
	mu     sync.Mutex
	came   int
	polls  map[string]int // by the receipt that was given at entering
	latest map[string]string
	enter  func(n int) (status int, body string)                 // of the n-th entry, from 1
	place  func(visitor string, n int) (status int, body string) // of a visitor's n-th question, from 1
	stale  int                                                   // questions not with the newest receipt
}

func (r *room) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	status, body := http.StatusAccepted, ""
	if req.Method == http.MethodPost {
		r.came++
		body = fmt.Sprintf(`{"ticket":%d,"receipt":"%d.0"}`, r.came, r.came)
		if r.enter != nil {
			status, body = r.enter(r.came)
		}
	} else {
		receipt := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
		visitor, _, _ := strings.Cut(receipt, ".")
		if want := r.latest[visitor]; want != "" && want != receipt {
			r.stale++
		}
		r.polls[visitor]++
		status, body = r.place(visitor, r.polls[visitor])
		if strings.Contains(body, "RENEWED") {
			r.latest[visitor] = fmt.Sprintf("%s.%d", visitor, r.polls[visitor])
			body = strings.ReplaceAll(body, "RENEWED", r.latest[visitor])
		}
	}
	if status == 0 {
		return nil, errors.New(body)
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}, Request: req}, nil
}

func exactly(position int) string {
	return fmt.Sprintf(`{"state":"waiting","position":%d,"total":%d,"precision":"exact","receipt":"RENEWED","retryAfterMs":1000}`, position, position+5)
}

func about(position int) string {
	return fmt.Sprintf(`{"state":"waiting","position":%d,"precision":"approximate","retryAfterMs":1000}`, position)
}

const letInBody = `{"state":"admitted","token":"t"}`

// sights is what pollers reported.
type sights struct {
	mu     sync.Mutex
	told_  []bool
	errors []string
	firsts int
}

func (s *sights) told(_ time.Time, exact bool, _ int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told_ = append(s.told_, exact)
}

func (s *sights) error(_ time.Time, _ int, kind string, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errors = append(s.errors, kind)
	if first {
		s.firsts++
	}
}

// stand lets n pollers stand before r for a while, sends them home, and waits until they are in, for an hour at most.
func stand(t *testing.T, r *room, n int, d time.Duration) (Watchers, *sights) {
	t.Helper()
	r.polls, r.latest = map[string]int{}, map[string]string{}
	s := &sights{}
	p := newPollers(Config{Pollers: n, PollEvery: time.Second, Queue: "main"}, []string{"http://127.0.0.1:1"}, r, s)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	home := time.AfterFunc(d, func() { close(p.enough) })
	defer home.Stop()
	p.run(ctx)
	return p.report(), s
}

func TestPollersComeAgainUntilTheyAreSentHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &room{place: func(_ string, n int) (int, string) {
			switch {
			case n > 10:
				return 200, letInBody
			case n > 5:
				return 200, about(20 - n)
			}
			return 200, exactly(20 - n)
		}}
		w, s := stand(t, r, 20, 25*time.Second)
		require.Empty(t, w.Broken)
		require.Empty(t, w.Errors)
		require.Equal(t, int64(60), w.Came, "11 s each: three times until they were sent home")
		require.Equal(t, w.Came, w.Admitted)
		require.Equal(t, 5*w.Came, w.Exact)
		require.Equal(t, 5*w.Came, w.Approximate)
		require.Len(t, s.told_, int(10*w.Came))
		require.Zero(t, r.stale, "each asks with its newest receipt")
	})
}

func TestPollersSeeWhatIsBroken(t *testing.T) {
	for name, c := range map[string]struct {
		want  string
		place func(n int) string
	}{
		"it rises":            {brokenRose, func(n int) string { return exactly(10 + n) }},
		"it rises by a guess": {brokenRose, func(n int) string { return map[bool]string{true: exactly(5), false: about(6)}[n == 1] }},
		"position 0":          {brokenBounds, func(int) string { return exactly(0) }},
		"above the total":     {brokenBounds, func(int) string { return `{"state":"waiting","position":9,"total":3,"precision":"exact"}` }},
		"over":                {brokenLost, func(int) string { return `{"state":"over","reason":"expired"}` }},
		"no token":            {brokenAnswer, func(int) string { return `{"state":"admitted"}` }},
		"no precision":        {brokenAnswer, func(int) string { return `{"state":"waiting","position":1}` }},
		"nonsense":            {brokenAnswer, func(int) string { return `<html>` }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _ := stand(t, &room{place: func(_ string, n int) (int, string) {
					if n > 3 {
						return 200, letInBody
					}
					return 200, c.place(n)
				}}, 1, time.Second)
				require.Len(t, w.Broken, 1)
				require.Equal(t, c.want, w.Broken[0].Invariant)
				require.NotEmpty(t, w.Broken[0].First)
			})
		})
	}
}

// A draw, the end of a line and a queue that takes nobody in are the operators' doing, and break no promise.
func TestPollersBearWithTheDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := stand(t, &room{
			enter: func(n int) (int, string) {
				if n > 4 {
					return 410, `{"code":"queue_closed"}`
				}
				return 202, fmt.Sprintf(`{"ticket":%d,"receipt":"%d.0"}`, n, n)
			},
			place: func(visitor string, n int) (int, string) {
				switch {
				case n < 4:
					return 200, `{"state":"waiting","total":4,"ticket":7,"opensInSeconds":3,"order":"draw","precision":"exact","receipt":"RENEWED"}`
				case n < 7:
					return 200, exactly(10 - n)
				case visitor == "1":
					return 200, `{"state":"over","reason":"sold_out"}`
				}
				return 200, letInBody
			},
		}, 4, time.Minute)
		require.Empty(t, w.Broken)
		require.EqualValues(t, 3, w.Admitted)
		require.EqualValues(t, 4, w.Came)
		require.Zero(t, w.Unexpected)
		require.Len(t, w.Errors, 1)
		require.Equal(t, "410 queue_closed", w.Errors[0].Kind)
	})
}

func TestPollersTellDocumentedErrorsFromOthers(t *testing.T) {
	for _, c := range []struct {
		status     int
		body, kind string
		unexpected int64
	}{
		{503, `{"code":"view_unavailable"}`, "503 view_unavailable", 0},
		{503, `{"code":"log_unavailable"}`, "503 log_unavailable", 0},
		{503, `{"code":"made_up"}`, "503", 1},
		{503, `upstream is down`, "503", 1},
		{500, `{"code":"internal"}`, "500 internal", 1},
		{502, ``, "502", 1},
		{0, "cut", "no answer", 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, s := stand(t, &room{place: func(_ string, n int) (int, string) {
				if n == 2 {
					return c.status, c.body
				}
				if n > 3 {
					return 200, letInBody
				}
				return 200, exactly(10 - n)
			}}, 3, time.Second)
			require.Equal(t, int64(3), w.Admitted, "they ask on")
			require.Len(t, w.Errors, 1)
			require.Equal(t, c.kind, w.Errors[0].Kind)
			require.Equal(t, int64(3), w.Errors[0].Count)
			require.Equal(t, 3*c.unexpected, w.Unexpected)
			require.Equal(t, 1, s.firsts)
			require.Len(t, s.errors, 3)
		})
	}
}

func TestPollersEnterUntilTheyAreIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &room{
			enter: func(n int) (int, string) {
				if n < 5 {
					return 503, `{"code":"overloaded"}`
				}
				return 202, `{"ticket":5,"receipt":"5.0"}`
			},
			place: func(string, int) (int, string) { return 200, letInBody },
		}
		w, _ := stand(t, r, 1, 5*time.Second)
		require.GreaterOrEqual(t, w.Came, int64(1))
		require.Equal(t, int64(4), w.Errors[0].Count)
		require.Zero(t, w.Unexpected)
	})
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := &room{enter: func(int) (int, string) { return 403, `{"code":"cross_site"}` }}
		w, _ := stand(t, r, 1, time.Minute)
		require.Equal(t, int64(1), w.Unexpected, "who may not enter does not try again")
		require.Zero(t, time.Since(began))
	})
}

func TestPollersWhoseReceiptIsRefusedGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := stand(t, &room{place: func(string, int) (int, string) { return 401, `{"code":"credential_invalid"}` }}, 2, time.Minute)
		require.Len(t, w.Broken, 1)
		require.Equal(t, brokenReceipt, w.Broken[0].Invariant)
		require.Equal(t, int64(2), w.Broken[0].Count)
		require.Equal(t, int64(2), w.Unexpected)
	})
}

func TestPollersStopWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w, _ := stand(t, &room{place: func(string, int) (int, string) { return 200, exactly(7) }}, 5, time.Second)
		require.Equal(t, time.Hour, time.Since(began), "nobody is ever let in")
		require.Equal(t, int64(5), w.Came)
		require.Empty(t, w.Errors)
	})
}
