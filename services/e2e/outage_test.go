package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/e2e/realservers"
)

// Redis dies with a million in line and two million records in the log, and returns empty: the leader goes on from the log, a
// person who polls is answered all the while and never told a higher number, and the line is exact again soon.
func TestRealOutageOfAMillion(t *testing.T) {
	const people = 1_000_000
	redis := realservers.Redis(t)
	kafka := realservers.Kafka(t, 1)
	realservers.NeedOurs(t, redis)
	d := deploy(t, kafka, redis, 175, 1)
	began := time.Now()
	linelogtest.At(t, kafka.Addrs()).AppendMany(d.id, 2*people, func(i int) queue.Record { // everybody refreshes once
		return queue.Record{Kind: queue.Entered, Visitor: fmt.Sprintf("v%021d", i%people)}
	})
	t.Logf("2,000,000 records appended in %v", time.Since(began).Round(time.Millisecond))
	seq := func() queue.Ticket { n, _ := d.view.Seq(t.Context()); return n }
	until(t, 2*time.Minute, "Redis has the line", func() bool { return seq() >= 2*people })
	leader := d.leader(t)
	until(t, 2*time.Minute, "the leader pops from Redis", func() bool { return leader.metric("soonbeon_issuer_direct") == 0 && d.served() > 0 })

	keys, err := pass.ParseKeys(d.keys)
	require.NoError(t, err)
	receipt, err := keys.SignReceipt(pass.Receipt{Queue: d.id, Visitor: fmt.Sprintf("v%021d", people-1), Ticket: 2 * people, Ahead: queue.NoAhead})
	require.NoError(t, err)
	told := int64(3 * people)
	poll := func() (precision string) {
		t.Helper()
		r := ask(t, "GET", d.position[0].public+"/queue/position?queue="+string(d.id), "", "Authorization: Bearer "+receipt)
		require.Equal(t, 200, r.status, "%s", r.body)
		require.Equal(t, "waiting", r.State)
		require.LessOrEqual(t, r.Ahead, told, "a position that rises")
		told = r.Ahead
		if r.Receipt != "" {
			receipt = r.Receipt
		}
		return r.Precision
	}
	require.Equal(t, "exact", poll())

	died := time.Now()
	require.NoError(t, d.redis.Kill())
	until(t, 10*time.Second, "positions are approximate", func() bool { return poll() == "approximate" })
	t.Logf("approximate %v after Redis died", time.Since(died).Round(time.Millisecond))
	until(t, 20*time.Second, "the leader goes on without Redis", func() bool { poll(); return leader.metric("soonbeon_issuer_direct") == 1 })
	served := d.served()
	until(t, 20*time.Second, "people are admitted without Redis", func() bool { poll(); return d.served() >= served+500 })

	back := time.Now()
	require.NoError(t, d.redis.Restart(t.Context())) // empty: it keeps nothing on disk
	until(t, time.Minute, "the line is exact again", func() bool { return poll() == "exact" })
	t.Logf("a line of about %d is exact again %v after an empty Redis returned", told, time.Since(back).Round(time.Millisecond))

	leader.stop(t) // so that the log stands still while it is compared
	b := agree(t, kafka.Addrs(), d.view, d.id)
	require.Empty(t, b.wrong)
	require.LessOrEqual(t, b.fastest(), 193, "people in one second")
	pause := b.pausedAt(died)
	t.Logf("nobody was admitted for %v when Redis died; highest second %d", pause.Round(time.Millisecond), b.fastest())
	require.Less(t, pause, 8*time.Second) // 4 s are promised for a machine of its own; see docs/guarantees.md for what was measured
}
