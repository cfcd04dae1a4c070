package page

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/catalog"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// info is what anybody may know of a queue before entering it.
type info struct {
	Queue          queue.ID      `json:"queue"`
	Made           int64         `json:"made"` // tells it from an earlier queue of the same name: gates ask for it
	State          catalog.State `json:"state"`
	TakesEntries   bool          `json:"takesEntries"`
	Reason         string        `json:"reason,omitzero"` // why it takes none
	Reentry        string        `json:"reentry"`
	Order          string        `json:"order"`
	OpensAt        *time.Time    `json:"opensAt,omitzero"`
	OpensInSeconds int64         `json:"opensInSeconds,omitzero"`
	ClosesAt       *time.Time    `json:"closesAt,omitzero"`
	Commitment     string        `json:"commitment,omitzero"`
	Message        string        `json:"message,omitzero"`
}

// info serves GET /queue/info.
func (s *Service) info(c echo.Context) error {
	id, err := httpapi.QueryQueue(c.Request())
	if err != nil {
		return err
	}
	e, ok := s.cfg.Find(id)
	if !ok || e.Deleting {
		return httpapi.Problemf(httpapi.QueueUnknown, "there is no queue %s", id)
	}
	now := s.cfg.Now()
	i := info{
		Queue: id, Made: e.Made, State: catalog.StateOf(e, now), Reentry: e.Settings.Reentry.String(), Order: e.Settings.Order.String(), Commitment: e.Commitment,
		Message: e.Settings.Message, OpensAt: moment(e.Settings.OpensAtMs), ClosesAt: moment(e.Settings.ClosesAtMs),
	}
	i.TakesEntries, i.Reason = e.TakesEntries(now.UnixMilli())
	if !e.Settings.Opened(now.UnixMilli()) {
		i.OpensInSeconds = (e.Settings.OpensAtMs - now.UnixMilli() + 999) / 1000
	}
	return httpapi.WriteJSON(c, http.StatusOK, i)
}

func moment(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	t := time.UnixMilli(ms).UTC()
	return &t
}
