package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
)

// View is a queue's line in Redis; *redisline.View has it.
type View interface {
	Seq(ctx context.Context) (queue.Ticket, error)
	Snapshot(ctx context.Context) (*redisline.Snapshot, error)
}

const (
	askEvery     = 50 * time.Millisecond
	snapshotTime = time.Minute // for reading a whole line from Redis
)

// look is what Redis held when the audit began.
type look struct {
	cfg    Config
	end    queue.Ticket // of the log, when the audit began
	waited time.Duration
	snap   *redisline.Snapshot // nil: there is nothing to compare
	seq    queue.Ticket
	err    error
}

// lookAtRedis waits until Redis has applied the log to end, for a while, and reads what it holds. The error is the log's.
func lookAtRedis(ctx context.Context, cfg Config, log Source, end queue.Ticket, f *findings) (*look, error) {
	l := &look{cfg: cfg, end: end}
	if cfg.Redis == nil {
		return l, nil
	}
	l.settle(ctx)
	if l.err == nil {
		read, cancel := context.WithTimeout(ctx, snapshotTime)
		defer cancel()
		l.snap, l.err = cfg.Redis.Snapshot(read)
		if l.err == nil && l.snap.After.Seq < l.snap.Before.Seq {
			l.err = fmt.Errorf("it went back from ticket %d to %d while it was read", l.snap.Before.Seq, l.snap.After.Seq)
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if l.err != nil {
		f.add(RedisAway, nil, "%v", l.err)
		l.snap = nil
		return l, nil
	}
	l.seq = l.snap.After.Seq
	if t := l.snap.Topic; t != "" && cfg.TopicID != "" && t != cfg.TopicID {
		f.add(RedisOtherTopic, nil, "Redis was filled from topic %s, and the log is topic %s", t, cfg.TopicID)
		l.snap = nil
		return l, nil
	}
	if l.seq <= end {
		return l, nil
	}
	first, next, err := log.Bounds(ctx) // it grew meanwhile
	if err != nil {
		return nil, err
	}
	if l.seq >= next || l.snap.Before.Seq > 0 && l.snap.Before.Seq < first-1 {
		f.add(RedisAhead, nil, "Redis has applied ticket %d, and the log goes from ticket %d to %d", l.seq, first, next-1)
		l.snap = nil
	}
	return l, nil
}

func (l *look) settle(ctx context.Context) {
	began := time.Now()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		seq, err := l.cfg.Redis.Seq(ctx) // at least once, however long it takes: the client bounds it
		l.err = err
		l.waited = time.Since(began)
		if err == nil && seq >= l.end || l.waited >= l.cfg.Settle {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// marks are where the fold is kept to be compared.
func (l *look) marks() []mark {
	marks := []mark{{ticket: l.end}}
	if l.snap != nil {
		marks = append(marks, mark{l.snap.Before.Seq, true})
		if !l.snap.Quiet() {
			marks = append(marks, mark{l.snap.After.Seq, true})
		}
	}
	return marks
}

// until is how far the log is read for Redis' sake.
func (l *look) until() queue.Ticket {
	if l.snap == nil {
		return 0
	}
	return l.snap.After.Seq
}

// compare finds where Redis and the log disagree.
func (l *look) compare(folded map[mark]*keptLine, first queue.Ticket, f *findings) *Redis {
	if l.cfg.Redis == nil {
		return nil
	}
	r := &Redis{Seq: l.seq, Behind: max(0, int64(l.end-l.seq)), WaitedMs: l.waited.Milliseconds()}
	if l.snap == nil {
		return r
	}
	if r.Behind > 0 {
		f.addN(RedisBehind, r.Behind, nil, "Redis has applied ticket %d of %d", l.seq, l.end)
	}
	if first > 1 {
		return r // who entered before it is in Redis and not in the log
	}
	before := folded[mark{l.snap.Before.Seq, true}]
	after := folded[mark{l.snap.After.Seq, true}]
	r.Exact, r.Compared = l.snap.Quiet(), int64(len(l.snap.People))
	differs := func(format string, a ...any) {
		r.Differences++
		f.add(RedisDiffers, nil, format, a...)
	}
	state := func(m queue.Moment, k *keptLine) {
		if m.State != k.state {
			differs("at ticket %d Redis has %s; the log says %s", m.Seq, stateText(m.State), stateText(k.state))
		}
		if m.Total != k.total {
			differs("at ticket %d Redis counts %d who wait; by the log they are %d", m.Seq, m.Total, k.total)
		}
	}
	state(l.snap.Before, before)
	if !r.Exact {
		state(l.snap.After, after)
	} else {
		r.Digest, r.LogDigest = queue.Digest(l.snap.Before.State, slices.Values(l.snap.People)), before.digest
	}
	if before.state.Draw == after.state.Draw { // else everybody's ticket changed while they were read
		l.people(before.people, after.people, differs)
	} else {
		r.Compared = 0
	}
	if r.Exact && r.Digest != r.LogDigest && r.Differences == 0 {
		differs("the digest is %s in Redis and %s by the log", r.Digest, r.LogDigest)
	}
	return r
}

func stateText(s queue.State) string {
	text := fmt.Sprintf("served %d, epoch %d, rule %s", s.Served, s.Epoch, s.Reentry)
	if d := s.Draw; d.At > 0 {
		text += fmt.Sprintf(", lots drawn at %d from %d with seed %.8s…", d.At, d.From+1, d.Seed)
	}
	if e := s.End; e.At > 0 {
		text += fmt.Sprintf(", ended at %d (%s), over: %v", e.At, e.Why, e.Over)
	}
	return text
}

// people merges who waits in Redis with who waits by the log. What moved between before and after may be in Redis or not.
func (l *look) people(before, after []queue.Waiting, differs func(string, ...any)) {
	quiet := l.snap.Quiet()
	in := func(list []queue.Waiting, w queue.Waiting) bool {
		i, ok := slices.BinarySearchFunc(list, w.Ticket, func(w queue.Waiting, t queue.Ticket) int { return cmp.Compare(w.Ticket, t) })
		return ok && list[i].Visitor == w.Visitor
	}
	extra := func(w queue.Waiting) {
		moved := w.Ticket > l.snap.Before.Seq && w.Ticket <= l.snap.After.Seq // entered meanwhile
		if !moved {
			differs("visitor %s waits in Redis with ticket %d, and not by the log", Hash(w.Visitor), w.Ticket)
		}
	}
	missing := func(w queue.Waiting) {
		if quiet || in(after, w) {
			differs("visitor %s waits by the log with ticket %d, and not in Redis", Hash(w.Visitor), w.Ticket)
		}
	}
	redis := l.snap.People
	for len(redis) > 0 || len(before) > 0 {
		switch {
		case len(before) == 0 || len(redis) > 0 && redis[0].Ticket < before[0].Ticket:
			extra(redis[0])
			redis = redis[1:]
		case len(redis) == 0 || before[0].Ticket < redis[0].Ticket:
			missing(before[0])
			before = before[1:]
		default:
			a, b := redis[0], before[0]
			redis, before = redis[1:], before[1:]
			switch {
			case a.Visitor != b.Visitor:
				differs("ticket %d is visitor %s's in Redis, and visitor %s's by the log", a.Ticket, Hash(a.Visitor), Hash(b.Visitor))
			case quiet && a.Key != b.Key:
				differs("visitor %s (ticket %d) has another idempotency key in Redis than by the log", Hash(a.Visitor), a.Ticket)
			}
		}
	}
}
