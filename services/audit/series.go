package audit

import (
	"cmp"
	"slices"
)

// points is how many steps a plot has at most; narrowest is the least width of one, in ms.
const (
	points    = 600
	narrowest = 100
)

// lengths is the length of the line over time, in steps that grow with the time that there is.
type lengths struct {
	fromMs, width int64
	most          []int64 // the longest in each step
	now           int64
}

func (l *lengths) start(ms int64) { l.fromMs, l.width = ms, narrowest }

// note says that from ms on n people wait. Time that goes back counts as the latest there was.
func (l *lengths) note(ms, n int64) {
	i := l.index(ms)
	for i >= points {
		l.halve()
		i = l.index(ms)
	}
	for int64(len(l.most)) <= i {
		l.most = append(l.most, l.now)
	}
	last := len(l.most) - 1
	l.most[last] = max(l.most[last], n)
	l.now = n
}

func (l *lengths) index(ms int64) int64 { return max(0, ms-l.fromMs) / l.width }

func (l *lengths) halve() {
	l.width *= 2
	half := l.most[:0]
	for i := 0; i < len(l.most); i += 2 {
		n := l.most[i]
		if i+1 < len(l.most) {
			n = max(n, l.most[i+1])
		}
		half = append(half, n)
	}
	l.most = half
}

// series puts together what happened in each step of time.
func (b *book) series() Series {
	l := &b.lengths
	s := Series{FromMs: l.fromMs, WidthMs: l.width, Steps: make([]Step, len(l.most))}
	step := func(ms int64) *Step { return &s.Steps[min(l.index(ms), int64(len(s.Steps)-1))] }
	for i, n := range l.most {
		s.Steps[i].Waiting = n
	}
	for _, e := range b.entries {
		step(e.atMs).Entered++
	}
	for _, c := range b.batches {
		step(c.atMs).Admitted += c.n
	}
	windows := seconds(b.batches)
	for _, w := range windows {
		p := step(w.atMs)
		p.HighestSecond = max(p.HighestSecond, w.n)
	}
	for i := range s.Steps { // a step in which nobody was let in still ends a second
		if p := &s.Steps[i]; p.HighestSecond == 0 {
			p.HighestSecond = peopleIn(windows, s.FromMs+(int64(i)+1)*s.WidthMs-second, s.FromMs+int64(i)*s.WidthMs)
		}
	}
	of := make([][]int64, len(s.Steps))
	for _, w := range b.waits {
		i := min(l.index(w.atMs), int64(len(of)-1))
		of[i] = append(of[i], w.ms)
	}
	for i, ms := range of {
		slices.Sort(ms)
		s.Steps[i].P50, s.Steps[i].P90, s.Steps[i].P99 = at(ms, 50), at(ms, 90), at(ms, 99)
	}
	return s
}

// peopleIn counts who was let in from one time on and before another.
func peopleIn(windows []window, fromMs, beforeMs int64) int64 {
	i, _ := slices.BinarySearchFunc(windows, beforeMs, func(w window, ms int64) int { return cmp.Compare(w.atMs, ms) })
	j, _ := slices.BinarySearchFunc(windows, fromMs, func(w window, ms int64) int { return cmp.Compare(w.atMs, ms) })
	n := int64(0)
	for ; j < i; j++ {
		n += windows[j].batch
	}
	return n
}
