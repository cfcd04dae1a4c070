package projector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
)

// Group is the Kafka consumer group that shares the queues out among projectors.
const Group = "soonbeon-projector"

// View is what records are applied to; *redisline.View has it.
type View interface {
	Seq(ctx context.Context) (queue.Ticket, error)
	Apply(ctx context.Context, follows queue.Ticket, recs []queue.Record, topicID string) (seq queue.Ticket, fits bool, err error)
}

// Config of a projector.
type Config struct {
	View func(queue.ID) View
	// FarBehind is how many records a view may lack and still be applied to; one that lacks more is loaded at once. 0:
	// DefaultFarBehind.
	FarBehind int64
	// Traced, where it is set, is told of each record that belongs to a trace once it has been applied: when it was read, and the
	// trace as its writer put it. Of records that a load brings it is not told.
	Traced func(id queue.ID, t queue.Ticket, traceparent string, read time.Time)
}

// Service projects the queues that the group assigns to it. It is a lifecycle.Service.
type Service struct {
	cfg     Config
	log     *linelog.Log
	logger  *zap.Logger
	metrics *metrics

	mu      sync.Mutex
	queues  []queue.ID
	started bool
	stopped bool
	member  *linelog.Membership
	hub     *linelog.Hub
	cancel  context.CancelFunc
	runs    map[queue.ID]*projection
	done    chan struct{}
}

// New checks cfg. Nothing runs yet.
func New(cfg Config, log *linelog.Log, logger *zap.Logger, reg prometheus.Registerer) (*Service, error) {
	if cfg.View == nil {
		return nil, errors.New("projector: views are needed")
	}
	if cfg.FarBehind <= 0 {
		cfg.FarBehind = DefaultFarBehind
	}
	return &Service{cfg: cfg, log: log, logger: logger, metrics: newMetrics(reg), hub: log.NewHub(),
		runs: map[queue.ID]*projection{}, done: make(chan struct{})}, nil
}

// Set says which queues there are, before Start and whenever it changes, from one goroutine.
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
		return errors.New("projector: started or stopped already")
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	member, err := s.log.Join(run, linelog.GroupConfig{Group: Group, Queues: s.queues},
		func(id queue.ID) { s.assigned(run, id) }, s.lost)
	if err != nil {
		cancel()
		return fmt.Errorf("projector: joining the group %s: %w", Group, err)
	}
	s.member, s.cancel, s.started = member, cancel, true
	return nil
}

func (s *Service) assigned(ctx context.Context, id queue.ID) {
	ctx, cancel := context.WithCancel(ctx)
	p := &projection{id: id, view: s.cfg.View(id), log: s.log, hub: s.hub, logger: s.logger.With(zap.String("queue", string(id))),
		metrics: s.metrics, far: s.cfg.FarBehind, traced: s.cfg.Traced, cancel: cancel, done: make(chan struct{})}
	s.mu.Lock()
	s.runs[id] = p
	s.mu.Unlock()
	go func() {
		defer close(p.done)
		p.run(ctx)
	}()
}

func (s *Service) lost(id queue.ID) {
	s.mu.Lock()
	p := s.runs[id]
	delete(s.runs, id)
	s.mu.Unlock()
	if p != nil {
		p.cancel()
		<-p.done
		s.metrics.forget(id)
	}
}

// Trouble is what keeps a projection from going on, nil when all go on. It is meant for readiness.
func (s *Service) Trouble(context.Context) error {
	return s.failing(func(error) bool { return true })
}

// Grave is as Trouble, of what does not pass by itself: not that Redis is away.
func (s *Service) Grave(context.Context) error { return s.failing(grave) }

