package dashboard

import (
	"math"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// kept is how many samples are kept: an hour of them.
const kept = 720

// sample is what is kept of a queue at one moment. Times are milliseconds; below 0 is not known.
type sample struct {
	taken                      int64 // which sample it is, from 1: a slot of the ring may be of an hour ago
	waiting, active            int32
	oldest, half, nine, behind int32
	rate                       float32
}

var unknown = sample{waiting: -1, active: -1, oldest: -1, half: -1, nine: -1, behind: -1, rate: -1}

// quiet says that there is nothing to draw: nobody waits, nobody is in, nobody came.
func (p *sample) quiet() bool {
	return p.waiting <= 0 && p.active <= 0 && p.rate <= 0 && p.behind <= 0
}

// small makes an int32 of n, the greatest where it is greater.
func small(n int64) int32 { return int32(max(-1, min(n, math.MaxInt32))) }

// history is the last hour of one queue. One that has been quiet for an hour takes no memory.
type history struct {
	ring  []sample // kept of them, or nil
	since int64    // the first sample that is known: before it there was no such queue, or no process
	loud  int64    // the latest that was not quiet
}

// add keeps p as sample n, which grows by one each time.
func (h *history) add(n int64, p sample) {
	if h.since == 0 {
		h.since = n
	}
	if !p.quiet() || p.waiting < 0 {
		h.loud = n
		if h.ring == nil {
			h.ring = make([]sample, kept)
		}
	}
	if h.ring == nil {
		return
	}
	if n-h.loud >= kept {
		h.ring = nil
		return
	}
	p.taken = n
	h.ring[n%kept] = p
}

// at is sample n. One that was not kept since it was quiet is all zeros.
func (h *history) at(n int64) sample {
	switch {
	case h.since == 0 || n < h.since:
		return unknown
	case h.ring == nil || h.ring[n%kept].taken != n:
		return sample{behind: -1}
	}
	return h.ring[n%kept]
}

// columns are samples as the page takes them: a column for each figure, null where it is not known.
type columns struct {
	Queue   queue.ID   `json:"queue"`
	AtMs    []int64    `json:"atMs"`
	Waiting []*int64   `json:"waiting"`
	Active  []*int64   `json:"active"`
	Rate    []*float64 `json:"rate"`
	Oldest  []*int64   `json:"oldestMs"`
	Half    []*int64   `json:"halfMs"`
	Nine    []*int64   `json:"nineMs"`
	Behind  []*int64   `json:"behind"`
}

// columnsOf are a queue's samples after number after, at most an hour of them. The service's lock is held.
func (s *Service) columnsOf(id queue.ID, after int64) columns {
	c := columns{Queue: id}
	w := s.watched[id]
	if w == nil {
		return c
	}
	known := func(n int32) *int64 {
		if n < 0 {
			return nil
		}
		v := int64(n)
		return &v
	}
	for n := max(after, s.samples-kept, w.history.since-1) + 1; n <= s.samples; n++ {
		p := w.history.at(n)
		c.AtMs = append(c.AtMs, s.times[n%kept])
		c.Waiting, c.Active = append(c.Waiting, known(p.waiting)), append(c.Active, known(p.active))
		c.Oldest, c.Half, c.Nine = append(c.Oldest, known(p.oldest)), append(c.Half, known(p.half)), append(c.Nine, known(p.nine))
		c.Behind = append(c.Behind, known(p.behind))
		var rate *float64
		if p.rate >= 0 {
			v := math.Round(float64(p.rate)*100) / 100
			rate = &v
		}
		c.Rate = append(c.Rate, rate)
	}
	return c
}
