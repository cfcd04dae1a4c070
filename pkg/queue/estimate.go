package queue

import (
	"math"
	"time"
)

// NoAhead says that no exact answer is known.
const NoAhead int64 = -1

// AheadBound is how many can be ahead of ticket at the most, told by the log alone: every ticket between served and
// this one, people or not; and never more than the last exact answer, since nobody gets in front of a person who waits.
// lastExact is NoAhead where there was none. For a ticket at or below served it is 0.
//
// The model (section 7 of the design) shows both bounds, and that subtracting the admissions since the last exact
// answer would be wrong.
func AheadBound(ticket, served Ticket, lastExact int64) int64 {
	ahead := max(int64(ticket)-1-int64(served), 0)
	if lastExact >= 0 {
		ahead = min(ahead, lastExact)
	}
	return ahead
}

// RoundUp makes an approximate number look like what it is: ahead rounded up by the first step of sizes that reaches it; as it
// is where none does.
func RoundUp(sizes []RoundStep, ahead int64) int64 {
	for _, s := range sizes {
		if ahead <= s.Ahead {
			return (ahead + s.To - 1) / s.To * s.To
		}
	}
	return ahead
}

// Wait reckons how long ahead people take at perSecond, rounded up to whole seconds. ok is false, and the wait is
// unknown, where the rate is not a positive number.
func Wait(ahead int64, perSecond float64) (wait time.Duration, ok bool) {
	if !(perSecond > 0) || math.IsInf(perSecond, 0) {
		return 0, false
	}
	s := math.Ceil(float64(ahead) / perSecond)
	if s > math.MaxInt64/float64(time.Second) {
		return 0, false
	}
	return time.Duration(s) * time.Second, true
}
