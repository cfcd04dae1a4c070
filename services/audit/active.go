package audit

import (
	"container/heap"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// active are the admissions that hold: each until it is released, or until no gate lets its holder in any more, which is
// pass.Leeway after its end.
type active struct {
	held   map[queue.Ticket]holder
	ending ends
	peaks  []peak
}

type holder struct {
	who    int32
	endsMs int64
}

// peak is how many held after one record.
type peak struct {
	ticket queue.Ticket
	atMs   int64
	n      int64
}

func (a *active) take(n queue.Ticket, who int32, endsMs int64) {
	if a.held == nil {
		a.held = map[queue.Ticket]holder{}
	}
	endsMs += pass.Leeway.Milliseconds()
	a.held[n] = holder{who, endsMs}
	heap.Push(&a.ending, ending{endsMs, n})
}

func (a *active) release(n queue.Ticket, who int32) {
	if a.held[n].who == who {
		delete(a.held, n)
	}
}

// note counts after a record that admitted, at nowMs, which never goes back.
func (a *active) note(rec *queue.Record, nowMs int64) {
	for len(a.ending) > 0 && a.ending[0].ms <= nowMs {
		delete(a.held, heap.Pop(&a.ending).(ending).number)
	}
	a.peaks = append(a.peaks, peak{rec.Ticket, rec.AtMs, int64(len(a.held))})
}

// ending is when an admission ends.
type ending struct {
	ms     int64
	number queue.Ticket
}

// ends is a container/heap, the next first.
type ends []ending

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].ms < e[j].ms }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(ending)) }
func (e *ends) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

// judgeActive fills in how many admissions held at one time, and finds records that made them more than the limit.
func (r *Report) judgeActive(cfg Config, b *book, f *findings) {
	for _, p := range b.active.peaks {
		if p.n > r.Active.Highest {
			r.Active.Highest, r.Active.AtMs, r.Active.Record = p.n, p.atMs, p.ticket
		}
		limit := cfg.allowed(p.atMs, p.atMs).maxActive
		if limit > 0 && p.n > limit {
			f.add(CapacityExceeded, &queue.Record{Ticket: p.ticket, AtMs: p.atMs}, "makes it %d admissions that hold at one time; at most %d are to", p.n, limit)
		}
	}
	if b.records > 0 {
		r.Active.Limit = cfg.allowed(b.firstMs, b.lastMs).maxActive
	}
}
