package linelog

import (
	"sync"
	"time"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// lanes knows of each queue whether records wait and nothing moves. What is handed to franz-go and was sent can't be taken
// back, and what waits behind it is sent right after it, however old: so a queue that stands still is given no more.
type lanes struct {
	mu sync.Mutex
	of map[queue.ID]lane // only queues with waiting records
}

type lane struct {
	waiting int
	moved   time.Time // when the last record was done with, or the first one began to wait
}

func (l *lanes) begin(id queue.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	la, ok := l.of[id]
	if !ok {
		la.moved = time.Now()
	}
	la.waiting++
	l.of[id] = la
}

func (l *lanes) end(id queue.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	la := l.of[id]
	if la.waiting--; la.waiting <= 0 {
		delete(l.of, id)
		return
	}
	la.moved = time.Now()
	l.of[id] = la
}

// stalled says whether records wait and none was done with for longer than limit.
func (l *lanes) stalled(id queue.ID, limit time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	la, ok := l.of[id]
	return ok && time.Since(la.moved) >= limit
}
