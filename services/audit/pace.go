package audit

import (
	"cmp"
	"slices"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// second is the length of the window that a rate is judged by, in ms.
const second = 1000

// judgePace fills in the rate, the pauses and the outages.
func (r *Report) judgePace(cfg Config, b *book, f *findings) {
	r.Rate = Rate{Batches: int64(len(b.batches))}
	if b.records > 0 {
		most := cfg.allowed(b.firstMs, b.lastMs)
		r.Rate.Expected, r.Rate.Limit = most.rate, most.perSecond
	}
	highest := seconds(b.batches)
	for _, c := range highest {
		if c.n > r.Rate.HighestSecond {
			r.Rate.HighestSecond, r.Rate.HighestAtMs, r.Rate.HighestTicket = c.n, c.fromMs, c.ticket
		}
		if most := cfg.allowed(c.fromMs, c.atMs); most.perSecond > 0 && c.n > most.perSecond {
			f.add(RateExceeded, &queue.Record{Ticket: c.ticket, AtMs: c.atMs}, "makes it %d people within the second from %s; at most %d are let in (%v a second and one batch)",
				c.n, clock(c.fromMs), most.perSecond, most.rate)
		}
		r.Rate.LargestBatch = max(r.Rate.LargestBatch, c.batch)
	}
	if n := len(b.batches); n > 1 {
		// The last batch stands at the end of the time that is divided by, so it isn't part of what was done in it.
		if span := b.batches[n-1].atMs - b.batches[0].atMs; span > 0 {
			mean := float64(r.Admitted-b.batches[n-1].n) * second / float64(span)
			r.Rate.Mean = &mean
		}
	}
	r.LongestPause = longestPause(b)
	r.outages(b, highest)
}

// window is the most recent second as of one batch.
type window struct {
	ticket queue.Ticket
	atMs   int64
	fromMs int64 // of the first batch in it
	n      int64
	batch  int64 // the last of them
}

// seconds counts for each batch the people within the second that ends with it. Brokers' clocks may differ, so it goes by
// time and not by ticket.
func seconds(batches []batch) []window {
	sorted := batches
	byTime := func(a, b batch) int { return cmp.Compare(a.atMs, b.atMs) }
	if !slices.IsSortedFunc(sorted, byTime) {
		sorted = slices.Clone(sorted)
		slices.SortStableFunc(sorted, byTime)
	}
	out := make([]window, len(sorted))
	start, sum := 0, int64(0)
	for i, c := range sorted {
		sum += c.n
		for c.atMs-sorted[start].atMs >= second {
			sum -= sorted[start].n
			start++
		}
		out[i] = window{c.ticket, c.atMs, sorted[start].atMs, sum, c.n}
	}
	return out
}

func longestPause(b *book) Pause {
	var p Pause
	before := queue.Ticket(0)
	for _, c := range b.batches {
		if c.paused > p.Ms {
			p = Pause{Ms: c.paused, FromMs: c.atMs - c.paused, After: before, Before: c.ticket}
		}
		before = c.ticket
	}
	if b.someWait { // nobody was let in since, up to the last record
		if ms := b.lastMs - max(b.sinceMs, b.admitMs); ms > p.Ms {
			p = Pause{Ms: ms, FromMs: b.lastMs - ms, After: before}
		}
	}
	return p
}

// outages are the times under claims of mode direct, in a log that knows of Redis.
func (r *Report) outages(b *book, windows []window) {
	knows := false
	for i, c := range r.Claims {
		knows = knows || c.Mode == queue.ModeRedis.String()
		if i > 0 && c.Mode != r.Claims[i-1].Mode {
			r.ModeChanges++
		}
	}
	if !knows {
		return
	}
	for _, c := range r.Claims {
		n := len(r.Outages)
		open := n > 0 && r.Outages[n-1].ToTicket == 0
		direct := c.Mode == queue.ModeDirect.String()
		switch {
		case direct && !open:
			r.Outages = append(r.Outages, Outage{FromTicket: c.Ticket, FromMs: c.AtMs, ToMs: b.lastMs})
		case !direct && open:
			r.Outages[n-1].ToTicket, r.Outages[n-1].ToMs = c.Ticket, c.AtMs
		}
	}
	for i := range r.Outages {
		o := &r.Outages[i]
		for _, c := range b.batches {
			if c.atMs >= o.FromMs && c.atMs-c.paused <= o.ToMs { // its pause reaches into the outage, or to its edges
				o.LongestPauseMs = max(o.LongestPauseMs, c.paused)
			}
			if c.ticket > o.FromTicket && (o.ToTicket == 0 || c.ticket < o.ToTicket) {
				o.Admitted += c.n
			}
		}
		for _, w := range windows { // a second that began before the outage, or ended after it, is at its edges
			if w.atMs >= o.FromMs && w.atMs < o.ToMs+second {
				o.HighestSecond = max(o.HighestSecond, w.n)
			}
		}
	}
}

// percentiles of waiting times.
func percentiles(waits []wait) Waits {
	ms := make([]int64, len(waits))
	for i, w := range waits {
		ms[i] = w.ms
	}
	slices.Sort(ms)
	return Waits{Count: int64(len(ms)), P50: at(ms, 50), P90: at(ms, 90), P99: at(ms, 99), Max: at(ms, 100)}
}

// at is the value that pct in a hundred do not exceed; 0 of none.
func at(sorted []int64, pct int) int64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, (len(sorted)*pct+99)/100-1)]
}
