package linelog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

const (
	// catalogTxn is the transactional id that all writers of the catalogue share: whoever uses it shuts all others out. It is a
	// stored name.
	catalogTxn = "soonbeon-catalog"
	// catalogTxnTimeout is how long the transaction of a writer that died holds readers up, if no other writer comes.
	catalogTxnTimeout = 5 * time.Second
	// catalogTries is how often a writer that was shut out by another tries again.
	catalogTries = 6
)

// CatalogWriter changes the catalogue. It is safe for concurrent use; edits are made one after another.
type CatalogWriter struct {
	log    *Log
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	turn chan struct{} // holds one token; whoever has it may touch what is below
	// client is the one that shut out all others, nil when there is none. As long as it isn't shut out itself, nobody else has
	// written, so known is the catalogue.
	client *kgo.Client
	known  map[queue.ID]CatalogRecord // the removed ones too
	topic  kadm.TopicID               // of which known is; zero until it is
	next   int64                      // the offset from which known has to be brought up to date
	await  int64                      // the version of a record that was sent and not acknowledged, 0 if there is none
	met    bool                       // it was read

	closing sync.Once
}

// NewCatalogWriter makes a writer. It connects with the first Edit.
func (l *Log) NewCatalogWriter() *CatalogWriter {
	ctx, cancel := context.WithCancel(context.Background())
	w := &CatalogWriter{log: l, ctx: ctx, cancel: cancel, turn: make(chan struct{}, 1), known: make(map[queue.ID]CatalogRecord), next: -1}
	w.turn <- struct{}{}
	return w
}

// Edit changes one entry, as compare-and-set over the whole catalogue: change is called with the entry as it stands (nil:
// there is none; it may be altered), and what it returns is written only if nobody has written anything meanwhile. Otherwise
// change is called again with what stands then.
//
// change returns the next entry and a record of what was done, both written or none; a nil entry with a record removes the
// queue; nil and nil writes nothing. An error of change is returned as it is, and nothing is written. Version and Made of the next entry, and the
// time of the change if it is 0, are filled in. The result is the entry as it stands after the edit, nil if there is none.
//
// Errors: ErrBusy (other writers came in between again and again, or the brokers didn't answer before ctx ended) and
// ErrClosed: nothing was written. ErrUnknown: ctx ended and it may have been written. An entry whose record can't be read is
// not edited, and the error says why. Give ctx a deadline: Edit waits for brokers as long as it lasts.
func (w *CatalogWriter) Edit(ctx context.Context, id queue.ID, change func(current *queue.Entry) (next *queue.Entry, what *queue.Change, err error)) (*queue.Entry, error) {
	if _, err := queue.ParseID(string(id)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.ctx, cancel)()
	select {
	case <-ctx.Done():
		return nil, w.stopped(ctx, id, false, nil)
	case <-w.turn:
		defer func() { w.turn <- struct{}{} }()
	}
	e := edit{w: w, id: id, change: change}
	for fails := 1; ; fails++ {
		done, err := e.try(ctx)
		if done {
			return e.result, err
		}
		w.drop() // whatever happened: begin anew, shut out all others, and read what is there
		if e.shutOut > catalogTries {
			return nil, fmt.Errorf("edit queue %s in the catalogue: %w: other writers come in between again and again: %w", id, ErrBusy, err)
		}
		if ctx.Err() == nil {
			w.log.logger.Info("editing the catalogue again", zap.String("queue", string(id)), zap.Int("fails", fails), zap.Error(err))
			_ = sleep(ctx, backoff(fails))
		}
		if ctx.Err() != nil {
			return nil, w.stopped(ctx, id, e.sent, err)
		}
	}
}

func (w *CatalogWriter) stopped(ctx context.Context, id queue.ID, sent bool, err error) error {
	kind, why := ErrBusy, ctx.Err()
	if w.ctx.Err() != nil {
		kind, why = ErrClosed, nil
	}
	if sent {
		kind = ErrUnknown
	}
	return fmt.Errorf("edit queue %s in the catalogue: %w", id, errors.Join(kind, why, err))
}

// edit is one Edit on its way.
type edit struct {
	w      *CatalogWriter
	id     queue.ID
	change func(*queue.Entry) (*queue.Entry, *queue.Change, error)

	// sent: a commit was asked for, and not answered. The next who shuts out the others, we ourselves, finds what it was for
	// either committed or rolled back.
	sent    bool
	shutOut int // how often another writer came in between
	result  *queue.Entry
}

// try does all of it once. done is false if it is to be tried again, after the writer was dropped.
func (e *edit) try(ctx context.Context) (done bool, err error) {
	w := e.w
	if w.ctx.Err() != nil {
		return true, w.stopped(ctx, e.id, e.sent, nil)
	}
	if err := w.begin(ctx); err != nil {
		return false, err
	}
	have := w.known[e.id]
	if e.sent && w.met {
		e.result = clone(have.Entry) // it was committed after all
		return true, nil
	}
	e.sent = false // it was rolled back
	if have.Err != nil {
		return true, fmt.Errorf("edit queue %s: what stands in the catalogue can't be read, and is left as it is: %w", e.id, have.Err)
	}
	next, what, err := e.change(clone(have.Entry))
	switch {
	case err != nil:
		return true, err
	case next == nil && what == nil:
		e.result = clone(have.Entry)
		return true, nil
	case what == nil:
		return true, fmt.Errorf("edit queue %s: a change is written only with a record of it", e.id)
	}
	recs, err := records(e.id, have.Entry, next, *what)
	if err != nil {
		return true, fmt.Errorf("edit queue %s: %w", e.id, err)
	}
	if err := e.write(ctx, recs); err != nil {
		return false, err
	}
	w.learn(readCatalog(recs[:1]))
	e.result = clone(w.known[e.id].Entry)
	return true, nil
}

