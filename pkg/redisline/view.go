package redisline

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// View is one queue's line in Redis. It is safe for concurrent use and holds no state.
type View struct {
	rdb Client
	id  queue.ID
	k   keys
	s   scripts

	chunk int // members that one call of a load puts
}

// New returns the view of queue id. Nothing is asked of Redis.
func New(rdb Client, id queue.ID) *View {
	return &View{rdb: rdb, id: id, k: keysOf(id), s: newScripts(), chunk: queue.MaxBatch}
}

func ticketArg(t queue.Ticket) string { return strconv.FormatInt(int64(t), 10) }

// Seq is the last ticket applied; 0 for a view that does not exist.
func (v *View) Seq(ctx context.Context) (queue.Ticket, error) {
	n, err := v.rdb.Get(ctx, v.k.seq).Int64()
	if err == redis.Nil {
		return 0, nil
	}
	if err != nil {
		return 0, away("reading seq of "+string(v.id), err)
	}
	return queue.Ticket(n), nil
}

// Apply folds recs, which follow ticket follows. When they do not follow what Redis has applied, fits is false and nothing
// changed; seq is what Redis has applied either way, from which the caller reads on. topic is the id of the topic that the
// records come from, "" to leave it unchecked. More than queue.MaxBatch members are applied piece by piece, and then a
// refusal may come after the first pieces.
// Errors: ErrAway, ErrOtherTopic.
func (v *View) Apply(ctx context.Context, follows queue.Ticket, recs []queue.Record, topic string) (seq queue.Ticket, fits bool, err error) {
	for len(recs) > 0 {
		if recs[0].Kind == queue.Drawn {
			if seq, fits, err = v.draw(ctx, follows, recs[0], topic); err != nil || !fits {
				return seq, fits, err
			}
			follows, recs = recs[0].Ticket, recs[1:]
			continue
		}
		n := fitting(recs)
		last := recs[n-1].Ticket
		args := make([]any, 0, 4+2*n+2)
		args = append(args, ticketArg(follows), ticketArg(last), topic, v.k.grant)
		args = appendRecords(args, recs[:n])
		reply, err := v.s.apply.Run(ctx, v.rdb, []string{v.k.line, v.k.seq, v.k.keys, v.k.state, v.k.pending, v.k.active}, args...).Slice()
		if err != nil {
			return 0, false, away("applying records to "+string(v.id), err)
		}
		switch code, _ := reply[0].(int64); code {
		case 0:
			seq, err = parseTicket(reply[1])
			return seq, false, err
		case 2:
			return 0, false, fmt.Errorf("queue %s: %w (%v, and these records come from %s)", v.id, ErrOtherTopic, reply[1], topic)
		}
		follows, recs = last, recs[n:]
	}
	return follows, true, nil
}

// fitting is how many of recs one call takes: at most MaxBatch members, and one record at least. A draw is a call of its own.
func fitting(recs []queue.Record) int {
	members := 0
	for i := range recs {
		if recs[i].Kind == queue.Drawn {
			return i
		}
		members += max(1, len(recs[i].People))
		if members > queue.MaxBatch && i > 0 {
			return i
		}
	}
	return len(recs)
}

// appendRecords writes recs as lua/apply.lua reads them.
func appendRecords(args []any, recs []queue.Record) []any {
	for i := 0; i < len(recs); i++ {
		switch r := &recs[i]; r.Kind {
		case queue.Entered:
			if r.Key != "" {
				args = append(args, "K", ticketArg(r.Ticket), r.Visitor, r.Key)
				continue
			}
			n := 1
			for i+n < len(recs) && recs[i+n].Kind == queue.Entered && recs[i+n].Key == "" {
				n++
			}
			args = append(args, "E", n)
			for _, e := range recs[i : i+n] {
				args = append(args, ticketArg(e.Ticket), e.Visitor)
			}
			i += n - 1
		case queue.Left:
			args = append(args, "L", r.Visitor)
		case queue.Claimed:
			args = append(args, "C", ticketArg(r.Ticket))
		case queue.SettingsSet:
			args = append(args, "S", int(r.Reentry))
		case queue.Admitted:
			args = append(args, "A", ticketArg(r.Epoch), len(r.People))
			for _, p := range r.People {
				args = append(args, p.Visitor, ticketArg(p.Ticket), p.ExpiresMs)
			}
		case queue.Released:
			args = append(args, "R", r.Visitor, ticketArg(r.Of))
		case queue.Ended:
			args = append(args, "X", ticketArg(r.Epoch), ticketArg(r.Ticket), r.Why)
		case queue.Reopened:
			args = append(args, "O", ticketArg(r.Epoch))
		case queue.Skipped, queue.Checkpoint, queue.Drawn: // they only use up their ticket
		}
	}
	return args
}

var reasons = map[string]queue.Reason{
	"handed": queue.Handed, "empty": queue.Empty, "paced": queue.Paced, "behind": queue.Behind, "fenced": queue.Fenced,
}

// Admit hands out the next batch, as line.Line.Admit does. The bucket in Redis is the last guard, should two leaders pace at
// once: it fills at set.Rate by Redis' own clock and holds two batches, so one leader alone never feels it. Error: ErrAway;
// then ask for the same batch again.
func (v *View) Admit(ctx context.Context, ask queue.Ask, set queue.Settings) ([]queue.Person, queue.Reason, error) {
	reply, err := v.s.admit.Run(ctx, v.rdb, []string{v.k.line, v.k.seq, v.k.state, v.k.pending, v.k.active, v.k.pace},
		ticketArg(ask.Epoch), ask.Batch, ticketArg(ask.AtLeast), min(ask.N, queue.MaxBatch), set.Rate,
		2*set.PerBatch()+1, set.GrantTTL.Milliseconds(), v.k.grant).StringSlice()
	if err != nil {
		return nil, 0, away("admitting from "+string(v.id), err)
	}
	why, ok := reasons[reply[0]]
	if !ok || len(reply)%2 != 1 {
		return nil, 0, away("admitting from "+string(v.id), fmt.Errorf("an answer that can't be read: %q", reply[0]))
	}
	var people []queue.Person
	for i := 1; i < len(reply); i += 2 {
		t, err := parseTicket(reply[i+1])
		if err != nil {
			return nil, 0, err
		}
		people = append(people, queue.Person{Visitor: reply[i], Ticket: t})
	}
	return people, why, nil
}

