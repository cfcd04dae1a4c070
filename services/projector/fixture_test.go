package projector

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
	"github.com/soonbeon/soonbeon/pkg/redisline/redislinetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const main queue.ID = "main"

// patience is how long a slow machine may take for what should happen at once.
const patience = 30 * time.Second

// fixture is a log in memory, a real Redis, and the network between it and the projectors.
type fixture struct {
	t      *testing.T
	broker *linelogtest.Broker
	log    *linelog.Log
	rdb    redis.UniversalClient // past the link
	link   *redislinetest.Link
	view   *redisline.View // past the link
	told   *redisline.View // what projectors apply to
	logs   *observer.ObservedLogs
	logger *zap.Logger

	written *line.Line // what the test has appended, folded
	rand    *rand.Rand
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	rdb := redislinetest.Start(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	core, logs := observer.New(zap.InfoLevel)
	f := &fixture{t: t, broker: linelogtest.Start(t), rdb: rdb, link: redislinetest.NewLink(t, rdb), view: redisline.New(rdb, main),
		logs: logs, logger: zap.New(core), written: line.New(), rand: rand.New(rand.NewPCG(seed, 0))}
	f.log = f.broker.Log(t)
	client, err := redisline.Dial(redisline.Config{Addrs: []string{f.link.Addr()}, Timeout: 500 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	f.told = redisline.New(client, main)
	_, _, err = f.log.EnsureQueue(f.soon(), main)
	require.NoError(t, err)
	return f
}

func (f *fixture) soon() context.Context {
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	f.t.Cleanup(cancel)
	return ctx
}

// service runs until the test ends, or is stopped before.
func (f *fixture) service(reg prometheus.Registerer) *Service {
	f.t.Helper()
	s, err := New(Config{View: func(queue.ID) View { return f.told }}, f.log, f.logger, reg)
	require.NoError(f.t, err)
	s.Set([]queue.ID{main})
	require.NoError(f.t, s.Start(f.soon()))
	f.t.Cleanup(func() { f.stop(s) })
	return s
}

func (f *fixture) stop(s *Service) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(f.t, s.Stop(ctx))
}

// append appends n records of a random history: people enter, refresh, retransmit, leave, and are admitted.
func (f *fixture) append(n int) {
	f.t.Helper()
	recs := make([]queue.Record, n)
	for i := range recs {
		r := &recs[i]
		v := fmt.Sprint("v", f.rand.IntN(300))
		switch dice := f.rand.IntN(100); {
		case f.written.State().Epoch == 0 || dice < 1:
			*r = queue.Record{Kind: queue.Claimed, Issuer: "i", Mode: queue.ModeDirect}
		case dice < 2:
			*r = queue.Record{Kind: queue.SettingsSet, Reentry: queue.Reentry(f.rand.IntN(2))}
		case dice < 8:
			*r = queue.Record{Kind: queue.Left, Visitor: v}
		case dice < 16:
			*r = queue.Record{Kind: queue.Admitted, Epoch: f.written.State().Epoch, People: f.head(1 + f.rand.IntN(20))}
			if len(r.People) == 0 {
				*r = queue.Record{Kind: queue.Entered, Visitor: v}
			}
		case dice < 40:
			*r = queue.Record{Kind: queue.Entered, Visitor: v, Key: fmt.Sprint("key", f.rand.IntN(2))}
		default:
			*r = queue.Record{Kind: queue.Entered, Visitor: v}
		}
		r.Ticket = f.written.State().Seq + 1
		require.True(f.t, f.written.Apply(r.Ticket-1, []queue.Record{*r}))
	}
	f.broker.AppendMany(main, n, func(i int) queue.Record { return recs[i] })
}

func (f *fixture) head(n int) (people []queue.Person) {
	for w := range f.written.Waiting() {
		if len(people) == n {
			break
		}
		people = append(people, queue.Person{Visitor: w.Visitor, Ticket: w.Ticket, ExpiresMs: time.Now().Add(time.Hour).UnixMilli()})
	}
	return people
}

// follows waits until the view has applied the whole log and is the line of the log as another reader folds it.
func (f *fixture) follows() {
	f.t.Helper()
	want := line.New()
	require.True(f.t, want.Apply(0, linelogtest.ReadAll(f.t, f.log, main, 0)))
	f.eventually("the view has applied the log", func() bool { return f.seq() == want.State().Seq })
	got, err := f.view.Digest(f.soon())
	require.NoError(f.t, err)
	require.Equal(f.t, want.Digest(), got)
	require.Equal(f.t, f.written.Digest(), got)
}

func (f *fixture) seq() queue.Ticket {
	seq, err := f.view.Seq(context.Background())
	require.NoError(f.t, err)
	return seq
}

func (f *fixture) eventually(what string, cond func() bool) {
	f.t.Helper()
	require.Eventually(f.t, cond, patience, 5*time.Millisecond, what)
}

// dataset is everything that Redis holds at one moment.
type dataset map[string]string

func (f *fixture) dataset() dataset {
	d := dataset{}
	keys, err := f.rdb.Keys(f.soon(), "*").Result()
	require.NoError(f.t, err)
	for _, k := range keys {
		if d[k], err = f.rdb.Dump(f.soon(), k).Result(); err == redis.Nil {
			delete(d, k) // a grant that ended meanwhile
			continue
		}
		require.NoError(f.t, err)
	}
	return d
}

// restore puts Redis back to that moment, at one stroke.
func (f *fixture) restore(d dataset) {
	_, err := f.rdb.TxPipelined(f.soon(), func(p redis.Pipeliner) error {
		p.FlushAll(f.soon())
		for k, v := range d {
			p.Restore(f.soon(), k, 0, v)
		}
		return nil
	})
	require.NoError(f.t, err)
}
