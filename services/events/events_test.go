package events

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/lifecycle/lifecycletest"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, 20*time.Second, 5*time.Millisecond, what)
}

func TestAPlaceAndThenTheToken(t *testing.T) {
	w := newWorld(t, options{})
	w.enter("a", "b", "c")
	c := w.open("c")
	require.Equal(t, 200, c.res.StatusCode)
	require.Equal(t, "text/event-stream", c.res.Header.Get("Content-Type"))
	require.Equal(t, "no-store", c.res.Header.Get("Cache-Control"))
	require.Equal(t, "no", c.res.Header.Get("X-Accel-Buffering"))
	require.Contains(t, c.res.Header.Get("Set-Cookie"), "__Host-soonbeon-main=signed", "whoever came by cookie has the newer receipt")

	first := c.next()
	require.Equal(t, "position", first["event"])
	require.Equal(t, "4", first["id"])
	require.Contains(t, first["data"], `"position":3`)
	retry, err := strconv.Atoi(first["retry"])
	require.NoError(t, err)
	require.GreaterOrEqual(t, retry, 1000)
	require.LessOrEqual(t, retry, 4000)

	w.admit("a")
	e := c.until(`"position":2`)
	require.Equal(t, "5", e["id"])
	require.NotContains(t, e, "retry")
	w.change(func() { w.message = "in ten minutes" })
	require.Contains(t, c.next()["data"], `"message":"in ten minutes"`, "what operators say is told too")
	w.admit("b", "c")
	e = c.until("admitted")
	require.Equal(t, "admitted", e["event"])
	require.Equal(t, `{"state":"admitted","token":"c-4"}`, e["data"])
	_, err = c.read()
	require.ErrorIs(t, err, io.EOF, "there is nothing more to tell")
	eventually(t, "the stream is given up", func() bool { return testutil.ToFloat64(w.service.metrics.streams) == 0 })
	require.EqualValues(t, 1, testutil.ToFloat64(w.service.metrics.admitted))
	require.EqualValues(t, 1, testutil.CollectAndCount(w.service.metrics.push))

	w.mu.Lock()
	defer w.mu.Unlock()
	require.EqualValues(t, 2, w.asked[1].Ahead, "each answer is asked for with the receipt of the one before")
}

// Nothing is written while nothing has changed, though the log goes on; and what is signed anew each time is no change.
func TestOnlyWhatChangedIsTold(t *testing.T) {
	w := newWorld(t, options{})
	w.enter(crowd(5)...)
	c := w.open("v1")
	c.next()
	w.mu.Lock()
	asked := len(w.asked)
	w.mu.Unlock()
	for range 5 { // void: the line stays as it is
		w.apply(httpRecord())
	}
	eventually(t, "it has looked", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.asked) > asked
	})
	w.enter("last")
	require.Contains(t, c.next()["data"], `"total":6`)
	eventually(t, "two in all", func() bool { return testutil.ToFloat64(w.service.metrics.position) == 2 })
}

func TestWhoIsFurtherBackIsToldWhenToAskAgain(t *testing.T) {
	w := newWorld(t, options{})
	w.enter(crowd(101)...)
	c := w.open("v101")
	require.Equal(t, http.StatusConflict, c.res.StatusCode)
	require.Equal(t, "application/problem+json", c.res.Header.Get("Content-Type"))
	require.Equal(t, "3", c.res.Header.Get("Retry-After"))
	body, err := io.ReadAll(c.res.Body)
	require.NoError(t, err)
	require.Contains(t, string(body), `"code":"not_near"`)
	require.Contains(t, string(body), `"retryAfterMs":2300`)
	require.Zero(t, testutil.ToFloat64(w.service.metrics.streams))

	c = w.open("v100")
	require.Contains(t, c.next()["data"], `"position":100`)
	w.enter("v100") // a refresh in another tab: it moves to the end
	retry, err := strconv.Atoi(c.until(`"position":101`)["retry"])
	require.NoError(t, err)
	require.GreaterOrEqual(t, retry, 10_000)
	_, err = c.read()
	require.ErrorIs(t, err, io.EOF, "who has moved back polls again")
}

