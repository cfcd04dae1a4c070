package enter

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Identity says who may be a visitor.
type Identity uint8

// The modes of identity. A receipt that was issued in one mode holds in the other as well: who switches, and must not let
// anonymous visitors in any more, changes the keys too.
const (
	Anonymous Identity = iota // anybody; ids are ours
	Signed                    // who shows a token that the site signed
)

// ParseIdentity reads "anonymous" or "signed".
func ParseIdentity(s string) (Identity, error) {
	switch s {
	case "anonymous":
		return Anonymous, nil
	case "signed":
		return Signed, nil
	}
	return Anonymous, fmt.Errorf("identity is anonymous or signed, not %.40q", s)
}

// Queues knows which queues there are. It is asked on every request, from many goroutines.
type Queues interface {
	Known(id queue.ID) bool
}

// Only knows the queues that it was made of.
func Only(ids ...queue.ID) Queues {
	known := make(fixed, len(ids))
	for _, id := range ids {
		known[id] = true
	}
	return known
}

type fixed map[queue.ID]bool

func (f fixed) Known(id queue.ID) bool { return f[id] }

// MinIDSecret is the shortest Config.IDSecret, in bytes.
const MinIDSecret = 32

// MaxAckTimeout is the longest Config.AckTimeout: an answer is due within 3 s.
const MaxAckTimeout = 2900 * time.Millisecond

// Config of a Service. The zero value of a field that isn't said to be needed means its default.
type Config struct {
	Queues   Queues // needed
	Identity Identity
	SiteKeys *pass.SiteKeys // needed in mode Signed: checks the site's tokens

	// IDSecret turns an Idempotency-Key into a visitor id in mode Anonymous, and is needed there; MinIDSecret bytes or
	// more. All nodes have the same, and it should outlive a rotation of keys: a first entry that is retried across a
	// change gets two places.
	IDSecret []byte

	Polling []queue.PollStep // when to ask for the position; default queue.DefaultPolling

	// Position estimates where the holder of a ticket stands, for the first retryAfterMs only. It must be fast. Default:
	// the ticket, which is never below the position.
	Position func(id queue.ID, ticket queue.Ticket) int64

	// Trouble is why nothing may be written to a queue's log: it was trimmed, cut short, or made anew, and what an operator
	// decides may put what is written now at risk. nil, or a nil answer: all is well.
	Trouble func(id queue.ID) error

	AckTimeout time.Duration    // how long the log may take to acknowledge; default 2.7 s, MaxAckTimeout at the most
	Rand       func() float64   // uniform in [0, 1), from many goroutines; for jitter; default math/rand
	Now        func() time.Time // default time.Now
}

// withDefaults fills in what is left out, and returns every mistake at once.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if c.Queues == nil {
		bad("queues: none are known")
	}
	switch c.Identity {
	case Anonymous:
		if len(c.IDSecret) < MinIDSecret {
			bad("id secret has %d bytes; mode anonymous needs %d at least", len(c.IDSecret), MinIDSecret)
		}
	case Signed:
		if c.SiteKeys == nil {
			bad("site keys: mode signed needs the keys that the site signs with")
		}
	default:
		bad("identity is anonymous or signed")
	}
	if c.Polling == nil {
		c.Polling = queue.DefaultPolling()
	}
	if len(c.Polling) == 0 {
		bad("polling table is empty")
	}
	if c.Position == nil {
		c.Position = func(_ queue.ID, ticket queue.Ticket) int64 { return int64(ticket) }
	}
	if c.AckTimeout == 0 {
		c.AckTimeout = 2700 * time.Millisecond
	}
	if c.AckTimeout < 0 || c.AckTimeout > MaxAckTimeout {
		bad("ack timeout is above 0 and at most %v, not %v", MaxAckTimeout, c.AckTimeout)
	}
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, errors.Join(errs...)
}
