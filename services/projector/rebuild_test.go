package projector

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
)

// loading runs a projector that loads a view which lacks more than 300 records.
func (f *fixture) loading(view View) *Service {
	f.t.Helper()
	s, err := New(Config{View: func(queue.ID) View { return view }, FarBehind: 300}, f.log, f.logger, nil)
	require.NoError(f.t, err)
	s.Set([]queue.ID{main})
	require.NoError(f.t, s.Start(f.soon()))
	f.t.Cleanup(func() { f.stop(s) })
	return s
}

func (s *Service) loads() int {
	return int(testutil.ToFloat64(s.metrics.loads.WithLabelValues("main")))
}
func (s *Service) applied() int {
	return int(testutil.ToFloat64(s.metrics.applied.WithLabelValues("main")))
}

// counts waits for the numbers of loads and of applied records, which come a moment after the view has moved.
func (f *fixture) counts(s *Service, loads, applied int) {
	f.t.Helper()
	f.eventually("loads and applied records are counted", func() bool { return s.loads() == loads && s.applied() == applied })
}

func TestLoadsAViewThatIsFarBehind(t *testing.T) {
	f := newFixture(t)
	f.append(250) // all of the log, and little
	s := f.loading(f.told)
	f.follows()
	f.counts(s, 0, 250)
	f.stop(s)

	f.append(2000)
	s = f.loading(f.told)
	f.follows()
	f.counts(s, 1, 0)

	f.append(250) // a small gap is applied
	f.follows()
	f.counts(s, 1, 250)

	require.NoError(t, f.rdb.FlushAll(f.soon()).Err()) // while it runs
	f.append(10)
	f.follows()
	f.counts(s, 2, 250)

	f.stop(s)
	f.append(500) // more than 300, and less than a quarter of the log
	s = f.loading(f.told)
	f.follows()
	f.counts(s, 0, 500)
	f.stop(s)

	at := f.seq()
	f.append(2000)
	f.broker.Trim(main, at) // the log can't be folded from nothing any more, but what is missing is there
	s = f.loading(f.told)
	f.eventually("it is applied", func() bool { return f.seq() == f.written.State().Seq })
	f.counts(s, 0, 2000)
	f.stop(s)

	require.NoError(t, f.rdb.FlushAll(f.soon()).Err()) // what is left can't be folded from nothing: it is trouble, as it was
	s = f.loading(f.told)
	f.eventually("it says so", func() bool {
		var trouble *linelog.TroubleError
		return errors.As(s.Trouble(t.Context()), &trouble) && trouble.Kind == linelog.Trimmed
	})
	require.Zero(t, f.seq())
}

// TestFault10_AnEmptyRedisIsFoundOutThoughNobodyComes: the next who enters should not be the one to find out.
func TestFault10_AnEmptyRedisIsFoundOutThoughNobodyComes(t *testing.T) {
	f := newFixture(t)
	f.append(1000)
	f.service(nil)
	f.follows()
	require.NoError(t, f.rdb.FlushAll(f.soon()).Err())
	f.follows()
}

// view counts and breaks calls of a real one.
type brokenView struct {
	*redisline.View
	load func(n int) error // before the n-th load
	n    int
	fold redisline.Fold // the latest
}

func (v *brokenView) Load(ctx context.Context, fold redisline.Fold, opts redisline.LoadOptions) (queue.Ticket, error) {
	v.n++
	v.fold = fold
	if err := v.load(v.n); err != nil {
		return 0, err
	}
	return v.View.Load(ctx, fold, opts)
}

func TestFault10_RedisDiesDuringALoad(t *testing.T) {
	f := newFixture(t)
	f.append(3000)
	died := false
	view := &brokenView{View: f.told}
	view.load = func(int) error {
		if !died {
			died = true
			f.link.Away()
			t.Cleanup(f.link.Back)
			require.NoError(t, f.rdb.FlushAll(f.soon()).Err()) // and it returns empty
			go func() {
				<-time.After(200 * time.Millisecond)
				f.link.Back()
			}()
		}
		return nil
	}
	s := f.loading(view)
	f.follows()
	f.counts(s, 1, 0)
}

