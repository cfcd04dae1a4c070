package projector

import (
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/lifecycle/lifecycletest"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
)

func TestProjects(t *testing.T) {
	f := newFixture(t)
	f.append(2500) // more than one script takes
	reg := prometheus.NewRegistry()
	s := f.service(reg)
	f.follows()
	for range 20 {
		f.append(1 + f.rand.IntN(100))
	}
	f.follows()
	require.NoError(t, s.Trouble(t.Context()))
	f.eventually("it is counted", func() bool {
		return testutil.ToFloat64(s.metrics.seq.WithLabelValues("main")) == float64(f.written.State().Seq)
	})
	require.EqualValues(t, f.written.State().Seq, testutil.ToFloat64(s.metrics.applied.WithLabelValues("main")))
	require.Zero(t, testutil.ToFloat64(s.metrics.refused.WithLabelValues("main")))
}

// Records come again after every kind of interruption: a clean stop, a reply that was lost after the script had run, a
// projector that takes over. No ticket changes.
func TestFault1_RedeliveredRecords(t *testing.T) {
	f := newFixture(t)
	for i := range 6 {
		s := f.service(nil)
		f.append(200)
		f.follows()
		f.link.LoseReplies()
		f.append(200)
		f.eventually("the script has run, and nobody was told", func() bool { return f.seq() > f.written.State().Seq-200 && s.Trouble(t.Context()) != nil })
		if i%2 == 0 {
			f.stop(s) // the next one takes over in the middle of it
			f.link.Back()
			continue
		}
		f.link.Back()
		f.append(10)
		f.follows()
		f.stop(s)
	}
	f.service(nil)
	f.follows()
}

func TestFault10_RedisComesBackEmptyOrOlder(t *testing.T) {
	f := newFixture(t)
	s := f.service(nil)
	var moments []dataset
	for range 8 {
		f.append(150)
		f.follows()
		moments = append(moments, f.dataset())
	}
	for i, d := range append(moments, dataset{}, moments[3], dataset{}) {
		f.restore(d)
		f.append(1 + f.rand.IntN(30)) // what comes next does not follow
		f.follows()
		if i%4 == 0 { // and while it is being stopped and started
			f.restore(d)
			f.stop(s)
			s = f.service(nil)
			f.follows()
		}
	}
	require.NotZero(t, testutil.ToFloat64(s.metrics.refused.WithLabelValues("main")))
	require.Zero(t, f.logs.FilterLevelExact(zap.ErrorLevel).Len())
}

func TestFault11_RedisRefuses(t *testing.T) {
	f := newFixture(t)
	s := f.service(nil)
	for name, fail := range map[string]func(){
		"LOADING":      func() { f.link.Answer("LOADING Redis is loading the dataset in memory") },
		"READONLY":     func() { f.link.AnswerScripts("READONLY You can't write against a read only replica.") },
		"ERR READONLY": func() { f.link.AnswerScripts("ERR READONLY You can't write against a read only replica.") },
		"MISCONF":      func() { f.link.AnswerScripts("MISCONF Redis is configured to save RDB snapshots, but it can't.") },
		"OOM":          func() { f.link.AnswerScripts("OOM command not allowed when used memory > 'maxmemory'.") },
		"BUSY":         func() { f.link.Answer("BUSY Redis is busy running a script.") },
		"NOSCRIPT":     func() { f.link.AnswerScripts("NOSCRIPT No matching script.") },
		"CLUSTERDOWN":  func() { f.link.Answer("CLUSTERDOWN The cluster is down") },
		"hangs":        f.link.Hang,
		"gone":         f.link.Away,
	} {
		t.Run(name, func(t *testing.T) {
			f.append(50)
			f.follows()
			f.eventually("all is well before", func() bool { return s.Trouble(t.Context()) == nil })
			before := f.seq()
			fail()
			f.append(50)
			f.eventually("it says that it can't project", func() bool { return errors.Is(s.Trouble(t.Context()), redisline.ErrAway) })
			if name == "READONLY" { // it can be read, so each attempt begins well
				n, told := failures(s), f.logs.FilterMessageSnippet("can't project").Len()
				f.eventually("it has tried again", func() bool { return failures(s) >= n+3 })
				require.Equal(t, told, f.logs.FilterMessageSnippet("can't project").Len(), "told once")
			}
			require.Equal(t, before, f.seq(), "nothing was applied")
			f.link.Back()
			f.follows()
			f.eventually("all is well again", func() bool { return s.Trouble(t.Context()) == nil })
		})
	}
}

