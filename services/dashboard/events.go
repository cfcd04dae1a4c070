package dashboard

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// unread is how much the kernel keeps for a client that does not read, in bytes.
const unread = 64 << 10

// rows are the queues that changed since they were told last.
type rows struct {
	IDs    []queue.ID       `json:"ids,omitzero"` // all there are, where that changed
	Queues []jsontext.Value `json:"queues"`
}

// events streams what changes to one operator, until the client or the service ends it.
func (s *Service) events(c echo.Context) error {
	refused := func(why string, err error) error {
		s.metrics.refused.WithLabelValues(why).Inc()
		return err
	}
	if _, err := s.cfg.Operators.Check(c.Request()); err != nil {
		if !s.cfg.Operators.Any() {
			err = httpapi.Problemf(httpapi.CredentialForbidden, "this process has no operators: SOONBEON_OPERATORS lists them")
		}
		return refused(refusedCredential, err)
	}
	v := &viewer{s: s}
	if c.QueryParams().Has("queue") {
		id, err := queue.ParseID(c.QueryParam("queue"))
		if err != nil {
			return refused(refusedQueue, httpapi.Problemf(httpapi.QueueUnknown, "%v", err))
		}
		if !slices.ContainsFunc(s.cfg.Queues(), func(e *queue.Entry) bool { return e.ID == id }) {
			return refused(refusedQueue, httpapi.Problemf(httpapi.QueueUnknown, "there is no queue %s", id))
		}
		v.id = id
	}
	if why, err := s.begin(); err != nil {
		return refused(why, err)
	}
	defer s.leave()

	v.out = httpapi.NewStream(c, unread, s.cfg.WriteTimeout)
	for v.next(c.Request().Context()) {
	}
	v.out.End()
	return nil
}

// begin counts a stream, or says why not.
func (s *Service) begin() (why string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.open:
		return refusedStopping, httpapi.Problemf(httpapi.StreamsFull, "this process is starting or stopping").After(time.Second)
	case s.streams >= s.cfg.MaxStreams:
		return refusedFull, httpapi.Problemf(httpapi.StreamsFull, "%d people look at this process's dashboard already", s.streams).After(10 * time.Second)
	case s.streams == 0:
		s.idle = make(chan struct{})
	}
	s.streams++
	s.metrics.streams.Set(float64(s.streams))
	return "", nil
}

func (s *Service) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams--; s.streams == 0 {
		close(s.idle)
	}
	s.metrics.streams.Set(float64(s.streams))
}

// viewer is one stream.
type viewer struct {
	s   *Service
	id  queue.ID // whose details are wanted; "": nobody's
	out *httpapi.Stream

	buf    []byte
	turn   int64 // of the look that was told last
	sample int64 // that was told last
	began  bool  // the history was told
	detail string
	wrote  time.Time
}

// next waits for a look and tells what is new. It returns false when the stream has ended.
func (v *viewer) next(ctx context.Context) bool {
	s := v.s
	s.mu.Lock()
	looked := s.looked
	s.mu.Unlock()
	select {
	case <-ctx.Done():
		return false
	case <-s.ended:
		return false
	case <-looked:
	}
	now := s.cfg.Now()
	v.buf = v.buf[:0]
	if !v.gather(now) {
		return false
	}
	if len(v.buf) == 0 {
		if now.Sub(v.wrote) < s.cfg.Heartbeat-s.cfg.Look {
			return true
		}
		v.buf = append(v.buf, ":\n\n"...)
	}
	err := v.out.Write(v.buf)
	v.wrote = now
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.metrics.dropped.Inc()
	}
	return err == nil
}

// gather puts together what is new; false where the queue is gone that was asked for.
func (v *viewer) gather(now time.Time) bool {
	s := v.s
	s.mu.Lock()
	defer s.mu.Unlock()
	var r rows
	if s.setTurn > v.turn || v.turn == 0 {
		r.IDs = make([]queue.ID, 0, len(s.watched))
		for id := range s.watched {
			r.IDs = append(r.IDs, id)
		}
		slices.Sort(r.IDs)
	}
	for id, w := range s.watched {
		if w.turn > v.turn && len(w.told) > 0 && (v.id == "" || v.id == id) {
			r.Queues = append(r.Queues, w.told)
		}
	}
	v.turn = s.turn
	if r.IDs != nil || len(r.Queues) > 0 {
		v.event("rows", r)
	}
	if v.id == "" {
		return true
	}
	d, ok := s.details(v.id, now)
	if !ok {
		return false
	}
	if b, err := json.Marshal(d); err == nil && string(b) != v.detail {
		v.detail = string(b)
		v.event("queue", jsontext.Value(b))
	}
	switch {
	case !v.began:
		v.began = true
		v.event("history", s.columnsOf(v.id, 0))
	case s.samples > v.sample:
		v.event("sample", s.columnsOf(v.id, v.sample))
	}
	v.sample = s.samples
	return true
}

// event appends one.
func (v *viewer) event(kind string, data any) {
	b, err := json.Marshal(data)
	if err != nil {
		return // it is made of numbers and of JSON
	}
	v.buf = append(append(v.buf, "event: "...), kind...)
	v.buf = strconv.AppendInt(append(v.buf, "\nid: "...), v.turn, 10)
	v.buf = append(append(append(v.buf, "\ndata: "...), b...), "\n\n"...)
}
