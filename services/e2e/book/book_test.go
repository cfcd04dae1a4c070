package book

import (
	"slices"
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

func TestTheDayIsInTheFates(t *testing.T) {
	recs := number(
		queue.Record{Kind: queue.Claimed, Issuer: "one", Mode: queue.ModeRedis}, // 1
		entry("ann", ""), entry("bob", ""), entry("cyd", ""), entry("dan", ""), entry("eve", ""), // 2 to 6
		queue.Record{Kind: queue.Drawn, Epoch: 1, Seed: queue.Seed{1}}, // 7
		queue.Record{Kind: queue.Drawn, Epoch: 1, Seed: queue.Seed{2}}, // 8: void
		queue.Record{Kind: queue.Left, Visitor: "ann"},                 // 9
		entry("fay", ""), // 10
	)
	d := queue.Draw{At: 7, Seed: queue.Seed{1}}
	first, second := d.Number(3), d.Number(4)
	people := []queue.Person{{Visitor: "bob", Ticket: first, ExpiresMs: 9e9}, {Visitor: "cyd", Ticket: second, ExpiresMs: 9e9}}
	if first > second {
		people[0], people[1] = people[1], people[0]
	}
	var passed []queue.Ticket
	for _, ticket := range []queue.Ticket{5, 6} {
		if d.Number(ticket) < people[1].Ticket {
			passed = append(passed, ticket)
		}
	}
	require.NotEmpty(t, passed)
	_, err := Of(number(append(recs, admit(1, people...))...))
	require.ErrorContains(t, err, "record 11 leaves ticket")

	for _, ticket := range []queue.Ticket{5, 6} { // everybody, in the order of the numbers
		v := map[queue.Ticket]string{5: "dan", 6: "eve"}[ticket]
		people = append(people, queue.Person{Visitor: v, Ticket: d.Number(ticket), ExpiresMs: 9e9})
	}
	slices.SortFunc(people, func(a, b queue.Person) int { return int(a.Ticket - b.Ticket) })
	b, err := Of(number(append(recs,
		admit(1, people[:2]...), // 11
		queue.Record{Kind: queue.Ended, Epoch: 1, Why: "sold_out"}, // 12
		entry("bob", ""), entry("gus", ""), // 13, 14: take no place
		queue.Record{Kind: queue.Reopened, Epoch: 1}, // 15
		entry("hal", ""), // 16
		queue.Record{Kind: queue.Ended, Epoch: 0, Why: "closed"}, // 17: void
	)...))
	require.NoError(t, err)
	want := map[queue.Ticket]Fate{2: Left, 3: Ended, 4: Ended, 5: Ended, 6: Ended, 10: Ended, 13: Refused, 14: Refused, 16: Waits}
	for _, p := range people[:2] {
		want[d.Ticket(p.Ticket)] = Admitted
	}
	require.Equal(t, want, b.Fates)
	fates, err := b.Accounts([]Ack{{people[0].Visitor, d.Ticket(people[0].Ticket)}}, []pass.Entry{{Visitor: people[0].Visitor, Ticket: people[0].Ticket}})
	require.NoError(t, err)
	require.Equal(t, map[Fate]int{Admitted: 1}, fates)
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
