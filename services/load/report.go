package load

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/soonbeon/soonbeon/services/plot"
)

// Report is what a run found out. Its JSON form has the fields below and "ok".
type Report struct {
	Queue     string           `json:"queue"`
	Visitors  int64            `json:"visitors"`
	Accepted  int64            `json:"accepted"`  // visitors acknowledged with a ticket
	Admitted  int64            `json:"admitted"`  // visitors with a good entry token
	Lost      int64            `json:"lost"`      // acknowledged, and certainly never admitted
	Waiting   int64            `json:"waiting"`   // acknowledged, and still in line when the run was cut short
	Ended     int64            `json:"ended"`     // acknowledged, and told that the line is over, for a reason of its operators
	EndedBy   map[string]int64 `json:"endedBy"`   // reason → how many of them
	Closed    int64            `json:"closed"`    // came when nobody was taken into the line
	Refused   int64            `json:"refused"`   // told that they may not enter, for another reason
	Unknown   int64            `json:"unknown"`   // not acknowledged when the run was cut short
	Refreshed int64            `json:"refreshed"` // entered a second time
	Rechecked int64            `json:"rechecked"` // asked once more after being admitted
	Verified  bool             `json:"verified"`  // entry tokens were checked with the keys
	Cut       string           `json:"cut"`       // "" when everybody's story ended; "timeout" or "interrupted"
	Elapsed   time.Duration    `json:"-"`
	ElapsedMs int64            `json:"elapsedMs"`

	Order  Order        `json:"order"`
	Draw   *Draw        `json:"draw"` // null: lots were not drawn
	Rate   Rate         `json:"rate"`
	Errors []ErrorCount `json:"errors"` // most frequent first
	Broken []Breach     `json:"broken"` // by name

	EnterPerSecond float64  `json:"enterPerSecond"`          // acknowledgements, from the first to the last
	Enter          Latency  `json:"enter"`                   // of acknowledged entries, from sending to answer
	EnterIntended  *Latency `json:"enterIntended,omitempty"` // the same from when the visitor meant to come; with a rate only
	Polls          int64    `json:"polls"`
	Approximate    int64    `json:"approximate"` // polls that were answered approximately
	Position       Latency  `json:"position"`
	Late           Latency  `json:"late"` // how much later than meant this program itself sent a request

	course course
}

// Draw says whether the target kept to its draw.
type Draw struct {
	Seed      string `json:"seed"`
	First     int64  `json:"first"` // tickets that drew
	Last      int64  `json:"last"`
	Committed bool   `json:"committed"` // a commitment was read before the draw
	Checked   int64  `json:"checked"`   // numbers that were told
	Differs   int64  `json:"differs"`
}

// Order says whether admissions went by tickets, and where lots were drawn by the numbers.
type Order struct {
	Kept     bool   `json:"kept"`
	Compared int    `json:"compared"`
	Passed   int    `json:"passed"` // visitors whom a later ticket passed
	First    string `json:"first,omitempty"`
}

// Rate is that of admissions, by the times in the entry tokens.
type Rate struct {
	Mean          *float64 `json:"meanPerSecond"` // null with fewer than two batches
	HighestSecond int      `json:"highestSecond"` // most people in any one second
	HighestAtMs   int64    `json:"highestAtMs"`   // where that second begins, Unix ms
	Batches       int      `json:"batches"`
	LargestBatch  int      `json:"largestBatch"`
	Expected      float64  `json:"expected,omitempty"`
	ExpectedBatch int      `json:"expectedBatch,omitempty"`
}

// ErrorCount counts one kind of failed request.
type ErrorCount struct {
	Step  string `json:"step"` // enter or position
	Kind  string `json:"kind"` // status and code, or timeout, connection refused, connection lost, no answer
	Count int64  `json:"count"`
}

// Breach is an invariant that was broken.
type Breach struct {
	Invariant string `json:"invariant"`
	Count     int64  `json:"count"`
	First     string `json:"first"`
}

// The exit codes of the command.
const (
	ExitOK         = 0
	ExitBroken     = 1 // an invariant was broken
	ExitIncomplete = 3 // nothing was broken, but not everybody got in: cut short, refused, or the line was closed or ended
)

