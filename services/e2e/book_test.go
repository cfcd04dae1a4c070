package e2e

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/embedded"
	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// fate is what became of a ticket.
type fate uint8

const (
	noEntry fate = iota
	waits
	wasAdmitted
	movedBack // its visitor has a later ticket
	absorbed  // its visitor was admitted with an earlier ticket, by a record after this one
	repeated  // a retransmission: an earlier ticket of its visitor counts
	left
)

// batch is one valid Admitted record.
type batch struct {
	atMs   int64 // the broker's time
	people int
}

// book is the naive fold of a whole log, by maps and in the words of the design, so that it shares nothing with the
// implementations. It keeps every ticket's fate.
type book struct {
	state    queue.State
	line     map[queue.Visitor]queue.Waiting
	visitor  map[queue.Ticket]queue.Visitor // of every entry
	fates    map[queue.Ticket]fate
	admitted map[queue.Ticket]queue.Visitor
	entered  []queue.Ticket // in order; those before passed do not wait
	passed   int
	batches  []batch
	claims   []queue.Record
	wrong    []string // what no log of ours may hold
	fold     *line.Line
}

func readBook(t testing.TB, brokers []string, id queue.ID) *book {
	t.Helper()
	log, err := linelog.Open(linelog.Config{Brokers: brokers}, zap.NewNop(), nil)
	require.NoError(t, err)
	defer log.Close()
	b := &book{line: map[queue.Visitor]queue.Waiting{}, visitor: map[queue.Ticket]queue.Visitor{}, fates: map[queue.Ticket]fate{},
		admitted: map[queue.Ticket]queue.Visitor{}, fold: line.New()}
	recs := linelogtest.ReadAll(t, log, id, 0)
	for _, r := range recs {
		b.note(r)
	}
	for piece := range slices.Chunk(recs, queue.MaxBatch) {
		require.True(t, b.fold.Apply(b.fold.State().Seq, piece), "the line refuses records that follow")
	}
	require.Empty(t, b.wrong[:min(len(b.wrong), 10)], "%d things that no log may hold", len(b.wrong))
	require.Equal(t, b.digest(), b.fold.Digest(), "the naive book and the line in memory folded the same log")
	return b
}

// offline reads the log of a data folder that no process has.
func offline(t testing.TB, data string, id queue.ID) *book {
	t.Helper()
	broker, err := embedded.Start(data+"/log", embedded.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, broker.Close()) }()
	return readBook(t, broker.Addrs(), id)
}

func (b *book) note(r queue.Record) {
	n := r.Ticket
	b.state.Seq = n
	switch r.Kind {
	case queue.Entered:
		b.visitor[n] = r.Visitor
		old, in := b.line[r.Visitor]
		if in && (b.state.Reentry == queue.Keep || r.Key != "" && r.Key == old.Key) {
			b.fates[n] = repeated
			return
		}
		if in {
			b.fates[old.Ticket] = movedBack
		}
		b.line[r.Visitor] = queue.Waiting{Visitor: r.Visitor, Ticket: n, Key: r.Key}
		b.fates[n] = waits
		b.entered = append(b.entered, n)
	case queue.Left:
		if w, in := b.line[r.Visitor]; in {
			b.fates[w.Ticket] = left
			delete(b.line, r.Visitor)
		}
	case queue.Claimed:
		b.state.Epoch = n
		b.claims = append(b.claims, r)
	case queue.SettingsSet:
		b.state.Reentry = r.Reentry
	case queue.Admitted:
		b.admit(r)
	case queue.Skipped:
		b.wrong = append(b.wrong, fmt.Sprintf("record %d can't be read", n))
	case queue.Released, queue.Checkpoint:
	}
}

func (b *book) admit(r queue.Record) {
	if r.Epoch != b.state.Epoch {
		return // of a leader that did not lead any more
	}
	done := batch{atMs: r.AtMs}
	for _, p := range r.People {
		if p.Ticket <= b.state.Served {
			continue
		}
		b.state.Served = p.Ticket
		done.people++
		if b.visitor[p.Ticket] != p.Visitor {
			b.wrong = append(b.wrong, fmt.Sprintf("record %d admits somebody with ticket %d, which is another's", r.Ticket, p.Ticket))
		}
		b.admitted[p.Ticket] = p.Visitor
		if w, in := b.line[p.Visitor]; in {
			b.fates[w.Ticket] = absorbed
			delete(b.line, p.Visitor)
		}
		b.fates[p.Ticket] = wasAdmitted
	}
	if done.people > 0 {
		b.batches = append(b.batches, done)
	}
	// Nobody at or below served waits: whoever does was passed over, and would wait for ever.
	for ; b.passed < len(b.entered) && b.entered[b.passed] <= b.state.Served; b.passed++ {
		if n := b.entered[b.passed]; b.fates[n] == waits {
			b.wrong = append(b.wrong, fmt.Sprintf("record %d leaves ticket %d behind: served is %d", r.Ticket, n, b.state.Served))
		}
	}
}

// waiting is who waits, in ticket order.
func (b *book) waiting() []queue.Waiting {
	return slices.SortedFunc(maps.Values(b.line), func(a, c queue.Waiting) int { return int(a.Ticket - c.Ticket) })
}

func (b *book) digest() string {
	return queue.Digest(b.state, iter.Seq[queue.Waiting](slices.Values(b.waiting())))
}

// accounts requires that everybody who was told something finds it so in the log: the ticket is theirs and has a fate, and
// the entry token is of an admission.
func (b *book) accounts(t testing.TB, acks []ack, entries []pass.Entry) map[fate]int {
	t.Helper()
	fates := map[fate]int{}
	for _, a := range acks {
		require.Equal(t, a.Visitor, b.visitor[a.Ticket], "whose ticket %d is", a.Ticket)
		f := b.fates[a.Ticket]
		require.NotEqual(t, noEntry, f, "what became of ticket %d", a.Ticket)
		fates[f]++
	}
	for _, e := range entries {
		require.Equal(t, e.Visitor, b.admitted[e.Ticket], "who was admitted with ticket %d", e.Ticket)
	}
	return fates
}

// fastest is the most people in any one second, by the broker's clock.
func (b *book) fastest() int {
	most, sum, first := 0, 0, 0
	for _, last := range b.batches {
		sum += last.people
		for last.atMs-b.batches[first].atMs >= 1000 {
			sum -= b.batches[first].people
			first++
		}
		most = max(most, sum)
	}
	return most
}

// pausedAt is how long nobody was admitted around a moment.
func (b *book) pausedAt(at time.Time) time.Duration {
	i := slices.IndexFunc(b.batches, func(x batch) bool { return x.atMs > at.UnixMilli() })
	if i < 1 {
		return 0
	}
	return time.Duration(b.batches[i].atMs-b.batches[i-1].atMs) * time.Millisecond
}
