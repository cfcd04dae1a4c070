package position

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// lottery is a draw among tickets 21 to 100, and what the tests below take from it.
var lottery = queue.Draw{From: 20, At: 100, Seed: queue.Seed{7}}

// drawn is a state after the lottery.
func drawn(seq, served queue.Ticket) queue.State {
	return queue.State{Seq: seq, Served: served, Draw: lottery}
}

// byDraw is a queue that opens by lot, now and then.
func byDraw(opens time.Duration) *queue.Entry {
	e := plain()
	e.Settings.Order, e.Settings.OpensAtMs, e.Commitment = queue.ByDraw, at(opens), "c0ffee"
	return e
}

func TestAskAfterADraw(t *testing.T) {
	n := lottery.Number(50) // what counts for the receipt's ticket
	require.NotEqualValues(t, 50, n)
	early := queue.Ticket(21) // another ticket, with a lower number
	for lottery.Number(early) >= n {
		early++
	}
	late := queue.Ticket(49) // one before the receipt's, with a higher number
	for lottery.Number(late) <= n {
		late--
	}
	require.Greater(t, late, queue.Ticket(20))
	past := func(ticket queue.Ticket) queue.Grant {
		return queue.Grant{Ticket: lottery.Number(ticket), AdmittedMs: at(-time.Minute), ExpiresMs: at(-time.Second)}
	}
	waits := answer{ticket: 50, drawnAt: 100, nowServing: 20}
	for name, tc := range map[string]struct {
		stub
		receipt func(*pass.Receipt)
		want    func(*answer)
		err     error
	}{
		"exact": {
			stub: stub{moment: queue.Moment{State: drawn(120, 20), Total: 90}, place: queue.Place{Ticket: n, Ahead: 5}, state: drawn(120, 20)},
			want: func(a *answer) { a.exact, a.number, a.ahead, a.total = true, n, 5, 90 },
		},
		"exact, and the view has read the draw first": {
			stub: stub{moment: queue.Moment{State: drawn(120, 20), Total: 90}, place: queue.Place{Ticket: n, Ahead: 5}, state: queue.State{Seq: 99, Served: 20}},
			want: func(a *answer) { a.exact, a.number, a.ahead, a.total = true, n, 5, 90 },
		},
		"what was told before the draw says nothing": {
			stub:    stub{moment: queue.Moment{State: drawn(120, 20), Total: 90}, place: queue.Place{Ticket: n, Ahead: 5}, state: drawn(120, 20)},
			receipt: func(r *pass.Receipt) { r.Ahead = 1 },
			want:    func(a *answer) { a.exact, a.number, a.ahead, a.total = true, n, 5, 90 },
		},
		"what was told after it bounds": {
			stub:    stub{moment: queue.Moment{State: drawn(120, 20), Total: 90}, place: queue.Place{Ticket: n, Ahead: 5}, state: drawn(120, 20)},
			receipt: func(r *pass.Receipt) { r.Ahead, r.Drawn = 4, 100 },
			want:    func(a *answer) { a.exact, a.number, a.ahead, a.total = true, n, 4, 90 },
		},
		"exact, came after the draw": {
			stub:    stub{moment: queue.Moment{State: drawn(120, 20), Total: 90}, place: queue.Place{Ticket: 110, Ahead: 70}, state: drawn(120, 20)},
			receipt: func(r *pass.Receipt) { r.Ticket, r.Ahead = 110, 69 },
			want:    func(a *answer) { a.exact, a.ticket, a.ahead, a.total = true, 110, 69, 90 },
		},
		"exact, an earlier ticket counts, whatever the numbers": {
			stub: stub{moment: queue.Moment{State: drawn(120, 20), Total: 90}, place: queue.Place{Ticket: lottery.Number(late), Ahead: 12}, state: drawn(120, 20)},
			want: func(a *answer) {
				a.exact, a.ticket, a.number, a.noPlace, a.ahead, a.total = true, late, lottery.Number(late), true, 12, 90
			},
		},
		"the view is from before the draw": {
			stub:    stub{moment: moment(99, 20, 90), place: queue.Place{Ticket: 50, Ahead: 1}, state: drawn(120, 20)},
			receipt: func(r *pass.Receipt) { r.Sure = true },
			want:    func(a *answer) { a.number, a.ahead = n, int64(n)-21 },
		},
		"view away, sure": {
			stub:    stub{err: errAway, state: drawn(120, 20)},
			receipt: func(r *pass.Receipt) { r.Sure = true },
			want:    func(a *answer) { a.number, a.ahead = n, int64(n)-21 },
		},
		"view away, and an earlier ticket may count": {
			stub: stub{err: errAway, state: drawn(120, 20)},
			want: func(a *answer) { a.ahead = 79 },
		},
		"view away, came after the draw": {
			stub:    stub{err: errAway, state: drawn(120, 20)},
			receipt: func(r *pass.Receipt) { r.Ticket = 110 },
			want:    func(a *answer) { a.ticket, a.ahead = 110, 89 },
		},
		"view away, and only the receipt knows of the draw": {
			stub:    stub{err: errAway, state: queue.State{Seq: 90, Served: 20}},
			receipt: func(r *pass.Receipt) { r.Sure, r.Drawn, r.Ahead = true, 100, 33 },
			want:    func(a *answer) { a.ahead = 33 },
		},
		"over: expired": {
			stub: stub{moment: queue.Moment{State: drawn(130, n)}, state: drawn(130, n), grant: past(50), gs: line.Expired, onCatch: func() {}},
			want: func(a *answer) { *a = answer{state: over, reason: "expired"} },
		},
		"over: expired, view away": {
			stub: stub{err: errAway, state: drawn(130, n), grant: past(50), gs: line.Expired},
			want: func(a *answer) { *a = answer{state: over, reason: "expired"} },
		},
		"over: too long ago to be remembered": {
			stub: stub{moment: queue.Moment{State: drawn(130, n)}, state: drawn(130, n), onCatch: func() {}},
			want: func(a *answer) { *a = answer{state: over, reason: "expired"} },
		},
		"over: left, while people with later tickets were let in": {
			stub: stub{moment: queue.Moment{State: drawn(130, n-1)}, state: drawn(130, n-1), onCatch: func() {}},
			want: func(a *answer) { *a = answer{state: over, reason: "left"} },
		},
		"over: left, after a visit on an earlier ticket with a higher number": {
			stub:    stub{moment: queue.Moment{State: drawn(130, 60)}, state: queue.State{Seq: 130, Served: n - 1, Draw: lottery}, grant: past(late), gs: line.Expired, onCatch: func() {}},
			receipt: func(r *pass.Receipt) { r.IssuedMs = at(0) },
			want:    func(a *answer) { *a = answer{state: over, reason: "left"} },
		},
		"untold: passed, and the view is away": {
			stub:    stub{err: errAway, state: drawn(130, n)},
			receipt: func(r *pass.Receipt) { r.Sure = true },
			err:     errUntold,
		},
		"untold: everybody who was drawn is passed": {stub: stub{err: errAway, state: drawn(130, 105)}, err: errUntold},
	} {
		t.Run(name, func(t *testing.T) {
			r := pass.Receipt{Queue: "main", Visitor: "v", Ticket: 50, Ahead: queue.NoAhead, IssuedMs: at(-10 * time.Minute)}
			if tc.receipt != nil {
				tc.receipt(&r)
			}
			q := &Queue{View: &tc.stub, Reading: &tc.stub}
			got, err := q.ask(t.Context(), r, byDraw(-time.Hour), noon)
			require.ErrorIs(t, err, tc.err)
			var want answer
			if tc.want != nil {
				want = waits
				tc.want(&want)
			}
			got.eta, got.etaKnown = 0, false
			require.Equal(t, want, got)
		})
	}
}

