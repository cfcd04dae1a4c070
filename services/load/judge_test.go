package load

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func noBreach(t *testing.T) func(string, string, ...any) {
	return func(invariant, format string, a ...any) { t.Errorf("%s: %s", invariant, fmt.Sprintf(format, a...)) }
}

func batches(atMs ...int64) []admission {
	var all []admission
	for i, at := range atMs {
		all = append(all, admission{visitor: i + 1, ticket: int64(i + 1), admittedMs: at})
	}
	return all
}

func TestOrderPeopleOfOneBatchAreEqual(t *testing.T) {
	o := judgeOrder(batches(100, 100, 100, 200, 200), "ticket", noBreach(t))
	if !o.Kept || o.Compared != 5 || o.First != "" {
		t.Errorf("%+v", o)
	}
}

func TestOrderNamesTheLowestTicketThatWasPassed(t *testing.T) {
	n := 0
	o := judgeOrder(batches(100, 300, 200, 200, 500, 400), "ticket", func(inv, _ string, _ ...any) { n++ })
	if o.Kept || o.Passed != 2 || n != 2 || !strings.HasPrefix(o.First, "ticket 2 was admitted 100 ms after ticket 3 ") {
		t.Errorf("%+v, %d", o, n)
	}
}

// The sweep agrees with comparing everybody with everybody.
func TestOrderAgreesWithAllPairs(t *testing.T) {
	for range 500 {
		var all []admission
		for i := range rand.IntN(12) {
			all = append(all, admission{i, int64(i * 3), rand.Int64N(5)})
		}
		passed := 0
		for i, a := range all {
			if slices.ContainsFunc(all[i:], func(b admission) bool { return b.admittedMs < a.admittedMs }) {
				passed++
			}
		}
		if o := judgeOrder(all, "ticket", func(string, string, ...any) {}); o.Passed != passed || o.Kept != (passed == 0) {
			t.Fatalf("%+v, want %d of %v", o, passed, all)
		}
	}
}

func TestHighestSecondIsAnySecond(t *testing.T) {
	// 3 late in one calendar second and 3 early in the next are 6 in one second.
	r := measureRate(batches(0, 900, 950, 990, 1100, 1200, 1300, 2500))
	if r.HighestSecond != 6 || r.HighestAtMs != 900 || r.Batches != 8 || r.LargestBatch != 1 {
		t.Errorf("%+v", r)
	}
	// Half open: exactly a second apart is not the same second.
	if r := measureRate(batches(0, 1000)); r.HighestSecond != 1 || *r.Mean != 1 {
		t.Errorf("%+v", r)
	}
	if r := measureRate(batches(5, 5, 5)); r.Mean != nil || r.Batches != 1 || r.LargestBatch != 3 || r.HighestSecond != 3 {
		t.Errorf("%+v", r)
	}
	if r := measureRate(nil); r.HighestSecond != 0 || r.Batches != 0 {
		t.Errorf("%+v", r)
	}
}

func TestHighestSecondAgreesWithAllSeconds(t *testing.T) {
	for range 300 {
		var all []admission
		for i := range 1 + rand.IntN(40) {
			all = append(all, admission{i, int64(i), rand.Int64N(4000)})
		}
		most := 0
		for _, from := range all {
			n := 0
			for _, a := range all {
				if a.admittedMs >= from.admittedMs && a.admittedMs < from.admittedMs+1000 {
					n++
				}
			}
			most = max(most, n)
		}
		if r := measureRate(all); r.HighestSecond != most {
			t.Fatalf("%d, want %d", r.HighestSecond, most)
		}
	}
}

func TestRateMayHaveOneBatchMoreAndNotOnePersonMore(t *testing.T) {
	judgeRate(Rate{HighestSecond: 193}, 175, 18, noBreach(t))
	judgeRate(Rate{HighestSecond: 9999}, 0, 0, noBreach(t))
	found := false
	judgeRate(Rate{HighestSecond: 194}, 175, 18, func(inv, _ string, _ ...any) { found = inv == brokenRate })
	if !found {
		t.Error("194 where 193 are allowed")
	}
}

func TestHistogramIsNeverBelowTheTruthAndAtMostTwoPercentAbove(t *testing.T) {
	var h Histogram
	var all []time.Duration
	for range 20_000 {
		d := time.Duration(rand.ExpFloat64() * float64(20*time.Millisecond)).Truncate(time.Microsecond)
		all = append(all, d)
		h.Add(d)
	}
	slices.Sort(all)
	l := h.Latency()
	for q, got := range map[float64]float64{0.5: l.P50, 0.9: l.P90, 0.99: l.P99, 0.999: l.P999} {
		want := millis(all[int(q*float64(len(all)))-1])
		if got < want || got > want*1.016+0.001 {
			t.Errorf("p%v is %v ms, want %v", q*100, got, want)
		}
	}
	if l.Max != millis(all[len(all)-1]) || l.Count != 20_000 {
		t.Errorf("%+v", l)
	}
}

func TestHistogramBucketsFollowOnEachOther(t *testing.T) {
	last := -1
	for us := range uint64(300_000) {
		i := bucketOf(us)
		if i < last || i > last+1 {
			t.Fatalf("%d µs is in bucket %d after %d", us, i, last)
		}
		if up := upperOf(i); us > up || (i > 0 && us <= upperOf(i-1)) {
			t.Fatalf("%d µs is in bucket %d, which ends at %d", us, i, up)
		}
		last = i
	}
	var h Histogram
	h.Add(1000 * time.Hour)
	h.Add(-time.Second)
	if l := h.Latency(); l.Max != millis(1000*time.Hour) || l.P50 != 0 {
		t.Errorf("%+v", l)
	}
	if l := new(Histogram).Latency(); l != (Latency{}) {
		t.Errorf("%+v", l)
	}
}
