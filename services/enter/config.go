package enter

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/httpapi"
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

// Queues knows which queues there are, and what operators say of them at the moment. It is asked on every request, from many
// goroutines; what it returns is not changed by anybody. *catalog.Follower is one.
type Queues interface {
	Get(id queue.ID) (*queue.Entry, bool)
}

// Fixed are queues that don't change while the process runs.
type Fixed map[queue.ID]*queue.Entry

// Get finds a queue.
func (f Fixed) Get(id queue.ID) (*queue.Entry, bool) {
	e, ok := f[id]
	return e, ok
}

// Only are queues of which nothing is said but their ids.
func Only(ids ...queue.ID) Fixed {
	f := make(Fixed, len(ids))
	for _, id := range ids {
		f[id] = &queue.Entry{ID: id, Settings: queue.DefaultSettings()}
	}
	return f
}

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

	// Position is where the holder of a ticket of this very queue stands at most, for the first retryAfterMs. It is told to
	// people as well, and rides in their receipts, where it is said to be near: not where the log is read only up to long ago.
	// It must be fast. Default: the ticket, which is not near.
	Position func(e *queue.Entry, ticket queue.Ticket) (most int64, near bool)

	// Trouble is why nothing may be written to a queue's log: it was trimmed, cut short, or made anew, and what an operator
	// decides may put what is written now at risk. nil, or a nil answer: all is well.
	Trouble func(id queue.ID) error

	// Sites are who may complete an admission: the sites behind the gates. nil: nobody.
	Sites *httpapi.Credentials

	// Grant tells what became of a visitor's latest admission, as far as this process has read the log; *follow.Follower has it.
	// It saves records that would change nothing. nil: nothing is known.
	Grant func(id queue.ID, v queue.Visitor, now time.Time) (queue.Grant, line.GrantState)

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
	if c.Position == nil {
		c.Position = func(_ *queue.Entry, ticket queue.Ticket) (int64, bool) { return int64(ticket), false }
	}
	if c.Grant == nil {
		c.Grant = func(queue.ID, queue.Visitor, time.Time) (queue.Grant, line.GrantState) {
			return queue.Grant{}, line.NoGrant
		}
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
