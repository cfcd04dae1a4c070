package linelog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// sharedLine is one shared connection. What is below client is under the hub's mu.
type sharedLine struct {
	hub       *Hub
	client    *kgo.Client
	shares    int
	hurried   int // how many of them are in a hurry
	ops       []op
	interrupt context.CancelFunc // ends the poll under way
}

// op is something to be done between two polls, so that no record of a poll meets a queue that joined after it.
type op struct {
	join, leave *share
	purged      []string // topics that the client has forgotten
}

// enqueue is called under the hub's mu.
func (c *sharedLine) enqueue(o op) {
	c.ops = append(c.ops, o)
	if c.interrupt != nil {
		c.interrupt()
	}
}

// run polls, and gives what comes to those who share. It alone touches what the client consumes.
func (c *sharedLine) run() {
	active := make(map[string]*share)  // what the client consumes
	waiting := make(map[string]*share) // who joins once the client has forgotten the one before
	purging := make(map[string]bool)
	for c.hub.ctx.Err() == nil {
		c.hub.mu.Lock()
		ops := c.ops
		c.ops = nil
		ctx, cancel := context.WithCancel(c.hub.ctx)
		c.interrupt = cancel
		c.hub.mu.Unlock()
		joins := make(map[string]map[int32]kgo.Offset)
		join := func(s *share) {
			active[s.topic] = s
			joins[s.topic] = map[int32]kgo.Offset{0: kgo.NewOffset().At(int64(s.after))}
		}
		var leaves []string
		for _, o := range ops {
			switch {
			case o.join != nil && purging[o.join.topic]:
				waiting[o.join.topic] = o.join
			case o.join != nil:
				join(o.join)
			case o.leave != nil:
				topic := o.leave.topic
				switch {
				case waiting[topic] == o.leave:
					delete(waiting, topic)
				case active[topic] != o.leave:
				case joins[topic] != nil: // just now: the client doesn't know of it
					delete(joins, topic)
					delete(active, topic)
				default:
					delete(active, topic)
					purging[topic] = true
					leaves = append(leaves, topic)
				}
			default:
				for _, topic := range o.purged {
					delete(purging, topic)
					if s := waiting[topic]; s != nil {
						delete(waiting, topic)
						join(s)
					}
				}
			}
		}
		c.forget(leaves)
		if len(joins) > 0 {
			c.client.AddConsumePartitions(joins)
		}
		fetches := c.client.PollFetches(ctx)
		cancel()
		if some, more := c.deal(active, fetches); some {
			_ = sleep(c.hub.ctx, c.pause(more))
		}
	}
}

// pause is how long to wait after a fetch that brought something. Where there is more, nobody is to wait: a part of a long log is
// a hundred records, if they came one at a time, and half a second for each of them would be hours.
func (c *sharedLine) pause(more bool) time.Duration {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	if c.hurried == 0 && !more {
		return unhurriedWait
	}
	return hubPause
}

// forget makes the client stop consuming topics at once, and forget them: otherwise it would go on asking for those that
// are deleted. Forgetting waits for brokers that don't answer, so it has a goroutine.
func (c *sharedLine) forget(topics []string) {
	if len(topics) == 0 {
		return
	}
	parts := make(map[string][]int32, len(topics))
	for _, topic := range topics {
		parts[topic] = []int32{0}
	}
	c.client.RemoveConsumePartitions(parts)
	c.hub.done.Go(func() {
		c.client.PurgeTopicsFromConsuming(topics...)
		c.hub.mu.Lock()
		defer c.hub.mu.Unlock()
		c.enqueue(op{purged: topics})
	})
}

// deal gives records and errors to those who share, and says whether there were any, and whether a log goes on behind them.
func (c *sharedLine) deal(active map[string]*share, fetches kgo.Fetches) (some, more bool) {
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		s := active[p.Topic]
		if s == nil || len(p.Records) == 0 && p.Err == nil {
			return
		}
		some = true
		if n := len(p.Records); n > 0 && p.Records[n-1].Offset+1 < p.HighWatermark {
			more = true
		}
		if s.take(p.Records, p.Err) {
			c.hub.leave(s)
		}
	})
	return some, more
}

// share is one queue on the shared connection: the source of its reader. It ends when too much waits, or when its
// partition can't be read on.
type share struct {
	line      *sharedLine
	topic     string
	topicID   string
	unhurried bool
	wake      chan struct{} // holds one token when there is something new for poll

	mu     sync.Mutex
	after  queue.Ticket // the last one taken in
	held   []*kgo.Record
	err    error // comes after what is held
	doubts bool  // the reader should look
	ended  bool
}

// errCrowded ends a share whose reader leaves too much waiting.
var errCrowded = errors.New("more comes than the shared connection holds")

// take takes records, and what comes after them, and says whether the share ended with it.
func (s *share) take(recs []*kgo.Record, err error) (ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.held = append(s.held, recs...)
	if n := len(recs); n > 0 {
		s.after = ticketOf(recs[n-1].Offset)
	}
	switch {
	case err != nil:
		s.err = err
		// franz-go goes on by itself after the others.
		s.ended = !passes(err)
	case len(s.held) >= hubHolds:
		s.err, s.ended = errCrowded, true
	}
	s.signal()
	return s.ended
}

func (s *share) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *share) suspect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubts = true
	s.signal()
}

func (s *share) seen() queue.Ticket {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.after
}

func (s *share) poll(ctx context.Context) ([]*kgo.Record, error) {
	for {
		s.mu.Lock()
		switch held, err := s.held, s.err; {
		case len(held) > 0:
			n := min(len(held), queue.MaxBatch)
			s.held = held[n:]
			if len(s.held) == 0 {
				s.held = nil
			}
			s.mu.Unlock()
			return held[:n], nil
		case err != nil:
			if !s.ended {
				s.err = nil
			}
			s.mu.Unlock()
			return nil, err
		case s.doubts:
			s.doubts = false
			s.mu.Unlock()
			return nil, nil
		}
		s.mu.Unlock()
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil, nil
		}
	}
}

func (s *share) close() {
	s.mu.Lock()
	s.ended, s.held = true, nil
	s.mu.Unlock()
	s.line.hub.leave(s)
}

// passes says of an error of fetching that franz-go goes on by itself after it.
func passes(err error) bool { return kerr.IsRetriable(err) && !errors.Is(err, kerr.UnknownTopicID) }
