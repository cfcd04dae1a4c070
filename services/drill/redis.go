package drill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/soonbeon/soonbeon/pkg/redisline"
)

// Ports of the drill's own Redis are drawn from below those that systems take for outgoing connections: one from there,
// free while Redis is dead, would soon be some client's.
const (
	firstPort = 18_000
	lastPort  = 30_000
)

const (
	redisAnswers = 10 * time.Second // how long a start may take
	askRedis     = 20 * time.Millisecond
)

// ownRedis is a real redis-server of the drill's own, on loopback, to be killed. It is hands, too.
type ownRedis struct {
	path string
	dir  string
	port int
	keep bool // comes back with its data

	mu    sync.Mutex
	child *child
}

type child struct {
	process *os.Process
	gone    chan struct{} // closed once it was waited for
}

// startRedis starts a redis-server with its files in dir, which exists, and returns when it answers.
func startRedis(ctx context.Context, dir string, keep bool) (*ownRedis, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("there is no redis-server on the PATH: install it (Debian, Ubuntu: apt-get install redis-server; macOS: brew install redis), or drill a system of yours with --target")
	}
	r := &ownRedis{path: path, dir: dir, keep: keep}
	for range 5 { // a port may be taken between the look and the start
		if r.port, err = freePort(); err != nil {
			return nil, err
		}
		if err = r.start(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("starting redis-server: %w", err)
	}
	return r, nil
}

func freePort() (int, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port on 127.0.0.1 after 1,000 draws")
}

func (r *ownRedis) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port)) }

// start runs the server, and returns when it answers.
func (r *ownRedis) start(ctx context.Context) error {
	logPath := filepath.Join(r.dir, "redis.log")
	out, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening its log: %w", err)
	}
	defer out.Close() // the child has its own descriptor
	aof := "no"
	if r.keep {
		aof = "yes"
	}
	cmd := exec.Command(r.path, "--port", strconv.Itoa(r.port), "--bind", "127.0.0.1", "--dir", r.dir, "--save", "", "--appendonly", aof,
		"--maxmemory-policy", "noeviction")
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = r.dir, out, out, tied()
	c := &child{gone: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// Linux ties a child to the thread that started it, not to the process: this thread must live as long as the child,
		// and no other goroutine may end it.
		runtime.LockOSThread()
		err := cmd.Start()
		c.process = cmd.Process
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
			close(c.gone)
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	r.mu.Lock()
	r.child = c
	r.mu.Unlock()
	if err := r.answers(ctx, c); err != nil {
		r.kill()
		said, _ := os.ReadFile(logPath)
		return fmt.Errorf("%w; it said: %s", err, strings.TrimSpace(string(said[max(0, len(said)-500):])))
	}
	return nil
}

func (r *ownRedis) answers(ctx context.Context, c *child) error {
	rdb, err := redisline.Dial(redisline.Config{Addrs: []string{r.addr()}})
	if err != nil {
		return err
	}
	defer func() { _ = rdb.Close() }()
	ctx, cancel := context.WithTimeoutCause(ctx, redisAnswers, fmt.Errorf("it does not answer within %v", redisAnswers))
	defer cancel()
	tick := time.NewTicker(askRedis)
	defer tick.Stop()
	for {
		if _, err := redisline.CheckSettings(ctx, rdb); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.gone:
			return errors.New("it ended at once")
		case <-tick.C:
		}
	}
}

// kill ends the server by SIGKILL, and returns when it is gone. Without one it does nothing.
func (r *ownRedis) kill() {
	r.mu.Lock()
	c := r.child
	r.mu.Unlock()
	if c == nil {
		return
	}
	_ = c.process.Kill() // it is gone already, or it will be
	<-c.gone
}

func (r *ownRedis) breaks() (string, action) {
	return "kill -9 of the drill's own Redis", func(context.Context) (string, int, error) { r.kill(); return "", 0, nil }
}

func (r *ownRedis) mends() (string, action) {
	what := "start it again, empty"
	if r.keep {
		what = "start it again, with its data"
	}
	return what, func(ctx context.Context) (string, int, error) {
		if err := r.start(ctx); err != nil {
			return "", -1, err
		}
		return "", 0, nil
	}
}
