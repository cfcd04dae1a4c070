package lifecycletest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
)

// Patience is how long a Start or a Stop may take before Stress calls it hanging.
const Patience = 20 * time.Second

// Stress starts and stops services that fresh makes, in every order that the contract allows. fresh is called for each
// case and returns a service that is not started and that can be; whatever it needs it cleans up by t.Cleanup.
func Stress(t *testing.T, fresh func(t *testing.T) lifecycle.Service) {
	t.Helper()
	t.Run("stopped before it was started", func(t *testing.T) {
		s := fresh(t)
		must(t, "stop", s.Stop)
		must(t, "stop again", s.Stop)
		refused(t, "start after stop", s)
	})
	t.Run("stopped twice", func(t *testing.T) {
		s := fresh(t)
		must(t, "start", s.Start)
		must(t, "stop", s.Stop)
		must(t, "stop again", s.Stop)
		refused(t, "start after stop", s)
	})
	t.Run("started twice", func(t *testing.T) {
		s := fresh(t)
		must(t, "start", s.Start)
		refused(t, "start again", s)
		must(t, "stop", s.Stop)
	})
	t.Run("stopped from several sides at once", func(t *testing.T) {
		s := fresh(t)
		must(t, "start", s.Start)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { _ = returns(t, "stop", s.Stop) })
		}
		all.Wait()
		must(t, "stop again", s.Stop)
	})
	t.Run("stopped while it starts", func(t *testing.T) {
		for range 10 {
			s := fresh(t)
			var all sync.WaitGroup
			all.Go(func() { _ = returns(t, "start", s.Start) })
			all.Go(func() { _ = returns(t, "stop", s.Stop) })
			all.Go(func() { _ = returns(t, "stop", s.Stop) })
			all.Wait()
			_ = returns(t, "stop again", s.Stop)
		}
	})
	t.Run("outlives the context of its start", func(t *testing.T) {
		s := fresh(t)
		ctx, cancel := context.WithCancel(t.Context())
		if err := s.Start(ctx); err != nil {
			t.Fatalf("start: %v", err)
		}
		cancel()
		if f, ok := s.(lifecycle.Failing); ok {
			select {
			case err := <-f.Failed():
				t.Errorf("failed when the context of its start ended: %v", err)
			default:
			}
		}
		must(t, "stop", s.Stop)
	})
	t.Run("started or stopped with a context that is over", func(t *testing.T) {
		over, cancel := context.WithCancel(t.Context())
		cancel()
		s := fresh(t)
		_ = returns(t, "start", func(context.Context) error { return s.Start(over) })
		_ = returns(t, "stop", func(context.Context) error { return s.Stop(over) })
		_ = returns(t, "stop again", s.Stop)

		s = fresh(t)
		must(t, "start", s.Start)
		_ = returns(t, "stop", func(context.Context) error { return s.Stop(over) })
		_ = returns(t, "stop again", s.Stop)
	})
}

func must(t *testing.T, what string, do func(context.Context) error) {
	t.Helper()
	if err := returns(t, what, do); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func refused(t *testing.T, what string, s lifecycle.Service) {
	t.Helper()
	if err := returns(t, what, s.Start); err == nil {
		t.Errorf("%s returned no error", what)
		_ = returns(t, "stop what was started all the same", s.Stop)
	}
}

// returns fails the test when do is still going on after Patience. It may be called from any goroutine.
func returns(t *testing.T, what string, do func(context.Context) error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- do(context.Background()) }()
	select {
	case err := <-done:
		return err
	case <-time.After(Patience):
		t.Errorf("%s has not returned within %v", what, Patience)
		return context.DeadlineExceeded
	}
}
