package position

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	answers                            *prometheus.CounterVec
	exact, approximate, admitted, over prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{answers: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "soonbeon_position_answers_total",
		Help: "Answers by kind: exact, approximate, admitted, over, and untold where nothing honest could be said."}, []string{"kind"})}
	m.exact, m.approximate = m.answers.WithLabelValues("exact"), m.answers.WithLabelValues("approximate")
	m.admitted, m.over = m.answers.WithLabelValues("admitted"), m.answers.WithLabelValues("over")
	m.answers.WithLabelValues("untold")
	if reg != nil {
		reg.MustRegister(m.answers)
	}
	return m
}