func (s *Service) failing(counts func(error) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for id, p := range s.runs {
		if err := p.failing(); err != nil && counts(err) {
			errs = append(errs, fmt.Errorf("queue %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// Stop leaves the group and waits for the batch that is being applied.
func (s *Service) Stop(ctx context.Context) error {
	s.mu.Lock()
	first := !s.stopped
	s.stopped = true
	member, cancel, hub := s.member, s.cancel, s.hub
	s.mu.Unlock()
	if first {
		go func() {
			defer close(s.done)
			if member != nil {
				member.Close()
				cancel()
			}
			hub.Close()
		}()
	}
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// projection is one queue's.
type projection struct {
	id      queue.ID
	view    View
	log     *linelog.Log
	hub     *linelog.Hub // all projections read through one connection
	logger  *zap.Logger
	metrics *metrics
	far     int64
	traced  func(queue.ID, queue.Ticket, string, time.Time) // nil: nobody wants to know
	cancel  context.CancelFunc
	done    chan struct{}

	// Only the running goroutine's.
	failedLoads int        // one after another
	folded      *line.Line // what could not be loaded yet; nil: nothing
	foldedOf    string     // its topic

	mu  sync.Mutex
	err error
}

func (p *projection) failing() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *projection) fail(err error) (before error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, p.err = p.err, err
	return before
}

// grave says of an error that it does not pass by itself.
func grave(err error) bool {
	var trouble *linelog.TroubleError
	return errors.As(err, &trouble) || errors.Is(err, redisline.ErrOtherTopic)
}

// retryAfter is the pause after Redis or the log did not answer.
const retryAfter = 500 * time.Millisecond

// callTimeout bounds one call to the view. A script that ran all the same shows in seq.
const callTimeout = 5 * time.Second

// drawTimeout bounds the call that draws lots: everybody who waits is read and put under another number, about six seconds for a
// million.
const drawTimeout = 2 * time.Minute

func (p *projection) run(ctx context.Context) {
	p.logger.Info("projecting")
	for {
		err := p.project(ctx)
		if ctx.Err() != nil {
			return
		}
		p.metrics.failures.WithLabelValues(string(p.id)).Inc()
		before := p.fail(err)
		switch {
		case grave(err) && !grave(before):
			p.logger.Error("the log can't be applied any further; the view is left as it is", zap.Error(err))
		case before == nil:
			p.logger.Warn("can't project; trying again", zap.Error(err))
		}
		if lifecycle.Pause(ctx, retryAfter) != nil {
			return
		}
	}
}

// project reads from where the view is and applies, until something fails.
func (p *projection) project(ctx context.Context) error {
	topic, err := p.log.Topic(ctx, p.id)
	if err != nil {
		return err
	}
	seq, err := p.seq(ctx)
	if err != nil {
		return err
	}
	if before := p.failing(); before != nil && !grave(before) {
		// Where nothing is left to apply, nothing may come for hours that would show that all is well again. Else the next
		// batch shows it: a view that answers may still refuse to be written to.
		if _, next, err := p.log.Bounds(ctx, p.id); err == nil && seq+1 == next {
			p.fail(nil)
		}
	}
	for {
		if seq, err = p.rebuild(ctx, seq, topic); err != nil {
			return err
		}
		next, err := p.from(ctx, seq, topic)
		if err != nil {
			return err
		}
		p.metrics.refused.WithLabelValues(string(p.id)).Inc()
		p.logger.Info("the view is elsewhere than this projector believed; reading on from there",
			zap.Int64("believed", int64(seq)), zap.Int64("seq", int64(next)))
		seq = next
	}
}

// traced is a record that belongs to a trace.
type traced struct {
	ticket queue.Ticket
	parent string
}

func (p *projection) seq(ctx context.Context) (queue.Ticket, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return p.view.Seq(ctx)
}

// idleCheck is how long no record may come before the view is asked where it is. A reader looks after its log every 5 s
// that nothing comes, and must be left the time to.
const idleCheck = 7 * time.Second

// next reads on; none come for idleCheck: none are returned.
func (p *projection) next(ctx context.Context, r *linelog.Reader) ([]queue.Record, error) {
	wait, cancel := context.WithTimeout(ctx, idleCheck)
	defer cancel()
	recs, err := r.Next(wait)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil, nil
	}
	return recs, err
}

// from applies what follows ticket seq until the view refuses, and returns where it is then.
func (p *projection) from(ctx context.Context, seq queue.Ticket, topic string) (queue.Ticket, error) {
	r := p.hub.NewReader(p.id, seq, topic)
	defer r.Close()
	q := string(p.id)
	var traces []traced
	if p.traced != nil {
		r.Traced(func(t queue.Ticket, traceparent string) { traces = append(traces, traced{t, traceparent}) })
	}
	for {
		recs, err := p.next(ctx, r)
		if err != nil {
			return 0, err
		}
		if len(recs) == 0 { // a view that went back in time while nobody comes would be found out by the next who does
			now, err := p.seq(ctx)
			if err != nil || now != seq {
				return now, err
			}
			continue
		}
		began := time.Now()
		timeout := callTimeout
		if slices.ContainsFunc(recs, func(r queue.Record) bool { return r.Kind == queue.Drawn }) {
			timeout = drawTimeout
		}
		call, cancel := context.WithTimeout(ctx, timeout)
		now, fits, err := p.view.Apply(call, seq, recs, topic)
		cancel()
		if err != nil {
			return 0, err
		}
		p.metrics.applySeconds.Observe(time.Since(began).Seconds())
		if !fits {
			return now, nil
		}
		p.fail(nil)
		p.failedLoads = 0
		seq = now
		p.metrics.applied.WithLabelValues(q).Add(float64(len(recs)))
		p.metrics.seq.WithLabelValues(q).Set(float64(seq))
		p.metrics.age.WithLabelValues(q).Set(max(0, time.Since(time.UnixMilli(recs[len(recs)-1].AtMs)).Seconds()))
		for _, t := range traces {
			p.traced(p.id, t.ticket, t.parent, began)
		}
		traces = traces[:0]
	}
}
