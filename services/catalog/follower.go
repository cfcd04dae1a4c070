package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Follower reads the catalogue for a process. It is a lifecycle.Service, and may be asked from any number of goroutines, also before its
// start, when it knows nothing yet, and after its stop.
type Follower struct {
	source  Source
	logger  *zap.Logger
	metrics *metrics
	loop    lifecycle.Loop
	known   atomic.Pointer[known]
	ready   chan struct{} // closed once everything was read that was there at the start

	mu       sync.Mutex // held while changes are told, and by whoever begins to watch
	watchers []func(before, after *queue.Entry)

	wait    sync.Mutex
	moved   chan struct{} // closed, and made anew, when more is known
	trouble error
}

// known is what the catalogue says at one moment. It does not change.
type known struct {
	version int64 // of the last record that was read
	all     map[queue.ID]*queue.Entry
	order   []*queue.Entry // the same by id
}

// New makes a Follower that reads from source.
func New(source Source, logger *zap.Logger, reg prometheus.Registerer) (*Follower, error) {
	m, err := newMetrics(reg)
	if err != nil {
		return nil, err
	}
	f := &Follower{source: source, logger: logger, metrics: m, ready: make(chan struct{}), moved: make(chan struct{})}
	f.known.Store(&known{all: map[queue.ID]*queue.Entry{}})
	return f, nil
}

// Start begins to read; Ready waits until what is there was read.
func (f *Follower) Start(context.Context) error { return f.loop.Start(f.run) }

// Stop ends it. What is known stays known.
func (f *Follower) Stop(ctx context.Context) error { return f.loop.Stop(ctx) }

// Get is the queue called id, and false where there is none or it is being deleted. It neither locks nor waits. Nothing in the entry
// may be changed.
func (f *Follower) Get(id queue.ID) (*queue.Entry, bool) {
	e, ok := f.known.Load().all[id]
	if !ok || e.Deleting {
		return nil, false
	}
	return e, true
}

// GetAny is Get that also tells of a queue that is being deleted.
func (f *Follower) GetAny(id queue.ID) (*queue.Entry, bool) {
	e, ok := f.known.Load().all[id]
	return e, ok
}

// All are the queues there are, by id, without those that are being deleted.
func (f *Follower) All() []*queue.Entry {
	return slices.DeleteFunc(f.AllAny(), func(e *queue.Entry) bool { return e.Deleting })
}

// AllAny is All with those that are being deleted.
func (f *Follower) AllAny() []*queue.Entry { return slices.Clone(f.known.Load().order) }

// Version is that of the last record that was read; 0 where there never was one.
func (f *Follower) Version() int64 { return f.known.Load().version }

// Ready waits until everything has been read that was there at the start, and whoever watched before has been told. An error: ctx
// ended before, and why it takes so long if that is known.
func (f *Follower) Ready(ctx context.Context) error {
	select {
	case <-f.ready:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("reading the catalogue: %w", ctx.Err()), f.Trouble())
	}
}

// Seen waits until the record of that version has been read and told to all who watch.
func (f *Follower) Seen(ctx context.Context, version int64) error {
	if err := f.until(ctx, func(k *known) bool { return k.version >= version }); err != nil {
		return fmt.Errorf("waiting for version %d of the catalogue: %w", version, err)
	}
	return nil
}

// Gone waits until there is no queue called id, not even one that is being deleted, and all who watch were told.
func (f *Follower) Gone(ctx context.Context, id queue.ID) error {
	if err := f.until(ctx, func(k *known) bool { return k.all[id] == nil }); err != nil {
		return fmt.Errorf("waiting for queue %s to be gone from the catalogue: %w", id, err)
	}
	return nil
}

func (f *Follower) until(ctx context.Context, reached func(*known) bool) error {
	for {
		f.wait.Lock()
		moved := f.moved
		f.wait.Unlock()
		if reached(f.known.Load()) {
			f.mu.Lock() // it is told under this lock
			defer f.mu.Unlock()
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), f.Trouble())
		}
	}
}

