package follow

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
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

	loop lifecycle.Loop
}

// contactEvery is how often the brokers are asked.
const contactEvery = time.Second

// NewContact makes one that counts from now.
func NewContact(log Pinger) *Contact {
	c := &Contact{log: log}
	c.last.Store(time.Now().UnixMilli())
	return c
}

// Start begins to ask.
func (c *Contact) Start(context.Context) error {
	return c.loop.Start(func(ctx context.Context) {
		for ctx.Err() == nil {
			call, stop := context.WithTimeout(ctx, contactEvery)
			if c.log.Ping(call) == nil {
				c.last.Store(time.Now().UnixMilli())
			}
			stop()
			_ = lifecycle.Pause(ctx, contactEvery)
		}
	})
}

// Stop ends the asking.
func (c *Contact) Stop(ctx context.Context) error { return c.loop.Stop(ctx) }

// Silent is how long ago the last sign of life was, 0 where that is no more than two questions.
func (c *Contact) Silent(now time.Time) time.Duration {
	d := now.Sub(time.UnixMilli(c.last.Load()))
	if d <= 2*contactEvery {
		return 0
	}
	return d
}
