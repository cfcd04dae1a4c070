package trace

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	otel "go.opentelemetry.io/otel/trace"
)

// Handler makes a span of each request to one of the paths; all others pass untouched, so that nobody can make up names of spans.
// Where traces are off it is next itself.
func (t *Tracer) Handler(next http.Handler, paths ...string) http.Handler {
	if t == nil {
		return next
	}
	traced := map[string]bool{}
	for _, p := range paths {
		traced[p] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !traced[r.URL.Path] || r.Method != http.MethodGet && r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		options := []otel.SpanStartOption{otel.WithSpanKind(otel.SpanKindServer), otel.WithNewRoot(), otel.WithAttributes(
			attribute.String("http.request.method", r.Method), attribute.String("http.route", r.URL.Path), attribute.String("url.path", r.URL.Path))}
		theirs := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		if s := otel.SpanContextFromContext(theirs); s.IsValid() {
			options = append(options, otel.WithLinks(otel.Link{SpanContext: s}))
		}
		ctx, span := t.tracer.Start(r.Context(), r.Method+" "+r.URL.Path, options...)
		defer span.End()
		if !span.IsRecording() {
			next.ServeHTTP(w, r.WithContext(ctx))
			return
		}
		s := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(s, r.WithContext(ctx))
		span.SetAttributes(attribute.Int("http.response.status_code", s.status))
		if s.status >= 500 {
			span.SetStatus(codes.Error, http.StatusText(s.status))
		}
	})
}

// statusWriter remembers the status.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	if status >= 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is how http.ResponseController finds the rest.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
