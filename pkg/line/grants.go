package line

import (
	"iter"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// LiveGrants yields the admissions that hold at nowMs, Unix milliseconds, in no order. The ledger must not change meanwhile.
func (l *Ledger) LiveGrants(nowMs int64) iter.Seq[queue.Person] {
	return func(yield func(queue.Person) bool) {
		for v, g := range l.grants {
			if !g.released && g.ExpiresMs > nowMs && !yield(queue.Person{Visitor: v, Ticket: g.Ticket, ExpiresMs: g.ExpiresMs}) {
				return
			}
		}
	}
}
