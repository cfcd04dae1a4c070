package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
	"github.com/soonbeon/soonbeon/services/replay"
	"github.com/soonbeon/soonbeon/services/standalone"
)

type replayCmd struct {
	standalone.Reach

	Queue   string `help:"The queue to replay." default:"main"`
	All     bool   `help:"Replay every queue that the log has."`
	DryRun  bool   `help:"Change nothing: compare Redis with the log and print what differs; exit code 1 when anything does."`
	Until   string `help:"Change nothing, and leave Redis alone: show the line as it was at a time (RFC 3339, by the broker's clock) or a ticket." placeholder:"TIME|TICKET"`
	Visitor string `help:"With --until: also where this visitor stood."`
	Ticket  int64  `help:"With --until: also where who held this ticket stood."`
	Anyway  bool   `help:"Rebuild also a Redis that knows more than the log: built from another topic, or further than the log's end. Whoever only Redis knows of is lost." env:"-"`
}

// Help is shown by --help.
func (replayCmd) Help() string {
	return "Folds the queue's log and makes the line in Redis what the log says, also while everything runs: the line that is there serves " +
		"until the new one takes its place, so Redis needs room for both. On the embedded log the server must be stopped."
}

func (c *replayCmd) check() (until replay.Moment, err error) {
	switch {
	case c.Until != "" && c.DryRun:
		return until, errors.New("--until and --dry-run: one of them at a time")
	case c.Until == "" && (c.Visitor != "" || c.Ticket != 0):
		return until, errors.New("--visitor and --ticket go with --until")
	case c.Until == "" && len(c.Redis) == 0:
		return until, errors.New("--redis: needed, except with --until")
	case c.Until == "":
		return until, nil
	}
	if n, err := strconv.ParseInt(c.Until, 10, 64); err == nil && n > 0 {
		return replay.Moment{Ticket: queue.Ticket(n)}, nil
	}
	if until.At, err = time.Parse(time.RFC3339, c.Until); err != nil {
		return until, fmt.Errorf("--until is a ticket, or a time such as %s, not %.40q", time.Now().UTC().Format(time.RFC3339), c.Until)
	}
	return until, nil
}

