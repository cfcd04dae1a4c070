package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/lifecycle/lifecycletest"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/catalog"
	"github.com/soonbeon/soonbeon/services/catalog/catalogtest"
)

// script is a catalogue that says what a test tells it to say.
type script struct {
	end      int64
	batches  chan []linelog.CatalogRecord
	err      chan error
	mu       sync.Mutex
	position int64
}

func newScript(end int64) *script {
	return &script{end: end, batches: make(chan []linelog.CatalogRecord), err: make(chan error, 1)}
}

func (s *script) CatalogEnd(context.Context) (int64, error) { return s.end, nil }
func (s *script) NewReader() catalog.Reader                 { return s }
func (s *script) Close()                                    {}

func (s *script) Position() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.position
}

func (s *script) Next(ctx context.Context) ([]linelog.CatalogRecord, error) {
	select {
	case b := <-s.batches:
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, r := range b {
			s.position = r.Version
		}
		return b, nil
	case err := <-s.err:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func record(e *queue.Entry) linelog.CatalogRecord {
	return linelog.CatalogRecord{ID: e.ID, Version: e.Version, Entry: e}
}

func removed(id queue.ID, version int64) linelog.CatalogRecord {
	return linelog.CatalogRecord{ID: id, Version: version}
}

func entry(id queue.ID, made, version int64, change ...func(*queue.Entry)) *queue.Entry {
	e := &queue.Entry{ID: id, Made: made, Version: version, Settings: queue.DefaultSettings()}
	for _, c := range change {
		c(e)
	}
	return e
}

func deleting(e *queue.Entry) { e.Deleting = true }

type following struct {
	*catalog.Follower
	script *script
	reg    *prometheus.Registry
	logs   *observer.ObservedLogs
}

func follow(t *testing.T, end int64) *following {
	core, logs := observer.New(zap.DebugLevel)
	f := &following{script: newScript(end), reg: prometheus.NewRegistry(), logs: logs}
	var err error
	f.Follower, err = catalog.New(f.script, zap.New(core), f.reg)
	require.NoError(t, err)
	return f
}

func (f *following) start(t *testing.T) {
	require.NoError(t, f.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, f.Stop(context.Background())) })
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), catalogtest.Patience)
	t.Cleanup(cancel)
	return ctx
}

// watch tells calls as "main 0>1", by versions.
func watch(f *catalog.Follower) func() []string {
	var mu sync.Mutex
	var calls []string
	f.Watch(func(before, after *queue.Entry) {
		mu.Lock()
		defer mu.Unlock()
		var id queue.ID
		v := [2]int64{}
		for i, e := range []*queue.Entry{before, after} {
			if e != nil {
				id, v[i] = e.ID, e.Version
			}
		}
		calls = append(calls, fmt.Sprintf("%s %d>%d", id, v[0], v[1]))
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), calls...)
	}
}

func TestAFollowerTellsEachChangeInOrder(t *testing.T) {
	f := follow(t, 4)
	_, ok := f.Get("a")
	require.False(t, ok, "before its start it knows nothing")
	calls := watch(f.Follower)
	f.start(t)
	f.script.batches <- []linelog.CatalogRecord{record(entry("b", 1, 1)), record(entry("a", 2, 2))}
	f.script.batches <- []linelog.CatalogRecord{record(entry("b", 1, 3)), record(entry("c", 4, 4))}
	require.NoError(t, f.Ready(soon(t)))
	require.Equal(t, []string{"b 0>1", "a 0>2", "b 1>3", "c 0>4"}, calls())

	late := watch(f.Follower)
	require.Equal(t, []string{"a 0>2", "b 0>3", "c 0>4"}, late())
	f.script.batches <- []linelog.CatalogRecord{
		record(entry("a", 2, 5, deleting)), removed("b", 6), removed("nobody", 7),
		record(entry("c", 8, 8)), // deleted and made anew; the removal was compacted away
	}
	require.NoError(t, f.Seen(soon(t), 8))
	require.NoError(t, f.Gone(soon(t), "b"))
	require.Equal(t, []string{"a 2>5", "b 3>0", "c 4>0", "c 0>8"}, late()[3:])
	require.Equal(t, late()[3:], calls()[4:])

	_, ok = f.Get("a")
	require.False(t, ok)
	a, ok := f.GetAny("a")
	require.True(t, ok && a.Deleting)
	require.Len(t, f.All(), 1)
	require.Len(t, f.AllAny(), 2)
	require.NoError(t, testutil.GatherAndCompare(f.reg, strings.NewReader(`
# HELP soonbeon_catalog_queues Queues in the catalogue, those that are being deleted included, as this process has read it.
# TYPE soonbeon_catalog_queues gauge
soonbeon_catalog_queues 2
# HELP soonbeon_catalog_version Version of the last record of the catalogue that this process has read.
# TYPE soonbeon_catalog_version gauge
soonbeon_catalog_version 8
`), "soonbeon_catalog_queues", "soonbeon_catalog_version"))
}

func TestGetIsAheadOfWhoIsTold(t *testing.T) {
	f := follow(t, 1)
	seen := make(chan int, 1)
	f.Watch(func(_, after *queue.Entry) {
		got, _ := f.Get(after.ID)
		seen <- int(got.Version)
	})
	f.start(t)
	f.script.batches <- []linelog.CatalogRecord{record(entry("a", 1, 1))}
	require.Equal(t, 1, <-seen)
}

