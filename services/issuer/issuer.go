package issuer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/follow"
)

// Group is the Kafka consumer group that shares the queues out among issuers.
const Group = "soonbeon-issuer"

// Config of an issuer.
type Config struct {
	Name    string // of this process, for people who read the log; at most 64 bytes
	Queues  map[queue.ID]queue.Settings
	View    func(queue.ID) View             // the shared view; nil where there is none
	Reading func(queue.ID) *follow.Follower // keeps the line; started and stopped by its owner
}

// Service leads the queues that the group assigns to it. It is a lifecycle.Service.
type Service struct {
	cfg     Config
	log     *linelog.Log
	logger  *zap.Logger
	metrics *metrics

	mu      sync.Mutex
	started bool
	stopped bool
	member  *linelog.Membership
	writer  *linelog.Writer
	leads   map[queue.ID]*running
	cancel  context.CancelFunc
	done    chan struct{} // closed when Stop has ended
}

type running struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// New checks cfg. Nothing runs yet.
func New(cfg Config, log *linelog.Log, logger *zap.Logger, reg prometheus.Registerer) (*Service, error) {
	var errs []error
	if len(cfg.Queues) == 0 {
		errs = append(errs, errors.New("issuer: no queue is given"))
	}
	for id, s := range cfg.Queues {
		if err := s.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("issuer: queue %s: %w", id, err))
		}
	}
	if cfg.Name == "" || len(cfg.Name) > 64 {
		errs = append(errs, errors.New("issuer: a name has 1 to 64 bytes"))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return &Service{cfg: cfg, log: log, logger: logger, metrics: newMetrics(reg), leads: map[queue.ID]*running{}, done: make(chan struct{})}, nil
}

// Start joins the group; queues come when the group assigns them.
func (s *Service) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started || s.stopped {
		return errors.New("issuer: started or stopped already")
	}
	w, err := s.log.NewWriter()
	if err != nil {
		return fmt.Errorf("issuer: %w", err)
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.writer, s.cancel, s.started = w, cancel, true
	var ids []queue.ID
	for id := range s.cfg.Queues {
		ids = append(ids, id)
	}
	s.member, err = s.log.Join(run, linelog.GroupConfig{Group: Group, Queues: ids},
		func(id queue.ID) { s.assigned(run, id) }, s.lost)
	if err != nil {
		cancel()
		w.Close()
		s.started = false
		return fmt.Errorf("issuer: joining the group %s: %w", Group, err)
	}
	return nil
}

func (s *Service) assigned(ctx context.Context, id queue.ID) {
	ctx, cancel := context.WithCancel(ctx)
	r := &running{cancel: cancel, done: make(chan struct{})}
	l := &leadership{id: id, name: s.cfg.Name, set: s.cfg.Queues[id], log: s.writer, reading: s.cfg.Reading(id),
		logger: s.logger.With(zap.String("queue", string(id))), metrics: s.metrics}
	if s.cfg.View != nil {
		l.shared = s.cfg.View(id)
	}
	s.mu.Lock()
	s.leads[id] = r
	s.mu.Unlock()
	go func() {
		defer close(r.done)
		l.run(ctx)
	}()
}

// lost stops leading at once. A batch that is on its way to the log stays valid until the next claim, and void after it.
func (s *Service) lost(id queue.ID) {
	s.mu.Lock()
	r := s.leads[id]
	delete(s.leads, id)
	s.mu.Unlock()
	if r != nil {
		r.cancel()
		<-r.done
	}
}

// Leading says which queues are assigned here at the moment.
func (s *Service) Leading() []queue.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []queue.ID
	for id := range s.leads {
		ids = append(ids, id)
	}
	return ids
}

// Stop ends the leads, leaves the group so that others take over at once, and flushes what is on its way.
func (s *Service) Stop(ctx context.Context) error {
	s.mu.Lock()
	first := !s.stopped
	s.stopped = true
	member, writer, cancel := s.member, s.writer, s.cancel
	started := s.started
	s.mu.Unlock()
	if first {
		go func() {
			defer close(s.done)
			if started {
				member.Close() // calls lost for each queue
				cancel()
				writer.Close()
			}
		}()
	}
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
