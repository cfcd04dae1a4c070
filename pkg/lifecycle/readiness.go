package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// CheckTimeout is how long a readiness check may take.
const CheckTimeout = time.Second

// Readiness holds the named checks that together say whether a process should get requests. The zero value has none, and
// is ready.
type Readiness struct {
	mu       sync.Mutex
	checks   []*check
	draining bool
}

type check struct {
	name string
	run  func(context.Context) error
	busy chan struct{} // one at a time, so that a check that hangs costs one goroutine and not one a probe
}

// NewReadiness makes one without checks.
func NewReadiness() *Readiness { return &Readiness{} }

// Check adds a check. run returns nil when ready, within CheckTimeout; its error is shown to whoever reads the private
// port, so it holds no secret. It is called once at a time. A name that is used twice is checked twice.
func (r *Readiness) Check(name string, run func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checks = append(r.checks, &check{name: name, run: run, busy: make(chan struct{}, 1)})
}

// Drain says that the process is about to stop: from now on it is not ready, whatever the checks say.
func (r *Readiness) Drain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = true
}

// Report is what all checks said at one moment, sorted by name.
type Report struct {
	Ready  bool
	Checks []Result
}

// Result is what one check said; Err is nil when it passed.
type Result struct {
	Name string
	Err  error
}

// Report runs all checks at once and waits for them, CheckTimeout or ctx at the most.
func (r *Readiness) Report(ctx context.Context) Report {
	r.mu.Lock()
	checks, draining := slices.Clone(r.checks), r.draining
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, CheckTimeout)
	defer cancel()
	report := Report{Ready: true}
	results := make([]<-chan error, len(checks))
	for i, c := range checks {
		results[i] = c.start(ctx)
	}
	for i, c := range checks {
		var err error
		select {
		case err = <-results[i]:
		case <-ctx.Done():
			select {
			case err = <-results[i]: // both were ready: its own words say more
			default:
				err = fmt.Errorf("no answer within %v", CheckTimeout)
			}
		}
		report.Checks = append(report.Checks, Result{c.name, err})
	}
	if draining {
		report.Checks = append(report.Checks, Result{"running", errors.New("stopping")})
	}
	for _, c := range report.Checks {
		report.Ready = report.Ready && c.Err == nil
	}
	slices.SortStableFunc(report.Checks, func(a, b Result) int { return strings.Compare(a.Name, b.Name) })
	return report
}

// start runs the check in a goroutine of its own, after the run before it, and does not wait. A run that hangs keeps those
// behind it from starting, and they go when ctx ends.
func (c *check) start(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	go func() {
		select {
		case c.busy <- struct{}{}:
			defer func() { <-c.busy }()
			done <- c.run(ctx)
		case <-ctx.Done():
			done <- errors.New("the check before this one has not ended")
		}
	}()
	return done
}
