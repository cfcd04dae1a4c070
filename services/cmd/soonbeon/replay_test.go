package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
	"github.com/soonbeon/soonbeon/pkg/redisline/redislinetest"
	"github.com/soonbeon/soonbeon/services/standalone"
)

func TestReplayFlags(t *testing.T) {
	for _, c := range []struct {
		args string
		want string
	}{
		{"", "--redis"},
		{"--dry-run", "--redis"},
		{"--until 5 --dry-run --redis x", "one of them"},
		{"--ticket 5 --redis x", "go with --until"},
		{"--visitor v --redis x", "go with --until"},
		{"--until yesterday", "--until is a ticket, or a time"},
		{"--until -5", "--until"},
		{"--until 5 --queue Main", "--queue"},
		{"--until 5 --data /nowhere/at/all", "there is no log in"},
	} {
		_, code, err := soonbeon(t, append([]string{"replay"}, strings.Fields(c.args)...)...)
		require.Equal(t, 1, code, c.args)
		require.ErrorContains(t, err, c.want, c.args)
	}
}

// TestFault10_ReplayOnARunningSystem rebuilds from the command line, by Kafka's and Redis' flags, while a whole process serves,
// projects and admits, and compares at the end.
func TestFault10_ReplayOnARunningSystem(t *testing.T) {
	broker, rdb := linelogtest.Start(t), redislinetest.Start(t)
	link := redislinetest.NewLink(t, rdb)
	reach := []string{"--kafka", broker.Addrs()[0], "--redis", link.Addr()}
	keys, err := pass.GenerateKeys()
	require.NoError(t, err)
	cfg := standalone.Config{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Queues: []string{"main", "west"}, Rate: 1000,
		Interval: 100 * time.Millisecond, GrantTTL: time.Minute, Reentry: "back", Identity: "anonymous", StartTimeout: time.Minute,
		Keys: keys, Kafka: []string{broker.Addrs()[0]}, Redis: []string{link.Addr()}}
	cfg.Replication, cfg.Retention = 1, 24*time.Hour
	p, err := standalone.New(t.Context(), cfg, standalone.All, zap.NewNop())
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	stopped := false
	defer func() {
		if !stopped {
			stop(t, p)
		}
	}()
	crowd := func(id queue.ID, n int) {
		broker.AppendMany(id, n, func(i int) queue.Record {
			return queue.Record{Kind: queue.Entered, Visitor: queue.NewVisitor(), Key: []string{"", "key"}[i%2]}
		})
	}
	crowd("west", 50)
	for range 6 {
		crowd("main", 1500)
		out, code, err := soonbeon(t, append([]string{"replay", "--all"}, reach...)...)
		require.NoError(t, err, out)
		require.Zero(t, code)
		require.Regexp(t, `(?m)^main +rebuilt: [\d,]+ wait, at ticket \d+; `, out)
		require.Regexp(t, `(?m)^west +rebuilt: `, out)
	}
	follower := p.Follower("main")
	require.Eventually(t, func() bool { return follower.State().Served > 1000 }, time.Minute, 10*time.Millisecond, "people are let in all the while")
	stop(t, p)
	stopped = true
	crowd("main", 300) // so that some wait, however long all that took

	// Whoever applies what came last: the rebuild itself does.
	_, _, err = soonbeon(t, append([]string{"replay"}, reach...)...)
	require.NoError(t, err)
	out, code, err := soonbeon(t, append([]string{"replay", "--dry-run", "--all"}, reach...)...)
	require.NoError(t, err)
	require.Zero(t, code, out)
	require.Contains(t, out, "Redis is what the log says")

	// --dry-run finds a member that was tampered with, names nobody, and changes nothing.
	waiting, err := rdb.ZRange(t.Context(), "soonbeon:{main}:line", 100, 100).Result()
	require.NoError(t, err)
	require.Len(t, waiting, 1)
	require.NoError(t, rdb.ZRem(t.Context(), "soonbeon:{main}:line", waiting[0]).Err())
	for range 2 {
		out, code, err = soonbeon(t, append([]string{"replay", "--dry-run"}, reach...)...)
		require.NoError(t, err)
		require.Equal(t, 1, code)
		require.Regexp(t, `(?m)^main +Redis is NOT what the log says, at ticket \d+$`, out)
		require.Regexp(t, `(?m)^ +1   in the log and not in Redis$`, out)
		require.NotContains(t, out, waiting[0])
	}
	_, _, err = soonbeon(t, append([]string{"replay"}, reach...)...)
	require.NoError(t, err)
	_, code, err = soonbeon(t, append([]string{"replay", "--dry-run"}, reach...)...)
	require.NoError(t, err)
	require.Zero(t, code)

	// What only Redis knows of is not thrown away by accident.
	require.NoError(t, rdb.HSet(t.Context(), "soonbeon:{main}:state", "topic", "another").Err())
	_, code, err = soonbeon(t, append([]string{"replay"}, reach...)...)
	require.ErrorContains(t, err, "--anyway")
	require.Equal(t, 1, code)
	_, _, err = soonbeon(t, append([]string{"replay", "--anyway"}, reach...)...)
	require.NoError(t, err)

	// A Redis that may evict is refused before anything is read.
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	_, _, err = soonbeon(t, append([]string{"replay"}, reach...)...)
	require.ErrorIs(t, err, redisline.ErrEviction)
	_, _, err = soonbeon(t, "replay", "--kafka", broker.Addrs()[0], "--until", "9", "--queue", "nobody")
	require.ErrorContains(t, err, "--queue")
}

