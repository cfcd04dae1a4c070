package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
	"github.com/soonbeon/soonbeon/pkg/redisline/redislinetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const main queue.ID = "main"

const patience = 60 * time.Second

// fixture is a log in memory and a real Redis.
type fixture struct {
	t      *testing.T
	broker *linelogtest.Broker
	log    *linelog.Log
	rdb    redis.UniversalClient
	view   *redisline.View
	names  int
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, broker: linelogtest.Start(t), rdb: redislinetest.Start(t)}
	f.log, f.view = f.broker.Log(t), redisline.New(f.rdb, main)
	_, _, err := f.log.EnsureQueue(f.soon(), main)
	require.NoError(t, err)
	return f
}

func (f *fixture) soon() context.Context {
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	f.t.Cleanup(cancel)
	return ctx
}

// crowd lets n more people enter, every third with a key.
func (f *fixture) crowd(n int) {
	f.broker.AppendMany(main, n, func(i int) queue.Record {
		r := queue.Record{Kind: queue.Entered, Visitor: fmt.Sprintf("v%d", f.names+i)}
		if (f.names+i)%3 == 0 {
			r.Key = fmt.Sprintf("key%d", f.names+i)
		}
		return r
	})
	f.names += n
}

func (f *fixture) records() []queue.Record { return linelogtest.ReadAll(f.t, f.log, main, 0) }

// byLog is the digest that the view must have.
func (f *fixture) byLog() string {
	l := line.New()
	require.True(f.t, l.Apply(0, f.records()))
	return l.Digest()
}

func (f *fixture) inRedis() string {
	d, err := f.view.Digest(f.soon())
	require.NoError(f.t, err)
	return d
}

func (f *fixture) topic() string {
	topic, err := f.log.Topic(f.soon(), main)
	require.NoError(f.t, err)
	return topic
}

func (f *fixture) apply() {
	seq, err := f.view.Seq(f.soon())
	require.NoError(f.t, err)
	if recs := linelogtest.ReadAll(f.t, f.log, main, seq); len(recs) > 0 {
		_, fits, err := f.view.Apply(f.soon(), seq, recs, f.topic())
		require.NoError(f.t, err)
		require.True(f.t, fits)
	}
}

func TestRebuild(t *testing.T) {
	f := newFixture(t)
	f.crowd(2500)
	steps := map[Step][]int64{}
	r, err := Rebuild(f.soon(), f.log, f.view, main, false, func(s Step, done, total int64) {
		require.LessOrEqual(t, done, total)
		require.EqualValues(t, 2500, total)
		steps[s] = append(steps[s], done)
	})
	require.NoError(t, err)
	require.Equal(t, f.byLog(), f.inRedis())
	require.EqualValues(t, 2500, r.Seq)
	require.EqualValues(t, 2500, r.Waiting)
	require.EqualValues(t, 2500, r.Records)
	require.Len(t, steps, 2)
	for _, done := range steps {
		require.True(t, slices.IsSorted(done))
		require.EqualValues(t, 2500, done[len(done)-1])
	}
	// Over a view that is up to date and wrong.
	require.NoError(t, f.rdb.ZRem(f.soon(), "soonbeon:{main}:line", "v7").Err())
	require.NotEqual(t, f.byLog(), f.inRedis())
	_, err = Rebuild(f.soon(), f.log, f.view, main, false, nil)
	require.NoError(t, err)
	require.Equal(t, f.byLog(), f.inRedis())
}

// growing lets more people enter each time before a load.
type growing struct {
	*redisline.View
	before func()
}

func (g growing) Load(ctx context.Context, fold redisline.Fold, opts redisline.LoadOptions) (queue.Ticket, error) {
	g.before()
	return g.View.Load(ctx, fold, opts)
}

func TestRebuildCatchesUp(t *testing.T) {
	f := newFixture(t)
	f.crowd(100)
	r, err := Rebuild(f.soon(), f.log, growing{f.view, func() { f.crowd(1500) }}, main, false, nil)
	require.NoError(t, err)
	require.EqualValues(t, 1600, r.Seq)
	require.Equal(t, f.byLog(), f.inRedis())
}

func TestFault10_RebuildBeginsAnewWhenALoadIsLost(t *testing.T) {
	f := newFixture(t)
	f.crowd(100)
	calls := 0
	_, err := Rebuild(f.soon(), f.log, broken{f.view, func() error {
		if calls++; calls < loadTries {
			return redisline.ErrLost
		}
		return nil
	}}, main, false, nil)
	require.NoError(t, err)
	require.Equal(t, f.byLog(), f.inRedis())
	_, err = Rebuild(f.soon(), f.log, broken{f.view, func() error { return redisline.ErrAway }}, main, false, nil)
	require.ErrorIs(t, err, redisline.ErrAway)
}

