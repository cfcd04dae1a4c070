package queue

import "time"

// LastPosition stands for everybody behind.
const LastPosition int64 = 1<<63 - 1

// PollStep is one line of the polling table: who stands at Position or before asks again after Interval ± Jitter.
type PollStep struct {
	Position int64
	Interval time.Duration
	Jitter   time.Duration
}

// DefaultPolling is the table of the design: the nearer, the oftener. The last line holds for everybody behind.
func DefaultPolling() []PollStep {
	return []PollStep{
		{100, 1000 * time.Millisecond, 0},
		{1_000, 2000 * time.Millisecond, 300 * time.Millisecond},
		{10_000, 5000 * time.Millisecond, 500 * time.Millisecond},
		{100_000, 10_000 * time.Millisecond, 1000 * time.Millisecond},
		{LastPosition, 30_000 * time.Millisecond, 4000 * time.Millisecond},
	}
}

// PollAfter draws when a visitor at position asks again. draw is uniform in [0, 1); the answer is uniform in
// interval ± jitter, so that people who were told together do not come back together.
func PollAfter(table []PollStep, position int64, draw float64) time.Duration {
	step := table[len(table)-1]
	for _, s := range table {
		if position <= s.Position {
			step = s
			break
		}
	}
	return step.Interval + time.Duration((2*draw-1)*float64(step.Jitter))
}