// TestReplayUntil looks back on the embedded log, while Redis is nowhere.
func TestReplayUntil(t *testing.T) {
	data := t.TempDir() + "/data"
	p := serving(t, data)
	_, _, err := soonbeon(t, "replay", "--until", "5", "--data", data)
	require.ErrorContains(t, err, "stop the server first")
	stop(t, p)
	log, closed, err := standalone.Reach{Data: data}.OpenLog(t.Context(), zap.NewNop())
	require.NoError(t, err)
	writer, err := log.NewWriter()
	require.NoError(t, err)
	for i := range 30 {
		_, err := writer.Append(t.Context(), "main", queue.Record{Kind: queue.Entered, Visitor: fmt.Sprintf("person%d", i)})
		require.NoError(t, err)
	}
	writer.Close()
	recs := linelogtest.ReadAll(t, log, "main", 0)
	require.NoError(t, closed())
	first := recs[len(recs)-30].Ticket

	out, _, err := soonbeon(t, "replay", "--data", data, "--until", fmt.Sprint(first+9), "--ticket", fmt.Sprint(first+4), "--visitor", "person7")
	require.NoError(t, err)
	require.Regexp(t, fmt.Sprintf(`(?m)^main +at ticket %d, of 20.*Z$`, first+9), out)
	require.Regexp(t, `(?m)^  waiting    10$`, out)
	require.Regexp(t, fmt.Sprintf(`(?m)^  first      ticket %d\n  last       ticket %d$`, first, first+9), out)
	require.Contains(t, out, fmt.Sprintf("ticket %d is at position 5,", first+4))
	require.Contains(t, out, fmt.Sprintf("is at position 8, with ticket %d", first+7))
	require.NotContains(t, out, "person")

	out, _, err = soonbeon(t, "replay", "--data", data, "--until", "2001-01-01T00:00:00Z", "--ticket", "3")
	require.NoError(t, err)
	require.Contains(t, out, "at ticket 0, before the first record")
	require.Contains(t, out, "ticket 3 does not wait")
	out, _, err = soonbeon(t, "replay", "--data", data, "--until", time.Now().UTC().Add(time.Hour).Format(time.RFC3339))
	require.NoError(t, err)
	require.Regexp(t, `(?m)^  waiting    30$`, out)
}

func TestBar(t *testing.T) {
	var out bytes.Buffer
	b := newBar(&out, "main")
	now := time.Unix(0, 0)
	b.now = func() time.Time { return now }
	b.show("reading the log", 0, 1_000_000)
	now = now.Add(time.Second)
	b.show("reading the log", 200_000, 1_000_000)
	require.Empty(t, out.String(), "a file gets a line in five seconds")
	now = now.Add(4 * time.Second)
	b.show("reading the log", 500_000, 1_000_000)
	require.Equal(t, "main       reading the log  "+strings.Repeat("█", 12)+strings.Repeat("░", 12)+"  50 %  500,000 of 1,000,000  100,000/s  5s left\n", out.String())
	out.Reset()
	b.show("loading Redis", 0, 10)
	require.Empty(t, out.String())
	b.show("waiting for another load to end", 0, 0)
	require.Equal(t, "main       waiting for another load to end\n", out.String())
	out.Reset()
	b.terminal = true
	b.show("loading Redis", 10, 10)
	b.end()
	require.Contains(t, out.String(), "100 %")
	require.True(t, strings.HasSuffix(out.String(), "\r\x1b[K"))
}
