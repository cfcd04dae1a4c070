package follow_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/follow"
)

const main queue.ID = "main"

// patience is how long a slow machine may take for what should happen at once.
const patience = 30 * time.Second

type fixture struct {
	t      *testing.T
	broker *linelogtest.Broker
	log    *linelog.Log
	writer *linelog.Writer
	reg    *prometheus.Registry
	logs   *observer.ObservedLogs
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, broker: linelogtest.Start(t), reg: prometheus.NewRegistry()}
	f.log = f.broker.Log(t)
	_, _, err := f.log.EnsureQueue(f.soon(), main)
	require.NoError(t, err)
	f.writer, err = f.log.NewWriter()
	require.NoError(t, err)
	t.Cleanup(f.writer.Close)
	return f
}

func (f *fixture) soon() context.Context {
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	f.t.Cleanup(cancel)
	return ctx
}

// follower is started and stopped with the test; it reads through a network of its own.
func (f *fixture) follower(make func(queue.ID, follow.Log, *zap.Logger, *follow.Metrics) *follow.Follower) *follow.Follower {
	f.t.Helper()
	var core, logs = observer.New(zap.WarnLevel)
	f.logs = logs
	x := make(main, f.log, zap.New(core), follow.NewMetrics(f.reg))
	require.NoError(f.t, x.Start(f.soon()))
	f.t.Cleanup(func() { require.NoError(f.t, x.Stop(context.Background())) })
	return x
}

func (f *fixture) append(recs ...queue.Record) (last queue.Ticket) {
	f.t.Helper()
	for _, r := range recs {
		var err error
		last, _, err = f.writer.AppendUntil(f.soon(), main, r)
		require.NoError(f.t, err)
	}
	return last
}

func entered(v queue.Visitor) queue.Record { return queue.Record{Kind: queue.Entered, Visitor: v} }

// eventually waits for what the follower does by itself.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, patience, 5*time.Millisecond, what)
}

func TestFollowsTheLog(t *testing.T) {
	f := newFixture(t)
	now := time.Now()
	live, past := now.Add(time.Hour).UnixMilli(), now.Add(-time.Minute).UnixMilli()
	f.append(entered("a"), entered("b"), entered("c"), entered("d"), queue.Record{Kind: queue.Left, Visitor: "c"})
	epoch := f.append(queue.Record{Kind: queue.Claimed, Issuer: "i", Mode: queue.ModeDirect})
	f.append(
		queue.Record{Kind: queue.Admitted, Epoch: epoch, People: []queue.Person{{Visitor: "a", Ticket: 1, ExpiresMs: live}, {Visitor: "b", Ticket: 2, ExpiresMs: past}}},
		queue.Record{Kind: queue.Admitted, Epoch: epoch - 1, People: []queue.Person{{Visitor: "d", Ticket: 4, ExpiresMs: live}}},
		queue.Record{Kind: queue.Checkpoint, Epoch: epoch, Served: 1},
	)
	f.broker.AppendBytes(main, []byte("\xff\xff"))
	last := f.append(entered("e"), entered("d"))

	want := line.New()
	require.True(t, want.Apply(0, linelogtest.ReadAll(t, f.log, main, 0)))
	for name, newFollower := range map[string]func(queue.ID, follow.Log, *zap.Logger, *follow.Metrics) *follow.Follower{"ledger": follow.New, "line": follow.NewLine} {
		t.Run(name, func(t *testing.T) {
			f := *f
			f.t, f.reg = t, prometheus.NewRegistry()
			x := f.follower(newFollower)
			require.NoError(t, x.WaitFor(f.soon(), last))
			require.NoError(t, x.Trouble())
			require.Equal(t, queue.State{Seq: last, Served: 2, Epoch: epoch}, x.State())
			require.Equal(t, "i", x.Claim().Issuer)
			g, state := x.Grant("a", now)
			require.Equal(t, line.Live, state)
			require.EqualValues(t, 1, g.Ticket)
			require.Equal(t, live, g.ExpiresMs)
			_, state = x.Grant("b", now)
			require.Equal(t, line.Expired, state)
			_, state = x.Grant("d", now)
			require.Equal(t, line.NoGrant, state, "a zombie's admission")
			for metric, want := range map[string]float64{"admitted_total": 2, "void_total": 1, "skipped_total": 1, "checkpoint_differs_total": 1} {
				require.Equal(t, want, value(t, f.reg, "soonbeon_follow_"+metric), metric)
			}
			require.EqualValues(t, last, value(t, f.reg, "soonbeon_follow_seq_ticket"))
			require.EqualValues(t, 2, value(t, f.reg, "soonbeon_follow_served_ticket"))

			if name == "ledger" {
				require.Empty(t, x.Digest())
				return
			}
			require.Equal(t, want.Digest(), x.Digest())
			moment, place, err := x.Place(t.Context(), "d")
			require.NoError(t, err)
			require.Equal(t, queue.Moment{State: x.State(), Total: 2}, moment)
			require.Equal(t, queue.Place{Ticket: last, Ahead: 1}, place)
			_, place, err = x.Place(t.Context(), "c")
			require.NoError(t, err)
			require.Zero(t, place)
		})
	}
}

