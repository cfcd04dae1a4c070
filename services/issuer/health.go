package issuer

import (
	"sync"
	"time"
)

// The hysteresis of the breaker between the two modes.
const (
	failedAfter = 2 * time.Second  // the shared view counts as failed once it has failed for so long without a break
	mendedAfter = 10 * time.Second // and as mended once it has answered for so long without a break
	switchEvery = 30 * time.Second // and the leader does not return to it sooner than this after the last switch
)

// health is how the shared view does, as the leader sees it. A view that comes and goes every few seconds is left once and
// not returned to, so there is at most one switch in 30 s, unless the view that was returned to fails for good.
type health struct {
	mu       sync.Mutex
	failing  time.Time // since when it has failed without a break; zero while it does well
	well     time.Time // since when it has answered without a break; zero while it fails
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
	h.well = time.Time{}
	return first
}

// good notes that a question asked at at was answered.
func (h *health) good(at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.well.IsZero() {
		h.well = at
	}
	h.failing = time.Time{}
}

// failed says that the shared view should be left.
func (h *health) failed(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.failing.IsZero() && now.Sub(h.failing) >= failedAfter
}

// mended says that it may be returned to.
func (h *health) mended(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.well.IsZero() && now.Sub(h.well) >= mendedAfter && now.Sub(h.switched) >= switchEvery
}
