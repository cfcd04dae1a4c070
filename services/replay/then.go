package replay

import (
	"context"
	"time"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/follow"
)

// Moment is where a replay ends: with the last record that the broker appended at At or before, or with Ticket. Exactly one
// of them is set.
type Moment struct {
	At     time.Time
	Ticket queue.Ticket
}

func (m Moment) takes(rec *queue.Record) bool {
	if m.Ticket > 0 {
		return rec.Ticket <= m.Ticket
	}
	return rec.AtMs <= m.At.UnixMilli()
}

// Past is a line as it was.
type Past struct {
	*line.Line
	At          time.Time     // of the last record that counts; zero where there is none
	First, Last queue.Waiting // of those who wait; zero where nobody does
}

// Then folds the log up to m, in memory: about 100 bytes for each who waits.
func Then(ctx context.Context, log follow.Log, id queue.ID, m Moment, progress Progress) (*Past, error) {
	folded, _, err := follow.Fold(ctx, log, id, follow.FoldOptions{To: m.takes, Progress: progress.tell(Reading)})
	if err != nil {
		return nil, err
	}
	p := &Past{Line: folded}
	if ms := folded.LastMs(); ms > 0 {
		p.At = time.UnixMilli(ms)
	}
	for w := range folded.Waiting() {
		if p.First.Ticket == 0 {
			p.First = w
		}
		p.Last = w
	}
	return p, nil
}

// Number is what counts in the place of ticket t: another where it had drawn a lot by then.
func (p *Past) Number(t queue.Ticket) queue.Ticket {
	d := p.State().Draw
	return d.Number(t)
}

// Holder finds who waits with ticket t, or with the number that it drew.
func (p *Past) Holder(t queue.Ticket) (queue.Visitor, bool) {
	n := p.Number(t)
	for w := range p.Waiting() {
		if w.Ticket == n {
			return w.Visitor, true
		}
	}
	return "", false
}
