package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/catalog"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// Known is what the process knows of the catalogue; *catalog.Follower is one.
type Known interface {
	GetAny(id queue.ID) (*queue.Entry, bool)
	AllAny() []*queue.Entry
	Seen(ctx context.Context, version int64) error
	Gone(ctx context.Context, id queue.ID) error
}

// Config of a Service.
type Config struct {
	Known     Known
	Editor    *catalog.Editor
	Operators *httpapi.Credentials // none: everybody is refused
	// Changes are the last changes of a queue, newest first, at most limit.
	Changes func(ctx context.Context, id queue.ID, limit int) ([]queue.Change, error)
	Live    func(id queue.ID) *catalog.Live // nil, or nil of a queue: this process doesn't know
	Timeout time.Duration                   // of a change; default 12 s, below what the server gives an answer
	Now     func() time.Time                // default time.Now
}

// Service serves the operators' API. It holds no state and needs no stop: its requests end with the server's.
type Service struct {
	cfg  Config
	page []byte // the description, for people
}

// New checks cfg and makes a Service.
func New(cfg Config) (*Service, error) {
	if cfg.Known == nil || cfg.Editor == nil || cfg.Changes == nil {
		return nil, errors.New("admin: a catalogue, its editor and its changes are needed")
	}
	if cfg.Live == nil {
		cfg.Live = func(queue.ID) *catalog.Live { return nil }
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = timeout
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	page, err := reference()
	if err != nil {
		return nil, err
	}
	return &Service{cfg, page}, nil
}

// Register adds the service's routes to e.
func (s *Service) Register(e *echo.Echo) {
	e.GET("/admin/openapi.json", s.describe)
	e.GET("/admin/queues", s.guarded(s.list))
	e.POST("/admin/queues", s.guarded(s.create))
	e.GET("/admin/queues/:id", s.guarded(of(s.show)))
	e.PUT("/admin/queues/:id", s.guarded(of(s.put)))
	e.DELETE("/admin/queues/:id", s.guarded(of(s.delete)))
	e.POST("/admin/queues/:id/pause", s.guarded(of(s.pause)))
	e.POST("/admin/queues/:id/resume", s.guarded(of(s.resume)))
	e.POST("/admin/queues/:id/close", s.guarded(of(s.close)))
	e.GET("/admin/queues/:id/changes", s.guarded(of(s.changes)))
}

// RegisterReference adds GET /docs, the description of the API as people read it.
func (s *Service) RegisterReference(e *echo.Echo) { e.GET("/docs", s.reference) }

// The limits of a request.
const (
	maxBody      = 32 << 10 // bytes of a body; the longest settings need half of it, written with escapes
	timeout      = 12 * time.Second
	seenTimeout  = 2 * time.Second
	defaultLimit = 50
	maxLimit     = 1000
)

// guarded calls h with the name of the operator who asks.
func (s *Service) guarded(h func(c echo.Context, who string) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		who, err := s.cfg.Operators.Check(c.Request())
		if err != nil {
			if !s.cfg.Operators.Any() {
				return httpapi.Problemf(httpapi.CredentialForbidden, "this process has no operators: SOONBEON_OPERATORS lists them")
			}
			return err
		}
		return h(c, who)
	}
}

// of reads the queue's id from the path.
func of(h func(c echo.Context, who string, id queue.ID) error) func(echo.Context, string) error {
	return func(c echo.Context, who string) error {
		id, err := queue.ParseID(c.Param("id"))
		if err != nil {
			return httpapi.Problemf(httpapi.QueueUnknown, "%v", err)
		}
		return h(c, who, id)
	}
}

type queues struct {
	Queues []catalog.Document `json:"queues"`
}

func (s *Service) list(c echo.Context, _ string) error {
	all := s.cfg.Known.AllAny()
	answer := queues{Queues: make([]catalog.Document, 0, len(all))}
	for _, e := range all {
		answer.Queues = append(answer.Queues, s.document(e))
	}
	return httpapi.WriteJSON(c, http.StatusOK, answer)
}

func (s *Service) show(c echo.Context, _ string, id queue.ID) error {
	e, ok := s.cfg.Known.GetAny(id)
	if !ok {
		return unknown(id)
	}
	return s.tell(c, http.StatusOK, e)
}

