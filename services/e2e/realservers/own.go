package realservers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// ProcessConfig is a process of ours, to be killed and restarted like a real server: soonbeon's own binary.
type ProcessConfig struct {
	Name string   // in errors and logs; also the log's file name in Dir
	Path string   // the binary
	Args []string // its command line
	Env  []string // "KEY=value", beside this process's environment
	Addr string   // what Server.Addr returns
	Dir  string   // where it runs; must exist
	// Ready is one try of asking whether it is ready; it is called every 50 ms until it returns nil.
	Ready func(ctx context.Context) error
}

// StartProcess starts it and returns once it is ready. End it with Kill.
func StartProcess(ctx context.Context, cfg ProcessConfig) (*Server, error) {
	s := &Server{name: cfg.Name, addr: cfg.Addr, ready: cfg.Ready, ctl: &local{
		path: cfg.Path, args: cfg.Args, env: append(os.Environ(), cfg.Env...), dir: cfg.Dir,
		logPath: filepath.Join(cfg.Dir, cfg.Name+".log"),
	}}
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	if err := s.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, s.Kill())
	}
	return s, nil
}

// Terminate sends SIGTERM and returns the process's exit code once it has ended; an error where ctx ends first, or where
// the server isn't a local process.
func (s *Server) Terminate(ctx context.Context) (int, error) {
	l, ok := s.ctl.(*local)
	if !ok {
		return 0, wrap(s, "terminate", ErrNotOurs)
	}
	code, err := l.terminate(ctx)
	return code, wrap(s, "terminate", err)
}

func (l *local) terminate(ctx context.Context) (int, error) {
	if err := l.signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	l.mu.Lock()
	c := l.child
	l.mu.Unlock()
	select {
	case <-c.gone:
		return c.state.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("it goes on after SIGTERM: %w", ctx.Err())
	}
}
