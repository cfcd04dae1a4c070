package events

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	streams                              prometheus.Gauge
	position, admitted, over, heartbeat  prometheus.Counter
	notNear, full, visitorFull, stopping prometheus.Counter
	slow                                 prometheus.Counter
	push                                 prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		streams: prometheus.NewGauge(prometheus.GaugeOpts{Name: "soonbeon_events_streams", Help: "Event streams that are open."}),
		slow:    prometheus.NewCounter(prometheus.CounterOpts{Name: "soonbeon_events_dropped_total", Help: "Streams that were ended because their client did not read."}),
		push: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "soonbeon_events_push_seconds",
			Help:    "Time from reading in the log that somebody was let in to having written the entry token to their stream.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}}),
	}
	sent := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "soonbeon_events_sent_total",
		Help: "Events written, by kind: position, admitted, over, and heartbeat."}, []string{"kind"})
	m.position, m.admitted = sent.WithLabelValues("position"), sent.WithLabelValues("admitted")
	m.over, m.heartbeat = sent.WithLabelValues("over"), sent.WithLabelValues("heartbeat")
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "soonbeon_events_refused_total",
		Help: "Streams that were refused, by why: not_near, process_full, visitor_full, and stopping (or not started yet)."}, []string{"why"})
	m.notNear, m.full = refused.WithLabelValues("not_near"), refused.WithLabelValues("process_full")
	m.visitorFull, m.stopping = refused.WithLabelValues("visitor_full"), refused.WithLabelValues("stopping")
	if reg != nil {
		reg.MustRegister(m.streams, m.slow, m.push, sent, refused)
	}
	return m
}
