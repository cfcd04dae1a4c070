package linelog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

const (
	// fetchWait is how long a broker holds a fetch that has nothing to give. Long is cheap; it delays nothing.
	fetchWait = 2 * time.Second
	// Of a reader in no hurry: a fetch waits for so much, or so long.
	unhurriedBytes = 256 << 10
	unhurriedWait  = 500 * time.Millisecond
	// idleCheck is how long a reader without records waits before it looks whether the log is still the same.
	idleCheck = 5 * time.Second
	// errorCheck is the least time between two such looks when fetching fails.
	errorCheck = 500 * time.Millisecond
)

// Reader reads one queue's log in order. Next is for one goroutine at a time; Close may come from another.
type Reader struct {
	log     *Log
	id      queue.ID
	topicID string // "" until known, where the caller doesn't care
	after   queue.Ticket
	logger  *zap.Logger // at most one line of a kind in ten seconds

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	client       *kgo.Client // nil until the first Next, and while it is made anew
	clientMu     sync.Mutex  // Close against the making of a client
	lastLook     time.Time
	unhurried    bool
	skippedOnce  bool
	ended        error // a *TroubleError: stays
	backoffFails int
}

// NewReader makes a Reader whose first record is the one that follows ticket after; 0 for the whole log. With a topicID
// that is not "", a topic with another id is *TroubleError Recreated. It connects with the first Next.
func (l *Log) NewReader(id queue.ID, after queue.Ticket, topicID string) *Reader {
	ctx, cancel := context.WithCancel(context.Background())
	return &Reader{
		log: l, id: id, topicID: topicID, after: max(after, 0), ctx: ctx, cancel: cancel,
		logger: l.logger.WithOptions(sampled()).With(zap.String("queue", string(id))),
	}
}

// Unhurried makes the reader wait for a good many records, half a second at the most, before Next returns some: for those who
// only want to know roughly how far the log is, and should not cost the brokers a fetch for each record. Before the first Next.
func (r *Reader) Unhurried() *Reader {
	r.unhurried = true
	return r
}

// After returns the last ticket that Next delivered, or the one that reading was to start after.
func (r *Reader) After() queue.Ticket { return r.after }

// Next returns the next records, 1 to queue.MaxBatch, in order, as soon as there are any. Ticket and AtMs are set. The
// slice is the caller's.
//
// Errors: *TroubleError ends the reader for good; ErrClosed; the error of ctx, after which Next may be called again.
// Whatever passes by itself is waited for inside.
func (r *Reader) Next(ctx context.Context) ([]queue.Record, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	for {
		switch {
		case r.ended != nil:
			return nil, r.ended
		case r.ctx.Err() != nil:
			return nil, fmt.Errorf("read queue %s: %w", r.id, ErrClosed)
		case ctx.Err() != nil:
			return nil, fmt.Errorf("read queue %s: %w", r.id, ctx.Err())
		}
		recs, err := r.step(ctx)
		var trouble *TroubleError
		if errors.As(err, &trouble) {
			r.ended = trouble
			r.log.metrics.troubles.WithLabelValues(trouble.Kind.String()).Inc()
			r.dropClient()
			continue
		}
		if err != nil && ctx.Err() == nil {
			r.logger.Warn("reading the log fails, trying again", zap.Int64("after", int64(r.after)), zap.Error(err))
			r.backoffFails++
			_ = sleep(ctx, backoff(r.backoffFails)) // the loop looks at ctx
			continue
		}
		if len(recs) > 0 {
			r.backoffFails = 0
			return recs, nil
		}
	}
}

