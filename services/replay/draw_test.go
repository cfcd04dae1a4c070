package replay

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
)

// append writes records by hand.
func (f *fixture) append(recs ...queue.Record) {
	f.broker.AppendMany(main, len(recs), func(i int) queue.Record { return recs[i] })
}

func seed() (s queue.Seed) {
	for i := range s {
		s[i] = byte(3 * i)
	}
	return s
}

// drawn has 900 people draw at ticket 902; 99 follow.
func (f *fixture) drawn() {
	f.append(queue.Record{Kind: queue.Claimed, Issuer: "one", Mode: queue.ModeRedis}) // ticket 1: the epoch
	f.crowd(900)
	f.append(queue.Record{Kind: queue.Drawn, Epoch: 1, Seed: seed()})
	f.crowd(99)
}

func TestRebuildAndCompareAfterADraw(t *testing.T) {
	f := newFixture(t)
	f.drawn()
	_, err := Rebuild(f.soon(), f.log, f.view, main, false, nil)
	require.NoError(t, err)
	require.Equal(t, f.byLog(), f.inRedis())
	same := func() *Comparison {
		c, err := Compare(f.soon(), f.log, f.view, main, nil)
		require.NoError(t, err)
		return c
	}
	c := same()
	require.True(t, c.Same() && c.Exact, c.Examples)
	require.EqualValues(t, 999, c.Waiting)

	require.NoError(t, f.rdb.HDel(f.soon(), "soonbeon:{main}:state", "draw").Err())
	c = same()
	require.Equal(t, map[Kind]int64{State: 1}, c.Counts)
	require.Contains(t, c.Examples[0], "the log says served 0, epoch 1, rule back, lots drawn at ticket 902 at ticket 1001")

	_, err = Rebuild(f.soon(), f.log, f.view, main, false, nil)
	require.NoError(t, err)
	f.append(queue.Record{Kind: queue.Ended, Epoch: 1, Why: "sold_out"})
	f.crowd(10) // too late
	f.apply()
	c = same()
	require.True(t, c.Same() && c.Exact, c.Examples)
	require.Zero(t, c.Waiting)
	_, err = Rebuild(f.soon(), f.log, f.view, main, false, nil)
	require.NoError(t, err)
	require.Equal(t, f.byLog(), f.inRedis())
	require.NoError(t, f.rdb.HDel(f.soon(), "soonbeon:{main}:state", "end").Err())
	require.Contains(t, same().Examples[0], "ended at ticket 1002 (sold_out, over: true)")

	_, err = Rebuild(f.soon(), f.log, f.view, main, false, nil)
	require.NoError(t, err)
	f.append(queue.Record{Kind: queue.Reopened, Epoch: 1})
	f.crowd(10)
	f.apply()
	c = same()
	require.True(t, c.Same(), c.Examples)
	require.EqualValues(t, 10, c.Waiting)
}

// Where the draw falls while Redis is read, everybody has a ticket before and a number after, and some meet by chance: nobody is
// compared one by one.
func TestCompareAcrossTheDraw(t *testing.T) {
	f := newFixture(t)
	f.drawn()
	f.append(queue.Record{Kind: queue.Left, Visitor: "v895"}) // entered, drew and left meanwhile
	d := queue.Draw{At: 902, Seed: seed()}
	gone := queue.Waiting{Visitor: "v895", Ticket: d.Number(897)}
	require.Less(t, gone.Ticket, queue.Ticket(890))
	recs := f.records()
	at := func(to queue.Ticket) (queue.Moment, []queue.Waiting) {
		l := line.New()
		require.True(t, l.Apply(0, recs[:to]))
		return queue.Moment{State: l.State(), Total: l.Total()}, slices.Collect(l.Waiting())
	}
	before, tickets := at(890)
	after, numbers := at(1002)
	for _, people := range [][]queue.Waiting{tickets, numbers, append(slices.Clone(numbers), gone), append(slices.Clone(tickets[:400]), numbers[400:]...)} {
		c, err := Compare(f.soon(), f.log, still{f.view, &redisline.Snapshot{Before: before, After: after, People: people}}, main, nil)
		require.NoError(t, err)
		require.True(t, c.Same() && !c.Exact, c.Examples)
	}
}

func TestThenAcrossTheDraw(t *testing.T) {
	f := newFixture(t)
	f.drawn()
	then := func(to, ticket queue.Ticket) (*Past, queue.Place) {
		p, err := Then(f.soon(), f.log, main, Moment{Ticket: to}, nil)
		require.NoError(t, err)
		who, ok := p.Holder(ticket)
		require.True(t, ok)
		place, ok := p.Place(who)
		require.True(t, ok)
		return p, place
	}
	d := queue.Draw{At: 902, Seed: seed()}
	number := d.Number(300)
	require.NotEqual(t, queue.Ticket(300), number)
	p, place := then(901, 300)
	require.Equal(t, queue.Place{Ticket: 300, Ahead: 298}, place)
	require.EqualValues(t, 300, p.Number(300))
	p, place = then(950, 300)
	require.Equal(t, number, place.Ticket)
	require.Equal(t, number, p.Number(300))
	p, place = then(950, 910)
	require.Equal(t, queue.Place{Ticket: 910, Ahead: 907}, place, "who came later stands behind")
	require.EqualValues(t, 910, p.Number(910))
}
