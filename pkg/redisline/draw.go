package redisline

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// A draw gives everybody who waits another score, which is too much for one script. So it is a load: everybody is read, page by
// page, put beside the view under the number drawn, and takes its place in one step, if it still is at the ticket before
// the draw's and nobody has popped from it meanwhile. Until then the view is as it was, and a leader is told that it is behind.

// drawTries is how often a view is read again that moved meanwhile.
const drawTries = 5

// draw applies rec, a Drawn that follows ticket follows. Its results are Apply's.
func (v *View) draw(ctx context.Context, follows queue.Ticket, rec queue.Record, topic string) (seq queue.Ticket, fits bool, err error) {
	for try := 1; ; try++ {
		m, _, err := v.Places(ctx, nil)
		if err != nil {
			return 0, false, err
		}
		if m.Seq != follows {
			return m.Seq, false, nil
		}
		if rec.Epoch != m.Epoch || m.Draw.At != 0 { // void: it only uses up its ticket
			return v.Apply(ctx, follows, []queue.Record{{Ticket: rec.Ticket, AtMs: rec.AtMs}}, topic)
		}
		seq, err = v.redraw(ctx, rec, topic, m)
		switch {
		case err == nil && seq != rec.Ticket: // another projector has come further already
			return seq, false, nil
		case err == nil:
			return seq, true, nil
		case !errors.Is(err, ErrLost) || try == drawTries:
			return 0, false, fmt.Errorf("drawing lots for %s: %w", v.id, err)
		}
	}
}

// redraw loads the view that was at m under the numbers of rec's draw.
func (v *View) redraw(ctx context.Context, rec queue.Record, topic string, m queue.Moment) (queue.Ticket, error) {
	asked, err := v.rdb.HMGet(ctx, v.k.state, "fence", "batch").Result()
	if err != nil {
		return 0, away("reading the state of "+string(v.id), err)
	}
	s, err := v.snapshot(ctx)
	if err != nil {
		return 0, err
	}
	if s.Before.State != m.State || s.After.State != m.State {
		return 0, ErrLost
	}
	grants, err := v.grants(ctx)
	if err != nil {
		return 0, err
	}
	d := &redrawn{state: m.State, people: s.People, grants: grants}
	d.state.Seq = rec.Ticket
	d.state.Draw = queue.Draw{From: m.Served, At: rec.Ticket, Seed: rec.Seed}
	for i := range d.people {
		d.people[i].Ticket = d.state.Draw.Number(d.people[i].Ticket)
	}
	slices.SortFunc(d.people, func(a, b queue.Waiting) int { return int(a.Ticket - b.Ticket) })
	l := v.newLoad(d, LoadOptions{Topic: topic})
	l.asked = fmt.Sprintf("%s:%s", orNone(asked[0]), orNone(asked[1]))
	if topic == "" {
		l.topic = s.Topic
	}
	return v.runLoad(ctx, l, LoadOptions{})
}

func orNone(x any) string {
	if s, ok := x.(string); ok {
		return s
	}
	return "0"
}

// grants reads the admissions that hold, page by page.
func (v *View) grants(ctx context.Context) ([]queue.Person, error) {
	var out []queue.Person
	for from := int64(0); ; from += queue.MaxBatch {
		page, err := v.rdb.ZRangeWithScores(ctx, v.k.active, from, from+queue.MaxBatch-1).Result()
		if err != nil {
			return nil, away("reading the grants of "+string(v.id), err)
		}
		if len(page) == 0 {
			return out, nil
		}
		names := make([]string, len(page))
		for i, z := range page {
			names[i] = v.k.grant + z.Member.(string)
		}
		tickets, err := v.rdb.MGet(ctx, names...).Result()
		if err != nil {
			return nil, away("reading the grants of "+string(v.id), err)
		}
		for i, z := range page {
			if tickets[i] == nil {
				continue // it ended
			}
			t, err := parseTicket(tickets[i])
			if err != nil {
				return nil, err
			}
			out = append(out, queue.Person{Visitor: z.Member.(string), Ticket: t, ExpiresMs: int64(z.Score)})
		}
	}
}

// redrawn is a Fold of what was read.
type redrawn struct {
	state  queue.State
	people []queue.Waiting
	grants []queue.Person
}

func (d *redrawn) State() queue.State                      { return d.state }
func (d *redrawn) Waiting() iter.Seq[queue.Waiting]        { return slices.Values(d.people) }
func (d *redrawn) LiveGrants(int64) iter.Seq[queue.Person] { return slices.Values(d.grants) }

// drawText is "at:from:seed" as the state holds it; "" for none.
func drawText(d queue.Draw) string {
	if d.At == 0 {
		return ""
	}
	return ticketArg(d.At) + ":" + ticketArg(d.From) + ":" + d.Seed.String()
}

func parseDraw(x any) (d queue.Draw, err error) {
	s, _ := x.(string)
	if s == "" {
		return d, nil
	}
	f := strings.Split(s, ":")
	if len(f) != 3 {
		return d, away("reading a draw", fmt.Errorf("%.40q is none", s))
	}
	if d.At, err = parseTicket(f[0]); err != nil {
		return d, err
	}
	if d.From, err = parseTicket(f[1]); err != nil {
		return d, err
	}
	if n, err := hex.Decode(d.Seed[:], []byte(f[2][:min(len(f[2]), 2*queue.SeedBytes)])); err != nil || n != queue.SeedBytes {
		return d, away("reading a draw", fmt.Errorf("its seed has %d bytes", n))
	}
	return d, nil
}

// endText is "at:over:why" as the state holds it; "" for none.
func endText(e queue.End) string {
	if e.At == 0 {
		return ""
	}
	over := ":0:"
	if e.Over {
		over = ":1:"
	}
	return ticketArg(e.At) + over + e.Why
}

func parseEnd(x any) (e queue.End, err error) {
	s, _ := x.(string)
	if s == "" {
		return e, nil
	}
	f := strings.Split(s, ":")
	if len(f) != 3 {
		return e, away("reading how a line ended", fmt.Errorf("%.40q does not say", s))
	}
	e.At, err = parseTicket(f[0])
	e.Over, e.Why = f[1] == "1", f[2]
	return e, err
}
