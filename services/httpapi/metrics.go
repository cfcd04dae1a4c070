package httpapi

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// otherRoute is the label of every request that no route matches.
const otherRoute = "other"

type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	panics   prometheus.Counter
	routes   sync.Map // pattern → *routeMetrics
}

// routeMetrics are a route's series, looked up once.
type routeMetrics struct {
	classes [6]prometheus.Counter // by the first digit of the status; 0 for none
	seconds prometheus.Observer
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "soonbeon_http_requests_total", Help: "Requests answered, by route pattern and class of status.",
		}, []string{"route", "class"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "soonbeon_http_request_seconds", Help: "Time from the request's header to the end of the answer, by route pattern.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "soonbeon_http_panics_total", Help: "Handlers that panicked. Each is a defect.",
		}),
	}
	var errs []error
	share(reg, &m.requests, &errs)
	share(reg, &m.seconds, &errs)
	share(reg, &m.panics, &errs)
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register HTTP metrics: %w", err)
	}
	return m, nil
}

// share registers a collector, or takes the one of an instance that was made on the same registerer before.
func share[C prometheus.Collector](reg prometheus.Registerer, c *C, errs *[]error) {
	err := reg.Register(*c)
	var there prometheus.AlreadyRegisteredError
	if errors.As(err, &there) {
		if same, ok := there.ExistingCollector.(C); ok {
			*c, err = same, nil
		}
	}
	if err != nil {
		*errs = append(*errs, err)
	}
}

// observe counts one request. route is a pattern that was registered, or "": the router never puts a path there, so the
// number of series is bounded by the number of routes.
func (m *metrics) observe(route string, status int, took time.Duration) {
	if route == "" {
		route = otherRoute
	}
	found, ok := m.routes.Load(route)
	if !ok {
		found, _ = m.routes.LoadOrStore(route, m.route(route))
	}
	r := found.(*routeMetrics)
	class := status / 100
	if class < 0 || class >= len(r.classes) {
		class = 0
	}
	r.classes[class].Inc()
	r.seconds.Observe(took.Seconds())
}

func (m *metrics) route(pattern string) *routeMetrics {
	r := &routeMetrics{seconds: m.seconds.WithLabelValues(pattern)}
	for class, name := range [...]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"} {
		r.classes[class] = m.requests.WithLabelValues(pattern, name)
	}
	return r
}
