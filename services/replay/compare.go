package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/follow"
)

// Kind is a way in which Redis and the log differ.
type Kind string

// The kinds of difference.
const (
	OtherTopic Kind = "built from another topic"
	Ahead      Kind = "further than the log"
	State      Kind = "served, epoch, rule, draw or end"
	Count      Kind = "number of people"
	Missing    Kind = "in the log and not in Redis"
	Extra      Kind = "in Redis and not in the log"
	Ticket     Kind = "another ticket"
	Key        Kind = "another idempotency key"
)

// maxExamples bounds how many differences of a kind are told one by one.
const maxExamples = 5

// Comparison says where Redis and the log differ.
type Comparison struct {
	Seq      queue.Ticket // where Redis was
	Behind   int64        // tickets that Redis had not applied; that is no difference
	Waiting  int64        // people who wait by the log, as of Seq
	Exact    bool         // Redis stood still while it was read; else who moved meanwhile was not compared; nobody, where lots were drawn meanwhile
	Counts   map[Kind]int64
	Examples []string // a few of each kind, fit to be shown
}

// Same says that nothing differs.
func (c *Comparison) Same() bool { return len(c.Counts) == 0 }

func (c *Comparison) differs(k Kind, format string, a ...any) {
	c.Counts[k]++
	if c.Counts[k] <= maxExamples {
		c.Examples = append(c.Examples, fmt.Sprintf(format, a...))
	}
}

// Compare folds the log to exactly where Redis is and finds what differs. Nothing is changed. Errors are those of reading
// either.
func Compare(ctx context.Context, log follow.Log, view View, id queue.ID, progress Progress) (*Comparison, error) {
	topic, err := log.Topic(ctx, id)
	if err != nil {
		return nil, err
	}
	snap, err := view.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	if snap.After.Seq < snap.Before.Seq {
		return nil, errors.New("the view in Redis went back in time while it was read (it is being rebuilt, or was restored); try again")
	}
	first, next, err := log.Bounds(ctx, id)
	if err != nil {
		return nil, err
	}
	c := &Comparison{Seq: snap.After.Seq, Behind: max(0, int64(next-1-snap.After.Seq)), Exact: snap.Quiet(), Counts: map[Kind]int64{}}
	switch {
	case snap.Topic != "" && snap.Topic != topic:
		c.differs(OtherTopic, "Redis was built from topic %s, and the log is topic %s", snap.Topic, topic)
		return c, nil
	case snap.After.Seq >= next:
		c.differs(Ahead, "Redis has applied ticket %d, and the log goes from ticket %d to %d", snap.After.Seq, first, next-1)
		return c, nil
	}
	folded := line.New()
	if err := follow.FoldOn(ctx, log, id, topic, folded, snap.Before.Seq, follow.FoldOptions{Progress: progress.tell(Reading)}); err != nil {
		return nil, err
	}
	c.moment(snap.Before, folded)
	before, draw := slices.Collect(folded.Waiting()), folded.State().Draw
	after := before
	if !c.Exact {
		if err := follow.FoldOn(ctx, log, id, topic, folded, snap.After.Seq, follow.FoldOptions{}); err != nil {
			return nil, err
		}
		c.moment(snap.After, folded)
		after = slices.Collect(folded.Waiting())
	}
	c.Waiting = int64(len(after))
	if folded.State().Draw == draw { // else everybody's ticket changed while they were read
		c.people(snap.People, before, after, snap.Before.Seq, snap.After.Seq)
	}
	return c, nil
}

func (c *Comparison) moment(m queue.Moment, l *line.Line) {
	if s := l.State(); m.State != s {
		c.differs(State, "at ticket %d Redis has %s; the log says %s at ticket %d", m.Seq, told(m.State), told(s), s.Seq)
	}
	if m.Total != l.Total() {
		c.differs(Count, "at ticket %d Redis counts %d who wait, and the log %d", m.Seq, m.Total, l.Total())
	}
}

func told(s queue.State) string {
	text := fmt.Sprintf("served %d, epoch %d, rule %s", s.Served, s.Epoch, s.Reentry)
	if d := s.Draw; d.At > 0 {
		text += fmt.Sprintf(", lots drawn at ticket %d", d.At)
	}
	if e := s.End; e.At > 0 {
		text += fmt.Sprintf(", ended at ticket %d (%s, over: %v)", e.At, e.Why, e.Over)
	}
	return text
}

// people compares who waits in Redis with who waits by the log before and after Redis was read. Who waits with the same ticket
// at both must be in Redis; who is in Redis waits at one of the two, or came and went between them.
func (c *Comparison) people(redis, before, after []queue.Waiting, from, to queue.Ticket) {
	type at struct{ before, after queue.Waiting }
	log := make(map[queue.Visitor]at, len(before))
	for _, w := range before {
		log[w.Visitor] = at{before: w, after: w}
	}
	if !c.Exact {
		for v, a := range log {
			a.after = queue.Waiting{}
			log[v] = a
		}
		for _, w := range after {
			a := log[w.Visitor]
			a.after = w
			log[w.Visitor] = a
		}
	}
	seen := make(map[queue.Visitor]bool, len(redis))
	for _, w := range redis {
		seen[w.Visitor] = true
		a, known := log[w.Visitor]
		moved := a.before.Ticket != a.after.Ticket || w.Ticket > from && w.Ticket <= to
		switch {
		case moved && !c.Exact:
		case !known:
			c.differs(Extra, "visitor %s waits in Redis with ticket %d, and not by the log", Hash(w.Visitor), w.Ticket)
		case w.Ticket != a.before.Ticket:
			c.differs(Ticket, "visitor %s has ticket %d in Redis and %d by the log", Hash(w.Visitor), w.Ticket, a.before.Ticket)
		case w.Key != a.before.Key:
			c.differs(Key, "visitor %s (ticket %d) has another idempotency key in Redis than by the log", Hash(w.Visitor), w.Ticket)
		}
	}
	for _, w := range after { // in ticket order, so that the examples are the same each time
		if a := log[w.Visitor]; !seen[w.Visitor] && a.before.Ticket == a.after.Ticket {
			c.differs(Missing, "visitor %s waits by the log with ticket %d, and not in Redis", Hash(w.Visitor), w.Ticket)
		}
	}
}
