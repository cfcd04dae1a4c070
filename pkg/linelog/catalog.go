package linelog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// The topics of the catalogue are stored names: they never change. Both have one partition, and both are written in one
// transaction: the entry, and who changed what in it.
const (
	catalogTopic = "soonbeon.catalog"
	changesTopic = "soonbeon.changes"
)

// EnsureCatalog makes the topics of the catalogue if there are none, and otherwise checks that they are fit: one partition
// each, the catalogue compacted, its changes never, both kept for ever. What does not fit is returned as *SettingError
// values, joined. Safe to call at once from many processes.
func (l *Log) EnsureCatalog(ctx context.Context) error {
	const fix = "set it with kafka-configs --alter"
	return errors.Join(
		l.ensureOwn(ctx, catalogTopic, map[string]string{"cleanup.policy": "compact"},
			fix+": the last record of each queue is kept, and none is forgotten for its age"),
		l.ensureOwn(ctx, changesTopic, map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"},
			fix+": who changed what is kept for ever"),
	)
}

func (l *Log) ensureOwn(ctx context.Context, topic string, configs map[string]string, fix string) error {
	d, created, err := l.createTopic(ctx, topic, configs)
	if err != nil {
		return fmt.Errorf("make topic %s: %w", topic, err)
	}
	if created {
		l.logger.Info("made a topic", zap.String("topic", topic))
		return nil
	}
	values, err := l.topicConfig(ctx, topic)
	if err != nil {
		return err
	}
	var errs []error
	if n := len(d.partitions); n != 1 {
		errs = append(errs, &SettingError{"topic " + topic, "partitions", strconv.Itoa(n), "1",
			"the order of the changes is that of one partition; partitions cannot be taken away, so make the topic anew"})
	}
	for key, want := range configs {
		if v := values[key]; v != want {
			errs = append(errs, &SettingError{"topic " + topic, key, shown(v), want, fix})
		}
	}
	return errors.Join(errs...)
}

// CatalogEnd returns the position that follows the last record that was committed to the catalogue. A CatalogReader whose
// Position is not below it has delivered everything that was there.
func (l *Log) CatalogEnd(ctx context.Context) (next int64, err error) {
	if next, err = offsetOf(ctx, catalogTopic, l.admin.ListCommittedOffsets); err != nil {
		return 0, fmt.Errorf("look for the end of the catalogue: %w", err)
	}
	return next, nil
}

// CatalogRecord is one record of the catalogue.
type CatalogRecord struct {
	ID      queue.ID
	Version int64        // the offset + 1 of the record
	Entry   *queue.Entry // nil: the queue was removed
	Err     error        // the record can't be read: it is kept as it is, and Entry is nil
}

// readCatalog decodes what was fetched.
func readCatalog(krs []*kgo.Record) []CatalogRecord {
	out := make([]CatalogRecord, 0, len(krs))
	for _, kr := range krs {
		rec := CatalogRecord{ID: queue.ID(kr.Key), Version: kr.Offset + 1}
		if kr.Value != nil {
			rec.Entry, rec.Err = decodeEntry(rec.Version, kr.Value)
			if rec.Err == nil && rec.Entry.ID != rec.ID {
				rec.Err = fmt.Errorf("its key says %.70q, and it says %.70q", string(rec.ID), string(rec.Entry.ID))
			}
		}
		if _, err := queue.ParseID(string(rec.ID)); err != nil && rec.Err == nil {
			rec.Err = err
		}
		if rec.Err != nil {
			rec.Entry, rec.Err = nil, fmt.Errorf("record %d of the catalogue, of queue %.70q: %w", rec.Version, string(rec.ID), rec.Err)
		}
		out = append(out, rec)
	}
	return out
}

// CatalogReader reads the catalogue from its start and goes on for ever. Next is for one goroutine at a time; Position may be
// asked, and Close called, from others.
type CatalogReader struct {
	log    *Log
	logger *zap.Logger
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	from  *committed // nil until the first Next
	told  bool       // that everything was read
	ended error      // a *TroubleError: stays

	mu       sync.Mutex
	client   *kgo.Client
	position int64
}

// NewCatalogReader makes a reader with a connection of its own. It connects with the first Next.
func (l *Log) NewCatalogReader() *CatalogReader {
	ctx, cancel := context.WithCancel(context.Background())
	return &CatalogReader{log: l, ctx: ctx, cancel: cancel, logger: l.logger.WithOptions(sampled())}
}

