package load

import (
	"math"
	"time"
)

// maxSteps is how many steps of time a run is kept in at most; narrowest is the least width of one.
const (
	maxSteps  = 400
	narrowest = 250 * time.Millisecond
)

// series is what a run looked like over time, in steps that grow with the time that there is. The tally's lock is around it.
type series struct {
	width time.Duration
	steps []moments
}

// moments are what happened in one of them.
type moments struct {
	entered, admitted, gone, failed, approximate int64 // gone: told that the line is over, or lost
	enter, position, waits                       rough
}

// at is the step of d after the start. No run is longer than twice MaxTimeout.
func (s *series) at(d time.Duration) *moments {
	d = max(0, min(d, 2*MaxTimeout))
	if s.width == 0 {
		s.width = narrowest
	}
	for d >= maxSteps*s.width {
		s.halve()
	}
	i := int(d / s.width)
	for len(s.steps) <= i {
		s.steps = append(s.steps, moments{})
	}
	return &s.steps[i]
}

func (s *series) halve() {
	s.width *= 2
	for i := range s.steps {
		if i%2 == 0 {
			s.steps[i/2] = s.steps[i]
		} else {
			s.steps[i/2].add(&s.steps[i])
		}
	}
	s.steps = s.steps[:(len(s.steps)+1)/2]
}

func (p *moments) add(q *moments) {
	p.entered += q.entered
	p.admitted += q.admitted
	p.gone += q.gone
	p.failed += q.failed
	p.approximate += q.approximate
	p.enter.merge(&q.enter)
	p.position.merge(&q.position)
	p.waits.merge(&q.waits)
}

// rough counts durations, a quarter of a doubling to a bucket: enough to be drawn, and a tenth of a Histogram's size. From a microsecond
// to nineteen hours.
type rough struct {
	n      int64
	counts [4 * 36]int32
}

func (h *rough) add(d time.Duration) {
	us := max(1, float64(d.Microseconds()))
	h.counts[min(len(h.counts)-1, int(4*math.Log2(us)))]++
	h.n++
}

func (h *rough) merge(o *rough) {
	h.n += o.n
	for i, c := range o.counts {
		h.counts[i] += c
	}
}

// at is what percent of them took at most, up to a fifth too much; 0 where there is none.
func (h *rough) at(percent int64) time.Duration {
	rank := (h.n*percent + 99) / 100
	for i, c := range h.counts {
		if rank -= int64(c); rank <= 0 && h.n > 0 {
			return time.Duration(math.Exp2(float64(i+1)/4) * 1000)
		}
	}
	return 0
}

// highest is the most people let in within any one second that ends in each step, by the times in the tokens.
func (s *series) highest(sortedMs []int64, startMs int64) []int64 {
	out := make([]int64, len(s.steps))
	width, first := s.width.Milliseconds(), 0
	next := 0
	for i := range out {
		end := startMs + int64(i+1)*width
		for ; next < len(sortedMs) && (sortedMs[next] < end || i == len(out)-1); next++ {
			for sortedMs[next]-sortedMs[first] >= 1000 {
				first++
			}
			out[i] = max(out[i], int64(next-first+1))
		}
		if out[i] == 0 { // nobody was let in then: who was in the second before its end
			n := int64(0)
			for j := next - 1; j >= 0 && sortedMs[j] > end-1000; j-- {
				n++
			}
			out[i] = n
		}
	}
	return out
}
