package load

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// step is what a visitor does when its time comes.
type step uint8

const (
	entering   step = iota
	waiting         // asks for its position
	refreshing      // enters again, with its receipt
	rechecking      // was admitted, and asks once more
)

// visitor is one of the crowd. It belongs to the schedule or to one worker.
type visitor struct {
	due      time.Time // when it acts next
	intended time.Time // when it meant to enter
	number   int       // in this run, from 1
	step     step
	refresh  bool // enters a second time, after its first position
	recheck  bool
	loose    bool // an entry may have been written without our knowing, so an earlier ticket may count
	attempt  int  // in a row without a useful answer
	requests int  // so far, to use several targets in turn

	key      string // Idempotency-Key of the entry under way
	id       string
	receipt  string
	first    int64      // the ticket acknowledged first
	ticket   int64      // the ticket acknowledged last
	position int64      // the last one told since that ticket; 0: none yet
	entry    pass.Entry // once admitted
}

// What a visitor does who gets no useful answer.
const (
	firstPause  = 200 * time.Millisecond
	longPause   = 5 * time.Second
	maxRefusals = 8 // position answers that are neither a success nor a "try again", in a row
)

// recheckAfter is long enough for the other position nodes to have read what one of them already answered from.
const recheckAfter = time.Second

// play does what v is due to do, and puts it back into the schedule unless its story is over. After ctx it does
// nothing any more and counts nothing: an answer that we did not wait for says nothing.
func (r *run) play(ctx context.Context, v *visitor) {
	if r.cfg.Rate > 0 || v.step != entering || v.attempt > 0 {
		r.tally.late.Add(time.Since(v.due))
	}
	switch v.step {
	case entering, refreshing:
		r.enter(ctx, v)
	default:
		r.ask(ctx, v)
	}
}

type acknowledgement struct {
	Status       string `json:"status"`
	Queue        string `json:"queue"`
	Visitor      string `json:"visitor"`
	Ticket       int64  `json:"ticket"`
	Receipt      string `json:"receipt"`
	RetryAfterMs int64  `json:"retryAfterMs"`
}

func (r *run) enter(ctx context.Context, v *visitor) {
	again := v.step == refreshing
	if v.key == "" {
		v.key = queue.NewVisitor() // 128 random bits as visible ASCII are what a key is, too
	}
	a := r.client.enter(ctx, v.number+v.requests, v.key, v.receipt)
	v.requests++
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	if a.status == http.StatusOK && again {
		// Admitted in the meantime: its position says so, with the token.
		v.step, v.key, v.attempt = waiting, "", 0
		r.schedule.later(v, now)
		return
	}
	if a.status == http.StatusGone && a.code() == "queue_closed" {
		if v.loose && !again { // an earlier try may have been written, and nobody can tell now
			r.tally.failed("enter", a.kind())
		}
		if again { // it still has its place
			v.step, v.key, v.attempt = waiting, "", 0
			r.schedule.later(v, now.Add(firstPause))
			return
		}
		r.tally.count(&r.tally.closed)
		r.schedule.end()
		return
	}
	if a.status != http.StatusAccepted {
		r.tally.failed("enter", a.kind())
		v.loose = v.loose || a.lost()
		switch {
		case a.again():
			r.tryAgain(v, a, now)
		case again: // it still has its place
			v.step, v.key = waiting, ""
			r.schedule.later(v, now.Add(firstPause))
		default:
			r.tally.count(&r.tally.refused)
			r.schedule.end()
		}
		return
	}
	r.tally.enter.Add(a.took)
	r.tally.answered(func(p *moments) *rough { return &p.enter }, a.took)
	if r.cfg.Rate > 0 && !again {
		r.tally.enterIntended.Add(now.Sub(v.intended))
	}

	var ack acknowledgement
	if err := json.Unmarshal(a.body, &ack); err != nil || ack.Status != "accepted" || ack.Queue != r.cfg.Queue ||
		ack.Visitor == "" || ack.Ticket < 1 || ack.Receipt == "" || ack.RetryAfterMs < 1 {
		r.tally.breach(brokenAnswer, "visitor %d: a 202 without status, queue, visitor, ticket, receipt or retryAfterMs", v.number)
		if ack.Receipt == "" {
			r.tally.count(&r.tally.refused)
			r.schedule.end()
			return
		}
	}
	if again && ack.Visitor != v.id {
		r.tally.breach(brokenIdentity, "visitor %d entered again with its receipt and became somebody else (ticket %d)", v.number, ack.Ticket)
	}
	if err := r.checker.receipt(ack.Receipt, ack.Visitor, ack.Ticket); err != nil {
		r.tally.breach(brokenReceipt, "visitor %d, ticket %d: the receipt of its entry: %v", v.number, ack.Ticket, err)
	}
	v.id, v.receipt, v.ticket = ack.Visitor, ack.Receipt, ack.Ticket
	if !again {
		v.first = ack.Ticket
	}
	r.tally.acknowledge(v.number, v.id, v.ticket, again, now)
	v.step, v.key, v.attempt, v.position = waiting, "", 0, 0
	r.schedule.later(v, now.Add(afterMs(ack.RetryAfterMs)))
}

