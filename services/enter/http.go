package enter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// Appender is the log, as far as entering goes. *linelog.Writer is one.
type Appender interface {
	// Append returns the record's ticket once the record is acknowledged. Its errors are linelog's: after ErrBusy,
	// ErrNoQueue and ErrClosed nothing was written; after any other it may have been. It returns soon after ctx ends. A log
	// that has a method AppendTimeout() time.Duration returns within that time by itself.
	Append(ctx context.Context, id queue.ID, rec queue.Record) (queue.Ticket, error)
}

// Service serves POST /queue/enter, POST /queue/leave and POST /queue/complete. It holds no state and needs no stop: its requests end with the
// server's.
type Service struct {
	cfg     Config
	log     Appender
	keys    *pass.Keys
	logger  *zap.Logger
	metrics *metrics
	prompt  bool // the log itself answers within the time-out
}

// New makes a Service. The error tells every mistake in cfg.
func New(cfg Config, log Appender, keys *pass.Keys, logger *zap.Logger, reg prometheus.Registerer) (*Service, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("enter: %w", err)
	}
	m, err := newMetrics(reg)
	if err != nil {
		return nil, fmt.Errorf("enter: %w", err)
	}
	limited, ok := log.(interface{ AppendTimeout() time.Duration })
	prompt := ok && limited.AppendTimeout() <= cfg.AckTimeout
	return &Service{cfg: cfg, log: log, keys: keys, logger: logger, metrics: m, prompt: prompt}, nil
}

// Register adds the service's routes to e.
func (s *Service) Register(e *echo.Echo) {
	e.POST("/queue/enter", s.enter)
	e.POST("/queue/leave", s.leave)
	e.POST("/queue/complete", s.complete)
}

// troubleAfter is when it makes sense to try again while an operator decides.
const troubleAfter = 30 * time.Second

func (s *Service) enter(c echo.Context) error {
	e, err := s.queueOf(c)
	if err != nil {
		return s.refused(opEnter, err)
	}
	who, rec, err := s.decideEntry(c.Request(), e)
	if err == nil && who.admitted {
		s.metrics.count(opEnter, resultAdmitted)
		return httpapi.WriteJSON(c, http.StatusOK, admitted{
			Status: "admitted", Queue: e.ID, ExpiresAt: time.UnixMilli(who.expiresMs).UTC().Format(time.RFC3339),
		})
	}
	// Before what may be wrong with the credential: whoever mends that would be told this all the same. A retransmission is refused
	// as well, and loses nothing by it: its sender holds a place, or never did.
	if takes, why := e.TakesEntries(s.cfg.Now().UnixMilli()); !takes {
		s.metrics.count(opEnter, resultClosed)
		others := "who waits in it has not lost the place by this"
		if e.Closed && e.Ending {
			others = "its line is over"
		}
		p := httpapi.Problemf(httpapi.QueueClosed, "queue %s takes nobody in any more; %s", e.ID, others).With("reason", why)
		if e.Settings.Message != "" {
			p = p.With("message", e.Settings.Message)
		}
		return p
	}
	if err != nil {
		return s.refused(opEnter, err)
	}
	if err := s.trouble(e.ID); err != nil {
		return s.refused(opEnter, err)
	}
	ticket, err := s.append(c, opEnter, e.ID, rec)
	if err != nil {
		return err
	}
	return s.accept(c, e, who.visitor, ticket)
}

// trouble is a *httpapi.Problem where an operator has to decide before anything may be written.
func (s *Service) trouble(id queue.ID) error {
	if s.cfg.Trouble == nil || s.cfg.Trouble(id) == nil {
		return nil
	}
	return httpapi.Problemf(httpapi.LogTrouble,
		"nothing can be written to the log of queue %s until an operator has decided; nobody who waits has lost the place by this", id).After(troubleAfter)
}

// admitted answers somebody who may go in already.
type admitted struct {
	Status    string   `json:"status"`
	Queue     queue.ID `json:"queue"`
	ExpiresAt string   `json:"expiresAt"`
}

