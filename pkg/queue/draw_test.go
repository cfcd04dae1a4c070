package queue

import (
	"encoding/binary"
	"testing"
	"testing/quick"

	"github.com/stretchr/testify/require"
)

func seedOf(n uint64) (s Seed) {
	binary.BigEndian.PutUint64(s[:], n)
	return s
}

func TestADrawIsAPermutationOfItsTicketsAndCanBeTurnedAround(t *testing.T) {
	for _, n := range []Ticket{1, 2, 3, 4, 5, 7, 10, 16, 17, 99, 100, 1000, 4097} {
		for _, from := range []Ticket{0, 1, 12345} {
			d := Draw{From: from, At: from + n, Seed: seedOf(uint64(n))}
			seen := map[Ticket]bool{}
			for ticket := from + 1; ticket <= from+n; ticket++ {
				number := d.Number(ticket)
				require.Greater(t, number, from)
				require.LessOrEqual(t, number, from+n)
				require.False(t, seen[number], "number %d of %d is drawn twice", number, n)
				seen[number] = true
				require.Equal(t, ticket, d.Ticket(number))
			}
			for _, outside := range []Ticket{0, from, from + n + 1, from + n + 1000} {
				require.Equal(t, outside, d.Number(outside), "who does not take part keeps the ticket")
				require.Equal(t, outside, d.Ticket(outside))
			}
		}
	}
	require.NoError(t, quick.Check(func(from, n uint32, x uint32, seed Seed) bool {
		d := Draw{From: Ticket(from), At: Ticket(from) + Ticket(n) + 1, Seed: seed}
		ticket := d.From + 1 + Ticket(x)%(Ticket(n)+1)
		number := d.Number(ticket)
		return d.Drawn(number) && d.Ticket(number) == ticket
	}, nil))
}

// The formula is a promise to everybody who checks a draw by another program: these values never change.
func TestTheLotIsAPublishedFormula(t *testing.T) {
	d := Draw{From: 10, At: 1010}
	for i := range d.Seed {
		d.Seed[i] = byte(i)
	}
	var got []Ticket
	for _, ticket := range []Ticket{11, 12, 13, 500, 1010} {
		got = append(got, d.Number(ticket))
	}
	require.Equal(t, []Ticket{503, 250, 707, 861, 542}, got)
	require.Equal(t, "c2d499744b2a02bb559662083269dd3aa6c9b2004a1ddfb1da02e9cd6ce99997", Commitment("main", d.Seed))
	require.NotEqual(t, Commitment("main", d.Seed), Commitment("other", d.Seed), "a commitment is one queue's")
}

// Over many seeds each ticket gets each number equally often: chi-square, at a bound that a fair lot passes all but once in ten
// million, and the seeds are fixed.
func TestALotIsFair(t *testing.T) {
	for n, most := range map[int]float64{2: 28.4, 3: 32.2, 5: 38.2, 8: 45.3, 20: 66.9} {
		for ticket := 1; ticket <= n; ticket++ {
			const rounds = 20_000
			counts := make([]int, n+1)
			for seed := range uint64(rounds) {
				d := Draw{At: Ticket(n), Seed: seedOf(seed)}
				counts[d.Number(Ticket(ticket))]++
			}
			want, chi := float64(rounds)/float64(n), 0.0
			for _, c := range counts[1:] {
				chi += (float64(c) - want) * (float64(c) - want) / want
			}
			require.Less(t, chi, most, "ticket %d of %d: %v", ticket, n, counts[1:])
		}
	}
}

func TestNeighboursAreDrawnApart(t *testing.T) {
	const n = 10_000
	d, sum := Draw{At: n, Seed: seedOf(7)}, 0.0
	for ticket := Ticket(1); ticket < n; ticket++ {
		gap := float64(d.Number(ticket) - d.Number(ticket+1))
		if gap < 0 {
			gap = -gap
		}
		sum += gap
	}
	require.InDelta(t, n/3.0, sum/(n-1), n/50.0, "the mean distance of two random numbers is a third of the range")
}

func BenchmarkDrawMillion(b *testing.B) {
	d := Draw{At: 1_000_000, Seed: seedOf(1)}
	for b.Loop() {
		for ticket := Ticket(1); ticket <= d.At; ticket++ {
			d.Number(ticket)
		}
	}
}
