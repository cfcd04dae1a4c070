package follow_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/follow"
)

// What operators see of a queue is what the log says, and a queue that is let go of leaves no series behind.
func TestAQueueIsShownAsTheLogSays(t *testing.T) {
	f := newFixture(t)
	reg := prometheus.NewRegistry()
	x := follow.NewLine(main, f.log, zap.NewNop(), follow.NewMetrics(reg))
	require.NoError(t, x.Start(f.soon()))
	epoch := f.append(queue.Record{Kind: queue.Claimed})
	hold := func(visitor string, ticket queue.Ticket, d time.Duration) queue.Person {
		return queue.Person{Visitor: visitor, Ticket: ticket, ExpiresMs: time.Now().Add(d).UnixMilli()}
	}
	var tickets []queue.Ticket
	for i := range 6 {
		tickets = append(tickets, f.append(entered(fmt.Sprint("v", i))))
	}
	f.append(entered("v5"))
	f.append(queue.Record{Kind: queue.Entered, Visitor: "v6", Key: "k"})
	f.append(queue.Record{Kind: queue.Entered, Visitor: "v6", Key: "k"})
	f.append(queue.Record{Kind: queue.Admitted, Epoch: epoch, People: []queue.Person{
		hold("v0", tickets[0], time.Hour), hold("v1", tickets[1], time.Hour), hold("v2", tickets[2], -time.Minute), hold("v3", tickets[3], -time.Second)}})
	last := f.append(queue.Record{Kind: queue.Released, Visitor: "v1", Of: tickets[1]})
	require.NoError(t, x.WaitFor(f.soon(), last))

	l := x.Live(time.Now())
	require.EqualValues(t, 3, l.Waiting)
	require.EqualValues(t, 2, l.Active, "who ended a second ago has a place still, as the leader counts it")
	require.Positive(t, l.OldestMs)
	require.Less(t, l.OldestMs, int64(60_000))
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP soonbeon_queue_active_admissions Admissions that take a place of the capacity: not completed, and not ended for more than 30 s.
# TYPE soonbeon_queue_active_admissions gauge
soonbeon_queue_active_admissions{queue="main"} 2
# HELP soonbeon_queue_completed_total Admissions that the site has completed.
# TYPE soonbeon_queue_completed_total counter
soonbeon_queue_completed_total{queue="main"} 1
# HELP soonbeon_queue_entries_total Entries that took a place, refreshes included; counted from the log's beginning.
# TYPE soonbeon_queue_entries_total counter
soonbeon_queue_entries_total{queue="main"} 8
# HELP soonbeon_queue_expired_total Admissions that ended by their time, without being completed; counted when their place comes free.
# TYPE soonbeon_queue_expired_total counter
soonbeon_queue_expired_total{queue="main"} 1
# HELP soonbeon_queue_refreshes_total Entries of somebody who waited already and was moved back.
# TYPE soonbeon_queue_refreshes_total counter
soonbeon_queue_refreshes_total{queue="main"} 1
# HELP soonbeon_queue_retransmissions_total Entries that took no place: the same Idempotency-Key again, or somebody who waits and keeps the place.
# TYPE soonbeon_queue_retransmissions_total counter
soonbeon_queue_retransmissions_total{queue="main"} 1
# HELP soonbeon_queue_waiting_people People who wait, by the log.
# TYPE soonbeon_queue_waiting_people gauge
soonbeon_queue_waiting_people{queue="main"} 3
`), "soonbeon_queue_active_admissions", "soonbeon_queue_completed_total", "soonbeon_queue_entries_total", "soonbeon_queue_expired_total",
		"soonbeon_queue_refreshes_total", "soonbeon_queue_retransmissions_total", "soonbeon_queue_waiting_people"))

	// A leader counts by the broker's clock, and looking on by another one takes nothing away from it.
	require.EqualValues(t, 2, x.Active(time.Now().UnixMilli(), 30*time.Second), "who ended a second ago may still be let in by a gate")
	require.Zero(t, x.Live(time.Now().Add(2*time.Hour)).Active)
	require.EqualValues(t, 2, x.Active(time.Now().UnixMilli(), 30*time.Second))

	require.NoError(t, x.Stop(f.soon()))
	n, err := testutil.GatherAndCount(reg)
	require.NoError(t, err)
	require.Zero(t, n)
}
