package httpapi

import (
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
)

// NewAdmin makes the handler of the private port:
//
//	/healthz   200 while the process answers at all; nothing is checked, so that a dead dependency restarts nobody
//	/readyz    200 when every check passes, else 503; each check by name, with "ok" or what is wrong
//	/metrics   what gatherer holds, for Prometheus
func NewAdmin(readiness *lifecycle.Readiness, gatherer prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeStatus(w, http.StatusOK, health{Status: "alive"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		report := readiness.Report(r.Context())
		answer := health{Status: "ready", Checks: make(map[string]string, len(report.Checks))}
		for _, c := range report.Checks {
			switch was := answer.Checks[c.Name]; {
			case c.Err != nil:
				answer.Checks[c.Name] = c.Err.Error()
			case was == "": // of two with one name, the one that fails is shown
				answer.Checks[c.Name] = "ok"
			}
		}
		status := http.StatusOK
		if !report.Ready {
			status, answer.Status = http.StatusServiceUnavailable, "not ready"
		}
		writeStatus(w, status, answer)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	return mux
}

type health struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks,omitempty"`
}

func writeStatus(w http.ResponseWriter, status int, v health) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// Deterministic, so that two probes that saw the same read the same.
	_ = json.MarshalWrite(w, v, json.Deterministic(true))
}
