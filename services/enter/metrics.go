package enter

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type operation uint8

const (
	opEnter operation = iota
	opLeave
	opComplete
	operations
)

type result uint8

const (
	resultAccepted result = iota
	resultAdmitted
	resultLeft
	resultCompleted
	resultRepeated
	resultClosed
	resultRefused
	resultNoQueue
	resultBusy
	resultUnknown
	resultGone
	resultFailed
	results
)

// metrics has every series from the start: none comes from what a request holds.
type metrics struct {
	requests [operations][results]prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "soonbeon_enter_requests_total",
		Help: "Requests to enter, leave or complete, by what came of them: accepted, admitted (already), left, completed, repeated (completed before), " +
			"closed (the queue takes nobody in), refused (another 4xx), no_queue (the log has none), " +
			"busy (not written), unknown (no acknowledgement), gone (the client left first), failed (a defect, logged).",
	}, []string{"operation", "result"})
	if err := reg.Register(vec); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	m := &metrics{}
	for op, opName := range [operations]string{"enter", "leave", "complete"} {
		for res, resName := range [results]string{"accepted", "admitted", "left", "completed", "repeated", "closed", "refused", "no_queue", "busy", "unknown", "gone", "failed"} {
			m.requests[op][res] = vec.WithLabelValues(opName, resName)
		}
	}
	return m, nil
}

func (m *metrics) count(op operation, r result) { m.requests[op][r].Inc() }
