package position

import (
	"context"
	"sync"
	"time"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Places is a view that finds many visitors at one moment by one call; *redisline.View has it.
type Places interface {
	Places(ctx context.Context, visitors []queue.Visitor) (queue.Moment, []queue.Place, error)
}

// The limits of a Shared view.
const (
	maxBatch    = 256                    // questions that one call carries
	maxCalls    = 2                      // calls under way at once: one is answered while the next is filled
	callTimeout = 400 * time.Millisecond // of a call; then the view counts as away
	restAfter   = time.Second            // how long a view is left alone after a call that failed
)

// Shared lets concurrent questions travel together: while calls are under way, the next questions gather for one call. It is
// a breaker too:
//
//	       a call fails: whoever waits is told so
//	open ◀──────────────────────────────────────── closed: questions gather and are asked
//	  │ after restAfter, one question tries alone     ▲
//	  └───────────── it was answered ─────────────────┘
type Shared struct {
	view Places

	mu      sync.Mutex
	waiting []*question
	calls   int
	err     error     // why the view rests; nil while all is well
	rest    time.Time // no question before
	trying  bool      // one question is out to try
}

type question struct {
	visitor queue.Visitor
	done    chan struct{}
	moment  queue.Moment
	place   queue.Place
	err     error
}

// Share wraps view.
func Share(view Places) *Shared { return &Shared{view: view} }

// Place finds one visitor; Place.Ticket is 0 for who does not wait. An error means that the view can't be asked; it comes
// within two calls' time-outs.
func (s *Shared) Place(_ context.Context, v queue.Visitor) (queue.Moment, queue.Place, error) {
	q := &question{visitor: v, done: make(chan struct{})}
	s.mu.Lock()
	switch {
	case s.err != nil && (s.trying || time.Now().Before(s.rest)):
		err := s.err
		s.mu.Unlock()
		return queue.Moment{}, queue.Place{}, err
	case s.err != nil:
		s.trying = true
		s.mu.Unlock()
		s.answer([]*question{q})
		s.mu.Lock()
		s.trying = false
		s.mu.Unlock()
	default:
		s.waiting = append(s.waiting, q)
		if s.calls < maxCalls {
			s.calls++
			go s.ask()
		}
		s.mu.Unlock()
	}
	<-q.done
	return q.moment, q.place, q.err
}

// ask answers what waits, call after call, until nothing does.
func (s *Shared) ask() {
	for {
		s.mu.Lock()
		n := min(len(s.waiting), maxBatch)
		if n == 0 {
			s.calls--
			s.mu.Unlock()
			return
		}
		batch := s.waiting[:n:n]
		s.waiting = s.waiting[n:]
		s.mu.Unlock()
		s.answer(batch)
	}
}

func (s *Shared) answer(batch []*question) {
	visitors := make([]queue.Visitor, len(batch))
	for i, q := range batch {
		visitors[i] = q.visitor
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	moment, places, err := s.view.Places(ctx, visitors)
	cancel()
	s.mu.Lock()
	s.err = err
	if err != nil {
		s.rest = time.Now().Add(restAfter)
		batch = append(batch, s.waiting...) // they must not each pay for a time-out of their own
		s.waiting = nil
	}
	s.mu.Unlock()
	for i, q := range batch {
		if q.err = err; err == nil {
			q.moment, q.place = moment, places[i]
		}
		close(q.done)
	}
}
