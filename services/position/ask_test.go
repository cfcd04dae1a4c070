package position

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2025, 11, 30, 12, 0, 0, 0, time.UTC)

// at is noon and so much, in Unix milliseconds.
func at(d time.Duration) int64 { return noon.Add(d).UnixMilli() }

// stub is a view and a reading that say what a test wants.
type stub struct {
	moment queue.Moment
	place  queue.Place
	err    error

	state   queue.State
	fresh   queue.Ticket
	grant   queue.Grant
	gs      line.GrantState
	rate    float64
	onRate  func(fullBatch int)
	onAsk   func() // what this node reads while the view is asked
	onCatch func() // what it reads when it is made to catch up; nil: nothing in time
	waited  queue.Ticket
}

func (s *stub) Place(context.Context, queue.Visitor) (queue.Moment, queue.Place, error) {
	if s.onAsk != nil {
		s.onAsk()
	}
	return s.moment, s.place, s.err
}
func (s *stub) State() queue.State           { return s.state }
func (s *stub) Fresh(time.Time) queue.Ticket { return s.fresh }
func (s *stub) Grant(queue.Visitor, time.Time) (queue.Grant, line.GrantState) {
	return s.grant, s.gs
}
func (s *stub) Rate(_ time.Time, full int) (float64, bool) {
	if s.onRate != nil {
		s.onRate(full)
	}
	return s.rate, s.rate > 0
}
func (s *stub) WaitFor(ctx context.Context, t queue.Ticket) error {
	s.waited = t
	if s.onCatch == nil {
		return context.DeadlineExceeded
	}
	s.onCatch()
	return nil
}

func moment(seq, served queue.Ticket, total int64) queue.Moment {
	return queue.Moment{State: queue.State{Seq: seq, Served: served}, Total: total}
}

var errAway = errors.New("away")

// plain is a queue of which nothing is said.
func plain() *queue.Entry {
	return &queue.Entry{ID: "main", Version: 9, Made: 3, Settings: queue.DefaultSettings()}
}

