package redisline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline/redislinetest"
)

// saga is a log of n entries with everything else in between: some with a key, some who leave, admissions whose grants hold,
// are over and were released, a void one.
func saga(n int) []queue.Record {
	var recs []queue.Record
	add := func(r queue.Record) queue.Ticket {
		r.Ticket = queue.Ticket(len(recs) + 1)
		recs = append(recs, r)
		return r.Ticket
	}
	v := func(i int) queue.Visitor { return fmt.Sprintf("v%d", i) }
	add(queue.Record{Kind: queue.SettingsSet, Reentry: queue.Keep})
	epoch := add(queue.Record{Kind: queue.Claimed, Mode: queue.ModeRedis})
	var entries []queue.Person
	for i := range n {
		key := ""
		if i%3 == 0 {
			key = fmt.Sprintf("key%d", i)
		}
		entries = append(entries, queue.Person{Visitor: v(i), Ticket: add(queue.Record{Kind: queue.Entered, Visitor: v(i), Key: key}), ExpiresMs: 1 << 50})
	}
	entries[1].ExpiresMs = 1 // over
	add(queue.Record{Kind: queue.Admitted, Epoch: epoch, People: slices.Clone(entries[:4])})
	add(queue.Record{Kind: queue.Released, Visitor: v(2), Of: entries[2].Ticket})
	add(queue.Record{Kind: queue.Admitted, Epoch: epoch - 1, People: slices.Clone(entries[4:6])})
	add(queue.Record{Kind: queue.Left, Visitor: v(6)})
	add(queue.Record{Kind: queue.Entered, Visitor: v(0)}) // admitted, and in line again
	return recs
}

func folded(recs []queue.Record) *line.Line {
	l := line.New()
	l.Apply(0, recs)
	return l
}

func digest(t *testing.T, v *View) string {
	t.Helper()
	d, err := v.Digest(ctx)
	require.NoError(t, err)
	return d
}

// contents is everything that Redis has of a queue, without the prefix of its keys.
func contents(t *testing.T, rdb redis.UniversalClient, id queue.ID) map[string]any {
	t.Helper()
	prefix := "soonbeon:{" + string(id) + "}:"
	all := map[string]any{}
	names, err := rdb.Keys(ctx, prefix+"*").Result()
	require.NoError(t, err)
	for _, name := range names {
		kind, err := rdb.Type(ctx, name).Result()
		require.NoError(t, err)
		var x any
		switch kind {
		case "string":
			x, err = rdb.Get(ctx, name).Result()
		case "hash":
			x, err = rdb.HGetAll(ctx, name).Result()
		case "zset":
			x, err = rdb.ZRangeWithScores(ctx, name, 0, -1).Result()
		}
		require.NoError(t, err)
		all[name[len(prefix):]] = x
		at, err := rdb.Do(ctx, "PEXPIRETIME", name).Int64()
		require.NoError(t, err)
		all[name[len(prefix):]+" ends"] = at
	}
	return all
}

// TestLoadIsWhatApplyMakes compares all that Redis holds, grants and expiries included.
func TestLoadIsWhatApplyMakes(t *testing.T) {
	rdb := redislinetest.Start(t)
	for _, n := range []int{6, 11, 2500} {
		recs := saga(max(n, 7))
		applied, loaded := New(rdb, "applied"), New(rdb, "loaded")
		_, fits, err := applied.Apply(ctx, 0, recs, "topic")
		require.NoError(t, err)
		require.True(t, fits)
		seq, err := loaded.Load(ctx, folded(recs), LoadOptions{Topic: "topic"})
		require.NoError(t, err)
		require.Equal(t, recs[len(recs)-1].Ticket, seq)
		want, got := contents(t, rdb, "applied"), contents(t, rdb, "loaded")
		require.Len(t, got["state"], 8)
		delete(got["state"].(map[string]string), "loaded")
		require.Equal(t, want, got)
		require.Contains(t, got, "grant:v0")
		require.NotContains(t, got, "grant:v1")
		require.NotContains(t, got, "grant:v2")
		require.NoError(t, rdb.FlushAll(ctx).Err())
	}
	// An empty log, over a view that has something.
	v := New(rdb, "main")
	_, _, err := v.Apply(ctx, 0, saga(9), "topic")
	require.NoError(t, err)
	_, err = v.Load(ctx, line.New(), LoadOptions{Topic: "topic", Anyway: true})
	require.NoError(t, err)
	require.Equal(t, line.New().Digest(), digest(t, v))
	require.NotContains(t, contents(t, rdb, "main"), "active")
	_, fits, err := v.Apply(ctx, 0, saga(9), "topic")
	require.NoError(t, err)
	require.True(t, fits)
}

