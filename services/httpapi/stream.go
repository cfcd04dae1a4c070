package httpapi

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// Stream is an answer of server-sent events. Each write has a deadline of its own, so a client that does not read holds nothing for
// longer than that.
type Stream struct {
	out     http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

// NewStream sends the header of an answer that goes on until its handler returns. The kernel keeps about unread bytes for a client
// that does not read; a write that finds no room for that long is given up after timeout.
func NewStream(c echo.Context, unread int, timeout time.Duration) *Stream {
	LimitUnread(c.Request(), unread)
	s := &Stream{out: c.Response(), timeout: timeout}
	s.control = http.NewResponseController(c.Response().Writer) // echo's own has a Flush that keeps errors to itself
	_ = s.control.SetReadDeadline(time.Time{})                  // the server's bounds the request, and would end the stream
	h := c.Response().Header()
	h["Content-Type"] = []string{"text/event-stream"}
	h["Cache-Control"] = []string{"no-store"}
	h["X-Accel-Buffering"] = []string{"no"} // nginx passes each event on at once
	h["X-Content-Type-Options"] = []string{"nosniff"}
	c.Response().WriteHeader(http.StatusOK)
	return s
}

// Write sends b at once. The error is os.ErrDeadlineExceeded where the client does not read.
func (s *Stream) Write(b []byte) error {
	s.extend()
	if _, err := s.out.Write(b); err != nil {
		return err
	}
	return s.control.Flush()
}

// End comes before the handler returns, and leaves time for the last bytes, so that the client sees an end and not a cut.
func (s *Stream) End() { s.extend() }

func (s *Stream) extend() { _ = s.control.SetWriteDeadline(time.Now().Add(s.timeout)) }
