package redisline

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// ErrLoading says that another load of this queue is under way. It is over, or taken to be dead, a few seconds from now.
var ErrLoading = errors.New("another load is under way")

// ErrLost says that a load can't go on: Redis went back in time, or another load took its place while it was slow. The view
// is as it was; start over.
var ErrLost = errors.New("the load was lost")

// Fold is a folded line as Load reads it; *line.Line has it. It must not change meanwhile.
type Fold interface {
	State() queue.State
	Waiting() iter.Seq[queue.Waiting] // in ticket order
	LiveGrants(nowMs int64) iter.Seq[queue.Person]
}

// LoadOptions of a Load.
type LoadOptions struct {
	Topic    string           // the id of the topic that the fold is of
	Back     bool             // also over a view that is not behind the fold
	Anyway   bool             // the same, and over one that was built from another topic
	Progress func(done int64) // called now and then with how many of those who wait have been put
}

// Load makes the view the one of fold: those who wait are put beside the view in ticket order, at most queue.MaxBatch in
// a call, and take its place in one step, with seq and the rest of the state. Until then the view serves and is applied to as
// ever; so Redis needs room for both. Then it is the view of an empty Redis to which the log was applied up to fold's seq,
// which is returned, and Apply goes on from there. A view that has come so far by itself is left alone and its own
// seq returned, unless opts.Back.
//
// Errors: ErrLoading, ErrOtherTopic, ErrLost, ErrAway. After each of them the view is as it was, unless it is ErrAway and the
// very last reply was the one that was lost.
func (v *View) Load(ctx context.Context, fold Fold, opts LoadOptions) (seq queue.Ticket, err error) {
	return v.runLoad(ctx, v.newLoad(fold, opts), opts)
}

func (v *View) runLoad(ctx context.Context, l *load, opts LoadOptions) (seq queue.Ticket, err error) {
	defer l.close()
	for {
		done, err := l.next(ctx)
		if err != nil {
			// Who comes next should not have to wait until this load is taken to be dead.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_, _ = l.call(ctx, "drop", l.token)
			return 0, err
		}
		if done {
			return l.seq, nil
		}
		if opts.Progress != nil {
			opts.Progress(l.waiting)
		}
	}
}

// Loading says whether a load is under way. Error: ErrAway.
func (v *View) Loading(ctx context.Context) (bool, error) {
	n, err := v.rdb.Exists(ctx, v.k.load).Result()
	if err != nil {
		return false, away("asking whether "+string(v.id)+" is being loaded", err)
	}
	return n > 0, nil
}

// load is one Load, a call at a time.
type load struct {
	v             *View
	token         string
	state         queue.State
	topic, anyway string
	asked         string // "" or what must have been asked for last: see lua/load.lua
	begun         bool
	chunk         func() (chunk, bool)
	close         func()
	steps         int64
	waiting, keys int64 // put so far
	seq           queue.Ticket
}

func (v *View) newLoad(fold Fold, opts LoadOptions) *load {
	l := &load{v: v, token: rand.Text(), state: fold.State(), topic: opts.Topic, anyway: "0"}
	switch {
	case opts.Anyway:
		l.anyway = "2"
	case opts.Back:
		l.anyway = "1"
	}
	l.chunk, l.close = iter.Pull(chunks(fold, v.chunk))
	return l
}

// next does one call. done says that the load is over.
func (l *load) next(ctx context.Context) (done bool, err error) {
	seq := ticketArg(l.state.Seq)
	if !l.begun {
		l.begun = true
		return l.ask(ctx, "begin", l.token, seq, l.topic, l.anyway)
	}
	if c, ok := l.chunk(); ok {
		l.steps++
		l.waiting += c.waiting
		l.keys += c.keys
		return l.ask(ctx, append([]any{"put", l.token, l.steps, l.v.k.grant}, c.args...)...)
	}
	l.seq = l.state.Seq
	done, err = l.ask(ctx, "finish", l.token, seq, l.topic, l.anyway, l.steps, ticketArg(l.state.Served),
		ticketArg(l.state.Epoch), int(l.state.Reentry), l.waiting, l.keys, drawText(l.state.Draw), endText(l.state.End), l.asked)
	return done || err == nil, err
}

// tries is how often a call is made before Redis counts as away: a reply that was cut should not cost a whole load.
const tries = 3

// ask makes a call and understands its answer. done says that the view needs no load any more.
func (l *load) ask(ctx context.Context, args ...any) (done bool, err error) {
	var reply []string
	for n := 1; ; n++ {
		if reply, err = l.call(ctx, args...); err == nil {
			break
		}
		if n == tries || ctx.Err() != nil {
			return false, err
		}
	}
	doing := "loading " + string(l.v.id)
	switch reply[0] {
	case "ok":
		return false, nil
	case "busy":
		return false, fmt.Errorf("%s: %w", doing, ErrLoading)
	case "lost":
		return false, fmt.Errorf("%s: %w", doing, ErrLost)
	case "topic":
		return false, fmt.Errorf("%s: %w (%v, and this fold is of %s)", doing, ErrOtherTopic, reply[1], l.topic)
	case "ahead":
		l.seq, err = parseTicket(reply[1])
		return true, err
	}
	return false, away(doing, fmt.Errorf("an answer that can't be read: %.40q", reply[0]))
}

func (l *load) call(ctx context.Context, args ...any) ([]string, error) {
	k := l.v.k
	reply, err := l.v.s.load.Run(ctx, l.v.rdb, []string{k.line, k.seq, k.keys, k.state, k.pending, k.active,
		k.load, k.loadLine, k.loadKeys, k.loadActive}, args...).StringSlice()
	if err == nil && len(reply) == 0 {
		err = errors.New("an empty answer")
	}
	if err != nil {
		return nil, away("loading "+string(l.v.id), err)
	}
	return reply, nil
}

// chunk is what one call puts.
type chunk struct {
	args          []any
	waiting, keys int64
}

// chunks cuts fold into pieces of at most size members: those who wait in ticket order, then the grants.
func chunks(fold Fold, size int) iter.Seq[chunk] {
	return func(yield func(chunk) bool) {
		var who, digests []any
		flush := func() bool {
			if len(who) == 0 {
				return true
			}
			c := chunk{waiting: int64(len(who) / 2), keys: int64(len(digests) / 2)}
			c.args = append([]any{"W", c.waiting}, who...)
			if c.keys > 0 {
				c.args = append(append(c.args, "K", c.keys), digests...)
			}
			who, digests = who[:0], digests[:0]
			return yield(c)
		}
		for w := range fold.Waiting() {
			who = append(who, ticketArg(w.Ticket), w.Visitor)
			if w.Key != "" {
				digests = append(digests, w.Visitor, w.Key)
			}
			if len(who) == 2*size && !flush() {
				return
			}
		}
		if !flush() {
			return
		}
		var grants []any
		give := func() bool {
			args := append([]any{"G", len(grants) / 3}, grants...)
			grants = grants[:0]
			return yield(chunk{args: args})
		}
		for p := range fold.LiveGrants(0) { // which of them still hold is for Redis' clock to say
			grants = append(grants, p.Visitor, ticketArg(p.Ticket), p.ExpiresMs)
			if len(grants) == 3*size && !give() {
				return
			}
		}
		if len(grants) > 0 {
			give()
		}
	}
}
