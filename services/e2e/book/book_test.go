package book

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// number gives records their tickets, ten milliseconds apart.
func number(recs ...queue.Record) []queue.Record {
	for i := range recs {
		recs[i].Ticket, recs[i].AtMs = queue.Ticket(i+1), int64(1000+10*i)
	}
	return recs
}

func entry(v, key string) queue.Record {
	return queue.Record{Kind: queue.Entered, Visitor: v, Key: key}
}

func admit(epoch queue.Ticket, people ...queue.Person) queue.Record {
	return queue.Record{Kind: queue.Admitted, Epoch: epoch, People: people}
}

func TestEveryTicketHasItsFate(t *testing.T) {
	b, err := Of(number(
		queue.Record{Kind: queue.Claimed, Issuer: "one", Mode: queue.ModeRedis}, // 1
		entry("ann", "a"), // 2: admitted
		entry("bob", "b"), // 3: moves back
		entry("bob", "b"), // 4: the same request
		entry("bob", "c"), // 5: waits
		entry("cyd", "d"), // 6: leaves
		queue.Record{Kind: queue.Left, Visitor: "cyd"}, // 7
		entry("ann", "e"), // 8: would move ann back, and she has not been let in yet
		admit(1, queue.Person{Visitor: "bob", Ticket: 5, ExpiresMs: 9e9}), // 9
		admit(0, queue.Person{Visitor: "ann", Ticket: 8, ExpiresMs: 9e9}), // 10: void
	))
	require.NoError(t, err)
	require.Equal(t, map[queue.Ticket]Fate{2: MovedBack, 3: MovedBack, 4: Repeated, 5: Admitted, 6: Left, 8: Waits}, b.Fates)
	require.Equal(t, queue.Ticket(5), b.State.Served)
	require.Equal(t, []Batch{{AtMs: 1080, People: 1}}, b.Batches)
	require.Equal(t, 1, b.Leaves["cyd"])
	require.Zero(t, b.PausedAt(time.UnixMilli(2000)))
}

func TestWhoIsPassedOverIsFound(t *testing.T) {
	_, err := Of(number(
		queue.Record{Kind: queue.Claimed, Issuer: "one", Mode: queue.ModeRedis},
		entry("ann", ""), entry("bob", ""),
		admit(1, queue.Person{Visitor: "bob", Ticket: 3, ExpiresMs: 9e9}),
	))
	require.ErrorContains(t, err, "record 4 leaves ticket 2 behind")
}

func TestPromisesThatTheLogDoesNotKeepAreTold(t *testing.T) {
	b, err := Of(number(
		queue.Record{Kind: queue.Claimed, Issuer: "one", Mode: queue.ModeRedis},
		entry("ann", ""), entry("bob", ""),
		admit(1, queue.Person{Visitor: "ann", Ticket: 2, ExpiresMs: 9e9}),
	))
	require.NoError(t, err)
	fates, err := b.Accounts([]Ack{{"ann", 2}, {"bob", 3}}, []pass.Entry{{Visitor: "ann", Ticket: 2}})
	require.NoError(t, err)
	require.Equal(t, map[Fate]int{Admitted: 1, Waits: 1}, fates)

	_, err = b.Accounts([]Ack{{"ann", 9}}, nil)
	require.ErrorContains(t, err, "ticket 9 was acknowledged and is no entry")
	_, err = b.Accounts([]Ack{{"ann", 3}}, nil)
	require.ErrorContains(t, err, "ticket 3 was acknowledged to one and is another's")
	_, err = b.Accounts(nil, []pass.Entry{{Visitor: "bob", Ticket: 3}})
	require.ErrorContains(t, err, "an entry token of ticket 3")
}
