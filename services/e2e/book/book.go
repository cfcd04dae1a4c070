package book

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Fate is what became of a ticket.
type Fate uint8

// The fates of an entry.
const (
	NoEntry   Fate = iota // the ticket is no entry's
	Waits                 // its visitor waits with it
	Admitted              // its visitor was let in with it
	MovedBack             // its visitor has a later ticket
	Absorbed              // its visitor was admitted with an earlier ticket, by a record after this one
	Repeated              // a retransmission: an earlier ticket of its visitor counts
	Left                  // its visitor left
	Ended                 // its visitor waited when the line was ended
	Refused               // it came after the end, and took no place
)

// Batch is one valid Admitted record.
type Batch struct {
	AtMs   int64 // the broker's time, Unix milliseconds
	People int
}

// Ack is an acknowledged entry, as its visitor was told.
type Ack struct {
	Visitor queue.Visitor
	Ticket  queue.Ticket
}

// Book is a log, folded. Its maps are the reader's to look at and not to change.
type Book struct {
	State    queue.State
	Line     map[queue.Visitor]queue.Waiting // with the numbers that were drawn
	Visitor  map[queue.Ticket]queue.Visitor  // of every entry
	Fates    map[queue.Ticket]Fate           // of every entry
	Admitted map[queue.Ticket]queue.Visitor  // by valid records; by number, where lots were drawn
	Leaves   map[queue.Visitor]int           // records of leaving
	Batches  []Batch
	Claims   []queue.Record
	Wrong    []string // what no log of ours may hold

	entered []queue.Ticket // and numbers, in order; those before passed do not wait
	passed  int
}

// Read reads a queue's log from its first record to where it ends now. The error is that of the log, or of ctx.
func Read(ctx context.Context, log *linelog.Log, id queue.ID) ([]queue.Record, error) {
	first, next, err := log.Bounds(ctx, id)
	if err != nil {
		return nil, err
	}
	if first != 1 && first != next {
		return nil, fmt.Errorf("the log of queue %s begins at ticket %d", id, first)
	}
	r := log.NewReader(id, 0, "")
	defer r.Close()
	recs := make([]queue.Record, 0, next)
	for r.After()+1 < next {
		got, err := r.Next(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the log of queue %s after ticket %d of %d: %w", id, r.After(), next-1, err)
		}
		recs = append(recs, got...)
	}
	return recs, nil
}

// Of folds a whole log. The error tells what no log of ours may hold, or that package line folds it to something else.
func Of(recs []queue.Record) (*Book, error) {
	b := &Book{Line: map[queue.Visitor]queue.Waiting{}, Visitor: map[queue.Ticket]queue.Visitor{}, Fates: map[queue.Ticket]Fate{},
		Admitted: map[queue.Ticket]queue.Visitor{}, Leaves: map[queue.Visitor]int{}}
	fold := line.New()
	for _, r := range recs {
		b.note(r)
	}
	for piece := range slices.Chunk(recs, queue.MaxBatch) {
		if !fold.Apply(fold.State().Seq, piece) {
			return b, errors.New("the line refuses records that follow")
		}
	}
	if n := len(b.Wrong); n > 0 {
		return b, fmt.Errorf("%d things that no log may hold: %s", n, strings.Join(b.Wrong[:min(n, 10)], "; "))
	}
	if mine, theirs := b.Digest(), fold.Digest(); mine != theirs {
		return b, fmt.Errorf("the naive book folds the log to %s and the line in memory to %s", mine, theirs)
	}
	return b, nil
}

func (b *Book) note(r queue.Record) {
	n := r.Ticket
	b.State.Seq = n
	switch r.Kind {
	case queue.Entered:
		b.Visitor[n] = r.Visitor
		if b.State.End.Over {
			b.Fates[n] = Refused
			return
		}
		old, in := b.Line[r.Visitor]
		if in && (b.State.Reentry == queue.Keep || r.Key != "" && r.Key == old.Key) {
			b.Fates[n] = Repeated
			return
		}
		if in {
			b.Fates[b.ticket(old.Ticket)] = MovedBack
		}
		b.Line[r.Visitor] = queue.Waiting{Visitor: r.Visitor, Ticket: n, Key: r.Key}
		b.Fates[n] = Waits
		b.entered = append(b.entered, n)
	case queue.Left:
		b.Leaves[r.Visitor]++
		if w, in := b.Line[r.Visitor]; in {
			b.Fates[b.ticket(w.Ticket)] = Left
			delete(b.Line, r.Visitor)
		}
	case queue.Claimed:
		b.State.Epoch = n
		b.Claims = append(b.Claims, r)
	case queue.SettingsSet:
		b.State.Reentry = r.Reentry
	case queue.Admitted:
		b.admit(r)
	case queue.Drawn, queue.Ended, queue.Reopened:
		if r.Epoch == b.State.Epoch {
			b.day(r)
		}
	case queue.Skipped:
		b.Wrong = append(b.Wrong, fmt.Sprintf("record %d can't be read", n))
	case queue.Released, queue.Checkpoint:
	}
}

