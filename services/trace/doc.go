// Package trace follows one request through the processes, by OpenTelemetry: from the post that enters, through the record in the
// log, to the projector that applied it; and through a question for a position to the view that answered it.
//
//	POST /queue/enter ─▶ append ══ record's header: traceparent ══▶ apply       (projector, another process)
//	GET /queue/position ─▶ look up the place
//
// It is off unless the environment says where traces go, by the names that OpenTelemetry has given them: OTEL_EXPORTER_OTLP_ENDPOINT
// (or _TRACES_ENDPOINT), or OTEL_TRACES_EXPORTER=otlp. The others hold too: OTEL_EXPORTER_OTLP_HEADERS, _TIMEOUT, _CERTIFICATE,
// OTEL_TRACES_SAMPLER, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_BSP_…, OTEL_SDK_DISABLED. Traces are sent as protobuf over HTTP.
// A setting that can't be had (another OTEL_EXPORTER_OTLP_PROTOCOL, an unknown sampler, a certificate that can't be read) is refused at the start.
//
// What it promises: off, it costs nothing, since everything is handed through as it came (a nil *Tracer is one that is off). On, it never holds up an
// answer: spans are sent from a buffer of fixed size in the background, and thrown away while the collector is away, which the log says once a minute. No span has a
// visitor, a token, or an address that somebody made up. Nothing of a trace takes part in the fold.
//
// Whoever asks from outside does not decide what is traced: a traceparent of theirs becomes a link of a new trace, not its parent.
//
// It leaves out event streams, the issuer (which acts for nobody), and metrics and logs, for which there are other ways.
package trace
