package line

import (
	"slices"
	"sort"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// slots are the admissions that hold: one each, whoever has it and however often somebody was admitted. Admissions come in the
// order of their tickets, and nearly always in that of their ends: so two slices are enough, and a step costs next to nothing.
type slots struct {
	byTicket []slot
	byEnd    []slot // those before ended are done with
	ended    int
	held     int64 // of byTicket, those that are not gone
}

type slot struct {
	ticket queue.Ticket
	endsMs int64
	gone   bool // freed or ended; of byTicket only
}

func (s *slots) take(t queue.Ticket, endsMs int64) {
	s.byTicket = append(s.byTicket, slot{ticket: t, endsMs: endsMs})
	s.byEnd = append(s.byEnd, slot{ticket: t, endsMs: endsMs})
	for i := len(s.byEnd) - 1; i > s.ended && s.byEnd[i-1].endsMs > endsMs; i-- { // the grant TTL was shortened
		s.byEnd[i-1], s.byEnd[i] = s.byEnd[i], s.byEnd[i-1]
	}
	s.held++
}

// free says whether the admission of ticket t held until now.
func (s *slots) free(t queue.Ticket) bool {
	i := sort.Search(len(s.byTicket), func(i int) bool { return s.byTicket[i].ticket >= t })
	if i == len(s.byTicket) || s.byTicket[i].ticket != t || s.byTicket[i].gone {
		return false
	}
	s.byTicket[i].gone = true
	s.held--
	return true
}

// expire forgets the admissions that ended at nowMs or before.
func (s *slots) expire(nowMs int64) {
	for s.ended < len(s.byEnd) && s.byEnd[s.ended].endsMs <= nowMs {
		s.free(s.byEnd[s.ended].ticket)
		s.ended++
	}
	if s.ended > 1000 && s.ended > len(s.byEnd)/2 {
		s.byEnd = slices.Clone(s.byEnd[s.ended:])
		s.ended = 0
		s.byTicket = slices.DeleteFunc(s.byTicket, func(x slot) bool { return x.gone })
	}
}

func (s *slots) clone() slots {
	return slots{slices.Clone(s.byTicket), slices.Clone(s.byEnd), s.ended, s.held}
}

// Active is how many admissions hold at nowMs, Unix milliseconds: valid, not released, and not ended for leewayMs yet, which
// is for how long gates may still let somebody in by one. Time must not go back from one call to the next: what has
// ended once is forgotten.
func (l *Ledger) Active(nowMs, leewayMs int64) int64 {
	l.active.expire(nowMs - leewayMs)
	return l.active.held
}

// Holding is as Active, without leeway and without forgetting anything: for whoever has another clock, and only wants to look.
// It walks over all that hold.
func (l *Ledger) Holding(nowMs int64) (n int64) {
	for i := range l.active.byTicket {
		if s := &l.active.byTicket[i]; !s.gone && s.endsMs > nowMs {
			n++
		}
	}
	return n
}
