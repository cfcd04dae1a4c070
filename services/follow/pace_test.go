package follow

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inMemory is a Follower that is given its records by the test.
func inMemory() *Follower { return New("main", nil, zap.NewNop(), NewMetrics(nil)) }

func (f *Follower) take(n int) {
	recs := make([]queue.Record, n)
	seq := f.State().Seq
	for i := range recs {
		recs[i] = queue.Record{Kind: queue.Skipped, Ticket: seq + queue.Ticket(i) + 1, AtMs: time.Now().UnixMilli()}
	}
	f.fold(recs)
}

func TestFreshIsWhereTheReadingWasAMomentAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inMemory()
		fresh := func(want queue.Ticket) {
			t.Helper()
			require.Equal(t, want, f.Fresh(time.Now()))
		}
		fresh(0)
		f.take(10)
		fresh(0)
		time.Sleep(Grace - time.Millisecond)
		fresh(0)
		time.Sleep(time.Millisecond)
		fresh(10)

		// A second lot right behind the first counts a moment later too, though nothing comes after it for hours.
		f.take(1)
		time.Sleep(every / 2)
		f.take(1000)
		fresh(10)
		time.Sleep(Grace)
		fresh(1011)
		time.Sleep(time.Hour)
		fresh(1011)
	})
}

// Under a flood it stays behind by no more than the moment and one mark.
func TestFreshUnderAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inMemory()
		const step = 7 * time.Millisecond
		at := map[time.Time]queue.Ticket{}
		for range 2000 {
			f.take(3)
			now := time.Now()
			at[now] = f.State().Seq
			got := f.Fresh(now)
			exact := at[now.Add(-Grace/step*step-step)] // the last one before the moment
			slack := queue.Ticket(3 * (every/step + 2))
			require.LessOrEqual(t, got, exact+3)
			require.GreaterOrEqual(t, got, exact-slack)
			time.Sleep(step)
		}
	})
}

// admit folds one batch of people at the present moment.
func (f *Follower) admit(people int) {
	r := queue.Record{Kind: queue.Admitted, Ticket: f.State().Seq + 1, AtMs: time.Now().UnixMilli(), People: make([]queue.Person, people)}
	f.fold([]queue.Record{r})
}

func TestRateOverFullBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inMemory()
		rate := func(want float64) {
			t.Helper()
			got, ok := f.Rate(time.Now(), 17)
			require.True(t, ok)
			require.InDelta(t, want, got, want/100)
		}
		run := func(every time.Duration, batches int) {
			for i := range batches {
				f.admit(17 + i%2)
				time.Sleep(every)
			}
		}
		_, ok := f.Rate(time.Now(), 17)
		require.False(t, ok, "nothing was seen")
		run(100*time.Millisecond, 20)
		_, ok = f.Rate(time.Now(), 17)
		require.False(t, ok, "too little was seen")
		run(100*time.Millisecond, 40)
		rate(175)

		// Batches that the line was too short for, and the time without any, don't count as slowness.
		for range 20 {
			f.admit(3)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(20 * time.Second)
		run(100*time.Millisecond, 10)
		rate(175)

		// A line that really moves at half the speed shows once the other minute is over.
		run(200*time.Millisecond, 330)
		rate(87.5)
		time.Sleep(time.Minute)
		_, ok = f.Rate(time.Now(), 17)
		require.False(t, ok, "all of it is a minute old")
	})
}

func TestRecentAndMemoryOfBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inMemory()
		for range 10_000 {
			f.admit(1)
			time.Sleep(100 * time.Millisecond)
		}
		require.Less(t, cap(f.pace.batches), 3000, "a minute of them is 600")
		last := f.pace.batches[len(f.pace.batches)-1].AtMs
		recent := f.Recent(last)
		require.Len(t, recent, 10)
		require.Equal(t, Batch{last, 1}, recent[9])
		require.Greater(t, recent[0].AtMs, last-1000)
		require.Empty(t, f.Recent(last+1000))
	})
}

// Where a capacity decides, the time in which nobody goes counts too.
func TestTheOverallPaceCountsTheTimeInWhichNobodyGoes(t *testing.T) {
	f := inMemory()
	start := time.UnixMilli(1_000_000)
	for i := range int64(4) {
		f.pace.add(start.UnixMilli()+100*i, 10)
	}
	_, ok := f.Rate(start.Add(time.Second), 0)
	require.False(t, ok, "too little was seen")
	rate, ok := f.Rate(start.Add(10*time.Second), 0)
	require.True(t, ok)
	require.InDelta(t, 4, rate, 0.01)
	rate, ok = f.Rate(start.Add(50*time.Second), 0)
	require.True(t, ok)
	require.InDelta(t, 0.8, rate, 0.01)
	_, ok = f.Rate(start.Add(61*time.Second), 0)
	require.False(t, ok)
}
