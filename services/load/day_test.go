package load

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/plot"
)

// day is what the operators of a room do, and how it breaks what it promised then.
type day struct {
	opens    time.Time // lots are drawn then; zero: nobody draws
	seed     queue.Seed
	draw     queue.Draw // once it was
	endAt    int64      // once served is here, the line is ended
	closedAt int64      // entries after this ticket are refused
	paused   bool

	// faults
	otherSeed    *queue.Seed // is shown in place of the one that was drawn by
	commitments  []string    // told in turn in place of the right one
	noDraw       bool        // is shown, ever
	byTicket     bool        // people are let in by their tickets all the same
	otherNumber  map[int64]bool
	etaAnyway    bool
	drawFailures int // answers 503 so often
}

func (p *person) counts() int64 {
	if p.number > 0 {
		return p.number
	}
	return p.ticket
}

// opened draws the lots when their time has come.
func (r *room) opened(now time.Time) bool {
	if r.opens.IsZero() || r.draw.At > 0 {
		return !r.paused
	}
	if now.Before(r.opens) {
		return false
	}
	r.seq++
	r.draw = queue.Draw{At: queue.Ticket(r.seq), Seed: r.seed}
	for _, p := range r.line {
		p.number = int64(r.draw.Number(queue.Ticket(p.ticket)))
	}
	if !r.byTicket {
		slices.SortFunc(r.line, func(a, b *person) int { return int(a.number - b.number) })
	}
	return true
}

func (r *room) end() {
	if r.endAt == 0 || r.served < r.endAt {
		return
	}
	for _, p := range r.line {
		p.ended = true
	}
	r.line, r.endAt, r.closedAt = nil, 0, r.seq
}

func (r *room) serveDraw(w http.ResponseWriter) {
	if r.drawFailures != 0 {
		r.drawFailures--
		problem(w, 503, "log_unavailable")
		return
	}
	if r.opens.IsZero() {
		problem(w, 404, "draw_unknown")
		return
	}
	a := map[string]any{"queue": "main", "order": "draw", "opensAt": r.opens.UTC().Format(time.RFC3339), "commitment": queue.Commitment("main", r.seed)}
	if len(r.commitments) > 0 {
		a["commitment"], r.commitments = r.commitments[0], r.commitments[1:]
	}
	if r.draw.At > 0 && !r.noDraw {
		a["seed"], a["first"], a["last"] = r.draw.Seed.String(), r.draw.From+1, r.draw.At
		if r.otherSeed != nil {
			a["seed"] = r.otherSeed.String()
		}
	}
	reply(w, 200, a)
}

// tell adds to an answer what the day gives.
func (r *room) tell(place map[string]any, p *person) {
	switch {
	case !r.opens.IsZero() && r.draw.At == 0:
		for _, name := range []string{"position", "ahead", "behind"} {
			delete(place, name)
		}
		place["order"], place["opensInSeconds"] = "draw", 1
	case p.number > 0:
		place["number"] = p.number
		if r.otherNumber[p.ticket] {
			place["number"] = p.number + 1
		}
	}
	if r.paused || r.etaAnyway {
		place["paused"] = true
		if r.etaAnyway {
			place["etaSeconds"] = 7
		}
	}
}

func lottery(t *testing.T, rate float64) *room {
	r := newRoom(t, rate)
	r.opens = time.Now().Add(10 * time.Second)
	for i := range r.seed {
		r.seed[i] = byte(5 * i)
	}
	return r
}

func TestLotsAreHeldAgainstTheSeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := lottery(t, 50)
		room.drawFailures = 1 // asked before anybody comes: it is asked again
		cfg := crowd(room, 500)
		cfg.Rate, cfg.Refresh = 40, 0.05 // some come after the opening, and some enter twice
		rep, out := mustRun(t, t.Context(), cfg)
		if !rep.OK() || rep.Admitted != 500 {
			t.Fatal(out)
		}
		d := rep.Draw
		if d == nil || d.First != 1 || d.Last != int64(room.draw.At) || d.Last < 300 || d.Seed != room.seed.String() || d.Checked < 400 || d.Differs != 0 {
			t.Errorf("%+v\n%s", d, out)
		}
		if !rep.Order.Kept || rep.Order.Compared != 500 {
			t.Errorf("%+v", rep.Order)
		}
		inLine := func(a, b int64) bool { return room.draw.Number(queue.Ticket(a)) < room.draw.Number(queue.Ticket(b)) }
		if inLine(1, 2) && inLine(2, 3) && inLine(3, 4) && inLine(4, 5) {
			t.Error("lots that change nothing prove nothing")
		}
		if !strings.Contains(out, "draw        kept ") {
			t.Error(out)
		}
	})
}

