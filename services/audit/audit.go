package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Config of an audit. Queue is all that must be given.
type Config struct {
	Queue      queue.ID
	Periods    []Period                // what was set, in the order of time, the first from the beginning on; none: not known
	Rate       float64                 // people a second that the queue was to let in, all the time; 0: as in Periods, and without any not judged
	Interval   time.Duration           // between two batches, with Rate; 0: 100 ms
	MaxActive  int64                   // admissions that were to hold at one time, all the time; 0: as in Periods, and without any not judged
	Commitment string                  // to the seed of the draw, as it was published; "": not compared
	Ticket     queue.Ticket            // to be told of; 0: none
	Redis      View                    // compared with the log; nil: not compared
	TopicID    string                  // of the log, to be compared with the one that Redis was filled from; "": not compared
	AtLeast    queue.Ticket            // that the log has reached, by somebody who saw it; 0: nobody did
	WasTopic   string                  // the log's topic id by the same; "": not compared with TopicID
	Settle     time.Duration           // how long to wait for Redis to have applied the log to its end; 0: 5 s
	Examples   int                     // records listed for each kind of finding; 0: 10
	Progress   func(done, total int64) // called now and then with records read and to be read; may be nil
}

func (c Config) withDefaults() Config {
	if c.Interval == 0 {
		c.Interval = queue.DefaultSettings().Interval
	}
	if c.Settle == 0 {
		c.Settle = 5 * time.Second
	}
	if c.Examples == 0 {
		c.Examples = 10
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if _, err := queue.ParseID(string(c.Queue)); err != nil {
		errs = append(errs, err)
	}
	if !(c.Rate >= 0 && c.Rate <= queue.MaxRate) {
		errs = append(errs, fmt.Errorf("the expected rate is 0 (not judged) to %v people a second, not %v", queue.MaxRate, c.Rate))
	}
	if c.Interval < queue.MinInterval || c.Interval > queue.MaxInterval {
		errs = append(errs, fmt.Errorf("the interval is %v to %v, not %v", queue.MinInterval, queue.MaxInterval, c.Interval))
	}
	if c.MaxActive < 0 || c.MaxActive > queue.MaxMaxActive {
		errs = append(errs, fmt.Errorf("max active is 1 to %d admissions, or 0 (not judged), not %d", queue.MaxMaxActive, c.MaxActive))
	}
	if c.Ticket < 0 {
		errs = append(errs, fmt.Errorf("a ticket is 1 or more, not %d", c.Ticket))
	}
	if c.Settle < 0 || c.Examples < 0 {
		errs = append(errs, errors.New("settle and examples are not negative"))
	}
	return errors.Join(errs...)
}

// progressEvery is how many records are read between two calls of Progress.
const progressEvery = 20_000

// Run reads the log from its first record to where it ended when Run began, and says what it found. The error is that of
// the log, or of cfg; what is wrong with the queue is in the report.
func Run(ctx context.Context, cfg Config, log Source) (*Report, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	first, next, err := log.Bounds(ctx)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	f := newFindings(cfg.Examples)
	rep := &Report{Queue: cfg.Queue, First: first, End: next - 1}
	end := next - 1
	if cfg.AtLeast > end {
		f.addN(LogShort, int64(cfg.AtLeast-end), nil, "it ends with ticket %d, and ticket %d was seen", end, cfg.AtLeast)
	}
	if cfg.WasTopic != "" && cfg.TopicID != "" && cfg.WasTopic != cfg.TopicID {
		f.add(LogRecreated, nil, "it is topic %s now, and was topic %s", cfg.TopicID, cfg.WasTopic)
	}

	// Redis comes first, since it moves on: what it held is compared with the log as it was at just that record.
	look, err := lookAtRedis(ctx, cfg, log, end, f)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}

	b := newBook(first, f)
	fold := startFold(look.marks())
	read := func() error {
		for told := int64(0); b.last < end || fold.sent < look.until(); {
			recs, err := log.Next(ctx)
			if err != nil {
				return err
			}
			recs = b.inOrder(recs)
			for i := range recs {
				if recs[i].Ticket <= end {
					b.step(&recs[i])
				}
			}
			fold.send(recs)
			if cfg.Progress != nil && b.records-told >= progressEvery {
				told = b.records
				cfg.Progress(int64(min(b.last, end)-first+1), int64(next-first))
			}
		}
		return nil
	}
	err = read()
	folded := fold.end()
	if err != nil {
		return nil, fmt.Errorf("audit: reading the log: %w", err)
	}
	if cfg.Progress != nil {
		cfg.Progress(int64(next-first), int64(next-first))
	}

	b.report(rep)
	rep.judgePace(cfg, b, f)
	rep.judgeActive(cfg, b, f)
	rep.judgeDraw(cfg, b, f)
	judgeOpen(cfg, b, f)
	rep.Asked = b.asked(cfg.Ticket)
	rep.Series = b.series()
	b.compare(folded[mark{ticket: end}], rep, f)
	rep.Redis = look.compare(folded, first, f)
	rep.Findings = f.list()
	return rep, nil
}
