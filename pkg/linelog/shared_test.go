package linelog

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// fetched is n records from a ticket on.
func fetched(from queue.Ticket, n int) (recs []*kgo.Record) {
	for i := range n {
		recs = append(recs, &kgo.Record{Offset: int64(from) - 1 + int64(i)})
	}
	return recs
}

// Of a reader that doesn't ask, little is held; when it asks, it gets all of that, and then is told to go on by itself.
func TestShareHoldsLittle(t *testing.T) {
	s := &share{wake: make(chan struct{}, 1)}
	const each = 100
	ended := 0
	for i := range 50 {
		if s.take(fetched(queue.Ticket(1+i*each), each), nil) {
			ended++
		}
	}
	require.Equal(t, 1, ended, "it leaves the connection once")
	require.Less(t, len(s.held), hubHolds+each)
	want := int64(0)
	for {
		recs, err := s.poll(t.Context())
		if err != nil {
			require.ErrorIs(t, err, errCrowded)
			break
		}
		for _, rec := range recs {
			require.Equal(t, want, rec.Offset)
			want++
		}
	}
	require.Equal(t, int64(300), want, "what came after it left is not a part of it: it would leave a gap")
	require.Equal(t, queue.Ticket(300), s.seen())
}

// An error comes after the records before it. One that passes is told once; another ends the share.
func TestShareTellsErrorsInOrder(t *testing.T) {
	s := &share{wake: make(chan struct{}, 1)}
	require.False(t, s.take(fetched(1, 2), kerr.NotLeaderForPartition))
	recs, err := s.poll(t.Context())
	require.NoError(t, err)
	require.Len(t, recs, 2)
	_, err = s.poll(t.Context())
	require.ErrorIs(t, err, kerr.NotLeaderForPartition)
	require.False(t, s.take(fetched(3, 1), nil))
	recs, err = s.poll(t.Context())
	require.NoError(t, err)
	require.Len(t, recs, 1)

	s.suspect()
	recs, err = s.poll(t.Context())
	require.NoError(t, err)
	require.Empty(t, recs, "time to look at the log")

	require.True(t, s.take(nil, kerr.UnknownTopicID))
	for range 2 {
		_, err = s.poll(t.Context())
		require.ErrorIs(t, err, kerr.UnknownTopicID)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	recs, err = (&share{wake: make(chan struct{}, 1)}).poll(ctx)
	require.NoError(t, err)
	require.Empty(t, recs)
}