func (r *run) report(cut string, elapsed time.Duration) *Report {
	t := r.tally
	byTicket, draw, what := sortedByTicket(t.admissions), r.lots.report(), "ticket"
	if draw != nil {
		what = "number"
	}
	judgeTwice(byTicket, what, t.breach)
	order := judgeOrder(byTicket, what, t.breach)
	rate := judgeRate(measureRate(t.admissions), r.cfg.ExpectRate, r.cfg.ExpectBatch, t.breach)

	t.mu.Lock()
	defer t.mu.Unlock()
	rep := &Report{
		Queue: r.cfg.Queue, Visitors: int64(r.cfg.Visitors),
		Accepted: t.accepted, Admitted: t.admitted, Lost: t.lost, Waiting: t.accepted - t.admitted - t.lost - t.endedLocked(),
		Ended: t.endedLocked(), EndedBy: maps.Clone(t.ended), Closed: t.closed,
		Refused: t.refused, Unknown: int64(r.cfg.Visitors) - t.accepted - t.refused - t.closed,
		Refreshed: t.refreshed, Rechecked: t.rechecked, Verified: r.checker.keys != nil,
		Cut: cut, Elapsed: elapsed, ElapsedMs: elapsed.Milliseconds(),
		Order: order, Draw: draw, Rate: rate, Errors: []ErrorCount{}, Broken: []Breach{},
		EnterPerSecond: t.enterRateLocked(),
		Enter:          t.enter.Latency(), Position: t.position.Latency(), Late: t.late.Latency(),
		Polls: t.polls, Approximate: t.approximate,
		course: t.courseLocked(),
	}
	if r.cfg.Rate > 0 {
		l := t.enterIntended.Latency()
		rep.EnterIntended = &l
	}
	for k, n := range t.errors {
		rep.Errors = append(rep.Errors, ErrorCount{k[0], k[1], n})
	}
	slices.SortFunc(rep.Errors, func(a, b ErrorCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Step, b.Step), cmp.Compare(a.Kind, b.Kind))
	})
	for _, b := range t.broken {
		rep.Broken = append(rep.Broken, *b)
	}
	slices.SortFunc(rep.Broken, func(a, b Breach) int { return cmp.Compare(a.Invariant, b.Invariant) })
	return rep
}

// OK says that everybody got in and every invariant held.
func (r *Report) OK() bool { return r.ExitCode() == ExitOK }

// ExitCode is ExitOK, ExitBroken or ExitIncomplete.
func (r *Report) ExitCode() int {
	switch {
	case len(r.Broken) > 0:
		return ExitBroken
	case r.Admitted != r.Visitors:
		return ExitIncomplete
	}
	return ExitOK
}

// MarshalJSON adds "ok".
func (r *Report) MarshalJSON() ([]byte, error) {
	type plain Report
	return json.Marshal(struct {
		OK bool `json:"ok"`
		*plain
	}{r.OK(), (*plain)(r)})
}

func (r *Report) print(out io.Writer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	_, err := io.WriteString(out, r.Text())
	return err
}

// Text is the summary for people: a line for each thing they want to know, and the verdict last.
func (r *Report) Text() string {
	var b strings.Builder
	row := func(name, value, what string, a ...any) {
		b.WriteString(strings.TrimRight(fmt.Sprintf("%-11s %-11s %s", name, value, fmt.Sprintf(what, a...)), " ") + "\n")
	}
	r.tell(row)
	b.WriteString("\n")
	for _, br := range r.Broken {
		row("BROKEN", strings.ReplaceAll(br.Invariant, "_", " "), "%s; first: %s", times(br.Count), br.First)
	}
	switch r.ExitCode() {
	case ExitOK:
		row("held", "everything", "that was promised to %s visitors, in %s", plot.Thousands(r.Visitors), duration(r.Elapsed))
	case ExitIncomplete:
		row("incomplete", "", "nothing was seen broken, but only %s of %s got in%s", plot.Thousands(r.Admitted), plot.Thousands(r.Visitors), semicolon(r.sentAway()))
	}
	return b.String()
}

// tell tells row all there is to know but the verdict.
func (r *Report) tell(row func(name, value, what string, a ...any)) {
	switch r.Cut {
	case "timeout":
		row("cut short", duration(r.Elapsed), "the time was up; what follows is what is known by then")
	case "interrupted":
		row("cut short", duration(r.Elapsed), "interrupted; what follows is what is known by then")
	}

	r.acceptedRow(row)
	switch {
	case r.Admitted == 0:
		row("admitted", "0", "%s", r.stillWaiting())
	case r.Verified:
		row("admitted", plot.Thousands(r.Admitted), "every token verified%s", semicolon(r.stillWaiting()))
	default:
		row("admitted", plot.Thousands(r.Admitted), "every token well-formed and live; not verified: no keys given%s", semicolon(r.stillWaiting()))
	}
	if r.Lost > 0 {
		row("lost", plot.Thousands(r.Lost), "acknowledged, and will never get in")
	}
	if r.Ended > 0 {
		row("ended", plot.Thousands(r.Ended), "told that the line is over: %s", byReason(r.EndedBy))
	}
	switch {
	case r.Order.Compared < 2:
		row("order", "unknown", "fewer than two admissions to compare")
	case r.Order.Kept:
		row("order", "kept", "no one passed anyone (%s compared)", plot.Thousands(int64(r.Order.Compared)))
	default:
		row("order", "BROKEN", "%s of %s were passed; first: %s", plot.Thousands(int64(r.Order.Passed)), plot.Thousands(int64(r.Order.Compared)), r.Order.First)
	}
	if d := r.Draw; d != nil {
		committed := "nobody looked for a commitment before it"
		if d.Committed {
			committed = "by the seed that was committed to"
		}
		held := map[bool]string{true: "kept", false: "BROKEN"}[d.Differs == 0]
		row("draw", held, "%s numbers were told of tickets %d to %d (%s), seed %s", plot.Thousands(d.Checked), d.First, d.Last, committed, d.Seed)
	}
	r.rateRow(row)
	row("enter", plot.Thousands(int64(math.Round(r.EnterPerSecond)))+"/s", "%s", percentiles(r.Enter))
	if r.EnterIntended != nil {
		row("", "", "from the time meant: %s", percentiles(*r.EnterIntended))
	}
	row("polls", plot.Thousands(r.Polls), "%s", r.asTold())
	if r.Position.Count > 0 {
		row("", "", "position %s", percentiles(r.Position))
	}
	if r.Approximate > 0 {
		row("", "", "%s of them answered approximately", plot.Thousands(r.Approximate))
	}
	if len(r.Errors) == 0 {
		row("errors", "none", "")
	}
	for i, e := range r.Errors {
		name := ""
		if i == 0 {
			name = "errors"
		}
		row(name, plot.Thousands(e.Count), "%s: %s", e.Step, e.Kind)
	}
}

