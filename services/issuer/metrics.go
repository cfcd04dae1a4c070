package issuer

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

type metrics struct {
	leading       *prometheus.GaugeVec
	direct        *prometheus.GaugeVec
	rate          *prometheus.GaugeVec
	claims        *prometheus.CounterVec
	switches      *prometheus.CounterVec
	admitted      *prometheus.CounterVec
	skips         *prometheus.CounterVec
	appendSeconds prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		leading:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "soonbeon_issuer_leading", Help: "1 while this process leads the queue."}, []string{"queue"}),
		direct:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "soonbeon_issuer_direct", Help: "1 while this process, leading the queue, goes on from the log without Redis."}, []string{"queue"}),
		switches: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "soonbeon_issuer_switches_total", Help: "Times that this process changed between Redis and direct mode while leading."}, []string{"queue"}),
		rate:     prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "soonbeon_issuer_target_per_second", Help: "People a second that this process, leading the queue, may let through."}, []string{"queue"}),
		claims:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "soonbeon_issuer_claims_total", Help: "Times that this process took the lead."}, []string{"queue"}),
		admitted: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "soonbeon_issuer_admitted_total", Help: "People whom this process admitted, acknowledged by the log."}, []string{"queue"}),
		skips:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "soonbeon_issuer_skips_total", Help: "Intervals in which this leader admitted nobody, by reason."}, []string{"queue", "reason"}),
		appendSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "soonbeon_issuer_append_seconds",
			Help: "From appending an Admitted record to its acknowledgement.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 14)}),
	}
	if reg != nil {
		reg.MustRegister(m.leading, m.direct, m.rate, m.claims, m.switches, m.admitted, m.skips, m.appendSeconds)
	}
	return m
}

// skip counts intervals in which nobody was admitted.
func (m *metrics) skip(id queue.ID, why string, intervals int) {
	m.skips.WithLabelValues(string(id), why).Add(float64(max(intervals, 1)))
}

// forget drops the series of a queue that is no more.
func (m *metrics) forget(id queue.ID) {
	of := prometheus.Labels{"queue": string(id)}
	for _, vec := range []interface{ DeletePartialMatch(prometheus.Labels) int }{m.leading, m.direct, m.rate, m.claims, m.switches, m.admitted, m.skips} {
		vec.DeletePartialMatch(of)
	}
}