func TestTheCommitmentIsReadBeforeTheDraw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rep, out := mustRun(t, t.Context(), crowd(lottery(t, 50), 200))
		if !rep.OK() || !rep.Draw.Committed || !strings.Contains(out, "by the seed that was committed to") {
			t.Error(out)
		}
	})
}

func TestALineThatEndsIsToldApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := newRoom(t, 50)
		room.endAt = 200
		cfg := crowd(room, 500)
		cfg.Rate, cfg.Refresh = 80, 0.1
		rep, out := mustRun(t, t.Context(), cfg)
		if len(rep.Broken) > 0 || rep.ExitCode() != ExitIncomplete || rep.Cut != "" || len(rep.Errors) > 0 {
			t.Fatal(out)
		}
		if rep.Admitted < 190 || rep.Ended < 50 || rep.Closed < 50 || rep.Lost+rep.Waiting+rep.Refused+rep.Unknown != 0 || rep.Admitted+rep.Ended+rep.Closed != 500 {
			t.Errorf("%+v", rep)
		}
		if len(rep.EndedBy) != 1 || rep.EndedBy["sold_out"] != rep.Ended {
			t.Errorf("%v", rep.EndedBy)
		}
		for _, want := range []string{"told that the line is over: sold_out", "came when it was closed", "got in; " + plot.Thousands(rep.Ended) + " were told that it is over"} {
			if !strings.Contains(out, want) {
				t.Errorf("lacks %q:\n%s", want, out)
			}
		}
	})
}

// Who is refused a second entry since the queue is closed still has the place of the first.
func TestARefreshAfterClosingKeepsThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := newRoom(t, 10)
		room.closedAt = 100
		cfg := crowd(room, 100)
		cfg.Refresh = 0.2
		rep, out := mustRun(t, t.Context(), cfg)
		if !rep.OK() || rep.Admitted != 100 || rep.Refreshed != 0 {
			t.Error(out)
		}
	})
}

func TestBrokenDaysAreFound(t *testing.T) {
	other := queue.Seed{1}
	for _, c := range []struct {
		name   string
		breaks func(*room)
		want   string
		says   string
	}{
		{"the seed is not the one that was committed to", func(r *room) { r.commitments = []string{queue.Commitment("main", other)} }, brokenDraw, "the seed is not the one"},
		{"a seed that the numbers are not of", func(r *room) {
			r.otherSeed, r.commitments = &other, slices.Repeat([]string{queue.Commitment("main", other)}, 100)
		}, brokenDraw, "and the seed gives"},
		{"the commitment changes", func(r *room) {
			r.opens = r.opens.Add(-9 * time.Second)
			r.commitments, r.noDraw = []string{"a", "b"}, true
		}, brokenDraw, "the commitment was"},
		{"a draw that is never shown", func(r *room) { r.noDraw = true }, brokenDraw, "let in, and the target shows no draw"},
		{"one number that is another's", func(r *room) { r.otherNumber = map[int64]bool{150: true} }, brokenDraw, "ticket 150: number "},
		{"people go in by their tickets", func(r *room) { r.byTicket = true }, brokenOrder, "number "},
		{"a wait is told while it is paused", func(r *room) { r.etaAnyway = true }, brokenAnswer, "is paused, and how long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				room := lottery(t, 50)
				c.breaks(room)
				rep, out := mustRun(t, t.Context(), crowd(room, 300))
				i := slices.IndexFunc(rep.Broken, func(b Breach) bool { return b.Invariant == c.want })
				if i < 0 || !strings.Contains(rep.Broken[i].First, c.says) || rep.ExitCode() != ExitBroken {
					t.Error(out)
				}
			})
		})
	}
}

func TestAReasonOfTheOperatorsIsNotAnotherOne(t *testing.T) {
	for reason, want := range map[string]bool{"sold_out": true, "closed": true, "expired": false, "left": false, "released": false, "": false, "Bad Reason": false} {
		if EndedBy(reason) != want {
			t.Error(reason)
		}
	}
}