// Places finds visitors (at most queue.MaxBatch) all at one moment. The result has one Place for each. Error: ErrAway.
func (v *View) Places(ctx context.Context, visitors []queue.Visitor) (queue.Moment, []queue.Place, error) {
	args := make([]any, len(visitors))
	for i, who := range visitors {
		args[i] = who
	}
	reply, err := v.s.places.Run(ctx, v.rdb, []string{v.k.line, v.k.seq, v.k.state, v.k.pending}, args...).Slice()
	if err != nil {
		return queue.Moment{}, nil, away("asking places of "+string(v.id), err)
	}
	if len(reply) != 7+2*len(visitors) {
		return queue.Moment{}, nil, away("asking places of "+string(v.id), fmt.Errorf("an answer of %d fields", len(reply)))
	}
	var nums [4]queue.Ticket
	for i := range nums {
		if nums[i], err = parseTicket(reply[i]); err != nil {
			return queue.Moment{}, nil, err
		}
	}
	m := queue.Moment{State: queue.State{Seq: nums[0], Served: nums[1], Epoch: nums[2], Reentry: queue.Reentry(nums[3])}}
	if m.Draw, err = parseDraw(reply[4]); err != nil {
		return queue.Moment{}, nil, err
	}
	if m.End, err = parseEnd(reply[5]); err != nil {
		return queue.Moment{}, nil, err
	}
	m.Total, _ = reply[6].(int64)
	places := make([]queue.Place, len(visitors))
	for i := range places {
		ahead, _ := reply[7+2*i].(int64)
		if ahead < 0 {
			continue
		}
		t, err := parseTicket(reply[8+2*i])
		if err != nil {
			return queue.Moment{}, nil, err
		}
		places[i] = queue.Place{Ticket: t, Ahead: ahead}
	}
	return m, places, nil
}

func parseTicket(x any) (queue.Ticket, error) {
	s, ok := x.(string)
	n, err := strconv.ParseInt(s, 10, 64)
	if !ok || err != nil || n < 0 {
		return 0, away("reading a ticket", fmt.Errorf("%.40q is none", fmt.Sprint(x)))
	}
	return queue.Ticket(n), nil
}

// Digest is the fingerprint of the line by the log (queue.Digest). It reads everything, page by page, and starts over when
// seq moved meanwhile; give it a quiet view or a context that ends. Error: ErrAway.
func (v *View) Digest(ctx context.Context) (string, error) {
	for {
		before, _, err := v.Places(ctx, nil)
		if err != nil {
			return "", err
		}
		all, err := v.waiting(ctx)
		if err != nil {
			return "", err
		}
		after, err := v.Seq(ctx)
		if err != nil {
			return "", err
		}
		if after == before.Seq {
			return queue.Digest(before.State, all), nil
		}
	}
}

// waiting reads everybody who waits by the log, in ticket order: the line, and before it those popped who still stand.
func (v *View) waiting(ctx context.Context) (iter.Seq[queue.Waiting], error) {
	popped, err := v.rdb.HGetAll(ctx, v.k.pending).Result()
	if err != nil {
		return nil, away("reading pending of "+string(v.id), err)
	}
	byTicket := map[queue.Ticket]queue.Waiting{}
	var order []queue.Ticket
	add := func(t queue.Ticket, who string) {
		byTicket[t] = queue.Waiting{Visitor: who, Ticket: t}
		order = append(order, t)
	}
	for who, p := range popped {
		f := strings.Split(p, ":")
		if len(f) == 3 && f[2] == "1" {
			t, err := parseTicket(f[0])
			if err != nil {
				return nil, err
			}
			add(t, who)
		}
	}
	for from := int64(0); ; from += queue.MaxBatch {
		page, err := v.rdb.ZRangeWithScores(ctx, v.k.line, from, from+queue.MaxBatch-1).Result()
		if err != nil {
			return nil, away("reading the line of "+string(v.id), err)
		}
		if len(page) == 0 {
			break
		}
		for _, z := range page {
			add(queue.Ticket(z.Score), z.Member.(string))
		}
	}
	digests, err := v.rdb.HGetAll(ctx, v.k.keys).Result()
	if err != nil {
		return nil, away("reading idempotency digests of "+string(v.id), err)
	}
	slices.Sort(order)
	return func(yield func(queue.Waiting) bool) {
		for _, t := range order {
			w := byTicket[t]
			w.Key = digests[w.Visitor]
			if !yield(w) {
				return
			}
		}
	}, nil
}

// Drop removes everything of the queue but its grants, which end by themselves. For tests and for rebuilding from nothing.
func (v *View) Drop(ctx context.Context) error {
	if err := v.rdb.Unlink(ctx, v.k.line, v.k.seq, v.k.keys, v.k.state, v.k.pending, v.k.active, v.k.pace,
		v.k.load, v.k.loadLine, v.k.loadKeys, v.k.loadActive).Err(); err != nil {
		return away("dropping the view of "+string(v.id), err)
	}
	return nil
}
