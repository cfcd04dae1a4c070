package enter_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/enter"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// instant is a log that takes no time, so that what is left is our own work.
type instant struct{}

func (instant) Append(context.Context, queue.ID, queue.Record) (queue.Ticket, error) { return 1, nil }

type nowhere struct{ h http.Header }

func (w nowhere) Header() http.Header         { return w.h }
func (w nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (w nowhere) WriteHeader(int)             {}

// BenchmarkEnter is the handler without the network and without the log, against echo with a handler that does nothing.
func BenchmarkEnter(b *testing.B) {
	keys, err := pass.ParseKeys("a:" + strings.Repeat("A", 43) + "=")
	if err != nil {
		b.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	e, err := httpapi.New(httpapi.Config{}, zap.NewNop(), reg)
	if err != nil {
		b.Fatal(err)
	}
	s, err := enter.New(enter.Config{Queues: enter.Only("main"), IDSecret: make([]byte, 32)}, instant{}, keys, zap.NewNop(), reg)
	if err != nil {
		b.Fatal(err)
	}
	s.Register(e)
	bare := echo.New()
	bare.POST(enterPath, func(c echo.Context) error { return c.String(http.StatusAccepted, "{}") })
	for name, tc := range map[string]struct {
		h   http.Handler
		key string
	}{"bare": {bare, ""}, "newcomer": {e, ""}, "newcomer with a key": {e, uuid}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest("POST", enterPath, strings.NewReader(intoMain))
				r.Header.Set("Content-Type", "application/json")
				if tc.key != "" {
					r.Header.Set("Idempotency-Key", tc.key)
				}
				tc.h.ServeHTTP(nowhere{http.Header{}}, r)
			}
		})
	}
}
