package redisline

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline/redislinetest"
)

// crowd is a claim and n who enter, each third with a key.
func crowd(n int) []queue.Record {
	recs := []queue.Record{{Ticket: 1, Kind: queue.Claimed}}
	for i := range n {
		rec := queue.Record{Ticket: queue.Ticket(i + 2), Kind: queue.Entered, Visitor: fmt.Sprintf("v%d", i)}
		if i%3 == 0 {
			rec.Key = "k"
		}
		recs = append(recs, rec)
	}
	return recs
}

func lot(t queue.Ticket) queue.Record {
	return queue.Record{Ticket: t, Kind: queue.Drawn, Epoch: 1, Seed: queue.Seed{1, 2, 3}}
}

// finishing calls before the first time that a load is about to take the view's place.
type finishing struct {
	before func()
	done   atomic.Bool
}

func (f *finishing) DialHook(next redis.DialHook) redis.DialHook { return next }
func (f *finishing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (f *finishing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		for _, arg := range cmd.Args() {
			if arg == "finish" && !f.done.Swap(true) {
				f.before()
			}
		}
		return next(ctx, cmd)
	}
}

func TestADrawEqualsThatOfTheMemoryLine(t *testing.T) {
	rdb := redislinetest.Start(t)
	v := New(rdb, "main")
	recs := append(crowd(2500), queue.Record{Ticket: 2502, Kind: queue.Admitted, Epoch: 1,
		People: []queue.Person{{Visitor: "v0", Ticket: 2, ExpiresMs: time.Now().Add(time.Hour).UnixMilli()}}}, lot(2503),
		queue.Record{Ticket: 2504, Kind: queue.Entered, Visitor: "late"})
	_, fits, err := v.Apply(ctx, 0, recs, "topic")
	require.NoError(t, err)
	require.True(t, fits)
	want := line.New()
	require.True(t, want.Apply(0, recs))
	got, err := v.Digest(ctx)
	require.NoError(t, err)
	require.Equal(t, want.Digest(), got)
	m, places, err := v.Places(ctx, []queue.Visitor{"v77", "late", "v0"})
	require.NoError(t, err)
	require.Equal(t, want.State(), m.State)
	for i, who := range []queue.Visitor{"v77", "late"} {
		p, ok := want.Place(who)
		require.True(t, ok)
		require.Equal(t, p, places[i])
	}
	require.Equal(t, queue.Place{Ticket: 2504, Ahead: 2499}, places[1], "who comes after the draw stands behind")
	require.Zero(t, places[2].Ticket)
	ticket, err := rdb.Get(ctx, v.k.grant+"v0").Result()
	require.NoError(t, err)
	require.Equal(t, "2", ticket, "an admission from before the draw holds")
	require.Equal(t, int64(1), rdb.ZCard(ctx, v.k.active).Val())

	// Again, by a projector that is behind: nothing changes.
	seq, fits, err := v.Apply(ctx, 2502, recs[2502:], "topic")
	require.NoError(t, err)
	require.False(t, fits)
	require.Equal(t, queue.Ticket(2504), seq)
}

func TestWhoIsPoppedWhileLotsAreDrawnIsNotLost(t *testing.T) {
	rdb := redislinetest.Start(t)
	other := New(redis.NewClient(rdb.(*redis.Client).Options()), "main")
	v := New(rdb, "main")
	_, _, err := v.Apply(ctx, 0, crowd(10), "topic")
	require.NoError(t, err)
	var popped []queue.Person
	rdb.AddHook(&finishing{before: func() { // the reply of a leader's last question before the draw comes late, or never
		people, why, err := other.Admit(ctx, queue.Ask{Epoch: 1, Batch: 1, AtLeast: 1, N: 3}, unpaced)
		require.NoError(t, err)
		require.Equal(t, queue.Handed, why)
		popped = people
	}})
	_, fits, err := v.Apply(ctx, 11, []queue.Record{lot(12)}, "topic")
	require.NoError(t, err)
	require.True(t, fits)
	require.Len(t, popped, 3)
	want := line.New()
	want.Apply(0, append(crowd(10), lot(12)))
	got, err := v.Digest(ctx)
	require.NoError(t, err)
	require.Equal(t, want.Digest(), got, "who was popped draws as well")

	// The numbers are broken: the leader of the draw asks on with the next but one, and gets whom the lot put first.
	lead := line.Lead(1)
	lead.Changed(12)
	people, why, err := v.Admit(ctx, lead.Ask(4), unpaced)
	require.NoError(t, err)
	require.Equal(t, queue.Handed, why)
	wanted, _ := want.Admit(lead.Ask(4))
	require.Equal(t, wanted, people)
}

func TestAVoidDrawOnlyUsesItsTicket(t *testing.T) {
	v := New(redislinetest.Start(t), "main")
	recs := append(crowd(20), lot(22), lot(23), queue.Record{Ticket: 24, Kind: queue.Claimed}, lot(25))
	recs[len(recs)-3].Seed = queue.Seed{9} // a second draw
	_, fits, err := v.Apply(ctx, 0, recs, "topic")
	require.NoError(t, err)
	require.True(t, fits)
	want := line.New()
	want.Apply(0, recs)
	m, _, err := v.Places(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, want.State(), m.State)
	require.Equal(t, queue.Ticket(22), m.Draw.At)
	require.Equal(t, queue.Seed{1, 2, 3}, m.Draw.Seed)
	require.Equal(t, queue.Ticket(25), m.Seq)
}

func TestAnEndedLineIsEmptyUntilItIsReopened(t *testing.T) {
	rdb := redislinetest.Start(t)
	v := New(rdb, "main")
	recs := append(crowd(20),
		queue.Record{Ticket: 22, Kind: queue.Ended, Epoch: 1, Why: "sold_out"},
		queue.Record{Ticket: 23, Kind: queue.Entered, Visitor: "late"},
		queue.Record{Ticket: 24, Kind: queue.Entered, Visitor: "later", Key: "k"})
	_, _, err := v.Apply(ctx, 0, recs, "topic")
	require.NoError(t, err)
	m, _, err := v.Places(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, queue.End{At: 22, Why: "sold_out", Over: true}, m.End)
	require.Equal(t, queue.Ticket(22), m.Served)
	require.Zero(t, m.Total)
	require.Zero(t, rdb.Exists(ctx, v.k.line, v.k.keys, v.k.pending).Val())
	_, _, err = v.Apply(ctx, 24, []queue.Record{{Ticket: 25, Kind: queue.Reopened, Epoch: 1}, {Ticket: 26, Kind: queue.Entered, Visitor: "again"}}, "topic")
	require.NoError(t, err)
	m, places, err := v.Places(ctx, []queue.Visitor{"late", "again"})
	require.NoError(t, err)
	require.Equal(t, queue.End{At: 22, Why: "sold_out"}, m.End)
	require.Equal(t, []queue.Place{{}, {Ticket: 26}}, places)
}