// A view with no room for two lines must not be tried for ever: there is room for one.
func TestAppliesWhereLoadingFails(t *testing.T) {
	f := newFixture(t)
	f.append(1000)
	view := &brokenView{View: f.told, load: func(n int) error {
		if n <= maxLoads {
			return redisline.ErrAway
		}
		return nil
	}}
	s := f.loading(view)
	f.follows()
	f.counts(s, 0, 1000)
	require.Equal(t, 1, f.logs.FilterMessage("the view can't be loaded; applying instead").Len())
	require.NoError(t, f.rdb.FlushAll(f.soon()).Err())
	f.append(1) // there is room again
	f.follows()
	f.eventually("it is loaded", func() bool { return s.loads() == 1 })
	f.stop(s)
	require.Equal(t, maxLoads+1, view.n)
}

// What was folded for a load that failed is folded on for the next.
func TestFault10_AFoldOutlivesALoadThatFailed(t *testing.T) {
	f := newFixture(t)
	f.append(1000)
	view := &brokenView{View: f.told}
	var first redisline.Fold
	loading, appended := make(chan struct{}), make(chan struct{})
	view.load = func(n int) error {
		if n > 1 {
			return nil
		}
		first = view.fold
		close(loading)
		<-appended
		return redisline.ErrLost
	}
	s := f.loading(view)
	<-loading
	f.append(500)
	close(appended)
	f.follows()
	f.stop(s)
	require.Equal(t, 1, s.loads())
	require.Zero(t, s.applied())
	require.Same(t, first, view.fold)
}

func TestLeavesTheViewToAnothersLoad(t *testing.T) {
	f := newFixture(t)
	f.append(1000)
	require.NoError(t, f.rdb.HSet(f.soon(), "soonbeon:{main}:load", "token", "another's", "step", "0").Err())
	view := &brokenView{View: f.told, load: func(int) error { return nil }}
	s := f.loading(view)
	f.eventually("it waits", func() bool { return errors.Is(s.Trouble(t.Context()), redisline.ErrLoading) })
	require.Zero(t, f.seq())
	require.NoError(t, f.rdb.Del(f.soon(), "soonbeon:{main}:load").Err()) // it has died
	f.follows()
	f.stop(s)
	require.Equal(t, 1, view.n)
}

// TestMillionIsExactAgainWithin15s runs where SOONBEON_LONG is set: the line of a million in an empty Redis.
func TestMillionIsExactAgainWithin15s(t *testing.T) {
	if os.Getenv("SOONBEON_LONG") == "" {
		t.Skip("SOONBEON_LONG is not set")
	}
	f := newFixture(t)
	const n = 1_000_000
	names := make([]queue.Visitor, n)
	for i := range names {
		names[i] = queue.NewVisitor()
	}
	for from := 0; from < n; from += n / 10 {
		f.broker.AppendMany(main, n/10, func(i int) queue.Record {
			return queue.Record{Kind: queue.Entered, Visitor: names[from+i]}
		})
	}
	f.link.Away()
	s, err := New(Config{View: func(queue.ID) View { return f.told }}, f.log, f.logger, nil)
	require.NoError(t, err)
	s.Set([]queue.ID{main})
	require.NoError(t, s.Start(f.soon()))
	defer f.stop(s)
	f.eventually("it has noticed", func() bool { return s.Trouble(t.Context()) != nil })
	began := time.Now()
	f.link.Back()
	for f.seq() < n {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-f.soon().Done():
			t.Fatal("it takes too long")
		}
	}
	took := time.Since(began)
	for _, e := range f.logs.All() {
		t.Log(e.Time.Sub(began).Round(time.Millisecond), e.Message, e.ContextMap())
	}
	t.Logf("exact again after %v", took.Round(time.Millisecond))
	f.eventually("it was loaded", func() bool { return s.loads() == 1 })
	_, place, err := f.view.Places(f.soon(), []queue.Visitor{names[n-1]})
	require.NoError(t, err)
	require.EqualValues(t, n-1, place[0].Ahead)
	require.Less(t, took, 15*time.Second)
	want := line.New()
	require.True(t, want.Apply(0, linelogtest.ReadAll(t, f.log, main, 0)))
	got, err := f.view.Digest(f.soon())
	require.NoError(t, err)
	require.Equal(t, want.Digest(), got)
}
