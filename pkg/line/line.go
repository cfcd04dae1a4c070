package line

import (
	"iter"
	"maps"
	"slices"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Line is one view of a queue's line.
type Line struct {
	Ledger
	line    map[queue.Visitor]queue.Ticket
	index   index
	keys    map[queue.Visitor]string // of those who sent one and wait by the log
	pending map[queue.Visitor]*pending
	gone    int // of pending, those that no longer stand

	fence queue.Ticket // the highest epoch that asked to pop,
	batch int64        // and its latest batch
}

// pending is a pop that the log has not confirmed yet.
type pending struct {
	ticket queue.Ticket
	batch  int64
	stands bool // by the log the visitor still waits with this ticket
}

// New returns the line of an empty log.
func New() *Line {
	return &Line{
		Ledger:  *NewLedger(),
		line:    map[queue.Visitor]queue.Ticket{},
		keys:    map[queue.Visitor]string{},
		pending: map[queue.Visitor]*pending{},
	}
}

// Apply folds recs if they follow what was applied; otherwise nothing changes and the caller reads on from State().Seq.
func (l *Line) Apply(follows queue.Ticket, recs []queue.Record) bool {
	if !l.fits(follows, recs) {
		return false
	}
	for i := range recs {
		l.fold(&recs[i])
	}
	return true
}

func (l *Line) fold(rec *queue.Record) {
	admitted := l.step(rec)
	switch rec.Kind {
	case queue.Drawn:
		if l.state.Draw.At == rec.Ticket {
			l.draw()
		}
	case queue.Ended:
		if l.state.End.At == rec.Ticket {
			l.clear()
		}
	case queue.Entered:
		l.enter(rec)
	case queue.Left:
		l.leave(rec.Visitor)
		delete(l.keys, rec.Visitor)
		l.fall(rec.Visitor)
	case queue.Admitted:
		for _, p := range admitted {
			l.out(p.Visitor) // absorbs whatever the visitor entered before this record
		}
		for v, p := range l.pending {
			if p.ticket > l.state.Served { // a pop whose record was void stays: its people are handed out again
				continue
			}
			if p.stands {
				l.out(v)
			} else {
				l.unpend(v)
			}
		}
	}
}

func (l *Line) enter(rec *queue.Record) {
	v := rec.Visitor
	if l.state.End.Over {
		l.counts.Refused++
		return
	}
	waits := l.waits(v)
	if waits && (l.state.Reentry == queue.Keep || rec.Key != "" && l.keys[v] == rec.Key) {
		l.counts.Repeated++
		return // keeps the place, or is a retransmission
	}
	l.counts.Entered++
	if waits {
		l.counts.Moved++
	}
	l.leave(v)
	l.line[v] = rec.Ticket
	l.index.add(rec.Ticket, v)
	if rec.Key != "" {
		l.keys[v] = rec.Key
	} else {
		delete(l.keys, v)
	}
	l.fall(v)
}

// draw gives everybody who waits the number drawn in the place of the ticket. Who was popped from here and is not admitted
// yet draws as well, and the numbers of the batches are broken: what was popped is not what comes first any more.
func (l *Line) draw() {
	var all []queue.Person
	for w := range l.Waiting() {
		all = append(all, queue.Person{Visitor: w.Visitor, Ticket: l.state.Draw.Number(w.Ticket)})
	}
	slices.SortFunc(all, func(a, b queue.Person) int { return int(a.Ticket - b.Ticket) })
	l.index = index{}
	for _, p := range all {
		l.line[p.Visitor] = p.Ticket
		l.index.add(p.Ticket, p.Visitor)
	}
	clear(l.pending)
	l.gone, l.fence, l.batch = 0, 0, 0
}

// clear sends everybody away who waits.
func (l *Line) clear() {
	l.index = index{}
	clear(l.line)
	clear(l.keys)
	clear(l.pending)
	l.gone = 0
}

// waits says whether v waits by the log: in line, or popped from here with nothing in the log since.
func (l *Line) waits(v queue.Visitor) bool {
	if _, ok := l.line[v]; ok {
		return true
	}
	p, ok := l.pending[v]
	return ok && p.stands
}

func (l *Line) leave(v queue.Visitor) {
	if t, ok := l.line[v]; ok {
		delete(l.line, v)
		l.index.remove(t)
	}
}

// fall ends the standing of a pop: the visitor refreshed or left while being admitted.
func (l *Line) fall(v queue.Visitor) {
	if p, ok := l.pending[v]; ok && p.stands {
		p.stands = false
		l.gone++
	}
}

func (l *Line) unpend(v queue.Visitor) {
	if p, ok := l.pending[v]; ok {
		if !p.stands {
			l.gone--
		}
		delete(l.pending, v)
	}
}

func (l *Line) out(v queue.Visitor) {
	l.leave(v)
	l.unpend(v)
	delete(l.keys, v)
}

// Admit hands out the next batch to the leader of ask.Epoch, at most ask.N people in ticket order, or says why nobody.
// The same batch asked for again is the same people. Where the numbers are broken (a new leader, or a view that went
// back in time) the view must first have met the asker's own last record; what is pending then is in no log and is handed
// out again, first. The pops are provisional: who is handed out is admitted by the record that the leader appends.
func (l *Line) Admit(ask queue.Ask) ([]queue.Person, queue.Reason) {
	if ask.Epoch < max(l.fence, l.state.Epoch) {
		return nil, queue.Fenced
	}
	if ask.Epoch != l.fence || ask.Batch != l.batch { // else the reply was lost: the same people again
		unbroken := ask.Epoch == l.fence && ask.Batch == l.batch+1
		if !unbroken && l.state.Seq < ask.AtLeast {
			return nil, queue.Behind
		}
		l.fence, l.batch = ask.Epoch, ask.Batch
		if !unbroken && len(l.pending) > 0 {
			for _, p := range l.pending {
				p.batch = ask.Batch
			}
		} else {
			l.pop(ask.N, ask.Batch)
		}
	}
	var out []queue.Person
	for v, p := range l.pending {
		if p.batch == ask.Batch {
			out = append(out, queue.Person{Visitor: v, Ticket: p.ticket})
		}
	}
	if len(out) == 0 {
		return nil, queue.Empty
	}
	slices.SortFunc(out, func(a, b queue.Person) int { return int(a.Ticket - b.Ticket) })
	return out, queue.Handed
}

func (l *Line) pop(n int, batch int64) {
	var heads []queue.Person
	l.index.ascend(func(t queue.Ticket, v queue.Visitor) bool {
		if len(heads) == n {
			return false
		}
		if _, ok := l.pending[v]; ok { // re-entered while being admitted: wait until the log says which came first
			return false
		}
		heads = append(heads, queue.Person{Visitor: v, Ticket: t})
		return true
	})
	for _, p := range heads {
		l.leave(p.Visitor)
		l.pending[p.Visitor] = &pending{ticket: p.Ticket, batch: batch, stands: true}
	}
}

// Head is the ticket, or the number drawn, of who comes first; ok is false where nobody waits.
func (l *Line) Head() (t queue.Ticket, ok bool) {
	l.index.ascend(func(first queue.Ticket, _ queue.Visitor) bool {
		t, ok = first, true
		return false
	})
	for _, p := range l.pending {
		if p.stands && (!ok || p.ticket < t) {
			t, ok = p.ticket, true
		}
	}
	return t, ok
}

// Total is how many wait by the log, those being admitted included.
func (l *Line) Total() int64 { return int64(l.index.len + len(l.pending) - l.gone) }

// Place finds a visitor who waits; ok is false for everybody else.
func (l *Line) Place(v queue.Visitor) (p queue.Place, ok bool) {
	if t, ok := l.line[v]; ok {
		return queue.Place{Ticket: t, Ahead: int64(l.index.rank(t) + len(l.pending) - l.gone)}, true
	}
	me, ok := l.pending[v]
	if !ok || !me.stands {
		return queue.Place{}, false
	}
	ahead := int64(0)
	for _, p := range l.pending {
		if p.stands && p.ticket < me.ticket {
			ahead++
		}
	}
	return queue.Place{Ticket: me.ticket, Ahead: ahead}, true
}

// Waiting yields everybody who waits by the log, in ticket order. The line must not change meanwhile.
func (l *Line) Waiting() iter.Seq[queue.Waiting] {
	return func(yield func(queue.Waiting) bool) {
		var popped []queue.Waiting
		for v, p := range l.pending {
			if p.stands {
				popped = append(popped, queue.Waiting{Visitor: v, Ticket: p.ticket, Key: l.keys[v]})
			}
		}
		slices.SortFunc(popped, func(a, b queue.Waiting) int { return int(a.Ticket - b.Ticket) })
		more := true
		l.index.ascend(func(t queue.Ticket, v queue.Visitor) bool {
			for more && len(popped) > 0 && popped[0].Ticket < t {
				more = yield(popped[0])
				popped = popped[1:]
			}
			more = more && yield(queue.Waiting{Visitor: v, Ticket: t, Key: l.keys[v]})
			return more
		})
		for i := 0; more && i < len(popped); i++ {
			more = yield(popped[i])
		}
	}
}

// Digest is the fingerprint of the line by the log: what was popped and not yet confirmed counts as waiting.
func (l *Line) Digest() string { return queue.Digest(l.state, l.Waiting()) }

// Clone copies the line, so that a moment of it can be kept.
func (l *Line) Clone() *Line {
	c := *l
	c.grants = maps.Clone(l.grants)
	c.expiry = slices.Clone(l.expiry)
	c.active = l.active.clone()
	c.line = maps.Clone(l.line)
	c.keys = maps.Clone(l.keys)
	c.index = l.index.clone()
	c.pending = make(map[queue.Visitor]*pending, len(l.pending))
	for v, p := range l.pending {
		q := *p
		c.pending[v] = &q
	}
	return &c
}
