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

// Queue is what this service needs of one queue.
type Queue struct {
	Settings queue.Settings
	View     View
	Reading  Reading
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

// answer is what one visitor is told.
type answer struct {
	state  state
	grant  queue.Grant // admitted
	reason string      // over: expired, left, released

	exact      bool
	ticket     queue.Ticket
	ahead      int64
	total      int64 // exact only
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

// ask finds out where the holder of r stands. It returns errUntold rather than a number that isn't so.
func (q *Queue) ask(ctx context.Context, r pass.Receipt, now time.Time) (answer, error) {
	grant, gs := q.Reading.Grant(r.Visitor, now)
	if gs == line.Live {
		return answer{state: admitted, grant: grant}, nil
	}
	moment, place, err := q.View.Place(ctx, r.Visitor)
	if err != nil || moment.Seq < r.Ticket || moment.Seq < q.Reading.Fresh(now) {
		return q.approximate(r, now)
	}
	if place.Ticket == 0 { // it does not wait: this node may just not have read yet why
		ctx, cancel := context.WithTimeout(ctx, catchUp)
		err := q.Reading.WaitFor(ctx, moment.Seq)
		cancel()
		grant, gs = q.Reading.Grant(r.Visitor, now)
		switch {
		case gs == line.Live:
			return answer{state: admitted, grant: grant}, nil
		case err != nil && (gs == line.NoGrant || grant.Ticket < r.Ticket):
			return answer{}, errUntold // not read yet, or only an admission from before this place
		}
		return ended(r, grant, gs, moment.Served), nil
	}
	s := q.Reading.State()
	if s.Served >= place.Ticket { // this node has read on since it looked first
		if grant, gs = q.Reading.Grant(r.Visitor, now); gs == line.Live {
			return answer{state: admitted, grant: grant}, nil
		}
	}
	// A view may be a moment older than the one asked before, or than the log that was told from, here or by another node. What
	// was told once bounds every later answer, since nobody gets in front; also where an earlier ticket than the receipt's is the
	// one that counts. And what this node has read bounds it too.
	last := queue.NoAhead
	if place.Ticket <= r.Ticket {
		last = r.Ahead
	}
	a := answer{exact: true, ticket: place.Ticket, nowServing: max(moment.Served, s.Served),
		ahead: min(place.Ahead, queue.AheadBound(place.Ticket, s.Served, last))}
	a.total = max(moment.Total, a.ahead+1)
	rate, ok := q.Reading.Rate(now, int(q.Settings.PerBatch()))
	if !ok || rate > q.Settings.Rate {
		rate = q.Settings.Rate
	}
	a.eta, a.etaKnown = queue.Wait(a.ahead, rate)
	return a, nil
}

// ended tells why somebody does not wait any more. Who was admitted too long ago to be remembered is below served. A grant
// that was over before the receipt was issued is of an earlier visit: since then its holder came again.
func ended(r pass.Receipt, grant queue.Grant, gs line.GrantState, served queue.Ticket) answer {
	if gs != line.NoGrant && grant.Ticket < r.Ticket && grant.ExpiresMs <= r.IssuedMs {
		gs = line.NoGrant
	}
	switch {
	case gs == line.Released:
		return answer{state: over, reason: "released"}
	case gs == line.Expired || r.Ticket <= served:
		return answer{state: over, reason: "expired"}
	}
	return answer{state: over, reason: "left"}
}

// approximate answers by the receipt and the log alone.
//
// A node that hears nothing from the log can't know whether others still let people through. The position stands still then:
// counting served on, as if they did, would tell people less than the truth where nobody is let through, and more again
// afterwards. Only the wait, which is said to be a reckoning, goes on, for goesOn at the most.
func (q *Queue) approximate(r pass.Receipt, now time.Time) (answer, error) {
	// The state first: whoever it counts as served is in the grants that are read after it.
	s := q.Reading.State()
	grant, gs := q.Reading.Grant(r.Visitor, now)
	if gs == line.Live { // admitted while the view was asked
		return answer{state: admitted, grant: grant}, nil
	}
	if r.Ticket <= s.Served {
		if gs != line.NoGrant && grant.Ticket >= r.Ticket {
			return ended(r, grant, gs, s.Served), nil
		}
		// Admitted long ago, or moved back by another entry: only a view of the line knows.
		return answer{}, errUntold
	}
	a := answer{ticket: r.Ticket, ahead: queue.AheadBound(r.Ticket, s.Served, r.Ahead), nowServing: s.Served}
	a.eta, a.etaKnown = queue.Wait(a.ahead, q.Settings.ConservativeRate)
	if q.Silent != nil && a.etaKnown {
		a.eta = max(a.eta-min(q.Silent(now), goesOn).Truncate(time.Second), min(a.eta, time.Second))
	}
	return a, nil
}
