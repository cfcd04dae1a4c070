package follow

import (
	"slices"
	"time"
)

// Waits is how long people in line have waited, in milliseconds and to about a second, so far: half of them no longer than P50, and so on. All
// are 0 where nobody waits.
type Waits struct{ P50, P90, P99 int64 }

// asked is how many people Waits looks at, evenly spread over the line.
const asked = 256

// Waits looks at some people in line, and says how long they have waited at now. Only of a Follower that keeps the line. It takes a tenth of a
// millisecond, whatever the line's length.
func (f *Follower) Waits(now time.Time) Waits {
	f.mu.RLock()
	draw, total := f.ledger.State().Draw, f.line.Total()
	ms := make([]int64, 0, asked)
	for i := range min(total, asked) {
		if t, ok := f.line.Nth(i * total / min(total, asked)); ok {
			ms = append(ms, max(1, now.UnixMilli()-f.times.of(draw.Ticket(t))))
		}
	}
	f.mu.RUnlock()
	if len(ms) == 0 {
		return Waits{}
	}
	slices.Sort(ms) // where lots were drawn, who is in front need not have come first
	at := func(percent int) int64 { return ms[(len(ms)*percent+99)/100-1] }
	return Waits{at(50), at(90), at(99)}
}
