package enter_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/services/enter"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// onKafka is the service on a broker that can go away.
type onKafka struct {
	e      *echo.Echo
	broker *linelogtest.Broker
	log    *linelog.Log
}

func newOnKafka(t *testing.T, change ...func(*linelog.Config)) onKafka {
	t.Helper()
	k := onKafka{broker: linelogtest.Start(t)}
	k.log = k.broker.Log(t, change...)
	_, _, err := k.log.EnsureQueue(t.Context(), "main")
	require.NoError(t, err)
	w, err := k.log.NewWriter()
	require.NoError(t, err)
	t.Cleanup(w.Close)
	keys, err := pass.ParseKeys("a:" + strings.Repeat("A", 43) + "=")
	require.NoError(t, err)
	reg := prometheus.NewRegistry()
	k.e, err = httpapi.New(httpapi.Config{}, zap.NewNop(), reg)
	require.NoError(t, err)
	s, err := enter.New(enter.Config{Queues: enter.Only("main"), IDSecret: make([]byte, 32)}, w, keys, zap.NewNop(), reg)
	require.NoError(t, err)
	s.Register(k.e)
	return k
}

func (k onKafka) enter() *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", enterPath, strings.NewReader(intoMain))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", uuid)
	w := httptest.NewRecorder()
	k.e.ServeHTTP(w, r)
	return w
}

func TestFault2_OnKafka_WrittenButNotAcknowledged(t *testing.T) {
	k := newOnKafka(t)
	k.broker.LoseProduceReplies(1)
	first := k.enter()
	second := k.enter()
	require.Equal(t, 202, second.Code, second.Body)
	_, next, err := k.log.Bounds(t.Context(), "main")
	require.NoError(t, err)
	require.EqualValues(t, 3, next, "both were written; the first was answered by %d", first.Code)

	r := k.log.NewReader("main", 0, "")
	defer r.Close()
	view := line.New()
	for view.State().Seq < next-1 {
		recs, err := r.Next(t.Context())
		require.NoError(t, err)
		require.True(t, view.Apply(recs[0].Ticket-1, recs))
	}
	require.EqualValues(t, 1, view.Total())
}

func TestFault25_OnKafka_AwayAndBack(t *testing.T) {
	const buffered = 20
	k := newOnKafka(t, func(c *linelog.Config) { c.MaxBuffered = buffered })
	require.Equal(t, 202, k.enter().Code)
	k.broker.Away()
	var mu sync.Mutex
	codes := map[int]int{}
	var all sync.WaitGroup
	for range 5 * buffered {
		all.Go(func() {
			began := time.Now()
			w := k.enter()
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("answered after %v", took)
			}
			if w.Header().Get("Retry-After") == "" {
				t.Errorf("%d without Retry-After", w.Code)
			}
			mu.Lock()
			defer mu.Unlock()
			codes[w.Code]++
			if strings.Contains(w.Body.String(), string(httpapi.Overloaded)) {
				codes[0]++
			}
		})
	}
	all.Wait()
	require.Equal(t, 5*buffered, codes[503], "%v", codes)
	require.Equal(t, 4*buffered, codes[0], "what doesn't fit the buffer is refused at once: %v", codes)

	k.broker.Back()
	back, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for k.enter().Code != 202 {
		require.NoError(t, back.Err(), "not back within 5 s of Kafka's return")
	}
}
