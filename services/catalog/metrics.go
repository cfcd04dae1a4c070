package catalog

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	queues, version prometheus.Gauge
	unreadable      prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		queues: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "soonbeon_catalog_queues", Help: "Queues in the catalogue, those that are being deleted included, as this process has read it."}),
		version: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "soonbeon_catalog_version", Help: "Version of the last record of the catalogue that this process has read."}),
		unreadable: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "soonbeon_catalog_unreadable_total", Help: "Records of the catalogue that could not be read; their queues stay as they were known before."}),
	}
	if reg == nil {
		return m, nil
	}
	if err := errors.Join(reg.Register(m.queues), reg.Register(m.version), reg.Register(m.unreadable)); err != nil {
		return nil, fmt.Errorf("catalogue: register metrics: %w", err)
	}
	return m, nil
}
