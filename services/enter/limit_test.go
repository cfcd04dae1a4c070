package enter_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/enter"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// limited is a log that says how long it takes at the most, and keeps whether it was given a deadline.
type limited struct {
	limit  time.Duration
	bounds chan bool
}

func (l limited) AppendTimeout() time.Duration { return l.limit }

func (l limited) Append(ctx context.Context, _ queue.ID, _ queue.Record) (queue.Ticket, error) {
	_, ok := ctx.Deadline()
	l.bounds <- ok
	return 1, nil
}

// Where the log's own limit is not the shorter one, AckTimeout has to bound it.
func TestAckTimeoutBoundsASlowerLog(t *testing.T) {
	f := newFixture(t)
	for limit, want := range map[time.Duration]bool{time.Second: false, 2 * time.Second: false, 2001 * time.Millisecond: true} {
		reg := prometheus.NewRegistry()
		e, err := httpapi.New(httpapi.Config{}, zap.NewNop(), reg)
		require.NoError(t, err)
		log := limited{limit, make(chan bool, 1)}
		s, err := enter.New(enter.Config{Queues: enter.Only("main"), IDSecret: make([]byte, 32), AckTimeout: 2 * time.Second}, log, f.keys, zap.NewNop(), reg)
		require.NoError(t, err)
		s.Register(e)
		r := httptest.NewRequest("POST", enterPath, strings.NewReader(intoMain))
		r.Header.Set("Content-Type", "application/json")
		e.ServeHTTP(httptest.NewRecorder(), r)
		require.Equal(t, want, <-log.bounds, "a limit of %v", limit)
	}
}
