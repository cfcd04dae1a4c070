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

// A bound of somebody's place is told where the log was read nearly as far, and of this very queue.
func TestThePlaceThatIsToldAtOnce(t *testing.T) {
	p := started(t, embeddedConfig(t.TempDir()), Roles{Enter: true, Projector: true, Issuer: true, Position: true})
	a := enterMain(t, p)
	require.EqualValues(t, 1, a.Position)
	require.Equal(t, "approximate", a.Precision)
	admitted(t, p, a.Receipt)
	e, ok := p.catalog.Get("main")
	require.True(t, ok)
	require.Eventually(t, func() bool { return p.Follower("main").State().Served == 1 }, patience, time.Millisecond)
	s := p.Follower("main").State()
	for unread, near := range map[queue.Ticket]bool{0: true, 1000: true, 2000: false} {
		ticket := s.Seq + 1 + unread
		most, ok := p.lines.ahead(e, ticket)
		require.EqualValues(t, ticket-1, most)
		require.Equal(t, near, ok, "%d records unread", unread)
	}
	earlier := *e
	earlier.Made--
	most, ok := p.lines.ahead(&earlier, 7)
	require.EqualValues(t, 7, most)
	require.False(t, ok)
}
