package drill

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/soonbeon/soonbeon/services/audit"
	"github.com/soonbeon/soonbeon/services/load"
	"github.com/soonbeon/soonbeon/services/plot"
)

// Report is what a drill found out. Its JSON form has the fields below, "ok" and "exitCode".
type Report struct {
	Queue      string        `json:"queue"`
	What       string        `json:"what"`    // was drilled
	StartMs    int64         `json:"startMs"` // Unix milliseconds, by this machine's clock
	TookMs     int64         `json:"tookMs"`  // until everybody was in
	Cut        string        `json:"cut"`     // "" when the drill came to its end; "timeout" or "interrupted"
	Break      *Step         `json:"break"`   // null where it was not begun
	Mend       *Step         `json:"mend"`
	Events     []Event       `json:"events"` // in the order of their times
	Seen       Seen          `json:"seen"`
	Pollers    Watchers      `json:"pollers"`
	Crowd      *load.Report  `json:"crowd"`      // null where it did not begin
	Audit      *audit.Report `json:"audit"`      // null where the drill did not come to its end
	Wrong      []string      `json:"wrong"`      // promises that were broken
	Incomplete []string      `json:"incomplete"` // why this was not a whole rehearsal
	Page       string        `json:"page"`       // the file of the HTML report; "" where there is none
}

// The exit codes of the command.
const (
	ExitOK         = 0
	ExitWrong      = 1 // a promise was broken
	ExitIncomplete = 3 // nothing was seen broken, but the rehearsal was not whole
)

// ExitCode is ExitOK, ExitWrong or ExitIncomplete.
func (r *Report) ExitCode() int {
	switch {
	case len(r.Wrong) > 0:
		return ExitWrong
	case len(r.Incomplete) > 0:
		return ExitIncomplete
	}
	return ExitOK
}

// OK says that the rehearsal was whole and every promise was kept.
func (r *Report) OK() bool { return r.ExitCode() == ExitOK }

// MarshalJSON adds "ok" and "exitCode".
func (r *Report) MarshalJSON() ([]byte, error) {
	type plain Report
	return json.Marshal(struct {
		OK       bool `json:"ok"`
		ExitCode int  `json:"exitCode"`
		*plain
	}{r.OK(), r.ExitCode(), (*plain)(r)})
}

// report is everything but the audit.
func (r *run) report() *Report {
	seen, events, _ := r.figures()
	slices.SortStableFunc(events, func(a, b Event) int { return int(a.AfterMs - b.AfterMs) })
	rep := &Report{
		Queue: r.cfg.Queue, What: r.sys.what, StartMs: r.start.UnixMilli(), TookMs: time.Since(r.start).Milliseconds(), Cut: r.cut,
		Break: r.steps[0], Mend: r.steps[1], Events: events, Seen: seen, Pollers: r.pollers.report(), Crowd: r.crowd,
		Wrong: []string{}, Incomplete: []string{},
	}
	rep.Pollers.SawError = int64(len(r.failed))
	incomplete := func(format string, a ...any) { rep.Incomplete = append(rep.Incomplete, fmt.Sprintf(format, a...)) }
	wrong := func(format string, a ...any) { rep.Wrong = append(rep.Wrong, fmt.Sprintf(format, a...)) }

	for _, b := range rep.Pollers.Broken {
		wrong("pollers: %s, %s times; first: %s", strings.ReplaceAll(b.Invariant, "_", " "), plot.Thousands(b.Count), b.First)
	}
	if n := rep.Pollers.Unexpected; n > 0 {
		wrong("pollers met %s errors that no document names: %s", plot.Thousands(n), kinds(rep.Pollers.Errors))
	}
	if c := rep.Crowd; c != nil {
		for _, b := range c.Broken {
			wrong("the crowd: %s, %s times; first: %s", strings.ReplaceAll(b.Invariant, "_", " "), plot.Thousands(b.Count), b.First)
		}
	}
	switch {
	case r.brokeOff:
		incomplete("the break command failed, so there was nothing to see: %s", rep.Break.Error)
	case r.cut == "interrupted":
		incomplete("interrupted")
	case r.cut == "timeout":
		incomplete("the time was up")
	case rep.Break == nil:
		incomplete("nothing was broken")
	}
	if rep.Mend != nil && rep.Mend.Error != "" {
		incomplete("the mend command failed: %s", rep.Mend.Error)
	}
	if rep.Cut == "" && !r.brokeOff {
		rep.Incomplete = append(rep.Incomplete, r.unseen()...)
		if c := rep.Crowd; c == nil || c.Admitted != c.Visitors {
			incomplete("not everybody got in")
		}
	}
	return rep
}