func failures(s *Service) float64 {
	return testutil.ToFloat64(s.metrics.failures.WithLabelValues("main"))
}

// Redis forgets the scripts when it restarts; then they are sent again.
func TestFault11_TheScriptsAreForgotten(t *testing.T) {
	f := newFixture(t)
	f.service(nil)
	for range 3 {
		f.append(20)
		f.follows()
		require.NoError(t, f.rdb.ScriptFlush(f.soon()).Err())
	}
	require.Zero(t, f.logs.FilterLevelExact(zap.WarnLevel).Len())
}

// A full Redis, for real: it refuses, is left with less memory than it needs for a while, and nobody is lost.
func TestFault11_RedisIsFull(t *testing.T) {
	f := newFixture(t)
	s := f.service(nil)
	f.append(100)
	f.follows()
	require.NoError(t, f.rdb.ConfigSet(f.soon(), "maxmemory", "1mb").Err())
	f.append(300)
	f.eventually("it says that it can't project", func() bool { return errors.Is(s.Trouble(t.Context()), redisline.ErrAway) })
	require.NoError(t, f.rdb.ConfigSet(f.soon(), "maxmemory", "0").Err())
	f.follows()
}

// Nothing is written for hours: that Redis is back shows all the same.
func TestReadyAgainThoughNothingComes(t *testing.T) {
	f := newFixture(t)
	f.append(10)
	f.stop(f.following())
	f.link.Answer("LOADING Redis is loading the dataset in memory")
	s := f.service(nil)
	f.eventually("it says that Redis is away", func() bool { return errors.Is(s.Trouble(t.Context()), redisline.ErrAway) })
	f.link.Back()
	f.eventually("it says that all is well", func() bool { return s.Trouble(t.Context()) == nil })
	require.Len(t, f.logs.FilterMessageSnippet("can't project").All(), 1, "told once")
}

func (f *fixture) following() *Service {
	s := f.service(nil)
	f.follows()
	return s
}

func TestFault12_TheLogIsInTrouble(t *testing.T) {
	for name, tc := range map[string]struct {
		happens func(f *fixture)
		later   error // what is told once the log has grown; nil: the same
	}{
		"trimmed past what was applied": {func(f *fixture) { f.append(50); f.broker.Trim(main, f.written.State().Seq-10) }, nil},
		"made anew, and longer": {func(f *fixture) {
			f.broker.Recreate(main)
			linelogtest.At(f.t, f.broker.Addrs()).AppendMany(main, 60, func(int) queue.Record { return queue.Record{Kind: queue.Left, Visitor: "other"} })
		}, redisline.ErrOtherTopic},
		"shorter than what was applied": {func(f *fixture) { f.broker.Recreate(main) }, redisline.ErrOtherTopic},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.append(50)
			f.stop(f.following())
			before, err := f.view.Digest(f.soon())
			require.NoError(t, err)
			tc.happens(f)
			s := f.service(nil)
			var trouble *linelog.TroubleError
			f.eventually("it says what is wrong", func() bool {
				err := s.Trouble(t.Context())
				return errors.As(err, &trouble) || errors.Is(err, redisline.ErrOtherTopic)
			})
			require.ErrorContains(t, s.Trouble(t.Context()), "queue main")
			linelogtest.At(t, f.broker.Addrs()).AppendMany(main, 100, func(int) queue.Record { return queue.Record{Kind: queue.Entered, Visitor: "other"} })
			if tc.later != nil {
				f.eventually("it says that it is another log", func() bool { return errors.Is(s.Trouble(t.Context()), tc.later) })
			}
			n := failures(s)
			f.eventually("it has tried again several times", func() bool { return failures(s) >= n+3 })
			require.Error(t, s.Trouble(t.Context()))
			after, err := f.view.Digest(f.soon())
			require.NoError(t, err)
			require.Equal(t, before, after, "the view is left as it is")
			require.Len(t, f.logs.FilterLevelExact(zap.ErrorLevel).All(), 1, "told once")
		})
	}
}

