package load

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/soonbeon/soonbeon/pkg/pass"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mustRun(t *testing.T, ctx context.Context, cfg Config) (*Report, string) {
	t.Helper()
	var out bytes.Buffer
	rep, err := Run(ctx, cfg, &out)
	if err != nil {
		t.Fatal(err)
	}
	return rep, out.String()
}

func crowd(room *room, n int) Config {
	return Config{Visitors: n, Keys: room.keyText, Recheck: 1, Transport: wire{handler: room}, ExpectRate: room.rate}
}

func TestEverythingHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := newRoom(t, 175)
		rep, out := mustRun(t, t.Context(), crowd(room, 2000))
		if !rep.OK() || rep.ExitCode() != ExitOK {
			t.Fatalf("a sound room was found broken:\n%s", out)
		}
		if rep.Accepted != 2000 || rep.Admitted != 2000 || rep.Rechecked != 2000 || !rep.Verified || rep.Order.Compared != 2000 {
			t.Errorf("counts are wrong:\n%s", out)
		}
		if rep.Rate.HighestSecond != 175 || *rep.Rate.Mean < 174 || *rep.Rate.Mean > 176 || rep.Rate.LargestBatch != 18 {
			t.Errorf("the rate is wrong: %+v, mean %v", rep.Rate, *rep.Rate.Mean)
		}
		for _, want := range []string{"accepted    2,000 ", "every one acknowledged", "every token verified", "kept", "no one passed anyone (2,000 compared)",
			"highest second: 175", "as told", "errors      none", "held        everything"} {
			if !strings.Contains(out, want) {
				t.Errorf("the summary lacks %q:\n%s", want, out)
			}
		}
		if room.untimely > 0 || room.stale > 0 {
			t.Errorf("of %d polls, %d at another time than told, %d not with the newest receipt", rep.Polls, room.untimely, room.stale)
		}
	})
}

func TestEachBrokenPromiseIsFound(t *testing.T) {
	forger := newRoom(t, 1).keys
	at := func(tickets ...int64) map[int64]bool {
		m := map[int64]bool{}
		for _, n := range tickets {
			m[n] = true
		}
		return m
	}
	for _, c := range []struct {
		name     string
		breaks   func(*room)
		cfg      func(*Config)
		want     string
		count    int64 // 0: at least once
		lost     int64
		admitted int64
	}{
		{name: "one person is never admitted", breaks: func(r *room) { r.lose = at(40) }, want: brokenPassed, count: 1, lost: 1, admitted: 299},
		{name: "one person is told it is over", breaks: func(r *room) { r.over = at(250) }, want: brokenLost, count: 1, lost: 1, admitted: 299},
		{name: "a visitor is admitted twice", breaks: func(r *room) { r.readmit = at(7) }, want: brokenTwice, count: 1, admitted: 300},
		{name: "a ticket admits two visitors", breaks: func(r *room) { r.shareTicket = map[int64]int64{70: 71} }, want: brokenTwice, count: 1, admitted: 300},
		{name: "two visitors get one identity", breaks: func(r *room) { r.sameID = map[int64]string{3: "x", 4: "x"} }, want: brokenTwice},
		{name: "two people change places", breaks: func(r *room) { r.swap = [2]int64{60, 200} }, want: brokenOrder, admitted: 300},
		{name: "a position rises", breaks: func(r *room) { r.rise = map[int64]int{290: 2} }, want: brokenRose, count: 1, admitted: 300},
		{name: "too many in a second", breaks: func(r *room) { r.burstAt = 100 }, want: brokenRate, count: 1, admitted: 300},
		{name: "waiting after admitted", breaks: func(r *room) { r.waitAgain = at(9) }, want: brokenAfter, count: 1, admitted: 300},
		{name: "a receipt is refused", breaks: func(r *room) { r.refuse = at(150) }, want: brokenReceipt, count: 1, lost: 1, admitted: 299},
		{name: "position 0", breaks: func(r *room) { r.zero = at(299) }, want: brokenBounds, admitted: 300},
		{name: "total below position", breaks: func(r *room) { r.tooFew = at(299) }, want: brokenBounds, admitted: 300},
		{name: "no time to ask again", breaks: func(r *room) { r.noWait = at(299) }, want: brokenAnswer, admitted: 300},
		{name: "a 202 without a ticket", breaks: func(r *room) { r.noTicket = at(5) }, want: brokenAnswer},
		{name: "waiting with a later ticket", breaks: func(r *room) { r.otherTicket = at(290) }, want: brokenTicket, admitted: 300},
		{name: "a forged token", breaks: func(r *room) { r.forge = map[int64]*pass.Keys{33: forger} }, want: brokenToken, count: 1, lost: 1, admitted: 299},
		{name: "an expired token", breaks: func(r *room) { r.late = map[int64]time.Duration{33: time.Hour} }, want: brokenToken, count: 1, lost: 1, admitted: 299},
		{name: "an expired token, without keys", breaks: func(r *room) { r.late = map[int64]time.Duration{33: time.Hour} },
			cfg: func(c *Config) { c.Keys = "" }, want: brokenToken, count: 1, lost: 1, admitted: 299},
		{name: "another expiry beside the token", breaks: func(r *room) { r.wrongExpiry = at(33) }, want: brokenToken, count: 1, lost: 1, admitted: 299},
		{name: "a token for somebody else", breaks: func(r *room) { r.stranger = at(33) }, want: brokenToken, count: 1, lost: 1, admitted: 299},
		{name: "a refresh makes somebody else", breaks: func(r *room) { r.becomes = true },
			cfg: func(c *Config) { c.Refresh = 0.01 }, want: brokenIdentity},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				room := newRoom(t, 50)
				c.breaks(room)
				cfg := crowd(room, 300)
				if c.cfg != nil {
					c.cfg(&cfg)
				}
				rep, out := mustRun(t, t.Context(), cfg)
				if rep.OK() || rep.ExitCode() != ExitBroken {
					t.Fatalf("not found:\n%s", out)
				}
				var found *Breach
				for i, b := range rep.Broken {
					if b.Invariant == c.want {
						found = &rep.Broken[i]
					}
				}
				if found == nil || found.First == "" || (c.count > 0 && found.Count != c.count) {
					t.Fatalf("want %s, %d times:\n%s", c.want, c.count, out)
				}
				if rep.Lost != c.lost || c.admitted > 0 && rep.Admitted != c.admitted {
					t.Errorf("lost %d and admitted %d, want %d and %d:\n%s", rep.Lost, rep.Admitted, c.lost, c.admitted, out)
				}
				if !strings.Contains(out, "BROKEN") || !strings.Contains(out, found.First) || strings.Contains(out, "held  ") {
					t.Errorf("the summary hides it:\n%s", out)
				}
			})
		})
	}
}

func TestWithoutKeysSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := crowd(newRoom(t, 100), 100)
		cfg.Keys = ""
		rep, out := mustRun(t, t.Context(), cfg)
		if !rep.OK() || rep.Verified || !strings.Contains(out, "not verified: no keys given") {
			t.Error(out)
		}
	})
}

func TestUnavailableIsTriedAgainWithTheSameKeyWhenTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := newRoom(t, 100)
		var mu sync.Mutex
		sent := map[string][]time.Time{}
		cfg := crowd(room, 50)
		cfg.Transport = wire{room, func(req *http.Request, serve func() *http.Response) (*http.Response, error) {
			if req.Method == http.MethodPost {
				mu.Lock()
				defer mu.Unlock()
				key := req.Header.Get("Idempotency-Key")
				sent[key] = append(sent[key], time.Now())
				if len(sent[key]) < 3 {
					return unavailable(2), nil
				}
			}
			return serve(), nil
		}}
		rep, out := mustRun(t, t.Context(), cfg)
		if !rep.OK() {
			t.Fatal(out)
		}
		if len(sent) != 50 {
			t.Errorf("%d keys for 50 visitors", len(sent))
		}
		for _, at := range sent {
			if len(at) != 3 {
				t.Fatalf("a key was sent %d times", len(at))
			}
			for i := 1; i < len(at); i++ {
				if pause := at[i].Sub(at[i-1]); pause < 2*time.Second || pause > 2200*time.Millisecond {
					t.Errorf("Retry-After: 2, and it came back after %v", pause)
				}
			}
		}
		if len(rep.Errors) != 1 || rep.Errors[0] != (ErrorCount{"enter", "503 log_unavailable", 100}) {
			t.Errorf("errors: %+v", rep.Errors)
		}
		if !strings.Contains(out, "enter: 503 log_unavailable") {
			t.Error(out)
		}
	})
}