func TestAnUnreadableEntryLeavesItsQueueAsItWas(t *testing.T) {
	f := follow(t, 3)
	f.start(t)
	f.script.batches <- []linelog.CatalogRecord{
		record(entry("a", 1, 1)),
		{ID: "a", Version: 2, Err: errors.New("broken")},
		{ID: "b", Version: 3, Err: errors.New("broken too")},
	}
	require.NoError(t, f.Ready(soon(t)))
	a, ok := f.Get("a")
	require.True(t, ok)
	require.Equal(t, int64(1), a.Version)
	_, ok = f.Get("b")
	require.False(t, ok)
	require.Equal(t, 2, f.logs.FilterMessageSnippet("can't be read; its queue stays").Len())
	require.NoError(t, testutil.GatherAndCompare(f.reg, strings.NewReader(`
# HELP soonbeon_catalog_unreadable_total Records of the catalogue that could not be read; their queues stay as they were known before.
# TYPE soonbeon_catalog_unreadable_total counter
soonbeon_catalog_unreadable_total 2
`), "soonbeon_catalog_unreadable_total"))
}

func TestSettingsOfANewerVersionAreObeyedAsFarAsKnown(t *testing.T) {
	f := follow(t, 2)
	f.start(t)
	odd := entry("a", 1, 1, func(e *queue.Entry) {
		e.Settings = queue.Settings{Rate: 1e12, Interval: time.Hour, ConservativeRate: math.NaN(), MaxActive: -1, GrantTTL: 1e18, Reentry: 9, Order: 9,
			OpensAtMs: -1, AdmitTo: "ftp://x", Message: strings.Repeat("x", 10_000), Rounding: []queue.RoundStep{{Ahead: 1, To: 0}}}
		e.Unknown, e.Paused = []byte("more"), true
	})
	f.script.batches <- []linelog.CatalogRecord{record(odd), record(entry("b", 2, 2, func(e *queue.Entry) { e.Settings.Rate, e.Settings.Message = 50_000, "hello" }))}
	require.NoError(t, f.Ready(soon(t)))
	a, _ := f.Get("a")
	require.NoError(t, a.Settings.Validate())
	require.True(t, a.Paused)
	require.Equal(t, []byte("more"), a.Unknown)
	require.Equal(t, 1e12, odd.Settings.Rate, "what was read is not touched")
	b, _ := f.Get("b")
	require.NoError(t, b.Settings.Validate())
	require.Equal(t, queue.MaxRate, b.Settings.Rate)
	require.Equal(t, "hello", b.Settings.Message, "one setting that isn't known takes no other with it")
	require.Equal(t, 2, f.logs.FilterMessageSnippet("beyond what this version knows").Len())
}

func TestReadyAndSeenSayWhyTheyWait(t *testing.T) {
	f := follow(t, 5)
	f.start(t)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, f.Ready(over), context.Canceled)
	require.ErrorContains(t, f.Seen(over, 5), "version 5 of the catalogue")
	f.script.batches <- []linelog.CatalogRecord{record(entry("a", 1, 1))}
	require.NoError(t, f.Seen(soon(t), 1))
	f.script.err <- errors.New("the catalogue was deleted")
	require.Eventually(t, func() bool { return f.Trouble() != nil }, catalogtest.Patience, time.Millisecond)
	require.ErrorContains(t, f.Ready(over), "was deleted")
	require.ErrorContains(t, f.Seen(over, 5), "was deleted")
	require.ErrorContains(t, f.Gone(over, "a"), "queue a to be gone from the catalogue")
	_, ok := f.Get("a")
	require.True(t, ok, "it stands still with what it knows")
}

func TestFollowersStartAndStop(t *testing.T) {
	lifecycletest.Stress(t, func(t *testing.T) lifecycle.Service {
		f, err := catalog.New(newScript(0), zap.NewNop(), nil)
		require.NoError(t, err)
		return f
	})
}

func TestAFollowerOfTheLog(t *testing.T) {
	w := catalogtest.Start(t)
	const n = 30
	for i := range n {
		_, err := w.Editor.Create(w.Soon(), "anna", queue.ID(fmt.Sprintf("q%02d", i)), settings())
		require.NoError(t, err)
	}
	last, err := w.Editor.Pause(w.Soon(), "anna", "q07", text("wait"), catalog.AnyVersion)
	require.NoError(t, err)
	// One that starts later reads the same.
	late, err := catalog.New(catalog.OfLog(w.Broker.Log(t)), zap.NewNop(), nil)
	require.NoError(t, err)
	require.NoError(t, late.Start(t.Context()))
	defer func() { require.NoError(t, late.Stop(context.Background())) }()
	require.NoError(t, late.Ready(w.Soon()))
	require.Len(t, late.All(), n, "ready is ready")
	require.NoError(t, w.Follower.Seen(w.Soon(), last.Version))
	require.Equal(t, w.Follower.All(), late.All())
}

func BenchmarkGet(b *testing.B) {
	f := newScript(1000)
	follower, err := catalog.New(f, zap.NewNop(), nil)
	require.NoError(b, err)
	require.NoError(b, follower.Start(b.Context()))
	defer func() { _ = follower.Stop(context.Background()) }()
	var all []linelog.CatalogRecord
	for i := range int64(1000) {
		all = append(all, record(entry(queue.ID(fmt.Sprintf("q%d", i)), i+1, i+1)))
	}
	f.batches <- all
	require.NoError(b, follower.Ready(b.Context()))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, ok := follower.Get("q7"); !ok {
				b.Fatal("gone")
			}
		}
	})
}
