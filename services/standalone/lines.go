package standalone

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/follow"
	"github.com/soonbeon/soonbeon/services/position"
)

// lines are what a process has of each queue in the catalogue: the reading of its log, and where its line is asked for. They come
// and go with the catalogue. It is a lifecycle.Service: Start returns when every log that is there has been read to its end.
//
//	catalogue ──a queue is made──▶ follower ──▶ told: projector, issuer
//	          ──it is deleted────▶ told: projector, issuer ──▶ follower stopped, what others keep of it forgotten
type lines struct {
	log     bounded
	follow  func(queue.ID) *follow.Follower
	asked   func(queue.ID, *follow.Follower) position.View
	silent  func(time.Time) time.Duration
	told    []func([]queue.ID) // who works on the queues, in the order in which they hear of new ones
	forget  []func(queue.ID)   // who keeps something of a queue
	timeout time.Duration
	logger  *zap.Logger

	loop    lifecycle.Loop
	current atomic.Pointer[map[queue.ID]*oneLine]

	mu      sync.Mutex
	wanted  map[queue.ID]int64 // what the catalogue has, by the version that it was made with
	changed chan struct{}      // holds one token when wanted has changed
}

// oneLine is what the process has of one queue.
type oneLine struct {
	made     int64
	follower *follow.Follower
	queue    position.Queue
}

func newLines(log bounded, timeout time.Duration, logger *zap.Logger) *lines {
	l := &lines{log: log, timeout: timeout, logger: logger, wanted: map[queue.ID]int64{}, changed: make(chan struct{}, 1)}
	l.current.Store(&map[queue.ID]*oneLine{})
	return l
}

// watch takes a change of the catalogue; it is quick, as catalog.Follower.Watch asks.
func (l *lines) watch(before, after *queue.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case after == nil:
		delete(l.wanted, before.ID)
	case after.Deleting:
		delete(l.wanted, after.ID)
	default:
		l.wanted[after.ID] = after.Made
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *lines) get(id queue.ID) *oneLine { return (*l.current.Load())[id] }

// followers are those of all queues.
func (l *lines) followers() map[queue.ID]*follow.Follower {
	out := map[queue.ID]*follow.Follower{}
	for id, one := range *l.current.Load() {
		out[id] = one.follower
	}
	return out
}

// follower of a queue; nil where there is none.
func (l *lines) follower(id queue.ID) *follow.Follower {
	if one := l.get(id); one != nil {
		return one.follower
	}
	return nil
}

// trouble is what keeps a queue's log from being followed and does not pass by itself; nil otherwise, also of a queue that is none.
func (l *lines) trouble(id queue.ID) error {
	if f := l.follower(id); f != nil {
		return trouble(f)
	}
	return nil
}

// grant tells what became of a visitor's latest admission.
func (l *lines) grant(id queue.ID, v queue.Visitor, now time.Time) (queue.Grant, line.GrantState) {
	if f := l.follower(id); f != nil {
		return f.Grant(v, now)
	}
	return queue.Grant{}, line.NoGrant
}

// ahead is where the holder of a ticket that was written a moment ago stands at most. It is near the truth where the log was read
// nearly as far: else many who were let in are counted. What was read of an earlier queue of this name says nothing.
func (l *lines) ahead(e *queue.Entry, t queue.Ticket) (most int64, near bool) {
	one := l.get(e.ID)
	if one == nil || one.made != e.Made {
		return int64(t), false
	}
	s := one.follower.State()
	most = int64(t - s.Served)
	return most, int64(t-1-s.Seq) <= max(1000, most/10) && one.follower.Trouble() == nil
}

// check is for readiness: it names the queues whose log can't be followed.
func (l *lines) check(context.Context) error {
	var errs []error
	for id, f := range l.followers() {
		if err := f.Trouble(); err != nil {
			errs = append(errs, fmt.Errorf("queue %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// Start begins with what the catalogue has, and waits until all of it was read.
func (l *lines) Start(ctx context.Context) error {
	if err := l.settle(ctx); err != nil {
		return err
	}
	if err := l.catchUp(ctx); err != nil {
		return errors.Join(err, l.stopAll(context.WithoutCancel(ctx)))
	}
	return l.loop.Start(func(ctx context.Context) {
		for {
			select {
			case <-ctx.Done():
				return
			case <-l.changed:
			}
			// Who makes a thousand queues makes them one after another; the consumer groups should not be shared out anew for each.
			if lifecycle.Pause(ctx, gather) != nil {
				return
			}
			if err := l.settle(ctx); err != nil && ctx.Err() == nil {
				l.logger.Error("a queue can't be followed", zap.Error(err))
			}
		}
	})
}

// gather is how long changes of the catalogue are collected before they are acted on.
const gather = 100 * time.Millisecond

// settle makes what the process has what the catalogue has.
func (l *lines) settle(ctx context.Context) error {
	l.mu.Lock()
	wanted := maps.Clone(l.wanted)
	l.mu.Unlock()
	now := maps.Clone(*l.current.Load())
	gone := map[queue.ID]*oneLine{}
	for id, one := range now {
		if made, ok := wanted[id]; !ok || made != one.made {
			gone[id] = one
			delete(now, id)
		}
	}
	if len(gone) > 0 { // whoever works on them stops first
		l.current.Store(ptr(maps.Clone(now)))
		l.tell()
		for id, one := range gone {
			if err := one.follower.Stop(ctx); err != nil {
				return fmt.Errorf("letting go of queue %s: %w", id, err)
			}
			for _, forget := range l.forget {
				forget(id)
			}
		}
	}
	var errs []error
	fresh := false
	for _, id := range slices.Sorted(maps.Keys(wanted)) {
		if now[id] != nil {
			continue
		}
		f := l.follow(id)
		if err := f.Start(ctx); err != nil {
			errs = append(errs, fmt.Errorf("queue %s: %w", id, err))
			continue
		}
		one := &oneLine{made: wanted[id], follower: f, queue: position.Queue{Reading: f, Silent: l.silent}}
		if l.asked != nil {
			one.queue.View = l.asked(id, f)
		}
		now[id], fresh = one, true
	}
	if fresh {
		l.current.Store(&now)
		l.tell()
	}
	return errors.Join(errs...)
}

func ptr[T any](v T) *T { return &v }

func (l *lines) tell() {
	ids := slices.Sorted(maps.Keys(*l.current.Load()))
	for _, tell := range l.told {
		tell(ids)
	}
}

// catchUpAtOnce is how many logs are waited for at once.
const catchUpAtOnce = 16

// catchUp waits until every log has been read to where it ends now.
func (l *lines) catchUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	todo := make(chan *follow.Follower)
	var workers sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for range catchUpAtOnce {
		workers.Go(func() {
			for f := range todo {
				if err := caughtUp(ctx, l.log, f); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	for _, f := range l.followers() {
		todo <- f
	}
	close(todo)
	workers.Wait()
	return errors.Join(errs...)
}

// Stop lets go of everything.
func (l *lines) Stop(ctx context.Context) error {
	return errors.Join(l.loop.Stop(ctx), l.stopAll(ctx))
}

func (l *lines) stopAll(ctx context.Context) error {
	var stopping sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, f := range l.followers() {
		stopping.Go(func() {
			if err := f.Stop(ctx); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	stopping.Wait()
	return errors.Join(errs...)
}
