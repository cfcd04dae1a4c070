package position

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// silentLog is a reading that stands still: the log can't be reached.
type silentLog struct{ served queue.Ticket }

func (l silentLog) State() queue.State           { return queue.State{Seq: 9000, Served: l.served} }
func (l silentLog) Fresh(time.Time) queue.Ticket { return 9000 }
func (l silentLog) Grant(queue.Visitor, time.Time) (queue.Grant, line.GrantState) {
	return queue.Grant{}, line.NoGrant
}
func (l silentLog) Rate(time.Time, int) (float64, bool)         { return 0, false }
func (l silentLog) WaitFor(context.Context, queue.Ticket) error { return nil }

type noView struct{}

func (noView) Place(context.Context, queue.Visitor) (queue.Moment, queue.Place, error) {
	return queue.Moment{}, queue.Place{}, errors.New("away")
}

// All of Kafka and Redis are away, so nobody is let through, and a node that counted served on at the conservative rate would
// tell a person with ticket 5,000 behind served 100, after 30 s, 1,299 ahead where 4,899 are, and more again once it reads the
// log. The position stands still; only the wait goes on, for 30 s.
func TestASilentLogMovesNoPosition(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	q := &Queue{View: noView{}, Reading: silentLog{served: 100},
		Silent: func(now time.Time) time.Duration { return now.Sub(start) }}
	r := pass.Receipt{Queue: "main", Visitor: "v", Ticket: 5000, Ahead: queue.NoAhead}
	for _, c := range []struct {
		after time.Duration
		eta   time.Duration
	}{
		{0, 41 * time.Second}, {10 * time.Second, 31 * time.Second}, {30 * time.Second, 11 * time.Second}, {time.Hour, 11 * time.Second},
	} {
		a, err := q.ask(context.Background(), r, plain(), start.Add(c.after))
		if err != nil {
			t.Fatal(err)
		}
		if a.exact || a.ahead != 4899 || a.nowServing != 100 {
			t.Errorf("after %v of silence: %d ahead, serving %d; it stands still at 4,899 and 100", c.after, a.ahead, a.nowServing)
		}
		if !a.etaKnown || a.eta != c.eta {
			t.Errorf("after %v of silence: a wait of %v, want %v", c.after, a.eta, c.eta)
		}
	}
}
