package standalone

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/redisline/redislinetest"
)

// One entry is one trace through two processes, and each span says in which.
func TestTracesGoThroughTheLog(t *testing.T) {
	var mu sync.Mutex
	got := map[string]*spans.Span{} // the last of each name
	from := map[string]string{}
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var req collector.ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &req) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, rs := range req.ResourceSpans {
			name := ""
			for _, a := range rs.Resource.Attributes {
				if a.Key == "service.name" {
					name = a.Value.GetStringValue()
				}
			}
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					got[s.Name], from[s.Name] = s, name
				}
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer sink.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")

	cfg := kafkaConfig(linelogtest.Start(t).Addrs()[0], redislinetest.NewLink(t, redislinetest.Start(t)).Addr())
	enters, positions := started(t, cfg, Roles{Enter: true}), started(t, cfg, Roles{Position: true})
	ready(t, started(t, cfg, Roles{Projector: true}))
	who := enterMain(t, enters)
	a, text := send(t, "GET", "http://"+positions.Public()+"/queue/position?queue=main", who.Receipt, "")
	require.Equal(t, 200, a.http, text)
	want := map[string]string{"POST /queue/enter": "soonbeon-enter", "append": "soonbeon-enter", "apply": "soonbeon-projector",
		"GET /queue/position": "soonbeon-position", "look up the place": "soonbeon-position"}
	require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(got) >= len(want) }, patience, 20*time.Millisecond)
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, want, from)
	require.Equal(t, got["POST /queue/enter"].SpanId, got["append"].ParentSpanId)
	require.Equal(t, got["append"].SpanId, got["apply"].ParentSpanId)
	require.Equal(t, got["POST /queue/enter"].TraceId, got["apply"].TraceId)
	require.Equal(t, got["GET /queue/position"].SpanId, got["look up the place"].ParentSpanId)
}