func value(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	all, err := reg.Gather()
	require.NoError(t, err)
	for _, m := range all {
		if m.GetName() == name {
			require.Len(t, m.GetMetric(), 1)
			return m.GetMetric()[0].GetCounter().GetValue() + m.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

func TestWaitFor(t *testing.T) {
	f := newFixture(t)
	x := f.follower(follow.New)
	require.NoError(t, x.WaitFor(f.soon(), 0), "nothing has to be read for it")

	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, x.WaitFor(over, 1), context.Canceled)

	var all sync.WaitGroup
	for want := range queue.Ticket(51) {
		all.Go(func() {
			if err := x.WaitFor(f.soon(), want); err != nil {
				t.Errorf("ticket %d: %v", want, err)
			}
			if got := x.State().Seq; got < want {
				t.Errorf("ticket %d was waited for, and %d was read", want, got)
			}
		})
	}
	for range 50 {
		f.append(entered("v"))
	}
	all.Wait()
	require.ErrorIs(t, x.WaitFor(over, 51), context.Canceled)
	require.NoError(t, x.WaitFor(over, 50), "what is there needs no waiting")
}

// Whatever happens to the log, it is told, it is logged as an error once, and nothing of another log is ever folded.
func TestFault12_TheLogIsInTrouble(t *testing.T) {
	many := func(f *fixture, n int) { // by a client of its own, which knows the topic that is there now
		linelogtest.At(f.t, f.broker.Addrs()).AppendMany(main, n, func(i int) queue.Record { return entered(fmt.Sprint("v", i)) })
	}
	for name, tc := range map[string]struct {
		kind   linelog.TroubleKind
		before func(f *fixture) // the follower starts
		after  func(f *fixture) // it has read five records
		seq    queue.Ticket
	}{
		"trimmed before it was read": {linelog.Trimmed, func(f *fixture) { f.broker.Trim(main, 3) }, func(*fixture) {}, 0},
		"made anew, shorter":         {linelog.Recreated, nil, func(f *fixture) { f.broker.Recreate(main); many(f, 2) }, 5},
		"made anew, longer":          {linelog.Recreated, nil, func(f *fixture) { f.broker.Recreate(main); many(f, 50) }, 5},
		"deleted":                    {linelog.Gone, nil, func(f *fixture) { f.broker.Delete(main) }, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			many(f, 5)
			if tc.before != nil {
				tc.before(f)
			}
			x := f.follower(follow.NewLine)
			require.NoError(t, x.WaitFor(f.soon(), tc.seq))
			digest := x.Digest()
			tc.after(f)
			var trouble *linelog.TroubleError
			eventually(t, "it says that the log is in trouble", func() bool { return errors.As(x.Trouble(), &trouble) })
			require.Equal(t, tc.kind, trouble.Kind)

			// It stays so for several attempts, also when the other log grows past what was read.
			if tc.kind != linelog.Gone {
				many(f, 20)
			}
			again, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			require.Error(t, x.WaitFor(again, tc.seq+1))
			require.ErrorAs(t, x.Trouble(), &trouble)
			require.Equal(t, tc.kind, trouble.Kind)
			require.Equal(t, tc.seq, x.State().Seq)
			require.Equal(t, digest, x.Digest())
			require.Len(t, f.logs.FilterMessageSnippet("can't be followed any further").All(), 1)
		})
	}
}

func TestGoesOnAfterTheBrokersReturn(t *testing.T) {
	for name, fail := range map[string]func(*linelogtest.Broker){"away": (*linelogtest.Broker).Away, "hang": (*linelogtest.Broker).Hang} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			x := f.follower(follow.NewLine)
			last := f.append(entered("a"), entered("b"))
			require.NoError(t, x.WaitFor(f.soon(), last))
			fail(f.broker)
			f.broker.AppendMany(main, 100, func(i int) queue.Record { return entered(fmt.Sprint("v", i)) })
			eventually(t, "a moment has passed", func() bool { return x.Fresh(time.Now()) == last })
			require.Equal(t, last, x.State().Seq, "it keeps what it knows")
			f.broker.Back()
			require.NoError(t, x.WaitFor(f.soon(), last+100))
			require.NoError(t, x.Trouble())
			want := line.New()
			require.True(t, want.Apply(0, linelogtest.ReadAll(t, f.log, main, 0)))
			require.Equal(t, want.Digest(), x.Digest())
		})
	}
}

