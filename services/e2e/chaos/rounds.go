package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// show is one run.
type show struct {
	options
	f     *fleet
	c     *crowd
	judge *judge
	out   io.Writer
}

// play plays rounds until there were enough, or one is not what was promised.
func (s *show) play(ctx context.Context) error {
	p := newPlan(s.seed)
	began := time.Now()
	round := 0
	for s.rounds == 0 && time.Since(began) < s.lasts || round < s.rounds && time.Since(began) < s.lasts {
		round++
		steps := p.round(s.deeds)
		fmt.Fprintf(s.out, "round %d\n%s", round, describe(steps))
		if err := s.round(ctx, steps); err != nil {
			return fmt.Errorf("round %d of seed %d: %w", round, s.seed, err)
		}
	}
	s.summary()
	fmt.Fprintf(s.out, "%d rounds in %v, all as promised (seed %d)\n", round, time.Since(began).Round(time.Second), s.seed)
	return nil
}

func (s *show) round(ctx context.Context, steps []step) error {
	began := time.Now()
	if err := s.f.play(ctx, steps); err != nil {
		return fmt.Errorf("a deed could not be done: %w", err)
	}
	played := time.Since(began)
	if err := s.mended(ctx); err != nil {
		return err
	}
	settled := time.Since(began) - played
	v, err := s.judge.verdict(ctx)
	fmt.Fprintf(s.out, "    %v\n    outage %v, back after %v, judged in %v\n", v, played.Round(100*time.Millisecond),
		settled.Round(100*time.Millisecond), (time.Since(began) - played - settled).Round(100*time.Millisecond))
	return err
}

// mended waits until every part is there again, and the whole moves.
func (s *show) mended(ctx context.Context) error {
	if err := s.f.whole(ctx); err != nil {
		return fmt.Errorf("after it was mended: %w", err)
	}
	if err := s.goesOn(ctx, 50); err != nil {
		return fmt.Errorf("after it was mended: %w", err)
	}
	return nil
}

// goesOn waits until n more entries were acknowledged, and as many tickets served where anybody waits.
func (s *show) goesOn(ctx context.Context, n int) error {
	accepted, served := s.c.accepted(), s.f.served(ctx)
	return until(ctx, 60*time.Second, "people enter and are let in", func() error {
		if got := s.c.accepted() - accepted; got < n {
			return fmt.Errorf("%d entries were acknowledged since", got)
		}
		if got := s.f.served(ctx) - served; got < float64(n) {
			return fmt.Errorf("%v tickets were served since", got)
		}
		return nil
	})
}

// summary says what the crowd met.
func (s *show) summary() {
	polls, enters := s.c.polls.Latency(), s.c.enters.Latency()
	s.c.mu.Lock()
	exact := s.c.exact
	s.c.mu.Unlock()
	fmt.Fprintf(s.out, "places told: %d (%d exact), p50 %.1f ms, p99 %.0f ms; entries: p50 %.1f ms, p99 %.0f ms; requests without an answer: %d; "+
		"came after their grant: %d\n", polls.Count, exact, polls.P50, polls.P99, enters.P50, enters.P99, s.c.refused.Load(), s.c.late.Load())
}
