package linelog

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// produceTimeout is how long a broker may take to get its replicas' acknowledgements, and with answerTimeout how long a
// broker that hangs is waited for before the same record is sent again (under the same sequence number).
const produceTimeout = 2 * time.Second

// Writer appends records. It is safe for concurrent use, and batches what is appended at the same time.
type Writer struct {
	log    *Log
	client *kgo.Client
	closed atomic.Bool
	lanes  lanes
	limits limits
}

// linger is how long a record waits for others to share its batch. A batch costs the brokers and us the same whatever is in
// it, and the embedded log syncs once for each; the two milliseconds are lost in what a person notices. Measured by make bench.
const linger = 2 * time.Millisecond

// NewWriter makes a Writer with a connection and a buffer of its own.
func (l *Log) NewWriter() (*Writer, error) {
	client, err := l.newClient(
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(linger),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(l.cfg.MaxBuffered),
		kgo.MaxBufferedBytes(l.cfg.MaxBufferedBytes),
		kgo.ProduceRequestTimeout(produceTimeout),
		// franz-go takes no less than a second.
		kgo.RecordDeliveryTimeout(max(l.cfg.AppendTimeout, time.Second)),
		kgo.UnknownTopicRetries(3),
	)
	if err != nil {
		return nil, fmt.Errorf("make a writer: %w", err)
	}
	return &Writer{log: l, client: client, lanes: lanes{of: make(map[queue.ID]lane)}, limits: limits{after: l.cfg.AppendTimeout}}, nil
}

// AppendTimeout is how long Append takes at the most.
func (w *Writer) AppendTimeout() time.Duration { return w.limits.most() }

// pending is one record on its way.
type pending struct {
	rec  kgo.Record
	err  error
	done chan struct{}
}

// produce hands a record over. It never blocks, and the caller's context has no part in it: franz-go would fail the
// whole batch with the first record's context.
func (w *Writer) produce(ctx context.Context, id queue.ID, value []byte) *pending {
	p := &pending{done: make(chan struct{})}
	p.rec.Topic, p.rec.Value = TopicOf(id), value
	if of := w.log.cfg.Traceparent; of != nil {
		if trace := of(ctx); trace != "" {
			p.rec.Headers = []kgo.RecordHeader{{Key: traceHeader, Value: []byte(trace)}}
		}
	}
	m, size := w.log.metrics, float64(len(value))
	m.bufRecords.Add(1)
	m.bufBytes.Add(size)
	w.lanes.begin(id)
	w.client.TryProduce(context.WithoutCancel(ctx), &p.rec, func(_ *kgo.Record, err error) {
		w.lanes.end(id)
		m.bufRecords.Sub(1)
		m.bufBytes.Sub(size)
		p.err = err
		close(p.done)
	})
	return p
}

// Append appends rec to the queue's log and returns its ticket once the broker has acknowledged it. It waits for
// Config.AppendTimeout, or a fiftieth of it longer, or until ctx ends.
//
// Errors: ErrBusy (the buffer is full, or the broker has not answered for AppendTimeout), ErrNoQueue, ErrClosed, the error of a context that is already done, and those of
// Encode: nothing was written. ErrUnknown: it may have been written, or may yet be.
func (w *Writer) Append(ctx context.Context, id queue.ID, rec queue.Record) (queue.Ticket, error) {
	start := time.Now()
	ticket, err := w.append(ctx, id, rec, start)
	w.log.metrics.appendSeconds.Observe(time.Since(start).Seconds())
	w.log.metrics.appends.WithLabelValues(resultOf(err)).Inc()
	if err != nil {
		return 0, fmt.Errorf("append %s to queue %s: %w", rec.Kind, id, err)
	}
	return ticket, nil
}

func (w *Writer) append(ctx context.Context, id queue.ID, rec queue.Record, start time.Time) (queue.Ticket, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if w.closed.Load() {
		return 0, ErrClosed
	}
	value, err := Encode(rec)
	if err != nil {
		return 0, err
	}
	if w.lanes.stalled(id, w.log.cfg.AppendTimeout) {
		return 0, fmt.Errorf("%w: the broker has answered nothing for %v", ErrBusy, w.log.cfg.AppendTimeout)
	}
	late := w.limits.begin(start)
	p := w.produce(ctx, id, value)
	select {
	case <-p.done:
		return p.ticket()
	case <-late:
		return 0, fmt.Errorf("%w: no acknowledgement within %v", ErrUnknown, w.log.cfg.AppendTimeout)
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
	}
}