// Fault 2: the entry was written, its answer was lost. The repetition keeps the first ticket, whatever number the
// second answer carries, and that is no broken promise.
func TestLostAnswerToAnEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := newRoom(t, 100)
		var mu sync.Mutex
		met := map[string]bool{}
		cfg := crowd(room, 50)
		cfg.Transport = wire{room, func(req *http.Request, serve func() *http.Response) (*http.Response, error) {
			res := serve()
			key := req.Header.Get("Idempotency-Key")
			mu.Lock()
			first := key != "" && !met[key]
			met[key] = true
			mu.Unlock()
			if first {
				<-req.Context().Done()
				return nil, req.Context().Err()
			}
			return res, nil
		}}
		rep, out := mustRun(t, t.Context(), cfg)
		if !rep.OK() || rep.Admitted != 50 || len(room.byID) != 50 {
			t.Fatalf("%d places\n%s", len(room.byID), out)
		}
		if len(rep.Errors) != 1 || rep.Errors[0] != (ErrorCount{"enter", "timeout", 50}) {
			t.Errorf("errors: %+v", rep.Errors)
		}
	})
}

func TestPositionErrorsAreNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := newRoom(t, 100)
		n := 0
		var mu sync.Mutex
		cfg := crowd(room, 100)
		cfg.Transport = wire{room, func(req *http.Request, serve func() *http.Response) (*http.Response, error) {
			mu.Lock()
			n++
			bad := req.Method == http.MethodGet && n > 110 && n%3 == 0
			mu.Unlock()
			if bad {
				return unavailable(1), nil
			}
			return serve(), nil
		}}
		rep, out := mustRun(t, t.Context(), cfg)
		if !rep.OK() || len(rep.Errors) != 1 || rep.Errors[0].Step != "position" {
			t.Error(out)
		}
	})
}

func TestRefreshMovesBackAndIsNoBreach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := newRoom(t, 50)
		cfg := crowd(room, 400)
		cfg.Refresh = 0.25
		rep, out := mustRun(t, t.Context(), cfg)
		if !rep.OK() || rep.Refreshed == 0 || rep.Refreshed > 100 || rep.Order.Compared != 400 {
			t.Errorf("%d refreshed\n%s", rep.Refreshed, out)
		}
	})
}

func TestEndsByItselfWhenTheTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := crowd(newRoom(t, 10), 1000)
		cfg.Timeout = 20 * time.Second
		start := time.Now()
		rep, out := mustRun(t, t.Context(), cfg)
		if took := time.Since(start); took != cfg.Timeout {
			t.Errorf("ended after %v", took)
		}
		if rep.OK() || rep.ExitCode() != ExitIncomplete || rep.Cut != "timeout" || rep.Accepted != 1000 || rep.Waiting != 1000-rep.Admitted || rep.Admitted == 0 {
			t.Error(out)
		}
		for _, want := range []string{"cut short", "the time was up", "still wait", "incomplete", "kept"} {
			if !strings.Contains(out, want) {
				t.Errorf("lacks %q:\n%s", want, out)
			}
		}
	})
}

func TestEndsByItselfWhenNothingEverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := newRoom(t, 10)
		cfg := crowd(room, 1000)
		cfg.Timeout = 30 * time.Second
		cfg.Transport = wire{room, func(req *http.Request, serve func() *http.Response) (*http.Response, error) {
			if req.Method == http.MethodGet {
				return serve(), nil
			}
			<-req.Context().Done()
			return nil, req.Context().Err()
		}}
		rep, out := mustRun(t, t.Context(), cfg)
		if rep.OK() || rep.Cut != "timeout" || rep.Accepted != 0 || rep.Unknown != 1000 {
			t.Error(out)
		}
	})
}

func TestInterruptedTellsWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stop := time.AfterFunc(7*time.Second, cancel)
		defer stop.Stop()
		rep, out := mustRun(t, ctx, crowd(newRoom(t, 10), 200))
		if rep.Cut != "interrupted" || rep.Elapsed != 7*time.Second || rep.Admitted == 0 || len(rep.Errors) != 0 || rep.OK() {
			t.Errorf("%+v\n%s", rep, out)
		}
		if !strings.Contains(out, "interrupted") || !strings.Contains(out, "00:05  entered 200/200") {
			t.Error(out)
		}
	})
}

// What was under way when the run was interrupted is no error of the target's.
func TestInterruptedRequestsAreNoErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stop := time.AfterFunc(time.Second, cancel)
		defer stop.Stop()
		cfg := crowd(newRoom(t, 10), 200)
		room := cfg.Transport.(wire).handler
		cfg.Transport = wire{room, func(req *http.Request, serve func() *http.Response) (*http.Response, error) {
			if req.Method == http.MethodPost {
				<-req.Context().Done()
				return nil, req.Context().Err()
			}
			return serve(), nil
		}}
		rep, out := mustRun(t, ctx, cfg)
		if len(rep.Errors) != 0 || rep.Unknown != 200 || rep.Cut != "interrupted" {
			t.Error(out)
		}
	})
}

