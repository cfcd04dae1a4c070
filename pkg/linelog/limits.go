package linelog

import (
	"sync"
	"time"
)

// limits tells callers that wait that their time is over. Whoever begins within the same fiftieth of the limit shares one
// timer with the first of them: a timer for each of tens of thousands of records a second, which nearly never fires, costs
// more than handing the record over.
type limits struct {
	after time.Duration

	mu   sync.Mutex
	open time.Time // until when others join the latest
	late chan struct{}
}

// most is how long a wait can last.
func (l *limits) most() time.Duration { return l.after + l.after/50 }

// begin returns a channel that is closed when a wait that begins now has lasted for the limit, or up to a fiftieth more:
// not less, since by then a lane in which nothing moved has stalled, and whoever tries again is told so.
func (l *limits) begin(now time.Time) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.late == nil || now.After(l.open) {
		late := make(chan struct{})
		l.late, l.open = late, now.Add(l.after/50)
		time.AfterFunc(l.most(), func() { close(late) })
	}
	return l.late
}
