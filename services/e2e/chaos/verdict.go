package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
	"github.com/soonbeon/soonbeon/services/audit"
	"github.com/soonbeon/soonbeon/services/e2e/book"
)

// verdict is what became of everything that was promised so far.
type verdict struct {
	acknowledged int
	fates        map[book.Fate]int // of the acknowledged tickets
	tokens       int               // different admissions that somebody held a token of
	left         int               // acknowledged departures
	answers      int               // places that were held against the log, in this round
	skipped      int               // answers about a ticket that another had replaced by then
	fastest      int
	twice        int64
	records      int
	claims       int
	quietTries   int
	digest       string
}

func (v *verdict) String() string {
	return fmt.Sprintf("%d acknowledged entries: %d admitted, %d waiting, %d moved back, %d absorbed, %d repeated, %d left, %d ended or refused; %d tokens, %d departures; "+
		"%d places held against the log; %d in the fastest second; %d records, %d claims; digest %.12s",
		v.acknowledged, v.fates[book.Admitted], v.fates[book.Waits], v.fates[book.MovedBack], v.fates[book.Absorbed], v.fates[book.Repeated],
		v.fates[book.Left], v.fates[book.Ended]+v.fates[book.Refused], v.tokens, v.left, v.answers, v.fastest, v.records, v.claims, v.digest)
}

// judge compares the log, Redis, and what the crowd was told. Everything must be mended. It holds the crowd meanwhile.
type judge struct {
	f     *fleet
	c     *crowd
	truth *truth
}

// verdict returns what it found so far also with an error, which tells everything that is wrong.
func (j *judge) verdict(ctx context.Context) (*verdict, error) {
	defer j.c.still()()
	v := &verdict{}
	if err := j.c.settle(ctx, queue.Ticket(j.f.served(ctx))); err != nil {
		return v, err
	}
	snap, err := j.quiet(ctx, v)
	if err != nil {
		return v, err
	}
	recs, err := book.Read(ctx, j.f.log, queueID)
	if err != nil {
		return v, err
	}
	v.records = len(recs)
	var wrong []error
	note := func(err error) {
		if err != nil {
			wrong = append(wrong, err)
		}
	}

	// Log and Redis, at the ticket that Redis is at.
	at := int(snap.Before.Seq)
	if at > len(recs) {
		return v, fmt.Errorf("redis is at ticket %d and the log ends with %d", at, len(recs))
	}
	then, err := book.Of(recs[:at])
	note(err)
	v.digest = queue.Digest(snap.Before.State, slices.Values(snap.People))
	if d := then.Digest(); d != v.digest {
		note(fmt.Errorf("at ticket %d the log's digest is %s and Redis' is %s", at, d, v.digest))
	}

	// What people were promised.
	b, err := book.Of(recs)
	note(err)
	acks, entries, leaves := j.c.promised()
	v.acknowledged, v.tokens, v.claims, v.fastest = len(acks), len(entries), len(b.Claims), b.Fastest()
	v.fates, err = b.Accounts(acks, entries)
	note(err)
	for _, n := range leaves {
		v.left += n
	}
	note(departures(b, leaves))
	note(inOrder(entries))
	if limit := int(math.Ceil(float64(j.f.rate) * 1.1)); v.fastest > limit {
		note(fmt.Errorf("%d people in one second; at most %d are let in", v.fastest, limit))
	}
	answers, broken, n := j.c.takeTold()
	if n > 0 {
		note(fmt.Errorf("%d answers broke a promise: %s", n, strings.Join(broken, "; ")))
	}
	v.answers = len(answers)
	skipped, err := j.truth.hold(recs, answers)
	v.skipped = skipped
	note(err)

	source := audit.OfLog(j.f.log, queueID)
	defer source.Close()
	rep, err := audit.Run(ctx, audit.Config{Queue: queueID, Rate: float64(j.f.rate), Redis: j.f.view, Settle: 20 * time.Second}, source)
	note(err)
	if err == nil {
		v.twice = rep.Twice
		if rep.ExitCode() != audit.ExitOK {
			note(fmt.Errorf("the audit is not clean:\n%s", rep.Text()))
		}
	}
	return v, errors.Join(wrong...)
}

