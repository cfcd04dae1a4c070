package standalone

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
	"github.com/soonbeon/soonbeon/services/catalog"
	"github.com/soonbeon/soonbeon/services/follow"
)

// bounded tells where a log ends; *linelog.Log does.
type bounded interface {
	Bounds(ctx context.Context, id queue.ID) (first, next queue.Ticket, err error)
}

// trouble is what keeps a log from being followed and does not pass by itself; nil otherwise.
func trouble(f *follow.Follower) error {
	var t *linelog.TroubleError
	if err := f.Trouble(); errors.As(err, &t) {
		return t
	}
	return nil
}

// askAgain is the pause after the brokers could not tell where the log ends.
const askAgain = 200 * time.Millisecond

// caughtUp waits until f has read its log to where it ends now.
func caughtUp(ctx context.Context, log bounded, f *follow.Follower) error {
	_, next, err := log.Bounds(ctx, f.ID())
	for err != nil { // a topic that was made a moment ago has no leader yet
		if lifecycle.Pause(ctx, askAgain) != nil {
			return err
		}
		_, next, err = log.Bounds(ctx, f.ID())
	}
	for {
		part, cancel := context.WithTimeout(ctx, askAgain)
		err := f.WaitFor(part, next-1)
		cancel()
		if err == nil {
			return nil
		}
		if trouble := trouble(f); trouble != nil {
			return trouble // does not pass: nobody has to wait for it
		}
		if err := ctx.Err(); err != nil {
			return errors.Join(fmt.Errorf("reading the log of queue %s up to ticket %d: %w", f.ID(), next-1, err), f.Trouble())
		}
	}
}

// opening waits until the catalogue has been read, and makes the queues that the command line names and the catalogue does not
// have. It is a lifecycle.Service of which only the start does anything.
type opening struct {
	catalog    *catalog.Follower
	editor     *catalog.Editor
	log        *linelog.Log
	named      []queue.ID // none: main, where there never was a queue
	settings   queue.Settings
	production bool
	timeout    time.Duration
	logger     *zap.Logger
}

// byStart is who made a queue that was named on the command line, in the record of changes.
const byStart = "start"

func (o *opening) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if err := o.catalog.Ready(ctx); err != nil {
		return err
	}
	named := o.named
	if len(named) == 0 && o.catalog.Version() == 0 {
		named = []queue.ID{"main"}
	}
	for _, id := range named {
		if e, ok := o.catalog.GetAny(id); ok {
			if wanted := o.settings; !wanted.Equal(queue.DefaultSettings()) && !wanted.Equal(e.Settings) {
				o.logger.Warn("the queue is in the catalogue, which is obeyed; the settings of the command line are for queues that are made. Change it by soonbeon queue set",
					zap.String("queue", string(id)), zap.Float64("rate", e.Settings.Rate))
			}
			continue
		}
		made, err := o.editor.Adopt(ctx, byStart, id, o.settings)
		if err != nil {
			return fmt.Errorf("making queue %s: %w", id, err)
		}
		if err := o.catalog.Seen(ctx, made.Version); err != nil {
			return err
		}
		o.logger.Info("made a queue", zap.String("queue", string(id)))
	}
	if !o.production {
		return nil
	}
	var ids []queue.ID
	for _, e := range o.catalog.All() {
		ids = append(ids, e.ID)
	}
	return errors.Join(o.log.CheckCatalogProduction(ctx), o.log.CheckProduction(ctx, ids...))
}

func (o *opening) Stop(context.Context) error { return nil }

// settingsWatch asks Redis again and again whether it may delete the line without a word.
type settingsWatch struct {
	rdb    redisline.Client
	logger *zap.Logger
	loop   lifecycle.Loop

	mu  sync.Mutex
	err error
}

// watchEvery is how often it is asked.
const watchEvery = 30 * time.Second

// first refuses a Redis that evicts. One that is away is no reason not to start: it is only a view.
func (w *settingsWatch) first(ctx context.Context) error {
	known, err := redisline.CheckSettings(ctx, w.rdb)
	switch {
	case errors.Is(err, redisline.ErrEviction):
		return err
	case err != nil:
		w.logger.Warn("Redis does not answer; starting without it", zap.Error(err))
	case !known:
		w.logger.Warn("Redis does not tell its maxmemory-policy; make sure that it is noeviction")
	}
	return nil
}

func (w *settingsWatch) Start(context.Context) error {
	return w.loop.Start(func(ctx context.Context) {
		for lifecycle.Pause(ctx, watchEvery) == nil {
			w.ask(ctx)
		}
	})
}

func (w *settingsWatch) ask(ctx context.Context) {
	_, err := redisline.CheckSettings(ctx, w.rdb)
	if errors.Is(err, redisline.ErrAway) {
		return // that it is away is others' to say
	}
	w.mu.Lock()
	changed := (err == nil) != (w.err == nil)
	w.err = err
	w.mu.Unlock()
	if changed && err != nil {
		w.logger.Error("Redis may delete the line without a word", zap.Error(err))
	}
}

func (w *settingsWatch) check(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *settingsWatch) Stop(ctx context.Context) error { return w.loop.Stop(ctx) }
