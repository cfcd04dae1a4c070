package lifecycle_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/lifecycle/lifecycletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// part is a service whose every step can be made to fail or hang.
type part struct {
	name     string
	journal  *journal
	startErr error
	stopErr  error
	stop     func(ctx context.Context)
	failed   chan error
}

type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(s string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, s)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, " ")
}

func (p *part) Start(context.Context) error {
	p.journal.add("+" + p.name)
	return p.startErr
}

func (p *part) Stop(ctx context.Context) error {
	p.journal.add("-" + p.name)
	if p.stop != nil {
		p.stop(ctx)
	}
	return p.stopErr
}

func (p *part) Failed() <-chan error { return p.failed }

func group(timeout time.Duration, parts ...*part) (*lifecycle.Group, *journal) {
	j := &journal{}
	g := lifecycle.NewGroup(timeout)
	for _, p := range parts {
		p.journal = j
		g.Add(p.name, p)
	}
	return g, j
}

func TestGroupKeepsTheContractOfAService(t *testing.T) {
	lifecycletest.Stress(t, func(*testing.T) lifecycle.Service {
		g, _ := group(0, &part{name: "a"}, &part{name: "b", failed: make(chan error)}, &part{name: "c"})
		return g
	})
}

func TestGroupStopsLastInFirstOut(t *testing.T) {
	g, j := group(0, &part{name: "log"}, &part{name: "line", stopErr: errors.New("stuck")}, &part{name: "http"})
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := g.Stop(t.Context())
	if err == nil || err.Error() != "stop line: stuck" {
		t.Errorf("got %v", err)
	}
	if got, want := j.String(), "+log +line +http -http -line -log"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestGroupStopsWhatItStartedWhenOneFails(t *testing.T) {
	boom := errors.New("boom")
	g, j := group(0, &part{name: "log"}, &part{name: "line"}, &part{name: "http", startErr: boom}, &part{name: "never"})
	err := g.Start(t.Context())
	if !errors.Is(err, boom) || !strings.Contains(err.Error(), "start http") {
		t.Errorf("got %v", err)
	}
	if got, want := j.String(), "+log +line +http -line -log"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// One that hangs in Stop, and doesn't care for its context, holds nobody up: the others are stopped, within the deadline.
func TestFault28_ExitsWithinTheDeadlineWhateverOneDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		g, j := group(10*time.Second,
			&part{name: "log"},
			&part{name: "slow", stop: func(ctx context.Context) { <-ctx.Done() }},
			&part{name: "deaf", stop: func(context.Context) { <-release }},
		)
		if err := g.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		err := g.Stop(t.Context())
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("took %v", took)
		}
		if err == nil || !strings.Contains(err.Error(), "stop deaf: has not stopped in time") {
			t.Errorf("got %v", err)
		}
		close(release)
		synctest.Wait()
		if got := j.String(); !strings.HasSuffix(got, "-deaf -slow -log") {
			t.Errorf("got %s", got)
		}
	})
}

func TestRun(t *testing.T) {
	t.Run("ends cleanly when asked", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		g, j := group(0, &part{name: "a"})
		g.Add("asks", starter(func() { cancel() }))
		if err := g.Run(ctx); err != nil {
			t.Error(err)
		}
		if got := j.String(); got != "+a -a" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("ends when a service fails", func(t *testing.T) {
		boom := errors.New("boom")
		p := &part{name: "a", journal: &journal{}, failed: make(chan error, 1)}
		p.failed <- boom
		err := lifecycle.Run(t.Context(), p, &part{name: "b", journal: p.journal})
		if !errors.Is(err, boom) {
			t.Errorf("got %v", err)
		}
		if got := p.journal.String(); got != "+a +b -b -a" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("asked to end while it starts", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		g, j := group(0, &part{name: "a"})
		g.Add("asks", starter(func() { cancel() }))
		g.Add("never", &part{name: "never", journal: j})
		if err := g.Run(ctx); err != nil {
			t.Error(err)
		}
		if got := j.String(); got != "+a -a" {
			t.Errorf("got %s", got)
		}
	})
}

type starter func()

func (s starter) Start(context.Context) error { s(); return nil }
func (s starter) Stop(context.Context) error  { return nil }

func TestReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := lifecycle.NewReadiness()
		if !r.Report(t.Context()).Ready {
			t.Error("not ready without checks")
		}
		release := make(chan struct{})
		hangs := false
		var runs int
		r.Check("redis", func(context.Context) error { return nil })
		r.Check("log", func(context.Context) error {
			runs++
			if hangs {
				<-release
			}
			return nil
		})
		if !r.Report(t.Context()).Ready {
			t.Error("not ready though all checks pass")
		}
		r.Check("line", func(context.Context) error { return errors.New("behind") })
		report := r.Report(t.Context())
		if report.Ready || report.Checks[0].Name != "line" || report.Checks[0].Err == nil {
			t.Errorf("got %+v", report)
		}

		hangs = true
		began := time.Now()
		for range 3 {
			report = r.Report(t.Context())
			i := slices.IndexFunc(report.Checks, func(c lifecycle.Result) bool { return c.Name == "log" })
			if report.Ready || report.Checks[i].Err == nil {
				t.Errorf("a check that hangs passed: %+v", report)
			}
		}
		if took := time.Since(began); took > 3*lifecycle.CheckTimeout {
			t.Errorf("three reports took %v", took)
		}
		synctest.Wait()
		if runs != 3 { // two that passed, one that hangs, and none was started beside it
			t.Errorf("the check ran %d times", runs)
		}
		close(release)
		r.Drain()
		if r.Report(t.Context()).Ready {
			t.Error("ready while draining")
		}
		synctest.Wait()
	})
}
