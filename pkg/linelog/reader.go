package linelog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

const (
	// idleCheck is how long a reader without records waits before it looks whether the log is still the same.
	idleCheck = 5 * time.Second
	// errorCheck is the least time between two such looks when fetching fails.
	errorCheck = 500 * time.Millisecond
)

// Reader reads one queue's log in order. Next is for one goroutine at a time; Close may come from another.
type Reader struct {
	log     *Log
	hub     *Hub // nil: always with a connection of its own
	id      queue.ID
	topicID string // "" until known, where the caller doesn't care
	after   queue.Ticket
	logger  *zap.Logger // at most one line of a kind in ten seconds

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	source       source     // nil until the first Next, and while it is made anew
	sourceMu     sync.Mutex // Close against the making of a source
	lastLook     time.Time
	unhurried    bool
	traced       func(t queue.Ticket, traceparent string)
	skippedOnce  bool
	ended        error // a *TroubleError: stays
	backoffFails int
	flow         flow
}

// source is where a Reader's records come from.
type source interface {
	// poll returns the next records, in order, or an error of fetching. Neither of them: nothing came for a while and the log
	// should be looked at, or ctx ended.
	poll(ctx context.Context) ([]*kgo.Record, error)
	close()
}

// flow is how much comes, as far as a hub's reader has to know.
type flow struct {
	busy  bool // a connection of its own is right
	from  time.Time
	count int
}

// NewReader makes a Reader whose first record is the one that follows ticket after; 0 for the whole log. With a topicID
// that is not "", a topic with another id is *TroubleError Recreated. It connects with the first Next.
func (l *Log) NewReader(id queue.ID, after queue.Ticket, topicID string) *Reader {
	return l.newReader(context.Background(), nil, id, after, topicID)
}

func (l *Log) newReader(ctx context.Context, hub *Hub, id queue.ID, after queue.Ticket, topicID string) *Reader {
	ctx, cancel := context.WithCancel(ctx)
	return &Reader{
		log: l, hub: hub, id: id, topicID: topicID, after: max(after, 0), ctx: ctx, cancel: cancel,
		logger: l.logger.WithOptions(sampled()).With(zap.String("queue", string(id))),
	}
}

// Unhurried makes the reader wait for a good many records, half a second at the most, before Next returns some: for those who
// only want to know roughly how far the log is, and should not cost the brokers a fetch for each record. Before the first Next.
// A hub waits so where all who share its connection are in no hurry.
func (r *Reader) Unhurried() *Reader {
	r.unhurried = true
	return r
}

// Traced makes Next call told for each record that belongs to a trace (Config.Traceparent), before it returns the record. What a
// record's header holds is whatever its writer put there. Before the first Next.
func (r *Reader) Traced(told func(t queue.Ticket, traceparent string)) *Reader {
	r.traced = told
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
			r.dropSource()
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

// step makes a source if there is none, and polls it once. No records and no error: nothing came, or ctx ended.
func (r *Reader) step(ctx context.Context) ([]queue.Record, error) {
	if r.source == nil {
		// The look comes first: a log that was made anew, trimmed or cut must not deliver a single record.
		if err := r.look(ctx); err != nil {
			return nil, err
		}
		if err := r.open(); err != nil {
			return nil, err
		}
	}
	krs, fetchErr := r.source.poll(ctx)
	if recs := r.take(krs); len(recs) > 0 {
		r.weigh(len(recs))
		return recs, nil // an error beside them comes again with the next poll
	}
	if ctx.Err() != nil {
		return nil, nil
	}
	switch {
	case fetchErr == nil:
		r.weigh(0)
		return nil, r.look(ctx) // idle
	case errors.Is(fetchErr, errCrowded):
		r.flow.busy = true
		r.dropSource()
		return nil, nil
	case passes(fetchErr):
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
	r.dropSource()
	return nil, errors.Join(fetchErr, err)
}

// take decodes what was fetched.
func (r *Reader) take(krs []*kgo.Record) []queue.Record {
	if len(krs) == 0 {
		return nil
	}
	m := r.log.metrics
	out := make([]queue.Record, 0, len(krs))
	for _, kr := range krs {
		ticket := ticketOf(kr.Offset)
		if ticket <= r.after {
			continue
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
		if r.traced != nil {
			for _, h := range kr.Headers {
				if h.Key == traceHeader {
					r.traced(ticket, string(h.Value))
					break
				}
			}
		}
		r.after = ticket
	}
	m.read.Add(float64(len(out)))
	return out
}

// weigh counts what came, and changes a hub's reader over where it comes fast, or no longer does.
func (r *Reader) weigh(n int) {
	if r.hub == nil {
		return
	}
	now := time.Now()
	f := &r.flow
	f.count += n
	_, shares := r.source.(*share)
	over := time.Second
	if !shares {
		over = calmAfter
	}
	switch {
	case shares && f.count >= busyRecords && len(r.hub.own) < hubOwn:
		f.busy = true
		r.dropSource()
	case !shares && f.count >= busyRecords: // the time of calm begins anew
	case now.Sub(f.from) < over:
		return
	case !shares && r.hub.free(r.id):
		f.busy = false
		r.dropSource()
	}
	f.from, f.count = now, 0
}

// open makes a source.
func (r *Reader) open() error {
	r.sourceMu.Lock()
	defer r.sourceMu.Unlock()
	if r.ctx.Err() != nil {
		return ErrClosed
	}
	release := func() {}
	if h := r.hub; h != nil {
		if r.flow.busy && h.takeOwn() {
			release = h.giveOwn
		} else if s := h.join(r.id, r.after, r.topicID, r.unhurried); s != nil {
			r.source = s
			return nil
		}
	}
	s, err := r.log.newOwn(r.id, r.after, r.unhurried, release)
	if err != nil {
		return err
	}
	r.source = s
	return nil
}

func (r *Reader) dropSource() {
	r.sourceMu.Lock()
	defer r.sourceMu.Unlock()
	if r.source != nil {
		r.source.close()
		r.source = nil
	}
}

// Close ends a Next that waits, and the connection. Closing twice is fine.
func (r *Reader) Close() {
	r.cancel()
	r.sourceMu.Lock()
	defer r.sourceMu.Unlock()
	if r.source != nil {
		r.source.close()
	}
}
