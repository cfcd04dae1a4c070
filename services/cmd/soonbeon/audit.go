package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
	"github.com/soonbeon/soonbeon/services/audit"
	"github.com/soonbeon/soonbeon/services/standalone"
)

type auditCmd struct {
	standalone.Reach

	Queue      string        `help:"The queue to audit." default:"main"`
	Rate       float64       `help:"People a second that the queue was to let in, all the time: any second with more than this and one batch is wrong. 0: as the catalogue's record of changes says; without one it is reported and not judged." default:"0" env:"-"`
	Interval   time.Duration `help:"Time between two batches, with --rate." default:"100ms" env:"-"`
	MaxActive  int64         `help:"Admissions that were to hold at one time, all the time. 0: as the record of changes says; without one it is reported and not judged." default:"0" env:"-"`
	Commitment string        `help:"What was published before the draw, to hold its seed against. Default: as the record of changes says." placeholder:"HEX" env:"-"`
	Ticket     int64         `help:"Also tell the number that this ticket drew, and what became of it." placeholder:"N" env:"-"`
	Settle     time.Duration `help:"How long to wait for Redis to have applied the log to its end." default:"5s"`
	Examples   int           `help:"How many records to list for each kind of finding." default:"10"`
	JSON       bool          `help:"Print the report as JSON." name:"json"`
	HTML       string        `help:"Write the report as a page with plots, which needs nothing else, to this file." name:"html" placeholder:"FILE" type:"path"`
	Lang       string        `help:"The language of that page: ${enum}." enum:"en,ko" default:"en"`
}

// Help is shown by --help.
func (auditCmd) Help() string {
	return "Reads the queue's log and proves what happened: nobody lost, nobody in twice, the order, the draw; and, by the record of what was " +
		"set when, that the rate and the capacity were kept and nobody was let in while the queue was paused or not open. With --redis also " +
		"compares Redis with the log, visitor by visitor. It writes to neither. On the embedded log the server must be stopped; with " +
		"Kafka everything may run. Exit code 1 when something is wrong."
}

func (c *auditCmd) Run(ctx context.Context, s streams) (err error) {
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
	cfg := audit.Config{Queue: id, Rate: c.Rate, Interval: c.Interval, Settle: c.Settle, Examples: c.Examples, Progress: progress(s.err),
		MaxActive: c.MaxActive, Ticket: queue.Ticket(c.Ticket)}
	if cfg.TopicID, err = log.Topic(ctx, id); err != nil {
		if errors.Is(err, linelog.ErrNoQueue) {
			return c.NoQueue(id)
		}
		return err
	}
	if cfg.Periods, cfg.Commitment, err = history(ctx, log, id); err != nil {
		fmt.Fprintf(s.err, "what was set when is not known (%v): only what is given by flags is judged\n", err)
	}
	if c.Commitment != "" {
		cfg.Commitment = c.Commitment
	}
	if cfg.WasTopic, cfg.AtLeast, err = c.Seen(id); err != nil {
		return err
	}
	rdb, err := c.DialRedis()
	if err != nil {
		return err
	}
	if rdb != nil {
		defer func() { _ = rdb.Close() }()
		cfg.Redis = redisline.New(rdb, id)
	}
	source := audit.OfLog(log, id)
	defer source.Close()
	rep, err := audit.Run(ctx, cfg, source)
	if err != nil {
		return err
	}
	if err := c.print(rep, s.out); err != nil {
		return err
	}
	if code := rep.ExitCode(); code != audit.ExitOK {
		return exitCode(code)
	}
	return nil
}

// changesRead is how many of a queue's last changes are looked at.
const changesRead = 100_000

// history is what the record of changes says of a queue. A log that is older than the catalogue has none.
func history(ctx context.Context, log *linelog.Log, id queue.ID) (periods []audit.Period, commitment string, err error) {
	changes, err := log.Changes(ctx, id, changesRead)
	if err != nil {
		return nil, "", err
	}
	return audit.History(changes)
}

func (c *auditCmd) print(rep *audit.Report, out io.Writer) error {
	if c.HTML != "" {
		f, err := os.Create(c.HTML)
		if err != nil {
			return fmt.Errorf("--html: %w", err)
		}
		if err := errors.Join(rep.WriteHTML(f, c.Lang), f.Close()); err != nil {
			return fmt.Errorf("--html: %w", err)
		}
	}
	if c.JSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(rep)
	}
	if _, err := io.WriteString(out, rep.Text()); err != nil {
		return err
	}
	if c.HTML != "" {
		_, err := fmt.Fprintf(out, "report      %s\n", c.HTML)
		return err
	}
	return nil
}

// progress shows how far the reading is on a terminal, and nothing elsewhere.
func progress(out io.Writer) func(done, total int64) {
	f, ok := out.(*os.File)
	if !ok {
		return nil
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return func(done, total int64) {
		if total == 0 {
			return
		}
		fmt.Fprintf(out, "\rreading    %d of %d records, %d %%", done, total, done*100/total)
		if done >= total {
			fmt.Fprint(out, "\r\x1b[K")
		}
	}
}
