package dashboard

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/follow"
)

func TestTheLastHour(t *testing.T) {
	w := newWorld("a", "idle")
	cfg := w.config()
	cfg.Sample = 5 * time.Second
	s, err := New(cfg, zap.NewNop(), nil)
	require.NoError(t, err)
	r, at := w.readings["a"], time.UnixMilli(1_700_000_000_000)
	look := func(n int) {
		for range n {
			at = at.Add(5 * time.Second)
			s.look(t.Context(), at, true)
		}
	}
	hour := func(id queue.ID) columns { return s.columnsOf(id, 0) }

	look(3)
	r.live.Waiting, r.live.Active, r.live.OldestMs = 5, 2, 9000
	r.waits = follow.Waits{P50: 1000, P90: 8000}
	r.batches = []follow.Batch{{AtMs: at.Add(2 * time.Second).UnixMilli(), People: 50}}
	look(2)
	c := hour("a")
	require.Len(t, c.AtMs, 5)
	require.Equal(t, at.UnixMilli(), c.AtMs[4])
	require.EqualValues(t, 0, *c.Waiting[2])
	require.EqualValues(t, 5, *c.Waiting[3])
	require.EqualValues(t, 2, *c.Active[4])
	require.EqualValues(t, 9000, *c.Oldest[4])
	require.EqualValues(t, 8000, *c.Nine[4])
	require.Equal(t, 10.0, *c.Rate[3])
	require.Equal(t, 0.0, *c.Rate[4], "each batch counts once")
	require.Len(t, s.columnsOf("a", 3).AtMs, 2)
	require.Empty(t, s.columnsOf("nobodys", 0).AtMs)

	// A process that lost its reading knows nothing, which is not 0.
	w.readings["b"] = w.readings["a"]
	delete(w.readings, "a")
	look(1)
	c = hour("a")
	require.Nil(t, c.Waiting[5])
	require.Nil(t, c.Rate[5])
	w.readings["a"] = w.readings["b"]

	// An hour is kept, and one of quiet costs nothing.
	r.live, r.batches = follow.Live{}, nil
	look(kept - 3)
	c = hour("a")
	require.Len(t, c.AtMs, kept)
	require.EqualValues(t, 5, *c.Waiting[1], "59 minutes ago")
	require.Nil(t, c.Waiting[2])
	require.EqualValues(t, 0, *c.Waiting[kept-1])
	require.Nil(t, s.watched["idle"].history.ring)
	require.Len(t, hour("idle").AtMs, kept)
	require.EqualValues(t, 0, *hour("idle").Waiting[100])
	look(kept)
	require.Nil(t, s.watched["a"].history.ring)
	require.EqualValues(t, 0, *hour("a").Waiting[0])

	// A queue that is made anew has no past.
	w.entries[0] = &queue.Entry{ID: "a", Version: 99, Made: 99, Settings: queue.DefaultSettings()}
	look(1)
	require.Len(t, hour("a").AtMs, 1)
}

// Redis is asked only where something has happened, and not again in a round in which it did not answer.
func TestRedisIsAskedLittle(t *testing.T) {
	w := newWorld()
	for i := range 50 {
		w.make(queue.ID(fmt.Sprint("q", i)), int64(i+1))
	}
	s, err := New(w.config(), zap.NewNop(), nil)
	require.NoError(t, err)
	at := time.UnixMilli(1_700_000_000_000)
	look := func() int {
		w.asked = 0
		at = at.Add(5 * time.Second)
		s.look(t.Context(), at, true)
		return w.asked
	}
	require.Equal(t, 50, look())
	require.LessOrEqual(t, look(), 50)
	require.Equal(t, 1, look(), "nothing has happened, and Redis might have died")
	w.readings["q7"].live.State.Seq = 12
	require.Equal(t, 1, look())
	require.EqualValues(t, 12, s.watched["q7"].behind)
	require.Equal(t, 1, look(), "until it has caught up")
	w.applied["q7"] = 12
	require.Equal(t, 1, look())
	require.Equal(t, 1, look())

	// An idle Redis that dies is away from all queues, and one that comes back empty is behind.
	for id := range w.readings {
		w.readings[id].live.State.Seq, w.applied[id] = 20, 20
	}
	require.Equal(t, 50, look())
	w.away = true
	require.Equal(t, 1, look())
	for id, x := range s.watched {
		require.EqualValues(t, -1, x.behind, id)
	}
	w.away = false
	require.Equal(t, 50, look())
	require.EqualValues(t, 0, s.watched["q9"].behind)
	clear(w.applied)
	require.Equal(t, 51, look(), "all of them are asked once one turns out to be behind")
	require.EqualValues(t, 20, s.watched["q9"].behind)
	for id := range w.readings {
		w.applied[id] = 20
	}
	require.Equal(t, 50, look())

	for _, r := range w.readings {
		r.live.State.Seq++
	}
	w.away = true
	require.Equal(t, 1, look())
	require.EqualValues(t, -1, s.watched["q9"].behind)
	w.away = false
	require.Equal(t, 50, look())
}

// A process that reads its past takes nothing of it for now.
func TestOutagesAreThoseThatWereSeen(t *testing.T) {
	w := &watched{}
	claim := func(n queue.Ticket, mode queue.Mode, at int64) {
		w.follow(queue.Record{Ticket: n, Mode: mode, AtMs: at}, true, 1000)
	}
	claim(0, queue.ModeUnknown, 0)
	claim(1, queue.ModeDirect, 100) // one of many that it reads
	claim(2, queue.ModeRedis, 900)
	require.Empty(t, w.outages)
	require.Zero(t, w.modeSince)
	claim(2, queue.ModeRedis, 900) // still: so that is how it stands
	require.EqualValues(t, 900, w.modeSince)
	claim(3, queue.ModeRedis, 1500) // another leader, in the same mode
	require.EqualValues(t, 900, w.modeSince)
	claim(4, queue.ModeDirect, 2000)
	claim(5, queue.ModeDirect, 2500)
	claim(6, queue.ModeRedis, 3000)
	require.Equal(t, []outage{{2000, 3000}}, w.outages)
	for i := range queue.Ticket(2 * outages) {
		claim(7+2*i, queue.ModeDirect, int64(4000+20*i))
		claim(8+2*i, queue.ModeRedis, int64(4010+20*i))
	}
	require.Len(t, w.outages, outages)

	alone := &watched{}
	alone.follow(queue.Record{Ticket: 1, Mode: queue.ModeDirect, AtMs: 2000}, false, 1000)
	require.Empty(t, alone.outages, "where there is no Redis, none can fail")
	require.EqualValues(t, 2000, alone.modeSince)
}
