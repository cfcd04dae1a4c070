package realservers_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/soonbeon/soonbeon/services/e2e/realservers"
)

func TestRealServersStart(t *testing.T) {
	t.Run("one broker", func(t *testing.T) {
		kafka := realservers.Kafka(t, 1)
		log := topic(t, kafka, 1)
		require.EqualValues(t, 0, log.produce(t, "first"))

		realservers.NeedOurs(t, kafka.Brokers()...)
		broker := kafka.Brokers()[0]
		require.NoError(t, broker.Kill())
		require.False(t, broker.Alive())
		require.False(t, answers(broker.Addr()), "a killed broker must not accept connections")
		require.NoError(t, broker.Kill(), "killing a dead server does nothing")
		require.NoError(t, broker.Restart(t.Context()))
		require.EqualValues(t, 1, log.produce(t, "second"), "the acknowledged record must have outlived kill -9")
	})

	t.Run("three brokers", func(t *testing.T) {
		kafka := realservers.Kafka(t, 3)
		log := topic(t, kafka, 3)
		require.EqualValues(t, 0, log.produce(t, "first"))

		realservers.NeedOurs(t, kafka.Brokers()...)
		require.NoError(t, kafka.Brokers()[0].Kill())
		require.EqualValues(t, 1, log.produce(t, "with one broker of three dead"))
		require.NoError(t, kafka.Brokers()[0].Restart(t.Context()))

		require.NoError(t, kafka.Restart(t.Context()))
		require.EqualValues(t, 2, log.produce(t, "after all three were killed"))
	})

	t.Run("redis", func(t *testing.T) {
		server := realservers.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, ReadTimeout: time.Second})
		t.Cleanup(func() { require.NoError(t, client.Close()) })
		require.NoError(t, client.Set(t.Context(), "k", "v", 0).Err())

		realservers.NeedOurs(t, server)
		require.NoError(t, server.Stop())
		require.True(t, server.Alive())
		require.Error(t, client.Get(t.Context(), "k").Err(), "a frozen Redis must not answer")
		require.NoError(t, server.Cont())
		require.Equal(t, "v", client.Get(t.Context(), "k").Val())

		require.NoError(t, server.Kill())
		require.False(t, answers(server.Addr()))
		require.NoError(t, server.Restart(t.Context()))
		require.Equal(t, "v", client.Get(t.Context(), "k").Val(), "the append-only file must have outlived kill -9")

		empty := realservers.Redis(t)
		require.NotEqual(t, server.Addr(), empty.Addr())
		other := redis.NewClient(&redis.Options{Addr: empty.Addr(), MaxRetries: -1})
		t.Cleanup(func() { require.NoError(t, other.Close()) })
		require.NoError(t, other.Set(t.Context(), "k", "v", 0).Err())
		require.NoError(t, empty.Restart(t.Context()))
		require.ErrorIs(t, other.Get(t.Context(), "k").Err(), redis.Nil, "by default a Redis comes back empty")
		require.Equal(t, "noeviction", other.ConfigGet(t.Context(), "maxmemory-policy").Val()["maxmemory-policy"])
	})
}

// probe produces to a topic of its own.
type probe struct {
	client *kgo.Client
	topic  string
}

// topic makes one with a partition; the name is new each time, since the servers may be somebody's.
func topic(t *testing.T, kafka *realservers.Cluster, replication int16) probe {
	p := probe{topic: fmt.Sprintf("realservers-%d", time.Now().UnixNano())}
	var err error
	p.client, err = kgo.NewClient(kgo.SeedBrokers(kafka.Addrs()...), kgo.DefaultProduceTopic(p.topic))
	require.NoError(t, err)
	t.Cleanup(p.client.Close)

	req := kmsg.NewPtrCreateTopicsRequest()
	wanted := kmsg.NewCreateTopicsRequestTopic()
	wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = p.topic, 1, replication
	req.Topics = append(req.Topics, wanted)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	res, err := req.RequestWith(ctx, p.client)
	require.NoError(t, err)
	require.Zero(t, res.Topics[0].ErrorCode, "error code of CreateTopics")
	return p
}

// produce returns the record's offset.
func (p probe) produce(t *testing.T, value string) int64 {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	rec, err := p.client.ProduceSync(ctx, kgo.StringRecord(value)).First()
	require.NoError(t, err)
	return rec.Offset
}

func answers(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// The kernel must end the servers of a test binary that was itself killed: a CI that is cut short leaves nothing.
func TestRealServersDieWithTheTest(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ties a child to its parent's death")
	}
	if os.Getenv("SOONBEON_DIE") == "1" {
		fmt.Println("redis at", realservers.Redis(t).Addr())
		<-t.Context().Done()
		return
	}
	realservers.Required(t)
	if os.Getenv("REDIS_ADDR") != "" {
		t.Skip("REDIS_ADDR names a server that isn't ours")
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestRealServersDieWithTheTest$", "-test.v")
	child.Env = append(os.Environ(), "SOONBEON_DIE=1")
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	var addr string
	for lines := bufio.NewScanner(out); addr == "" && lines.Scan(); {
		_, addr, _ = strings.Cut(lines.Text(), "redis at ")
	}
	require.NotEmpty(t, addr)
	require.True(t, answers(addr))
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	require.Eventually(t, func() bool { return !answers(addr) }, 10*time.Second, 20*time.Millisecond)
}
