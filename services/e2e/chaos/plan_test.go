package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASeedReplaysThePlan(t *testing.T) {
	a, b, c := newPlan(7), newPlan(7), newPlan(8)
	same := true
	for range 50 {
		steps := a.round(4)
		require.Equal(t, steps, b.round(4))
		same = same && describe(steps) == describe(c.round(4))
	}
	require.False(t, same, "another seed draws another plan")
}

func TestEveryDeedComesUpAndNoTwoMeetAtOnePart(t *testing.T) {
	p := newPlan(1)
	seen := map[string]int{}
	for range len(cards()) {
		steps := p.round(4)
		require.NotEmpty(t, steps)
		taken := map[string]bool{}
		for i, s := range steps {
			seen[string(s.deed)+" "+string(s.part)]++
			for _, c := range s.claims() {
				require.False(t, taken[c], "two deeds at %s:\n%s", c, describe(steps))
				taken[c] = true
			}
			if i > 0 {
				require.LessOrEqual(t, steps[i-1].at, s.at)
			}
			switch s.deed {
			case pause:
				require.GreaterOrEqual(t, s.lasts, leases)
			case slowLink:
				require.Positive(t, s.latency)
			case cutReply:
				require.Positive(t, s.replies)
			}
		}
	}
	for _, c := range cards() {
		require.NotZero(t, seen[string(c.deed)+" "+string(c.part)], "%s %s never came up", c.deed, c.part)
	}
}
