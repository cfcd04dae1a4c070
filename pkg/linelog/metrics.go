package linelog

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of all that one Log opened.
type metrics struct {
	appends       *prometheus.CounterVec // by result
	appendSeconds prometheus.Histogram
	bufRecords    prometheus.Gauge
	bufBytes      prometheus.Gauge
	read          prometheus.Counter
	skipped       *prometheus.CounterVec // by reason
	troubles      *prometheus.CounterVec // by kind
}

// The results of an append, as label values.
const (
	resultOK      = "ok"
	resultBusy    = "busy"
	resultUnknown = "unknown"
	resultNoQueue = "no_queue"
	resultRefused = "refused" // dead context, closed, too large: nothing was written
)

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		appends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "soonbeon_log_appends_total", Help: "Records handed over to be appended, by result.",
		}, []string{"result"}),
		appendSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "soonbeon_log_append_seconds", Help: "From handing a record over to the answer, whatever it was.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
		bufRecords: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "soonbeon_log_buffered_records", Help: "Records that wait for the broker's acknowledgement.",
		}),
		bufBytes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "soonbeon_log_buffered_bytes", Help: "Bytes of the records that wait for the broker's acknowledgement.",
		}),
		read: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "soonbeon_log_read_records_total", Help: "Records read, skipped ones included.",
		}),
		skipped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "soonbeon_log_skipped_records_total", Help: "Records that could not be read and were skipped, by reason.",
		}, []string{"reason"}),
		troubles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "soonbeon_log_troubles_total", Help: "Readers that ended because the log no longer fits what was read, by kind.",
		}, []string{"kind"}),
	}
	for _, r := range []string{resultOK, resultBusy, resultUnknown, resultNoQueue, resultRefused} {
		m.appends.WithLabelValues(r)
	}
	for _, r := range []string{skipBroken, skipVersion, skipKind, skipValue} {
		m.skipped.WithLabelValues(r)
	}
	if reg == nil {
		return m, nil
	}
	err := errors.Join(register(reg, &m.appends), register(reg, &m.appendSeconds), register(reg, &m.bufRecords),
		register(reg, &m.bufBytes), register(reg, &m.read), register(reg, &m.skipped), register(reg, &m.troubles))
	if err != nil {
		return nil, fmt.Errorf("register the log's metrics: %w", err)
	}
	return m, nil
}

// register registers *c, or replaces it by its equal that is registered already: two Logs of one process add up.
func register[C prometheus.Collector](reg prometheus.Registerer, c *C) error {
	err := reg.Register(*c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if have, ok := already.ExistingCollector.(C); ok {
			*c = have
			return nil
		}
	}
	return err
}
