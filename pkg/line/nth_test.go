package line

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// The k-th is who has k before them: after people left at the head, in between and at the tail, and after gaps of many blocks.
func TestNthIsTheInverseOfRank(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var x index
	var want []queue.Ticket
	next := queue.Ticket(5000)
	for range 120 {
		for range rnd.IntN(400) {
			next += queue.Ticket(1 + rnd.IntN(3)*rnd.IntN(200))
			x.add(next, strconv.Itoa(int(next)))
			want = append(want, next)
		}
		if rnd.IntN(10) == 0 {
			next += 900_000
		}
		for range min(len(want), rnd.IntN(300)) {
			i := rnd.IntN(len(want)) * rnd.IntN(2) // at the head, half of the time
			x.remove(want[i])
			want = slices.Delete(want, i, i+1)
		}
		for i := 0; i < len(want); i += 1 + rnd.IntN(50) {
			require.Equal(t, want[i], x.nth(i))
			require.Equal(t, i, x.rank(x.nth(i)))
		}
	}
	require.Greater(t, len(want), 1000)
	l := &Line{index: x}
	last, ok := l.Nth(int64(len(want) - 1))
	require.True(t, ok)
	require.Equal(t, want[len(want)-1], last)
	for _, k := range []int64{-1, int64(len(want))} {
		_, ok := l.Nth(k)
		require.False(t, ok, k)
	}
	_, ok = New().Nth(0)
	require.False(t, ok)
}