// place is an answer to "where am I". What may be left out is a pointer.
type place struct {
	State        string `json:"state"`
	Position     *int64 `json:"position"`
	Ahead        *int64 `json:"ahead"`
	Total        *int64 `json:"total"`
	Ticket       *int64 `json:"ticket"`
	Number       *int64 `json:"number"`
	Order        string `json:"order"`
	OpensIn      *int64 `json:"opensInSeconds"`
	ETA          *int64 `json:"etaSeconds"`
	Paused       bool   `json:"paused"`
	RetryAfterMs int64  `json:"retryAfterMs"`
	Precision    string `json:"precision"`
	Receipt      string `json:"receipt"`
	Token        string `json:"token"`
	ExpiresAt    string `json:"expiresAt"`
	Reason       string `json:"reason"`
}

func (r *run) ask(ctx context.Context, v *visitor) {
	sent := time.Now()
	a := r.client.position(ctx, v.number+v.requests, v.receipt)
	v.requests++
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	if a.status != http.StatusOK {
		r.tally.failed("position", a.kind())
		r.notTold(v, a, now)
		return
	}
	r.tally.position.Add(a.took)
	r.tally.answered(func(p *moments) *rough { return &p.position }, a.took)
	r.tally.count(&r.tally.polls)

	var p place
	if err := json.Unmarshal(a.body, &p); err != nil {
		p.State = ""
	}
	switch p.State {
	case "admitted":
		r.admitted(ctx, v, p, a, now)
	case "waiting":
		r.waits(ctx, v, p, sent, now)
	case "over":
		if v.step == rechecking {
			r.rechecked(v) // the grant may have ended meanwhile
			return
		}
		if EndedBy(p.Reason) {
			r.tally.end(p.Reason)
			r.schedule.end()
			return
		}
		r.lose(v, brokenLost, "visitor %d, ticket %d: the target says that its wait is over (%.20q), and it was never told to go in", v.number, v.ticket, p.Reason)
	default:
		r.tally.breach(brokenAnswer, "visitor %d, ticket %d: a position without a known state", v.number, v.ticket)
		r.notTold(v, a, now)
	}
}

// EndedBy says that a wait is over for a reason of the queue's operators, and not of the visitor's own.
func EndedBy(reason string) bool {
	switch reason {
	case "", "expired", "left", "released":
		return false
	}
	return queue.CheckWhy(reason) == nil
}