// TestFault10_LoadInterruptedAtEveryChunk: whoever stops, and wherever, the view is as it was, and the next load succeeds.
func TestFault10_LoadInterruptedAtEveryChunk(t *testing.T) {
	rdb := redislinetest.Start(t)
	recs := saga(12)
	v := New(rdb, "main")
	v.chunk = 3
	_, _, err := v.Apply(ctx, 0, recs[:9], "topic")
	require.NoError(t, err)
	before := contents(t, rdb, "main")
	steps := 0
	for l := v.newLoad(folded(recs), LoadOptions{Topic: "topic"}); ; steps++ {
		if c, ok := l.chunk(); !ok {
			break
		} else if c.waiting == 0 {
			continue
		}
	}
	require.Greater(t, steps, 3)
	for stop := range steps + 1 { // begin, and so many chunks
		// Killed: nobody cleans up.
		l := v.newLoad(folded(recs), LoadOptions{Topic: "topic"})
		for range stop + 1 {
			done, err := l.next(ctx)
			require.NoError(t, err)
			require.False(t, done)
			holds, err := rdb.PTTL(ctx, v.k.load).Result()
			require.NoError(t, err)
			require.True(t, holds > 2*time.Second && holds <= 5*time.Second, holds)
			require.NoError(t, rdb.PExpire(ctx, v.k.load, 2*time.Second).Err()) // three seconds go by
		}
		l.close()
		for _, k := range []string{v.k.loadLine, v.k.loadKeys, v.k.loadActive} {
			if n, _ := rdb.Exists(ctx, k).Result(); n > 0 {
				require.Greater(t, rdb.PTTL(ctx, k).Val(), time.Minute, k)
			}
		}
		got := contents(t, rdb, "main")
		for k, x := range before {
			require.Equal(t, x, got[k], "%s after %d chunks", k, stop)
		}
		loading, err := v.Loading(ctx)
		require.NoError(t, err)
		require.True(t, loading)
		_, err = v.Load(ctx, folded(recs), LoadOptions{Topic: "topic"})
		require.ErrorIs(t, err, ErrLoading)
		require.NoError(t, rdb.PExpire(ctx, v.k.load, 0).Err()) // five seconds later

		// Told to stop: the next one does not have to wait.
		stopped, cancel := context.WithCancel(ctx)
		calls := 0
		_, err = v.Load(stopped, folded(recs), LoadOptions{Topic: "topic", Progress: func(int64) {
			if calls++; calls == stop+1 {
				cancel()
			}
		}})
		require.ErrorIs(t, err, ErrAway)
		require.Equal(t, slices.Sorted(maps.Keys(before)), slices.DeleteFunc(slices.Sorted(maps.Keys(contents(t, rdb, "main"))),
			func(k string) bool { return before[k] == nil && (len(k) > 6 && k[:6] == "grant:") }))

		_, err = v.Load(ctx, folded(recs), LoadOptions{Topic: "topic"})
		require.NoError(t, err)
		require.Equal(t, folded(recs).Digest(), digest(t, v))
		require.NoError(t, rdb.FlushAll(ctx).Err())
		_, _, err = v.Apply(ctx, 0, recs[:9], "topic")
		require.NoError(t, err)
	}
}