func (r *Report) acceptedRow(row func(string, string, string, ...any)) {
	var parts []string
	for _, m := range []struct {
		n    int64
		what string
	}{{r.Closed, "came when it was closed"}, {r.Refused, "were refused"}, {r.Unknown, "got no acknowledgement"}} {
		if m.n > 0 {
			parts = append(parts, plot.Thousands(m.n)+" "+m.what)
		}
	}
	missing := strings.Join(parts, ", ")
	switch {
	case missing == "":
		row("accepted", plot.Thousands(r.Accepted), "every one acknowledged by the log")
	default:
		row("accepted", plot.Thousands(r.Accepted), "of %s: %s", plot.Thousands(r.Visitors), missing)
	}
	if r.Refreshed > 0 {
		row("", "", "%s of them entered a second time", plot.Thousands(r.Refreshed))
	}
}

// sentAway says who did not get in because the operators had ended or closed the line.
func (r *Report) sentAway() string {
	var parts []string
	if r.Ended > 0 {
		parts = append(parts, plot.Thousands(r.Ended)+" were told that it is over")
	}
	if r.Closed > 0 {
		parts = append(parts, plot.Thousands(r.Closed)+" came when it was closed")
	}
	return strings.Join(parts, ", ")
}

func byReason(counts map[string]int64) string {
	var parts []string
	for _, why := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %s", why, plot.Thousands(counts[why])))
	}
	return strings.Join(parts, ", ")
}

func (r *Report) stillWaiting() string {
	if r.Waiting == 0 {
		return ""
	}
	return plot.Thousands(r.Waiting) + " still wait"
}

func (r *Report) rateRow(row func(string, string, string, ...any)) {
	if r.Rate.Batches == 0 {
		return
	}
	mean := "one batch"
	if r.Rate.Mean != nil {
		mean = perSecond(*r.Rate.Mean)
	}
	expected := ""
	if r.Rate.Expected > 0 {
		expected = fmt.Sprintf(", expected at most %s", plot.Thousands(int64(r.Rate.Expected+float64(r.Rate.ExpectedBatch))))
	}
	row("rate", mean, "highest second: %s%s; %s batches, the largest %s", plot.Thousands(int64(r.Rate.HighestSecond)), expected,
		plot.Thousands(int64(r.Rate.Batches)), plot.Thousands(int64(r.Rate.LargestBatch)))
}

// asTold says whether this program itself kept the times: where the machine is too slow for the crowd, its figures are
// of the machine and not of the target.
func (r *Report) asTold() string {
	if r.Late.P99 > 250 {
		return fmt.Sprintf("late: one in a hundred by %s or more, since all connections were busy", ms(r.Late.P99))
	}
	return "as told"
}

func percentiles(l Latency) string {
	return fmt.Sprintf("p50 %s  p90 %s  p99 %s  max %s", ms(l.P50), ms(l.P90), ms(l.P99), ms(l.Max))
}

func semicolon(s string) string {
	if s == "" {
		return ""
	}
	return "; " + s
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return plot.Thousands(n) + " times"
}

// ms prints milliseconds with as many digits as mean something.
func ms(v float64) string {
	switch {
	case v >= 10_000:
		return fmt.Sprintf("%.1f s", v/1000)
	case v >= 10:
		return fmt.Sprintf("%.0f ms", v)
	}
	return fmt.Sprintf("%.1f ms", v)
}

func perSecond(v float64) string {
	if v >= 10_000 {
		return plot.Thousands(int64(math.Round(v))) + "/s"
	}
	return fmt.Sprintf("%.1f/s", v)
}

// duration prints like 4.2 s, 42 s, 1m12s, 1h05m.
func duration(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return wholeSeconds(d.Round(time.Second))
}

func wholeSeconds(d time.Duration) string {
	s := int64(d / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	}
	return fmt.Sprintf("%dh%02dm", s/3600, s%3600/60)
}
