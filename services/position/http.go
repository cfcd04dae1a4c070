package position

import (
	"context"
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
	// Find is a queue, with what its operators say of it at the moment; false where there is none, or none any more. A queue that
	// was made a moment ago may be nil beside its entry. It is called for each request, from many goroutines.
	Find func(queue.ID) (*Queue, *queue.Entry, bool)
	Keys *pass.Keys
	Rand func() float64   // uniform in [0, 1); default math/rand
	Now  func() time.Time // default time.Now
}

// Service serves GET /queue/position and GET /queue/draw. It holds no state and needs no stop: its requests end with the
// server's.
type Service struct {
	cfg     Config
	metrics *metrics
}

// New checks cfg and makes a Service.
func New(cfg Config, reg prometheus.Registerer) (*Service, error) {
	if cfg.Find == nil || cfg.Keys == nil {
		return nil, errors.New("position: queues and keys are needed")
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Float64
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Service{cfg: cfg, metrics: newMetrics(reg)}, nil
}

// Register adds the service's routes to e.
func (s *Service) Register(e *echo.Echo) {
	e.GET("/queue/position", s.position)
	e.GET("/queue/draw", s.draw)
}

// find reads which queue is asked about.
func (s *Service) find(r *http.Request) (*Queue, *queue.Entry, error) {
	id, err := httpapi.QueryQueue(r)
	if err != nil {
		return nil, nil, err
	}
	q, e, ok := s.cfg.Find(id)
	if !ok {
		return nil, nil, httpapi.Problemf(httpapi.QueueUnknown, "there is no queue %s", id)
	}
	if q == nil { // made a moment ago: that it can't be told of yet is not that it is none
		return nil, nil, httpapi.Problemf(httpapi.ViewUnavailable, "the queue was made a moment ago, and is not read here yet; ask again").After(time.Second)
	}
	return q, e, nil
}

// verify checks a receipt for the queue of e.
func (s *Service) verify(token string, e *queue.Entry) (pass.Receipt, error) {
	r, err := s.cfg.Keys.VerifyReceipt(token, e.ID)
	if err == nil && r.Made != 0 && r.Made != e.Made {
		err = httpapi.Problemf(httpapi.CredentialInvalid, "the receipt is of an earlier queue of this name, which was deleted; enter anew")
	}
	return r, err
}

// receipt reads who asks, and about which queue.
func (s *Service) receipt(r *http.Request) (*Queue, *queue.Entry, pass.Receipt, httpapi.Source, error) {
	q, e, err := s.find(r)
	if err != nil {
		return nil, nil, pass.Receipt{}, httpapi.FromNowhere, err
	}
	receipt, from, err := httpapi.Authenticate(r, e.ID, func(token string) (pass.Receipt, error) { return s.verify(token, e) })
	return q, e, receipt, from, err
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

func (s *Service) position(c echo.Context) error {
	q, e, receipt, from, err := s.receipt(c.Request())
	if err != nil {
		return err
	}
	p := buffers.Get().(*[]byte)
	defer buffers.Put(p)
	t, err := s.tell(c.Request().Context(), q, e, receipt, (*p)[:0])
	if err != nil {
		return err
	}
	*p = t.Body
	if t.State == Waiting {
		if from == httpapi.FromCookie {
			c.Response().Header().Add("Set-Cookie", httpapi.ReceiptCookie(e.ID, t.Signed))
		}
		httpapi.SetRetryAfter(c.Response().Header(), t.RetryAfter)
	}
	return httpapi.WriteRawJSON(c, http.StatusOK, t.Body)
}

// tell answers the holder of r, in b.
func (s *Service) tell(ctx context.Context, q *Queue, e *queue.Entry, r pass.Receipt, b []byte) (Told, error) {
	now := s.cfg.Now()
	a, err := q.ask(ctx, r, e, now)
	if errors.Is(err, errUntold) {
		s.metrics.answers.WithLabelValues("untold").Inc()
		return Told{}, httpapi.Problemf(httpapi.ViewUnavailable, "your place is safe, and can't be told at the moment; ask again").After(5 * time.Second)
	}
	if err != nil {
		return Told{}, err
	}
	switch a.state {
	case admitted:
		return s.tellAdmitted(e, r, a.grant, b)
	case over:
		return s.tellOver(e, r, a, b), nil
	case waiting:
	}
	return s.tellWaiting(e, r, a, now, b)
}

func (s *Service) tellOver(e *queue.Entry, r pass.Receipt, a answer, b []byte) Told {
	s.metrics.over.Inc()
	b = append(b, `{"state":"over","reason":"`...)
	b = append(append(b, a.reason...), '"') // ours, or one that queue.CheckWhy let through
	if a.ended {
		b = httpapi.AppendText(b, `,"message":`, e.Settings.Message)
	}
	b = append(b, '}')
	return Told{State: Over, Body: b, Lasting: len(b), Receipt: r}
}

func (s *Service) tellAdmitted(e *queue.Entry, r pass.Receipt, g queue.Grant, b []byte) (Told, error) {
	// Each answer gives the same token, dated by its admission. The broker's clock may be ahead of this one's: as far as gates
	// forgive it, the date stays; beyond, no gate would let in by it. And it is before the end, or it can't be signed.
	forgiven := s.cfg.Now().Add(pass.Leeway).UnixMilli()
	since := max(min(g.AdmittedMs, forgiven, g.ExpiresMs-1), 0)
	token, err := s.cfg.Keys.SignEntry(pass.Entry{Queue: e.ID, Visitor: r.Visitor, Ticket: g.Ticket, AdmittedMs: since, ExpiresMs: g.ExpiresMs, Made: e.Made})
	if err != nil {
		return Told{}, fmt.Errorf("signing an entry token: %w", err)
	}
	s.metrics.admitted.Inc()
	b = append(b, `{"state":"admitted","queue":"`...)
	b = append(b, e.ID...)
	b = append(b, `","token":"`...)
	b = append(b, token...)
	b = append(b, `","expiresAt":"`...)
	b = time.UnixMilli(g.ExpiresMs).UTC().AppendFormat(b, time.RFC3339Nano)
	b = httpapi.AppendText(append(b, '"'), `,"admitTo":`, e.Settings.AdmitTo)
	b = append(b, '}')
	return Told{State: Admitted, Body: b, Lasting: len(b), Receipt: r}, nil
}

// tellWaiting appends the answer by hand: it is the one that everybody asks for all the time.
func (s *Service) tellWaiting(e *queue.Entry, r pass.Receipt, a answer, now time.Time, b []byte) (Told, error) {
	t := Told{State: Waiting, RetryAfter: s.after(e, a, now), Exact: a.exact, Receipt: renewed(r, e, a, now)}
	b = append(b, `{"state":"waiting"`...)
	num := func(name string, n int64) {
		b = append(b, name...)
		b = strconv.AppendInt(b, n, 10)
	}
	if !a.unplaced {
		t.Position = a.ahead + 1
		num(`,"position":`, t.Position)
		num(`,"ahead":`, a.ahead)
		if a.exact {
			num(`,"behind":`, a.total-a.ahead-1)
		}
	}
	if a.exact {
		num(`,"total":`, a.total)
	}
	num(`,"ticket":`, int64(a.ticket))
	if a.number != 0 {
		num(`,"number":`, int64(a.number))
	}
	num(`,"nowServing":`, int64(a.nowServing))
	if a.etaKnown {
		num(`,"etaSeconds":`, int64(a.eta/time.Second))
	}
	b = httpapi.AppendStanding(b, e, a.unplaced, now)
	if a.noPlace {
		b = append(b, `,"inserted":false`...)
	}
	t.Lasting = len(b)
	num(`,"retryAfterMs":`, t.RetryAfter.Milliseconds())
	var err error
	if t.Signed, err = s.cfg.Keys.SignReceipt(t.Receipt); err != nil {
		return Told{}, fmt.Errorf("signing a receipt: %w", err)
	}
	if a.exact {
		b = append(b, `,"precision":"exact","receipt":"`...)
		s.metrics.exact.Inc()
	} else {
		b = append(b, `,"precision":"approximate","receipt":"`...)
		s.metrics.approximate.Inc()
	}
	b = append(b, t.Signed...)
	t.Body = append(b, `"}`...)
	return t, nil
}

// renewed is the receipt that goes with an answer. It carries whatever was told, exact or not: else another node that has read
// less of the log, or a view that is a moment older, would tell the same person more.
func renewed(r pass.Receipt, e *queue.Entry, a answer, now time.Time) pass.Receipt {
	r.Ticket, r.Ahead, r.Drawn, r.IssuedMs = a.ticket, a.ahead, a.drawnAt, now.UnixMilli()
	if a.unplaced {
		r.Ahead = queue.NoAhead
	}
	if a.exact { // the view has this ticket of this visitor, and no earlier one
		r.Sure, r.Made = true, e.Made
	}
	return r
}

const (
	// drawTakes is what the leader is given to draw lots in: who comes before would be told to come once more.
	drawTakes = 2 * time.Second
	// openingLasts bounds how late after the opening the last of those come who were told to come then.
	openingLasts = 30 * time.Second
)

// after draws when the visitor asks again. Who would come after the opening comes within one interval of it: not all at one
// moment, and nobody much later.
func (s *Service) after(e *queue.Entry, a answer, now time.Time) time.Duration {
	position, draw := a.ahead+1, s.cfg.Rand()
	if a.unplaced { // that of the last, since nobody knows; by the log alone, how many they may be at the most
		position = max(a.total, int64(a.ticket-a.nowServing))
	}
	after := queue.PollAfter(e.Settings.Polling, position, draw)
	ms := e.Settings.OpensAtMs - now.UnixMilli()
	if e.Settings.Order == queue.ByDraw {
		ms += drawTakes.Milliseconds()
	}
	if ms <= 0 || after.Milliseconds() < ms { // opened long ago, or another time before it
		return after
	}
	opens := time.Duration(ms) * time.Millisecond
	interval := queue.PollAfter(e.Settings.Polling, position, 0.5) // without its jitter
	return max(opens+time.Duration(draw*float64(min(interval, openingLasts))), queue.MinPoll)
}
