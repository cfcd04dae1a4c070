package position

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
	"github.com/soonbeon/soonbeon/pkg/redisline/redislinetest"
)

// house is one queue with a log, this node's reading of it, and a view that has applied all.
type house struct {
	t      testing.TB
	q      *Queue
	entry  *queue.Entry
	ledger *line.Ledger
	apply  func(queue.Record)
	seq    queue.Ticket
	newest map[queue.Visitor]pass.Receipt
}

// memory is the view of a node without Redis.
type memory struct{ line *line.Line }

func (m memory) Place(_ context.Context, v queue.Visitor) (queue.Moment, queue.Place, error) {
	p, _ := m.line.Place(v)
	return queue.Moment{State: m.line.State(), Total: m.line.Total()}, p, nil
}

// own is the node's reading: all of the log.
type own struct{ *line.Ledger }

func (o own) Fresh(time.Time) queue.Ticket { return o.State().Seq }
func (o own) Grant(v queue.Visitor, now time.Time) (queue.Grant, line.GrantState) {
	return o.Ledger.Grant(v, now.UnixMilli())
}
func (o own) Rate(time.Time, int) (float64, bool)         { return 0, false }
func (o own) WaitFor(context.Context, queue.Ticket) error { return nil }

// inBoth plays a test on a line in memory and, where there is a redis-server, on one in Redis.
func inBoth(t *testing.T, play func(h *house)) {
	house := func(t *testing.T, view View, apply func(queue.Record)) *house {
		h := &house{t: t, entry: plain(), ledger: line.NewLedger(), apply: apply, newest: map[queue.Visitor]pass.Receipt{}}
		h.q = &Queue{View: view, Reading: own{h.ledger}}
		h.log(queue.Record{Kind: queue.Claimed, Issuer: "i"})
		return h
	}
	t.Run("memory", func(t *testing.T) {
		m := memory{line.New()}
		play(house(t, m, func(r queue.Record) { require.True(t, m.line.Apply(r.Ticket-1, []queue.Record{r})) }))
	})
	t.Run("Redis", func(t *testing.T) {
		v := redisline.New(redislinetest.Start(t), "main")
		play(house(t, Share(v), func(r queue.Record) {
			_, fits, err := v.Apply(t.Context(), r.Ticket-1, []queue.Record{r}, "")
			require.NoError(t, err)
			require.True(t, fits)
		}))
	})
}

func (h *house) log(r queue.Record) queue.Ticket {
	h.t.Helper()
	h.seq++
	r.Ticket, r.AtMs = h.seq, noon.UnixMilli()
	h.apply(r)
	require.True(h.t, h.ledger.Apply(r.Ticket-1, []queue.Record{r}))
	return r.Ticket
}

// enter is a 202: the newest receipt is that of this entry, whatever the line makes of it.
func (h *house) enter(v queue.Visitor, key string) queue.Ticket {
	h.t.Helper()
	t := h.log(queue.Record{Kind: queue.Entered, Visitor: v, Key: key})
	h.newest[v] = pass.Receipt{Queue: "main", Visitor: v, Ticket: t, Ahead: queue.NoAhead, IssuedMs: noon.UnixMilli()}
	return t
}

func (h *house) admit(ps ...queue.Person) {
	h.t.Helper()
	for i := range ps {
		ps[i].ExpiresMs = at(5 * time.Minute)
	}
	h.log(queue.Record{Kind: queue.Admitted, Epoch: 1, People: ps})
}

// poll asks with the newest receipt.
func (h *house) poll(v queue.Visitor) answer {
	h.t.Helper()
	a, err := h.q.ask(h.t.Context(), h.newest[v], h.entry, noon)
	require.NoError(h.t, err)
	if a.state == waiting {
		require.True(h.t, a.exact)
		h.newest[v] = renewed(h.newest[v], h.entry, a, noon)
	}
	return a
}

// stand requires that these wait, in this order, and nobody else.
func (h *house) stand(vs ...queue.Visitor) {
	h.t.Helper()
	for i, v := range vs {
		a := h.poll(v)
		require.Equal(h.t, []any{waiting, int64(i + 1), int64(len(vs))}, []any{a.state, a.ahead + 1, a.total}, v)
	}
}