func TestFault13_RecordsThatCannotBeRead(t *testing.T) {
	f := newFixture(t)
	f.service(nil)
	for _, bad := range [][]byte{nil, {0xff, 0xff}, []byte("hello"), {0xa2, 0x06, 0x01, 0x00} /* field 100, of a newer version */} {
		f.append(20)
		ticket := f.broker.AppendBytes(main, bad)
		require.True(t, f.written.Apply(ticket-1, []queue.Record{{Kind: queue.Skipped, Ticket: ticket}}))
		f.append(20)
	}
	f.follows()
}

// Two that both believe that the queue is theirs: a rebalance that one has not heard of.
func TestTwoProjectorsAtOnce(t *testing.T) {
	f := newFixture(t)
	var all []*Service
	for range 2 {
		s, err := New(Config{View: func(queue.ID) View { return f.told }}, f.log, f.logger, nil)
		require.NoError(t, err)
		s.Set([]queue.ID{main})
		s.assigned(t.Context(), main)
		t.Cleanup(func() {
			s.lost(main)
			f.stop(s)
		})
		all = append(all, s)
	}
	for i := range 30 {
		f.append(1 + f.rand.IntN(400))
		if i%10 == 9 {
			f.follows()
		}
	}
	f.follows()
	var refused, applied float64
	for _, s := range all {
		require.NoError(t, s.Trouble(t.Context()))
		refused += testutil.ToFloat64(s.metrics.refused.WithLabelValues("main"))
		applied += testutil.ToFloat64(s.metrics.applied.WithLabelValues("main"))
	}
	require.NotZero(t, refused, "they were never at it at once")
	require.EqualValues(t, f.written.State().Seq, applied, "each record once")
}

// One stops or dies, and the other goes on from where the view is.
func TestAnotherTakesOver(t *testing.T) {
	f := newFixture(t)
	f.service(nil)
	for range 3 {
		f.append(100)
		next := f.service(nil)
		f.append(100)
		f.follows()
		f.stop(next)
		f.append(100)
		f.follows()
	}
}

// Redis hangs: a stop waits for the call that is under way, which has an end.
func TestFault28_StopsWhileRedisHangs(t *testing.T) {
	f := newFixture(t)
	s := f.following()
	f.link.Hang()
	f.append(10)
	f.eventually("it has noticed", func() bool { return s.Trouble(t.Context()) != nil })
	began := time.Now()
	f.stop(s)
	require.Less(t, time.Since(began), 8*time.Second)
}

func TestKeepsTheContractOfAService(t *testing.T) {
	broker := linelogtest.Start(t)
	log := broker.Log(t)
	_, _, err := log.EnsureQueue(t.Context(), main)
	require.NoError(t, err)
	rdb, err := redisline.Dial(redisline.Config{Addrs: []string{miniredis.RunT(t).Addr()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rdb.Close()) })
	broker.AppendMany(main, 100, func(int) queue.Record { return queue.Record{Kind: queue.Entered, Visitor: "v"} })
	lifecycletest.Stress(t, func(t *testing.T) lifecycle.Service {
		s, err := New(Config{View: func(id queue.ID) View { return redisline.New(rdb, id) }}, log, zap.NewNop(), nil)
		require.NoError(t, err)
		s.Set([]queue.ID{main})
		return s
	})
	_, err = New(Config{}, log, zap.NewNop(), nil)
	require.Error(t, err)
}
