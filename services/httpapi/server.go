package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
)

// ServerConfig of one listener. Zero durations mean their defaults.
type ServerConfig struct {
	Name    string // what it serves, for errors and logs: "public", "private"
	Address string // host:port; port 0 takes a free one
	Setting string // the flag that sets Address, for errors: "--listen"

	ReadHeaderTimeout time.Duration // from the connection, or the request before, to the end of the header; default 5 s
	ReadTimeout       time.Duration // the same to the end of the body; default 10 s
	WriteTimeout      time.Duration // from the end of the header to the end of the answer; default 15 s
	IdleTimeout       time.Duration // between two requests of a connection; default 75 s, above what proxies keep
	DrainTimeout      time.Duration // how long a stop waits for requests that are under way; default 5 s, above what one takes
}

// maxHeader holds thirty cookies of a KiB and ours.
const maxHeader = 64 << 10

// Server is a lifecycle.Service that serves a handler.
type Server struct {
	cfg     ServerConfig
	handler http.Handler
	logger  *zap.Logger
	failed  chan error

	mu      sync.Mutex
	stopped bool
	http    *http.Server
	addr    string
	served  chan struct{}
	cut     context.CancelFunc
}

// NewServer makes a server; it listens once it is started.
func NewServer(cfg ServerConfig, handler http.Handler, logger *zap.Logger) *Server {
	or := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	or(&cfg.ReadHeaderTimeout, 5*time.Second)
	or(&cfg.ReadTimeout, 10*time.Second)
	or(&cfg.WriteTimeout, 15*time.Second)
	or(&cfg.IdleTimeout, 75*time.Second)
	or(&cfg.DrainTimeout, 5*time.Second)
	return &Server{cfg: cfg, handler: handler, logger: logger, failed: make(chan error, 1), served: make(chan struct{})}
}

// Start listens, and serves from then on. The error for a port that is taken says which, and how to choose another.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped:
		return lifecycle.ErrStopped
	case s.http != nil:
		return lifecycle.ErrStarted
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.cfg.Address)
	if err != nil {
		return s.explain(err)
	}
	errorLog, err := zap.NewStdLogAt(s.logger, zap.WarnLevel)
	if err != nil {
		_ = listener.Close()
		return fmt.Errorf("%s HTTP server: log: %w", s.cfg.Name, err)
	}
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	s.cut = cut
	s.addr = listener.Addr().String()
	s.http = &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: s.cfg.ReadHeaderTimeout,
		ReadTimeout:       s.cfg.ReadTimeout,
		WriteTimeout:      s.cfg.WriteTimeout,
		IdleTimeout:       s.cfg.IdleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          errorLog,
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext:       withConn,
	}
	go func() {
		defer close(s.served)
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("%s HTTP server on %s: %w", s.cfg.Name, s.addr, err)
		}
	}()
	s.logger.Info("listening", zap.String("server", s.cfg.Name), zap.String("address", s.addr))
	return nil
}

func (s *Server) explain(err error) error {
	how := "choose another address"
	if s.cfg.Setting != "" {
		how += " with " + s.cfg.Setting
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s HTTP server: %s is in use by another process; %s (port 0 takes a free one): %w", s.cfg.Name, s.cfg.Address, how, err)
	}
	return fmt.Errorf("%s HTTP server: can't listen on %.200q; %s: %w", s.cfg.Name, s.cfg.Address, how, err)
}

// Addr is the address that it listens on, as host:port; "" before it was started.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// Failed delivers the error that ended it by itself.
func (s *Server) Failed() <-chan error { return s.failed }

// Stop takes no more connections, lets requests that are under way end, for DrainTimeout or until ctx ends, and cuts off
// what is still going on then, which it returns as an error.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.stopped = true
	server, cut := s.http, s.cut
	s.mu.Unlock()
	if server == nil {
		return nil
	}
	defer cut() // the contexts of requests that were cut off
	drain, cancel := context.WithTimeout(ctx, s.cfg.DrainTimeout)
	defer cancel()
	err := server.Shutdown(drain)
	if err != nil {
		cut()
		_ = server.Close()
		err = fmt.Errorf("%s HTTP server: requests were cut off: %w", s.cfg.Name, err)
	}
	<-s.served
	return err
}
