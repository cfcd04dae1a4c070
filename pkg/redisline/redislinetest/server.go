package redislinetest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Start runs a redis-server with args added to its command line, and returns a client that never retries.
func Start(t testing.TB, args ...string) redis.UniversalClient {
	t.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("SOONBEON_REAL") != "" {
			t.Fatal("redis-server is not on the PATH: install Redis 7 or later")
		}
		t.Skip("redis-server is not on the PATH")
	}
	dir, err := os.MkdirTemp("", "sbredis") // a short path: those of sockets are limited
	if err != nil {
		t.Fatal(err)
	}
	sock := filepath.Join(dir, "s")
	cmd := exec.Command(bin, append([]string{"--port", "0", "--unixsocket", sock, "--dir", dir, "--save", "", "--loglevel", "warning"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting redis-server: %v", err)
	}
	rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{sock}, MaxRetries: -1, ContextTimeoutEnabled: true,
		ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second})
	t.Cleanup(func() {
		_ = rdb.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if err = rdb.Ping(ctx).Err(); err == nil {
			return rdb
		}
		select {
		case <-ctx.Done():
			t.Fatalf("redis-server does not answer: %v", err)
		case <-tick.C:
		}
	}
}
