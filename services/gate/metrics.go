package gate

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

type metrics struct {
	checks   *prometheus.CounterVec
	arrivals *prometheus.CounterVec
	// Of the waiting room, by the gate itself.
	questions *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, gates map[queue.ID]*queueGate) (*metrics, error) {
	m := &metrics{
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "soonbeon_gate_checks_total", Help: "Requests that a proxy asked about, by what was found.",
		}, []string{"queue", "result"}),
		arrivals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "soonbeon_gate_arrivals_total", Help: "People who came to hand over an entry token, by what came of it.",
		}, []string{"queue", "result"}),
	}
	m.questions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "soonbeon_gate_questions_total", Help: "Times that the waiting room was asked which queue of the name there is, by whether it answered.",
	}, []string{"queue", "result"})
	all := []prometheus.Collector{m.checks, m.arrivals, m.questions}
	for id, g := range gates {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "soonbeon_gate_open", Help: "1 while people are let in although it can't be told whether their tokens were used before.",
			ConstLabels: prometheus.Labels{"queue": string(id)},
		}, func() float64 {
			if g.Open() {
				return 1
			}
			return 0
		}))
		for _, name := range []string{"admitted", "no_token", "unchecked", "cant_tell", "not_yet"} { // there from the start, so that a rate is too
			m.checks.WithLabelValues(string(id), name)
		}
	}
	var errs []error
	for _, c := range all {
		errs = append(errs, reg.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register the gate's metrics: %w", err)
	}
	return m, nil
}
