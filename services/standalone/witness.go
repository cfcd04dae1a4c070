package standalone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/follow"
)

// witness remembers, in a file of its own in the data folder, how far each queue's log had come. The embedded log checks its
// files for damage, but a file that is gone, or was cut at a whole record, is in itself a perfectly good log: only who has seen
// it longer can tell. It is a lifecycle.Service; Start refuses a log that is shorter than the witness saw, or another one.
type witness struct {
	file      string
	log       *linelog.Log
	followers map[queue.ID]*follow.Follower
	logger    *zap.Logger

	mu     sync.Mutex
	cancel context.CancelFunc
	once   sync.Once
	done   chan struct{}
	topics map[queue.ID]string
	last   map[queue.ID]seen // as it was written
}

// seen is what is remembered of one queue.
type seen struct {
	Topic  string       `json:"topic"`
	Seq    queue.Ticket `json:"seq"`
	Served queue.Ticket `json:"served"`
}

// witnessEvery is how often it is written, where anything changed: what a log loses at its end is noticed but for the
// records of the last moment.
const witnessEvery = time.Second

func newWitness(dir string, log *linelog.Log, followers map[queue.ID]*follow.Follower, logger *zap.Logger) *witness {
	return &witness{file: filepath.Join(dir, "witness.json"), log: log, followers: followers, logger: logger,
		done: make(chan struct{}), topics: map[queue.ID]string{}, last: map[queue.ID]seen{}}
}

// Start compares, once the followers have read the log to its end.
func (w *witness) Start(ctx context.Context) error {
	b, err := os.ReadFile(w.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading what the log's witness saw: %w", err)
	}
	if err == nil {
		if err := json.Unmarshal(b, &w.last); err != nil {
			return fmt.Errorf("%s can't be read (%w): if the log's files are known to be whole, remove it and start again", w.file, err)
		}
	}
	var errs []error
	for id, f := range w.followers {
		topic, err := w.log.Topic(ctx, id)
		if err != nil {
			return err
		}
		w.topics[id] = topic
		before, known := w.last[id]
		switch now := f.State(); {
		case !known:
		case before.Topic != topic:
			errs = append(errs, fmt.Errorf("queue %s: the log was made anew: its topic is %s, and %s was seen before, up to ticket %d", id, topic, before.Topic, before.Seq))
		case now.Seq < before.Seq:
			errs = append(errs, fmt.Errorf("queue %s: the log ends with ticket %d, and %d was there before: records %d to %d are gone, and everybody who entered by one of them",
				id, now.Seq, before.Seq, now.Seq+1, before.Seq))
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("%w\nput the files back from a copy; or, to go on with what is left and lose those people, remove %s (docs/runbook.md#witness)", errors.Join(errs...), w.file)
	}
	w.once.Do(func() {
		run, cancel := context.WithCancel(context.Background())
		w.mu.Lock()
		w.cancel = cancel
		w.mu.Unlock()
		go func() {
			defer close(w.done)
			tick := time.NewTicker(witnessEvery)
			defer tick.Stop()
			for {
				select {
				case <-run.Done():
					w.write()
					return
				case <-tick.C:
					w.write()
				}
			}
		}()
	})
	return nil
}

// write writes the file, whole or not at all, where anything changed.
func (w *witness) write() {
	now := map[queue.ID]seen{}
	changed := false
	for id, s := range w.last { // queues that this process does not serve are remembered too
		now[id] = s
	}
	for id, f := range w.followers {
		s := f.State()
		now[id] = seen{w.topics[id], s.Seq, s.Served}
		changed = changed || now[id] != w.last[id]
	}
	if !changed {
		return
	}
	b, err := json.Marshal(now)
	if err == nil {
		err = os.WriteFile(w.file+".new", append(b, '\n'), 0o600)
	}
	if err == nil {
		err = os.Rename(w.file+".new", w.file)
	}
	if err != nil {
		w.logger.Warn("the log's witness can't be written", zap.Error(err))
		return
	}
	w.last = now
}

// Stop writes it once more.
func (w *witness) Stop(ctx context.Context) error {
	w.once.Do(func() { close(w.done) })
	w.mu.Lock()
	if w.cancel != nil {
		w.cancel()
	}
	w.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
