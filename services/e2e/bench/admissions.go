package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/standalone"
)

// floodPerSecond is how many entries arrive a second while admissions are counted.
const floodPerSecond = 100_000

// admissions lets people through while entries pour in, and counts them by the log's own times. The projector and the
// issuer run in one process, on a real Kafka and a real Redis.
func admissions(ctx context.Context, b *bench) ([]result, error) {
	brokers, err := b.kafka(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.redis(ctx); err != nil {
		return nil, err
	}
	id := b.id("flood")
	log, topic, err := makeQueue(ctx, brokers, id)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	const before = 10_000 // who wait already, so that nothing but the rate limits
	if _, err := pour(ctx, brokers, id, 0, before, 0); err != nil {
		return nil, err
	}
	cfg := shippedConfig(id, b.keyText, brokers, []string{b.redisAddr}, "")
	spec := sideSpec{Name: "admissions", Kind: shipped, Config: cfg, Roles: standalone.Roles{Projector: true, Issuer: true}}
	if b.o.profile != "" {
		spec.Profile = b.o.profile + "/admissions.pprof"
	}
	if err := b.alone(ctx, brokers, id); err != nil {
		return nil, err
	}
	s, err := startSide(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.close() }()

	ctx, cancel := context.WithTimeout(ctx, b.o.flood+2*time.Minute)
	defer cancel()
	r := log.NewReader(id, 0, topic)
	defer r.Close()
	var batches []queue.Record
	flooding := false
	var from, to int64 // the broker's times of the flood's first and last entry
	entries := 0
	var g errgroup.Group
	var acked int64
	for last := int64(0); to == 0 || last <= to; {
		recs, err := r.Next(ctx)
		if err != nil {
			return nil, errors.Join(err, g.Wait())
		}
		for i := range recs {
			last = recs[i].AtMs
			switch recs[i].Kind {
			case queue.Admitted:
				batches = append(batches, recs[i])
			case queue.Entered:
				if entries++; entries == before+1 {
					from = last
				}
				if entries == before+b.floodSize() {
					to = last
				}
			}
		}
		if !flooding && len(batches) >= 10 { // it runs evenly
			flooding = true
			g.Go(func() (err error) {
				acked, err = pour(ctx, brokers, id, before, b.floodSize(), floodPerSecond)
				return err
			})
		}
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("pour entries in: %w", err)
	}
	people, span, longest := pace(batches, from, to)
	if span == 0 {
		return nil, errors.New("nobody was admitted while entries poured in")
	}
	arrived := float64(acked) * 1000 / float64(to-from)
	return []result{{
		what:    fmt.Sprintf("admissions while %s entries a second arrive for %.0f s", thousands(floodPerSecond), b.o.flood.Seconds()),
		against: "the queue's rate", need: 1, kind: ratio, value: float64(people) * 1000 / float64(span) / cfg.Rate,
		ours:   fmt.Sprintf("%.1f/s", float64(people)*1000/float64(span)),
		theirs: fmt.Sprintf("%.0f/s", cfg.Rate),
		spread: fmt.Sprintf("%s/s arrived; longest gap between two batches %d ms", thousands(int(arrived)), longest),
	}}, nil
}

func (b *bench) floodSize() int { return int(b.o.flood.Seconds() * floodPerSecond) }

// pace adds up who was admitted between the first batch and the last of those in from..to: each batch but the first, over
// the time from the first to the last, so that where the window happens to fall changes nothing.
func pace(batches []queue.Record, from, to int64) (people int, span, longest int64) {
	var first, prev int64
	for _, r := range batches {
		if r.AtMs < from || r.AtMs > to {
			continue
		}
		if first == 0 {
			first, prev = r.AtMs, r.AtMs
			continue
		}
		people += len(r.People)
		longest = max(longest, r.AtMs-prev)
		prev = r.AtMs
		span = r.AtMs - first
	}
	return people, span, longest
}
