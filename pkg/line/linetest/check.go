package linetest

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// fold is the whole log by the model.
func (h *history) fold() *Model {
	m := NewModel()
	m.Apply(0, h.log)
	return m
}

// rebuilt is the log from nothing by the memory line, in random pieces; of a log trimmed at start, no entry is left below it,
// but what a checkpoint would tell is: the latest claim, the rule, and served. (Without served, a repetition of an admission
// that comes late would count again: it would take a visitor out who had entered anew in between.)
func (h *history) rebuilt(start queue.Ticket) *line.Line {
	l := line.New()
	for part := h.log; len(part) > 0; {
		n := min(len(part), 1+h.src.Intn(40))
		recs := slices.Clone(part[:n])
		for i, r := range recs {
			if r.Ticket <= start && (r.Kind == queue.Entered || r.Kind == queue.Left) {
				recs[i] = queue.Record{Ticket: r.Ticket}
			}
		}
		if !l.Apply(l.State().Seq, recs) {
			h.fail("a rebuild was refused at %d", l.State().Seq)
		}
		part = part[n:]
	}
	return l
}

func (h *history) check() *Model {
	want := h.fold()
	got := h.rebuilt(0)
	if got.Digest() != want.Digest() {
		h.fail("rebuilt: %+v, want %+v", slices.Collect(got.Waiting()), want.Line)
	}
	h.checkGrants(got, want)
	settled := want.Served
	if settled < want.Draw.At { // numbers are reached, not tickets: whoever drew may still wait
		settled = want.Draw.From
	}
	got = h.rebuilt(settled) // what is settled may be trimmed: nobody is lost or gets in twice
	var names, wantNames []string
	for w := range got.Waiting() {
		names = append(names, w.Visitor)
	}
	for _, w := range want.Line {
		wantNames = append(wantNames, w.Visitor)
	}
	sort.Strings(names)
	sort.Strings(wantNames)
	if s := got.State(); !slices.Equal(names, wantNames) || s.Served != want.Served || s.Epoch != want.Epoch {
		h.fail("trimmed at %d: %v %+v, want %v", settled, names, s, wantNames)
	}
	last := queue.Ticket(0)
	went := map[string]queue.Ticket{}
	for _, a := range want.Admitted {
		if a.Ticket <= last {
			h.fail("out of order, or twice: %+v after %d", a, last)
		}
		last = a.Ticket
		entry := a.Ticket
		if a.By > want.Draw.At {
			entry = want.Draw.Ticket(a.Ticket)
		}
		if entry <= went[a.Visitor] {
			h.fail("in twice for one entry: %+v", a)
		}
		went[a.Visitor] = a.By
	}
	h.checkCapacity(want)
	for _, w := range want.Line {
		if w.Ticket <= want.Served {
			h.fail("%+v waits at or below served %d", w, want.Served)
		}
		if p, _ := want.Place(w.Visitor); p.Ahead > queue.AheadBound(w.Ticket, want.Served, queue.NoAhead) {
			h.fail("the bound of %+v is below the %d that are ahead", w, p.Ahead)
		}
	}
	for _, t := range h.told { // without Redis, the last exact answer and the offsets bound the truth
		if p, ok := want.Place(t.v); ok && p.Ticket == t.place.Ticket && t.draw == want.Draw.At {
			if bound := queue.AheadBound(p.Ticket, want.Served, t.place.Ahead); p.Ahead > bound {
				h.fail("%s was told at most %d ahead, and %d are", t.v, bound, p.Ahead)
			}
		}
	}
	if h.shared.State().Seq == h.end() {
		if got := h.shared.Digest(); got != want.Digest() {
			h.fail("the shared view differs from the log; by the log wait %+v", want.Line)
		}
	}
	h.shared.compare()
	return want
}

// checkCapacity counts, at each valid admission, how many hold by it and those before.
func (h *history) checkCapacity(want *Model) {
	for i, a := range want.Admitted {
		most := h.most1[a.By]
		if most == 0 || i+1 < len(want.Admitted) && want.Admitted[i+1].By == a.By {
			continue
		}
		active := h.active(want.Admitted[:i+1], a.By, a.AtMs)
		if active > most {
			h.fail("%d admissions hold at %d, and %d may", active, a.By, most)
		}
	}
}

// active counts the admissions that hold just after the record at, at the time nowMs.
func (h *history) active(admitted []Admission, at queue.Ticket, nowMs int64) (n int64) {
	for _, a := range admitted {
		freed := slices.ContainsFunc(h.log, func(r queue.Record) bool {
			return r.Kind == queue.Released && r.Of == a.Ticket && a.By < r.Ticket && r.Ticket <= at
		})
		if !freed && a.ExpiresMs+leewayMs > nowMs {
			n++
		}
	}
	return n
}

func (h *history) checkGrants(l *line.Line, want *Model) {
	if got, want := l.Active(h.now, leewayMs), h.active(want.Admitted, h.end(), h.now); got != want {
		h.fail("%d admissions hold, by the model %d", got, want)
	}
	latest := map[string]Admission{}
	for _, a := range want.Admitted {
		latest[a.Visitor] = a
	}
	for _, v := range h.people {
		g, state := l.Grant(v, h.now)
		a, admitted := latest[v]
		wantState := line.NoGrant
		if admitted {
			wantState = line.Live
			if a.ExpiresMs <= h.now {
				wantState = line.Expired
			}
			for _, r := range h.after(a.By) {
				if r.Kind == queue.Released && r.Visitor == v && r.Of == a.Ticket {
					wantState = line.Released
				}
			}
		}
		if state != wantState || g.Ticket != a.Ticket {
			h.fail("grant of %s: %+v state %d, want %+v state %d", v, g, state, a, wantState)
		}
	}
}

// account tells by another way of counting than the fold's that nobody was lost.
func (h *history) account(want *Model) error {
	state, served, epoch := map[string]string{}, queue.Ticket(0), queue.Ticket(0)
	n, over := 0, false
	for _, r := range h.log {
		switch r.Kind {
		case queue.Entered:
			if !over {
				state[r.Visitor] = "waits"
			}
		case queue.Left:
			state[r.Visitor] = "left"
		case queue.Claimed:
			epoch = r.Ticket
		case queue.Ended:
			if r.Epoch == epoch {
				over, served = true, r.Ticket
				for v, s := range state {
					if s == "waits" {
						state[v] = "sent away"
					}
				}
			}
		case queue.Reopened:
			over = over && r.Epoch != epoch
		case queue.Admitted:
			for _, p := range r.People {
				if r.Epoch == epoch && p.Ticket > served {
					state[p.Visitor], served = "in", p.Ticket
					n++
				} else {
					h.tally.Void++
				}
			}
		}
	}
	if n != len(want.Admitted) {
		return fmt.Errorf("%d admitted by one count, %d by the other", len(want.Admitted), n)
	}
	for v, s := range state {
		if s == "waits" {
			return errors.New(v + " is lost")
		}
	}
	return nil
}
