package gate

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Once remembers which entry tokens were used. redisline.Once does so in Redis.
type Once interface {
	// Use marks id as used, until the time until at least. first is false where it was used before. An error says that this
	// can't be told: the id may be marked or not. ctx ends after half a second.
	Use(ctx context.Context, id string, until time.Time) (first bool, err error)
}

// The errors that single use adds.
var (
	ErrUsed     = errors.New("the entry token was used before")
	ErrCantTell = errors.New("whether the entry token was used before can't be told")
)

// FailOpen lets people in by valid entry tokens while Once can't tell whether they were used before. The zero value does not:
// they are asked to try again until it can.
type FailOpen struct {
	// For is the longest time that the gate stays open in one outage. An outage has ended when Once has answered each time for
	// a minute, so one that comes and goes does not give the gate more time.
	For time.Duration
	// After is how long Once must have failed, each time that it was asked, before the gate opens; default 5 s. One answer in
	// between starts it over, so a store that comes and goes does not open the gate.
	After time.Duration
}

const (
	onceTimeout  = 500 * time.Millisecond // of one question
	onceRetry    = 500 * time.Millisecond // between two of them while Once fails: nobody else waits for an answer meanwhile
	onceFailures = 3                      // questions that must have failed before the gate opens
	outageEnds   = time.Minute
	defaultAfter = 5 * time.Second
)

// use is a Once with a fail mode.
type use struct {
	once Once
	mode FailOpen
	now  func() time.Time
	tell func(open bool, why error)

	mu       sync.Mutex
	failing  time.Time // the first failure that no answer has followed; zero: it answers
	last     time.Time // the last one
	failures int
	retry    time.Time // until then it isn't asked
	why      error     // of the last failure
	opened   time.Time // zero: closed
	spent    time.Duration
	steady   time.Time // since when it has answered each time; zero: not
}

func newUse(once Once, mode FailOpen, now func() time.Time, tell func(bool, error)) *use {
	if mode.After <= 0 {
		mode.After = defaultAfter
	}
	return &use{once: once, mode: mode, now: now, tell: tell}
}

// first says whether id is used for the first time: nil, ErrUsed, or ErrCantTell. checked is false for one that is let in
// because the gate is open.
func (u *use) first(ctx context.Context, id string, until time.Time) (checked bool, err error) {
	if u.ask() {
		// The visitor may be gone already; that is no failure of the store.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), onceTimeout)
		first, err := u.once.Use(ctx, id, until)
		cancel()
		u.answered(err)
		if err == nil {
			if !first {
				return true, ErrUsed
			}
			return true, nil
		}
	}
	if u.isOpen() {
		return false, nil
	}
	return false, ErrCantTell
}

// ask says whether to ask the store now. While it fails, one in half a second does.
func (u *use) ask() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.failing.IsZero() {
		return true
	}
	now := u.now()
	if now.Before(u.retry) {
		return false
	}
	u.retry = now.Add(onceRetry)
	return true
}

func (u *use) answered(err error) {
	now := u.now()
	u.mu.Lock()
	if err == nil {
		u.failing, u.failures, u.why = time.Time{}, 0, nil
		if u.steady.IsZero() {
			u.steady = now
		}
		closed := !u.opened.IsZero()
		u.close(now)
		u.mu.Unlock()
		if closed {
			u.tell(false, nil)
		}
		return
	}
	if !u.steady.IsZero() && now.Sub(u.steady) >= outageEnds {
		u.spent = 0
	}
	u.steady = time.Time{}
	if u.failing.IsZero() {
		u.failing = now
	}
	u.failures++
	u.last, u.why = now, err
	u.retry = now.Add(onceRetry)
	u.mu.Unlock()
}

// isOpen opens and closes as time goes by.
func (u *use) isOpen() bool {
	now := u.now()
	u.mu.Lock()
	was, why := !u.opened.IsZero(), u.why
	is := u.mayBeOpen(now)
	switch {
	case is && !was:
		u.opened = now
	case was && !is:
		u.close(now)
	}
	u.mu.Unlock()
	if is != was {
		u.tell(is, why)
	}
	return is
}

func (u *use) mayBeOpen(now time.Time) bool {
	spent := u.spent
	if !u.opened.IsZero() {
		spent += now.Sub(u.opened)
	}
	return !u.failing.IsZero() && u.last.Sub(u.failing) >= u.mode.After && u.failures >= onceFailures && spent < u.mode.For
}

func (u *use) close(now time.Time) {
	if !u.opened.IsZero() {
		u.spent += now.Sub(u.opened)
		u.opened = time.Time{}
	}
}
