package linelog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/linelog"
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

// A queue that was deleted and made anew can be appended to once the writer has forgotten the first.
func deleteAndMakeAnew(t *testing.T, log *linelog.Log, id queue.ID) {
	t.Helper()
	was := ensure(t, log, id)
	w := writer(t, log)
	fill(t, w, id, 3)
	require.NoError(t, log.DeleteQueue(soon(t), id))
	require.NoError(t, log.DeleteQueue(soon(t), id), "no queue is no error")
	_, err := w.Append(soon(t), id, entered("v"))
	require.Error(t, err)
	now := ensure(t, log, id)
	require.NotEqual(t, was, now)
	_, err = w.Append(soon(t), id, entered("v"))
	require.Error(t, err, "not quietly")
	w.Forget(id)
	ticket, err := w.Append(soon(t), id, entered("v"))
	require.NoError(t, err)
	require.Equal(t, queue.Ticket(1), ticket)
	w.Forget(id)
	w.Forget("nobody")
	fill(t, w, id, 1)
}

func TestQueueIsDeletedAndMadeAnew(t *testing.T) {
	deleteAndMakeAnew(t, linelogtest.Start(t).Log(t), main)
}

func TestRealQueueIsDeletedAndMadeAnew(t *testing.T) {
	log, _, id := realLog(t)
	deleteAndMakeAnew(t, log, id)
}
