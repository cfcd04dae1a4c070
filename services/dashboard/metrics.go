package dashboard

import "github.com/prometheus/client_golang/prometheus"

// metrics are of the dashboard itself. What is done by its controls is counted where it is done: soonbeon_catalog_edits_total.
type metrics struct {
	streams prometheus.Gauge
	refused *prometheus.CounterVec
	dropped prometheus.Counter
	looks   prometheus.Histogram
}

// Why a stream is refused.
const (
	refusedCredential = "credential"
	refusedQueue      = "no_queue"
	refusedFull       = "full"
	refusedStopping   = "stopping"
)

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		streams: prometheus.NewGauge(prometheus.GaugeOpts{Name: "soonbeon_dashboard_streams", Help: "Streams of operators that are open."}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "soonbeon_dashboard_refused_total", Help: "Streams of operators that were refused, by why."},
			[]string{"why"}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "soonbeon_dashboard_dropped_total", Help: "Streams of operators that were ended because nobody read them."}),
		looks: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "soonbeon_dashboard_look_seconds", Help: "One look at all queues, questions to Redis included.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 8)}),
	}
	for _, why := range []string{refusedCredential, refusedQueue, refusedFull, refusedStopping} {
		m.refused.WithLabelValues(why)
	}
	if reg != nil {
		reg.MustRegister(m.streams, m.refused, m.dropped, m.looks)
	}
	return m
}
