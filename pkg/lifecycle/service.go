package lifecycle

import (
	"context"
	"errors"
)

// Service is something that runs between Start and Stop.
//
// Start returns once the service does its work, or with an error, and then nothing of it is left running. ctx bounds the
// starting alone: afterwards the service runs until Stop, whatever becomes of ctx. A service starts once; a second Start
// returns an error, and so does one after Stop.
//
// Stop ends it and returns when nothing of it is left running. When ctx ends first, Stop cuts off what is still going on
// and returns an error soon after. Calling it twice, before Start, during Start, or several times at once is fine; it
// then has nothing more to do, waits for the one that has, and never panics.
type Service interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
}

// Failing is a Service that can end by itself. Failed delivers the error once, at the most; a clean stop is no failure.
type Failing interface {
	Failed() <-chan error
}

// The errors of a Start that comes too late.
var (
	ErrStarted = errors.New("already started")
	ErrStopped = errors.New("already stopped")
)
