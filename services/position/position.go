package position

import (
	"context"
	"errors"
	"time"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// View is where exact places come from: a Shared, or a follow.Follower that keeps the line.
type View interface {
	Place(ctx context.Context, v queue.Visitor) (queue.Moment, queue.Place, error)
}

// Reading is this node's own reading of the log; *follow.Follower has it.
type Reading interface {
	State() queue.State
	Fresh(now time.Time) queue.Ticket
	Grant(v queue.Visitor, now time.Time) (queue.Grant, line.GrantState)
	Rate(now time.Time, fullBatch int) (perSecond float64, ok bool)
	WaitFor(ctx context.Context, t queue.Ticket) error
}

// Queue is where one queue's answers come from. What its operators say is asked anew for each request.
type Queue struct {
	View    View
	Reading Reading
	// Silent is how long this node has not heard from the log's brokers; nil: always 0.
	Silent func(now time.Time) time.Duration
}

// state is what becomes of a visitor.
type state uint8

const (
	waiting state = iota
	admitted
	over
)

// answer is what one visitor is told. Tickets are those that were entered with; places, and what is served, are in the numbers
// that count, which where lots were drawn are others.
type answer struct {
	state  state
	grant  queue.Grant // admitted
	reason string      // over: expired, left, released, or why the line was ended
	ended  bool        // over, since the line was ended

	exact      bool
	ticket     queue.Ticket
	number     queue.Ticket // that was drawn; 0: none, or not known
	drawnAt    queue.Ticket // the draw's record; 0: none, as far as is known
	noPlace    bool         // exact: the entry took no place, since an earlier one counts
	unplaced   bool         // lots are still to be drawn, so that nobody can know
	ahead      int64        // not where unplaced
	total      int64        // exact only
	nowServing queue.Ticket
	eta        time.Duration
	etaKnown   bool
}

// errUntold says that nothing honest can be said at the moment.
var errUntold = errors.New("the place can't be told at the moment")

// goesOn is how long a wait is counted down while the log is silent.
const goesOn = 30 * time.Second

// catchUp bounds how long an answer waits for this node to read what the view has read already.
const catchUp = 300 * time.Millisecond

// ask finds out where the holder of r stands in the queue of e. It returns errUntold rather than a number that isn't so.
func (q *Queue) ask(ctx context.Context, r pass.Receipt, e *queue.Entry, now time.Time) (answer, error) {
	grant, gs := q.Reading.Grant(r.Visitor, now)
	if gs == line.Live {
		return answer{state: admitted, grant: grant}, nil
	}
	moment, place, err := q.View.Place(ctx, r.Visitor)
	s := q.Reading.State()
	// A view from before the draw tells an order that is no more.
	if err != nil || moment.Seq < max(r.Ticket, q.Reading.Fresh(now), s.Draw.At, r.Drawn) {
		return q.approximate(r, e, now)
	}
	if place.Ticket == 0 { // it does not wait: this node may just not have read yet why
		ctx, cancel := context.WithTimeout(ctx, catchUp)
		err := q.Reading.WaitFor(ctx, moment.Seq)
		cancel()
		s := q.Reading.State()
		grant, gs = q.Reading.Grant(r.Visitor, now)
		switch {
		case gs == line.Live:
			return answer{state: admitted, grant: grant}, nil
		case err != nil && !covers(grant, gs, s.Draw, r.Ticket):
			return answer{}, errUntold // not read yet, or only an admission from before this place
		}
		return ended(r, grant, gs, s), nil
	}
	if s.Draw.At == 0 { // the view may have read it first
		s.Draw = moment.Draw
	}
	l := lotOf(s.Draw, r)
	a := answer{exact: true, ticket: s.Draw.Ticket(place.Ticket), drawnAt: l.at, nowServing: max(moment.Served, s.Served), total: moment.Total}
	if s.Served >= place.Ticket { // this node has read on since it looked first
		if grant, gs = q.Reading.Grant(r.Visitor, now); gs == line.Live {
			return answer{state: admitted, grant: grant}, nil
		}
		if s.End.At >= a.ticket {
			return ended(r, grant, gs, s), nil
		}
	}
	a.noPlace = a.ticket < r.Ticket
	a.number, _ = l.number(a.ticket)
	if a.unplaced = unplaced(e, l); a.unplaced {
		return a, nil
	}
	// A view may be a moment older than the one asked before, or than the log that was told from, here or by another node. What
	// was told once bounds every later answer, since nobody gets in front; also where an earlier ticket than the receipt's is the
	// one that counts. And what this node has read bounds it too.
	last := queue.NoAhead
	if a.ticket <= r.Ticket {
		last = l.told(r, a.ticket)
	}
	a.ahead = min(place.Ahead, queue.AheadBound(place.Ticket, s.Served, last))
	a.total = max(a.total, a.ahead+1)
	if moves(e, now) {
		a.eta, a.etaKnown = q.wait(a.ahead, e, e.Settings.Rate, now)
	}
	return a, nil
}

// unplaced says that lots will be drawn in the queue of e, and were not yet: a place by ticket would mean nothing.
func unplaced(e *queue.Entry, l lot) bool { return e.Settings.Order == queue.ByDraw && l.at == 0 }

// moves says that people are let in, as far as operators say, so that a wait can be reckoned.
func moves(e *queue.Entry, now time.Time) bool {
	return !e.Paused && e.Settings.Opened(now.UnixMilli())
}

// wait reckons how long ahead people take, at most at atMost a second. ok is false where nobody can know: a queue that has
// reached its capacity and has let nobody in for a minute goes on when somebody comes out.
func (q *Queue) wait(ahead int64, e *queue.Entry, atMost float64, now time.Time) (time.Duration, bool) {
	full := int(e.Settings.PerBatch())
	if e.Settings.MaxActive > 0 {
		full = 0 // the capacity decides how many a batch has, and how long none comes
	}
	rate, ok := q.Reading.Rate(now, full)
	switch {
	case !ok && e.Settings.MaxActive > 0:
		return 0, false
	case !ok || rate > atMost:
		rate = atMost
	}
	return queue.Wait(ahead, rate)
}

// covers says that a grant is of the place of ticket, or of a later one of the same visitor, so that the place is no more.
func covers(g queue.Grant, gs line.GrantState, d queue.Draw, ticket queue.Ticket) bool {
	return gs != line.NoGrant && d.Ticket(g.Ticket) >= ticket
}

// lineEnded says that whoever entered with ticket and was not let in was sent away with everybody, or came when the line was
// over, as far as s was read.
func lineEnded(s queue.State, ticket queue.Ticket) bool {
	return ticket <= s.End.At || s.End.Over && ticket <= s.Seq
}

// ended tells why somebody does not wait any more, by a reading that knows why. Who was admitted too long ago to be remembered
// is below served. A grant that was over before the receipt was issued is of an earlier visit: since then its holder came again.
func ended(r pass.Receipt, grant queue.Grant, gs line.GrantState, s queue.State) answer {
	if !covers(grant, gs, s.Draw, r.Ticket) && grant.ExpiresMs <= r.IssuedMs {
		gs = line.NoGrant
	}
	switch {
	case gs == line.Released:
		return answer{state: over, reason: "released"}
	case gs == line.Expired:
		return answer{state: over, reason: "expired"}
	case lineEnded(s, r.Ticket): // and served says nothing: the end has raised it for everybody
		return answer{state: over, reason: s.End.Why, ended: true}
	case s.Draw.Number(r.Ticket) <= s.Served:
		return answer{state: over, reason: "expired"}
	}
	return answer{state: over, reason: "left"}
}

// approximate answers by the receipt and the log alone.
//
// A node that hears nothing from the log can't know whether others still let people through. The position stands still then:
// counting served on, as if they did, would tell people less than the truth where nobody is let through, and more again
// afterwards. Only the wait, which is said to be a reckoning, goes on, for goesOn at the most.
func (q *Queue) approximate(r pass.Receipt, e *queue.Entry, now time.Time) (answer, error) {
	// The state first: whoever it counts as served is in the grants that are read after it.
	s := q.Reading.State()
	grant, gs := q.Reading.Grant(r.Visitor, now)
	l := lotOf(s.Draw, r)
	most := l.most(r)
	switch {
	case gs == line.Live: // admitted while the view was asked
		return answer{state: admitted, grant: grant}, nil
	case covers(grant, gs, s.Draw, r.Ticket) || lineEnded(s, r.Ticket):
		return ended(r, grant, gs, s), nil
	case most <= s.Served:
		// Admitted long ago, or moved back by another entry: only a view of the line knows.
		return answer{}, errUntold
	}
	a := answer{ticket: r.Ticket, drawnAt: l.at, nowServing: s.Served, unplaced: unplaced(e, l)}
	if a.unplaced {
		return a, nil
	}
	if r.Sure {
		a.number, _ = l.number(r.Ticket)
	}
	last := l.told(r, r.Ticket)
	a.ahead = queue.RoundUp(e.Settings.Rounding, queue.AheadBound(most, s.Served, last))
	if last != queue.NoAhead {
		a.ahead = min(a.ahead, last)
	}
	if !moves(e, now) {
		return a, nil
	}
	if e.Settings.MaxActive > 0 {
		a.eta, a.etaKnown = q.wait(a.ahead, e, e.Settings.ConservativeRate, now)
	} else {
		a.eta, a.etaKnown = queue.Wait(a.ahead, e.Settings.ConservativeRate)
	}
	if q.Silent != nil && a.etaKnown {
		a.eta = max(a.eta-min(q.Silent(now), goesOn).Truncate(time.Second), min(a.eta, time.Second))
	}
	return a, nil
}
