package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/queue"
	fold "github.com/soonbeon/soonbeon/services/e2e/book"
	"github.com/soonbeon/soonbeon/services/e2e/realservers"
)

// Two issuers and two projectors share sixty queues in which people wait. One issuer is killed, a third one comes, and one is
// stopped: every queue goes on within the time that was promised, and nobody is let in twice or passed.
func TestRealManyQueuesMove(t *testing.T) {
	const queues, people, rate = 60, 1000, 5
	redis, kafka := realservers.Redis(t), realservers.Kafka(t, 1)
	mark := strings.TrimPrefix(string(newQueue()), "e2e")
	ids := make([]queue.ID, queues)
	names := make([]string, queues)
	for i := range ids {
		ids[i] = queue.ID(fmt.Sprintf("film-%d%s", i+1, mark))
		names[i] = string(ids[i])
	}
	args := []string{"--kafka", strings.Join(kafka.Addrs(), ","), "--kafka-replication=1", "--redis", redis.Addr()}
	env := []string{"SOONBEON_KEYS=" + strings.TrimSpace(run(t, nil, "keys").out)}
	begin := func(name, role string, more ...string) *soonbeon {
		return start(t, name, role, env, append(args, more...)...)
	}
	first := begin("issuer-1", "issuer", "--queues", strings.Join(names, ","), fmt.Sprintf("--rate=%d", rate))
	second := begin("issuer-2", "issuer")
	projectors := []*soonbeon{begin("projector-1", "projector"), begin("projector-2", "projector")}
	reader := begin("position", "position")

	broker := linelogtest.At(t, kafka.Addrs())
	for _, id := range ids {
		broker.AppendMany(id, people, func(i int) queue.Record {
			return queue.Record{Kind: queue.Entered, Visitor: fmt.Sprintf("v%021d", i)}
		})
	}
	leads := func(p *soonbeon) float64 { // of our queues: the servers may have others
		n := 0.0
		for line := range strings.Lines(p.metrics()) {
			if strings.HasPrefix(line, "soonbeon_issuer_leading{") && strings.Contains(line, mark) && strings.HasSuffix(strings.TrimSpace(line), " 1") {
				n++
			}
		}
		return n
	}
	all := func(what string, share float64, issuers ...*soonbeon) {
		t.Helper()
		var shares []float64
		until(t, 60*time.Second, what, func() bool {
			shares = shares[:0]
			sum, least := 0.0, float64(queues)
			for _, p := range issuers {
				n := leads(p)
				shares = append(shares, n)
				sum, least = sum+n, min(least, n)
			}
			return sum == queues && least >= share
		})
		t.Logf("%s: shares of %v", what, shares)
	}
	goesOn := func(what string) { // every queue lets people in
		t.Helper()
		before := served(reader, mark)
		until(t, 60*time.Second, what, func() bool {
			now := served(reader, mark)
			n := 0
			for id, ticket := range now {
				if ticket >= before[id]+2*rate {
					n++
				}
			}
			return n == queues
		})
	}
	all("two issuers share them", 15, first, second)
	goesOn("everybody's queue moves")

	began := time.Now()
	require.NoError(t, first.Kill())
	killed := time.Now()
	all("one was killed", queues, second)
	goesOn("all go on without it")
	joined := time.Now()
	third := begin("issuer-3", "issuer")
	all("a third one came", 15, second, third)
	goesOn("all go on with it")
	stopped := time.Now()
	third.stop(t)
	all("it was stopped", queues, second)
	goesOn("all go on without the one that was stopped")
	end := time.Now()
	second.stop(t) // so that the logs stand still while they are looked at

	var kill, join, stop time.Duration
	claims := 0
	for i, id := range ids {
		_, view := viewOf(t, redis, id)
		b := agree(t, kafka.Addrs(), view, id)
		require.Empty(t, b.wrong)
		require.NotEmpty(t, b.line, "people are to wait all the time; make the test's lines longer")
		in := slices.Collect(maps.Values(b.admitted))
		slices.Sort(in)
		require.Len(t, slices.Compact(slices.Clone(in)), len(in), "%s: somebody was let in twice", id)
		require.LessOrEqual(t, b.fastest(), rate+1, "people in one second")
		kill = max(kill, gap(t, i, b.Book, "kill", began.Add(-time.Second), joined))
		join = max(join, gap(t, i, b.Book, "join", joined, stopped))
		stop = max(stop, gap(t, i, b.Book, "stop", stopped, end))
		claims += len(b.claims)
	}
	require.NotZero(t, projectors[0].metric("soonbeon_projector_applied_total"), "they share the queues too")
	require.NotZero(t, projectors[1].metric("soonbeon_projector_applied_total"))
	t.Logf("longest time in which a queue let nobody in: %v when an issuer was killed, %v when one came, %v when one was stopped; %d claims for %d queues; killing took %v",
		kill, join, stop, claims, queues, killed.Sub(began).Round(time.Millisecond))
	const batch = time.Second / rate
	require.Less(t, kill, takeover+batch)
	require.Less(t, join, takeover+batch)
	require.Less(t, stop, 3*time.Second, "a session would last 4 s: the stopped one has not left by itself")
}

// gap is the longest time in which a queue let nobody in.
func gap(t testing.TB, i int, b *fold.Book, what string, from, to time.Time) time.Duration {
	t.Helper()
	d := silence(b, from, to)
	if d > takeover {
		t.Logf("queue %d let nobody in for %v at the %s", i+1, d, what)
	}
	return d
}

// served is the highest ticket that was let in, by queue, of those whose name has a mark.
func served(p *soonbeon, mark string) map[string]float64 {
	all := map[string]float64{}
	for line := range strings.Lines(p.metrics()) {
		rest, ok := strings.CutPrefix(line, `soonbeon_follow_served_ticket{queue="`)
		if id, value, found := strings.Cut(rest, `"} `); ok && found && strings.Contains(id, mark) {
			var n float64
			_, _ = fmt.Sscan(value, &n)
			all[id] = n
		}
	}
	return all
}