func kinds(errors []load.ErrorCount) string {
	var out []string
	for _, e := range errors[:min(len(errors), 3)] {
		out = append(out, fmt.Sprintf("%s: %s (%s)", e.Step, e.Kind, plot.Thousands(e.Count)))
	}
	return strings.Join(out, ", ")
}

// judge adds what the audit found, and whether the log that it read can have been the target's: inLog entries were written to
// it since the drill began.
func (r *Report) judge(a *audit.Report, inLog int64) {
	r.Audit = a
	if !a.OK() {
		r.Wrong = append(r.Wrong, "the audit: "+a.Wrongs())
	}
	if acknowledged := r.Pollers.Came + r.accepted(); inLog < acknowledged {
		r.Wrong = append(r.Wrong, fmt.Sprintf("%s entries were acknowledged, and %s were written to the log since the drill began: is it the target's log?",
			plot.Thousands(acknowledged), plot.Thousands(inLog)))
	}
}

func (r *Report) accepted() int64 {
	if r.Crowd == nil {
		return 0
	}
	return r.Crowd.Accepted
}

// Text is what stands below the timeline: the proof, what the pollers and the crowd met, and the verdict last.
func (r *Report) Text() string {
	var b strings.Builder
	row := func(name, format string, a ...any) {
		fmt.Fprintf(&b, "%-10s  %s\n", name, fmt.Sprintf(format, a...))
	}
	b.WriteByte('\n')
	if r.Audit != nil {
		row("audit", "%s", r.Audit.Summary())
	}
	for _, o := range r.outages() {
		row("outage", "%s without Redis: %s let in, %s a second; longest pause %s, at most %s in any second", seconds(o.Took()), plot.Thousands(o.Admitted),
			perSecond(o.Admitted, o.Took()), seconds(o.LongestPauseMs), plot.Thousands(o.HighestSecond))
	}
	p := r.Pollers
	errors := "no error"
	if len(p.Errors) > 0 {
		errors = fmt.Sprintf("%s of %s saw an error (%s)", plot.Thousands(p.SawError), plot.Thousands(p.Pollers), kinds(p.Errors))
	}
	row("pollers", "%s answers, %s of them approximate; %s; in the outage p50 %s  p99 %s  max %s", plot.Thousands(p.Polls), plot.Thousands(p.Approximate), errors,
		ms(p.Outage.P50), ms(p.Outage.P99), ms(p.Outage.Max))
	if c := r.Crowd; c != nil {
		order := "order kept"
		if !c.Order.Kept {
			order = "order BROKEN"
		}
		row("crowd", "%s of %s in, %s, in the highest second %s; errors %s", plot.Thousands(c.Admitted), plot.Thousands(c.Visitors), order, plot.Thousands(int64(c.Rate.HighestSecond)), none(c.Errors))
	}
	for _, w := range r.Wrong {
		row("WRONG", "%s", w)
	}
	for _, w := range r.Incomplete {
		row("incomplete", "%s", w)
	}
	if r.OK() {
		row("held", "everything, in %s", stamp(r.TookMs))
	}
	if r.Page != "" {
		row("report", "%s", r.Page)
	}
	return b.String()
}

// outages are those of the log since the drill began. The brokers' clock and this machine's may differ a little.
func (r *Report) outages() []audit.Outage {
	if r.Audit == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.Audit.Outages), func(o audit.Outage) bool { return o.ToMs < r.StartMs-1000 })
}

func perSecond(n, ms int64) string {
	if ms <= 0 {
		return "?"
	}
	return plot.Thousands(int64(float64(n)*1000/float64(ms) + 0.5))
}

func none(errors []load.ErrorCount) string {
	if len(errors) == 0 {
		return "none"
	}
	return kinds(errors)
}

// ms prints milliseconds with as many digits as mean something.
func ms(v float64) string {
	if v >= 10 {
		return fmt.Sprintf("%.0f ms", v)
	}
	return fmt.Sprintf("%.1f ms", v)
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