// The line was ended by record 70: whoever waited then is told why, by the log alone too, unless they were let in before.
func TestAskWhenTheLineWasEnded(t *testing.T) {
	end := func(seq queue.Ticket, over bool) queue.State {
		return queue.State{Seq: seq, Served: 70, End: queue.End{At: 70, Why: "sold_out", Over: over}}
	}
	soldOut := answer{state: over, reason: "sold_out", ended: true}
	past := queue.Grant{Ticket: 50, AdmittedMs: at(-time.Hour), ExpiresMs: at(-time.Minute)}
	earlier := queue.Grant{Ticket: 7, AdmittedMs: at(-time.Hour), ExpiresMs: at(-30 * time.Minute)}
	for name, tc := range map[string]struct {
		state  queue.State
		grant  queue.Grant
		gs     line.GrantState
		ticket queue.Ticket
		want   answer
		away   answer // with the view away
		err    error
	}{
		"who waited":                         {state: end(70, true), ticket: 50, want: soldOut, away: soldOut},
		"who waited, reopened since":         {state: end(90, false), ticket: 50, want: soldOut, away: soldOut},
		"who waited, after an earlier visit": {state: end(90, true), ticket: 50, grant: earlier, gs: line.Expired, want: soldOut, away: soldOut},
		"who came when it was over":          {state: end(90, true), ticket: 80, want: soldOut, away: soldOut},
		"who was let in before": {state: end(90, true), ticket: 50, grant: past, gs: line.Expired,
			want: answer{state: over, reason: "expired"}, away: answer{state: over, reason: "expired"}},
		"who was let in and is done": {state: end(90, true), ticket: 50, grant: past, gs: line.Released,
			want: answer{state: over, reason: "released"}, away: answer{state: over, reason: "released"}},
		"who is let in": {state: end(90, true), ticket: 50, grant: past, gs: line.Live,
			want: answer{state: admitted, grant: past}, away: answer{state: admitted, grant: past}},
		"who came later and left": {state: end(90, false), ticket: 80, want: answer{state: over, reason: "left"},
			away: answer{ticket: 80, ahead: 9, nowServing: 70}},
		"who came later than what was read": {state: end(79, true), ticket: 80, want: answer{ticket: 80, ahead: 9, nowServing: 70},
			away: answer{ticket: 80, ahead: 9, nowServing: 70}},
	} {
		t.Run(name, func(t *testing.T) {
			r := pass.Receipt{Queue: "main", Visitor: "v", Ticket: tc.ticket, Ahead: queue.NoAhead, IssuedMs: at(-10 * time.Minute)}
			s := &stub{moment: queue.Moment{State: tc.state}, state: tc.state, grant: tc.grant, gs: tc.gs, onCatch: func() {}}
			q := &Queue{View: s, Reading: s}
			for _, want := range []answer{tc.want, tc.away} {
				got, err := q.ask(t.Context(), r, plain(), noon)
				require.NoError(t, err)
				got.eta, got.etaKnown = 0, false
				require.Equal(t, want, got)
				s.err = errAway
			}
		})
	}
	// A view that has not applied the end still has them in line.
	s := &stub{moment: moment(69, 20, 80), place: queue.Place{Ticket: 50, Ahead: 4}, state: end(70, true)}
	got, err := (&Queue{View: s, Reading: s}).ask(t.Context(), pass.Receipt{Visitor: "v", Ticket: 50, Ahead: 4}, plain(), noon)
	require.NoError(t, err)
	require.Equal(t, soldOut, got)
}