// A trouble that is over is not told for ever, though nothing is written that would show it.
func TestTroubleEndsWithItsCause(t *testing.T) {
	f := newFixture(t)
	f.broker.Delete(main)
	x := f.follower(follow.New)
	eventually(t, "there is no queue to follow", func() bool { return errors.Is(x.Trouble(), linelog.ErrNoQueue) })
	_, _, err := f.log.EnsureQueue(f.soon(), main)
	require.NoError(t, err)
	eventually(t, "all is well", func() bool { return x.Trouble() == nil })
	require.Len(t, f.logs.FilterMessageSnippet("can't be read").All(), 1)
}

func TestKeepsTheContractOfAService(t *testing.T) {
	f := newFixture(t)
	f.append(entered("a"))
	m := follow.NewMetrics(nil)
	lifecycletest.Stress(t, func(*testing.T) lifecycle.Service { return follow.NewLine(main, f.log, zap.NewNop(), m) })
}

// Many ask while the log is read: nobody waits for long, and numbers only grow.
func TestReadersSeeAPrefixThatOnlyGrows(t *testing.T) {
	f := newFixture(t)
	x := f.follower(follow.NewLine)
	const n = 20_000
	ctx, done := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			var seq, fresh queue.Ticket
			for ctx.Err() == nil {
				m, p, _ := x.Place(ctx, "v0")
				if m.Seq < seq || m.Total != int64(m.Seq) || (m.Seq > 0) != (p.Ticket == 1) {
					t.Errorf("after ticket %d: %+v %+v", seq, m, p)
					return
				}
				seq = m.Seq
				got := x.Fresh(time.Now())
				if got < fresh || got > x.State().Seq {
					t.Errorf("fresh went from %d to %d", fresh, got)
					return
				}
				fresh = got
			}
		})
	}
	f.broker.AppendMany(main, n, func(i int) queue.Record { return entered(fmt.Sprint("v", i)) })
	require.NoError(t, x.WaitFor(f.soon(), n))
	done()
	all.Wait()
}

func TestTwoInOneProcess(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := follow.NewMetrics(reg)
	f := newFixture(t)
	a, b := follow.New(main, f.log, zap.NewNop(), m), follow.New("other", f.log, zap.NewNop(), m)
	_, _, err := f.log.EnsureQueue(f.soon(), "other")
	require.NoError(t, err)
	for _, x := range []*follow.Follower{a, b} {
		require.NoError(t, x.Start(f.soon()))
		t.Cleanup(func() { require.NoError(t, x.Stop(context.Background())) })
	}
	require.NoError(t, a.WaitFor(f.soon(), f.append(entered("a"))))
	_, _, err = f.writer.AppendUntil(f.soon(), "other", entered("b"))
	require.NoError(t, err)
	require.NoError(t, b.WaitFor(f.soon(), 1))
	require.Equal(t, 2, testutil.CollectAndCount(reg, "soonbeon_follow_seq_ticket"), "one for each queue")
}
