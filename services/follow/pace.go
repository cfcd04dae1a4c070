package follow

import (
	"sort"
	"time"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// pace remembers the batches of the last minute, oldest first.
type pace struct{ batches []Batch }

func (p *pace) add(atMs int64, people int) {
	p.batches = append(p.batches, Batch{atMs, people})
	n := 0
	for n < len(p.batches) && p.batches[n].AtMs < atMs-60_000 {
		n++
	}
	if n > 0 && n > len(p.batches)/2 {
		p.batches = append([]Batch(nil), p.batches[n:]...)
	}
}

func (p *pace) since(atMs int64) []Batch {
	i := len(p.batches)
	for i > 0 && p.batches[i-1].AtMs > atMs {
		i--
	}
	return append([]Batch(nil), p.batches[i:]...)
}

// overall is the people a second from the first batch since atMs up to nowMs.
func (p *pace) overall(atMs, nowMs int64) (float64, bool) {
	people, first := 0, nowMs
	for i := len(p.batches) - 1; i >= 0 && p.batches[i].AtMs > atMs; i-- {
		people += p.batches[i].People
		first = p.batches[i].AtMs
	}
	if nowMs-first < 2000 || people == 0 {
		return 0, false
	}
	return float64(people) * 1000 / float64(nowMs-first), true
}

// rate adds up the full batches since atMs that follow a full one, and the time between the two. After a batch that was not
// full nobody waited for a while: that time says nothing about the pace.
func (p *pace) rate(atMs int64, fullBatch int) (float64, bool) {
	people, ms := 0, int64(0)
	for i := len(p.batches) - 1; i > 0 && p.batches[i].AtMs > atMs; i-- {
		if b, before := p.batches[i], p.batches[i-1]; b.People >= fullBatch && before.People >= fullBatch {
			people += b.People
			ms += b.AtMs - before.AtMs
		}
	}
	if ms < 2000 {
		return 0, false
	}
	return float64(people) * 1000 / float64(ms), true
}

// Grace is how long a view may take to catch up with what this process has read before it counts as behind.
const Grace = time.Second

// marks remembers how far the log was read at a few moments of the last seconds, and the last time that it went on.
type marks struct {
	ring   [32]mark
	next   int
	latest mark
}

type mark struct {
	at  time.Time
	seq queue.Ticket
}

// every is the least time between two marks, so that the ring covers more than Grace.
const every = Grace / 16

func (m *marks) add(now time.Time, seq queue.Ticket) {
	m.latest = mark{now, seq}
	last := &m.ring[(m.next+len(m.ring)-1)%len(m.ring)]
	if last.at.IsZero() || now.Sub(last.at) >= every {
		m.ring[m.next] = mark{now, seq}
		m.next = (m.next + 1) % len(m.ring)
	}
}

// before is the seq of the latest mark that is not after t; 0 where there is none.
func (m *marks) before(t time.Time) queue.Ticket {
	if !m.latest.at.IsZero() && !m.latest.at.After(t) {
		return m.latest.seq
	}
	for i := range m.ring {
		k := m.ring[(m.next+2*len(m.ring)-1-i)%len(m.ring)]
		if k.at.IsZero() {
			return 0
		}
		if !k.at.After(t) {
			return k.seq
		}
	}
	return 0
}

// times remembers when tickets came, about a second apart.
type times struct{ at []came }

type came struct {
	ticket queue.Ticket
	ms     int64
}

// maxTimes is a day of seconds; of an older ticket only that it is older is known.
const maxTimes = 24 * 3600

func (x *times) add(t queue.Ticket, ms int64) {
	if n := len(x.at); n > 0 && ms < x.at[n-1].ms+1000 {
		return
	}
	if len(x.at) >= 2*maxTimes {
		x.at = append([]came(nil), x.at[maxTimes:]...)
	}
	x.at = append(x.at, came{t, ms})
}

// of is when ticket t came, or a little before; 0 where nothing is known.
func (x *times) of(t queue.Ticket) int64 {
	i := sort.Search(len(x.at), func(i int) bool { return x.at[i].ticket > t })
	if i == 0 {
		if len(x.at) > 0 {
			return x.at[0].ms
		}
		return 0
	}
	return x.at[i-1].ms
}