// step makes a client if there is none, and polls it once. No records and no error: nothing came, or ctx ended.
func (r *Reader) step(ctx context.Context) ([]queue.Record, error) {
	if r.client == nil {
		// The look comes first: a log that was made anew, trimmed or cut must not deliver a single record.
		if err := r.look(ctx); err != nil {
			return nil, err
		}
		if err := r.makeClient(); err != nil {
			return nil, err
		}
	}
	pollCtx, cancel := context.WithTimeout(ctx, idleCheck)
	defer cancel()
	fetches := r.client.PollRecords(pollCtx, queue.MaxBatch)
	if recs := r.take(fetches); len(recs) > 0 {
		return recs, nil // an error beside them comes again with the next poll
	}
	if ctx.Err() != nil {
		return nil, nil
	}
	var fetchErr error
	fetches.EachError(func(_ string, _ int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			fetchErr = err
		}
	})
	switch {
	case fetchErr == nil:
		return nil, r.look(ctx) // idle
	case kerr.IsRetriable(fetchErr) && !errors.Is(fetchErr, kerr.UnknownTopicID):
		// franz-go goes on by itself.
		if time.Since(r.lastLook) < errorCheck {
			return nil, sleep(ctx, backoff(1))
		}
		return nil, errors.Join(fetchErr, r.look(ctx))
	}
	// Whatever is left: out of range, data loss, an unknown topic id, no permission. Either the log is in trouble, or
	// this was a passing confusion of the brokers, and a client made anew is right.
	err := r.look(ctx)
	var loss *kgo.ErrDataLoss
	if err == nil && errors.As(fetchErr, &loss) {
		err = &TroubleError{Queue: r.id, Kind: Short, After: r.after, First: 0, Next: queue.Ticket(loss.ResetTo) + 1}
	}
	r.dropClient()
	return nil, errors.Join(fetchErr, err)
}

// take decodes what was fetched.
func (r *Reader) take(fetches kgo.Fetches) []queue.Record {
	n := fetches.NumRecords()
	if n == 0 {
		return nil
	}
	m := r.log.metrics
	out := make([]queue.Record, 0, n)
	fetches.EachRecord(func(kr *kgo.Record) {
		ticket := queue.Ticket(kr.Offset) + 1
		if ticket <= r.after {
			return
		}
		out = append(out, queue.Record{Ticket: ticket, AtMs: kr.Timestamp.UnixMilli()})
		if why := decode(kr.Value, &out[len(out)-1]); why != "" {
			m.skipped.WithLabelValues(why).Inc()
			if !r.skippedOnce {
				r.skippedOnce = true
				r.log.logger.Warn("skipped a record that cannot be read; it stays in the log, further ones are only counted",
					zap.String("queue", string(r.id)), zap.Int64("ticket", int64(ticket)), zap.String("reason", why))
			}
		}
		r.after = ticket
	})
	m.read.Add(float64(len(out)))
	return out
}

func (r *Reader) makeClient() error {
	wait, least := fetchWait, int32(1)
	if r.unhurried {
		wait, least = unhurriedWait, unhurriedBytes
	}
	client, err := r.log.newClient(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{TopicOf(r.id): {0: kgo.NewOffset().At(int64(r.after))}}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.KeepRetryableFetchErrors(),
		kgo.FetchMaxWait(wait),
		kgo.FetchMinBytes(least),
		kgo.FetchMaxBytes(16<<20),
		kgo.FetchMaxPartitionBytes(4<<20),
	)
	if err != nil {
		return fmt.Errorf("make a reader: %w", err)
	}
	r.clientMu.Lock()
	defer r.clientMu.Unlock()
	if r.ctx.Err() != nil {
		client.Close()
		return ErrClosed
	}
	r.client = client
	return nil
}

func (r *Reader) dropClient() {
	r.clientMu.Lock()
	defer r.clientMu.Unlock()
	if r.client != nil {
		r.client.Close()
		r.client = nil
	}
}

// Close ends a Next that waits, and the connection. Closing twice is fine.
func (r *Reader) Close() {
	r.cancel()
	r.clientMu.Lock()
	defer r.clientMu.Unlock()
	if r.client != nil {
		r.client.Close()
	}
}