// Position is the position of the record to be read next. Compare it with Log.CatalogEnd to know whether everything was
// read.
func (r *CatalogReader) Position() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.position
}

// Next returns the next records in order, as soon as there are any, and none the first time that it finds nothing more to
// read, so that its caller can look at Position. Of a queue that changed often, only the last record is sure to come.
//
// Errors: *TroubleError (with no Queue) ends the reader for good; ErrClosed; the error of ctx, after which Next may be called
// again. Whatever passes by itself, a catalogue that isn't made yet included, is waited for inside.
func (r *CatalogReader) Next(ctx context.Context) ([]CatalogRecord, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	var seen *TroubleError // once; it is believed when it is seen again
	for fails := 0; ; {
		switch {
		case r.ended != nil:
			return nil, r.ended
		case r.ctx.Err() != nil:
			return nil, fmt.Errorf("read the catalogue: %w", ErrClosed)
		case ctx.Err() != nil:
			return nil, fmt.Errorf("read the catalogue: %w", ctx.Err())
		}
		if err := r.connect(); err != nil {
			return nil, err
		}
		krs, err := r.from.fetch(ctx, fetchWait)
		var trouble *TroubleError
		switch {
		case err == nil:
			seen, fails = nil, 0
			r.mu.Lock()
			r.position = r.from.next
			r.mu.Unlock()
			if len(krs) > 0 {
				return readCatalog(krs), nil
			}
			if r.from.atEnd && !r.told {
				r.told = true
				return nil, nil
			}
		case ctx.Err() != nil:
		case errors.As(err, &trouble) && seen != nil && seen.Kind == trouble.Kind:
			r.ended = trouble
			r.log.metrics.troubles.WithLabelValues(trouble.Kind.String()).Inc()
		case trouble != nil:
			seen = trouble
			_ = sleep(ctx, goneAfter) // the loop looks at ctx
		default:
			fails++
			r.logger.Warn("reading the catalogue fails, trying again", zap.Error(err))
			_ = sleep(ctx, backoff(fails))
		}
	}
}

func (r *CatalogReader) connect() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.from != nil || r.ctx.Err() != nil {
		return nil
	}
	client, err := r.log.newClient()
	if err != nil {
		return fmt.Errorf("read the catalogue: %w", err)
	}
	r.client, r.from = client, r.log.newCommitted(client, catalogTopic)
	return nil
}

// Close ends a Next that waits, and the connection. Closing twice is fine.
func (r *CatalogReader) Close() {
	r.cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client != nil {
		r.client.Close()
	}
}

// Changes returns the last changes of a queue, or of all with id "", newest first, at most limit. Those of earlier queues of
// the name are among them. It reads the record of changes from its end backwards, as far as it needs to.
func (l *Log) Changes(ctx context.Context, id queue.ID, limit int) ([]queue.Change, error) {
	changes, err := l.changes(ctx, id, limit)
	if err != nil {
		return nil, fmt.Errorf("read the changes: %w", err)
	}
	return changes, nil
}

// changesWindow is how many positions are read at once, going backwards.
const changesWindow = 2000

func (l *Log) changes(ctx context.Context, id queue.ID, limit int) ([]queue.Change, error) {
	first, err := offsetOf(ctx, changesTopic, l.admin.ListStartOffsets)
	if err != nil {
		return nil, err
	}
	end, err := offsetOf(ctx, changesTopic, l.admin.ListCommittedOffsets)
	if err != nil {
		return nil, err
	}
	client, err := l.newClient()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	from := l.newCommitted(client, changesTopic)
	var out []queue.Change
	for end > first && len(out) < limit {
		begin := max(first, end-changesWindow)
		from.next = begin
		var window []queue.Change
		for from.next < end {
			krs, err := from.fetch(ctx, 100*time.Millisecond)
			if err != nil {
				return nil, err
			}
			for _, kr := range krs {
				if kr.Offset >= end {
					break
				}
				c, err := decodeChange(kr.Value)
				if err != nil {
					l.logger.Warn("skipped a change that cannot be read", zap.Int64("offset", kr.Offset), zap.Error(err))
					continue
				}
				if id == "" || c.Queue == id {
					window = append(window, c)
				}
			}
		}
		slices.Reverse(window)
		out = append(out, window...)
		end = begin
	}
	return out[:min(len(out), limit)], nil
}
