package dashboard

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/follow"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// Reading is a process's own reading of one queue's log; *follow.Follower is one.
type Reading interface {
	KeepsLine() bool
	Live(now time.Time) follow.Live
	Waits(now time.Time) follow.Waits // asked only where KeepsLine
	Recent(atMs int64) []follow.Batch
	Claim() queue.Record
	Trouble() error
}

// Config of a Service. Zero values mean their defaults; what is nil is not known.
type Config struct {
	Queues  func() []*queue.Entry                                 // all there are, by id; *catalog.Follower.AllAny is one
	Reading func(queue.ID) (r Reading, ok bool)                   // of the queue; false where this process has none
	Why     func(queue.ID) string                                 // why nobody is let in, as issuer.Service.Why tells it; nil: this process leads no queue
	Applied func(context.Context, queue.ID) (queue.Ticket, error) // how far the shared view has come; nil: there is no shared view

	Operators *httpapi.Credentials // who may look; none: nobody

	Look         time.Duration // between two looks, while somebody watches; default 1 s
	Sample       time.Duration // between two samples of the last hour; default 5 s, and no less than Look
	MaxStreams   int           // open at once; default 64
	Heartbeat    time.Duration // the most between two signs of life; default 10 s
	WriteTimeout time.Duration // for one event; default 5 s

	Now func() time.Time // default time.Now
}

// Service serves the dashboard. It is a lifecycle.Service: its streams end with Stop, which therefore comes before that of the HTTP
// server. Before Start and after Stop the page is served, and streams are refused.
type Service struct {
	cfg     Config
	logger  *zap.Logger
	metrics *metrics
	files   map[string]file
	loop    lifecycle.Loop
	began   time.Time

	mu      sync.Mutex
	open    bool // between Start and Stop
	ended   chan struct{}
	looked  chan struct{} // closed, and made anew, after each look
	streams int
	idle    chan struct{} // closed when there is no stream, made anew with the first
	watched map[queue.ID]*watched
	times   [kept]int64 // of the samples, Unix ms
	samples int64       // taken so far; the next one goes to samples % kept
	turn    int64       // of looks; what changed when is told by it
	setTurn int64       // when a queue came or went last
}

// New checks cfg and makes a Service.
func New(cfg Config, logger *zap.Logger, reg prometheus.Registerer) (*Service, error) {
	if cfg.Queues == nil || cfg.Reading == nil {
		return nil, errors.New("dashboard: queues and readings are needed")
	}
	or(&cfg.Look, time.Second)
	or(&cfg.Sample, 5*time.Second)
	or(&cfg.MaxStreams, 64)
	or(&cfg.Heartbeat, 10*time.Second)
	or(&cfg.WriteTimeout, 5*time.Second)
	if cfg.Sample < cfg.Look {
		return nil, errors.New("dashboard: samples are taken when it looks, so not more often")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Why == nil {
		cfg.Why = func(queue.ID) string { return queue.SkipNotLeading }
	}
	files, err := readFiles()
	if err != nil {
		return nil, err
	}
	idle := make(chan struct{})
	close(idle)
	return &Service{cfg: cfg, logger: logger, metrics: newMetrics(reg), files: files, ended: make(chan struct{}), looked: make(chan struct{}), idle: idle,
		watched: map[queue.ID]*watched{}}, nil
}

func or[T int | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// Start begins to take samples.
func (s *Service) Start(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := s.cfg.Now()
	if err := s.loop.Start(s.run); err != nil {
		return err
	}
	s.open, s.began = true, began
	return nil
}

// Stop ends the streams and the samples, and waits for them or until ctx ends.
func (s *Service) Stop(ctx context.Context) error {
	s.mu.Lock()
	if s.open {
		s.open = false
		close(s.ended)
	}
	idle := s.idle
	s.mu.Unlock()
	if err := s.loop.Stop(ctx); err != nil {
		return err
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run looks at the queues, where there is a reason to.
func (s *Service) run(ctx context.Context) {
	var sampled time.Time
	for {
		now := s.cfg.Now()
		due := now.Sub(sampled) >= s.cfg.Sample-s.cfg.Look/2
		s.mu.Lock()
		somebody := s.streams > 0
		s.mu.Unlock()
		if due || somebody {
			began := time.Now()
			s.look(ctx, now, due)
			s.metrics.looks.Observe(time.Since(began).Seconds())
		}
		if due {
			sampled = now
		}
		if lifecycle.Pause(ctx, s.cfg.Look) != nil {
			return
		}
	}
}