// notTold goes on after a position answer of no use.
func (r *run) notTold(v *visitor, a answer, now time.Time) {
	switch {
	case v.step == rechecking && v.attempt >= 3:
		r.schedule.end() // it is in; that it could not be asked again is in the list of errors
	case a.again():
		r.tryAgain(v, a, now)
	case a.status == http.StatusUnauthorized || a.status == http.StatusForbidden:
		r.tally.breach(brokenReceipt, "visitor %d, ticket %d: its receipt was answered with %s", v.number, v.ticket, a.kind())
		if v.step == rechecking {
			r.schedule.end()
			return
		}
		r.lose(v, brokenLost, "visitor %d, ticket %d: can't ask for its place any more, its receipt is refused", v.number, v.ticket)
	case v.attempt >= maxRefusals:
		r.lose(v, brokenLost, "visitor %d, ticket %d: %d answers in a row were of no use, the last was %s", v.number, v.ticket, v.attempt+1, a.kind())
	default:
		r.tryAgain(v, a, now)
	}
}

func (r *run) lose(v *visitor, invariant, format string, args ...any) {
	r.tally.breach(invariant, format, args...)
	r.tally.lose()
	r.schedule.end()
}

func (r *run) waits(ctx context.Context, v *visitor, p place, sent, now time.Time) {
	if v.step == rechecking {
		r.tally.breach(brokenAfter, "visitor %d, ticket %d: waits again after it was admitted", v.number, v.ticket)
		r.rechecked(v)
		return
	}
	if p.Precision == "approximate" {
		r.tally.toldApproximately()
	}
	r.checkPlace(v, p)
	number, known := r.number(ctx, v, p)
	if p.Receipt != "" {
		v.receipt = p.Receipt
	}
	v.attempt = 0
	if m, ok := r.tally.passedAt(number); ok && known && sent.Sub(m.at) >= r.cfg.Patience {
		r.lose(v, brokenPassed, "visitor %d still waits with %s, %v after %d was admitted",
			v.number, named(v.ticket, number), sent.Sub(m.at).Round(time.Millisecond), m.ticket)
		return
	}
	if v.refresh {
		v.refresh, v.step = false, refreshing
	}
	r.schedule.later(v, now.Add(afterMs(p.RetryAfterMs)))
}

// number is what counts in the place of v's ticket, where that can be known; it is checked where it was told.
func (r *run) number(ctx context.Context, v *visitor, p place) (n int64, known bool) {
	d, settled := r.lots.peek()
	if !settled && p.Number != nil { // lots were drawn, and nobody here has asked since
		d, settled = r.lots.drawn(ctx)
	}
	if !settled {
		return 0, false
	}
	ticket := v.ticket
	if p.Ticket != nil {
		ticket = *p.Ticket
	}
	if p.Number != nil {
		r.lots.check(d, v.number, ticket, *p.Number)
	}
	// Where an earlier ticket may count, its number is any.
	return int64(d.Number(queue.Ticket(ticket))), !v.loose || !d.Drawn(queue.Ticket(ticket))
}

func named(ticket, number int64) string {
	if ticket == number {
		return fmt.Sprintf("ticket %d", ticket)
	}
	return fmt.Sprintf("ticket %d (number %d)", ticket, number)
}

func (r *run) checkPlace(v *visitor, p place) {
	if p.RetryAfterMs < 1 {
		r.tally.breach(brokenAnswer, "visitor %d, ticket %d: told to wait, and not for how long (retryAfterMs)", v.number, v.ticket)
	}
	if p.Paused && p.ETA != nil {
		r.tally.breach(brokenAnswer, "visitor %d, ticket %d: told that the queue is paused, and how long the wait is", v.number, v.ticket)
	}
	if p.Position == nil && p.Order == queue.ByDraw.String() && p.OpensIn != nil {
		return // nobody has a place before the lots are drawn
	}
	if p.Position == nil {
		r.tally.breach(brokenAnswer, "visitor %d, ticket %d: told to wait, and not where (position)", v.number, v.ticket)
		return
	}
	at := *p.Position
	switch {
	case at < 1:
		r.tally.breach(brokenBounds, "visitor %d, ticket %d: position %d", v.number, v.ticket, at)
	case p.Ahead != nil && *p.Ahead != at-1:
		r.tally.breach(brokenBounds, "visitor %d, ticket %d: position %d with %d ahead", v.number, v.ticket, at, *p.Ahead)
	case p.Total != nil && *p.Total < at:
		r.tally.breach(brokenBounds, "visitor %d, ticket %d: position %d of %d", v.number, v.ticket, at, *p.Total)
	}
	if v.position > 0 && at > v.position {
		r.tally.breach(brokenRose, "visitor %d, ticket %d: from %d to %d", v.number, v.ticket, v.position, at)
	}
	v.position = at
	if p.Ticket != nil && *p.Ticket > v.ticket {
		r.tally.breach(brokenTicket, "visitor %d: ticket %d was acknowledged, and it waits with %d", v.number, v.ticket, *p.Ticket)
	}
}