func TestAsk(t *testing.T) {
	live := queue.Grant{Ticket: 50, AdmittedMs: at(-time.Minute), ExpiresMs: at(time.Minute)}
	past := queue.Grant{Ticket: 50, AdmittedMs: at(-time.Hour), ExpiresMs: at(-time.Minute)}
	earlier := queue.Grant{Ticket: 7, AdmittedMs: at(-time.Hour), ExpiresMs: at(-30 * time.Minute)}
	state := func(served queue.Ticket) queue.State { return queue.State{Seq: 100, Served: served} }
	// The receipt is of ticket 50, issued ten minutes ago, and carries no exact answer, unless it is said otherwise.
	for name, tc := range map[string]struct {
		stub
		ticket queue.Ticket
		ahead  int64
		want   answer
		err    error
	}{
		"exact": {
			stub: stub{moment: moment(100, 20, 80), place: queue.Place{Ticket: 50, Ahead: 25}, state: state(20), fresh: 90},
			want: answer{exact: true, ticket: 50, ahead: 25, total: 80, nowServing: 20, eta: time.Second, etaKnown: true},
		},
		"exact at the pace that is seen": {
			stub: stub{moment: moment(100, 20, 80), place: queue.Place{Ticket: 50, Ahead: 25}, state: state(20), rate: 5},
			want: answer{exact: true, ticket: 50, ahead: 25, total: 80, nowServing: 20, eta: 5 * time.Second, etaKnown: true},
		},
		"never reckoned faster than the queue's rate": {
			stub: stub{moment: moment(1000, 20, 800), place: queue.Place{Ticket: 900, Ahead: 350}, state: state(20), rate: 350}, ticket: 900,
			want: answer{exact: true, ticket: 900, ahead: 350, total: 800, nowServing: 20, eta: 2 * time.Second, etaKnown: true},
		},
		"exact, first in line": {
			stub: stub{moment: moment(50, 49, 1), place: queue.Place{Ticket: 50}, state: state(49)},
			want: answer{exact: true, ticket: 50, total: 1, nowServing: 49, etaKnown: true},
		},
		"exact, moved back elsewhere: the old receipt's number doesn't count": {
			stub: stub{moment: moment(100, 20, 80), place: queue.Place{Ticket: 95, Ahead: 60}, state: state(20)}, ahead: 3,
			want: answer{exact: true, ticket: 95, ahead: 60, total: 80, nowServing: 20, eta: time.Second, etaKnown: true},
		},
		"exact, but older than the last answer": {
			stub: stub{moment: moment(100, 20, 80), place: queue.Place{Ticket: 50, Ahead: 25}, state: state(20)}, ahead: 22,
			want: answer{exact: true, ticket: 50, ahead: 22, total: 80, nowServing: 20, eta: time.Second, etaKnown: true},
		},
		"exact, but older than this node's reading": {
			stub: stub{moment: moment(100, 20, 80), place: queue.Place{Ticket: 50, Ahead: 25}, state: state(45)},
			want: answer{exact: true, ticket: 50, ahead: 4, total: 80, nowServing: 45, eta: time.Second, etaKnown: true},
		},
		"exact, a retransmission: the earlier place counts, and what was told bounds it": {
			stub: stub{moment: moment(100, 20, 80), place: queue.Place{Ticket: 40, Ahead: 18}, state: state(20)}, ahead: 15,
			want: answer{exact: true, ticket: 40, noPlace: true, ahead: 15, total: 80, nowServing: 20, eta: time.Second, etaKnown: true},
		},
		"a total that is older is not below the position": {
			stub: stub{moment: moment(100, 20, 3), place: queue.Place{Ticket: 50, Ahead: 25}, state: state(20)},
			want: answer{exact: true, ticket: 50, ahead: 25, total: 26, nowServing: 20, eta: time.Second, etaKnown: true},
		},

		"view away": {
			stub: stub{err: errAway, state: state(20)},
			want: answer{ticket: 50, ahead: 29, nowServing: 20, eta: time.Second, etaKnown: true},
		},
		"view away, reckoned at the conservative rate": {
			stub: stub{err: errAway, state: state(20)}, ticket: 20 + 1 + 350,
			want: answer{ticket: 371, ahead: 350, nowServing: 20, eta: 3 * time.Second, etaKnown: true},
		},
		"view away, with an exact answer in the receipt": {
			stub: stub{err: errAway, state: state(20)}, ahead: 11,
			want: answer{ticket: 50, ahead: 11, nowServing: 20, eta: time.Second, etaKnown: true},
		},
		"view behind this node's reading": {
			stub: stub{moment: moment(89, 20, 80), place: queue.Place{Ticket: 50, Ahead: 25}, state: state(20), fresh: 90},
			want: answer{ticket: 50, ahead: 29, nowServing: 20, eta: time.Second, etaKnown: true},
		},
		"view that came back empty": {
			stub: stub{state: state(20), fresh: 90},
			want: answer{ticket: 50, ahead: 29, nowServing: 20, eta: time.Second, etaKnown: true},
		},
		"ticket not projected yet": {
			stub: stub{moment: moment(49, 20, 30), state: state(20)},
			want: answer{ticket: 50, ahead: 29, nowServing: 20, eta: time.Second, etaKnown: true},
		},
		"re-entered: this place is not projected yet, the old one is gone": {
			stub: stub{moment: moment(49, 20, 30), place: queue.Place{Ticket: 30, Ahead: 5}, state: state(20)},
			want: answer{ticket: 50, ahead: 29, nowServing: 20, eta: time.Second, etaKnown: true},
		},

		"admitted, and the view is not asked": {
			stub: stub{err: errAway, state: state(50), grant: live, gs: line.Live, onAsk: func() { panic("asked") }},
			want: answer{state: admitted, grant: live},
		},
		"admitted for a place from before a refresh": {
			stub: stub{err: errAway, state: state(50), grant: live, gs: line.Live}, ticket: 60,
			want: answer{state: admitted, grant: live},
		},

		"over: expired": {
			stub: stub{moment: moment(100, 60, 9), state: state(60), grant: past, gs: line.Expired, onCatch: func() {}},
			want: answer{state: over, reason: "expired"},
		},
		"over: released": {
			stub: stub{moment: moment(100, 60, 9), state: state(60), grant: past, gs: line.Released, onCatch: func() {}},
			want: answer{state: over, reason: "released"},
		},
		"over: admitted too long ago to be remembered": {
			stub: stub{moment: moment(100, 60, 9), state: state(60), onCatch: func() {}},
			want: answer{state: over, reason: "expired"},
		},
		"over: left": {
			stub: stub{moment: moment(100, 20, 9), state: state(20), onCatch: func() {}},
			want: answer{state: over, reason: "left"},
		},
		"over: left, after an earlier visit that ended": {
			stub: stub{moment: moment(100, 20, 9), state: state(20), grant: earlier, gs: line.Expired, onCatch: func() {}},
			want: answer{state: over, reason: "left"},
		},
		"over: expired, and refreshed in the instant of being admitted": {
			stub: stub{moment: moment(100, 50, 9), state: state(50), grant: past, gs: line.Expired, onCatch: func() {}}, ticket: 55,
			want: answer{state: over, reason: "expired"},
		},
		"over, view away: expired": {
			stub: stub{err: errAway, state: state(60), grant: past, gs: line.Expired},
			want: answer{state: over, reason: "expired"},
		},
		"over, view away: released": {
			stub: stub{err: errAway, state: state(60), grant: past, gs: line.Released},
			want: answer{state: over, reason: "released"},
		},

		"untold: passed, and the view is away": {stub: stub{err: errAway, state: state(60)}, err: errUntold},
		"untold: passed, and what is known is an earlier visit": {
			stub: stub{err: errAway, state: state(60), grant: earlier, gs: line.Expired}, err: errUntold,
		},
		"untold: gone from the view, and why is not read yet": {
			stub: stub{moment: moment(100, 60, 9), state: state(40)}, err: errUntold,
		},
		"untold: gone from the view, why is not read yet, and what is known is an earlier visit": {
			stub: stub{moment: moment(100, 60, 9), state: state(40), grant: earlier, gs: line.Expired}, err: errUntold,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := pass.Receipt{Queue: "main", Visitor: "v", Ticket: 50, Ahead: queue.NoAhead, IssuedMs: at(-10 * time.Minute)}
			if tc.ticket != 0 {
				r.Ticket = tc.ticket
			}
			if tc.ahead != 0 {
				r.Ahead = tc.ahead
			}
			q := &Queue{View: &tc.stub, Reading: &tc.stub}
			got, err := q.ask(t.Context(), r, plain(), noon)
			require.ErrorIs(t, err, tc.err)
			require.Equal(t, tc.want, got)
		})
	}
}