// TestFault10_LoadFromADatasetThatWentBack: chunks that Redis forgot are missed, during the load and at its end.
func TestFault10_LoadFromADatasetThatWentBack(t *testing.T) {
	rdb := redislinetest.Start(t)
	recs := saga(12)
	x := newTarget(t, rdb, "main")
	for _, c := range []struct {
		name    string
		forgets func()
	}{
		{"everything", func() { x.must(rdb.FlushAll(ctx).Err()) }},
		{"the load", func() { x.must(rdb.Del(ctx, x.v.k.load).Err()) }},
		{"somebody", func() { x.must(rdb.ZRem(ctx, x.v.k.loadLine, "v8").Err()) }},
		{"a key", func() { x.must(rdb.HDel(ctx, x.v.k.loadKeys, "v9").Err()) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			x.Restore(nil)
			x.Apply(0, recs[:9])
			before := x.Digest()
			l := x.v.newLoad(folded(recs), LoadOptions{Topic: "topic"})
			defer l.close()
			for l.waiting < int64(len(slices.Collect(folded(recs).Waiting()))) {
				_, err := l.next(ctx)
				require.NoError(t, err)
			}
			c.forgets()
			var err error
			for err == nil {
				var done bool
				done, err = l.next(ctx)
				require.False(t, done)
			}
			require.ErrorIs(t, err, ErrLost)
			if c.name != "everything" {
				require.Equal(t, before, x.Digest())
			}
		})
	}
	// A promoted replica that lacks one chunk, which the next one shows, or the last one: that of the grants.
	calls := 0
	count := x.v.newLoad(folded(recs), LoadOptions{})
	for _, more := count.chunk(); more; _, more = count.chunk() {
		calls++
	}
	for _, n := range []int{3, calls} {
		x.Restore(nil)
		l := x.v.newLoad(folded(recs), LoadOptions{Topic: "topic"})
		defer l.close()
		for range n {
			_, err := l.next(ctx)
			require.NoError(t, err)
		}
		older := x.Snapshot()
		_, err := l.next(ctx)
		require.NoError(t, err)
		x.Restore(older)
		_, err = l.next(ctx)
		require.ErrorIs(t, err, ErrLost)
	}
}

func TestTwoLoads(t *testing.T) {
	rdb := redislinetest.Start(t)
	recs := saga(12)
	v := New(rdb, "main")
	v.chunk = 3
	slow := v.newLoad(folded(recs[:8]), LoadOptions{Topic: "topic"})
	for range 2 {
		_, err := slow.next(ctx)
		require.NoError(t, err)
	}
	other := v.newLoad(folded(recs), LoadOptions{Topic: "topic"})
	_, err := other.next(ctx)
	require.ErrorIs(t, err, ErrLoading)

	require.NoError(t, rdb.PExpire(ctx, v.k.load, 0).Err())
	other = v.newLoad(folded(recs), LoadOptions{Topic: "topic"})
	for range 2 {
		_, err := other.next(ctx)
		require.NoError(t, err)
	}
	_, err = slow.call(ctx, "drop", slow.token)
	require.NoError(t, err)
	for {
		_, err := slow.next(ctx)
		if slow.seq != 0 { // its finish
			require.ErrorIs(t, err, ErrLost)
			break
		}
		require.ErrorIs(t, err, ErrLost)
	}
	for done := false; !done; {
		done, err = other.next(ctx)
		require.NoError(t, err)
	}
	require.Equal(t, folded(recs).Digest(), digest(t, v))
}

// twice makes every command run twice, as for a caller whose first reply was cut.
type twice struct{}

func (twice) DialHook(next redis.DialHook) redis.DialHook { return next }
func (twice) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (twice) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := next(ctx, cmd); err != nil {
			return err
		}
		return next(ctx, cmd)
	}
}

func TestLoadRepeated(t *testing.T) {
	rdb := redislinetest.Start(t)
	recs := saga(30)
	v := New(rdb, "main")
	v.chunk = 4
	rdb.AddHook(twice{})
	_, err := v.Load(ctx, folded(recs), LoadOptions{Topic: "topic"})
	require.NoError(t, err)
	require.Equal(t, folded(recs).Digest(), digest(t, v))
}

func TestLoadLeavesAViewThatIsAhead(t *testing.T) {
	rdb := redislinetest.Start(t)
	recs := saga(12)
	v := New(rdb, "main")
	v.chunk = 3
	_, _, err := v.Apply(ctx, 0, recs, "topic")
	require.NoError(t, err)
	before := contents(t, rdb, "main")
	for _, n := range []int{9, len(recs)} {
		seq, err := v.Load(ctx, folded(recs[:n]), LoadOptions{Topic: "topic"})
		require.NoError(t, err)
		require.Equal(t, recs[len(recs)-1].Ticket, seq)
		require.Equal(t, before, contents(t, rdb, "main"))
	}
	// It gets ahead while the load is under way.
	require.NoError(t, v.Drop(ctx))
	l := v.newLoad(folded(recs[:9]), LoadOptions{Topic: "topic"})
	defer l.close()
	for range 2 {
		_, err := l.next(ctx)
		require.NoError(t, err)
	}
	_, _, err = v.Apply(ctx, 0, recs, "topic")
	require.NoError(t, err)
	for done := false; !done; {
		done, err = l.next(ctx)
		require.NoError(t, err)
	}
	require.Equal(t, recs[len(recs)-1].Ticket, l.seq)
	require.Equal(t, before, contents(t, rdb, "main"))

	// An operator wants it all the same.
	require.NoError(t, rdb.ZAdd(ctx, v.k.line, redis.Z{Score: 1, Member: "intruder"}).Err())
	seq, err := v.Load(ctx, folded(recs), LoadOptions{Topic: "topic", Back: true})
	require.NoError(t, err)
	require.Equal(t, recs[len(recs)-1].Ticket, seq)
	require.Equal(t, folded(recs).Digest(), digest(t, v))
}