func (r *run) admitted(ctx context.Context, v *visitor, p place, a answer, now time.Time) {
	e, err := r.checker.entry(p.Token, now)
	if err == nil && e.Visitor != v.id {
		err = errOtherVisitor
	}
	if err == nil {
		err = checkExpiry(p.ExpiresAt, e.ExpiresMs)
	}
	if v.step == rechecking {
		switch {
		case err != nil:
			r.tally.breach(brokenToken, "visitor %d, ticket %d, its second token: %v", v.number, v.ticket, err)
		case e.Ticket != v.entry.Ticket || e.AdmittedMs != v.entry.AdmittedMs:
			r.tally.breach(brokenTwice, "visitor %d was admitted for ticket %d, and %d ms later for ticket %d",
				v.number, v.entry.Ticket, e.AdmittedMs-v.entry.AdmittedMs, e.Ticket)
		}
		r.rechecked(v)
		return
	}
	if err != nil {
		r.lose(v, brokenToken, "visitor %d, ticket %d: %v", v.number, v.ticket, err)
		return
	}
	d, settled := r.lots.drawn(ctx)
	if ctx.Err() != nil {
		return
	}
	if !settled && v.attempt < maxRefusals { // a node that has not read of the draw yet
		r.tryAgain(v, a, now)
		return
	}
	if !settled && r.lots.promised() {
		r.tally.breach(brokenDraw, "visitor %d, ticket %d: let in, and the target shows no draw", v.number, v.ticket)
	}
	if d.Drawn(e.Ticket) && v.ticket <= int64(d.At) && !v.loose && v.first == v.ticket {
		r.lots.check(d, v.number, v.ticket, int64(e.Ticket))
	}
	if t := int64(d.Ticket(e.Ticket)); t != v.ticket && t != v.first && (!v.loose || t > v.ticket) {
		r.tally.breach(brokenTicket, "visitor %d: ticket %d was acknowledged, and it was admitted with %s", v.number, v.ticket, named(t, int64(e.Ticket)))
	}
	v.entry, v.attempt = e, 0
	r.tally.admit(admission{v.number, int64(e.Ticket), e.AdmittedMs}, now)
	// Who entered twice may rightly hold a second admission: its new entry can cross the old one's admission.
	if v.recheck && v.first == v.ticket && !v.loose {
		v.step = rechecking
		r.schedule.later(v, now.Add(recheckAfter))
		return
	}
	r.schedule.end()
}

func (r *run) rechecked(*visitor) {
	r.tally.count(&r.tally.rechecked)
	r.schedule.end()
}

// tryAgain puts v back for the same request: when the target said, or after a pause that doubles. Both are stretched
// by up to a tenth, lest everybody who was sent away together comes back together.
func (r *run) tryAgain(v *visitor, a answer, now time.Time) {
	pause := a.retryAfter
	if pause == 0 {
		pause = min(firstPause<<min(v.attempt, 10), longPause)
	}
	v.attempt++
	r.schedule.later(v, now.Add(pause+time.Duration(rand.Float64()*float64(pause)/10)))
}

// afterMs is when to ask again; what makes no sense becomes a second, as an old browser would.
func afterMs(ms int64) time.Duration {
	if ms < 1 || ms > time.Hour.Milliseconds() {
		return time.Second
	}
	return time.Duration(ms) * time.Millisecond
}
