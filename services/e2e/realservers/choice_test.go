package realservers

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
)

func TestNothingToRunOnSaysWhatToInstall(t *testing.T) {
	bareMachine(t)
	_, err := StartKafka(t.Context(), KafkaConfig{Brokers: 1, Dir: t.TempDir()})
	require.ErrorContains(t, err, "set KAFKA_BROKERS")
	require.ErrorContains(t, err, "apt-get install default-jre-headless maven")
	_, _, err = StartRedis(t.Context(), RedisConfig{Dir: t.TempDir()})
	require.ErrorContains(t, err, "set REDIS_ADDR")
	require.ErrorContains(t, err, "apt-get install redis-server")
}

func TestAnOddNumberOfBrokersIsRefused(t *testing.T) {
	for _, brokers := range []int{-1, 0, 2, 4} {
		_, err := StartKafka(t.Context(), KafkaConfig{Brokers: brokers, Dir: t.TempDir()})
		require.ErrorContains(t, err, "1 or 3 brokers")
	}
}

func TestFolderWithACommaIsRefused(t *testing.T) {
	_, err := localKafka(t.Context(), KafkaConfig{Brokers: 1, Dir: t.TempDir() + "/a,b"})
	require.ErrorContains(t, err, "comma")
}

func TestSomebodysServersAreNeverStopped(t *testing.T) {
	bareMachine(t)
	cluster := kfake.MustCluster(kfake.NumBrokers(3))
	t.Cleanup(cluster.Close)
	t.Setenv("KAFKA_BROKERS", strings.Join(cluster.ListenAddrs(), " , "))
	kafka, err := StartKafka(t.Context(), KafkaConfig{Brokers: 3, Dir: t.TempDir()})
	require.NoError(t, err)
	require.Equal(t, cluster.ListenAddrs(), kafka.Addrs())

	t.Setenv("REDIS_ADDR", onePong(t))
	redis, end, err := StartRedis(t.Context(), RedisConfig{Dir: t.TempDir()})
	require.NoError(t, err)

	for _, s := range append(kafka.Brokers(), redis) {
		require.False(t, s.Ours())
		require.ErrorIs(t, s.Kill(), ErrNotOurs)
		require.ErrorIs(t, s.Stop(), ErrNotOurs)
		require.ErrorIs(t, s.Cont(), ErrNotOurs)
		require.ErrorIs(t, s.Start(t.Context()), ErrNotOurs)
		require.ErrorIs(t, s.Restart(t.Context()), ErrNotOurs)
	}
	require.ErrorIs(t, kafka.Restart(t.Context()), ErrNotOurs)
	require.NoError(t, kafka.Close())
	require.NoError(t, end())
}

// A server that ends while it starts is reported at once with its log, not after the deadline.
func TestAServerThatEndsWhileStartingShowsItsLog(t *testing.T) {
	dir := t.TempDir()
	s := &Server{
		name: "shell", addr: "127.0.0.1:1",
		ctl:   &local{path: "/bin/sh", args: []string{"-c", "echo no such port >&2; exit 3"}, logPath: dir + "/log"},
		ready: func(ctx context.Context) error { return redisReady(ctx, "127.0.0.1:1") },
	}
	require.NoError(t, s.Start(t.Context()))
	err := s.WaitReady(t.Context())
	require.ErrorContains(t, err, "ended while starting")
	require.ErrorContains(t, err, "no such port")
}

func TestKillEndsAFrozenProcess(t *testing.T) {
	l := &local{path: "/bin/sh", args: []string{"-c", "sleep 600"}, logPath: t.TempDir() + "/log"}
	require.NoError(t, l.start(t.Context()))
	require.NoError(t, l.stop())
	require.True(t, l.alive())
	require.NoError(t, l.kill())
	require.False(t, l.alive())
}

func TestAProcessOfOursIsTerminatedAndRestarted(t *testing.T) {
	dir := t.TempDir()
	s := Process(t, ProcessConfig{
		Name: "shell", Path: "/bin/sh", Dir: dir, Env: []string{"WORD=seven"},
		Args:  []string{"-c", `trap 'exit 7' TERM; echo "$WORD" > ready; while :; do sleep 0.02; done`},
		Ready: func(context.Context) error { _, err := os.Stat(dir + "/ready"); return err },
	})
	word, err := os.ReadFile(dir + "/ready")
	require.NoError(t, err)
	require.Equal(t, "seven\n", string(word))
	code, err := s.Terminate(t.Context())
	require.NoError(t, err)
	require.Equal(t, 7, code)
	require.False(t, s.Alive())
	_, err = s.Terminate(t.Context())
	require.ErrorIs(t, err, os.ErrProcessDone)

	require.NoError(t, os.Remove(dir+"/ready"))
	require.NoError(t, s.Restart(t.Context()))
	require.True(t, s.Alive())
}

func TestTwoHoldersOfPortsNeverShareOne(t *testing.T) {
	var a, b ports
	t.Cleanup(a.release)
	t.Cleanup(b.release)
	port, err := a.take()
	require.NoError(t, err)
	_, err = tryLock(a.locks[0].Name())
	require.Error(t, err, "the port's lock must be held")
	for range 50 {
		other, err := b.take()
		require.NoError(t, err)
		require.NotEqual(t, port, other)
		require.True(t, other >= firstPort && other < lastPort)
	}
}

// The compose files can't be run without an engine; what a broker's setting becomes there is pinned here.
func TestComposeFilesCarryTheSettings(t *testing.T) {
	kafka := kafkaCompose("AAAAAAAAAAAAAAAAAAAAAA", []int{20001, 20002, 20003})
	for _, line := range []string{
		`    ports: ["127.0.0.1:20002:9094"]`,
		`      KAFKA_NODE_ID: "2"`,
		`      KAFKA_CONTROLLER_QUORUM_VOTERS: "1@kafka1:9093,2@kafka2:9093,3@kafka3:9093"`,
		`      KAFKA_ADVERTISED_LISTENERS: "INSIDE://kafka2:9092,OUTSIDE://127.0.0.1:20002"`,
		`      KAFKA_MIN_INSYNC_REPLICAS: "2"`,
		`      KAFKA_AUTO_CREATE_TOPICS_ENABLE: "false"`,
		`      KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS: "1000"`,
	} {
		require.Contains(t, kafka, line+"\n")
	}
	redis := redisCompose(20004, redisArgs(RedisConfig{Args: []string{"--appendonly", "yes"}}))
	require.Contains(t, redis, `    ports: ["127.0.0.1:20004:6379"]`)
	require.Contains(t, redis, `    command: ["redis-server", "--save", "", "--appendonly", "no", `+
		`"--maxmemory-policy", "noeviction", "--appendonly", "yes"]`)
}

// bareMachine is one with nothing installed and nothing configured.
func bareMachine(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("SOONBEON_CACHE", t.TempDir())
	t.Setenv("KAFKA_BROKERS", "")
	t.Setenv("REDIS_ADDR", "")
}

// onePong answers every connection with one PONG.
func onePong(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("+PONG\r\n"))
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}
