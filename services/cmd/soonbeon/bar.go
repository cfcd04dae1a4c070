package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/soonbeon/soonbeon/services/replay"
)

const (
	barWidth    = 24
	redrawEvery = 100 * time.Millisecond // on a terminal: one line, drawn over
	sayEvery    = 5 * time.Second        // elsewhere: a line more
)

// bar shows how far a replay is, how fast it goes and how long it will take. Failures to write are ignored: the work is not
// left undone because nobody watches.
type bar struct {
	out      io.Writer
	terminal bool
	name     string
	now      func() time.Time
	step     replay.Step
	began    time.Time // of the step
	drawn    time.Time
}

func newBar(out io.Writer, name string) *bar {
	b := &bar{out: out, name: name, now: time.Now}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		b.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return b
}

func (b *bar) show(step replay.Step, done, total int64) {
	now := b.now()
	every := sayEvery
	if b.terminal {
		every = redrawEvery
	}
	fresh := step != b.step
	if fresh {
		b.step, b.began, b.drawn = step, now, now
	}
	switch {
	case fresh && (b.terminal || total == 0): // a step of unknown length may be told of once only
	case b.terminal && done == total:
	case now.Sub(b.drawn) < every:
		return
	}
	b.drawn = now
	text := b.text(done, total, now.Sub(b.began))
	if b.terminal {
		_, _ = io.WriteString(b.out, "\r\x1b[K"+text)
	} else {
		_, _ = io.WriteString(b.out, text+"\n")
	}
}

func (b *bar) text(done, total int64, took time.Duration) string {
	if total <= 0 {
		return fmt.Sprintf("%-10s %s", b.name, b.step)
	}
	filled := int(min(done, total) * barWidth / total)
	text := fmt.Sprintf("%-10s %-16s %s%s %3d %%  %s of %s", b.name, b.step, strings.Repeat("█", filled),
		strings.Repeat("░", barWidth-filled), done*100/total, grouped(done), grouped(total))
	if rate := float64(done) / took.Seconds(); done > 0 && took > 0 {
		left := time.Duration(float64(total-done) / rate * float64(time.Second))
		text += fmt.Sprintf("  %s/s  %s left", grouped(int64(rate)), left.Round(100*time.Millisecond))
	}
	return text
}

// end clears the line.
func (b *bar) end() {
	if b.terminal {
		_, _ = io.WriteString(b.out, "\r\x1b[K")
	}
}

// grouped writes 1234567 as 1,234,567.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
