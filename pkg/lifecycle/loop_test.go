package lifecycle_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/lifecycle/lifecycletest"
)

// looping is the least Service that is made of a Loop.
type looping struct{ lifecycle.Loop }

func (l *looping) Start(context.Context) error {
	return l.Loop.Start(func(ctx context.Context) { <-ctx.Done() })
}

func TestLoopIsAService(t *testing.T) {
	lifecycletest.Stress(t, func(*testing.T) lifecycle.Service { return &looping{} })
}

func TestLoopIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lifecycle.Loop
		ended := false
		if err := l.Start(func(ctx context.Context) {
			<-ctx.Done()
			time.Sleep(time.Second) // what is under way is brought to its end
			ended = true
		}); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := l.Stop(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a stop that can't wait returns %v", err)
		}
		if err := l.Stop(t.Context()); err != nil || !ended {
			t.Errorf("stopped (%v) before it had ended", err)
		}
	})
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := lifecycle.Pause(t.Context(), time.Minute); err != nil || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if err := lifecycle.Pause(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
