package trace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	global "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	otel "go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Tracer makes spans. It is a lifecycle.Service: Stop sends what is left. A nil Tracer is one that is off, and all of its methods may
// be called.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   otel.Tracer
	stop     sync.Once
}

// Wanted says whether the environment wants traces, and what of it can't be had.
func Wanted(getenv func(string) string) (bool, error) {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch e := getenv("OTEL_TRACES_EXPORTER"); e {
	case "none":
		return false, nil
	case "otlp", "":
		if e == "" && getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
			return false, nil
		}
	default:
		return false, fmt.Errorf("traces: OTEL_TRACES_EXPORTER is %.40q; this program knows otlp and none", e)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if p := getenv(name); p != "" && p != "http/protobuf" {
			return false, fmt.Errorf("traces: %s is %.40q; the value that this program takes is http/protobuf, which collectors listen for on port 4318", name, p)
		} else if p != "" {
			break // the first holds
		}
	}
	return true, nil
}

// New makes a Tracer as the environment says; nil where it wants none. service is what the process is called where
// OTEL_SERVICE_NAME does not name it. What the environment says and can't be had is an error: it names the variable, or what is wrong with it, and never
// a value. From then on the library's errors, all of the process's, go to logger, once a minute at most.
func New(ctx context.Context, service string, getenv func(string) string, logger *zap.Logger) (*Tracer, error) {
	wanted, err := Wanted(getenv)
	if err != nil || !wanted {
		return nil, err
	}
	report := &reporter{logger: logger, now: time.Now, starting: true}
	global.SetErrorHandler(report)
	global.SetLogger(logr.New(sink{report}))
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	t, err := newTracer(ctx, service, sdk.WithBatcher(exporter))
	if err != nil {
		return nil, err
	}
	if err := report.started(); err != nil {
		_ = t.Stop(ctx)
		return nil, fmt.Errorf("traces: the OTEL_… settings: %w", err)
	}
	return t, nil
}

func newTracer(ctx context.Context, service string, options ...sdk.TracerProviderOption) (*Tracer, error) {
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", service)), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("traces: what the environment says of this service: %w", err)
	}
	p := sdk.NewTracerProvider(append(options, sdk.WithResource(about))...)
	return &Tracer{provider: p, tracer: p.Tracer("github.com/soonbeon/soonbeon")}, nil
}

// Start does nothing; spans are sent as they come.
func (t *Tracer) Start(context.Context) error { return nil }

// patience is how long a stop waits for the collector: traces are worth less than a prompt end.
const patience = 2 * time.Second

// Stop sends what is left, as far as that goes within 2 s. A collector that is away is no error of the process.
func (t *Tracer) Stop(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.stop.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_ = t.provider.Shutdown(ctx)
	})
	return nil
}

// Traceparent is for linelog.Config; nil where traces are off.
func (t *Tracer) Traceparent() func(context.Context) string {
	if t == nil {
		return nil
	}
	return func(ctx context.Context) string {
		if !otel.SpanContextFromContext(ctx).IsSampled() {
			return ""
		}
		c := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, c)
		return c["traceparent"]
	}
}

// Traced is for projector.Config; nil where traces are off.
func (t *Tracer) Traced() func(queue.ID, queue.Ticket, string, time.Time) {
	if t == nil {
		return nil
	}
	return func(id queue.ID, ticket queue.Ticket, traceparent string, read time.Time) {
		ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent})
		if !otel.SpanContextFromContext(ctx).IsSampled() {
			return // not sampled, or no trace at all: a header holds what anybody who may write to the log put there
		}
		_, span := t.tracer.Start(ctx, "apply", otel.WithTimestamp(read), otel.WithSpanKind(otel.SpanKindConsumer), otel.WithAttributes(ofQueue(id), ofTicket(ticket)))
		span.End()
	}
}

func ofQueue(id queue.ID) attribute.KeyValue     { return attribute.String("soonbeon.queue", string(id)) }
func ofTicket(t queue.Ticket) attribute.KeyValue { return attribute.Int64("soonbeon.ticket", int64(t)) }

// Appender is the log as entering has it; *linelog.Writer is one.
type Appender interface {
	Append(ctx context.Context, id queue.ID, rec queue.Record) (queue.Ticket, error)
	AppendTimeout() time.Duration
}

// Appender makes a span of each append; where traces are off it is a itself.
func (t *Tracer) Appender(a Appender) Appender {
	if t == nil {
		return a
	}
	return appender{a, t}
}

type appender struct {
	Appender
	t *Tracer
}

func (a appender) Append(ctx context.Context, id queue.ID, rec queue.Record) (queue.Ticket, error) {
	ctx, span := a.t.tracer.Start(ctx, "append", otel.WithSpanKind(otel.SpanKindProducer), otel.WithAttributes(ofQueue(id), attribute.Stringer("soonbeon.record", rec.Kind)))
	defer span.End()
	ticket, err := a.Appender.Append(ctx, id, rec)
	if err != nil {
		span.SetStatus(codes.Error, "not acknowledged") // the error's own text stays in the log
		return ticket, err
	}
	span.SetAttributes(ofTicket(ticket))
	return ticket, nil
}

// View is where places come from; position.View is the same.
type View interface {
	Place(ctx context.Context, v queue.Visitor) (queue.Moment, queue.Place, error)
}

// View makes a span of each question; where traces are off it is v itself.
func (t *Tracer) View(id queue.ID, v View) View {
	if t == nil {
		return v
	}
	return view{v, id, t}
}

type view struct {
	View
	id queue.ID
	t  *Tracer
}

func (v view) Place(ctx context.Context, visitor queue.Visitor) (queue.Moment, queue.Place, error) {
	ctx, span := v.t.tracer.Start(ctx, "look up the place", otel.WithSpanKind(otel.SpanKindClient), otel.WithAttributes(ofQueue(v.id)))
	defer span.End()
	m, p, err := v.View.Place(ctx, visitor)
	if err != nil {
		span.SetStatus(codes.Error, "the view is away")
	}
	return m, p, err
}