// ticket reads the outcome of a record that is done.
func (p *pending) ticket() (queue.Ticket, error) {
	switch err := p.err; {
	case err == nil && p.rec.Offset < 0:
		// The broker knew the sequence number, but no longer where it was written.
		return 0, fmt.Errorf("%w: written, but the broker does not say where", ErrUnknown)
	case err == nil:
		return queue.Ticket(p.rec.Offset) + 1, nil
	case errors.Is(err, kgo.ErrMaxBuffered):
		return 0, ErrBusy
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return 0, fmt.Errorf("%w: %w", ErrNoQueue, err)
	case hopeless(err):
		return 0, err
	default:
		return 0, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
}

// hopeless says of an error that the broker refused the record, and would again.
func hopeless(err error) bool {
	for _, e := range []*kerr.Error{
		kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp,
		kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.InvalidTopicException,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func resultOf(err error) string {
	switch {
	case err == nil:
		return resultOK
	case errors.Is(err, ErrUnknown):
		return resultUnknown
	case errors.Is(err, ErrBusy):
		return resultBusy
	case errors.Is(err, ErrNoQueue):
		return resultNoQueue
	}
	return resultRefused
}

// AppendUntil appends rec and waits until it is acknowledged or ctx ends, whatever the brokers do meanwhile. For a
// leader's records: the same record can come to stand in the log more than once, which the fold allows. atMs is when this
// process handed the record over, Unix milliseconds.
//
// Errors: ErrUnknown when ctx ended; ErrNoQueue, ErrClosed, and a record that the broker refuses for what it is.
func (w *Writer) AppendUntil(ctx context.Context, id queue.ID, rec queue.Record) (ticket queue.Ticket, atMs int64, err error) {
	start := time.Now()
	ticket, atMs, err = w.appendUntil(ctx, id, rec)
	w.log.metrics.appendSeconds.Observe(time.Since(start).Seconds())
	w.log.metrics.appends.WithLabelValues(resultOf(err)).Inc()
	if err != nil {
		return 0, 0, fmt.Errorf("append %s to queue %s: %w", rec.Kind, id, err)
	}
	return ticket, atMs, nil
}

func (w *Writer) appendUntil(ctx context.Context, id queue.ID, rec queue.Record) (queue.Ticket, int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	value, err := Encode(rec)
	if err != nil {
		return 0, 0, err
	}
	handed := false
	for fails := 1; ; fails++ {
		if w.closed.Load() {
			if handed {
				return 0, 0, fmt.Errorf("%w: %w", ErrUnknown, ErrClosed)
			}
			return 0, 0, ErrClosed
		}
		p := w.produce(ctx, id, value)
		handed = true
		select {
		case <-p.done:
		case <-ctx.Done():
			return 0, 0, fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
		}
		ticket, err := p.ticket()
		switch {
		case err == nil:
			return ticket, p.rec.Timestamp.UnixMilli(), nil
		case errors.Is(err, ErrNoQueue), hopeless(err):
			return 0, 0, err
		}
		w.log.logger.Warn("appending again", zap.String("queue", string(id)), zap.Stringer("kind", rec.Kind), zap.Int("fails", fails), zap.Error(err))
		if err := sleep(ctx, backoff(fails)); err != nil {
			return 0, 0, fmt.Errorf("%w: %w", ErrUnknown, err)
		}
	}
}

// Forget drops what the writer knows of a queue's topic, so that a queue that was deleted and made anew under the same name
// can be appended to. Records that wait for the brokers are given up: their callers get ErrUnknown.
func (w *Writer) Forget(id queue.ID) { w.client.PurgeTopicsFromProducing(TopicOf(id)) }

// Flush waits until every record handed over so far was acknowledged or failed.
func (w *Writer) Flush(ctx context.Context) error {
	if err := w.client.Flush(ctx); err != nil {
		return fmt.Errorf("flush the writer: %w", err)
	}
	return nil
}

// Close refuses further records and fails those that still wait: their callers get ErrUnknown. Flush first. Closing
// twice is fine.
func (w *Writer) Close() {
	if !w.closed.Swap(true) {
		w.client.Close()
	}
}
