package load

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/soonbeon/soonbeon/services/plot"
)

//go:embed report.html.tmpl
var page string

// course is how a run went over time, as its page draws it.
type course struct {
	startMs int64
	series  series
	highest []int64 // people let in within a second, by step
}

// told is one line of the summary.
type told struct{ Name, Value, What string }

// WriteHTML writes the report as one page that needs nothing else: no script, no style, no picture from elsewhere. It is well-formed XML too. lang is one of
// plot.Languages.
func (r *Report) WriteHTML(w io.Writer, lang string) error { return plot.Page(w, lang, r.english) }

func (r *Report) english(w io.Writer) error {
	t, err := template.New("load").Funcs(template.FuncMap{
		"style": plot.Style, "thousands": plot.Thousands,
		"words": func(s string) string { return strings.ReplaceAll(s, "_", " ") },
		"times": times,
	}).Parse(page)
	if err != nil {
		return fmt.Errorf("the report's template: %w", err)
	}
	data := struct {
		*Report
		Verdict string
		Held    bool
		Took    string
		At      string
		Rows    []told
		Plots   []drawing
	}{Report: r, Held: r.OK(), Took: duration(r.Elapsed), At: time.UnixMilli(r.course.startMs).UTC().Format("2006-01-02 15:04:05 UTC"), Plots: r.plots()}
	switch r.ExitCode() {
	case ExitOK:
		data.Verdict = "Everything held."
	case ExitBroken:
		data.Verdict = "A promise was broken."
	default:
		data.Verdict = "Not everybody got in."
	}
	r.tell(func(name, value, what string, a ...any) {
		data.Rows = append(data.Rows, told{name, value, fmt.Sprintf(what, a...)})
	})
	if err := t.Execute(w, data); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// drawing is one picture with what is said about it.
type drawing struct {
	Title, Note string
	SVG         template.HTML
}

func (r *Report) plots() []drawing {
	s, from := &r.course.series, r.course.startMs
	if len(s.steps) == 0 {
		return nil
	}
	width := s.width.Milliseconds()
	base := plot.Plot{FromMs: from, ToMs: max(from+r.Elapsed.Milliseconds(), from+width)}
	line := func(of func(i int, p *moments) (float64, bool)) []plot.Point {
		var out []plot.Point
		for i := range s.steps {
			if v, ok := of(i, &s.steps[i]); ok {
				out = append(out, plot.Point{AtMs: min(from+int64(i)*width+width/2, base.ToMs), V: v})
			}
		}
		return out
	}
	quick := func(of func(*moments) *rough, percent int64) []plot.Point {
		return line(func(_ int, p *moments) (float64, bool) { h := of(p); return float64(h.at(percent)) / 1e6, h.n > 0 })
	}
	draw := func(title, note string, change func(p *plot.Plot)) drawing {
		p := base
		p.Label = title + " over time"
		change(&p)
		return drawing{title, note, p.SVG()}
	}
	enter, position, waits := func(p *moments) *rough { return &p.enter }, func(p *moments) *rough { return &p.position }, func(p *moments) *rough { return &p.waits }
	milliseconds := func(v float64) string { return ms(v) }

	out := []drawing{
		draw("Arrivals a second", "visitors acknowledged with a ticket; one step is "+s.width.String(), func(p *plot.Plot) {
			p.Lines = []plot.Line{{Name: "acknowledged", Class: "b", Fill: true, Points: line(func(_ int, p *moments) (float64, bool) {
				return float64(p.entered) / s.width.Seconds(), true
			})}}
		}),
		draw("Admissions a second", "the highest second of each step, by the times in the entry tokens", func(p *plot.Plot) {
			p.Lines = []plot.Line{{Name: "people let in, in the second that ends there", Class: "a", Fill: true, Points: line(func(i int, _ *moments) (float64, bool) {
				return float64(r.course.highest[i]), true
			})}}
			if r.Rate.Expected > 0 {
				p.Levels = []plot.Level{{Name: fmt.Sprintf("rate: %v/s", r.Rate.Expected), V: r.Rate.Expected}}
			}
		}),
	}
	inLine := int64(0)
	out = append(out,
		draw("In line", "acknowledged, and not known to be in yet", func(p *plot.Plot) {
			p.Lines = []plot.Line{{Name: "visitors in line", Class: "b", Fill: true, Points: line(func(_ int, p *moments) (float64, bool) {
				inLine += p.entered - p.admitted - p.gone
				return float64(inLine), true
			})}}
		}),
		draw("Waits", "from the acknowledgement of an entry to the entry token in hand, of those who got it then; polling included", func(p *plot.Plot) {
			p.Format = func(v float64) string { return duration(time.Duration(v * 1e6)) }
			p.Lines = []plot.Line{{Name: "p99", Class: "c", Points: quick(waits, 99)}, {Name: "p90", Class: "b", Points: quick(waits, 90)},
				{Name: "half of those let in", Class: "a", Points: quick(waits, 50)}}
		}),
		draw("How quick answers were", "each step's, to a fifth; exact figures over the whole run are below", func(p *plot.Plot) {
			p.Format = milliseconds
			p.Lines = []plot.Line{{Name: "enter p99", Class: "c", Points: quick(enter, 99)}, {Name: "position p99", Class: "b", Points: quick(position, 99)},
				{Name: "position p50", Class: "a", Points: quick(position, 50)}}
		}))
	if len(r.Errors) > 0 || r.Approximate > 0 {
		out = append(out, draw("Failed requests and approximate answers a second", "failed requests are tried again, as the target said", func(p *plot.Plot) {
			p.Lines = []plot.Line{
				{Name: "failed", Class: "c", Points: line(func(_ int, p *moments) (float64, bool) { return float64(p.failed) / s.width.Seconds(), true })},
				{Name: "approximate", Class: "a", Points: line(func(_ int, p *moments) (float64, bool) { return float64(p.approximate) / s.width.Seconds(), true })},
			}
		}))
	}
	return out
}

// course is taken once the crowd is home. The tally's lock is held.
func (t *tally) courseLocked() course {
	ms := make([]int64, 0, len(t.admissions))
	for _, a := range t.admissions {
		ms = append(ms, a.admittedMs)
	}
	slices.Sort(ms)
	c := course{startMs: t.start.UnixMilli(), series: t.series}
	c.highest = c.series.highest(ms, c.startMs)
	return c
}

// openPage makes the file of --html before anybody is sent, so that an hour's run is not lost to a folder that isn't there; nil without one.
func (c Config) openPage() (*os.File, error) {
	if c.HTML == "" {
		return nil, nil
	}
	f, err := os.Create(c.HTML)
	if err != nil {
		return nil, fmt.Errorf("--html: %w", err)
	}
	return f, nil
}

// writePage writes and closes it.
func (r *Report) writePage(f *os.File, lang string) error {
	if f == nil {
		return nil
	}
	if err := errors.Join(r.WriteHTML(f, lang), f.Close()); err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return nil
}
