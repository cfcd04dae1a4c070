package redisline

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/line/linetest"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// target is a View as linetest drives it.
type target struct {
	t interface{ Fatalf(string, ...any) }
	v *View
}

var (
	_ linetest.Target = (*target)(nil)
	_ linetest.Loader = (*target)(nil)
)

// unpaced never binds.
var unpaced = queue.Settings{Rate: 1e6, Interval: time.Second, GrantTTL: time.Hour}

func newTarget(t interface{ Fatalf(string, ...any) }, rdb redis.UniversalClient, id queue.ID) *target {
	x := &target{t, New(rdb, id)}
	x.v.chunk = 2
	x.Restore(nil)
	return x
}

func (x *target) must(err error) {
	if err != nil {
		x.t.Fatalf("%v", err)
	}
}

func (x *target) Apply(follows queue.Ticket, recs []queue.Record) bool {
	if len(recs) == 0 {
		return follows == x.State().Seq
	}
	if slices.ContainsFunc(recs, func(r queue.Record) bool { return r.Kind == queue.Drawn }) {
		x.must(x.v.rdb.Del(ctx, x.v.k.load).Err()) // a draw is a load, and one that lies there is taken to be dead after a while
	}
	seq, fits, err := x.v.Apply(ctx, follows, recs, "topic")
	x.must(err)
	if got := x.State().Seq; got != seq {
		x.t.Fatalf("apply says that seq is %d, and it is %d", seq, got)
	}
	return fits
}

func (x *target) Admit(ask queue.Ask) ([]queue.Person, queue.Reason) {
	people, why, err := x.v.Admit(ctx, ask, unpaced)
	x.must(err)
	return people, why
}

func (x *target) State() queue.State {
	m, _, err := x.v.Places(ctx, nil)
	x.must(err)
	return m.State
}

func (x *target) Place(who queue.Visitor) (queue.Place, bool) {
	_, p, err := x.v.Places(ctx, []queue.Visitor{who})
	x.must(err)
	return p[0], p[0].Ticket != 0
}

func (x *target) Total() int64 {
	m, _, err := x.v.Places(ctx, nil)
	x.must(err)
	return m.Total
}

func (x *target) Digest() string {
	d, err := x.v.Digest(ctx)
	x.must(err)
	return d
}

// StartLoad begins a load over whatever there is. One that is under way is taken to be dead when a new one begins.
func (x *target) StartLoad(l *line.Line) func() (done, ok bool) {
	next := x.v.newLoad(l, LoadOptions{Topic: "topic", Anyway: true})
	return func() (done, ok bool) {
		if !next.begun {
			x.must(x.v.rdb.Del(ctx, x.v.k.load).Err()) // as its time-out does
		}
		done, err := next.next(ctx)
		if done || err != nil {
			next.close()
		}
		if errors.Is(err, ErrLost) {
			return false, false
		}
		x.must(err)
		return done, true
	}
}

type dataset struct {
	seq    string
	hashes map[string]map[string]string
	zsets  map[string][]redis.Z
}

func (x *target) Snapshot() any {
	d := dataset{hashes: map[string]map[string]string{}, zsets: map[string][]redis.Z{}}
	d.seq, _ = x.v.rdb.Get(ctx, x.v.k.seq).Result()
	for _, k := range []string{x.v.k.keys, x.v.k.state, x.v.k.pending, x.v.k.pace, x.v.k.load, x.v.k.loadKeys} {
		h, err := x.v.rdb.HGetAll(ctx, k).Result()
		x.must(err)
		d.hashes[k] = h
	}
	for _, k := range []string{x.v.k.line, x.v.k.active, x.v.k.loadLine, x.v.k.loadActive} {
		z, err := x.v.rdb.ZRangeWithScores(ctx, k, 0, -1).Result()
		x.must(err)
		d.zsets[k] = z
	}
	return d
}

func (x *target) Restore(s any) {
	x.must(x.v.Drop(ctx))
	d, ok := s.(dataset)
	if !ok {
		return
	}
	_, err := x.v.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		if d.seq != "" {
			p.Set(ctx, x.v.k.seq, d.seq, 0)
		}
		for k, h := range d.hashes {
			if len(h) > 0 {
				p.HSet(ctx, k, h)
			}
		}
		for k, z := range d.zsets {
			if len(z) > 0 {
				p.ZAdd(ctx, k, z...)
			}
		}
		return nil
	})
	x.must(err)
}

var ctx = context.Background()

func TestKeysAreAStoredFormat(t *testing.T) {
	want := keys{
		line: "soonbeon:{main}:line", seq: "soonbeon:{main}:seq", keys: "soonbeon:{main}:keys", state: "soonbeon:{main}:state",
		pending: "soonbeon:{main}:pending", active: "soonbeon:{main}:active", pace: "soonbeon:{main}:pace", grant: "soonbeon:{main}:grant:",
		load: "soonbeon:{main}:load", loadLine: "soonbeon:{main}:load:line", loadKeys: "soonbeon:{main}:load:keys", loadActive: "soonbeon:{main}:load:active",
	}
	if got := keysOf("main"); got != want {
		t.Errorf("keys %+v, want %+v", got, want)
	}
}
