package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
)

// records are entries as a reader of the log delivers them.
func (b *bench) records(n int) ([]queue.Record, error) {
	recs := make([]queue.Record, n)
	for i := range recs {
		value, err := entryAt(i)
		if err != nil {
			return nil, err
		}
		recs[i] = linelog.Decode(queue.Ticket(i+1), 1, value)
	}
	return recs, nil
}

// applyAll applies recs to an empty view, in batches of the reader's size, and returns how many a second.
func (b *bench) applyAll(ctx context.Context, recs []queue.Record) (float64, error) {
	view := redisline.New(b.rdb, b.id("apply"))
	if err := b.emptied(ctx, view.Drop); err != nil {
		return 0, err
	}
	began := time.Now()
	seq := queue.Ticket(0)
	for from := 0; from < len(recs); from += queue.MaxBatch {
		batch := recs[from:min(from+queue.MaxBatch, len(recs))]
		next, fits, err := view.Apply(ctx, seq, batch, "bench")
		if err != nil {
			return 0, err
		}
		if !fits {
			return 0, fmt.Errorf("the view is at %d, wanted %d", next, seq)
		}
		seq = next
	}
	took := time.Since(began)
	return float64(len(recs)) / took.Seconds(), b.emptied(ctx, view.Drop)
}

// zadd lets redis-benchmark add as many members of about the same length to an empty sorted set, and returns how many a
// second: 50 connections, 16 commands in a pipeline, members and scores at random.
func (b *bench) zadd(ctx context.Context, n int) (float64, error) {
	path, err := exec.LookPath("redis-benchmark")
	if err != nil {
		return 0, errors.New("no redis-benchmark on the PATH (Debian: apt-get install redis-tools)")
	}
	host, port, err := splitAddr(b.redisAddr)
	if err != nil {
		return 0, err
	}
	key := string(b.id("zadd"))
	drop := func(ctx context.Context) error { return b.rdb.Unlink(ctx, key).Err() }
	if err := b.emptied(ctx, drop); err != nil {
		return 0, err
	}
	out, err := exec.CommandContext(ctx, path, "-h", host, "-p", port, "-c", "50", "-P", "16", "-n", strconv.Itoa(n),
		"-r", "1000000000", "--csv", "ZADD", key, "__rand_int__", "visitor:__rand_int__").Output()
	if err != nil {
		return 0, fmt.Errorf("redis-benchmark: %w", err)
	}
	if size, err := b.rdb.ZCard(ctx, key).Result(); err != nil || size < int64(n)*99/100 {
		return 0, fmt.Errorf("redis-benchmark added %d members, wanted %d: %w", size, n, err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	fields := strings.Split(lines[len(lines)-1], ",")
	if len(fields) < 2 {
		return 0, fmt.Errorf("redis-benchmark says %.200q", out)
	}
	perSecond, err := strconv.ParseFloat(strings.Trim(fields[1], `"`), 64)
	if err != nil {
		return 0, fmt.Errorf("redis-benchmark says %.200q", out)
	}
	return perSecond, b.emptied(ctx, drop)
}

// emptied drops something and waits until Redis has freed it.
func (b *bench) emptied(ctx context.Context, drop func(context.Context) error) error {
	if err := drop(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		pending, err := b.info(ctx, "memory", "lazyfree_pending_objects")
		if err != nil {
			return err
		}
		if pending == 0 {
			return nil
		}
		_ = lifecycle.Pause(ctx, 10*time.Millisecond)
	}
	return ctx.Err()
}

func (b *bench) usedMemory(ctx context.Context) (int64, error) {
	return b.info(ctx, "memory", "used_memory")
}

// info is one number of a section of INFO.
func (b *bench) info(ctx context.Context, section, field string) (int64, error) {
	text, err := b.rdb.Info(ctx, section).Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("INFO %s has no %s", section, field)
}
