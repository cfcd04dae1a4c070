package pass

import (
	"time"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// SignSession makes the token by which a gate knows e again after its entry token was shown: it ends when the grant ends. Like
// SignEntry it fails only for a field out of its range.
func (k *Keys) SignSession(e Entry) (string, error) { return k.session.signEntry(e) }

// VerifySession checks a session for queue q at the time now, as VerifyEntry does with an entry token, and with the same errors.
func (k *Keys) VerifySession(token string, q queue.ID, now time.Time) (Entry, error) {
	return k.session.readEntry(token, func(c *claims) (Entry, error) { return entryOf(c, sessionKind, q, now) })
}
