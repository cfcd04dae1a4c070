package issuer

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	Name    string                              // of this process, for people who read the log; at most 64 bytes
	Entry   func(queue.ID) (*queue.Entry, bool) // the catalogue's, as it is at the moment; not to be changed
	View    func(queue.ID) View                 // the shared view; nil where there is none
	Ping    func(context.Context) error         // asks for a sign of life of what holds the shared views; nil where there is none
	Reading func(queue.ID) *follow.Follower     // keeps the line; started and stopped by its owner
	// Seed opens the seed of a draw. Its error keeps the queue closed until it can be opened.
	Seed func(id queue.ID, sealed []byte) (queue.Seed, error)
}

// Service leads the queues that the group assigns to it. It is a lifecycle.Service.
type Service struct {
	cfg     Config
	log     *linelog.Log
	logger  *zap.Logger
	metrics *metrics

	watch *watch

	mu      sync.Mutex
	queues  []queue.ID
	started bool
	stopped bool
	member  *linelog.Membership
	writer  *linelog.Writer
	leads   map[queue.ID]*running
	cancel  context.CancelFunc
	done    chan struct{} // closed when Stop has ended
}

type running struct {
	lead   *leadership
	cancel context.CancelFunc
	done   chan struct{}
}

// New checks cfg. Nothing runs yet.
func New(cfg Config, log *linelog.Log, logger *zap.Logger, reg prometheus.Registerer) (*Service, error) {
	if cfg.Entry == nil || cfg.Reading == nil || cfg.Seed == nil || (cfg.View == nil) != (cfg.Ping == nil) {
		return nil, errors.New("issuer: the catalogue, the readings, what opens seeds, and a sign of life where there are views are needed")
	}
	if cfg.Name == "" || len(cfg.Name) > 64 {
		return nil, errors.New("issuer: a name has 1 to 64 bytes")
	}
	s := &Service{cfg: cfg, log: log, logger: logger, metrics: newMetrics(reg), leads: map[queue.ID]*running{}, done: make(chan struct{})}
	if cfg.Ping != nil {
		s.watch = &watch{ping: cfg.Ping}
	}
	return s, nil
}

// Set says which queues there are, before Start and whenever it changes, from one goroutine. Each needs its entry and its
// reading before.
func (s *Service) Set(ids []queue.ID) {
	s.mu.Lock()
	s.queues = slices.Clone(ids)
	member := s.member
	s.mu.Unlock()
	if member != nil {
		member.Set(ids)
	}
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
	s.member, err = s.log.Join(run, linelog.GroupConfig{Group: Group, Queues: s.queues},
		func(id queue.ID) { s.assigned(run, id) }, s.lost)
	if err == nil && s.watch != nil {
		err = s.watch.Start(ctx)
	}
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
	l := &leadership{id: id, name: s.cfg.Name, log: s.writer, logger: s.logger.With(zap.String("queue", string(id))), metrics: s.metrics,
		entry: func() (*queue.Entry, bool) { return s.cfg.Entry(id) },
		seed:  func(sealed []byte) (queue.Seed, error) { return s.cfg.Seed(id, sealed) }}
	if s.cfg.View != nil {
		l.shared, l.health.watch = s.cfg.View(id), s.watch
	}
	if reading := s.cfg.Reading(id); reading != nil {
		l.reading = reading
	} else { // it was deleted a moment ago; the group will be told
		cancel()
		close(r.done)
		return
	}
	r.lead = l
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
		if _, there := s.cfg.Entry(id); !there {
			s.metrics.forget(id)
			s.writerOf().Forget(id) // a queue that is made anew under this name has another log
		}
	}
}

func (s *Service) writerOf() *linelog.Writer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writer
}

// Why is the reason that nobody was admitted at the last tick: one of queue.Reason or queue.Skip…; "" where somebody was. Of a queue that is not led here
// it is queue.SkipNotLeading, which says nothing about the queue: another process may let people in.
func (s *Service) Why(id queue.ID) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.leads[id]; r != nil {
		if why := r.lead.why.Load(); why != nil {
			return *why
		}
	}
	return queue.SkipNotLeading
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
				if s.watch != nil {
					_ = s.watch.Stop(context.Background())
				}
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
