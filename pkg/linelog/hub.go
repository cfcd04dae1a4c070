package linelog

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

const (
	// hubShares is how many queues share one connection. A fetch costs the broker and us some microseconds for each of them,
	// whatever it brings.
	hubShares = 64
	// hubWait is how long a broker holds a shared fetch that has nothing to give. A queue that joins waits for the fetch under
	// way, so it isn't long; two empty fetches a second for each connection are what idle queues cost.
	hubWait = 500 * time.Millisecond
	// hubPause is the least time between two shared fetches that brought something.
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

// Hub makes readers that share connections as long as little comes, so that idle queues cost next to nothing. Each reader
// keeps to the contract of Reader.Next.
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
	once   sync.Once // starts what looks after all
	done   sync.WaitGroup
	logger *zap.Logger

	mu    sync.Mutex
	lines []*sharedLine
	taken map[string]*share // by topic: who shares
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

// Close ends all readers of the hub, and the connections that they share. Closing twice is fine.
func (h *Hub) Close() {
	h.mu.Lock()
	h.cancel()
	lines := h.lines
	h.mu.Unlock()
	for _, c := range lines {
		c.client.Close()
	}
	h.done.Wait()
}

// room returns a connection with room for one more. Under mu.
func (h *Hub) room() (*sharedLine, error) {
	if h.ctx.Err() != nil {
		return nil, ErrClosed
	}
	for _, c := range h.lines {
		if c.shares < hubShares {
			return c, nil
		}
	}
	client, err := h.log.newClient(
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.KeepRetryableFetchErrors(),
		kgo.FetchMaxWait(hubWait),
		kgo.FetchMaxBytes(4<<20),
		kgo.FetchMaxPartitionBytes(hubPart),
	)
	if err != nil {
		return nil, err
	}
	c := &sharedLine{hub: h, client: client}
	h.lines = append(h.lines, c)
	h.done.Go(c.run)
	return c, nil
}

// join makes a reader share from a ticket on; nil if another reader of the queue does, or the hub is closed.
func (h *Hub) join(id queue.ID, after queue.Ticket, topicID string, unhurried bool) *share {
	topic := TopicOf(id)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.taken[topic] != nil {
		return nil
	}
	c, err := h.room()
	if err != nil {
		return nil
	}
	s := &share{line: c, topic: topic, topicID: topicID, unhurried: unhurried, after: after, wake: make(chan struct{}, 1)}
	h.taken[topic] = s
	c.shares++
	if !unhurried {
		c.hurried++
	}
	c.enqueue(op{join: s})
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
	if h.taken[s.topic] != s {
		return
	}
	delete(h.taken, s.topic)
	s.line.shares--
	if !s.unhurried {
		s.line.hurried--
	}
	s.line.enqueue(op{leave: s})
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
	h.once.Do(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.ctx.Err() == nil { // else Close doesn't wait any more
			h.done.Go(h.sweep)
			h.done.Go(h.answer)
		}
	})
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