// accept answers an entry that the log has acknowledged. Until the first poll, which is half a minute away for who is far back, this
// is all that its sender knows: so it says how the queue stands, and the bound that the log sets to the place. That rides in the
// receipt like every number that was told, so that no later answer is more. Before a draw nobody has a place.
func (s *Service) accept(c echo.Context, e *queue.Entry, visitor queue.Visitor, ticket queue.Ticket) error {
	now := s.cfg.Now()
	most, near := s.cfg.Position(e, ticket)
	most = max(most, 1)
	ahead := queue.NoAhead
	if near && e.Settings.Order != queue.ByDraw {
		ahead = queue.RoundUp(e.Settings.Rounding, most-1)
	}
	receipt, err := s.keys.SignReceipt(pass.Receipt{
		Queue: e.ID, Visitor: visitor, Ticket: ticket, Ahead: ahead, IssuedMs: now.UnixMilli(), Made: e.Made,
	})
	if err != nil {
		s.metrics.count(opEnter, resultFailed)
		return fmt.Errorf("sign a receipt: %w", err)
	}
	after := queue.PollAfter(e.Settings.Polling, most, s.cfg.Rand())
	h := c.Response().Header()
	h["Set-Cookie"] = []string{httpapi.ReceiptCookie(e.ID, receipt)}
	httpapi.SetRetryAfter(h, after)

	body := make([]byte, 0, 256+len(visitor)+len(receipt))
	body = append(body, `{"status":"accepted","queue":"`...)
	body = append(body, e.ID...) // of a-z, 0-9 and '-'
	body = append(body, `","visitor":`...)
	body, err = jsontext.AppendQuote(body, visitor) // the site's own ids may hold anything
	if err != nil {
		s.metrics.count(opEnter, resultFailed)
		return fmt.Errorf("encode the visitor: %w", err)
	}
	body = append(body, `,"ticket":`...)
	body = strconv.AppendInt(body, int64(ticket), 10)
	body = append(body, `,"receipt":"`...)
	body = append(append(body, receipt...), '"') // base64url and dots
	if ahead != queue.NoAhead {
		body = strconv.AppendInt(append(body, `,"position":`...), ahead+1, 10)
		body = strconv.AppendInt(append(body, `,"ahead":`...), ahead, 10)
		body = append(body, `,"precision":"approximate"`...)
	}
	lots := e.Settings.Order == queue.ByDraw && !e.Settings.Opened(now.UnixMilli())
	body = httpapi.AppendStanding(body, e, lots, now)
	body = append(body, `,"retryAfterMs":`...)
	body = strconv.AppendInt(body, after.Milliseconds(), 10)
	body = append(body, '}')
	s.metrics.count(opEnter, resultAccepted)
	return httpapi.WriteRawJSON(c, http.StatusAccepted, body)
}

func (s *Service) leave(c echo.Context) error {
	e, err := s.queueOf(c)
	if err != nil {
		return s.refused(opLeave, err)
	}
	rec, source, err := s.decideLeave(c.Request(), e)
	if err != nil {
		if source == httpapi.FromCookie {
			// Scripts can't delete this cookie, and whoever asks to leave wants to be rid of it.
			c.Response().Header().Set("Set-Cookie", httpapi.ForgetCookie(e.ID))
		}
		return s.refused(opLeave, err)
	}
	if _, err := s.append(c, opLeave, e.ID, rec); err != nil {
		return err
	}
	// A receipt that worked is not forgotten: it still tells how it ended, and a second leave is answered alike.
	s.metrics.count(opLeave, resultLeft)
	return httpapi.WriteRawJSON(c, http.StatusOK, []byte(`{"status":"left"}`))
}

// queueOf reads the body and returns the queue that it names.
func (s *Service) queueOf(c echo.Context) (*queue.Entry, error) {
	name, err := httpapi.DecodeQueue(c)
	if err != nil {
		return nil, err
	}
	return s.find(name)
}

// find is the queue of that name.
func (s *Service) find(name string) (*queue.Entry, error) {
	id, err := queue.ParseID(name)
	if err != nil {
		return nil, httpapi.Problemf(httpapi.BodyMalformed, "%v", err)
	}
	e, ok := s.cfg.Queues.Get(id)
	if !ok {
		return nil, unknown(id)
	}
	return e, nil
}

func unknown(id queue.ID) error {
	return httpapi.Problemf(httpapi.QueueUnknown, "there is no queue %s here", id)
}

func (s *Service) refused(op operation, err error) error {
	s.metrics.count(op, resultRefused)
	return err
}

// append writes rec, waits for the acknowledgement, and turns what can go wrong into a problem.
func (s *Service) append(c echo.Context, op operation, id queue.ID, rec queue.Record) (queue.Ticket, error) {
	asked := c.Request().Context()
	ctx := asked
	if !s.prompt { // else a second timer for each request would be for nothing
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(asked, s.cfg.AckTimeout)
		defer cancel()
	}
	ticket, err := s.log.Append(ctx, id, rec)
	switch {
	case err == nil:
		return ticket, nil
	case errors.Is(err, linelog.ErrBusy):
		s.metrics.count(op, resultBusy)
		return 0, httpapi.Problemf(httpapi.Overloaded, "nothing was written; try again").After(s.backOff())
	case errors.Is(err, linelog.ErrNoQueue):
		s.metrics.count(op, resultNoQueue)
		return 0, unknown(id)
	case asked.Err() != nil:
		s.metrics.count(op, resultGone) // nobody reads the answer
	case errors.Is(err, linelog.ErrUnknown), errors.Is(err, context.DeadlineExceeded), errors.Is(err, linelog.ErrClosed):
		s.metrics.count(op, resultUnknown)
	default:
		s.metrics.count(op, resultFailed)
		s.logger.Error("log refused a record", zap.String("queue", string(id)), zap.Stringer("kind", rec.Kind), zap.Error(err))
	}
	detail := [operations]string{
		opEnter:    "not known to be accepted; retry with the same Idempotency-Key",
		opLeave:    "not known to be written; leave again",
		opComplete: "not known to be written; complete it again",
	}[op]
	return 0, &httpapi.Problem{Code: httpapi.LogUnavailable, Detail: detail, RetryAfter: s.backOff()}
}

// backOff spreads those who were turned away at one moment over the next three seconds.
func (s *Service) backOff() time.Duration {
	return time.Duration(1+math.Floor(3*s.cfg.Rand())) * time.Second
}
