package position

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// lots is what anybody may know of a queue's draw: before it that it is settled, after it whatever one needs to check it.
type lots struct {
	Queue      queue.ID     `json:"queue"`
	Order      string       `json:"order"`
	OpensAt    string       `json:"opensAt"`
	Commitment string       `json:"commitment"`
	Seed       string       `json:"seed,omitzero"`
	First      queue.Ticket `json:"first,omitzero"` // the first ticket that took part,
	Last       queue.Ticket `json:"last,omitzero"`  // and the last, which is the draw's own record
}

// draw answers GET /queue/draw. It needs no credential, and says nothing about anybody.
func (s *Service) draw(c echo.Context) error {
	q, e, err := s.find(c.Request())
	if err != nil {
		return err
	}
	d := q.Reading.State().Draw
	if e.Settings.Order != queue.ByDraw && d.At == 0 {
		return httpapi.Problemf(httpapi.DrawUnknown, "queue %s lets people in in the order in which they came", e.ID)
	}
	a := lots{Queue: e.ID, Order: e.Settings.Order.String(), OpensAt: time.UnixMilli(e.Settings.OpensAtMs).UTC().Format(time.RFC3339Nano), Commitment: e.Commitment}
	if d.At != 0 {
		a.Seed, a.First, a.Last = d.Seed.String(), d.From+1, d.At
	}
	return httpapi.WriteJSON(c, http.StatusOK, a)
}
