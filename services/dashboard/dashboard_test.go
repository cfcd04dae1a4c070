package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/lifecycle/lifecycletest"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/catalog"
	"github.com/soonbeon/soonbeon/services/follow"
)

func TestAllQueuesLive(t *testing.T) {
	w := newWorld("a", "b")
	w.readings["a"].live = follow.Live{Waiting: 7412, Active: 3, OldestMs: 61_500}
	w.readings["b"].noLine = true
	w.why["b"] = queue.SkipNotLeading
	_, url := open(t, w.config())
	s := watch(t, url+"/dashboard/events")

	var first shown
	s.next("rows", &first)
	require.Equal(t, []queue.ID{"a", "b"}, first.IDs)
	require.Len(t, first.Queues, 2)
	a := first.Queues[0]
	if a.ID != "a" {
		a = first.Queues[1]
	}
	require.EqualValues(t, 7412, *a.Waiting)
	require.EqualValues(t, 3, *a.Active)
	require.EqualValues(t, 61_000, *a.OldestMs, "whole seconds: it need not be told more often")
	require.Equal(t, catalog.Open, a.State)
	require.Equal(t, 175.0, a.Target)

	// One changes: it alone is told. What this process doesn't know is null.
	w.readings["b"].change(func() { w.readings["b"].live.Active = 9 })
	var next shown
	s.next("rows", &next)
	require.Nil(t, next.IDs)
	require.Len(t, next.Queues, 1)
	require.Equal(t, queue.ID("b"), next.Queues[0].ID)
	require.Nil(t, next.Queues[0].Waiting)
	require.EqualValues(t, 9, *next.Queues[0].Active)
	require.Empty(t, next.Queues[0].Why, "that this process doesn't lead it is no reason that nobody is let in")
	require.True(t, next.Queues[0].Elsewhere)
	require.False(t, a.Elsewhere)

	now := time.Now().UnixMilli()
	w.readings["a"].change(func() {
		w.readings["a"].batches = []follow.Batch{{AtMs: now - 60_000, People: 5000}, {AtMs: now - 3000, People: 100}, {AtMs: now - 2900, People: 75}}
	})
	w.change(func() { w.why["a"] = queue.Paced.String() })
	got := s.until("a", func(r row) bool { return *r.Rate > 0 && r.Why == "" })
	require.Equal(t, 17.5, *got.Rate, "over the last ten seconds; and paced is no reason between two batches")

	// Changes of the catalogue, and of the log.
	w.change(func() {
		e := *w.entries[0]
		e.Version, e.Paused = 5, true
		w.entries[0] = &e
		w.why["a"] = queue.SkipPaused
	})
	got = s.until("a", func(r row) bool { return r.Version == 5 })
	require.Equal(t, catalog.Paused, got.State)
	w.change(func() {
		e := *w.entries[0]
		e.Version, e.Closed = 6, true
		w.entries[0] = &e
	})
	got = s.until("a", func(r row) bool { return r.Version == 6 })
	require.Equal(t, catalog.Closed, got.State)
	require.True(t, got.Paused, "it is both, and nobody moves")
	w.readings["a"].change(func() { w.readings["a"].trouble = errors.New("no broker yet") })
	got = s.until("a", func(r row) bool { return r.Trouble != "" })
	require.Equal(t, unreadable, got.Trouble)
	require.Equal(t, "no broker yet", got.Detail)
	w.readings["a"].change(func() {
		w.readings["a"].trouble = fmt.Errorf("following: %w", &linelog.TroubleError{Queue: "a", Kind: linelog.Trimmed})
		w.readings["a"].claim = queue.Record{Ticket: 3, Mode: queue.ModeDirect}
	})
	got = s.until("a", func(r row) bool { return r.Trouble == "trimmed" && r.Mode != "" })
	require.True(t, got.Outage)

	w.change(func() { w.entries = w.entries[1:] })
	var gone shown
	for gone.IDs == nil {
		s.next("rows", &gone)
	}
	require.Equal(t, []queue.ID{"b"}, gone.IDs)
}