// Coordinated omission: while the target stalls, people who meant to come then wait too.
func TestEnterIsAlsoMeasuredFromTheTimeMeant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := newRoom(t, 1000)
		first := true
		cfg := crowd(room, 100)
		cfg.Rate, cfg.Connections = 10, 1
		cfg.Transport = wire{room, func(req *http.Request, serve func() *http.Response) (*http.Response, error) {
			if req.Method == http.MethodPost && first {
				first = false
				if err := after(req.Context(), 5*time.Second); err != nil {
					return nil, err
				}
			}
			return serve(), nil
		}}
		rep, out := mustRun(t, t.Context(), cfg)
		if !rep.OK() {
			t.Fatal(out)
		}
		if rep.Enter.P90 > 1 {
			t.Errorf("service time p90 %v ms, and only one was slow", rep.Enter.P90)
		}
		if rep.EnterIntended == nil || rep.EnterIntended.P90 < 3900 || !strings.Contains(out, "from the time meant") {
			t.Errorf("from the time meant: %+v", rep.EnterIntended)
		}
		if !strings.Contains(out, "late: one in a hundred") {
			t.Errorf("does not say that it was late itself:\n%s", out)
		}
	})
}

func TestTargetsAreUsedInTurnAndApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := newRoom(t, 100)
		var mu sync.Mutex
		hosts := map[string]int{}
		cfg := crowd(room, 100)
		cfg.Enter = []string{"http://127.0.0.1:1", "http://127.0.0.1:2"}
		cfg.Position = []string{"http://127.0.0.1:3", "http://[::1]:4"}
		cfg.Transport = wire{room, func(req *http.Request, serve func() *http.Response) (*http.Response, error) {
			mu.Lock()
			hosts[req.Method+" "+req.URL.Host]++
			mu.Unlock()
			return serve(), nil
		}}
		rep, out := mustRun(t, t.Context(), cfg)
		if !rep.OK() || hosts["POST 127.0.0.1:1"] != 50 || hosts["POST 127.0.0.1:2"] != 50 ||
			hosts["GET 127.0.0.1:3"] < 50 || hosts["GET [::1]:4"] < 50 {
			t.Errorf("%v\n%s", hosts, out)
		}
	})
}

func TestJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := crowd(newRoom(t, 10), 100)
		var progress bytes.Buffer
		cfg.JSON, cfg.Progress = true, &progress
		_, out := mustRun(t, t.Context(), cfg)
		var got struct {
			OK       bool
			Admitted int
			Rate     struct{ MeanPerSecond float64 }
			Broken   []Breach
			Errors   []ErrorCount
			Position Latency
		}
		dec := json.NewDecoder(strings.NewReader(out))
		if err := dec.Decode(&got); err != nil || dec.More() {
			t.Fatalf("%v in\n%s", err, out)
		}
		if !got.OK || got.Admitted != 100 || got.Rate.MeanPerSecond < 9.9 || got.Broken == nil || got.Errors == nil || got.Position.Count == 0 {
			t.Errorf("%s", out)
		}
		if !strings.HasPrefix(progress.String(), "00:05  entered 100/100") {
			t.Errorf("progress: %s", &progress)
		}
	})
}

func TestOverARealConnection(t *testing.T) {
	room := newRoom(t, 2000)
	server := httptest.NewServer(room)
	defer server.Close()
	cfg := Config{Target: []string{server.URL}, Visitors: 1000, Keys: room.keyText, Connections: 16, Timeout: time.Minute}
	rep, out := mustRun(t, t.Context(), cfg)
	if !rep.OK() || rep.Admitted != 1000 || rep.Enter.P50 <= 0 {
		t.Error(out)
	}
}

func TestNothingAnswers(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	_, err := Run(t.Context(), Config{Target: []string{server.URL}}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "nothing answers at "+server.URL+" (connection refused)") {
		t.Error(err)
	}
}

func TestUnknownQueue(t *testing.T) {
	gone := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { problem(w, 404, "queue_unknown") })
	_, err := Run(t.Context(), Config{Queue: "else", Transport: wire{handler: gone}}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "has no queue with queue=else") {
		t.Error(err)
	}
}

func TestRefusedEntriesAreNotRepeatedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		no := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { problem(w, 403, "cross_site") })
		rep, out := mustRun(t, t.Context(), Config{Visitors: 10, Transport: wire{handler: no}})
		if rep.Refused != 10 || rep.ExitCode() != ExitIncomplete || rep.Cut != "" || !strings.Contains(out, "10 were refused") {
			t.Error(out)
		}
	})
}
