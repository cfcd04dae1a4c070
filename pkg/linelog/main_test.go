package linelog_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const main queue.ID = "main"

// soon bounds what should happen at once.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func ensure(t testing.TB, log *linelog.Log, id queue.ID) (topicID string) {
	t.Helper()
	topicID, _, err := log.EnsureQueue(soon(t), id)
	if err != nil {
		t.Fatal(err)
	}
	return topicID
}

func writer(t testing.TB, log *linelog.Log) *linelog.Writer {
	t.Helper()
	w, err := log.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func entered(visitor string) queue.Record { return queue.Record{Kind: queue.Entered, Visitor: visitor} }
