package replay

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
	"github.com/soonbeon/soonbeon/services/e2e/realservers"
)

// TestRealMillion rebuilds a line of a million from a real Kafka into a real Redis, into an empty one and over one that serves,
// compares them, and prints how long each took.
func TestRealMillion(t *testing.T) {
	kafka, server := realservers.Kafka(t, 1), realservers.Redis(t)
	log, err := linelog.Open(linelog.Config{Brokers: kafka.Addrs()}, nil, nil)
	require.NoError(t, err)
	defer log.Close()
	rdb, err := redisline.Dial(redisline.Config{Addrs: []string{server.Addr()}})
	require.NoError(t, err)
	defer func() { require.NoError(t, rdb.Close()) }()
	id := queue.ID("t-" + strconv.FormatInt(time.Now().UnixNano(), 36)) // the servers may be anybody's
	view := redisline.New(rdb, id)
	_, _, err = log.EnsureQueue(t.Context(), id)
	require.NoError(t, err)
	const n = 1_000_000
	for range 10 {
		linelogtest.At(t, kafka.Addrs()).AppendMany(id, n/10, func(int) queue.Record {
			return queue.Record{Kind: queue.Entered, Visitor: queue.NewVisitor()}
		})
	}
	for _, over := range []string{"an empty Redis", "one that serves"} {
		r, err := Rebuild(t.Context(), log, view, id, false, nil)
		require.NoError(t, err)
		require.EqualValues(t, n, r.Seq)
		t.Logf("into %s: folded in %v, loaded in %v", over, r.Folding.Round(time.Millisecond), r.Loading.Round(time.Millisecond))
		require.Less(t, r.Folding+r.Loading, 15*time.Second)
	}
	began := time.Now()
	c, err := Compare(t.Context(), log, view, id, nil)
	require.NoError(t, err)
	require.True(t, c.Same() && c.Exact, c.Examples)
	t.Logf("compared in %v", time.Since(began).Round(time.Millisecond))
	began = time.Now()
	p, err := Then(t.Context(), log, id, Moment{Ticket: n / 2}, nil)
	require.NoError(t, err)
	require.EqualValues(t, n/2, p.Total())
	t.Logf("the line as it was half-way, in %v", time.Since(began).Round(time.Millisecond))
}
