package audit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
	"github.com/soonbeon/soonbeon/pkg/redisline/redislinetest"
)

// half is a sale that is cut short, so that people wait at its end.
func half() *written {
	w := sale(3000)
	w.recs = w.recs[:3060]
	return w
}

func TestRedisIsComparedWithTheLog(t *testing.T) {
	ctx := t.Context()
	rdb := redislinetest.Start(t)
	view := redisline.New(rdb, "main")
	w := half()
	end := w.recs[len(w.recs)-1].Ticket
	apply := func(to queue.Ticket) {
		seq, err := view.Seq(ctx)
		require.NoError(t, err)
		_, fits, err := view.Apply(ctx, seq, w.recs[seq:to], "topic-1")
		require.NoError(t, err)
		require.True(t, fits)
	}
	compare := func() *Report {
		return w.audit(t, func(c *Config) { c.Redis, c.TopicID, c.Settle = view, "topic-1", 50*time.Millisecond })
	}

	apply(1000)
	r := compare()
	require.True(t, r.OK(), r.Text())
	require.EqualValues(t, end-1000, r.Redis.Behind)
	require.EqualValues(t, end-1000, r.Find(RedisBehind).Count)
	require.Positive(t, r.Redis.Compared)
	require.True(t, r.Redis.Exact)
	require.Contains(t, r.Text(), "behind after")

	apply(end)
	_, why, err := view.Admit(ctx, queue.Ask{Epoch: r.Claims[0].Ticket, Batch: 1, N: 20}, queue.Settings{Rate: 1000, Interval: 100 * time.Millisecond, GrantTTL: time.Minute})
	require.NoError(t, err)
	require.Equal(t, queue.Handed, why)
	r = compare()
	require.Empty(t, r.Findings, r.Text())
	require.EqualValues(t, r.Waiting, r.Redis.Compared, "who is popped still waits by the log")
	require.Equal(t, r.Digest, r.Redis.Digest)
	require.Contains(t, r.Text(), "equal")

	// A visitor is missing, one is too many, one has another's ticket, one another key, and served is wrong.
	line := "soonbeon:{main}:line"
	who := rdb.ZRange(ctx, line, 1100, 1104).Val()
	require.NoError(t, rdb.ZRem(ctx, line, who[0]).Err())
	require.NoError(t, rdb.ZAdd(ctx, line, redis.Z{Member: who[1], Score: 9_000_000}).Err())
	require.NoError(t, rdb.HSet(ctx, "soonbeon:{main}:keys", who[2], "forged").Err())
	require.NoError(t, rdb.HSet(ctx, "soonbeon:{main}:state", "served", 5).Err())
	r = compare()
	require.False(t, r.OK())
	require.Equal(t, ExitWrong, r.ExitCode())
	for _, want := range []string{
		"visitor " + Hash(who[0]) + " waits by the log with ticket", "visitor " + Hash(who[1]) + " waits in Redis with ticket 9000000, and not by the log",
		"visitor " + Hash(who[1]) + " waits by the log with ticket", "visitor " + Hash(who[2]) + " (ticket", "served 5", "counts",
	} {
		require.Contains(t, r.Text(), want)
	}
	require.EqualValues(t, 6, r.Find(RedisDiffers).Count)
	require.NotContains(t, r.Text(), "visitor-")
}

func TestRedisThatKnowsMoreThanTheLog(t *testing.T) {
	w := half()
	rdb := redislinetest.Start(t)
	view := redisline.New(rdb, "main")
	_, _, err := view.Apply(t.Context(), 0, w.recs, "topic-1")
	require.NoError(t, err)
	w.recs = w.recs[:2000]
	r := w.audit(t, func(c *Config) { c.Redis = view })
	require.NotNil(t, r.Find(RedisAhead), r.Text())
	require.Equal(t, ExitWrong, r.ExitCode())
	require.Contains(t, r.Text(), "not compared")

	r = w.audit(t, func(c *Config) { c.Redis, c.TopicID = view, "topic-2" })
	require.NotNil(t, r.Find(RedisOtherTopic), r.Text())
	require.Equal(t, ExitWrong, r.ExitCode())
}

// moving is a view that is at one record when its reading begins and at another when it ends.
type moving struct {
	recs          []queue.Record
	before, after queue.Ticket
	people        []queue.Waiting
	err           error
}

func at2(recs []queue.Record, t queue.Ticket) *line.Line {
	l := line.New()
	l.Apply(0, recs[:t])
	return l
}

func (m *moving) Seq(context.Context) (queue.Ticket, error) { return m.before, m.err }

func (m *moving) Snapshot(context.Context) (*redisline.Snapshot, error) {
	moment := func(t queue.Ticket) queue.Moment {
		l := at2(m.recs, t)
		return queue.Moment{State: l.State(), Total: l.Total()}
	}
	return &redisline.Snapshot{Before: moment(m.before), After: moment(m.after), People: m.people}, m.err
}

