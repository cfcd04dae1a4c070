package line

import "github.com/soonbeon/soonbeon/pkg/queue"

// Leader is what a leader must remember to ask a view rightly: its epoch, the number of the batch that it asks for, the
// ticket of its own last record, and the people in its hands. It does no I/O, so that the service and the property test
// play the same rules:
//
//	       ┌────────────── empty ──────────────┐
//	       ▼                                   │
//	Ask(n) ──▶ view.Admit ──▶ Got ── handed ──▶ append Admitted, until acknowledged ──▶ Appended, of all ──▶ Ask(n)
//	       ▲                   │
//	       └─ reply lost, paced, behind: the same number again      fenced: claim anew, with a new Leader
//
// Who changes the view that it pops from claims anew as well: batch numbers are of one view, and one view must not take
// them for a sign that its own pops are in the log.
type Leader struct {
	epoch queue.Ticket
	last  queue.Ticket
	batch int64
	held  []queue.Person
}

// Lead starts the numbers of the claim whose record has the ticket epoch.
func Lead(epoch queue.Ticket) *Leader { return &Leader{epoch: epoch, last: epoch, batch: 1} }

// Epoch is the ticket of the leader's claim.
func (l *Leader) Epoch() queue.Ticket { return l.epoch }

// Last is the ticket of the leader's own last record: what a view must have met before the leader may turn to it.
func (l *Leader) Last() queue.Ticket { return l.last }

// Held are the people handed out and not yet acknowledged by the log. While there are any, nothing more may be asked.
func (l *Leader) Held() []queue.Person { return l.held }

// Ask is the request for at most n people. A reply that never came is asked for again by the same number.
func (l *Leader) Ask(n int) queue.Ask {
	return queue.Ask{Epoch: l.epoch, Batch: l.batch, AtLeast: l.last, N: n}
}

// Got takes the view's reply.
func (l *Leader) Got(people []queue.Person, why queue.Reason) {
	switch why {
	case queue.Handed:
		l.held = people
	case queue.Empty:
		l.batch++
	case queue.Paced, queue.Behind, queue.Fenced: // the number was not used
	}
}

// Appended takes the acknowledgement of the record that carried the first n of the people held. The number is used once all
// of them are in the log; a leader that dies before leaves the others pending in the view, and they are handed out again.
func (l *Leader) Appended(ticket queue.Ticket, n int) {
	l.last = ticket
	if l.held = l.held[n:]; len(l.held) == 0 {
		l.held = nil
		l.batch++
	}
}

// Changed takes the acknowledgement of a record of this leader's that changes who comes first: a draw, or the end of the
// line. It breaks the numbers, so that a view hands out nobody before it has met the record: pops run ahead of the
// projection otherwise, and would be of the order that is no more.
func (l *Leader) Changed(ticket queue.Ticket) {
	l.held = nil
	l.batch += 2
	l.last = ticket
}

// Room is how many more may be admitted when most may hold an admission at one time and active do, by a reading of the log
// that has come to seq. A reading that has not met the leader's own last record does not count: it can't know whom this
// leader admitted since. Nobody else can have admitted anybody: the leader has read up to its own claim.
func (l *Leader) Room(seq queue.Ticket, active, most int64) int {
	if most == 0 {
		return queue.MaxBatch
	}
	if seq < l.last {
		return 0
	}
	return int(min(max(most-active, 0), queue.MaxBatch))
}

// Noted takes the acknowledgement of another record of this leader's, such as a checkpoint.
func (l *Leader) Noted(ticket queue.Ticket) { l.last = ticket }
