package linelog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

func TestQueues(t *testing.T) {
	b := linelogtest.Start(t)
	log := b.Log(t)
	ids, err := log.Queues(t.Context())
	require.NoError(t, err)
	require.Empty(t, ids)
	for _, id := range []queue.ID{"west", "east"} {
		_, _, err := log.EnsureQueue(t.Context(), id)
		require.NoError(t, err)
	}
	b.Create("Not-A-Queue", 1, nil)
	ids, err = log.Queues(t.Context())
	require.NoError(t, err)
	require.Equal(t, []queue.ID{"east", "west"}, ids)
}
