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
	"github.com/soonbeon/soonbeon/services/follow"
)

// bounded tells where a log ends; *linelog.Log does.
type bounded interface {
	Bounds(ctx context.Context, id queue.ID) (first, next queue.Ticket, err error)
}

// unhurried reads a log without asking for each record as it comes.
type unhurried struct{ *linelog.Log }

func (u unhurried) NewReader(id queue.ID, after queue.Ticket, topicID string) *linelog.Reader {
	return u.Log.NewReader(id, after, topicID).Unhurried()
}

// trouble is what keeps a log from being followed and does not pass by itself; nil otherwise.
func trouble(f *follow.Follower) error {
	var t *linelog.TroubleError
	if err := f.Trouble(); errors.As(err, &t) {
		return t
	}
	return nil
}

// caughtUp is a Service whose start waits until a follower has read the log to where it ended.
type caughtUp struct {
	id      queue.ID
	log     bounded
	f       *follow.Follower
	timeout time.Duration
}

// askAgain is the pause after the brokers could not tell where the log ends.
const askAgain = 200 * time.Millisecond

func (c *caughtUp) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	_, next, err := c.log.Bounds(ctx, c.id)
	for err != nil { // a topic that was made a moment ago has no leader yet
		select {
		case <-ctx.Done():
			return err
		case <-time.After(askAgain):
		}
		_, next, err = c.log.Bounds(ctx, c.id)
	}
	for {
		part, cancel := context.WithTimeout(ctx, askAgain)
		err := c.f.WaitFor(part, next-1)
		cancel()
		if err == nil {
			return nil
		}
		if trouble := trouble(c.f); trouble != nil {
			return trouble // does not pass: nobody has to wait for it
		}
		if err := ctx.Err(); err != nil {
			return errors.Join(fmt.Errorf("reading the log of queue %s up to ticket %d: %w", c.id, next-1, err), c.f.Trouble())
		}
	}
}

func (c *caughtUp) Stop(context.Context) error { return nil }

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
