package trace

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	otel "go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestWanted(t *testing.T) {
	for _, tc := range []struct {
		env    []string
		wanted bool
		err    string
	}{
		{nil, false, ""},
		{[]string{"OTEL_SERVICE_NAME", "x"}, false, ""},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"}, true, ""},
		{[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:4318/v1/traces"}, true, ""},
		{[]string{"OTEL_TRACES_EXPORTER", "otlp"}, true, ""},
		{[]string{"OTEL_TRACES_EXPORTER", "none", "OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"}, false, ""},
		{[]string{"OTEL_SDK_DISABLED", "true", "OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"}, false, ""},
		{[]string{"OTEL_TRACES_EXPORTER", "zipkin"}, false, "zipkin"},
		{[]string{"OTEL_TRACES_EXPORTER", "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}, false, `OTEL_EXPORTER_OTLP_PROTOCOL is "grpc"; the value that this program takes is http/protobuf`},
		{[]string{"OTEL_TRACES_EXPORTER", "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"}, true, ""},
	} {
		wanted, err := Wanted(env(tc.env...))
		require.Equal(t, tc.wanted, wanted, tc.env)
		if tc.err == "" {
			require.NoError(t, err, tc.env)
		} else {
			require.ErrorContains(t, err, tc.err)
		}
	}
}

// log answers appends, and remembers the trace that each belonged to.
type log struct {
	t      *Tracer
	err    error
	traces []string
}

func (l *log) AppendTimeout() time.Duration { return time.Second }
func (l *log) Append(ctx context.Context, _ queue.ID, _ queue.Record) (queue.Ticket, error) {
	if of := l.t.Traceparent(); of != nil {
		l.traces = append(l.traces, of(ctx))
	}
	return 7, l.err
}
func (l *log) Place(context.Context, queue.Visitor) (queue.Moment, queue.Place, error) {
	return queue.Moment{}, queue.Place{}, l.err
}

// Off, everything is handed through as it came: there is nothing left that could cost anything.
func TestOffIsNotThere(t *testing.T) {
	off, err := New(t.Context(), "soonbeon", env(), zap.NewNop())
	require.NoError(t, err)
	require.Nil(t, off)
	l, h := &log{}, http.NotFoundHandler()
	require.Same(t, l, off.Appender(l))
	require.Same(t, l, off.View("main", l))
	require.Equal(t, reflect.ValueOf(h).Pointer(), reflect.ValueOf(off.Handler(h, "/")).Pointer())
	require.Nil(t, off.Traceparent())
	require.Nil(t, off.Traced())
	require.NoError(t, lifecycle.Service(off).Start(t.Context()))
	require.NoError(t, lifecycle.Service(off).Stop(t.Context()))
}

func recording(t *testing.T, options ...sdk.TracerProviderOption) (*Tracer, *tracetest.InMemoryExporter) {
	t.Helper()
	out := tracetest.NewInMemoryExporter()
	tracer, err := newTracer(t.Context(), "soonbeon enter", append(options, sdk.WithSyncer(out))...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tracer.Stop(context.Background())) })
	return tracer, out
}

// serve asks a handler that appends a record and looks up a place.
func serve(tracer *Tracer, l *log, path string) *httptest.ResponseRecorder {
	h := tracer.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := tracer.Appender(l).Append(r.Context(), "main", queue.Record{Kind: queue.Entered, Visitor: "secret-visitor"})
		_, _, _ = tracer.View("main", l).Place(r.Context(), "secret-visitor")
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}), "/queue/enter")
	r := httptest.NewRequest("POST", path+"?queue=secret-query", nil)
	r.Header.Set("Traceparent", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
	r.Header.Set("Authorization", "Bearer secret-token")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestOneRequestIsOneTrace(t *testing.T) {
	tracer, out := recording(t)
	l := &log{t: tracer}
	serve(tracer, l, "/queue/enter")
	require.Len(t, l.traces, 1)
	tracer.Traced()("main", 7, l.traces[0], time.Now().Add(-time.Second)) // by another process
	tracer.Traced()("main", 8, "whatever somebody wrote", time.Now())

	spans := map[string]tracetest.SpanStub{}
	for _, s := range out.GetSpans() {
		spans[s.Name] = s
		require.NotContains(t, mustText(s), "secret")
	}
	require.Len(t, spans, 4)
	root := spans["POST /queue/enter"]
	require.False(t, root.Parent.IsValid(), "who asks from outside doesn't decide what is traced")
	require.Equal(t, "0123456789abcdef0123456789abcdef", root.Links[0].SpanContext.TraceID().String())
	require.Equal(t, root.SpanContext.SpanID(), spans["append"].Parent.SpanID())
	require.Equal(t, root.SpanContext.SpanID(), spans["look up the place"].Parent.SpanID())
	require.Equal(t, spans["append"].SpanContext.SpanID(), spans["apply"].Parent.SpanID())
	require.Equal(t, root.SpanContext.TraceID(), spans["apply"].SpanContext.TraceID())
	require.GreaterOrEqual(t, spans["apply"].EndTime.Sub(spans["apply"].StartTime), time.Second)

	out.Reset()
	l.err = errors.New("secret")
	require.Equal(t, 503, serve(tracer, l, "/queue/enter").Code)
	for _, s := range out.GetSpans() {
		require.Equal(t, codes.Error, s.Status.Code, s.Name)
		require.NotContains(t, mustText(s), "secret")
	}
	out.Reset()
	serve(tracer, l, "/queue/made-up")
	for _, s := range out.GetSpans() {
		require.NotContains(t, mustText(s), "made-up")
	}
}

func mustText(s tracetest.SpanStub) string {
	text := s.Name + s.Status.Description
	for _, a := range s.Attributes {
		text += string(a.Key) + a.Value.String()
	}
	return text
}

// What isn't sampled puts nothing into the log.
func TestUnsampledRecordsHaveNoHeader(t *testing.T) {
	tracer, out := recording(t, sdk.WithSampler(sdk.NeverSample()))
	l := &log{t: tracer}
	serve(tracer, l, "/queue/enter")
	require.Equal(t, []string{""}, l.traces)
	tracer.Traced()("main", 7, "00-0123456789abcdef0123456789abcdef-0123456789abcdef-00", time.Now())
	require.Empty(t, out.GetSpans())
	require.False(t, otel.SpanContextFromContext(t.Context()).IsValid())
}

// What it costs, for the table in docs/benchmarks.md: off, and on with one request in a hundred sampled.
func BenchmarkRequest(b *testing.B) {
	for name, make := range map[string]func() *Tracer{
		"off": func() *Tracer { return nil },
		"on, 1 in 100": func() *Tracer {
			t, err := newTracer(b.Context(), "soonbeon", sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(0.01))))
			require.NoError(b, err)
			return t
		},
	} {
		b.Run(name, func(b *testing.B) {
			tracer := make()
			l := &silent{}
			a := tracer.Appender(l)
			of := tracer.Traceparent()
			h := tracer.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = a.Append(r.Context(), "main", queue.Record{})
				if of != nil {
					of(r.Context())
				}
			}), "/queue/enter")
			r, w := httptest.NewRequest("POST", "/queue/enter", nil), httptest.NewRecorder()
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
}

type silent struct{}

func (silent) AppendTimeout() time.Duration { return time.Second }
func (silent) Append(context.Context, queue.ID, queue.Record) (queue.Ticket, error) {
	return 1, nil
}
