package events

import (
	"context"
	"errors"
	"hash/maphash"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// Near is the last position that has a stream.
const Near = 100

// Told is what one visitor is told, as the position service tells it; the assembly converts from there.
type Told struct {
	State      string        // waiting, admitted, over
	Position   int64         // from 1; 0 where nobody has one
	Exact      bool          //
	RetryAfter time.Duration // when to ask again, by polling
	Body       []byte        // JSON, on one line
	Lasting    int           // how much of Body, together with Exact, is the same in two answers that say the same
	Receipt    pass.Receipt  // to ask with the next time
	Signed     string        // the same as a token; "" where the visitor does not wait
}

// Answers is who knows where people stand: the position service.
type Answers interface {
	// Receipt checks who asks. The error is a *httpapi.Problem.
	Receipt(r *http.Request) (pass.Receipt, httpapi.Source, error)
	// Tell answers the holder of a receipt, in body where it fits. A *httpapi.Problem other than view_unavailable says that the
	// queue is no more.
	Tell(ctx context.Context, r pass.Receipt, body []byte) (Told, error)
}

// Reading is this process's own reading of a queue's log; *follow.Follower has it. It is compared, to notice that a queue was
// deleted and made anew.
type Reading interface {
	State() queue.State
	Grant(v queue.Visitor, now time.Time) (queue.Grant, line.GrantState)
	WaitFor(ctx context.Context, t queue.Ticket) error
}

// Config of a Service. Zero values mean their defaults.
type Config struct {
	Answers Answers
	// Find is a queue's reading and the version of what its operators say; false where there is none, or none any more. It is
	// called fifty times a second for each queue with streams.
	Find func(queue.ID) (r Reading, version int64, ok bool)

	MaxStreams   int           // open at once in this process; default 20,000
	PerVisitor   int           // and for one visitor of a queue: its tabs and devices; default 4
	Tick         time.Duration // fifty of them are the least time between two positions of a stream; default 20 ms
	Heartbeat    time.Duration // the most between two signs of life; default 10 s, at most 14 s
	WriteTimeout time.Duration // for one event; default 5 s
	Lasts        time.Duration // of a stream, and up to a fifth less; default 15 min
	Retry        time.Duration // the least time that clients stay away who lost their stream, and up to four times it; default 1 s

	Rand func() float64   // uniform in [0, 1); default math/rand
	Now  func() time.Time // default time.Now
}

// Service serves GET /queue/events. It is a lifecycle.Service: its streams end with Stop, which therefore comes before that of the
// HTTP server. Before Start and after Stop it refuses.
type Service struct {
	cfg     Config
	metrics *metrics
	seed    maphash.Seed
	loop    lifecycle.Loop

	mu       sync.Mutex
	open     bool // between Start and Stop
	stopped  bool
	ended    chan struct{}
	streams  int
	rooms    map[queue.ID]*room
	gone     *sync.Cond     // streams has become less
	watchers sync.WaitGroup // the goroutines of rooms
}

// New checks cfg and makes a Service.
func New(cfg Config, reg prometheus.Registerer) (*Service, error) {
	if cfg.Answers == nil || cfg.Find == nil {
		return nil, errors.New("events: answers and queues are needed")
	}
	def(&cfg.MaxStreams, 20_000)
	def(&cfg.PerVisitor, 4)
	def(&cfg.Tick, 20*time.Millisecond)
	def(&cfg.Heartbeat, 10*time.Second)
	def(&cfg.WriteTimeout, 5*time.Second)
	def(&cfg.Lasts, 15*time.Minute)
	def(&cfg.Retry, time.Second)
	if cfg.Heartbeat >= 15*time.Second {
		return nil, errors.New("events: proxies give up on a stream after 15 s without a word; choose a shorter heartbeat")
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Float64
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Service{cfg: cfg, metrics: newMetrics(reg), seed: maphash.MakeSeed(), ended: make(chan struct{}), rooms: map[queue.ID]*room{}}
	s.gone = sync.NewCond(&s.mu)
	return s, nil
}

func def[T int | time.Duration](v *T, to T) {
	if *v <= 0 {
		*v = to
	}
}

// Start lets streams be opened.
func (s *Service) Start(context.Context) error {
	err := s.loop.Start(s.keepTime)
	if err == nil {
		s.mu.Lock()
		s.open = !s.stopped
		s.mu.Unlock()
	}
	return err
}

// Stop ends all streams and waits until they are gone, or ctx ends.
func (s *Service) Stop(ctx context.Context) error {
	s.mu.Lock()
	if !s.stopped {
		s.open, s.stopped = false, true
		close(s.ended)
	}
	s.mu.Unlock()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		s.mu.Lock()
		for s.streams > 0 {
			s.gone.Wait()
		}
		s.mu.Unlock()
		s.watchers.Wait()
	}()
	select {
	case <-gone:
	case <-ctx.Done():
		return errors.Join(ctx.Err(), s.loop.Stop(ctx))
	}
	return s.loop.Stop(ctx)
}

// idle is how long a stream sleeps that nothing happens to. A wait that is reckoned changes with time alone.
func (s *Service) idle() time.Duration { return s.cfg.Heartbeat * 2 / 5 }

// keepTime is the clock of all streams: it wakes those whose turn it is to look whether something has changed.
func (s *Service) keepTime(ctx context.Context) {
	ticker := time.NewTicker(s.cfg.Tick)
	defer ticker.Stop()
	for turn := 0; ; turn++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		s.mu.Lock()
		rooms := make([]*room, 0, len(s.rooms))
		for _, r := range s.rooms {
			rooms = append(rooms, r)
		}
		s.mu.Unlock()
		for _, r := range rooms {
			reading, version, ok := s.cfg.Find(r.id)
			if !ok || reading != r.reading {
				r.close()
				continue
			}
			r.turn(turn%turns, version, s.cfg.Now(), s.idle())
		}
	}
}

