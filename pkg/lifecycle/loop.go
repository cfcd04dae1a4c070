package lifecycle

import (
	"context"
	"sync"
	"time"
)

// Loop is what a Service with one goroutine is made of: it starts once, and stops as a Service stops. The zero value is ready.
type Loop struct {
	mu      sync.Mutex
	cancel  context.CancelFunc // nil until started
	stopped bool
	done    chan struct{}
}

// Start begins run, whose ctx ends with Stop. Errors: ErrStarted, ErrStopped.
func (l *Loop) Start(run func(ctx context.Context)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.stopped:
		return ErrStopped
	case l.cancel != nil:
		return ErrStarted
	}
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(context.Background())
	done := make(chan struct{})
	l.done = done
	go func() {
		defer close(done)
		run(ctx)
	}()
	return nil
}

// Stop ends the ctx of run and waits until it has returned, or ctx ends.
func (l *Loop) Stop(ctx context.Context) error {
	l.mu.Lock()
	l.stopped = true
	cancel, done := l.cancel, l.done
	l.mu.Unlock()
	if cancel == nil {
		return nil
	}
	cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Pause waits for d, or returns ctx's error where that ends first.
func Pause(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