// Trouble is what keeps the catalogue from being read, and doesn't pass by itself; nil otherwise. It is fit for a readiness check.
func (f *Follower) Trouble() error {
	f.wait.Lock()
	defer f.wait.Unlock()
	return f.trouble
}

// Watch calls fn for each queue there is, with before nil, and from then on for each change, after nil being the end of a queue. A queue
// that was deleted and made anew between two looks is told in two calls, the end first. Calls come in the order of the changes and never two
// at a time, with Get answering as after the change already; the next change waits for fn, so it doesn't take long, and it doesn't call Watch,
// Seen or Gone. It is called until Stop has returned.
func (f *Follower) Watch(fn func(before, after *queue.Entry)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watchers = append(f.watchers, fn)
	for _, e := range f.known.Load().order {
		fn(nil, e)
	}
}

func (f *Follower) run(ctx context.Context) {
	end := f.end(ctx)
	reader := f.source.NewReader()
	defer reader.Close()
	isReady := false
	for ctx.Err() == nil {
		if !isReady && end >= 0 && reader.Position() >= end {
			isReady = true
			close(f.ready)
		}
		records, err := reader.Next(ctx)
		if err != nil {
			if ctx.Err() == nil {
				f.logger.Error("the catalogue can't be read any further; the queues stay as they are known, and no change is obeyed", zap.Error(err))
				f.wait.Lock()
				f.trouble = err
				f.wait.Unlock()
			}
			return
		}
		f.apply(records)
	}
}

// askAgain is the pause after the brokers could not tell where the catalogue ends.
const askAgain = 200 * time.Millisecond

// end is where the catalogue ends now: the version that the next record may have; -1 when ctx ended before that was known.
func (f *Follower) end(ctx context.Context) int64 {
	for {
		end, err := f.source.CatalogEnd(ctx)
		if err == nil {
			return end
		}
		if lifecycle.Pause(ctx, askAgain) != nil {
			return -1
		}
	}
}

// change is one step of one queue.
type change struct{ before, after *queue.Entry }

func (f *Follower) apply(records []linelog.CatalogRecord) {
	if len(records) == 0 {
		return
	}
	was := f.known.Load()
	now := &known{version: was.version, all: maps.Clone(was.all)}
	var changes []change
	for _, r := range records {
		now.version = max(now.version, r.Version)
		before := now.all[r.ID]
		switch {
		case r.Err != nil:
			f.metrics.unreadable.Inc()
			f.logger.Error("an entry of the catalogue can't be read; its queue stays as it was known before",
				zap.String("queue", string(r.ID)), zap.Int64("version", r.Version), zap.Error(r.Err))
		case r.Entry == nil:
			delete(now.all, r.ID)
			if before != nil {
				changes = append(changes, change{before, nil})
			}
		default:
			after, altered := obeyed(r.Entry)
			if altered != nil {
				f.logger.Warn("settings of a queue are beyond what this version knows; they are obeyed as far as it does",
					zap.String("queue", string(r.ID)), zap.Int64("version", r.Version), zap.Error(altered))
			}
			now.all[r.ID] = after
			if before != nil && before.Made != after.Made {
				changes = append(changes, change{before, nil})
				before = nil
			}
			changes = append(changes, change{before, after})
		}
	}
	now.order = slices.SortedFunc(maps.Values(now.all), func(a, b *queue.Entry) int { return cmp.Compare(a.ID, b.ID) })

	f.mu.Lock()
	f.known.Store(now)
	for _, c := range changes {
		for _, tell := range f.watchers {
			tell(c.before, c.after)
		}
	}
	f.mu.Unlock()

	f.metrics.queues.Set(float64(len(now.all)))
	f.metrics.version.Set(float64(now.version))
	f.wait.Lock()
	close(f.moved)
	f.moved = make(chan struct{})
	f.wait.Unlock()
}