// join opens a stream for a visitor, or says why not.
func (s *Service) join(id queue.ID, v queue.Visitor) (*stream, error) {
	reading, version, ok := s.cfg.Find(id)
	if !ok {
		return nil, httpapi.Problemf(httpapi.QueueUnknown, "there is no queue %s", id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	again := time.Duration((5 + 5*s.cfg.Rand()) * float64(time.Second))
	switch {
	case !s.open:
		s.metrics.stopping.Inc()
		return nil, httpapi.Problemf(httpapi.StreamsFull, "this process is starting or stopping; poll, and open a stream later").
			After(time.Duration((1 + 3*s.cfg.Rand()) * float64(time.Second))) // all of them were cut off at one moment
	case s.streams >= s.cfg.MaxStreams:
		s.metrics.full.Inc()
		return nil, httpapi.Problemf(httpapi.StreamsFull, "this process has as many streams as it takes; poll, and open one later").After(again)
	}
	r := s.rooms[id]
	if r != nil && r.reading != reading { // the queue was made anew, and the clock has not noticed yet
		r.close()
	}
	if r != nil && r.ctx.Err() != nil { // those in it are on their way out
		r = nil
	}
	if r == nil {
		r = newRoom(id, reading)
		s.rooms[id] = r
		s.watchers.Go(func() { r.watch(s.cfg.Now) })
	}
	st := r.join(v, s.cfg.PerVisitor, version, int(s.cfg.Rand()*turns))
	if st == nil {
		s.metrics.visitorFull.Inc()
		return nil, httpapi.Problemf(httpapi.StreamsFull, "there are %d streams of this visitor already; poll, or close one", s.cfg.PerVisitor).After(again)
	}
	s.streams++
	s.metrics.streams.Inc()
	return st, nil
}

// leave gives up a stream, and the room with the last one.
func (s *Service) leave(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := st.room; r.leave(st) {
		r.close()
		if s.rooms[r.id] == r {
			delete(s.rooms, r.id)
		}
	}
	s.streams--
	s.metrics.streams.Dec()
	s.gone.Broadcast()
}
