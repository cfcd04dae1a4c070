package standalone

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/follow"
)

// leaderless is a log of a topic that was just made: the first questions find no leader.
type leaderless struct{ fails int }

var errNoLeader = errors.New("no leader for the partition")

func (l *leaderless) Bounds(context.Context, queue.ID) (first, next queue.Ticket, err error) {
	if l.fails > 0 {
		l.fails--
		return 0, 0, errNoLeader
	}
	return 1, 1, nil
}

// Four processes that are started at once on a fresh Kafka meet a topic that one of them has just made.
func TestAStartOutlastsATopicWithoutLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow.New("q", nil, zap.NewNop(), follow.NewMetrics(nil))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		require.NoError(t, caughtUp(ctx, &leaderless{fails: 5}, f))

		ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, caughtUp(ctx, &leaderless{fails: 1 << 30}, f), errNoLeader)
		require.Equal(t, 10*time.Second, time.Since(began))
	})
}
