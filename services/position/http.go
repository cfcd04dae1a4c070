package position

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// Config of a Service.
type Config struct {
	Find    func(queue.ID) (*Queue, bool) // the queues there are; called for each request, from many goroutines
	Keys    *pass.Keys
	Polling []queue.PollStep // default queue.DefaultPolling
	Rand    func() float64   // uniform in [0, 1); default math/rand
	Now     func() time.Time // default time.Now
}

// Service serves GET /queue/position. It holds no state and needs no stop: its requests end with the server's.
type Service struct {
	cfg     Config
	metrics *metrics
}

// New checks cfg and makes a Service.
func New(cfg Config, reg prometheus.Registerer) (*Service, error) {
	if cfg.Find == nil || cfg.Keys == nil {
		return nil, errors.New("position: queues and keys are needed")
	}
	if cfg.Polling == nil {
		cfg.Polling = queue.DefaultPolling()
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Float64
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Service{cfg: cfg, metrics: newMetrics(reg)}, nil
}

// Register adds the service's route to e.
func (s *Service) Register(e *echo.Echo) { e.GET("/queue/position", s.position) }

func (s *Service) position(c echo.Context) error {
	id, err := httpapi.QueryQueue(c.Request())
	if err != nil {
		return err
	}
	q, ok := s.cfg.Find(id)
	if !ok {
		return httpapi.Problemf(httpapi.QueueUnknown, "there is no queue %s", id)
	}
	receipt, from, err := httpapi.Authenticate(c.Request(), id, func(token string) (pass.Receipt, error) {
		return s.cfg.Keys.VerifyReceipt(token, id)
	})
	if err != nil {
		return err
	}
	now := s.cfg.Now()
	a, err := q.ask(c.Request().Context(), receipt, now)
	if errors.Is(err, errUntold) {
		s.metrics.answers.WithLabelValues("untold").Inc()
		return httpapi.Problemf(httpapi.ViewUnavailable, "your place is safe, and can't be told at the moment; ask again").After(5 * time.Second)
	}
	if err != nil {
		return err
	}
	switch a.state {
	case admitted:
		return s.tellAdmitted(c, id, receipt.Visitor, a.grant)
	case over:
		s.metrics.over.Inc()
		return httpapi.WriteRawJSON(c, http.StatusOK, []byte(`{"state":"over","reason":"`+a.reason+`"}`))
	case waiting:
	}
	return s.tellWaiting(c, id, receipt, from, a, now)
}

func (s *Service) tellAdmitted(c echo.Context, id queue.ID, v queue.Visitor, g queue.Grant) error {
	// Each answer gives the same token, dated by its admission. The broker's clock may be ahead of this one's: as far as gates
	// forgive it, the date stays; beyond, no gate would let in by it. And it is before the end, or it can't be signed.
	forgiven := s.cfg.Now().Add(pass.Leeway).UnixMilli()
	since := max(min(g.AdmittedMs, forgiven, g.ExpiresMs-1), 0)
	token, err := s.cfg.Keys.SignEntry(pass.Entry{Queue: id, Visitor: v, Ticket: g.Ticket, AdmittedMs: since, ExpiresMs: g.ExpiresMs})
	if err != nil {
		return fmt.Errorf("signing an entry token: %w", err)
	}
	s.metrics.admitted.Inc()
	b := append([]byte(nil), `{"state":"admitted","queue":"`...)
	b = append(b, id...)
	b = append(b, `","token":"`...)
	b = append(b, token...)
	b = append(b, `","expiresAt":"`...)
	b = time.UnixMilli(g.ExpiresMs).UTC().AppendFormat(b, time.RFC3339Nano)
	return httpapi.WriteRawJSON(c, http.StatusOK, append(b, `"}`...))
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// tellWaiting appends the answer by hand: it is the one that everybody asks for all the time.
func (s *Service) tellWaiting(c echo.Context, id queue.ID, r pass.Receipt, from httpapi.Source, a answer, now time.Time) error {
	after := queue.PollAfter(s.cfg.Polling, a.ahead+1, s.cfg.Rand())
	p := buffers.Get().(*[]byte)
	defer buffers.Put(p)
	b := append((*p)[:0], `{"state":"waiting","position":`...)
	num := func(name string, n int64) {
		b = append(b, name...)
		b = strconv.AppendInt(b, n, 10)
	}
	b = strconv.AppendInt(b, a.ahead+1, 10)
	num(`,"ahead":`, a.ahead)
	if a.exact {
		num(`,"behind":`, a.total-a.ahead-1)
		num(`,"total":`, a.total)
	}
	num(`,"ticket":`, int64(a.ticket))
	num(`,"nowServing":`, int64(a.nowServing))
	if a.etaKnown {
		num(`,"etaSeconds":`, int64(a.eta/time.Second))
	}
	num(`,"retryAfterMs":`, after.Milliseconds())
	// The receipt is renewed with whatever was told, exact or not. Else another node that has read less of the log, or a view
	// that is a moment older, would tell the same person more.
	r.Ticket, r.Ahead, r.IssuedMs = a.ticket, a.ahead, now.UnixMilli()
	receipt, err := s.cfg.Keys.SignReceipt(r)
	if err != nil {
		return fmt.Errorf("signing a receipt: %w", err)
	}
	if a.exact {
		b = append(b, `,"precision":"exact","receipt":"`...)
		s.metrics.exact.Inc()
	} else {
		b = append(b, `,"precision":"approximate","receipt":"`...)
		s.metrics.approximate.Inc()
	}
	b = append(b, receipt...)
	b = append(b, `"}`...)
	if from == httpapi.FromCookie {
		c.Response().Header().Add("Set-Cookie", httpapi.ReceiptCookie(id, receipt))
	}
	*p = b
	httpapi.SetRetryAfter(c.Response().Header(), after)
	return httpapi.WriteRawJSON(c, http.StatusOK, b)
}
