package load

import (
	"cmp"
	"fmt"
	"slices"
)

// judgeTwice finds tickets, or numbers, that let in more than one visitor.
func judgeTwice(byTicket []admission, what string, breach func(invariant, format string, a ...any)) {
	for i := 1; i < len(byTicket); i++ {
		if a, b := byTicket[i-1], byTicket[i]; a.ticket == b.ticket {
			breach(brokenTwice, "%s %d admitted visitors %d and %d of this run", what, a.ticket, a.visitor, b.visitor)
		}
	}
}

// judgeOrder finds who was admitted in a later batch than somebody with a later ticket. A lower ticket was in the log
// first, so it was acknowledged, or could have been, before the later one was written; people of one batch are equal. Where
// lots were drawn it goes by the numbers, and what says so.
func judgeOrder(byTicket []admission, what string, breach func(invariant, format string, a ...any)) Order {
	o := Order{Compared: len(byTicket), Kept: true}
	example := ""
	var first admission // of all with a later ticket, the earliest admitted
	for i := len(byTicket) - 1; i >= 0; i-- {
		a := byTicket[i]
		switch {
		case i == len(byTicket)-1 || a.admittedMs <= first.admittedMs:
			first = a
		default:
			o.Kept = false
			o.Passed++
			// Going down, so the last example is that of the lowest ticket.
			example = fmt.Sprintf("%s %d was admitted %d ms after %s %d (visitors %d and %d of this run)",
				what, a.ticket, a.admittedMs-first.admittedMs, what, first.ticket, a.visitor, first.visitor)
		}
	}
	o.First = example
	for range o.Passed {
		breach(brokenOrder, "%s", example)
	}
	return o
}

func sortedByTicket(all []admission) []admission {
	s := slices.Clone(all)
	slices.SortFunc(s, func(a, b admission) int {
		return cmp.Or(cmp.Compare(a.ticket, b.ticket), cmp.Compare(a.admittedMs, b.admittedMs), cmp.Compare(a.visitor, b.visitor))
	})
	return s
}

// measureRate reckons from the times of the admissions alone. Everybody with the same time is one batch.
func measureRate(all []admission) Rate {
	var r Rate
	if len(all) == 0 {
		return r
	}
	times := make([]int64, len(all))
	for i, a := range all {
		times[i] = a.admittedMs
	}
	slices.Sort(times)

	start, batchAt := 0, 0 // of the window, of the batch
	for i, at := range times {
		if at != times[batchAt] {
			batchAt = i
		}
		if i == batchAt {
			r.Batches++
		}
		r.LargestBatch = max(r.LargestBatch, i-batchAt+1)
		for at-times[start] >= 1000 {
			start++
		}
		if n := i - start + 1; n > r.HighestSecond {
			r.HighestSecond, r.HighestAtMs = n, times[start]
		}
	}
	if r.Batches > 1 {
		// The last batch stands at the end of the time that is divided by, so it isn't part of what was done in it. It
		// is the one to leave out, since the line ran dry in it.
		span := float64(times[len(times)-1]-times[0]) / 1000
		mean := float64(batchAt) / span
		r.Mean = &mean
	}
	return r
}

// judgeRate compares the highest second with what the queue was said to do.
func judgeRate(r Rate, expect float64, batch int, breach func(invariant, format string, a ...any)) Rate {
	if expect <= 0 {
		return r
	}
	r.Expected, r.ExpectedBatch = expect, batch
	if limit := expect + float64(batch); float64(r.HighestSecond) > limit {
		breach(brokenRate, "%d people in the second from %d (Unix ms); at most %v a second and one batch of %d",
			r.HighestSecond, r.HighestAtMs, expect, batch)
	}
	return r
}
