package linelog

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

const (
	// hubWait is how long a broker holds a shared fetch that has nothing to give. A queue that joins waits for the fetch under
	// way, so it is short; ten empty fetches a second are what all idle queues together cost.
	hubWait = 100 * time.Millisecond
	// hubPause is the least time between two shared fetches that brought something: each makes the broker look at every queue.
	hubPause = 5 * time.Millisecond
	// hubHolds is how many records of a queue are held for a reader that doesn't ask for them. Beyond, the queue leaves the
	// shared connection, and its reader goes on with one of its own when it asks again.
	hubHolds = 256
	// hubPart is how much of one queue a shared fetch brings, so that a long log does not crowd out the others.
	hubPart = 16 << 10
	// A reader that gets busyRecords within a second goes on with a connection of its own; one that has got no more than that
	// in calmAfter comes back.
	busyRecords = 300
	calmAfter   = 2 * time.Second
	// hubOwn is how many busy readers have a connection of their own at one time. What more there are share, and are slower.
	hubOwn = 64
)

// Hub makes readers that share one connection as long as little comes: a thousand queues of which most are idle cost about
// as much as one. Each reader keeps to the contract of Reader.Next.
//
//	            a burst, or a backlog: 300 records in a second, or 256 that wait for Next
//	shared ──────────────────────────────────────────────────────────────────────▶ own connection
//	       ◀──────────────────────────────────────────────────────────────────────
//	            calm: fewer than 300 in 2 s
//
// One reader of a queue shares; another of the same queue, at the same time, has a connection of its own from the start.
type Hub struct {
	log    *Log
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	own    chan struct{} // holds a token for each busy reader
	asks   chan ask
	done   sync.WaitGroup
	logger *zap.Logger

	mu        sync.Mutex
	client    *kgo.Client
	taken     map[string]*share // by topic: who shares
	hurried   int               // how many of them are in a hurry
	ops       []op
	interrupt context.CancelFunc // ends the poll under way
}

// op is something to be done between two polls, so that no record of a poll meets a queue that joined after it.
type op struct {
	join, leave *share
	purged      []string // topics that the client has forgotten
}

// NewHub makes a Hub. It connects with the first reader.
func (l *Log) NewHub() *Hub {
	ctx, cancel := context.WithCancel(context.Background())
	return &Hub{
		log: l, ctx: ctx, cancel: cancel, own: make(chan struct{}, hubOwn), asks: make(chan ask), taken: make(map[string]*share),
		logger: l.logger.WithOptions(sampled()),
	}
}

// NewReader makes a Reader as Log.NewReader does. It ends with the hub, and is to be closed all the same.
func (h *Hub) NewReader(id queue.ID, after queue.Ticket, topicID string) *Reader {
	return h.log.newReader(h.ctx, h, id, after, topicID)
}

// Close ends all readers of the hub, and the connection that they share. Closing twice is fine.
func (h *Hub) Close() {
	h.cancel()
	h.mu.Lock()
	client := h.client
	h.mu.Unlock()
	if client != nil {
		client.Close()
	}
	h.done.Wait()
}

// start connects. Under mu.
func (h *Hub) start() error {
	if h.ctx.Err() != nil {
		return ErrClosed
	}
	if h.client != nil {
		return nil
	}
	client, err := h.log.newClient(
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.KeepRetryableFetchErrors(),
		kgo.FetchMaxWait(hubWait),
		kgo.FetchMaxBytes(4<<20),
		kgo.FetchMaxPartitionBytes(hubPart),
	)
	if err != nil {
		return err
	}
	h.client = client
	h.done.Go(h.run)
	h.done.Go(h.sweep)
	h.done.Go(h.answer)
	return nil
}

// join makes a reader share from a ticket on; nil if another reader of the queue does, or the hub is closed.
func (h *Hub) join(id queue.ID, after queue.Ticket, topicID string, unhurried bool) *share {
	topic := TopicOf(id)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.taken[topic] != nil || h.start() != nil {
		return nil
	}
	s := &share{hub: h, topic: topic, topicID: topicID, unhurried: unhurried, after: after, wake: make(chan struct{}, 1)}
	h.taken[topic] = s
	if !unhurried {
		h.hurried++
	}
	h.enqueue(op{join: s})
	return s
}

func (h *Hub) free(id queue.ID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.taken[TopicOf(id)] == nil
}

func (h *Hub) leave(s *share) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.taken[s.topic] == s {
		delete(h.taken, s.topic)
		if !s.unhurried {
			h.hurried--
		}
		h.enqueue(op{leave: s})
	}
}

// enqueue is called under mu.
func (h *Hub) enqueue(o op) {
	h.ops = append(h.ops, o)
	if h.interrupt != nil {
		h.interrupt()
	}
}

// takeOwn asks for a connection of a busy reader's own; giveOwn gives it back.
func (h *Hub) takeOwn() bool {
	select {
	case h.own <- struct{}{}:
		return true
	default:
		return false
	}
}

