package load

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// schedule knows when each visitor acts next and hands whoever is due to the workers. A visitor is in the schedule or
// with one worker, never both, so nothing of a visitor needs a lock.
type schedule struct {
	mu      sync.Mutex
	due     dueHeap
	crowd   []visitor
	next    int // of the crowd, who comes next; only where people come as fast as they are let in
	kept    int // appointments kept in a row while newcomers stood outside
	living  int // who has not reached the end of its story
	changed chan struct{}
}

// newSchedule takes a crowd that arrives at rate people a second from start on; 0 is as fast as workers are free.
func newSchedule(crowd []visitor, rate float64, start time.Time) *schedule {
	s := &schedule{crowd: crowd, living: len(crowd), changed: make(chan struct{}, 1)}
	if rate <= 0 {
		return s
	}
	s.next = len(crowd)
	s.due = make(dueHeap, len(crowd))
	for i := range crowd {
		v := &crowd[i]
		v.due = start.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		v.intended = v.due
		s.due[i] = v // ascending, so it is a heap already
	}
	return s
}

// run hands out visitors until the last one has ended or ctx has, and then closes turns.
func (s *schedule) run(ctx context.Context, turns chan<- *visitor) {
	defer close(turns)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		v, wait, over := s.pick(time.Now())
		switch {
		case over:
			return
		case v != nil:
			select {
			case turns <- v:
			case <-ctx.Done():
				return
			}
		default:
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-s.changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

// fairness is how many appointments are kept before one newcomer is let in, when both are due. Appointments come
// first, but on a machine that can't keep them all, entering must still come to an end; the summary tells how late
// the appointments were.
const fairness = 4

// pick takes out who is due: first those with an appointment, then those who have not come yet. With nobody due, wait
// is how long it takes until somebody is.
func (s *schedule) pick(now time.Time) (v *visitor, wait time.Duration, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.living == 0 {
		return nil, 0, true
	}
	wait = time.Hour
	if len(s.due) > 0 {
		wait = s.due[0].due.Sub(now)
	}
	outside := s.next < len(s.crowd)
	switch {
	case wait <= 0 && (!outside || s.kept < fairness):
		s.kept++
		return heap.Pop(&s.due).(*visitor), 0, false
	case outside:
		v = &s.crowd[s.next]
		s.next++
		s.kept = 0
		v.due, v.intended = now, now
		return v, 0, false
	}
	return nil, wait, false
}

// later puts v back, to act at the given time.
func (s *schedule) later(v *visitor, at time.Time) {
	s.mu.Lock()
	v.due = at
	heap.Push(&s.due, v)
	first := s.due[0] == v
	s.mu.Unlock()
	if first {
		s.nudge()
	}
}

// end says that one more visitor has nothing left to do.
func (s *schedule) end() {
	s.mu.Lock()
	s.living--
	last := s.living == 0
	s.mu.Unlock()
	if last {
		s.nudge()
	}
}

func (s *schedule) nudge() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

type dueHeap []*visitor

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(v any)        { *h = append(*h, v.(*visitor)) }
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	v := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return v
}
