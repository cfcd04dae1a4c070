package load

import (
	"math/bits"
	"sync"
	"time"
)

// subBuckets is how many steps each doubling has: 1/64 is an error of at most 1.6 %, kept on the side of "slower".
const subBuckets = 64

// Histogram counts durations in microseconds, log-linear: exact below subBuckets µs, then subBuckets steps for each
// doubling, up to some 19 hours. It never forgets a slow one, whatever the number of quick ones. The zero value is empty;
// it is safe for concurrent use.
type Histogram struct {
	mu     sync.Mutex
	counts [31 * subBuckets]int64
	n      int64
	max    time.Duration
}

func bucketOf(us uint64) int {
	if us < subBuckets {
		return int(us)
	}
	shift := bits.Len64(us) - bits.Len64(subBuckets)
	i := (shift+1)*subBuckets + int(us>>shift) - subBuckets
	return min(i, 31*subBuckets-1)
}

// upperOf is the largest number of microseconds that bucket i holds.
func upperOf(i int) uint64 {
	if i < subBuckets {
		return uint64(i)
	}
	shift := i/subBuckets - 1
	return uint64(i%subBuckets+subBuckets+1)<<shift - 1
}

// Add counts d; below 0 counts as 0.
func (h *Histogram) Add(d time.Duration) {
	us := uint64(max(d, 0).Microseconds())
	h.mu.Lock()
	h.counts[bucketOf(us)]++
	h.n++
	h.max = max(h.max, d)
	h.mu.Unlock()
}

// Latency is what a Histogram tells, in milliseconds.
type Latency struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50Ms"`
	P90   float64 `json:"p90Ms"`
	P99   float64 `json:"p99Ms"`
	P999  float64 `json:"p999Ms"`
	Max   float64 `json:"maxMs"`
}

// Latency is what was counted so far.
func (h *Histogram) Latency() Latency {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Latency{
		Count: h.n,
		P50:   h.quantile(0.50),
		P90:   h.quantile(0.90),
		P99:   h.quantile(0.99),
		P999:  h.quantile(0.999),
		Max:   millis(h.max),
	}
}

// quantile is in milliseconds: the upper end of the bucket that the q-th duration fell in, at most the maximum.
func (h *Histogram) quantile(q float64) float64 {
	if h.n == 0 {
		return 0
	}
	rank := max(int64(q*float64(h.n)+0.999999), 1)
	var seen int64
	for i, c := range h.counts {
		if seen += c; seen >= rank {
			return min(float64(upperOf(i))/1000, millis(h.max))
		}
	}
	return millis(h.max)
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
