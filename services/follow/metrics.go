package follow

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Metrics of all the logs that a process follows.
type Metrics struct {
	served, seq                        *prometheus.GaugeVec
	admitted, void, skipped, different *prometheus.CounterVec
}

// NewMetrics registers them; one for each registerer.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"queue"})
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"queue"})
	}
	m := &Metrics{
		served:    gauge("soonbeon_follow_served_ticket", "Highest ticket admitted, as this process has read the log."),
		seq:       gauge("soonbeon_follow_seq_ticket", "Last ticket of the log that this process has folded."),
		admitted:  counter("soonbeon_follow_admitted_total", "People validly admitted, as this process has read the log."),
		void:      counter("soonbeon_follow_void_total", "Admissions and checkpoints in the log that do not count: of a leader that did not lead any more, or repeated."),
		skipped:   counter("soonbeon_follow_skipped_total", "Records that could not be read and were skipped."),
		different: counter("soonbeon_follow_checkpoint_differs_total", "Checkpoints whose served is not what this process has folded."),
	}
	if reg != nil {
		reg.MustRegister(m.served, m.seq, m.admitted, m.void, m.skipped, m.different)
	}
	return m
}

func (m *Metrics) observe(id queue.ID, before line.Counts, l *line.Ledger) {
	q, now := string(id), l.Counts()
	m.served.WithLabelValues(q).Set(float64(l.State().Served))
	m.seq.WithLabelValues(q).Set(float64(l.State().Seq))
	m.admitted.WithLabelValues(q).Add(float64(now.Admitted - before.Admitted))
	m.void.WithLabelValues(q).Add(float64(now.Void - before.Void))
	m.skipped.WithLabelValues(q).Add(float64(now.Skipped - before.Skipped))
	m.different.WithLabelValues(q).Add(float64(now.Differs - before.Differs))
}
