package events

import (
	"context"
	"errors"
	"hash/maphash"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// Register adds the service's route to e.
func (s *Service) Register(e *echo.Echo) { e.GET("/queue/events", s.events) }

// kept is how much the kernel keeps of what a client has not read yet; more than one event needs.
const kept = 16 << 10

// resync bounds how long who comes back waits for this process to have read as far as the one that it comes from.
const resync = 300 * time.Millisecond

// writer is one stream as it is written.
type writer struct {
	s       *Service
	st      *stream
	out     *httpapi.Stream
	receipt pass.Receipt
	said    uint64    // a digest of what was said last
	wrote   time.Time // when anything was
	ends    time.Time
}

func (s *Service) events(c echo.Context) error {
	receipt, from, err := s.cfg.Answers.Receipt(c.Request())
	if err != nil {
		return err
	}
	st, err := s.join(receipt.Queue, receipt.Visitor) // before asking, so that what is refused costs nothing more
	if err != nil {
		return err
	}
	defer s.leave(st)
	ctx := c.Request().Context()
	back := lastEvent(c.Request())
	if back != 0 {
		wait, cancel := context.WithTimeout(ctx, resync)
		_ = st.room.reading.WaitFor(wait, back) // what can't be had in time is told as it is known here
		cancel()
	}
	seq := st.room.reading.State().Seq
	p := buffers.Get().(*[]byte)
	t, err := s.cfg.Answers.Tell(ctx, receipt, *p)
	if err != nil {
		buffers.Put(p)
		return err
	}
	switch {
	case !near(t):
		buffers.Put(p)
		s.metrics.notNear.Inc()
		return httpapi.Problemf(httpapi.NotNear, "streams are for the first %d; poll, and ask again then", Near).
			With("retryAfterMs", t.RetryAfter.Milliseconds()).After(t.RetryAfter)
	case t.State == "over" && back != 0:
		buffers.Put(p)
		c.Response().Header()["Cache-Control"] = []string{"no-store"}
		return c.NoContent(http.StatusNoContent) // by which clients that come back by themselves know that it has ended
	}

	w := &writer{s: s, st: st, receipt: t.Receipt}
	w.ends = s.cfg.Now().Add(s.cfg.Lasts - time.Duration(s.cfg.Rand()*float64(s.cfg.Lasts)/5))
	if from == httpapi.FromCookie && t.Signed != "" {
		c.Response().Header().Add("Set-Cookie", httpapi.ReceiptCookie(receipt.Queue, t.Signed))
	}
	w.out = httpapi.NewStream(c, kept, s.cfg.WriteTimeout)
	more := w.tell(t, seq, p)
	buffers.Put(p)
	for more {
		more = w.next(ctx)
	}
	return nil
}

// near says that somebody may have a stream: who is among the next, or whose turn has come or is over.
func near(t Told) bool { return t.State != "waiting" || t.Position > 0 && t.Position <= Near }

// lastEvent is what the client was told last; 0 where it comes for the first time, or says something that is not of ours.
func lastEvent(r *http.Request) queue.Ticket {
	n, err := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return queue.Ticket(n)
}

// next waits for something to look at and tells it. It returns false when the stream has ended.
func (w *writer) next(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-w.s.ended:
		return w.end()
	case <-w.st.room.ctx.Done():
		return w.end()
	case <-w.st.wake:
	}
	now := w.s.cfg.Now()
	if now.After(w.ends) {
		return w.end()
	}
	seq := w.st.room.reading.State().Seq // before asking: an id says what was read at least
	p := buffers.Get().(*[]byte)
	defer buffers.Put(p)
	t, err := w.s.cfg.Answers.Tell(ctx, w.receipt, *p)
	var problem *httpapi.Problem
	switch {
	case err == nil:
		return w.tell(t, seq, p)
	case errors.As(err, &problem) && problem.Code == httpapi.ViewUnavailable:
		return w.alive(now)
	}
	return w.end()
}

// end returns false.
func (w *writer) end() bool {
	w.out.End()
	return false
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// digest is of what t says.
func (s *Service) digest(t Told) uint64 {
	d := maphash.Bytes(s.seed, t.Body[:t.Lasting])
	if t.Exact {
		d ^= 1
	}
	return max(d, 1) // 0 is that nothing was said
}

// tell writes t if it says something new, and returns false when it was the last event. p is where t.Body is, and may be used again.
func (w *writer) tell(t Told, seq queue.Ticket, p *[]byte) bool {
	*p = t.Body[:0]
	w.receipt = t.Receipt
	d := w.s.digest(t)
	if t.State == "waiting" && d == w.said {
		return w.alive(w.s.cfg.Now())
	}
	q := buffers.Get().(*[]byte)
	defer buffers.Put(q)
	b := (*q)[:0]
	kind, sent, last := "position", w.s.metrics.position, !near(t)
	switch t.State {
	case "admitted":
		kind, sent, last = t.State, w.s.metrics.admitted, true
	case "over":
		kind, sent, last = t.State, w.s.metrics.over, true
	}
	if w.said == 0 || last {
		b = append(b, "retry: "...)
		b = strconv.AppendInt(b, w.retry(last).Milliseconds(), 10)
		b = append(b, '\n')
	}
	b = append(append(append(b, "event: "...), kind...), "\nid: "...)
	b = strconv.AppendInt(b, int64(seq), 10)
	b = append(append(append(b, "\ndata: "...), t.Body...), "\n\n"...)
	*q = b
	if !w.write(b, sent) {
		return false
	}
	w.said = d
	if since := w.st.since(); t.State == "admitted" && !since.IsZero() {
		w.s.metrics.push.Observe(w.s.cfg.Now().Sub(since).Seconds())
	}
	if last {
		return w.end()
	}
	return true
}

// retry draws how long a client stays away that lost its stream. Who was told the last there is to tell, and comes back all the
// same, has time.
func (w *writer) retry(last bool) time.Duration {
	d := time.Duration((1 + 3*w.s.cfg.Rand()) * float64(w.s.cfg.Retry))
	if last {
		d *= 10
	}
	return d
}

// alive writes a sign of life where one is due.
func (w *writer) alive(now time.Time) bool {
	if now.Sub(w.wrote) < w.s.cfg.Heartbeat-w.s.idle() {
		return true
	}
	return w.write([]byte(":\n\n"), w.s.metrics.heartbeat)
}

// write sends b at once, and returns false when the client does not take it.
func (w *writer) write(b []byte, count prometheus.Counter) bool {
	if err := w.out.Write(b); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			w.s.metrics.slow.Inc()
		}
		return false
	}
	w.wrote = w.s.cfg.Now()
	count.Inc()
	return true
}
