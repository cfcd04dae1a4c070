package redisline

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/redisline/redislinetest"
)

func TestAMarkIsSetOnce(t *testing.T) {
	rdb := redislinetest.Start(t)
	a, b := NewOnce(rdb, "main"), NewOnce(rdb, "main")
	until := time.Now().Add(time.Minute)
	var first atomic.Int64
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			o := a
			if i%2 == 0 {
				o = b
			}
			ok, err := o.Use(t.Context(), "main/7", until)
			if err == nil && ok {
				first.Add(1)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, first.Load())

	ok, err := a.Use(t.Context(), "main/8", until)
	require.NoError(t, err)
	require.True(t, ok)
	ok, err = NewOnce(rdb, "other").Use(t.Context(), "main/8", until)
	require.NoError(t, err)
	require.True(t, ok, "queues are apart")

	require.EqualValues(t, 1, rdb.Exists(t.Context(), "soonbeon:{main}:once:main/7").Val(), "a stored format")
	ends := rdb.PExpireTime(t.Context(), "soonbeon:{main}:once:main/7").Val()
	require.EqualValues(t, until.UnixMilli(), ends.Milliseconds())
}

func TestAMarkWhoseReplyWasLostIsOnesOwn(t *testing.T) {
	rdb := redislinetest.Start(t)
	link := redislinetest.NewLink(t, rdb)
	mine, err := Dial(Config{Addrs: []string{link.Addr()}, Timeout: 300 * time.Millisecond})
	require.NoError(t, err)
	defer mine.Close()
	o, other := NewOnce(mine, "main"), NewOnce(rdb, "main")
	until := time.Now().Add(time.Minute)

	link.LoseReplies()
	_, err = o.Use(t.Context(), "main/7", until)
	require.ErrorIs(t, err, ErrAway)
	link.Back()
	ok, err := other.Use(t.Context(), "main/7", until)
	require.NoError(t, err)
	require.False(t, ok, "it is marked")
	ok, err = o.Use(t.Context(), "main/7", until)
	require.NoError(t, err)
	require.True(t, ok, "by the one who asks again")
	ok, err = o.Use(t.Context(), "main/7", until)
	require.NoError(t, err)
	require.False(t, ok, "and that was it")
}

func TestFault11_NoRefusalIsReadAsFirst(t *testing.T) {
	rdb := redislinetest.Start(t)
	link := redislinetest.NewLink(t, rdb)
	mine, err := Dial(Config{Addrs: []string{link.Addr()}, Timeout: 300 * time.Millisecond})
	require.NoError(t, err)
	defer mine.Close()
	o := NewOnce(mine, "main")
	for _, refusal := range refusals {
		link.Answer(refusal)
		ok, err := o.Use(t.Context(), "main/7", time.Now().Add(time.Minute))
		require.ErrorIs(t, err, ErrAway, refusal)
		require.False(t, ok)
	}
	link.Away()
	_, err = o.Use(t.Context(), "main/7", time.Now().Add(time.Minute))
	require.ErrorIs(t, err, ErrAway)
	link.Hang()
	_, err = o.Use(t.Context(), "main/7", time.Now().Add(time.Minute))
	require.ErrorIs(t, err, ErrAway)
	link.Back()
	ok, err := o.Use(t.Context(), "main/7", time.Now().Add(time.Minute))
	require.NoError(t, err)
	require.True(t, ok)
}

func TestWhatIsUnsureIsBounded(t *testing.T) {
	o := NewOnce(nil, "main")
	for range maxUnsure {
		o.keep(o.take("x"), "mark")
	}
	require.Len(t, o.unsure, maxUnsure)
	o.keep("y", "mark")
	require.Len(t, o.unsure, 1)
}
