package enter

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// completion is what a site sends when a person whom it let in is done.
type completion struct {
	Queue string `json:"queue"`
	Token string `json:"token"` // the entry token that it was shown
}

// complete ends an admission early, so that its slot is free for the next person. It is the site's to do: the visitor's own
// credential does not count. Asked again it answers alike.
func (s *Service) complete(c echo.Context) error {
	if err := s.checkSite(c.Request()); err != nil {
		return s.refused(opComplete, err)
	}
	var body completion
	if err := httpapi.DecodeJSON(c, &body); err != nil {
		return s.refused(opComplete, err)
	}
	e, err := s.find(body.Queue)
	if err != nil {
		return s.refused(opComplete, err)
	}
	rec, repeated, err := s.decideComplete(body.Token, e)
	if err != nil {
		return s.refused(opComplete, err)
	}
	result := resultRepeated
	if !repeated {
		if err := s.trouble(e.ID); err != nil {
			return s.refused(opComplete, err)
		}
		if _, err := s.append(c, opComplete, e.ID, rec); err != nil {
			return err
		}
		result = resultCompleted
	}
	s.metrics.count(opComplete, result)
	return httpapi.WriteRawJSON(c, http.StatusOK, []byte(`{"status":"completed"}`))
}

func (s *Service) checkSite(r *http.Request) error {
	_, err := s.cfg.Sites.Check(r)
	if err != nil && !s.cfg.Sites.Any() {
		return httpapi.Problemf(httpapi.CredentialForbidden, "no site has a credential here: give it one by SOONBEON_SITES (name:secret)")
	}
	return err
}

// decideComplete says what is to be written. repeated: nothing, since the log has it already.
//
// Where this process has not read the admission yet, or knows of a later one of the same visitor, the record is written all the
// same: it counts for the admission that it names, and for no other.
func (s *Service) decideComplete(token string, e *queue.Entry) (rec queue.Record, repeated bool, err error) {
	now := s.cfg.Now()
	entry, err := s.keys.ReadEntry(token, e.ID)
	if err != nil || earlier(entry.Made, e) || entry.ExpiresMs+line.RememberMs <= now.UnixMilli() {
		return queue.Record{}, false, httpapi.Problemf(httpapi.TokenUnknown, "nobody was let into queue %s by this token, or so long ago that it is forgotten", e.ID)
	}
	grant, state := s.cfg.Grant(e.ID, entry.Visitor, now)
	if state == line.Released && grant.Ticket == entry.Ticket {
		return queue.Record{}, true, nil
	}
	return queue.Record{Kind: queue.Released, Visitor: entry.Visitor, Of: entry.Ticket}, false, nil
}