func TestCaps(t *testing.T) {
	w := newWorld(t, options{events: func(c *Config) { c.MaxStreams, c.PerVisitor = 3, 2 }})
	w.enter("a", "b", "c")
	first := w.open("a")
	first.next()
	w.open("a").next()
	refused := func(visitor, detail string) {
		t.Helper()
		c := w.open(visitor)
		require.Equal(t, http.StatusServiceUnavailable, c.res.StatusCode)
		after, err := strconv.Atoi(c.res.Header.Get("Retry-After"))
		require.NoError(t, err)
		require.GreaterOrEqual(t, after, 5)
		body, err := io.ReadAll(c.res.Body)
		require.NoError(t, err)
		require.Contains(t, string(body), `"code":"streams_full"`)
		require.Contains(t, string(body), detail)
	}
	refused("a", "of this visitor")
	w.open("b").next()
	refused("c", "this process")
	first.close()
	eventually(t, "whoever goes makes room", func() bool { return testutil.ToFloat64(w.service.metrics.streams) == 2 })
	require.Contains(t, w.open("c").next()["data"], `"position":3`)
	require.EqualValues(t, 3, w.State().Seq-1, "a lost stream has written nothing")
}

// The server's time-outs are for requests; a stream has its own.
func TestFault29_TheServersTimeoutsDontCutAStream(t *testing.T) {
	w := newWorld(t, options{
		events: func(c *Config) { c.Heartbeat = 50 * time.Millisecond },
		server: func(c *httpapi.ServerConfig) {
			c.ReadTimeout, c.WriteTimeout, c.IdleTimeout = 100*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
		},
	})
	w.enter("a")
	c := w.open("a")
	c.next()
	for began := time.Now(); time.Since(began) < time.Second; {
		e, err := c.read()
		require.NoError(t, err)
		require.Equal(t, event{"": ""}, e, "a comment")
	}
	w.admit("a")
	require.Equal(t, "admitted", c.next()["event"])
}

func TestFault29_AReaderThatDoesNotReadIsDropped(t *testing.T) {
	w := newWorld(t, options{events: func(c *Config) { c.WriteTimeout = 200 * time.Millisecond }})
	w.enter("a", "b")
	conn, err := (&net.Dialer{Control: smallBuffer}).DialContext(t.Context(), "tcp", w.server.Addr())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET /queue/events?queue=main HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer b\r\n\r\n")
	require.NoError(t, err)
	quick := w.open("a")
	for i := 0; testutil.ToFloat64(w.service.metrics.slow) == 0; i++ {
		require.Less(t, i, 5000, "what the kernel keeps for it is bounded")
		w.change(func() { w.message = strings.Repeat("m", 500) + strconv.Itoa(i) })
		quick.until(w.message) // who reads is not held up
	}
	eventually(t, "it is gone", func() bool { return testutil.ToFloat64(w.service.metrics.streams) == 1 })
}

func TestStopEndsStreamsAtOnce(t *testing.T) {
	w := newWorld(t, options{})
	w.enter(crowd(20)...)
	var clients []*client
	for _, v := range crowd(20) {
		c := w.open(v)
		c.next()
		clients = append(clients, c)
	}
	began := time.Now()
	require.NoError(t, w.service.Stop(t.Context()))
	require.Less(t, time.Since(began), 5*time.Second)
	for _, c := range clients {
		for {
			if _, err := c.read(); err != nil {
				require.ErrorIs(t, err, io.EOF, "an end, not a cut")
				break
			}
		}
	}
	later := map[string]bool{}
	for range 40 {
		c := w.open("v1")
		require.Equal(t, 503, c.res.StatusCode)
		later[c.res.Header.Get("Retry-After")] = true
	}
	require.Equal(t, map[string]bool{"2": true, "3": true, "4": true}, later, "who was cut off at one moment does not come back at one")
}

func TestResync(t *testing.T) {
	w := newWorld(t, options{})
	w.enter("a", "b")
	opened := make(chan *client)
	go func() { opened <- w.open("b", "Last-Event-ID", "4") }() // another process has told it of ticket 4, which is not read here
	eventually(t, "it waits", func() bool { return testutil.ToFloat64(w.service.metrics.streams) == 1 })
	w.admit("a")
	e := (<-opened).next()
	require.Equal(t, "4", e["id"])
	require.Contains(t, e["data"], `"position":1`, "no older news than it had")

	for _, id := range []string{"999999999", "-1", "x", "99999999999999999999", ""} { // not of this log, or of none
		c := w.open("b", "Last-Event-ID", id)
		require.Contains(t, c.next()["data"], `"position":1`)
		c.close()
		eventually(t, "closed", func() bool { return testutil.ToFloat64(w.service.metrics.streams) == 1 })
	}
}

