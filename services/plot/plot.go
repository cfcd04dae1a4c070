package plot

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
	"time"
)

// Plot is a picture of values over time, as SVG that stands in the page and takes its colours.
type Plot struct {
	Label        string // for who can't see it
	FromMs, ToMs int64
	Format       func(v float64) string // of a value on the axis; nil: thousands
	Lines        []Line
	Levels       []Level
	Shades       []Shade
	Marks        []Mark
}

// Line is one series. Its class gives it its colour: a, b or c.
type Line struct {
	Name, Class string
	Fill        bool // the area under it
	Points      []Point
}

// Point is a value at a time.
type Point struct {
	AtMs int64
	V    float64
}

// Level is a value that is drawn across.
type Level struct {
	Name string
	V    float64
}

// Shade is a time in which something was different.
type Shade struct {
	Name         string
	FromMs, ToMs int64
}

// Mark is a moment at which something was done, such as a drill's breaking and mending.
type Mark struct {
	AtMs  int64  `json:"atMs"`
	Label string `json:"label"`
}

// The picture's measures, in units of its view box.
const (
	plotWidth, plotHeight               = 960.0, 230.0
	plotLeft, plotRight, plotTop, below = 64.0, 12.0, 26.0, 24.0
)

// SVG draws the plot.
func (p Plot) SVG() template.HTML {
	format := p.Format
	if format == nil {
		format = func(v float64) string { return Thousands(int64(math.Round(v))) }
	}
	top := 0.0
	for _, l := range p.Lines {
		for _, q := range l.Points {
			top = math.Max(top, q.V)
		}
	}
	for _, l := range p.Levels {
		top = math.Max(top, l.V)
	}
	step := niceStep(top / 4)
	top = math.Max(step, math.Ceil(top/step-1e-9)*step)
	span := math.Max(1, float64(p.ToMs-p.FromMs))
	x := func(ms int64) float64 {
		return plotLeft + math.Max(0, math.Min(1, float64(ms-p.FromMs)/span))*(plotWidth-plotLeft-plotRight)
	}
	y := func(v float64) float64 { return plotHeight - below - v/top*(plotHeight-below-plotTop) }

	var b strings.Builder
	w := func(f string, a ...any) { fmt.Fprintf(&b, f, a...) }
	esc := html.EscapeString
	w(`<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, plotWidth, plotHeight, esc(p.Label))
	for _, s := range p.Shades {
		w(`<rect class="shade" x="%.1f" y="%g" width="%.1f" height="%g"><title>%s</title></rect>`, x(s.FromMs), plotTop,
			math.Max(1.5, x(s.ToMs)-x(s.FromMs)), plotHeight-below-plotTop, esc(s.Name))
	}
	for v := 0.0; v <= top+step/2; v += step {
		w(`<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/>`, plotLeft, plotWidth-plotRight, y(v), y(v))
		w(`<text class="tick" text-anchor="end" x="%g" y="%.1f">%s</text>`, plotLeft-6, y(v)+4, esc(format(v)))
	}
	for _, t := range timeTicks(p.FromMs, p.ToMs) {
		if x(t.AtMs) > plotWidth-plotRight-20 {
			continue // it would be cut off
		}
		w(`<text class="tick" text-anchor="middle" x="%.1f" y="%g">%s</text>`, x(t.AtMs), plotHeight-6, t.Label)
	}
	for _, l := range p.Lines {
		if len(l.Points) == 0 {
			continue
		}
		var path strings.Builder
		for i, q := range l.Points {
			cmd := "L"
			if i == 0 {
				cmd = "M"
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", cmd, x(q.AtMs), y(q.V))
		}
		if l.Fill {
			w(`<path class="area %s" d="%sL%.1f %.1fL%.1f %.1fZ"/>`, l.Class, path.String(), x(l.Points[len(l.Points)-1].AtMs), y(0), x(l.Points[0].AtMs), y(0))
		}
		w(`<path class="line %s" d="%s"/>`, l.Class, path.String())
	}
	for i, l := range p.Levels {
		w(`<line class="level" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/>`, plotLeft, plotWidth-plotRight, y(l.V), y(l.V))
		w(`<text class="level" text-anchor="end" x="%g" y="%.1f">%s</text>`, plotWidth-plotRight-110*float64(i), 15.0, esc("- - "+l.Name))
	}
	for _, m := range p.Marks {
		w(`<line class="mark" x1="%.1f" x2="%.1f" y1="%g" y2="%g"/>`, x(m.AtMs), x(m.AtMs), plotTop-6, plotHeight-below)
		anchor, dx := "start", 4.0
		if x(m.AtMs) > plotWidth*0.8 {
			anchor, dx = "end", -4.0
		}
		w(`<text class="mark" text-anchor="%s" x="%.1f" y="%g">%s</text>`, anchor, x(m.AtMs)+dx, plotTop+4, esc(m.Label))
	}
	at := plotLeft
	for _, l := range p.Lines {
		if l.Name == "" {
			continue
		}
		w(`<rect class="key %s" x="%.1f" y="6" width="10" height="10"/>`, l.Class, at)
		w(`<text class="tick" x="%.1f" y="15">%s</text>`, at+14, esc(l.Name))
		at += 30 + 6.6*float64(len([]rune(l.Name)))
	}
	w(`</svg>`)
	return template.HTML(b.String())
}

// niceStep is the next of 1, 2, 5, 10, 20, … that is not below v.
func niceStep(v float64) float64 {
	if !(v > 0) {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*unit >= v*(1-1e-9) {
			return m * unit
		}
	}
	return 10 * unit
}

// timeTicks are at most a dozen round times.
func timeTicks(fromMs, toMs int64) []Mark {
	steps := []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute,
		5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour}
	step := steps[len(steps)-1].Milliseconds()
	for step < (toMs-fromMs)/10 {
		step *= 2
	}
	for _, s := range steps {
		if (toMs-fromMs)/s.Milliseconds() <= 10 {
			step = s.Milliseconds()
			break
		}
	}
	layout := "15:04:05"
	switch {
	case step >= (24 * time.Hour).Milliseconds():
		layout = "01-02"
	case step >= time.Minute.Milliseconds():
		layout = "15:04"
	}
	var out []Mark
	for t := (fromMs + step - 1) / step * step; t <= toMs; t += step {
		out = append(out, Mark{t, time.UnixMilli(t).UTC().Format(layout)})
	}
	return out
}

// Thousands prints 20000 as 20,000.
func Thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
