package issuer

import (
	"context"
	"sync"
	"time"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
)

// The hysteresis of the breaker between the two modes.
const (
	failedAfter = 2 * time.Second  // the shared view counts as failed once it has failed for so long without a break
	mendedAfter = 10 * time.Second // and as mended once it has answered for so long without a break
	switchEvery = 30 * time.Second // and the leader does not return to it sooner than this after the last switch
)

// health is how the shared view does, as the leader sees it: by its own questions, and by the watch that all leaders of the
// process share. A view that comes and goes every few seconds is left once and
// not returned to, so there is at most one switch in 30 s, unless the view that was returned to fails for good.
type health struct {
	watch *watch // nil: there is no shared view

	mu       sync.Mutex
	failing  time.Time // since when it has failed without a break; zero while it does well
	switched time.Time // the latest switch; written and read by the leader alone
}

// bad notes that a question asked at at failed. first is true when the one before did not.
func (h *health) bad(at time.Time) (first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first = h.failing.IsZero()
	if first {
		h.failing = at
	}
	return first
}

// good notes that a question was answered.
func (h *health) good() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failing = time.Time{}
}

// failed says that the shared view should be left. A leader to whom nobody came for an hour has asked nothing; the watch has.
func (h *health) failed(now time.Time) bool {
	failing, _ := h.watch.since()
	h.mu.Lock()
	defer h.mu.Unlock()
	long := func(since time.Time) bool { return !since.IsZero() && now.Sub(since) >= failedAfter }
	return long(h.failing) || long(failing)
}

// mended says that it may be returned to.
func (h *health) mended(now time.Time) bool {
	_, well := h.watch.since()
	h.mu.Lock()
	defer h.mu.Unlock()
	return !well.IsZero() && now.Sub(well) >= mendedAfter && now.Sub(h.switched) >= switchEvery
}

// watch asks for a sign of life of what holds the shared views, beside the ticks and once for all queues: one that hangs must
// not delay anybody, and a thousand queues need not ask a thousand times. It is a lifecycle.Service.
type watch struct {
	ping func(context.Context) error
	loop lifecycle.Loop

	mu            sync.Mutex
	failing, well time.Time // since when it has not answered, or has, without a break
}

// watchEvery is how often it is asked.
const watchEvery = 500 * time.Millisecond

func (w *watch) Start(context.Context) error {
	return w.loop.Start(func(ctx context.Context) {
		for {
			w.ask(ctx)
			if lifecycle.Pause(ctx, watchEvery) != nil {
				return
			}
		}
	})
}

func (w *watch) Stop(ctx context.Context) error { return w.loop.Stop(ctx) }

func (w *watch) ask(ctx context.Context) {
	began := time.Now()
	call, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	err := w.ping(call)
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil && w.failing.IsZero():
		w.failing, w.well = began, time.Time{}
	case err == nil && w.well.IsZero():
		w.failing, w.well = time.Time{}, began
	}
}

func (w *watch) since() (failing, well time.Time) {
	if w == nil {
		return time.Time{}, time.Time{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failing, w.well
}