// ticket is the one that drew number n; n itself where none did.
func (b *Book) ticket(n queue.Ticket) queue.Ticket { return b.State.Draw.Ticket(n) }

// day takes a draw, and what ends and reopens the line.
func (b *Book) day(r queue.Record) {
	switch {
	case r.Kind == queue.Drawn && b.State.Draw.At == 0:
		b.State.Draw = queue.Draw{From: b.State.Served, At: r.Ticket, Seed: r.Seed}
		b.entered, b.passed = nil, 0
		for v, w := range b.Line {
			w.Ticket = b.State.Draw.Number(w.Ticket)
			b.Line[v] = w
			b.entered = append(b.entered, w.Ticket)
		}
		slices.Sort(b.entered)
	case r.Kind == queue.Ended:
		for _, w := range b.Line {
			b.Fates[b.ticket(w.Ticket)] = Ended
		}
		clear(b.Line)
		b.State.Served, b.State.End = r.Ticket, queue.End{At: r.Ticket, Why: r.Why, Over: true}
	case r.Kind == queue.Reopened:
		b.State.End.Over = false
	}
}

func (b *Book) admit(r queue.Record) {
	if r.Epoch != b.State.Epoch {
		return // of a leader that did not lead any more
	}
	done := Batch{AtMs: r.AtMs}
	for _, p := range r.People {
		if p.Ticket <= b.State.Served {
			continue
		}
		b.State.Served = p.Ticket
		done.People++
		if b.Visitor[b.ticket(p.Ticket)] != p.Visitor {
			b.Wrong = append(b.Wrong, fmt.Sprintf("record %d admits somebody with ticket %d, which is another's", r.Ticket, p.Ticket))
		}
		b.Admitted[p.Ticket] = p.Visitor
		if w, in := b.Line[p.Visitor]; in {
			b.Fates[b.ticket(w.Ticket)] = Absorbed
			delete(b.Line, p.Visitor)
		}
		b.Fates[b.ticket(p.Ticket)] = Admitted
	}
	if done.People > 0 {
		b.Batches = append(b.Batches, done)
	}
	// Nobody at or below served waits: whoever does was passed over, and would wait for ever.
	for ; b.passed < len(b.entered) && b.entered[b.passed] <= b.State.Served; b.passed++ {
		if n := b.entered[b.passed]; b.Fates[b.ticket(n)] == Waits {
			b.Wrong = append(b.Wrong, fmt.Sprintf("record %d leaves ticket %d behind: served is %d", r.Ticket, b.ticket(n), b.State.Served))
		}
	}
}

// Waiting is who waits, in ticket order.
func (b *Book) Waiting() []queue.Waiting {
	return slices.SortedFunc(maps.Values(b.Line), func(a, c queue.Waiting) int { return cmp.Compare(a.Ticket, c.Ticket) })
}

// Digest is the line's fingerprint.
func (b *Book) Digest() string {
	return queue.Digest(b.State, iter.Seq[queue.Waiting](slices.Values(b.Waiting())))
}

// Accounts holds what people were told against the log: each ticket is theirs and has a fate, each entry token is of an
// admission. It counts the fates; the error tells the first ten promises that the log doesn't keep, and how many there are.
func (b *Book) Accounts(acks []Ack, entries []pass.Entry) (map[Fate]int, error) {
	fates := map[Fate]int{}
	var broken []string
	for _, a := range acks {
		switch f := b.Fates[a.Ticket]; {
		case f == NoEntry:
			broken = append(broken, fmt.Sprintf("ticket %d was acknowledged and is no entry", a.Ticket))
		case b.Visitor[a.Ticket] != a.Visitor:
			broken = append(broken, fmt.Sprintf("ticket %d was acknowledged to one and is another's", a.Ticket))
		default:
			fates[f]++
		}
	}
	for _, e := range entries {
		if v, ok := b.Admitted[e.Ticket]; !ok || v != e.Visitor {
			broken = append(broken, fmt.Sprintf("an entry token of ticket %d was handed out, with which nobody, or another, was admitted", e.Ticket))
		}
	}
	if n := len(broken); n > 0 {
		return fates, fmt.Errorf("%d promises that the log doesn't keep: %s", n, strings.Join(broken[:min(n, 10)], "; "))
	}
	return fates, nil
}

// Fastest is the most people in any one second, by the broker's clock.
func (b *Book) Fastest() int {
	most, sum, first := 0, 0, 0
	for _, last := range b.Batches {
		sum += last.People
		for last.AtMs-b.Batches[first].AtMs >= 1000 {
			sum -= b.Batches[first].People
			first++
		}
		most = max(most, sum)
	}
	return most
}

// PausedAt is how long nobody was admitted around a moment; 0 where nobody was before it or after it.
func (b *Book) PausedAt(at time.Time) time.Duration {
	i := slices.IndexFunc(b.Batches, func(x Batch) bool { return x.AtMs > at.UnixMilli() })
	if i < 1 {
		return 0
	}
	return time.Duration(b.Batches[i].AtMs-b.Batches[i-1].AtMs) * time.Millisecond
}