func TestOneQueueLive(t *testing.T) {
	w := newWorld("a", "b")
	r := w.readings["a"]
	r.live = follow.Live{Waiting: 10, State: queue.State{Seq: 100, Served: 40}}
	r.waits = follow.Waits{P50: 10_300, P90: 20_300, P99: 30_300}
	r.claim = queue.Record{Ticket: 3, Mode: queue.ModeRedis, Issuer: "host/1", AtMs: time.Now().Add(-time.Hour).UnixMilli()}
	w.applied["a"] = 90
	_, url := open(t, w.config())
	s := watch(t, url+"/dashboard/events?queue=a")
	var rows shown
	s.next("rows", &rows)
	require.Len(t, rows.Queues, 1)

	var d details
	for d.Behind == nil || d.ModeSince == 0 {
		s.next("queue", &d)
	}
	require.EqualValues(t, 10, *d.Behind)
	require.Equal(t, []int64{10_000, 20_000, 30_000}, []int64{*d.HalfMs, *d.NineMs, *d.Most})
	require.EqualValues(t, 40, *d.Served)
	require.Equal(t, "host/1", d.Leader)
	require.Equal(t, r.claim.AtMs, d.ModeSince)
	require.Empty(t, d.Outages)

	// A break of Redis, and its end.
	broke := time.Now().UnixMilli()
	r.change(func() { r.claim = queue.Record{Ticket: 50, Mode: queue.ModeDirect, Issuer: "host/1", AtMs: broke} })
	w.change(func() { w.away = true })
	for len(d.Outages) == 0 || d.Behind != nil {
		d = details{}
		s.next("queue", &d)
	}
	require.Equal(t, []outage{{FromMs: broke}}, d.Outages)
	r.change(func() {
		r.claim = queue.Record{Ticket: 70, Mode: queue.ModeRedis, Issuer: "host/1", AtMs: broke + 45_000}
	})
	w.change(func() { w.away = false })
	for d.Outages[0].ToMs == 0 {
		s.next("queue", &d)
	}
	require.Equal(t, []outage{{broke, broke + 45_000}}, d.Outages)

	// Who comes later gets all that there was, and then each sample once.
	later := watch(t, url+"/dashboard/events?queue=a")
	var c columns
	later.next("history", &c)
	require.NotEmpty(t, c.AtMs)
	last := c.AtMs[len(c.AtMs)-1]
	for range 3 {
		var more columns
		later.next("sample", &more)
		require.Equal(t, queue.ID("a"), more.Queue)
		for i, at := range more.AtMs {
			require.Greater(t, at, last)
			last = at
			require.EqualValues(t, 10, *more.Waiting[i])
			require.EqualValues(t, 10_300, *more.Half[i])
		}
	}

	// The queue goes, and the stream with it.
	w.change(func() { w.entries = w.entries[1:] })
	for kind := "x"; kind != ""; kind, _ = s.any() {
	}
}

func TestOnlyOperatorsLook(t *testing.T) {
	w := newWorld("a")
	cfg := w.config()
	cfg.MaxStreams = 1
	reg := prometheus.NewRegistry()
	s, url := openWith(t, cfg, reg)
	for path, want := range map[string]int{"": 401, "?queue=a": 401} {
		require.Equal(t, want, get(t, url+"/dashboard/events"+path, "").StatusCode)
		require.Equal(t, 403, get(t, url+"/dashboard/events"+path, "Bearer "+annas[1:]).StatusCode)
	}
	for _, id := range []string{"b", "", "..%2f", "a&queue=b"} {
		want := 404
		if id == "a&queue=b" {
			want = 200 // the first counts
		}
		res := get(t, url+"/dashboard/events?queue="+id, "Bearer "+annas)
		require.Equal(t, want, res.StatusCode, id)
		_ = res.Body.Close()
	}
	none := func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.streams == 0 }
	require.Eventually(t, none, patience, time.Millisecond)
	first := watch(t, url+"/dashboard/events")
	require.EqualValues(t, 1, testutil.ToFloat64(s.metrics.streams))
	res := get(t, url+"/dashboard/events", "Bearer "+annas)
	require.Equal(t, 503, res.StatusCode)
	require.NotEmpty(t, res.Header.Get("Retry-After"))
	first.shut()
	require.Eventually(t, none, patience, time.Millisecond)

	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP soonbeon_dashboard_refused_total Streams of operators that were refused, by why.