func (h *Hub) giveOwn() { <-h.own }

// run polls, and gives what comes to those who share. It alone touches what the client consumes.
func (h *Hub) run() {
	active := make(map[string]*share)  // what the client consumes
	waiting := make(map[string]*share) // who joins once the client has forgotten the one before
	purging := make(map[string]bool)
	for h.ctx.Err() == nil {
		h.mu.Lock()
		ops := h.ops
		h.ops = nil
		ctx, cancel := context.WithCancel(h.ctx)
		h.interrupt = cancel
		h.mu.Unlock()
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
		h.forget(leaves)
		if len(joins) > 0 {
			h.client.AddConsumePartitions(joins)
		}
		fetches := h.client.PollFetches(ctx)
		cancel()
		if h.deal(active, fetches) {
			_ = sleep(h.ctx, h.pause())
		}
	}
}

// pause is how long to wait after a fetch that brought something.
func (h *Hub) pause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hurried == 0 {
		return unhurriedWait
	}
	return hubPause
}

// forget makes the client stop consuming topics at once, and forget them: otherwise it would go on asking for those that
// are deleted. Forgetting waits for brokers that don't answer, so it has a goroutine.
func (h *Hub) forget(topics []string) {
	if len(topics) == 0 {
		return
	}
	parts := make(map[string][]int32, len(topics))
	for _, topic := range topics {
		parts[topic] = []int32{0}
	}
	h.client.RemoveConsumePartitions(parts)
	h.done.Go(func() {
		h.client.PurgeTopicsFromConsuming(topics...)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.enqueue(op{purged: topics})
	})
}

// deal gives records and errors to those who share, and says whether there were any.
func (h *Hub) deal(active map[string]*share, fetches kgo.Fetches) (some bool) {
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		s := active[p.Topic]
		if s == nil || len(p.Records) == 0 && p.Err == nil {
			return
		}
		some = true
		if s.take(p.Records, p.Err) {
			h.leave(s)
		}
	})
	return some
}

// sweep looks after all shared queues at once. What it suspects, the queue's reader makes sure of.
func (h *Hub) sweep() {
	for sleep(h.ctx, idleCheck) == nil {
		h.mu.Lock()
		shares := maps.Clone(h.taken)
		h.mu.Unlock()
		if len(shares) == 0 {
			continue
		}
		after := make(map[string]queue.Ticket, len(shares))
		for topic, s := range shares {
			after[topic] = s.seen() // before the brokers are asked, so that what comes meanwhile doesn't look as if it were missing
		}
		answers, err := h.log.askMany(h.ctx, slices.Collect(maps.Keys(shares)))
		if err != nil {
			if h.ctx.Err() == nil {
				h.logger.Warn("looking after the idle logs fails", zap.Error(err))
			}
			continue
		}
		for topic, a := range answers {
			s := shares[topic]
			if a.err != nil || a.topicID != s.topicID || misfit("", after[topic], a.first, a.next) != nil {
				s.suspect()
			}
		}
	}
}

// ask is one reader's question for its log's bounds.
type ask struct {
	topic  string
	answer chan bounds
}

// answer answers whoever asks meanwhile together: a thousand readers that begin at once are a handful of requests.
func (h *Hub) answer() {
	for {
		var asked []ask
		select {
		case a := <-h.asks:
			asked = append(asked, a)
		case <-h.ctx.Done():
			return
		}
		for more := true; more; {
			select {
			case a := <-h.asks:
				asked = append(asked, a)
			default:
				more = false
			}
		}
		topics := make(map[string]bool, len(asked))
		for _, a := range asked {
			topics[a.topic] = true
		}
		answers, err := h.log.askMany(h.ctx, slices.Collect(maps.Keys(topics)))
		for _, a := range asked {
			b := answers[a.topic]
			if err != nil {
				b.err = err
			}
			a.answer <- b
		}
	}
}

// bounds asks for a topic's.
func (h *Hub) bounds(ctx context.Context, topic string) bounds {
	h.mu.Lock()
	err := h.start()
	h.mu.Unlock()
	if err != nil {
		return bounds{err: err}
	}
	a := ask{topic: topic, answer: make(chan bounds, 1)}
	select {
	case h.asks <- a:
	case <-ctx.Done():
		return bounds{err: ctx.Err()}
	}
	select {
	case b := <-a.answer:
		return b
	case <-ctx.Done():
		return bounds{err: ctx.Err()}
	}
}

// share is one queue on the shared connection: the source of its reader. It ends when too much waits, or when its
// partition can't be read on.
type share struct {
	hub       *Hub
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
	s.hub.leave(s)
}

// passes says of an error of fetching that franz-go goes on by itself after it.
func passes(err error) bool { return kerr.IsRetriable(err) && !errors.Is(err, kerr.UnknownTopicID) }
