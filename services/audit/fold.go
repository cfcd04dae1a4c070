package audit

import (
	"slices"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// mark is a place in the log at which the fold is kept: after the last record that is not above ticket.
type mark struct {
	ticket queue.Ticket
	people bool // who waits too, not only the sums
}

// kept is the line as it was at a mark.
type keptLine struct {
	state  queue.State
	counts line.Counts
	total  int64
	digest string
	people []queue.Waiting // in ticket order
}

// folding is package line's fold, beside the book on another core.
type folding struct {
	sent  queue.Ticket // for the sender
	feed  chan []queue.Record
	done  chan struct{}
	line  *line.Line
	marks []mark
	at    map[mark]*keptLine
}

func startFold(marks []mark) *folding {
	slices.SortFunc(marks, func(a, b mark) int { return int(a.ticket - b.ticket) })
	f := &folding{feed: make(chan []queue.Record, 64), done: make(chan struct{}), line: line.New(), marks: marks, at: map[mark]*keptLine{}}
	go f.run()
	return f
}

// send hands records over; they are the fold's from then on, to read.
func (f *folding) send(recs []queue.Record) {
	if len(recs) > 0 {
		f.sent = recs[len(recs)-1].Ticket
		f.feed <- recs
	}
}

// end returns the line at each mark.
func (f *folding) end() map[mark]*keptLine {
	close(f.feed)
	<-f.done
	return f.at
}

func (f *folding) run() {
	defer close(f.done)
	for recs := range f.feed {
		for len(recs) > 0 {
			n := len(recs)
			if len(f.marks) > 0 {
				n, _ = slices.BinarySearchFunc(recs, f.marks[0].ticket+1, func(r queue.Record, t queue.Ticket) int { return int(r.Ticket - t) })
			}
			f.line.Apply(f.line.State().Seq, recs[:n]) // always fits: the book let only records in order through
			if recs = recs[n:]; len(recs) > 0 {
				f.keep()
			}
		}
	}
	for len(f.marks) > 0 {
		f.keep()
	}
}

func (f *folding) keep() {
	m := f.marks[0]
	f.marks = f.marks[1:]
	k := &keptLine{state: f.line.State(), counts: f.line.Counts(), total: f.line.Total()}
	if m.people {
		k.people = slices.Collect(f.line.Waiting())
		k.digest = queue.Digest(k.state, slices.Values(k.people))
	} else {
		k.digest = f.line.Digest()
	}
	f.at[m] = k
}

// compare finds where the book and the fold disagree about the end of the log.
func (b *book) compare(k *keptLine, r *Report, f *findings) {
	r.Digest = k.digest
	if b.trimmed {
		return // the fold takes an admission whose claim is gone for void; the book does not
	}
	differs := func(what string, mine, theirs any) {
		if mine != theirs {
			f.add(FoldDiffers, nil, "%s: %v by counting entries, %v by folding the line", what, mine, theirs)
		}
	}
	differs("last ticket", b.last, k.state.Seq)
	differs("served", b.served, k.state.Served)
	differs("epoch", b.epoch, k.state.Epoch)
	differs("re-entry rule", b.rule, k.state.Reentry)
	differs("draw", b.draw, k.state.Draw)
	differs("end", b.endState(), k.state.End)
	differs("waiting", b.fates[waiting], k.total)
	differs("admitted", r.Admitted, k.counts.Admitted)
	differs("void", b.void, k.counts.Void)
	differs("unreadable", b.skipped, k.counts.Skipped)
	differs("checkpoints that differ", b.differ, k.counts.Differs)
	differs("records", b.records, k.counts.Records)
	differs("digest", queue.Digest(b.state(), b.waitingNow()), k.digest)
}
