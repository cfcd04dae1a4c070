package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// DefaultTimeout is how long a Group takes to stop, at the most.
const DefaultTimeout = 10 * time.Second

// Group is several services as one.
type Group struct {
	timeout time.Duration
	members []member
	failed  chan error
	busy    chan struct{} // held by whoever starts or stops

	mu       sync.Mutex
	stopping bool
	abort    context.CancelFunc // of a Start that is under way

	// Behind busy.
	began    bool
	running  []member // in the order in which they were started
	watchers sync.WaitGroup
	unwatch  context.CancelFunc
	stopErr  error
}

type member struct {
	name    string
	service Service
}

// NewGroup makes a Group that is stopped within timeout; 0 means DefaultTimeout. After four fifths of it the services'
// contexts end; one that does not return then either is given up, so that the others get their turn, and the error names
// it.
func NewGroup(timeout time.Duration) *Group {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	return &Group{timeout: timeout, failed: make(chan error, 1), busy: make(chan struct{}, 1)}
}

// Add puts s behind those added before. It must not be called after Start. name appears in errors.
func (g *Group) Add(name string, s Service) { g.members = append(g.members, member{name, s}) }

// Failed delivers the first failure of a service that is Failing, once.
func (g *Group) Failed() <-chan error { return g.failed }

// Start starts the services in order. When one fails, those before it are stopped, and the error names the one.
func (g *Group) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	select {
	case g.busy <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-g.busy }()
	if g.began {
		return ErrStarted
	}
	g.mu.Lock()
	if g.stopping {
		g.mu.Unlock()
		return ErrStopped
	}
	g.abort = cancel // so that Stop need not wait for a slow start
	g.mu.Unlock()

	g.began = true
	var watch context.Context
	watch, g.unwatch = context.WithCancel(context.Background())
	for _, m := range g.members {
		err := ctx.Err()
		if err == nil {
			err = m.service.Start(ctx)
		}
		if err != nil {
			err = fmt.Errorf("start %s: %w", m.name, err)
			return errors.Join(err, g.stopRunning(context.WithoutCancel(ctx)))
		}
		g.running = append(g.running, m)
		if f, ok := m.service.(Failing); ok {
			g.watchers.Go(func() { g.watch(watch, m.name, f) })
		}
	}
	return nil
}

func (g *Group) watch(ctx context.Context, name string, f Failing) {
	select {
	case err := <-f.Failed():
		if err == nil {
			return
		}
		select {
		case g.failed <- fmt.Errorf("%s: %w", name, err):
		default: // the first failure ends the run already
		}
	case <-ctx.Done():
	}
}

// Stop stops whatever is running, the last one started first. Every service is stopped even where one before it failed
// or took all of the time. The error tells of each that did not stop cleanly.
func (g *Group) Stop(ctx context.Context) error {
	g.mu.Lock()
	g.stopping = true
	if g.abort != nil {
		g.abort()
	}
	g.mu.Unlock()
	// The one who holds busy is done within the deadline of its own, and a Start that was aborted soon; so waiting for it
	// without looking at ctx would be right too, but a caller who gives up early may.
	select {
	case g.busy <- struct{}{}:
	case <-ctx.Done():
		select {
		case g.busy <- struct{}{}: // free all the same: there may be something to cut off
		default:
			return ctx.Err()
		}
	}
	defer func() { <-g.busy }()
	if err := g.stopRunning(ctx); err != nil {
		g.stopErr = err
	}
	return g.stopErr
}

func (g *Group) stopRunning(ctx context.Context) error {
	if g.unwatch != nil {
		g.unwatch()
		g.watchers.Wait()
	}
	if len(g.running) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, g.timeout*4/5)
	defer cancel()
	end := time.Now().Add(g.timeout)
	var errs []error
	for n := len(g.running) - 1; n >= 0; n-- {
		m := g.running[n]
		g.running = g.running[:n]
		done := make(chan error, 1)
		go func() { done <- m.service.Stop(ctx) }()
		var err error
		select {
		case err = <-done:
		case <-ctx.Done():
			// No more clean stops: those that are left share the rest of the time to cut off what they still do.
			select {
			case err = <-done:
			case <-time.After(time.Until(end) / time.Duration(n+1)):
				err = errors.New("has not stopped in time and was given up")
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", m.name, err))
		}
	}
	return errors.Join(errs...)
}

// Run starts services, waits until ctx ends or one of them fails, and stops them again within DefaultTimeout. It returns
// nil after a clean stop that ctx asked for.
func Run(ctx context.Context, services ...Service) error {
	g := NewGroup(0)
	for _, s := range services {
		g.Add(fmt.Sprintf("%T", s), s)
	}
	return g.Run(ctx)
}

// Run starts the group, waits until ctx ends or a service fails, and stops the group again.
func (g *Group) Run(ctx context.Context) error {
	if err := g.Start(ctx); err != nil {
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			return nil // asked to stop while starting
		}
		return err
	}
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-g.failed:
	}
	return errors.Join(failure, g.Stop(context.WithoutCancel(ctx)))
}
