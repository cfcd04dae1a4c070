package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/services/e2e/realservers"
)

// play does the steps of a round, each at its time, and returns when the last of them is mended. The error is that of the
// doing; what the system made of it is judged elsewhere.
func (f *fleet) play(ctx context.Context, steps []step) error {
	var group sync.WaitGroup
	errs := make([]error, len(steps))
	for i, s := range steps {
		group.Go(func() {
			if errs[i] = lifecycle.Pause(ctx, s.at); errs[i] != nil {
				return
			}
			mend, err := f.do(ctx, s)
			if err == nil {
				err = lifecycle.Pause(ctx, s.lasts)
			}
			if mend != nil {
				err = errors.Join(err, mend())
			}
			if err != nil {
				errs[i] = fmt.Errorf("%v: %w", s, err)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// do does a step's deed, and returns what mends it again.
func (f *fleet) do(ctx context.Context, s step) (mend func() error, err error) {
	switch s.deed {
	case kill:
		victim := f.victim(ctx, s)
		return func() error { return victim.Restart(ctx) }, victim.Kill()
	case pause:
		victim := f.victim(ctx, s)
		return victim.Cont, victim.Stop()
	case silence:
		for _, b := range f.brokers.Brokers() {
			err = errors.Join(err, b.Stop())
		}
		return func() (err error) {
			for _, b := range f.brokers.Brokers() {
				err = errors.Join(err, b.Cont())
			}
			return err
		}, err
	case slowLink, hangLink, cutLink, cutReply:
		return f.link(s), nil
	case wipe:
		return nil, f.rdb.FlushAll(ctx).Err()
	case rollBack:
		if err := f.rdb.Save(ctx).Err(); err != nil {
			return nil, fmt.Errorf("save: %w", err)
		}
		return func() error { return f.redisFrom(ctx, true) }, nil
	case fill:
		mend = func() error {
			return until(ctx, 20*time.Second, "room in Redis", func() error { return f.rdb.ConfigSet(ctx, "maxmemory", "0").Err() })
		}
		return mend, f.rdb.ConfigSet(ctx, "maxmemory", "1").Err()
	}
	return nil, fmt.Errorf("nobody knows how to %s", s.deed)
}

func (f *fleet) victim(ctx context.Context, s step) *realservers.Server {
	switch s.part {
	case redis:
		return f.redis
	case kafka:
		return f.brokers.Brokers()[s.which]
	case issuers:
		return f.leader(ctx).Server
	}
	return f.parts[s.part][s.which].Server
}

// link changes the weather between some of our processes and Redis.
func (f *fleet) link(s step) (mend func() error) {
	links := []*proxy{f.links[s.part]}
	if s.all {
		links = []*proxy{f.links[issuers], f.links[projectors], f.links[positions]}
	}
	for _, l := range links {
		switch s.deed {
		case slowLink:
			l.set(slow, s.latency)
		case hangLink:
			l.set(silent, 0)
		case cutLink:
			l.set(broken, 0)
		default:
			l.cutReplies(s.replies)
		}
	}
	return func() error {
		for _, l := range links {
			l.set(fair, 0)
			l.cutReplies(0)
		}
		return nil
	}
}

// redisFrom kills Redis and starts it again: on what was last saved, or empty.
func (f *fleet) redisFrom(ctx context.Context, saved bool) error {
	if err := f.redis.Kill(); err != nil {
		return err
	}
	if !saved {
		if err := os.Remove(f.dump()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove what Redis saved: %w", err)
		}
	}
	return f.redis.Restart(ctx)
}