// A view that moves while it is read is not of one moment: whoever moved may be in it or not, and nobody else.
func TestRedisThatMovesIsCompared(t *testing.T) {
	w := sale(3000)
	v := &moving{recs: w.recs, before: 1000, after: 3200}
	old, now := map[queue.Visitor]queue.Waiting{}, map[queue.Visitor]queue.Waiting{}
	for p := range at2(w.recs, v.before).Waiting() {
		old[p.Visitor] = p
	}
	for p := range at2(w.recs, v.after).Waiting() {
		now[p.Visitor] = p
	}
	whole := at2(w.recs, 2000).Waiting() // as of some moment between
	for p := range whole {
		v.people = append(v.people, p)
	}
	log := func() Source { // the audit begins at record 1000, and the log goes on
		return &later{OfRecords(w.recs), 1000, queue.Ticket(len(w.recs))}
	}
	run := func() *Report {
		r, err := Run(t.Context(), Config{Queue: "main", Redis: v}, log())
		require.NoError(t, err)
		return r
	}
	r := run()
	require.True(t, r.OK(), r.Text())
	require.False(t, r.Redis.Exact)
	require.EqualValues(t, 1000, r.Records)
	require.Contains(t, r.Text(), "while it moved")

	stayed := -1
	for i, p := range v.people {
		if old[p.Visitor] == p && now[p.Visitor] == p {
			stayed = i
			break
		}
	}
	require.NotEqual(t, -1, stayed)
	gone := v.people[stayed]
	v.people = append([]queue.Waiting{{Visitor: "nobody", Ticket: 1}}, v.people...) // there was no such entry
	stayed++
	v.people = append(append([]queue.Waiting(nil), v.people[:stayed]...), v.people[stayed+1:]...)
	r = run()
	require.False(t, r.OK())
	require.EqualValues(t, 2, r.Redis.Differences, r.Text())
	require.Contains(t, r.Text(), "visitor "+Hash("nobody")+" waits in Redis with ticket 1, and not by the log")
	require.Contains(t, r.Text(), "visitor "+Hash(gone.Visitor)+" waits by the log with ticket")
}

// Where the draw fell while Redis was read, everybody's number changed: nobody is compared, and the moments are.
func TestRedisThatIsReadAcrossTheDrawIsNotComparedOneByOne(t *testing.T) {
	w, _ := lottery(100, seedOf(3))
	v := &moving{recs: w.recs, before: 100, after: 105}
	for p := range at2(w.recs, 103).Waiting() {
		v.people = append(v.people, p)
	}
	run := func() *Report { return w.audit(t, func(c *Config) { c.Redis, c.Settle = v, time.Nanosecond }) }
	r := run()
	require.True(t, r.OK(), r.Text())
	require.Zero(t, r.Redis.Compared)

	v.before, v.after, v.people = 104, 104, nil
	for p := range at2(w.recs, 104).Waiting() {
		v.people = append(v.people, p)
	}
	r = run()
	require.True(t, r.OK(), r.Text())
	require.EqualValues(t, 102, r.Redis.Compared)
	v.people[0], v.people[7] = v.people[7], v.people[0]
	v.people[0].Ticket, v.people[7].Ticket = v.people[7].Ticket, v.people[0].Ticket
	require.EqualValues(t, 2, run().Redis.Differences, "two people have each other's lot")
}

// later is a log that grows after its bounds were asked for the first time.
type later struct {
	Source
	end, grown queue.Ticket
}

func (l *later) Bounds(context.Context) (first, next queue.Ticket, err error) {
	next, l.end = l.end+1, l.grown
	return 1, next, nil
}

func TestRedisThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sale(100)
		began := time.Now()
		r := w.audit(t, func(c *Config) { c.Redis = &moving{err: errors.New("connection refused")} })
		require.Equal(t, 5*time.Second, time.Since(began), "it may come back")
		require.NotNil(t, r.Find(RedisAway))
		require.Equal(t, ExitWrong, r.ExitCode())
		require.EqualValues(t, 98, r.Admitted, "the report on the log is whole")
		require.Contains(t, r.Text(), "connection refused")
	})
}

func TestRedisThatCatchesUpIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sale(100)
		end := w.recs[len(w.recs)-1].Ticket
		v := &catching{moving: moving{recs: w.recs, before: end, after: end}, from: time.Now().Add(2 * time.Second)}
		r := w.audit(t, func(c *Config) { c.Redis = v })
		require.Empty(t, r.Findings, r.Text())
		require.InDelta(t, 2000, r.Redis.WaitedMs, 60)
	})
}

// catching is a view that has applied the log only after a time.
type catching struct {
	moving
	from time.Time
}

func (c *catching) Seq(context.Context) (queue.Ticket, error) {
	if time.Now().Before(c.from) {
		return 3, nil
	}
	return c.after, nil
}
