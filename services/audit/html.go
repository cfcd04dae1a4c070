package audit

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"time"

	"github.com/soonbeon/soonbeon/services/plot"
)

//go:embed report.html.tmpl
var page string

// Page is a report as one HTML file that needs nothing else: no script, no style, no picture from elsewhere. It is
// well-formed XML too.
type Page struct {
	Title    string      // "" : "Audit of queue …"
	Report   *Report     // what was found
	Marks    []plot.Mark // drawn into the plots
	Sections []Section   // shown after the summary, before the plots
	Footer   string
}

// Section is what somebody else adds to the page: a drill its timeline, for instance. Body is taken as it is.
type Section struct {
	Title string
	Body  template.HTML
}

// WriteHTML writes the page in one of plot.Languages.
func (r *Report) WriteHTML(w io.Writer, lang string) error { return Page{Report: r}.Write(w, lang) }

// Write writes the page in one of plot.Languages.
func (p Page) Write(w io.Writer, lang string) error { return plot.Page(w, lang, p.write) }

func (p Page) write(w io.Writer) error {
	if p.Title == "" {
		p.Title = "Audit of queue " + string(p.Report.Queue)
	}
	t, err := template.New("report").Funcs(template.FuncMap{
		"style": plot.Style, "duration": duration, "thousands": plot.Thousands, "clock": clock,
		"date": func(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05 UTC") },
	}).Parse(page)
	if err != nil {
		return fmt.Errorf("the report's template: %w", err)
	}
	data := struct {
		Page
		Rows         []Row
		Plots        []titled
		Wrong, Notes []Finding
	}{Page: p, Rows: p.Report.rows(), Plots: p.plots()}
	for _, f := range p.Report.Findings {
		if f.Wrong {
			data.Wrong = append(data.Wrong, f)
		} else {
			data.Notes = append(data.Notes, f)
		}
	}
	if err := t.Execute(w, data); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

type titled struct {
	Title, Note string
	SVG         template.HTML
}

// marks are what the log itself tells of a queue's day.
func (r *Report) marks() []plot.Mark {
	var out []plot.Mark
	if r.Draw != nil {
		out = append(out, plot.Mark{AtMs: r.Draw.AtMs, Label: "lots drawn"})
	}
	for _, e := range r.Ends {
		out = append(out, plot.Mark{AtMs: e.AtMs, Label: e.Why})
		if e.Reopened > 0 {
			out = append(out, plot.Mark{AtMs: e.ReopenedMs, Label: "reopened"})
		}
	}
	return out
}

// plots are the three pictures of every report.
func (p Page) plots() []titled {
	r, s := p.Report, p.Report.Series
	if len(s.Steps) == 0 {
		return nil
	}
	base := plot.Plot{FromMs: s.FromMs, ToMs: max(r.LastMs, s.FromMs+s.WidthMs), Marks: append(r.marks(), p.Marks...)}
	for _, o := range r.Outages {
		base.Shades = append(base.Shades, plot.Shade{Name: "without Redis, " + duration(o.ToMs-o.FromMs), FromMs: o.FromMs, ToMs: o.ToMs})
	}
	line := func(of func(Step) (int64, bool)) []plot.Point {
		var out []plot.Point
		for i, step := range s.Steps {
			if v, ok := of(step); ok {
				out = append(out, plot.Point{AtMs: min(s.FromMs+int64(i)*s.WidthMs+s.WidthMs/2, base.ToMs), V: float64(v)})
			}
		}
		return out
	}

	rate := base
	rate.Label = "Admissions a second over time"
	rate.Lines = []plot.Line{{Name: "people let in, in the second that ends there", Class: "a", Fill: true, Points: line(func(s Step) (int64, bool) { return s.HighestSecond, true })}}
	if r.Rate.Expected > 0 {
		rate.Levels = []plot.Level{{Name: fmt.Sprintf("rate: %v/s", r.Rate.Expected), V: r.Rate.Expected}}
	}
	length := base
	length.Label = "Length of the line over time"
	length.Lines = []plot.Line{{Name: "people in line", Class: "b", Fill: true, Points: line(func(s Step) (int64, bool) { return s.Waiting, true })}}
	waits := base
	waits.Label = "Waiting times over time"
	waits.Format = func(v float64) string { return duration(int64(math.Round(v))) }
	met := func(of func(Step) int64) []plot.Point {
		return line(func(s Step) (int64, bool) { return of(s), s.Admitted > 0 })
	}
	waits.Lines = []plot.Line{
		{Name: "p99", Class: "c", Points: met(func(s Step) int64 { return s.P99 })},
		{Name: "p90", Class: "b", Points: met(func(s Step) int64 { return s.P90 })},
		{Name: "half of those let in", Class: "a", Points: met(func(s Step) int64 { return s.P50 })},
	}
	width := fmt.Sprintf("one step is %s", duration(s.WidthMs))
	out := []titled{
		{"Admissions a second", "the highest second of each step; " + width, rate.SVG()},
		{"Length of the line", "the longest in each step", length.SVG()},
		{"Waiting times", "from an entry to its admission, of those who were let in then", waits.SVG()},
	}
	if len(r.Outages) > 0 {
		out[0].Note += "; shaded: without Redis"
	}
	return out
}