type broken struct {
	*redisline.View
	load func() error
}

func (b broken) Load(ctx context.Context, fold redisline.Fold, opts redisline.LoadOptions) (queue.Ticket, error) {
	if err := b.load(); err != nil {
		return 0, err
	}
	return b.View.Load(ctx, fold, opts)
}

func TestRebuildRefusesAViewThatKnowsMore(t *testing.T) {
	f := newFixture(t)
	f.crowd(100)
	_, err := Rebuild(f.soon(), f.log, f.view, main, false, nil)
	require.NoError(t, err)
	before := f.inRedis()
	require.NoError(t, f.rdb.IncrBy(f.soon(), "soonbeon:{main}:seq", 5).Err()) // the log has lost its end
	_, err = Rebuild(f.soon(), f.log, f.view, main, false, nil)
	require.ErrorIs(t, err, ErrKnowsMore)
	c, err := Compare(f.soon(), f.log, f.view, main, nil)
	require.NoError(t, err)
	require.Equal(t, map[Kind]int64{Ahead: 1}, c.Counts)
	require.NoError(t, f.rdb.IncrBy(f.soon(), "soonbeon:{main}:seq", -5).Err())

	f.broker.Recreate(main) // Redis is all that is left of them
	f.broker = linelogtest.At(t, f.broker.Addrs())
	f.crowd(200)
	_, err = Rebuild(f.soon(), f.log, f.view, main, false, nil)
	require.ErrorIs(t, err, ErrKnowsMore)
	require.Equal(t, before, f.inRedis())
	c, err = Compare(f.soon(), f.log, f.view, main, nil)
	require.NoError(t, err)
	require.Equal(t, map[Kind]int64{OtherTopic: 1}, c.Counts)
	_, err = Rebuild(f.soon(), f.log, f.view, main, true, nil)
	require.NoError(t, err)
	require.Equal(t, f.byLog(), f.inRedis())
}

func TestFault10_TwoRebuildsAtOnce(t *testing.T) {
	f := newFixture(t)
	f.crowd(20_000)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			_, err := Rebuild(f.soon(), f.log, f.view, main, false, nil)
			require.NoError(t, err)
		})
	}
	all.Wait()
	require.Equal(t, f.byLog(), f.inRedis())
}

// TestFault10_RebuildAfterALoaderDied waits until the other is taken to be dead, however often it has to ask.
func TestFault10_RebuildAfterALoaderDied(t *testing.T) {
	f := newFixture(t)
	f.crowd(100)
	require.NoError(t, f.rdb.HSet(f.soon(), "soonbeon:{main}:load", "token", "another's", "step", "0").Err())
	asked := 0
	_, err := Rebuild(f.soon(), f.log, f.view, main, false, func(s Step, _, _ int64) {
		if s == Waiting {
			if asked++; asked == loadTries+1 {
				require.NoError(t, f.rdb.Del(f.soon(), "soonbeon:{main}:load").Err())
			}
		}
	})
	require.NoError(t, err)
	require.Equal(t, loadTries+1, asked)
	require.Equal(t, f.byLog(), f.inRedis())
}

// TestFault10_RebuildWhileEverythingRuns rebuilds again and again while two projectors apply, a leader pops and people enter:
// in the end nobody was let in twice or out of order, and Redis is the line of the log.
func TestFault10_RebuildWhileEverythingRuns(t *testing.T) {
	f := newFixture(t)
	f.crowd(5000)
	writer, err := f.log.NewWriter()
	require.NoError(t, err)
	defer writer.Close()
	topic := f.topic()
	ctx, stop := context.WithCancel(f.soon())
	defer stop()
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() { f.project(ctx, topic) })
	}
	admitted := 0
	enough := make(chan struct{})
	all.Go(func() { // a leader
		epoch, _, err := writer.AppendUntil(ctx, main, queue.Record{Kind: queue.Claimed, Mode: queue.ModeRedis})
		if err != nil {
			return
		}
		lead := line.Lead(epoch)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			people, why, err := f.view.Admit(ctx, lead.Ask(5), queue.Settings{Rate: 1e6, Interval: time.Second, GrantTTL: time.Hour})
			if err != nil {
				continue
			}
			lead.Got(people, why)
			if why != queue.Handed {
				continue
			}
			for i := range people {
				people[i].ExpiresMs = 1 << 50
			}
			ticket, _, err := writer.AppendUntil(ctx, main, queue.Record{Kind: queue.Admitted, Epoch: epoch, People: people})
			if err != nil {
				return
			}
			lead.Appended(ticket, len(people))
			if admitted += len(people); admitted >= 500 && enough != nil {
				close(enough)
				enough = nil
			}
		}
	})
	compared := 0
	wait := enough
	for n := 0; ; n++ {
		if n%2 == 0 {
			f.crowd(300)
			_, err = Rebuild(f.soon(), f.log, f.view, main, false, nil)
			require.NoError(t, err)
		} else if c, err := Compare(f.soon(), f.log, f.view, main, nil); err == nil { // and a comparison meanwhile cries no wolf
			require.Empty(t, c.Examples)
			compared++
		}
		select {
		case <-wait:
			if n > 8 {
				goto done
			}
		case <-ctx.Done():
			t.Fatal("the leader got nobody in")
		default:
		}
	}
