package follow_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/follow"
)

func TestHowLongPeopleHaveWaited(t *testing.T) {
	f := newFixture(t)
	x := f.follower(follow.NewLine)
	require.Zero(t, x.Waits(time.Now()))
	f.broker.AppendMany(main, 100, func(i int) queue.Record { return entered(fmt.Sprint("early", i)) })
	require.NoError(t, x.WaitFor(f.soon(), 100))
	first := time.Now()
	eventually(t, "a second and a half has passed", func() bool { return time.Since(first) > 1500*time.Millisecond })
	f.broker.AppendMany(main, 900, func(i int) queue.Record { return entered(fmt.Sprint("late", i)) })
	require.NoError(t, x.WaitFor(f.soon(), 1000))

	in := func(d time.Duration) follow.Waits { return x.Waits(time.Now().Add(d)) }
	w := in(time.Hour) // a tenth came early
	hour := time.Hour.Milliseconds()
	require.GreaterOrEqual(t, w.P50, hour)
	require.Less(t, w.P50, hour+time.Minute.Milliseconds())
	require.GreaterOrEqual(t, w.P99, w.P50+1000)
	require.LessOrEqual(t, w.P90, w.P99)
	require.LessOrEqual(t, w.P99, x.Live(time.Now().Add(time.Hour)).OldestMs)
}