func (c *replayCmd) Run(ctx context.Context, s streams) (err error) {
	until, err := c.check()
	if err != nil {
		return err
	}
	id, err := queue.ParseID(c.Queue)
	if err != nil {
		return fmt.Errorf("--queue: %w", err)
	}
	logger := forPeople(s, zapcore.WarnLevel)
	log, closeLog, err := c.OpenLog(ctx, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	ids := []queue.ID{id}
	if c.All {
		if ids, err = log.Queues(ctx); err != nil {
			return err
		}
		if len(ids) == 0 {
			return errors.New("the log has no queue")
		}
	}
	var rdb redisline.Client
	if c.Until == "" {
		if rdb, err = c.DialRedis(); err != nil {
			return err
		}
		defer func() { _ = rdb.Close() }()
		if _, err := redisline.CheckSettings(ctx, rdb); err != nil {
			return err
		}
	}
	differs := false
	for _, id := range ids {
		bar := newBar(s.err, string(id))
		var text string
		switch {
		case c.Until != "":
			text, err = c.then(ctx, log, id, until, bar.show)
		case c.DryRun:
			var same bool
			text, same, err = compare(ctx, log, redisline.New(rdb, id), id, bar.show)
			differs = differs || !same
		default:
			text, err = c.rebuild(ctx, log, redisline.New(rdb, id), id, bar.show)
		}
		bar.end()
		if errors.Is(err, linelog.ErrNoQueue) {
			return c.NoQueue(id)
		}
		if err != nil {
			return fmt.Errorf("queue %s: %w", id, err)
		}
		if _, err := io.WriteString(s.out, text); err != nil {
			return err
		}
	}
	if differs {
		return exitCode(1)
	}
	return nil
}

func (c *replayCmd) rebuild(ctx context.Context, log *linelog.Log, view *redisline.View, id queue.ID, show replay.Progress) (string, error) {
	r, err := replay.Rebuild(ctx, log, view, id, c.Anyway, show)
	if errors.Is(err, replay.ErrKnowsMore) {
		return "", fmt.Errorf("%w; nothing was changed. Find out what became of the log first (docs/runbook.md); --anyway rebuilds all the same, and whoever only Redis knows of is lost", err)
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%-10s rebuilt: %s wait, at ticket %d; %s records folded in %.1f s, loaded in %.1f s\n",
		id, grouped(r.Waiting), r.Seq, grouped(r.Records), r.Folding.Seconds(), r.Loading.Seconds()), nil
}

func compare(ctx context.Context, log *linelog.Log, view *redisline.View, id queue.ID, show replay.Progress) (text string, same bool, err error) {
	c, err := replay.Compare(ctx, log, view, id, show)
	if err != nil {
		return "", false, err
	}
	behind := ""
	if c.Behind > 0 {
		behind = fmt.Sprintf("; the log is %s tickets further", grouped(c.Behind))
	}
	if c.Same() {
		how := ""
		if !c.Exact {
			how = " (who moved while Redis was read was left out)"
		}
		return fmt.Sprintf("%-10s Redis is what the log says: %s wait, at ticket %d%s%s\n", id, grouped(c.Waiting), c.Seq, how, behind), true, nil
	}
	text = fmt.Sprintf("%-10s Redis is NOT what the log says, at ticket %d%s\n", id, c.Seq, behind)
	for _, k := range []replay.Kind{replay.OtherTopic, replay.Ahead, replay.State, replay.Count, replay.Missing, replay.Extra, replay.Ticket, replay.Key} {
		if n := c.Counts[k]; n > 0 {
			text += fmt.Sprintf("  %8s   %s\n", grouped(n), k)
		}
	}
	for _, e := range c.Examples {
		text += "  - " + e + "\n"
	}
	return text, false, nil
}

func (c *replayCmd) then(ctx context.Context, log *linelog.Log, id queue.ID, until replay.Moment, show replay.Progress) (string, error) {
	p, err := replay.Then(ctx, log, id, until, show)
	if err != nil {
		return "", err
	}
	state := p.State()
	at := "before the first record"
	if !p.At.IsZero() {
		at = "of " + p.At.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	text := fmt.Sprintf("%-10s at ticket %d, %s\n  served     %d\n  epoch      %d\n  re-entry   %s\n  admitted   %s\n  waiting    %s\n",
		id, state.Seq, at, state.Served, state.Epoch, state.Reentry, grouped(p.Counts().Admitted), grouped(p.Total()))
	if state.Draw.At > 0 {
		text += fmt.Sprintf("  draw       lots were drawn at ticket %d: numbers %d to %d\n", state.Draw.At, state.Draw.From+1, state.Draw.At)
	}
	if end := state.End; end.At > 0 {
		text += fmt.Sprintf("  ended      at ticket %d, %s%s\n", end.At, end.Why, map[bool]string{true: "", false: "; reopened since"}[end.Over])
	}
	if p.Total() > 0 {
		text += fmt.Sprintf("  first      %s\n  last       %s\n", named(state, p.First.Ticket), named(state, p.Last.Ticket))
	}
	if c.Ticket != 0 {
		who, ok := p.Holder(queue.Ticket(c.Ticket))
		text += standing(p, fmt.Sprintf("ticket %d", c.Ticket), who, ok)
	}
	if c.Visitor != "" {
		text += standing(p, "visitor "+replay.Hash(c.Visitor), c.Visitor, true)
	}
	return text, nil
}

// named is what somebody waits with, or was let in for: the ticket, and the number that it drew where it did.
func named(state queue.State, n queue.Ticket) string {
	if !state.Draw.Drawn(n) {
		return fmt.Sprintf("ticket %d", n)
	}
	return fmt.Sprintf("ticket %d, which drew number %d", state.Draw.Ticket(n), n)
}

func standing(p *replay.Past, name string, who queue.Visitor, known bool) string {
	if place, ok := p.Place(who); known && ok {
		return fmt.Sprintf("  %s is at position %d, with %s\n", name, place.Ahead+1, named(p.State(), place.Ticket))
	}
	if g, _ := p.Grant(who, 0); known && g.Ticket > 0 {
		return fmt.Sprintf("  %s does not wait; admitted %s, for %s\n", name, time.UnixMilli(g.AdmittedMs).UTC().Format(time.RFC3339), named(p.State(), g.Ticket))
	}
	return fmt.Sprintf("  %s does not wait\n", name)
}