# TYPE soonbeon_dashboard_refused_total counter
soonbeon_dashboard_refused_total{why="credential"} 4
soonbeon_dashboard_refused_total{why="full"} 1
soonbeon_dashboard_refused_total{why="no_queue"} 3
soonbeon_dashboard_refused_total{why="stopping"} 0
# HELP soonbeon_dashboard_streams Streams of operators that are open.
# TYPE soonbeon_dashboard_streams gauge
soonbeon_dashboard_streams 0
`), "soonbeon_dashboard_refused_total", "soonbeon_dashboard_streams"))

	cfg.Operators = nil
	_, url = open(t, cfg)
	require.Equal(t, 403, get(t, url+"/dashboard/events", "Bearer "+annas).StatusCode)
}

// Who does not read is dropped, and holds nobody else up.
func TestSlowReadersAreDropped(t *testing.T) {
	w := newWorld()
	for i := range 300 {
		w.make(queue.ID("q"+string(rune('a'+i/26))+string(rune('a'+i%26))), int64(i+1))
	}
	stop := make(chan struct{})
	busy := make(chan struct{})
	go func() { // all change all the time
		defer close(busy)
		for n := int64(0); ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				for _, r := range w.readings {
					r.change(func() { r.live.Waiting = n })
				}
			}
		}
	}()
	defer func() { close(stop); <-busy }()
	cfg := w.config()
	cfg.WriteTimeout = 50 * time.Millisecond
	s, url := open(t, cfg)
	conn, err := net.Dial("tcp", url[len("http://"):])
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4096))
	_, err = conn.Write([]byte("GET /dashboard/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + annas + "\r\n\r\n"))
	require.NoError(t, err)
	streams := func(n int) func() bool {
		return func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.streams == n }
	}
	require.Eventually(t, streams(1), patience, time.Millisecond)
	require.Eventually(t, streams(0), patience, time.Millisecond)
	require.EqualValues(t, 1, testutil.ToFloat64(s.metrics.dropped))
	require.Positive(t, testutil.CollectAndCount(s.metrics.looks))
}

func TestASignOfLifeWhereNothingChanges(t *testing.T) {
	cfg := newWorld("a").config()
	cfg.Heartbeat = 20 * time.Millisecond
	_, url := open(t, cfg)
	s := watch(t, url+"/dashboard/events")
	for range 3 {
		for kind := ""; kind != ":"; {
			kind, _ = s.any()
			require.NotEmpty(t, kind)
		}
	}
}

func TestStreamsEndWithTheService(t *testing.T) {
	w := newWorld("a")
	s, url := open(t, w.config())
	x := watch(t, url+"/dashboard/events")
	x.until("a", func(row) bool { return true })
	soon, cancel := context.WithTimeout(t.Context(), patience/3) // before the client gives up
	defer cancel()
	require.NoError(t, s.Stop(soon))
	for kind := "x"; kind != ""; kind, _ = x.any() {
	}
	require.Equal(t, 503, get(t, url+"/dashboard/events", "Bearer "+annas).StatusCode)
	require.Equal(t, 200, get(t, url+"/dashboard/", "").StatusCode)
}

func TestKeepsTheContractOfAService(t *testing.T) {
	lifecycletest.Stress(t, func(t *testing.T) lifecycle.Service {
		s, err := New(newWorld("a").config(), zap.NewNop(), nil)
		require.NoError(t, err)
		return s
	})
	_, err := New(Config{}, zap.NewNop(), nil)
	require.Error(t, err)
	cfg := newWorld().config()
	cfg.Sample, cfg.Look = time.Second, time.Minute
	_, err = New(cfg, zap.NewNop(), nil)
	require.Error(t, err)
}