done:
	require.Positive(t, compared)
	stop()
	all.Wait()
	f.apply()
	require.Equal(t, f.byLog(), f.inRedis())
	served, people := queue.Ticket(0), 0
	for _, r := range f.records() {
		for _, p := range r.People {
			require.Greater(t, p.Ticket, served)
			served = p.Ticket
			people++
		}
	}
	require.GreaterOrEqual(t, people, 500)
}

// project is a projector, as small as can be.
func (f *fixture) project(ctx context.Context, topic string) {
	seq := queue.Ticket(0)
	for ctx.Err() == nil {
		r := f.log.NewReader(main, seq, topic)
		for fits := true; fits; {
			recs, err := r.Next(ctx)
			if err != nil {
				break
			}
			if seq, fits, err = f.view.Apply(ctx, seq, recs, topic); err != nil {
				break
			}
		}
		r.Close()
	}
}

func TestCompare(t *testing.T) {
	f := newFixture(t)
	c, err := Compare(f.soon(), f.log, f.view, main, nil)
	require.NoError(t, err)
	require.True(t, c.Same())

	f.crowd(1000)
	f.apply()
	f.crowd(10)
	c, err = Compare(f.soon(), f.log, f.view, main, nil)
	require.NoError(t, err)
	require.True(t, c.Same())
	require.True(t, c.Exact)
	require.EqualValues(t, 1000, c.Seq)
	require.EqualValues(t, 10, c.Behind)
	require.EqualValues(t, 1000, c.Waiting)

	// Who is popped and in no log yet waits.
	_, _, err = f.view.Admit(f.soon(), queue.Ask{Epoch: 1, Batch: 1, N: 5}, queue.DefaultSettings())
	require.NoError(t, err)
	c, err = Compare(f.soon(), f.log, f.view, main, nil)
	require.NoError(t, err)
	require.True(t, c.Same())

	const key = "soonbeon:{main}:"
	for _, tamper := range []struct {
		kind Kind
		do   func() error
	}{
		{Missing, func() error { return f.rdb.ZRem(f.soon(), key+"line", "v100").Err() }},
		{Extra, func() error { return f.rdb.ZAdd(f.soon(), key+"line", redis.Z{Score: 50, Member: "intruder"}).Err() }},
		{Ticket, func() error { return f.rdb.ZAdd(f.soon(), key+"line", redis.Z{Score: 7.0, Member: "v500"}).Err() }},
		{Key, func() error { return f.rdb.HSet(f.soon(), key+"keys", "v300", "other").Err() }},
		{Key, func() error { return f.rdb.HDel(f.soon(), key+"keys", "v300").Err() }},
		{State, func() error { return f.rdb.HSet(f.soon(), key+"state", "served", 3).Err() }},
		{State, func() error { return f.rdb.HSet(f.soon(), key+"state", "epoch", 3).Err() }},
	} {
		_, err := Rebuild(f.soon(), f.log, f.view, main, false, nil)
		require.NoError(t, err)
		require.NoError(t, tamper.do())
		c, err = Compare(f.soon(), f.log, f.view, main, nil)
		require.NoError(t, err)
		delete(c.Counts, Count)
		require.Equal(t, map[Kind]int64{tamper.kind: 1}, c.Counts)
		for _, e := range c.Examples {
			require.NotRegexp(t, `\bv\d+\b|intruder`, e)
		}
	}
	// A whole line that is missing is told by a few.
	require.NoError(t, f.rdb.Del(f.soon(), key+"line").Err())
	c, err = Compare(f.soon(), f.log, f.view, main, nil)
	require.NoError(t, err)
	require.EqualValues(t, 1010, c.Counts[Missing])
	require.EqualValues(t, 1, c.Counts[Count])
	require.Len(t, c.Examples, maxExamples+2) // of those who are missing, of the number, of the epoch above
}

// still is a view whose snapshot is of two moments.
type still struct {
	View
	snap *redisline.Snapshot
}

func (s still) Snapshot(context.Context) (*redisline.Snapshot, error) { return s.snap, nil }

