package realservers

import (
	"context"
	"os"
	"testing"
)

// Required skips the test unless SOONBEON_REAL=1. Kafka and Redis call it themselves.
func Required(t testing.TB) {
	t.Helper()
	if os.Getenv("SOONBEON_REAL") != "1" {
		t.Skip("needs a real Kafka and a real Redis: run `make test-real`, which sets SOONBEON_REAL=1")
	}
}

// Kafka gives the test a Kafka of 1 or 3 brokers, ended with the test. It fails the test where none can be had.
func Kafka(t testing.TB, brokers int) *Cluster {
	t.Helper()
	Required(t)
	c, err := StartKafka(context.Background(), KafkaConfig{Brokers: brokers, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		showLogs(t, c.Brokers()...)
		if err := c.Close(); err != nil {
			t.Errorf("end Kafka: %v", err)
		}
	})
	return c
}

// Redis gives the test a Redis, ended with the test; args are as in RedisConfig. It fails the test where none can be had.
func Redis(t testing.TB, args ...string) *Server {
	t.Helper()
	Required(t)
	s, end, err := StartRedis(context.Background(), RedisConfig{Args: args, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		showLogs(t, s)
		if err := end(); err != nil {
			t.Errorf("end Redis: %v", err)
		}
	})
	return s
}

// Port is a free loopback port that stays free for the test while nothing of the test listens on it.
func Port(t testing.TB) int {
	t.Helper()
	held := &ports{}
	t.Cleanup(held.release)
	port, err := held.take()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Process starts a process of ours for the test, killed with the test. It fails the test where it doesn't become ready.
func Process(t testing.TB, cfg ProcessConfig) *Server {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	s, err := StartProcess(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		showLogs(t, s)
		if err := s.Kill(); err != nil {
			t.Errorf("end %s: %v", s.Name(), err)
		}
	})
	return s
}

// NeedOurs skips a test that kills or freezes servers where they are somebody else's.
func NeedOurs(t testing.TB, servers ...*Server) {
	t.Helper()
	for _, s := range servers {
		if !s.Ours() {
			t.Skipf("this test stops servers, and %s at %s isn't ours: unset KAFKA_BROKERS and REDIS_ADDR to run it",
				s.Name(), s.Addr())
		}
	}
}

// showLogs is for a failed test only.
func showLogs(t testing.TB, servers ...*Server) {
	if !t.Failed() {
		return
	}
	for _, s := range servers {
		t.Logf("the end of the log of %s at %s:\n%s", s.Name(), s.Addr(), s.Log())
	}
}
