package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/e2e/book"
)

func TestEachBrokenAnswerIsFound(t *testing.T) {
	total := func(n int64) *int64 { return &n }
	exact := reply{Position: 5, Ahead: 4, Total: total(9), Ticket: 7, Precision: "exact", Receipt: "new"}
	with := func(change func(*reply)) reply { r := exact; change(&r); return r }
	for _, c := range []struct {
		what, want string
		last       int64
		loose      bool
		r          reply
	}{
		{"a good one", "", 4, false, exact},
		{"the first", "", -1, false, exact},
		{"an approximate one has no total", "", 4, false, with(func(r *reply) { r.Precision, r.Total = "approximate", nil })},
		{"it rises", "4 ahead (exact) after 3", 3, false, exact},
		{"it rises for who may have been moved back by a request of their own", "", 3, true, exact},
		{"position and ahead differ", "position 5 with 5 ahead", 9, false, with(func(r *reply) { r.Ahead = 5 })},
		{"position 0", "position 0", 9, false, with(func(r *reply) { r.Position, r.Ahead = 0, -1 })},
		{"total below position", "total is below", 9, false, with(func(r *reply) { r.Total = total(4) })},
		{"no total", "total is below", 9, false, with(func(r *reply) { r.Total = nil })},
		{"no receipt", "without a renewed receipt", 9, false, with(func(r *reply) { r.Receipt = "" })},
		{"precision", `precision "good"`, 9, false, with(func(r *reply) { r.Precision = "good" })},
	} {
		v := &visitor{receipt: "old", ticket: 7, ahead: c.last, loose: c.loose}
		err := v.told(c.r)
		if c.want == "" {
			require.NoError(t, err, c.what)
			require.Equal(t, "new", v.receipt, c.what)
			require.Equal(t, c.r.Ahead, v.ahead, c.what)
			continue
		}
		require.ErrorContains(t, err, c.want, c.what)
	}
}

func TestAnAnswerBelowTheTruthIsFound(t *testing.T) {
	var recs []queue.Record
	add := func(atMs int64, r queue.Record) {
		r.Ticket, r.AtMs = queue.Ticket(len(recs)+1), atMs
		recs = append(recs, r)
	}
	add(100, queue.Record{Kind: queue.Claimed, Issuer: "one", Mode: queue.ModeRedis}) // 1
	for i, v := range []queue.Visitor{"ann", "bob", "cyd"} {
		add(int64(110+i), queue.Record{Kind: queue.Entered, Visitor: v}) // 2, 3, 4
	}
	add(200, queue.Record{Kind: queue.Admitted, Epoch: 1, People: []queue.Person{{Visitor: "ann", Ticket: 2, ExpiresMs: 9e9}}}) // 5

	th := newTruth()
	skipped, err := th.hold(recs, []told{{"cyd", 4, 2, 150, true}, {"bob", 3, 1, 150, true}, {"ann", 2, 0, 199, true}})
	require.NoError(t, err)
	require.Zero(t, skipped)
	// After the admission, and still told the number of before it: above the truth, which is fine. Ann waits no more.
	skipped, err = th.hold(recs, []told{{"cyd", 4, 2, 250, false}, {"ann", 2, 0, 250, true}})
	require.NoError(t, err)
	require.Equal(t, 1, skipped)
	_, err = newTruth().hold(recs, []told{{"cyd", 4, 1, 150, true}})
	require.ErrorContains(t, err, "1 answers told less than the truth: with ticket 4 (it is 4 that counts) 1 ahead were told (exact: true), and they are 2")
}

func TestDeparturesAndOrderAreHeldAgainstTheLog(t *testing.T) {
	b, err := book.Of([]queue.Record{{Ticket: 1, Kind: queue.Entered, Visitor: "ann"}, {Ticket: 2, Kind: queue.Left, Visitor: "ann"}})
	require.NoError(t, err)
	require.NoError(t, departures(b, map[queue.Visitor]int{"ann": 1}))
	require.ErrorContains(t, departures(b, map[queue.Visitor]int{"ann": 1, "bob": 1}), "1 departures")

	require.NoError(t, inOrder([]pass.Entry{{Ticket: 3, AdmittedMs: 20}, {Ticket: 2, AdmittedMs: 20}, {Ticket: 9, AdmittedMs: 21}}))
	require.ErrorContains(t, inOrder([]pass.Entry{{Ticket: 3, AdmittedMs: 20}, {Ticket: 2, AdmittedMs: 25}}), "ticket 2 was let in 5 ms after ticket 3")
}
