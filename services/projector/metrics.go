package projector

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

type metrics struct {
	applied, refused, failures, loads *prometheus.CounterVec
	seq, age                          *prometheus.GaugeVec
	applySeconds                      prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	perQueue := []string{"queue"}
	m := &metrics{
		applied:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "soonbeon_projector_applied_total", Help: "Records applied to the view."}, perQueue),
		refused:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "soonbeon_projector_refused_total", Help: "Batches that did not follow what the view had applied: another projector was there, or the view went back in time."}, perQueue),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "soonbeon_projector_failures_total", Help: "Times that the view or the log did not answer, or the log was in trouble."}, perQueue),
		loads:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "soonbeon_projector_loads_total", Help: "Times that a view was far behind and was loaded at once with the folded log."}, perQueue),
		seq:      prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "soonbeon_projector_seq_ticket", Help: "Last ticket that this process applied to the view."}, perQueue),
		age:      prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "soonbeon_projector_age_seconds", Help: "How old the last record was when it had been applied: the projection's lag."}, perQueue),
		applySeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "soonbeon_projector_apply_seconds", Help: "One call of apply, up to 1,000 members.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14)}),
	}
	if reg != nil {
		reg.MustRegister(m.applied, m.refused, m.failures, m.loads, m.seq, m.age, m.applySeconds)
	}
	return m
}

// forget drops the series of a queue that is not projected here any more: a lag that stands still would be taken for one.
func (m *metrics) forget(id queue.ID) {
	m.seq.DeleteLabelValues(string(id))
	m.age.DeleteLabelValues(string(id))
}
