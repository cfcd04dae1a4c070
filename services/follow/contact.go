package follow

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Pinger is asked for a sign of life; *linelog.Log is one.
type Pinger interface {
	Ping(ctx context.Context) error
}

// Contact knows how long the brokers have been silent: a log without a new record and a log that can't be reached look alike
// to a reader. It is a lifecycle.Service.
type Contact struct {
	log  Pinger
	last atomic.Int64 // Unix ms of the last sign of life

	mu     sync.Mutex
	cancel context.CancelFunc
	once   sync.Once
	done   chan struct{}
}

// contactEvery is how often the brokers are asked.
const contactEvery = time.Second

// NewContact makes one that counts from now.
func NewContact(log Pinger) *Contact {
	c := &Contact{log: log, done: make(chan struct{})}
	c.last.Store(time.Now().UnixMilli())
	return c
}

// Start begins to ask.
func (c *Contact) Start(context.Context) error {
	c.once.Do(func() {
		ctx, cancel := context.WithCancel(context.Background())
		c.mu.Lock()
		c.cancel = cancel
		c.mu.Unlock()
		go func() {
			defer close(c.done)
			for ctx.Err() == nil {
				call, stop := context.WithTimeout(ctx, contactEvery)
				if c.log.Ping(call) == nil {
					c.last.Store(time.Now().UnixMilli())
				}
				stop()
				pause(ctx, contactEvery)
			}
		}()
	})
	return nil
}

// Stop ends the asking.
func (c *Contact) Stop(ctx context.Context) error {
	c.once.Do(func() { close(c.done) })
	c.mu.Lock()
	if c.cancel != nil {
		c.cancel()
	}
	c.mu.Unlock()
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Silent is how long ago the last sign of life was, 0 where that is no more than two questions.
func (c *Contact) Silent(now time.Time) time.Duration {
	d := now.Sub(time.UnixMilli(c.last.Load()))
	if d <= 2*contactEvery {
		return 0
	}
	return d
}