// TestCompareWhileRedisMoves: whoever moved while Redis was read is not compared; everybody else is.
func TestCompareWhileRedisMoves(t *testing.T) {
	f := newFixture(t)
	f.crowd(10) // v0 … v9, tickets 1 … 10
	f.apply()
	before, err := f.view.Snapshot(f.soon())
	require.NoError(t, err)
	f.broker.AppendMany(main, 5, func(i int) queue.Record {
		return []queue.Record{
			{Kind: queue.Left, Visitor: "v1"},
			{Kind: queue.Entered, Visitor: "v2"},  // moves back to ticket 12
			{Kind: queue.Entered, Visitor: "new"}, // ticket 13
			{Kind: queue.Left, Visitor: "new"},
			{Kind: queue.Entered, Visitor: "late"}, // ticket 15, and waits
		}[i]
	})
	f.apply()
	after, err := f.view.Snapshot(f.soon())
	require.NoError(t, err)
	torn := &redisline.Snapshot{Before: before.Before, After: after.After, Topic: before.Topic}
	for _, people := range [][]queue.Waiting{before.People, after.People, append(slices.Clone(after.People), queue.Waiting{Visitor: "new", Ticket: 13})} {
		torn.People = people
		c, err := Compare(f.soon(), f.log, still{f.view, torn}, main, nil)
		require.NoError(t, err)
		require.Empty(t, c.Examples)
		require.False(t, c.Exact)
		torn.People = people[1:] // v0 did not move
		c, err = Compare(f.soon(), f.log, still{f.view, torn}, main, nil)
		require.NoError(t, err)
		require.Equal(t, map[Kind]int64{Missing: 1}, c.Counts)
		torn.People = append(slices.Clone(people), queue.Waiting{Visitor: "intruder", Ticket: 9})
		c, err = Compare(f.soon(), f.log, still{f.view, torn}, main, nil)
		require.NoError(t, err)
		require.Equal(t, map[Kind]int64{Extra: 1}, c.Counts)
	}
	torn.People = after.People
	torn.After.Served = 3
	c, err := Compare(f.soon(), f.log, still{f.view, torn}, main, nil)
	require.NoError(t, err)
	require.Equal(t, map[Kind]int64{State: 1}, c.Counts)
	torn.Before, torn.After = torn.After, torn.Before
	_, err = Compare(f.soon(), f.log, still{f.view, torn}, main, nil)
	require.ErrorContains(t, err, "went back in time")
}

func TestThen(t *testing.T) {
	f := newFixture(t)
	f.crowd(1500)
	recs := f.records()
	p, err := Then(f.soon(), f.log, main, Moment{Ticket: 1200}, nil)
	require.NoError(t, err)
	require.EqualValues(t, 1200, p.State().Seq)
	require.EqualValues(t, 1200, p.Total())
	require.Equal(t, queue.Waiting{Visitor: "v0", Ticket: 1, Key: "key0"}, p.First)
	require.EqualValues(t, 1200, p.Last.Ticket)
	require.Equal(t, recs[1199].AtMs, p.At.UnixMilli())
	who, ok := p.Holder(700)
	require.True(t, ok)
	place, ok := p.Place(who)
	require.True(t, ok)
	require.EqualValues(t, 699, place.Ahead)
	_, ok = p.Holder(1201)
	require.False(t, ok)

	// By time: all that the broker appended until then, and nothing later.
	last := recs[len(recs)-1].AtMs
	for time.Now().UnixMilli() <= last+1 {
		<-time.After(time.Millisecond)
	}
	f.crowd(10)
	p, err = Then(f.soon(), f.log, main, Moment{At: time.UnixMilli(last)}, nil)
	require.NoError(t, err)
	require.EqualValues(t, 1500, p.State().Seq)
	p, err = Then(f.soon(), f.log, main, Moment{At: time.UnixMilli(recs[0].AtMs - 1)}, nil)
	require.NoError(t, err)
	require.Zero(t, p.State().Seq)
	require.Zero(t, p.First)
	require.True(t, p.At.IsZero())
	p, err = Then(f.soon(), f.log, main, Moment{Ticket: 9999}, nil)
	require.NoError(t, err)
	require.EqualValues(t, 1510, p.State().Seq)

	f.broker.Trim(main, 5)
	_, err = Then(f.soon(), f.log, main, Moment{Ticket: 10}, nil)
	var trouble *linelog.TroubleError
	require.True(t, errors.As(err, &trouble) && trouble.Kind == linelog.Trimmed, err)
	_, err = Then(f.soon(), f.log, "other", Moment{Ticket: 10}, nil)
	require.ErrorIs(t, err, linelog.ErrNoQueue)
}
