package realservers

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNotOurs is returned by whatever would kill, freeze or start a server that KAFKA_BROKERS or REDIS_ADDR names.
var ErrNotOurs = errors.New("the server isn't ours to stop: it was named by KAFKA_BROKERS or REDIS_ADDR")

// startDeadline bounds a start: a JVM on two busy cores has taken 20 s.
const startDeadline = 90 * time.Second

// control is how a server's process is reached: a local process, a container, or not at all.
type control interface {
	start(ctx context.Context) error // does nothing if it runs
	kill() error                     // SIGKILL, returns once it is gone; does nothing if it isn't there
	stop() error                     // SIGSTOP
	cont() error                     // SIGCONT
	alive() bool
	log() string // the last lines
}

// Server is one server process: a broker, or a Redis. Its methods may be called from several goroutines.
type Server struct {
	name  string
	addr  string
	ctl   control
	ready func(ctx context.Context) error // one try
}

// Name says which server this is, in logs: "kafka1", "redis".
func (s *Server) Name() string { return s.name }

// Addr is host:port; it stays the same across Restart.
func (s *Server) Addr() string { return s.addr }

// Ours tells whether Kill, Stop, Cont, Start and Restart work; otherwise they return ErrNotOurs.
func (s *Server) Ours() bool { _, foreign := s.ctl.(foreign); return !foreign }

// Kill ends the server as `kill -9` does and returns once it is gone. Killing a dead server does nothing.
func (s *Server) Kill() error { return wrap(s, "kill", s.ctl.kill()) }

// Stop freezes the server (SIGSTOP): its connections stay open and nothing answers.
func (s *Server) Stop() error { return wrap(s, "stop", s.ctl.stop()) }

// Cont lets a frozen server go on (SIGCONT).
func (s *Server) Cont() error { return wrap(s, "continue", s.ctl.cont()) }

// Alive tells whether the process is there; a frozen one is.
func (s *Server) Alive() bool { return s.ctl.alive() }

// Log is the end of what the server has logged since it was first started.
func (s *Server) Log() string { return s.ctl.log() }

// Start starts a dead server on its port and data, without waiting for it to be ready.
func (s *Server) Start(ctx context.Context) error { return wrap(s, "start", s.ctl.start(ctx)) }

// WaitReady returns once the server answers requests, or ctx ends, or the server dies, or 90 s have passed.
func (s *Server) WaitReady(ctx context.Context) error {
	return s.waitUntil(ctx, s.ready)
}

// Restart kills the server if it runs, starts it on the same port and data, and waits until it answers. A broker of a
// cluster answers only while a majority of the brokers runs: use Cluster.Restart for more than one.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Kill(); err != nil {
		return err
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	return s.WaitReady(ctx)
}

// waitUntil polls once every 50 ms: a server that starts gives no other sign.
func (s *Server) waitUntil(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startDeadline)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		if !s.ctl.alive() {
			return fmt.Errorf("%s at %s ended while starting; the end of its log:\n%s", s.name, s.addr, s.Log())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s at %s isn't ready in time (%w), the last try: %w; the end of its log:\n%s",
				s.name, s.addr, ctx.Err(), err, s.Log())
		case <-tick.C:
		}
	}
}

func wrap(s *Server, what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s at %s: %w", what, s.name, s.addr, err)
}

// foreign is the control of a server that somebody else runs.
type foreign struct{}

func (foreign) start(context.Context) error { return ErrNotOurs }
func (foreign) kill() error                 { return ErrNotOurs }
func (foreign) stop() error                 { return ErrNotOurs }
func (foreign) cont() error                 { return ErrNotOurs }
func (foreign) alive() bool                 { return true }
func (foreign) log() string                 { return "(not ours)" }
