package position

import (
	"context"
	"net/http"
	"time"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// State is what becomes of a visitor, as answers name it.
type State string

// The states.
const (
	Waiting  State = "waiting"
	Admitted State = "admitted"
	Over     State = "over"
)

// Told is one answer of GET /queue/position, for who brings it to people in another way.
type Told struct {
	State      State
	Position   int64         // from 1; 0 where nobody has one: lots are not drawn yet, or the visitor does not wait
	Exact      bool          // a view that has applied the receipt's ticket was asked
	RetryAfter time.Duration // when to ask again; 0 where the visitor does not wait

	Body []byte // JSON, on one line
	// Lasting is how much of Body, together with Exact, is the same in two answers that say the same. The rest is drawn or
	// signed anew each time.
	Lasting int

	Receipt pass.Receipt // to ask with the next time, so that no later answer says more
	Signed  string       // the same as it is in Body; "" where the visitor does not wait
}

// Receipt checks who asks, as GET /queue/position does: ?queue=, and the receipt as bearer or cookie. The error is a
// *httpapi.Problem.
func (s *Service) Receipt(r *http.Request) (pass.Receipt, httpapi.Source, error) {
	_, _, receipt, from, err := s.receipt(r)
	return receipt, from, err
}

// Tell answers the holder of a receipt that was checked before. Body is put into b, which may be nil. Errors: a
// *httpapi.Problem where there is no such queue any more (or another one of its name), and where nothing honest can be said.
func (s *Service) Tell(ctx context.Context, r pass.Receipt, b []byte) (Told, error) {
	q, e, ok := s.cfg.Find(r.Queue)
	if !ok || r.Made != 0 && r.Made != e.Made {
		return Told{}, httpapi.Problemf(httpapi.QueueUnknown, "there is no queue %s any more", r.Queue)
	}
	return s.tell(ctx, q, e, r, b[:0])
}
