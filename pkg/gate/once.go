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
	// can't be told: the id may be marked or not. ctx ends after half a second. See FailOpen for who else asks.
	Use(ctx context.Context, id string, until time.Time) (first bool, err error)
}

// The errors that single use adds.
var (
	ErrUsed     = errors.New("the entry token was used before")
	ErrCantTell = errors.New("whether the entry token was used before can't be told")
)

// FailOpen lets people in by valid entry tokens while Once can't tell whether they were used before. The zero value does not:
// they are asked to try again until it can.
//
// With it the gate asks by itself, twice a second, from a failure on until the outage has ended: what it knows of an outage is then
// answers that it got, or did not, and not that nobody came. It asks for an id that is no token's, the queue's name and "/0". Ten
// minutes after the last visitor it lets that be.
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
	onceGap      = 5 * time.Second        // two answers that are further apart say nothing about the time between them
	onceQuiet    = 10 * time.Minute       // without a visitor, after which the gate does not ask by itself
	outageEnds   = time.Minute
	defaultAfter = 5 * time.Second
)

// use is a Once with a fail mode.
type use struct {
	once  Once
	probe string // what is asked for by nobody
	mode  FailOpen
	now   func() time.Time
	later func(time.Duration, func())
	tell  func(open bool, why error)

	mu       sync.Mutex
	visited  time.Time // when somebody came last
	waiting  bool      // for the next question of its own
	failing  time.Time // the first failure that no answer has followed; zero: it answers
	last     time.Time // the last one
	failures int
	retry    time.Time // until then it isn't asked
	why      error     // of the last failure
	opened   time.Time // zero: closed
	spent    time.Duration
	steady   time.Time // since when it has answered each time; zero: not
	lastGood time.Time
}

func newUse(once Once, probe string, mode FailOpen, now func() time.Time, tell func(bool, error)) *use {
	if mode.After <= 0 {
		mode.After = defaultAfter
	}
	later := func(d time.Duration, f func()) { time.AfterFunc(d, f) }
	return &use{once: once, probe: probe, mode: mode, now: now, later: later, tell: tell}
}

// first says whether id is used for the first time: nil, ErrUsed, or ErrCantTell. checked is false for one that is let in
// because the gate is open.
func (u *use) first(ctx context.Context, id string, until time.Time) (checked bool, err error) {
	u.mu.Lock()
	u.visited = u.now()
	u.mu.Unlock()
	if u.mayAsk() {
		first, err := u.ask(ctx, id, until)
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

// mayAsk says whether to ask the store now. While it fails, one in half a second does.
func (u *use) mayAsk() bool {
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

func (u *use) ask(ctx context.Context, id string, until time.Time) (first bool, err error) {
	// The visitor may be gone already; that is no failure of the store.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), onceTimeout)
	defer cancel()
	first, err = u.once.Use(ctx, id, until)
	u.answered(err)
	u.askAgain()
	return first, err
}

// askAgain sees to it that the store is asked in a while, whoever comes or does not, where something hangs on its answer.
func (u *use) askAgain() {
	u.mu.Lock()
	defer u.mu.Unlock()
	outage := !u.failing.IsZero() || !u.opened.IsZero() || u.spent > 0
	if u.waiting || u.mode.For <= 0 || !outage || u.now().Sub(u.visited) > onceQuiet {
		return
	}
	u.waiting = true
	u.later(onceRetry, func() {
		u.mu.Lock()
		u.waiting = false
		u.mu.Unlock()
		if u.mayAsk() {
			_, _ = u.ask(context.Background(), u.probe, u.now().Add(time.Minute)) // answered has it
		}
		u.isOpen()
		u.askAgain()
	})
}

func (u *use) answered(err error) {
	now := u.now()
	u.mu.Lock()
	if err == nil {
		u.failing, u.failures, u.why = time.Time{}, 0, nil
		if u.steady.IsZero() || now.Sub(u.lastGood) > onceGap {
			u.steady = now
		}
		u.lastGood = now
		closed := !u.opened.IsZero()
		u.close(now)
		if now.Sub(u.steady) >= outageEnds {
			u.spent = 0
		}
		u.mu.Unlock()
		if closed {
			u.tell(false, nil)
		}
		return
	}
	u.steady = time.Time{}
	if u.failing.IsZero() || now.Sub(u.last) > onceGap {
		u.failing, u.failures = now, 0
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
