package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
	"github.com/soonbeon/soonbeon/services/e2e/realservers"
	"github.com/soonbeon/soonbeon/services/load"
)

// deployment is what production runs: each service as processes of its own, on a real Kafka and a real Redis, with a queue
// that nobody else uses.
type deployment struct {
	kafka *realservers.Cluster
	redis *realservers.Server
	view  *redisline.View
	rdb   redisline.Client
	id    queue.ID
	rate  int
	keys  string

	enter, projector, issuer, position []*soonbeon
}

// newQueue names a queue that no earlier run has used: the servers may be somebody's.
func newQueue() queue.ID { return queue.ID(fmt.Sprintf("e2e-%x", time.Now().UnixNano())) }

// deploy starts each service so many times.
func deploy(t testing.TB, kafka *realservers.Cluster, redis *realservers.Server, rate, each int, args ...string) *deployment {
	t.Helper()
	d := &deployment{kafka: kafka, redis: redis, id: newQueue(), rate: rate, keys: strings.TrimSpace(run(t, nil, "keys").out)}
	d.rdb, d.view = viewOf(t, redis, d.id)
	args = append(args, d.kafkaArgs()...)
	args = append(args, "--redis", redis.Addr(), "--queues", string(d.id), fmt.Sprintf("--rate=%d", rate))
	env := []string{"SOONBEON_KEYS=" + d.keys}
	for i := range each {
		for role, list := range map[string]*[]*soonbeon{
			"enter": &d.enter, "projector": &d.projector, "issuer": &d.issuer, "position": &d.position,
		} {
			*list = append(*list, start(t, fmt.Sprintf("%s-%d", role, i+1), role, env, args...))
		}
	}
	return d
}

func (d *deployment) kafkaArgs() []string {
	return []string{"--kafka", strings.Join(d.kafka.Addrs(), ","), fmt.Sprintf("--kafka-replication=%d", min(3, len(d.kafka.Addrs())))}
}

func viewOf(t testing.TB, redis *realservers.Server, id queue.ID) (redisline.Client, *redisline.View) {
	t.Helper()
	rdb, err := redisline.Dial(redisline.Config{Addrs: []string{redis.Addr()}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb, redisline.New(rdb, id)
}

func addresses(processes []*soonbeon) []string {
	var all []string
	for _, p := range processes {
		all = append(all, p.public)
	}
	return all
}

// crowd is one for this deployment: it uses every enter and every position node in turn.
func (d *deployment) crowd(visitors int, arrivals float64) load.Config {
	return load.Config{Enter: addresses(d.enter), Position: addresses(d.position), Target: addresses(d.position), Queue: string(d.id),
		Visitors: visitors, Rate: arrivals, Refresh: 0.03, Keys: d.keys, ExpectRate: float64(d.rate), Timeout: 5 * time.Minute}
}

// busy waits for the one of several processes of which holds is true.
func busy(t testing.TB, processes []*soonbeon, what string, holds func(*soonbeon) bool) *soonbeon {
	t.Helper()
	var found *soonbeon
	until(t, 30*time.Second, what, func() bool {
		for _, p := range processes {
			if holds(p) {
				found = p
				return true
			}
		}
		return false
	})
	return found
}

func (d *deployment) leader(t testing.TB) *soonbeon {
	t.Helper()
	return busy(t, d.issuer, "an issuer leads", (*soonbeon).leading)
}

// applier is the projector that applied last.
func (d *deployment) applier(t testing.TB) *soonbeon {
	t.Helper()
	return busy(t, d.projector, "a projector applies", func(p *soonbeon) bool {
		mine := p.metric("soonbeon_projector_seq_ticket")
		for _, other := range d.projector {
			if other != p && other.metric("soonbeon_projector_seq_ticket") > mine {
				return false
			}
		}
		return mine > 0
	})
}

// agree waits until the view in Redis is where the log is, and requires that both are the same line. It returns the book.
func agree(t testing.TB, brokers []string, view *redisline.View, id queue.ID) *book {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		b := readBook(t, brokers, id)
		seq, err := view.Seq(ctx)
		require.NoError(t, err, "the log is at %d", b.state.Seq)
		if seq != b.state.Seq { // on its way, or a record came meanwhile
			require.NoError(t, ctx.Err(), "the view is at %d and the log at %d", seq, b.state.Seq)
			continue
		}
		digest, err := view.Digest(ctx)
		require.NoError(t, err)
		after, err := view.Seq(ctx)
		require.NoError(t, err)
		if after != seq {
			continue
		}
		require.Equal(t, b.digest(), digest, "log and Redis at ticket %d", seq)
		return b
	}
}

// served is the highest ticket admitted, as far as any position node has read. (The crowd itself learns of it seconds later.)
func (d *deployment) served() float64 {
	most := 0.0
	for _, p := range d.position {
		most = max(most, p.metric("soonbeon_follow_served_ticket"))
	}
	return most
}

// judged compares log, Redis and what the crowd was told.
func (d *deployment) judged(t testing.TB, c *crowd) *book {
	t.Helper()
	b := agree(t, d.kafka.Addrs(), d.view, d.id)
	judge(t, b, c, d.keys, d.id, d.rate)
	return b
}

func judge(t testing.TB, b *book, c *crowd, keys string, id queue.ID, rate int) {
	t.Helper()
	acks, _ := c.promised()
	var entries []pass.Entry
	if keys != "" {
		entries = c.entries(t, keys, id)
	}
	fates := b.accounts(t, acks, entries)
	t.Logf("%d acknowledged entries: %d admitted, %d waiting, %d moved back, %d absorbed, %d repeated; at most %d in a second",
		len(acks), fates[wasAdmitted], fates[waits], fates[movedBack], fates[absorbed], fates[repeated], b.fastest())
	require.LessOrEqual(t, b.fastest(), rate+(rate+9)/10, "people in one second, by the log")
}

// flush empties the Redis, as a wiped server is.
func (d *deployment) flush(t testing.TB) {
	t.Helper()
	realservers.NeedOurs(t, d.redis)
	require.NoError(t, d.rdb.FlushAll(t.Context()).Err())
}

// save writes Redis' dataset of this moment to disk, where the next start finds it.
func (d *deployment) save(t testing.TB) { require.NoError(t, d.rdb.Save(t.Context()).Err()) }