// quiet is a snapshot of Redis between two admissions, as soon as Redis has applied all that was in the log.
func (j *judge) quiet(ctx context.Context, v *verdict) (snap *redisline.Snapshot, err error) {
	_, next, err := j.f.log.Bounds(ctx, queueID)
	if err != nil {
		return nil, err
	}
	err = until(ctx, 60*time.Second, "Redis has applied the log", func() error {
		v.quietTries++
		if snap, err = j.f.view.Snapshot(ctx); err != nil {
			return err
		}
		if snap.Before.Seq < next-1 || !snap.Quiet() {
			return fmt.Errorf("it is at tickets %d to %d; the log was at %d", snap.Before.Seq, snap.After.Seq, next-1)
		}
		return nil
	})
	return snap, err
}

// departures holds acknowledged departures against the log.
func departures(b *book.Book, leaves map[queue.Visitor]int) error {
	missing := 0
	for v, n := range leaves {
		missing += max(0, n-b.Leaves[v])
	}
	if missing > 0 {
		return fmt.Errorf("%d departures were acknowledged and are in no record", missing)
	}
	return nil
}

// inOrder holds the entry tokens against each other: nobody was let in before somebody with a lower ticket.
func inOrder(entries []pass.Entry) error {
	slices.SortFunc(entries, func(a, b pass.Entry) int { return cmp.Compare(a.Ticket, b.Ticket) })
	for i := 1; i < len(entries); i++ {
		if a, b := entries[i-1], entries[i]; a.AdmittedMs > b.AdmittedMs {
			return fmt.Errorf("ticket %d was let in %d ms after ticket %d", a.Ticket, a.AdmittedMs-b.AdmittedMs, b.Ticket)
		}
	}
	return nil
}

// truth is the line as the log tells it, followed along with what people were told.
type truth struct {
	line *line.Line
	next int // record to be folded next
}

func newTruth() *truth { return &truth{line: line.New()} }

// hold takes answers that were received since the last call, and the whole log. Nobody gets in front of a person who waits,
// so the number ahead only falls along the log: an answer that was true of any moment up to its receipt is not below the
// number at its receipt (a draw gives everybody another place, and nobody is told one before it). Answers about a ticket that its visitor had replaced by then are skipped; their number is returned.
func (t *truth) hold(recs []queue.Record, answers []told) (skipped int, err error) {
	slices.SortFunc(answers, func(a, b told) int { return cmp.Compare(a.atMs, b.atMs) })
	below, example := 0, ""
	for _, a := range answers {
		from := t.next
		for t.next < len(recs) && recs[t.next].AtMs <= a.atMs {
			t.next++
		}
		for piece := range slices.Chunk(recs[from:t.next], queue.MaxBatch) {
			if !t.line.Apply(t.line.State().Seq, piece) {
				return skipped, errors.New("the line refuses records that follow")
			}
		}
		p, waits := t.line.Place(a.visitor)
		draw := t.line.State().Draw
		counts := draw.Ticket(p.Ticket) // what was entered with: it is what people are told, also where lots were drawn
		switch {
		case !waits || counts > a.ticket:
			skipped++
		case a.ahead < p.Ahead:
			if below++; below == 1 {
				example = fmt.Sprintf("with ticket %d (it is %d that counts) %d ahead were told (exact: %v), and they are %d at ticket %d of the log",
					a.ticket, counts, a.ahead, a.exact, p.Ahead, t.line.State().Seq)
			}
		}
	}
	if below > 0 {
		return skipped, fmt.Errorf("%d answers told less than the truth: %s", below, example)
	}
	return skipped, nil
}