func TestWhoseTurnIsOver(t *testing.T) {
	w := newWorld(t, options{})
	c := w.open("nobody")
	require.Equal(t, `{"state":"over","reason":"left"}`, c.next()["data"])
	_, err := c.read()
	require.ErrorIs(t, err, io.EOF)
	c = w.open("nobody", "Last-Event-ID", "1")
	require.Equal(t, 204, c.res.StatusCode, "by which an EventSource knows not to come back")
}

func TestWhatCantBeTold(t *testing.T) {
	w := newWorld(t, options{events: func(c *Config) { c.Heartbeat = 50 * time.Millisecond }})
	w.enter("a")
	c := w.open("a")
	c.next()
	w.change(func() { w.untold = true })
	_, err := c.read() // an older one
	require.NoError(t, err)
	e, err := c.read()
	require.NoError(t, err)
	require.Equal(t, event{"": ""}, e, "the stream stays")
	require.Equal(t, 503, w.open("a").res.StatusCode)
	w.change(func() { w.untold, w.message = false, "again" })
	require.Contains(t, c.next()["data"], "again")
	w.change(func() { w.gone = true })
	for err == nil {
		_, err = c.read()
	}
	require.ErrorIs(t, err, io.EOF, "the queue was deleted")
	require.Equal(t, 404, w.open("a").res.StatusCode)
}

func TestBadRequests(t *testing.T) {
	w := newWorld(t, options{})
	r, err := http.Get("http://" + w.server.Addr() + "/queue/events?queue=main")
	require.NoError(t, err)
	require.NoError(t, r.Body.Close())
	require.Equal(t, 401, r.StatusCode)
	r, err = http.Post("http://"+w.server.Addr()+"/queue/events?queue=main", "", nil)
	require.NoError(t, err)
	require.NoError(t, r.Body.Close())
	require.Equal(t, 405, r.StatusCode)
	http.DefaultClient.CloseIdleConnections()
	_, err = New(Config{}, nil)
	require.Error(t, err)
	_, err = New(Config{Answers: w, Find: w.find, Heartbeat: 15 * time.Second}, nil)
	require.ErrorContains(t, err, "heartbeat")
}

func TestKeepsTheContractOfAService(t *testing.T) {
	w := newWorld(t, options{})
	lifecycletest.Stress(t, func(t *testing.T) lifecycle.Service {
		s, err := New(Config{Answers: w, Find: w.find}, nil)
		require.NoError(t, err)
		return s
	})
}

// Streams that are lost together are opened again by many at once: those that there is no room for are told so, and all of
// them are told different times.
func TestFault29_AReconnectStormIsSpreadAndCapped(t *testing.T) {
	w := newWorld(t, options{events: func(c *Config) { c.MaxStreams = 40 }})
	w.enter(crowd(80)...)
	var mu sync.Mutex
	var storm sync.WaitGroup
	retries, refused := map[string]bool{}, 0
	for _, v := range crowd(80) {
		storm.Go(func() {
			c := w.open(v)
			var e event
			if c.res.StatusCode == 200 {
				e = c.next()
			}
			mu.Lock()
			defer mu.Unlock()
			if e == nil {
				refused++
			} else {
				retries[e["retry"]] = true
			}
		})
	}
	storm.Wait()
	require.Equal(t, 40, refused)
	require.Greater(t, len(retries), 30)
}

// Each gets the token, whatever moment between opening the stream and being let in the record is read at.
func TestNobodysTokenIsMissed(t *testing.T) {
	w := newWorld(t, options{events: func(c *Config) { c.Tick = time.Hour }}) // nobody looks by the clock
	people := crowd(100)
	w.enter(people...)
	var all sync.WaitGroup
	for _, v := range people {
		all.Go(func() { w.open(v).until("admitted") })
	}
	for _, v := range people {
		w.admit(v)
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
		require.NoError(t, errors.New("somebody was let in and isn't told"))
	}
}
