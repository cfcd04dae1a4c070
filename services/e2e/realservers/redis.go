package realservers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// RedisConfig says which Redis is wanted.
type RedisConfig struct {
	// Args are appended to redis-server's command line, as in "--appendonly", "yes". Without any the server keeps
	// nothing on disk, so Restart brings it back empty; its maxmemory-policy is noeviction. A Redis that REDIS_ADDR
	// names is taken as it is.
	Args []string
	// Dir keeps data and log of a local Redis; it must exist, and is the caller's to remove.
	Dir string
}

// StartRedis finds or starts a Redis as the package says, and returns once it answers. The function ends it.
func StartRedis(ctx context.Context, cfg RedisConfig) (*Server, func() error, error) {
	var (
		s     *Server
		close func() error
		err   error
	)
	switch {
	case os.Getenv("REDIS_ADDR") != "":
		s = &Server{name: "redis", addr: os.Getenv("REDIS_ADDR"), ctl: foreign{}}
		close = func() error { return nil }
	case engineAnswers(ctx):
		s, close, err = composeRedis(ctx, cfg)
	default:
		path, missing := exec.LookPath("redis-server")
		if missing != nil {
			return nil, nil, errors.New("no real Redis to be had: set REDIS_ADDR, or start a Docker engine with compose, " +
				"or install redis-server (Debian: apt-get install redis-server)")
		}
		s, close, err = localRedis(ctx, path, cfg)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("start Redis: %w", err)
	}
	s.ready = func(ctx context.Context) error { return redisReady(ctx, s.addr) }
	if err := s.WaitReady(ctx); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start Redis: %w", err), close())
	}
	return s, close, nil
}

func localRedis(ctx context.Context, path string, cfg RedisConfig) (*Server, func() error, error) {
	held := &ports{}
	port, err := held.take()
	if err != nil {
		return nil, nil, err
	}
	args := append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", cfg.Dir}, redisArgs(cfg)...)
	s := &Server{
		name: "redis",
		addr: loopback(port),
		ctl:  &local{path: path, args: args, dir: cfg.Dir, logPath: filepath.Join(cfg.Dir, "redis.log")},
	}
	if err := s.Start(ctx); err != nil {
		held.release()
		return nil, nil, err
	}
	return s, func() error { defer held.release(); return s.Kill() }, nil
}

// redisArgs are those that a local Redis and a container share; the caller's come last, and so win.
func redisArgs(cfg RedisConfig) []string {
	return append([]string{"--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"}, cfg.Args...)
}

// redisReady sends one PING. A Redis that still loads its dataset answers -LOADING.
func redisReady(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	reply, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	// One that wants a password is up; whoever named it in REDIS_ADDR knows the password.
	if reply = strings.TrimSpace(reply); reply != "+PONG" && !strings.HasPrefix(reply, "-NOAUTH") {
		return fmt.Errorf("ping: %s", reply)
	}
	return nil
}