// records returns what one edit writes: the entry, or its removal, and the change.
func records(id queue.ID, current, next *queue.Entry, what queue.Change) ([]*kgo.Record, error) {
	var value []byte
	if next != nil {
		next = clone(next)
		next.ID, next.Made = id, 0
		if current != nil {
			next.Made = current.Made
		}
		var err error
		if value, err = encodeEntry(next); err != nil {
			return nil, err
		}
	}
	what.Queue = id
	if what.AtMs == 0 {
		what.AtMs = time.Now().UnixMilli()
	}
	changed, err := encodeChange(what)
	if err != nil {
		return nil, err
	}
	return []*kgo.Record{
		{Topic: catalogTopic, Key: []byte(id), Value: value},
		{Topic: changesTopic, Key: []byte(id), Value: changed},
	}, nil
}

func (e *edit) write(ctx context.Context, recs []*kgo.Record) error {
	client := e.w.client
	if err := client.BeginTransaction(); err != nil {
		return e.failed(err)
	}
	// Not ProduceSync: it waits for what was sent, however long the brokers are away.
	written := make(chan error, len(recs))
	for _, rec := range recs {
		client.Produce(ctx, rec, func(_ *kgo.Record, err error) { written <- err })
	}
	for range recs {
		select {
		case err := <-written:
			if err != nil {
				return e.failed(err) // without a commit it can't come to count
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	e.sent, e.w.await, e.w.met = true, recs[0].Offset+1, false
	if err := client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return e.failed(err)
	}
	e.sent = false
	return nil
}

// failed counts the times when another writer is the reason.
func (e *edit) failed(err error) error {
	for _, fenced := range []*kerr.Error{kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidTxnState, kerr.InvalidProducerIDMapping} {
		if errors.Is(err, fenced) {
			e.shutOut++
			break
		}
	}
	return fmt.Errorf("write to the catalogue: %w", err)
}

// begin shuts out every other writer, unless nobody has shut us out since we did, and reads what was written meanwhile: an
// edit that comes to nothing, or is refused, must be so by what is there now.
func (w *CatalogWriter) begin(ctx context.Context) error {
	if w.client == nil {
		if err := w.shutOut(ctx); err != nil {
			return err
		}
	}
	from := w.log.newCommitted(w.client, catalogTopic)
	from.next, from.id = w.next, w.topic
	for !from.atEnd {
		krs, err := from.fetch(ctx, time.Millisecond)
		var trouble *TroubleError
		if errors.As(err, &trouble) {
			// The topic isn't the one that was read: forget all of it, and read what is there now.
			w.next, w.topic, w.known = -1, kadm.TopicID{}, make(map[queue.ID]CatalogRecord)
		}
		if err != nil {
			return fmt.Errorf("read the catalogue: %w", err)
		}
		w.learn(readCatalog(krs))
		w.next, w.topic = from.next, from.id
	}
	return nil
}

// shutOut makes a client that nobody else writes beside.
func (w *CatalogWriter) shutOut(ctx context.Context) error {
	client, err := w.log.newClient(
		kgo.TransactionalID(catalogTxn),
		kgo.TransactionTimeout(catalogTxnTimeout),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProduceRequestTimeout(produceTimeout),
		kgo.UnknownTopicRetries(3),
	)
	if err != nil {
		return fmt.Errorf("make a writer of the catalogue: %w", err)
	}
	w.client = client
	// Once the brokers have answered, whatever another writer had begun is committed or rolled back.
	if _, _, err := client.ProducerID(ctx); err != nil {
		return fmt.Errorf("shut out the catalogue's other writers: %w", err)
	}
	return nil
}

func (w *CatalogWriter) learn(recs []CatalogRecord) {
	for _, rec := range recs {
		w.next = rec.Version
		w.met = w.met || rec.Version == w.await
		w.known[rec.ID] = rec
	}
}

func (w *CatalogWriter) drop() {
	if w.client != nil {
		w.client.Close()
		w.client = nil
	}
}

// Close ends an Edit under way, and the connection. Closing twice is fine.
func (w *CatalogWriter) Close() {
	w.closing.Do(func() {
		w.cancel()
		<-w.turn // nobody gets it any more: their contexts have ended
		w.drop()
	})
}

// clone copies an entry with all that it refers to.
func clone(e *queue.Entry) *queue.Entry {
	if e == nil {
		return nil
	}
	c := *e
	c.Settings.Polling = slices.Clone(e.Settings.Polling)
	c.Settings.Rounding = slices.Clone(e.Settings.Rounding)
	c.Sealed, c.Unknown = slices.Clone(e.Sealed), slices.Clone(e.Unknown)
	return &c
}
