package audit

import "github.com/soonbeon/soonbeon/pkg/queue"

// endLine sends everybody away who waits; who enters takes no place until it is reopened.
func (b *book) endLine(rec *queue.Record) {
	if !b.leads(rec.Epoch) {
		b.voids(rec, 1)
		return
	}
	end := End{Record: rec.Ticket, AtMs: rec.AtMs, Why: rec.Why}
	for e := range b.upTo(rec.Ticket) {
		if e.fate == waiting {
			b.end(&b.people[e.who], ended)
			end.InLine++
		}
	}
	b.served, b.over = rec.Ticket, true
	b.ends = append(b.ends, end)
}

func (b *book) reopen(rec *queue.Record) {
	if !b.leads(rec.Epoch) {
		b.voids(rec, 1)
		return
	}
	if b.over {
		last := &b.ends[len(b.ends)-1]
		last.Reopened, last.ReopenedMs = rec.Ticket, rec.AtMs
	}
	b.over = false
}

func (b *book) endState() queue.End {
	if len(b.ends) == 0 {
		return queue.End{}
	}
	last := b.ends[len(b.ends)-1]
	return queue.End{At: last.Record, Why: last.Why, Over: b.over}
}

// endAfter is the record that ended the line in which an entry with this ticket waited; 0 where there is none.
func (b *book) endAfter(t queue.Ticket) queue.Ticket {
	for _, e := range b.ends {
		if e.Record > t {
			return e.Record
		}
	}
	return 0
}

// endBefore is the record that had ended the line when an entry with this ticket came; 0 where there is none.
func (b *book) endBefore(t queue.Ticket) (before queue.Ticket) {
	for _, e := range b.ends {
		if e.Record < t {
			before = e.Record
		}
	}
	return before
}
