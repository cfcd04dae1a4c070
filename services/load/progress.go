package load

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/soonbeon/soonbeon/services/plot"
)

const (
	redrawEvery = 200 * time.Millisecond // on a terminal: two lines, drawn over
	lineEvery   = 5 * time.Second        // elsewhere: one more line
	rateOver    = 10 * time.Second       // what "a second" is averaged over while it runs
)

// progress shows a run while it goes on. Failures to write are ignored: the crowd is not sent home because nobody
// watches.
type progress struct {
	out      io.Writer
	terminal bool
	crowd    *run
	past     []moment // the last rateOver, oldest first
	drawn    bool
}

type moment struct {
	at       time.Time
	accepted int64
	admitted int64
}

func newProgress(out io.Writer, r *run) *progress {
	return &progress{out: out, terminal: isTerminal(out), crowd: r, past: []moment{{at: r.start}}}
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// run draws until stop is closed, and then once more on a terminal, so that what stays on the screen is the end.
func (p *progress) run(stop <-chan struct{}) {
	every := lineEvery
	if p.terminal {
		every = redrawEvery
		p.draw()
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			p.draw()
		case <-stop:
			if p.terminal || p.drawn {
				p.draw()
				_, _ = io.WriteString(p.out, "\n")
			}
			return
		}
	}
}

func (p *progress) draw() {
	now := time.Now()
	g := p.crowd.tally.glance()
	p.past = append(p.past, moment{now, g.accepted, g.admitted})
	for len(p.past) > 2 && now.Sub(p.past[0].at) > rateOver {
		p.past = p.past[1:]
	}
	v := view{
		glance: g, visitors: int64(p.crowd.cfg.Visitors), elapsed: now.Sub(p.crowd.start),
		entering: p.crowd.tally.enterRate(), latency: p.crowd.tally.enter.Latency(), admitting: p.admitting(now),
	}
	if !p.terminal {
		_, _ = io.WriteString(p.out, v.line()+"\n")
		p.drawn = true
		return
	}
	up := ""
	if p.drawn {
		up = "\x1b[2A"
	}
	p.drawn = true
	a, b := v.lines()
	_, _ = fmt.Fprintf(p.out, "%s\r\x1b[K%s\n\r\x1b[K%s\n", up, a, b)
}

func (p *progress) admitting(now time.Time) float64 {
	first := p.past[0]
	if d := now.Sub(first.at).Seconds(); d > 0 {
		return float64(p.past[len(p.past)-1].admitted-first.admitted) / d
	}
	return 0
}

// view is one moment as it is shown.
type view struct {
	glance
	visitors  int64
	elapsed   time.Duration
	entering  float64 // a second
	latency   Latency // of enter
	admitting float64 // a second, of late
}

const barWidth = 20

// lines are the two of a terminal: who comes, and who waits.
func (v view) lines() (enter, wait string) {
	// Numbers are padded, so that nothing jumps to and fro between two drawings.
	total := plot.Thousands(v.visitors)
	count := fmt.Sprintf("%*s/%s", len(total), plot.Thousands(v.accepted), total)
	filled := int(v.accepted * barWidth / max(v.visitors, 1))
	bar := strings.Repeat("█", filled) + strings.Repeat("░", barWidth-filled)
	enter = fmt.Sprintf("%-10s %s  %s  %8s/s   p50 %s  p99 %s", "entering", count, bar,
		plot.Thousands(int64(v.entering)), ms(v.latency.P50), ms(v.latency.P99))
	wait = fmt.Sprintf("%-10s %*s  admitted %*s  %8s/s   %s elapsed%s%s", "waiting",
		len(total), plot.Thousands(v.waiting()), len(total), plot.Thousands(v.admitted), plot.Thousands(int64(v.admitting+0.5)),
		wholeSeconds(v.elapsed), v.left(), v.trouble())
	return enter, wait
}

// line is the same for a file or a pipe.
func (v view) line() string {
	s := int64(v.elapsed / time.Second)
	return fmt.Sprintf("%02d:%02d  entered %s/%s (%s/s)  waiting %s  admitted %s (%s/s)%s%s", s/60, s%60,
		plot.Thousands(v.accepted), plot.Thousands(v.visitors), plot.Thousands(int64(v.entering)), plot.Thousands(v.waiting()),
		plot.Thousands(v.admitted), plot.Thousands(int64(v.admitting+0.5)), v.left(), v.trouble())
}

func (v view) waiting() int64 { return v.accepted - v.admitted - v.lost - v.ended }

// left reckons the time until the last one is in; it says nothing before it knows.
func (v view) left() string {
	remaining := v.visitors - v.admitted - v.lost - v.refused - v.closed - v.ended
	if v.admitting <= 0 || remaining <= 0 {
		return ""
	}
	return ", " + wholeSeconds(max(time.Duration(float64(remaining)/v.admitting*float64(time.Second)), time.Second)) + " left"
}

func (v view) trouble() string {
	s := ""
	if v.errors > 0 {
		s += "  errors " + plot.Thousands(v.errors)
	}
	if v.broken > 0 {
		s += "  BROKEN " + plot.Thousands(v.broken)
	}
	return s
}