// Whoever is admitted while the view is asked is told so now, and not at the next poll: in each way that the asking can end.
func TestAskAdmittedMeanwhile(t *testing.T) {
	for name, s := range map[string]*stub{
		"the view failed":              {err: errAway},
		"the view still has the place": {moment: moment(100, 20, 80), place: queue.Place{Ticket: 50, Ahead: 3}},
		"the view has it no more":      {moment: moment(101, 50, 79)},
		"the view is behind":           {moment: moment(10, 1, 5), fresh: 50},
	} {
		t.Run(name, func(t *testing.T) {
			s.state = queue.State{Seq: 100, Served: 20}
			read := func() {
				s.state = queue.State{Seq: 101, Served: 50}
				s.grant, s.gs = queue.Grant{Ticket: 50, ExpiresMs: at(time.Minute)}, line.Live
			}
			if name == "the view has it no more" {
				s.onCatch = read
			} else {
				s.onAsk = read
			}
			q := &Queue{View: s, Reading: s}
			got, err := q.ask(t.Context(), pass.Receipt{Queue: "main", Visitor: "v", Ticket: 50, Ahead: queue.NoAhead}, plain(), noon)
			require.NoError(t, err)
			require.Equal(t, answer{state: admitted, grant: s.grant}, got)
			if s.onCatch != nil {
				require.EqualValues(t, 101, s.waited, "what the view has read")
			}
		})
	}
}
