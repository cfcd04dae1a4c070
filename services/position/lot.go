package position

import (
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// lot is what an answer knows of its queue's draw. A receipt may know of a draw that this node has not read yet: then at is set
// and the seed is not known.
type lot struct {
	draw queue.Draw   // the zero value where the seed is not known here
	at   queue.Ticket // the draw's record; 0: none, as far as is known
}

func lotOf(d queue.Draw, r pass.Receipt) lot { return lot{draw: d, at: max(d.At, r.Drawn)} }

// most is the highest number that the holder of r can have. A receipt that is not sure may be of an entry that took no place
// (a retransmission, or the rule keep), and then an earlier ticket counts: that is no matter in order of tickets, but its
// number can be any that was drawn.
func (l lot) most(r pass.Receipt) queue.Ticket {
	switch {
	case r.Ticket > l.at: // also where there was no draw
		return r.Ticket
	case l.draw.At == 0: // its seed is not known here
		return l.at
	case !l.draw.Drawn(r.Ticket):
		return r.Ticket
	case !r.Sure:
		return l.at
	}
	return l.draw.Number(r.Ticket)
}

// number is what counts in the place of an entered ticket; ok is false where that is the ticket itself, or is not known.
func (l lot) number(ticket queue.Ticket) (n queue.Ticket, ok bool) {
	if l.draw.At == 0 || !l.draw.Drawn(ticket) {
		return 0, false
	}
	return l.draw.Number(ticket), true
}

// told is how many were told to be ahead of the holder of r, where that still bounds what is: a draw puts those who take part
// into another order, and nobody in front of who comes after it.
func (l lot) told(r pass.Receipt, ticket queue.Ticket) int64 {
	if ticket <= l.at && r.Drawn != l.at {
		return queue.NoAhead
	}
	return r.Ahead
}