func TestLoadOfAnotherTopic(t *testing.T) {
	rdb := redislinetest.Start(t)
	v := New(rdb, "main")
	_, _, err := v.Apply(ctx, 0, saga(9), "old")
	require.NoError(t, err)
	before := contents(t, rdb, "main")
	for _, back := range []bool{false, true} {
		_, err = v.Load(ctx, folded(saga(12)), LoadOptions{Topic: "new", Back: back})
		require.ErrorIs(t, err, ErrOtherTopic)
	}
	require.Equal(t, before, contents(t, rdb, "main"))
	_, err = v.Load(ctx, folded(saga(12)), LoadOptions{Topic: "new", Anyway: true})
	require.NoError(t, err)
	_, _, err = v.Apply(ctx, folded(saga(12)).State().Seq, []queue.Record{{Ticket: 100}}, "old")
	require.ErrorIs(t, err, ErrOtherTopic)
}

// TestLoadForgetsPops: what was popped and is in no log yet is in line again, and the leader is behind until its own last
// record was applied. The bucket is kept: a rebuild lets nobody through faster.
func TestLoadForgetsPops(t *testing.T) {
	rdb := redislinetest.Start(t)
	recs := saga(12)
	v := New(rdb, "main")
	_, _, err := v.Apply(ctx, 0, recs, "topic")
	require.NoError(t, err)
	lead := line.Lead(2)
	last := recs[len(recs)-1].Ticket
	lead.Noted(last)
	people, why, err := v.Admit(ctx, lead.Ask(3), unpaced)
	require.NoError(t, err)
	require.Equal(t, queue.Handed, why)
	lead.Got(people, why)
	lead.Appended(last+1, len(lead.Held()))
	bucket := contents(t, rdb, "main")["pace"]

	_, err = v.Load(ctx, folded(recs), LoadOptions{Topic: "topic", Anyway: true})
	require.NoError(t, err)
	require.Equal(t, bucket, contents(t, rdb, "main")["pace"])
	_, why, err = v.Admit(ctx, lead.Ask(3), unpaced)
	require.NoError(t, err)
	require.Equal(t, queue.Behind, why)
	_, fits, err := v.Apply(ctx, last, []queue.Record{{Ticket: last + 1, Kind: queue.Admitted, Epoch: 2, People: people}}, "topic")
	require.NoError(t, err)
	require.True(t, fits)
	next, why, err := v.Admit(ctx, lead.Ask(3), unpaced)
	require.NoError(t, err)
	require.Equal(t, queue.Handed, why)
	require.Greater(t, next[0].Ticket, people[2].Ticket)
}

// TestFault11_LoadIntoAFullRedis: it is refused, and the view goes on.
func TestFault11_LoadIntoAFullRedis(t *testing.T) {
	rdb := redislinetest.Start(t)
	v := New(rdb, "main")
	_, _, err := v.Apply(ctx, 0, saga(9), "topic")
	require.NoError(t, err)
	before := digest(t, v)
	require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "1mb").Err())
	_, err = v.Load(ctx, folded(saga(12)), LoadOptions{Topic: "topic"})
	require.ErrorIs(t, err, ErrAway)
	require.False(t, errors.Is(err, ErrLost))
	require.Equal(t, before, digest(t, v))
	require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "0").Err())
	_, err = v.Load(ctx, folded(saga(12)), LoadOptions{Topic: "topic"})
	require.NoError(t, err)
}

// BenchmarkLoad is one who waits, loaded.
func BenchmarkLoad(b *testing.B) {
	v := New(redislinetest.Start(b), "main")
	l := line.New()
	for n := 0; n < b.N; n += 1000 {
		recs := make([]queue.Record, min(1000, b.N-n))
		for i := range recs {
			recs[i] = queue.Record{Ticket: queue.Ticket(n + i + 1), Kind: queue.Entered, Visitor: queue.NewVisitor()}
		}
		l.Apply(l.State().Seq, recs)
	}
	b.ResetTimer()
	if _, err := v.Load(ctx, l, LoadOptions{Topic: "topic"}); err != nil {
		b.Fatal(err)
	}
}
