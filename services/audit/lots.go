package audit

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// lot is what one entry drew.
type lot struct {
	number queue.Ticket
	entry  int32 // its index
}

// lots are those of the people who waited at the draw. The entries that follow it stand behind, in the order of their tickets.
type lots struct {
	all     []lot // by number
	head    int   // those before it are at or below served
	entries int   // how many entries came before the draw
	atMs    int64 // of the draw
}

// drawLots gives everybody who waits a number.
func (b *book) drawLots(rec *queue.Record) {
	switch {
	case !b.leads(rec.Epoch):
		b.voids(rec, 1)
		return
	case b.draw.At > 0 && rec.Seed == b.draw.Seed:
		b.findings.add(Repeated, rec, "draws the lots again that record %d had drawn", b.draw.At)
		return
	case b.draw.At > 0:
		b.findings.add(SecondDraw, rec, "draws lots, with another seed, after record %d had", b.draw.At)
		return
	}
	if b.admissions > 0 {
		b.findings.addN(BeforeDraw, b.admissions, rec, "draws lots, and %d had been let in by their tickets", b.admissions)
	}
	b.draw = queue.Draw{From: b.served, At: rec.Ticket, Seed: rec.Seed}
	b.lots.atMs, b.lots.entries, b.head = rec.AtMs, len(b.entries), len(b.entries)
	for i := range b.entries {
		if e := &b.entries[i]; e.fate == waiting {
			b.lots.all = append(b.lots.all, lot{b.draw.Number(e.ticket), int32(i)})
		}
	}
	slices.SortFunc(b.lots.all, func(a, b lot) int { return cmp.Compare(a.number, b.number) })
	b.sinceMs = rec.AtMs // whoever waited for the opening was not kept waiting by a pause
}

// name says what somebody was let in on: the ticket, and where lots were drawn the number.
func (b *book) name(n queue.Ticket) string {
	if !b.draw.Drawn(n) {
		return fmt.Sprintf("ticket %d", n)
	}
	return fmt.Sprintf("number %d (ticket %d)", n, b.draw.Ticket(n))
}

// judgeDraw fills in the draw.
func (r *Report) judgeDraw(cfg Config, b *book, f *findings) {
	if b.draw.At == 0 {
		return
	}
	r.Draw = &Draw{Record: b.draw.At, AtMs: b.lots.atMs, First: b.draw.From + 1, Last: b.draw.At, Seed: b.draw.Seed.String(),
		People: int64(len(b.lots.all)), Commitment: cfg.Commitment}
	if cfg.Commitment == "" {
		return
	}
	got := queue.Commitment(cfg.Queue, b.draw.Seed)
	ok := got == cfg.Commitment
	r.Draw.CommitmentOK = &ok
	if !ok {
		f.add(SeedDiffers, &queue.Record{Ticket: b.draw.At, AtMs: b.lots.atMs}, "draws with a seed whose commitment is %s; %s was published", got, cfg.Commitment)
	}
}
