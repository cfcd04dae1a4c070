package redisline

import (
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline/redislinetest"
)

// refusals are what a Redis says that can't be asked at the moment.
var refusals = []string{
	"LOADING Redis is loading the dataset in memory",
	"READONLY You can't write against a read only replica.",
	"ERR READONLY You can't write against a read only replica.",
	"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
	"OOM command not allowed when used memory > 'maxmemory'.",
	"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
	"NOSCRIPT No matching script. Please use EVAL.",
	"CLUSTERDOWN The cluster is down",
	"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
	"TRYAGAIN Multiple keys request during rehashing of slot",
	"NOAUTH Authentication required.",
	"WRONGTYPE Operation against a key holding the wrong kind of value",
	"ERR unknown command",
}

// Every method says that the view is away, and none reads the answer as "nobody waits" or "nothing was applied".
func TestFault11_NoRefusalIsReadAsEmpty(t *testing.T) {
	type switches struct {
		fail func(string)
		back func()
	}
	play := func(t *testing.T, v *View, s switches, kinds []string) {
		recs := []queue.Record{{Kind: queue.Entered, Ticket: 1, Visitor: "a"}, {Kind: queue.Claimed, Ticket: 2}}
		if _, fits, err := v.Apply(ctx, 0, recs, "topic"); !fits || err != nil {
			t.Fatal(fits, err)
		}
		want, err := v.Digest(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range kinds {
			s.fail(kind)
			check := func(method string, empty bool, err error) {
				t.Helper()
				if !errors.Is(err, ErrAway) || !empty {
					t.Errorf("%s on %q: %v", method, kind, err)
				}
			}
			seq, err := v.Seq(ctx)
			check("seq", seq == 0, err)
			seq, fits, err := v.Apply(ctx, 2, []queue.Record{{Kind: queue.Entered, Ticket: 3, Visitor: "b"}}, "topic")
			check("apply", seq == 0 && !fits, err)
			people, why, err := v.Admit(ctx, queue.Ask{Epoch: 2, Batch: 1, AtLeast: 2, N: 10}, unpaced)
			check("admit", people == nil && why != queue.Empty, err)
			m, places, err := v.Places(ctx, []queue.Visitor{"a"})
			check("places", m == queue.Moment{} && places == nil, err)
			d, err := v.Digest(ctx)
			check("digest", d == "", err)
			s.back()
		}
		if got, err := v.Digest(ctx); got != want || err != nil {
			t.Errorf("afterwards the line is another one, %v", err)
		}
		if people, _, err := v.Admit(ctx, queue.Ask{Epoch: 2, Batch: 1, AtLeast: 2, N: 10}, unpaced); len(people) != 1 || err != nil {
			t.Errorf("afterwards %v are handed out, %v", people, err)
		}
	}
	client := func(t *testing.T, addr string) *View {
		rdb, err := Dial(Config{Addrs: []string{addr}, Timeout: 200 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = rdb.Close() })
		return New(rdb, "main")
	}
	t.Run("miniredis", func(t *testing.T) {
		m := miniredis.RunT(t)
		play(t, client(t, m.Addr()), switches{m.SetError, func() { m.SetError("") }}, refusals)
	})
	t.Run("real", func(t *testing.T) {
		link := redislinetest.NewLink(t, redislinetest.Start(t))
		v := client(t, link.Addr())
		play(t, v, switches{link.Answer, link.Back}, refusals)
		// Redis that hangs, is gone, or cuts the answer off. (A script whose answer was lost has run, so only questions are
		// asked then.)
		play(t, New(v.rdb, "hangs"), switches{func(string) { link.Hang() }, link.Back}, []string{"hang"})
		play(t, New(v.rdb, "away"), switches{func(string) { link.Away() }, link.Back}, []string{"away"})
		link.LoseReplies()
		if _, places, err := New(v.rdb, "hangs").Places(ctx, []queue.Visitor{"a"}); !errors.Is(err, ErrAway) || places != nil {
			t.Errorf("lost: %v %v", places, err)
		}
	})
}

// The answer to an apply is lost: applying again changes nothing and says where to read on.
func TestApplyWhoseAnswerWasLost(t *testing.T) {
	link := redislinetest.NewLink(t, redislinetest.Start(t))
	rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{link.Addr()}, MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	v := New(rdb, "main")
	recs := []queue.Record{{Kind: queue.Entered, Ticket: 1, Visitor: "a"}}
	if _, err := v.Seq(ctx); err != nil {
		t.Fatal(err)
	}
	link.LoseReplies()
	for range 2 { // the first may find that the script isn't known there
		if _, fits, err := v.Apply(ctx, 0, recs, "topic"); !errors.Is(err, ErrAway) || fits {
			t.Fatalf("got %v %v", fits, err)
		}
		link.Back()
		if err := v.s.apply.Load(ctx, rdb).Err(); err != nil {
			t.Fatal(err)
		}
		link.LoseReplies()
	}
	link.Back()
	if seq, fits, err := v.Apply(ctx, 0, recs, "topic"); seq != 1 || fits || err != nil {
		t.Errorf("got seq %d, fits %v, %v", seq, fits, err)
	}
}
