package line

import (
	"container/heap"
	"maps"
	"slices"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// slots are the admissions that hold: one each, whoever has it and however often somebody was admitted.
type slots struct {
	ends map[queue.Ticket]int64 // of those not freed, until when, Unix milliseconds
	next ending                 // a heap of them by that time, with some that were freed since
}

type slot struct {
	endsMs int64
	ticket queue.Ticket
}

// ending is a container/heap of slots.
type ending []slot

func (e ending) Len() int           { return len(e) }
func (e ending) Less(i, j int) bool { return e[i].endsMs < e[j].endsMs }
func (e ending) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ending) Push(x any)        { *e = append(*e, x.(slot)) }
func (e *ending) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

func (s *slots) take(t queue.Ticket, endsMs int64) {
	if s.ends == nil {
		s.ends = map[queue.Ticket]int64{}
	}
	s.ends[t] = endsMs
	heap.Push(&s.next, slot{endsMs, t})
}

func (s *slots) free(t queue.Ticket) bool {
	_, ok := s.ends[t]
	delete(s.ends, t)
	return ok
}

// expire forgets the admissions that ended at nowMs or before.
func (s *slots) expire(nowMs int64) {
	for len(s.next) > 0 && s.next[0].endsMs <= nowMs {
		delete(s.ends, heap.Pop(&s.next).(slot).ticket)
	}
}

func (s *slots) clone() slots { return slots{maps.Clone(s.ends), slices.Clone(s.next)} }

// Active is how many admissions hold at nowMs, Unix milliseconds: valid, not released, and not ended for leewayMs yet, which
// is for how long gates may still let somebody in by one. Time must not go back from one call to the next: what has
// ended once is forgotten.
func (l *Ledger) Active(nowMs, leewayMs int64) int64 {
	l.active.expire(nowMs - leewayMs)
	return int64(len(l.active.ends))
}

// Holding is as Active, without leeway and without forgetting anything: for whoever has another clock, and only wants to look.
// It walks over all that hold.
func (l *Ledger) Holding(nowMs int64) (n int64) {
	for _, endsMs := range l.active.ends {
		if endsMs > nowMs {
			n++
		}
	}
	return n
}