func TestLeaving(t *testing.T) {
	for _, rule := range []queue.Reentry{queue.Back, queue.Keep} {
		t.Run(rule.String(), func(t *testing.T) {
			inBoth(t, func(h *house) {
				h.log(queue.Record{Kind: queue.SettingsSet, Reentry: rule})
				a := h.enter("a", "")
				h.enter("b", "key")
				h.enter("c", "")
				h.stand("a", "b", "c")
				h.log(queue.Record{Kind: queue.Left, Visitor: "b"})
				require.Equal(t, answer{state: over, reason: "left"}, h.poll("b"))
				h.log(queue.Record{Kind: queue.Left, Visitor: "b"}) // once more
				h.stand("a", "c")

				n := h.enter("b", "key") // anew, even by the same request
				h.stand("a", "c", "b")
				require.Equal(t, n, h.newest["b"].Ticket, "a new place, under either rule")
				require.False(t, h.poll("b").noPlace)

				// Who was let in, leaves, comes again and leaves again keeps the admission, and troubles nobody.
				h.admit(queue.Person{Visitor: "a", Ticket: a})
				h.stand("c", "b")
				h.log(queue.Record{Kind: queue.Left, Visitor: "a"})
				require.Equal(t, admitted, h.poll("a").state)
				h.stand("c", "b")
				h.enter("a", "") // behind the others, and not asked for
				require.Equal(t, []any{int64(0), int64(1)}, []any{h.poll("c").ahead, h.poll("b").ahead})
				h.log(queue.Record{Kind: queue.Left, Visitor: "a"})
				require.Equal(t, admitted, h.poll("a").state)
				require.EqualValues(t, a, h.poll("a").grant.Ticket)
				h.stand("c", "b")
			})
		})
	}
}

func TestEnteringAgain(t *testing.T) {
	inBoth(t, func(h *house) {
		h.enter("a", "key a")
		first := h.enter("b", "")
		h.enter("c", "")
		h.stand("a", "b", "c")

		// The rule keep: the first ticket counts, and the next answer says so, once.
		h.log(queue.Record{Kind: queue.SettingsSet, Reentry: queue.Keep})
		h.enter("b", "")
		b := h.poll("b")
		require.Equal(t, []any{true, first, int64(1)}, []any{b.noPlace, b.ticket, b.ahead})
		require.False(t, h.poll("b").noPlace)
		h.stand("a", "b", "c")

		// The rule back: a refresh moves, and a retransmission does not.
		h.log(queue.Record{Kind: queue.SettingsSet, Reentry: queue.Back})
		second := h.enter("b", "")
		b = h.poll("b")
		require.Equal(t, []any{false, second, int64(2)}, []any{b.noPlace, b.ticket, b.ahead})
		h.enter("a", "key a")
		require.True(t, h.poll("a").noPlace)
		h.stand("a", "c", "b")
	})
}

// The draw puts those who came before it into the order of their numbers, whichever view is asked; who comes later stands behind,
// and whoever leaves, is let in or is sent away is told as at any time.
func TestADrawIsTold(t *testing.T) {
	inBoth(t, func(h *house) {
		h.entry = byDraw(0)
		people := []queue.Visitor{"a", "b", "c", "d", "e", "f", "g"}
		for _, v := range people {
			h.enter(v, "key")
		}
		h.enter("c", "key") // sent twice
		h.enter("g", "")    // moved back
		for _, v := range people {
			a := h.poll(v)
			require.True(t, a.unplaced)
			require.EqualValues(t, len(people), a.total)
			require.Equal(t, v == "c", a.noPlace)
		}
		h.log(queue.Record{Kind: queue.Drawn, Epoch: 1, Seed: queue.Seed{9}})
		d := h.ledger.State().Draw
		number := func(v queue.Visitor) queue.Ticket { return d.Number(h.newest[v].Ticket) }
		order := slices.Clone(people)
		slices.SortFunc(order, func(v, w queue.Visitor) int { return int(number(v) - number(w)) })
		require.NotEqual(t, people, order)
		h.enter("z", "")
		h.stand(append(slices.Clone(order), "z")...)
		for _, v := range people {
			a := h.poll(v)
			require.Equal(t, []any{number(v), h.newest[v].Ticket}, []any{a.number, a.ticket})
		}
		require.Zero(t, h.poll("z").number)

		h.admit(queue.Person{Visitor: order[0], Ticket: number(order[0])}, queue.Person{Visitor: order[1], Ticket: number(order[1])})
		require.Equal(t, number(order[1]), h.poll(order[1]).grant.Ticket)
		h.log(queue.Record{Kind: queue.Left, Visitor: order[2]})
		require.Equal(t, answer{state: over, reason: "left"}, h.poll(order[2]))
		h.stand(append(slices.Clone(order[3:]), "z")...)

		h.log(queue.Record{Kind: queue.Ended, Epoch: 1, Why: queue.WhySoldOut})
		soldOut := answer{state: over, reason: "sold_out", ended: true}
		for _, v := range append(order[2:], "z") {
			require.Equal(t, soldOut, h.poll(v), v)
		}
		require.Equal(t, admitted, h.poll(order[0]).state)
		h.enter("y", "") // raced with the closing
		require.Equal(t, soldOut, h.poll("y"))
		h.log(queue.Record{Kind: queue.Reopened, Epoch: 1})
		h.enter("x", "")
		h.stand("x")
		require.Equal(t, soldOut, h.poll("z"))
	})
}
