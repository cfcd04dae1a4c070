package line

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// The index against a sorted slice: long jumps, removals at the head, at the tail and in between, blocks that empty and
// are filled again, a past that is forgotten.
func TestIndexAgainstSortedSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x index
		var want []queue.Ticket
		next := queue.Ticket(rapid.IntRange(0, 10_000).Draw(t, "start"))
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0, 1:
				for range rapid.IntRange(1, 300).Draw(t, "adds") {
					x.add(next, fmt.Sprint(next))
					want = append(want, next)
					next++
				}
			case 2:
				next += queue.Ticket(rapid.SampledFrom([]int{1, 63, 64, 4095, 4096, 40_000, 900_000}).Draw(t, "jump"))
			case 3: // from the head
				n := min(len(want), rapid.IntRange(0, 400).Draw(t, "pops"))
				for _, k := range want[:n] {
					x.remove(k)
				}
				want = want[n:]
			case 4: // anywhere
				for range min(len(want), rapid.IntRange(0, 100).Draw(t, "removes")) {
					i := rapid.IntRange(0, len(want)-1).Draw(t, "which")
					x.remove(want[i])
					want = slices.Delete(want, i, i+1)
				}
			}
			var got []queue.Ticket
			x.ascend(func(k queue.Ticket, v queue.Visitor) bool {
				if v != fmt.Sprint(k) {
					t.Fatalf("ticket %d has the name of %s", k, v)
				}
				got = append(got, k)
				return true
			})
			if !slices.Equal(got, want) || x.len != len(want) {
				t.Fatalf("%d waiting, want %d", len(got), len(want))
			}
			for i, k := range want {
				if i%17 == 0 || i == len(want)-1 {
					if r := x.rank(k); r != i {
						t.Fatalf("rank of %d is %d, want %d", k, r, i)
					}
				}
			}
			if r := x.rank(next); r != len(want) {
				t.Fatalf("rank behind the end is %d, want %d", r, len(want))
			}
		}
	})
}

// Moving on for long does not keep the past: the blocks that are left are those in use.
func TestIndexForgetsItsPast(t *testing.T) {
	var x index
	for n := queue.Ticket(1); n <= 3_000_000; n++ {
		x.add(n, "v")
		if n > 1000 {
			x.remove(n - 1000)
		}
	}
	if len(x.blocks) > 200 {
		t.Errorf("%d blocks are kept for 1,000 who wait", len(x.blocks))
	}
	if r := x.rank(3_000_000); r != 999 {
		t.Errorf("rank %d, want 999", r)
	}
}

func crowd(n int) *Line {
	l := New()
	recs := make([]queue.Record, 0, queue.MaxBatch)
	for i := 1; i <= n; i++ {
		recs = append(recs, queue.Record{Ticket: queue.Ticket(i), Kind: queue.Entered, Visitor: queue.NewVisitor()})
		if len(recs) == cap(recs) || i == n {
			l.Apply(l.State().Seq, recs)
			recs = recs[:0]
		}
	}
	return l
}

// BenchmarkPlace is one exact rank among a million.
func BenchmarkPlace(b *testing.B) {
	l := crowd(1_000_000)
	var names []queue.Visitor
	for w := range l.Waiting() {
		names = append(names, w.Visitor)
	}
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	b.ResetTimer()
	for i := range b.N {
		if _, ok := l.Place(names[i%len(names)]); !ok {
			b.Fatal("not there")
		}
	}
}

// BenchmarkApply is one entry folded.
func BenchmarkApply(b *testing.B) {
	recs := make([]queue.Record, 1000)
	for i := range recs {
		recs[i] = queue.Record{Kind: queue.Entered}
	}
	l := New()
	for n := 0; n < b.N; n += len(recs) {
		for i := range recs {
			recs[i].Ticket = queue.Ticket(n + i + 1)
			recs[i].Visitor = fmt.Sprintf("%022d", n+i)
		}
		l.Apply(l.State().Seq, recs)
	}
}

// BenchmarkMemory reports the bytes that one waiting visitor costs, the id included, just below and just above the sizes
// at which maps grow.
func BenchmarkMemory(b *testing.B) {
	for _, n := range []int{500_000, 1_000_000, 1_500_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for range b.N {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				l := crowd(n)
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "B/visitor")
				runtime.KeepAlive(l)
			}
		})
	}
}