func (s *Service) create(c echo.Context, who string) error {
	members, err := httpapi.DecodeMembers(c, maxBody, false)
	if err != nil {
		return err
	}
	b := body{members: members}
	id := queue.ID(b.text("id", ""))
	settings, mistakes := catalog.ReadSettings(b.take("settings"), queue.Arrival)
	if _, err := queue.ParseID(string(id)); err != nil && len(b.mistakes) == 0 {
		b.mistakes = append(b.mistakes, err.Error())
	}
	if err := b.end(mistakes...); err != nil {
		return err
	}
	return s.changed(c, http.StatusCreated, func(ctx context.Context) (*queue.Entry, error) {
		return s.cfg.Editor.Create(ctx, who, id, settings)
	})
}

func (s *Service) put(c echo.Context, who string, id queue.ID) error {
	version, given, err := ifMatch(c.Request())
	if err != nil {
		return err
	}
	if !given {
		return httpapi.Problemf(httpapi.VersionMissing, "If-Match is wanted, with the ETag that GET /admin/queues/%s answers", id)
	}
	members, err := httpapi.DecodeMembers(c, maxBody, false)
	if err != nil {
		return err
	}
	order := queue.Arrival
	if e, ok := s.cfg.Known.GetAny(id); ok {
		order = e.Settings.Order // it can't change, so it need not be said
	}
	b := body{members: members}
	raw := b.take("settings")
	if raw == nil {
		b.mistakes = append(b.mistakes, "settings are wanted; those that are left out get their defaults")
	}
	settings, mistakes := catalog.ReadSettings(raw, order)
	if err := b.end(mistakes...); err != nil {
		return err
	}
	return s.changed(c, http.StatusOK, func(ctx context.Context) (*queue.Entry, error) {
		return s.cfg.Editor.Put(ctx, who, id, settings, version)
	})
}

func (s *Service) pause(c echo.Context, who string, id queue.ID) error {
	return s.move(c, who, id, s.cfg.Editor.Pause)
}

func (s *Service) resume(c echo.Context, who string, id queue.ID) error {
	return s.move(c, who, id, s.cfg.Editor.Resume)
}

func (s *Service) move(c echo.Context, who string, id queue.ID, move func(context.Context, string, queue.ID, *string, int64) (*queue.Entry, error)) error {
	version, b, err := s.optional(c)
	if err != nil {
		return err
	}
	var message *string
	if _, told := b.members["message"]; told {
		text := b.text("message", "")
		message = &text
	}
	if err := b.end(); err != nil {
		return err
	}
	return s.changed(c, http.StatusOK, func(ctx context.Context) (*queue.Entry, error) { return move(ctx, who, id, message, version) })
}

func (s *Service) close(c echo.Context, who string, id queue.ID) error {
	version, b, err := s.optional(c)
	if err != nil {
		return err
	}
	why, ending := b.text("reason", queue.WhyClosed), b.truth("ending")
	if err := queue.CheckWhy(why); err != nil && len(b.mistakes) == 0 {
		b.mistakes = append(b.mistakes, err.Error())
	}
	if err := b.end(); err != nil {
		return err
	}
	return s.changed(c, http.StatusOK, func(ctx context.Context) (*queue.Entry, error) {
		return s.cfg.Editor.Close(ctx, who, id, why, ending, version)
	})
}

func (s *Service) delete(c echo.Context, who string, id queue.ID) error {
	version, _, err := ifMatch(c.Request())
	if err != nil {
		return err
	}
	ctx, cancel := s.lasting(c)
	defer cancel()
	if err := s.cfg.Editor.Delete(ctx, who, id, version); err != nil {
		return problem(id, err)
	}
	seen, stop := context.WithTimeout(ctx, seenTimeout)
	defer stop()
	_ = s.cfg.Known.Gone(seen, id) // so that whoever looks now doesn't find it
	return c.NoContent(http.StatusNoContent)
}

// optional reads what every change may have: a version, and a body.
func (s *Service) optional(c echo.Context) (int64, *body, error) {
	version, _, err := ifMatch(c.Request())
	if err != nil {
		return 0, nil, err
	}
	members, err := httpapi.DecodeMembers(c, maxBody, true)
	return version, &body{members: members}, err
}