// Waits are reckoned where people are let in at a pace that is known, and nowhere else.
func TestWaitsThatAreUnknown(t *testing.T) {
	for name, tc := range map[string]struct {
		entry func(*queue.Entry)
		rate  float64
		exact time.Duration // 0: unknown
		away  time.Duration
	}{
		"open":                          {func(*queue.Entry) {}, 0, 2 * time.Second, 3 * time.Second},
		"paused":                        {func(e *queue.Entry) { e.Paused = true }, 175, 0, 0},
		"not open":                      {func(e *queue.Entry) { e.Settings.OpensAtMs = at(time.Millisecond) }, 0, 0, 0},
		"just opened":                   {func(e *queue.Entry) { e.Settings.OpensAtMs = at(0) }, 0, 2 * time.Second, 3 * time.Second},
		"closed, who waits goes on":     {func(e *queue.Entry) { e.Closed, e.Why = true, "closed" }, 0, 2 * time.Second, 3 * time.Second},
		"capacity sets the pace":        {func(e *queue.Entry) { e.Settings.MaxActive = 9 }, 10, 35 * time.Second, 35 * time.Second},
		"capacity, more than the rate":  {func(e *queue.Entry) { e.Settings.MaxActive = 9 }, 1000, 2 * time.Second, 3 * time.Second},
		"capacity, and nobody came out": {func(e *queue.Entry) { e.Settings.MaxActive = 9 }, 0, 0, 0},
		"slowed by operators":           {func(e *queue.Entry) { e.Settings.Rate, e.Settings.ConservativeRate = 10, 5 }, 175, 35 * time.Second, 70 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			e := plain()
			tc.entry(e)
			s := &stub{moment: moment(1000, 20, 800), place: queue.Place{Ticket: 371, Ahead: 350}, state: queue.State{Seq: 1000, Served: 20}, rate: tc.rate}
			s.onRate = func(full int) {
				want := int(e.Settings.PerBatch())
				if e.Settings.MaxActive > 0 {
					want = 0
				}
				require.Equal(t, want, full, "with a capacity all of the time counts, and all batches")
			}
			q := &Queue{View: s, Reading: s}
			for _, want := range []time.Duration{tc.exact, tc.away} {
				got, err := q.ask(t.Context(), pass.Receipt{Visitor: "v", Ticket: 371, Ahead: queue.NoAhead}, e, noon)
				require.NoError(t, err)
				require.Equal(t, want, got.eta)
				require.Equal(t, want != 0, got.etaKnown)
				s.err = errAway
			}
		})
	}
}

func TestRounding(t *testing.T) {
	e := plain()
	e.Settings.Rounding = []queue.RoundStep{{Ahead: 100, To: 10}}
	s := &stub{err: errAway, state: queue.State{Seq: 1000, Served: 20}}
	q := &Queue{View: s, Reading: s}
	for _, tc := range []struct {
		ticket      queue.Ticket
		last, ahead int64
	}{{21, queue.NoAhead, 0}, {22, queue.NoAhead, 10}, {50, queue.NoAhead, 30}, {50, 30, 30}, {50, 23, 23}, {50, 18, 18}, {121, queue.NoAhead, 100}, {122, queue.NoAhead, 101}} {
		got, err := q.ask(t.Context(), pass.Receipt{Visitor: "v", Ticket: tc.ticket, Ahead: tc.last}, e, noon)
		require.NoError(t, err)
		require.Equal(t, tc.ahead, got.ahead, "%+v", tc)
	}
	s.err, s.moment, s.place = nil, moment(1000, 20, 80), queue.Place{Ticket: 50, Ahead: 23}
	got, err := q.ask(t.Context(), pass.Receipt{Visitor: "v", Ticket: 50, Ahead: queue.NoAhead}, e, noon)
	require.NoError(t, err)
	require.EqualValues(t, 23, got.ahead, "an exact number is as it is")
}
