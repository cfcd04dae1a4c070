package standalone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
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
	followers func() map[queue.ID]*follow.Follower
	catalogue func() int64 // its version
	logger    *zap.Logger

	loop   lifecycle.Loop
	topics map[queue.ID]string
	of     map[queue.ID]*follow.Follower // whose topics they are
	last   map[queue.ID]seen             // as it was written
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

// theCatalogue is under which name the catalogue is remembered; no queue can have it.
const theCatalogue queue.ID = ".catalogue"

func newWitness(dir string, log *linelog.Log, followers func() map[queue.ID]*follow.Follower, catalogue func() int64, logger *zap.Logger) *witness {
	return &witness{file: witnessFile(dir), log: log, followers: followers, catalogue: catalogue, logger: logger, topics: map[queue.ID]string{}, of: map[queue.ID]*follow.Follower{}}
}

func witnessFile(dir string) string { return filepath.Join(dir, "witness.json") }

// readWitness returns what was seen, nothing where no witness was there yet.
func readWitness(file string) (map[queue.ID]seen, error) {
	last := map[queue.ID]seen{}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return last, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &last)
	}
	if err != nil {
		return nil, fmt.Errorf("reading what the log's witness saw: %w (if the log's files are known to be whole, remove %s)", err, file)
	}
	return last, nil
}

// Start compares, once the followers have read the log to its end.
func (w *witness) Start(ctx context.Context) error {
	var err error
	if w.last, err = readWitness(w.file); err != nil {
		return err
	}
	var errs []error
	if was, now := int64(w.last[theCatalogue].Seq), w.catalogue(); now < was {
		errs = append(errs, fmt.Errorf("the catalogue of queues ends with version %d, and %d was there before: what was changed since is gone", now, was))
	}
	for id, f := range w.followers() {
		topic, err := w.log.Topic(ctx, id)
		if err != nil {
			return err
		}
		w.topics[id], w.of[id] = topic, f
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
	return w.loop.Start(func(ctx context.Context) {
		for lifecycle.Pause(ctx, witnessEvery) == nil {
			w.write()
		}
		w.write()
	})
}

// write writes the file, whole or not at all, where anything changed.
func (w *witness) write() {
	now := map[queue.ID]seen{theCatalogue: {Seq: queue.Ticket(w.catalogue())}}
	changed := now[theCatalogue] != w.last[theCatalogue]
	for id, f := range w.followers() {
		if w.topics[id] == "" || w.of[id] != f { // made, or made anew, since the last look
			call, cancel := context.WithTimeout(context.Background(), witnessEvery)
			topic, err := w.log.Topic(call, id)
			cancel()
			if err != nil {
				continue
			}
			w.topics[id], w.of[id] = topic, f
		}
		s := f.State()
		now[id] = seen{w.topics[id], s.Seq, s.Served}
		changed = changed || now[id] != w.last[id]
	}
	changed = changed || len(now) != len(w.last) // one that was deleted is not missed
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
func (w *witness) Stop(ctx context.Context) error { return w.loop.Stop(ctx) }