// changed makes a change, and answers with what the queue is then.
func (s *Service) changed(c echo.Context, status int, change func(context.Context) (*queue.Entry, error)) error {
	ctx, cancel := s.lasting(c)
	defer cancel()
	e, err := change(ctx)
	if err != nil {
		return problem(queue.ID(c.Param("id")), err)
	}
	seen, stop := context.WithTimeout(ctx, seenTimeout)
	defer stop()
	_ = s.cfg.Known.Seen(seen, e.Version) // so that whoever looks now sees it; written it is anyhow
	return s.tell(c, status, e)
}

// lasting is the context of a change: it goes on when the client hangs up, since half of a change helps nobody.
func (s *Service) lasting(c echo.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(c.Request().Context()), s.cfg.Timeout)
}

func (s *Service) document(e *queue.Entry) catalog.Document {
	d := catalog.Show(e, s.cfg.Now())
	d.Live = s.cfg.Live(e.ID)
	return d
}

func (s *Service) tell(c echo.Context, status int, e *queue.Entry) error {
	h := c.Response().Header()
	h.Set("ETag", `"`+strconv.FormatInt(e.Version, 10)+`"`)
	if status == http.StatusCreated {
		h.Set("Location", "/admin/queues/"+string(e.ID))
	}
	return httpapi.WriteJSON(c, status, s.document(e))
}

type changes struct {
	Changes []changeShown `json:"changes"`
}

// changeShown is one change; from and to are null where there was or is no queue.
type changeShown struct {
	Who    string         `json:"who"`
	At     string         `json:"at"`
	Queue  queue.ID       `json:"queue"`
	Action string         `json:"action"`
	From   jsontext.Value `json:"from"`
	To     jsontext.Value `json:"to"`
}

func (s *Service) changes(c echo.Context, _ string, id queue.ID) error {
	limit := defaultLimit
	if given := c.QueryParams()["limit"]; len(given) > 0 {
		n, err := strconv.Atoi(given[0])
		if err != nil || len(given) > 1 || n < 1 || n > maxLimit {
			return httpapi.Problemf(httpapi.QueryInvalid, "limit is a number from 1 to %d, once", maxLimit)
		}
		limit = n
	}
	all, err := s.cfg.Changes(c.Request().Context(), id, limit)
	if err != nil {
		return problem(id, fmt.Errorf("%w: %w", errReading, err))
	}
	if _, known := s.cfg.Known.GetAny(id); !known && len(all) == 0 {
		return unknown(id)
	}
	answer := changes{Changes: make([]changeShown, 0, len(all))}
	for _, ch := range all {
		answer.Changes = append(answer.Changes, changeShown{Who: ch.Who, At: time.UnixMilli(ch.AtMs).UTC().Format(time.RFC3339Nano),
			Queue: ch.Queue, Action: ch.Action, From: raw(ch.From), To: raw(ch.To)})
	}
	return httpapi.WriteJSON(c, http.StatusOK, answer)
}

// raw is the document that a change holds, null where there is none, or none that is JSON.
func raw(s string) jsontext.Value {
	if v := jsontext.Value(s); v.IsValid() {
		return v
	}
	return jsontext.Value("null")
}

// ifMatch is the version that the request is about; given is false, and the version catalog.AnyVersion, where it says none. "*" is
// any version of a queue that is there.
func ifMatch(r *http.Request) (version int64, given bool, err error) {
	values := r.Header.Values("If-Match")
	if len(values) == 0 {
		return catalog.AnyVersion, false, nil
	}
	if len(values) == 1 {
		v := strings.TrimSpace(values[0])
		if v == "*" {
			return catalog.AnyVersion, true, nil
		}
		inner, opened := strings.CutPrefix(v, `"`)
		inner, closed := strings.CutSuffix(inner, `"`)
		if n, err := strconv.ParseInt(inner, 10, 64); opened && closed && err == nil && n > 0 {
			return n, true, nil
		}
	}
	return 0, true, httpapi.Problemf(httpapi.VersionMissing, `If-Match is one version as "12", or *`)
}
