package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/services/e2e/book"
)

// judgeEvery is how many cycles pass between two verdicts.
const judgeEvery = 10

// kill counts cycles: in each, one broker, one enter, one projector, the leading issuer and Redis are killed, at moments
// of their own within three seconds, and started again. The next begins when all are ready, every replica is in sync, and
// people enter and are let in. What a verdict finds wrong is printed and is the error in the end, after all the cycles.
func (s *show) kill(ctx context.Context) error {
	rnd := rand.New(rand.NewPCG(s.seed, 2))
	began := time.Now()
	total := kills{}
	var v *verdict
	var wrong []error
	for cycle := 1; cycle <= s.kills || s.c.accepted() < s.entries; cycle++ {
		done, err := s.cycle(ctx, rnd, cycle)
		total.add(done)
		if err == nil {
			err = s.mended(ctx)
		}
		if err != nil {
			s.table(total, v, time.Since(began))
			return errors.Join(fmt.Errorf("cycle %d of seed %d: %w", cycle, s.seed, err), errors.Join(wrong...))
		}
		if cycle%judgeEvery != 0 {
			continue
		}
		v, err = s.judge.verdict(ctx)
		fmt.Fprintf(s.out, "cycle %d after %v: %v\n", cycle, time.Since(began).Round(time.Second), v)
		if err != nil {
			fmt.Fprintf(s.out, "WRONG: %v\n", err)
			wrong = append(wrong, fmt.Errorf("cycle %d of seed %d: %w", cycle, s.seed, err))
		}
	}
	v, err := s.judge.verdict(ctx)
	if err != nil {
		wrong = append(wrong, fmt.Errorf("at the end: %w", err))
	}
	s.table(total, v, time.Since(began))
	s.summary()
	return errors.Join(wrong...)
}

// kills are how often each was killed.
type kills struct{ enter, projector, issuer, redis, kafka int }

func (k *kills) add(o kills) {
	k.enter += o.enter
	k.projector += o.projector
	k.issuer += o.issuer
	k.redis += o.redis
	k.kafka += o.kafka
}

func (s *show) cycle(ctx context.Context, rnd *rand.Rand, cycle int) (done kills, err error) {
	// What Redis comes back with: nothing, what it had when the cycle began, or what it had when it died.
	returns := cycle % 3
	if returns == 1 {
		if err := s.f.rdb.Save(ctx).Err(); err != nil {
			return done, fmt.Errorf("save Redis: %w", err)
		}
	}
	which, broker := cycle%2, cycle%3
	lanes := []struct {
		count *int
		do    func() error
	}{
		{&done.kafka, func() error { return s.killed(ctx, step{part: kafka, which: broker}) }},
		{&done.enter, func() error { return s.killed(ctx, step{part: enters, which: which}) }},
		{&done.projector, func() error { return s.killed(ctx, step{part: projectors, which: which}) }},
		{&done.issuer, func() error { return s.killed(ctx, step{part: issuers}) }},
		{&done.redis, func() error {
			if returns == 2 {
				if err := s.f.rdb.Save(ctx).Err(); err != nil {
					return fmt.Errorf("save Redis: %w", err)
				}
			}
			return s.f.redisFrom(ctx, returns != 0)
		}},
	}
	var group sync.WaitGroup
	errs := make([]error, len(lanes))
	for i, lane := range lanes {
		after := time.Duration(rnd.Int64N(int64(3 * time.Second)))
		if i == 0 {
			after = 0 // it takes longest to return
		}
		group.Go(func() {
			if errs[i] = lifecycle.Pause(ctx, after); errs[i] == nil {
				errs[i] = lane.do()
			}
			if errs[i] == nil {
				*lane.count++
			}
		})
	}
	group.Wait()
	return done, errors.Join(errs...)
}

// killed kills and starts again, and returns when it is ready.
func (s *show) killed(ctx context.Context, victim step) error {
	return s.f.victim(ctx, victim).Restart(ctx)
}

func (s *show) table(k kills, v *verdict, took time.Duration) {
	if v == nil {
		v = &verdict{}
	}
	accounted := 0
	for fate, n := range v.fates {
		if fate != book.NoEntry {
			accounted += n
		}
	}
	fmt.Fprintf(s.out, "\n| killed (kill -9) | cycles |\n|---|---|\n| enter, one of two | %d |\n| projector, one of two | %d |\n| issuer, the one that leads | %d |\n"+
		"| Redis | %d |\n| Kafka, one broker of three | %d |\n", k.enter, k.projector, k.issuer, k.redis, k.kafka)
	fmt.Fprintf(s.out, "\n| acknowledged entries | lost | admitted twice | most in a second (limit %d) | took |\n|---|---|---|---|---|\n| %d | %d | %d | %d | %v |\n\n",
		(s.rate*11+9)/10, v.acknowledged, v.acknowledged-accounted, v.twice, v.fastest, took.Round(time.Second))
	fmt.Fprintf(s.out, "%v\n", v)
}
