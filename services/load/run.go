package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

var (
	errTimeUp       = errors.New("the time was up")
	errOtherVisitor = errors.New("its token is for another visitor")
)

// run is one crowd in front of one target.
type run struct {
	cfg      Config
	client   *client
	checker  checker
	schedule *schedule
	tally    *tally
	lots     *lots
	start    time.Time
}

// Run plays the crowd and prints to out: progress while it goes on, then the summary; with cfg.JSON the summary as
// JSON alone. It blocks until everybody is in or lost, cfg.Timeout has passed, or ctx ends; in the last two cases the
// report says so (Report.Cut) and holds what is known, and the error is nil.
//
// An error means that no crowd was sent: cfg is wrong (every mistake at once), or nothing answers at a target. Broken
// invariants are in the report: see Report.OK and Report.ExitCode.
func Run(ctx context.Context, cfg Config, out io.Writer) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	keyText, err := cfg.keyText()
	if err != nil {
		return nil, err
	}
	r := &run{cfg: cfg, checker: checker{queue: queue.ID(cfg.Queue)}, tally: newTally(cfg.Visitors)}
	if keyText != "" {
		if r.checker.keys, err = pass.ParseKeys(keyText); err != nil {
			return nil, fmt.Errorf("read the keys: %w", err)
		}
	}
	if r.client, err = newClient(cfg); err != nil {
		return nil, err
	}
	defer r.client.close()
	if err := r.client.knock(ctx); err != nil {
		return nil, err
	}
	file, err := cfg.openPage()
	if err != nil {
		return nil, err
	}
	r.lots = &lots{ask: r.client.lots, breach: r.tally.breach, queue: queue.ID(cfg.Queue)}
	r.lots.drawn(ctx) // what is committed to is known before anybody enters

	watched := out
	if cfg.JSON {
		watched = cfg.Progress
	}
	rep := r.playOut(ctx, watched)
	if err := rep.print(out, cfg.JSON); err != nil {
		return rep, errors.Join(fmt.Errorf("print the summary: %w", err), rep.writePage(file, cfg.Lang))
	}
	if err := rep.writePage(file, cfg.Lang); err != nil {
		return rep, err
	}
	if file != nil && !cfg.JSON {
		_, err = fmt.Fprintf(out, "report      %s\n", cfg.HTML)
	}
	return rep, err
}

func (r *run) playOut(parent context.Context, watched io.Writer) *Report {
	ctx, cancel := context.WithTimeoutCause(parent, r.cfg.Timeout, errTimeUp)
	defer cancel()

	crowd := make([]visitor, r.cfg.Visitors)
	spread(crowd, r.cfg.Refresh, func(v *visitor) { v.refresh = true })
	spread(crowd, r.cfg.Recheck, func(v *visitor) { v.recheck = true })
	for i := range crowd {
		crowd[i].number = i + 1
	}
	r.start = time.Now()
	r.tally.start = r.start
	r.schedule = newSchedule(crowd, r.cfg.Rate, r.start)

	var watching sync.WaitGroup
	stopWatching := make(chan struct{})
	if watched != nil {
		p := newProgress(watched, r)
		watching.Go(func() { p.run(stopWatching) })
	}
	var working sync.WaitGroup
	turns := make(chan *visitor)
	working.Go(func() { r.schedule.run(ctx, turns) })
	for range min(r.cfg.Connections, r.cfg.Visitors) {
		working.Go(func() {
			for v := range turns {
				r.play(ctx, v)
			}
		})
	}
	working.Wait()
	close(stopWatching)
	watching.Wait()

	cut := ""
	if r.schedule.living > 0 {
		cut = "interrupted"
		if errors.Is(context.Cause(ctx), errTimeUp) {
			cut = "timeout"
		}
	}
	return r.report(cut, time.Since(r.start))
}

// spread chooses a share of the crowd, evenly from first to last.
func spread(crowd []visitor, share float64, choose func(*visitor)) {
	for i := range crowd {
		if int(float64(i+1)*share) > int(float64(i)*share) {
			choose(&crowd[i])
		}
	}
}

// knock asks each target once, without a receipt, so that a wrong address is told at once and not by a thousand
// time-outs. Any HTTP answer will do, save that there is no such queue.
func (c *client) knock(ctx context.Context) error {
	for _, u := range c.askAt {
		a := c.do(ctx, c.request(http.MethodGet, u, ""))
		if err := c.opened(a, u.Scheme+"://"+u.Host); err != nil {
			return err
		}
		if a.code() == "queue_unknown" {
			return fmt.Errorf("%s://%s has no queue with %s", u.Scheme, u.Host, u.RawQuery)
		}
	}
	for _, u := range c.enterAt {
		if err := c.opened(c.do(ctx, c.request(http.MethodGet, u, "")), u.Scheme+"://"+u.Host); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) opened(a answer, where string) error {
	if a.failed == "" {
		return nil
	}
	return fmt.Errorf("nothing answers at %s (%s): start it first, or name another address with --target: %w", where, a.failed, a.err)
}

// checkExpiry compares what the answer says with what its token says, to the second.
func checkExpiry(said string, expiresMs int64) error {
	at, err := time.Parse(time.RFC3339, said)
	if err != nil {
		return errors.New("expiresAt is not an RFC 3339 time")
	}
	if d := at.UnixMilli() - expiresMs; d < -1000 || d > 1000 {
		return fmt.Errorf("expiresAt is %d ms off the token's own expiry", d)
	}
	return nil
}
