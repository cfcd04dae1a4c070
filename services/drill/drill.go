package drill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
	"github.com/soonbeon/soonbeon/services/audit"
	"github.com/soonbeon/soonbeon/services/load"
	"github.com/soonbeon/soonbeon/services/plot"
)

var (
	errTimeUp      = errors.New("the time was up")
	errBreakFailed = errors.New("the break command failed")
)

// tickEvery is how often the timeline looks at what was gathered.
const tickEvery = 100 * time.Millisecond

// Run plays the drill and prints to out: the timeline while it goes on, then the audit and the verdict; with cfg.JSON the
// report alone. It writes the page, blocks until everybody is in, and undoes the break before it returns.
//
// An error means that there is no verdict: cfg is wrong (every mistake at once), the drill's own system could not be
// brought up, nothing answers at a target, or the log can't be read. When ctx ends the drill mends, stops, and returns a
// report without an audit. See Report.ExitCode.
func Run(ctx context.Context, cfg Config, out io.Writer, logger *zap.Logger) (rep *Report, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	sys, err := reach(ctx, cfg, logger)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sys.close()) }()
	return play(ctx, cfg, sys, out, logger, audit.Run)
}

// auditing reads the log and says what happened.
type auditing func(ctx context.Context, cfg audit.Config, log audit.Source) (*audit.Report, error)

// play is a drill on sys.
func play(ctx context.Context, cfg Config, sys *system, out io.Writer, logger *zap.Logger, judge auditing) (rep *Report, err error) {
	id := queue.ID(cfg.Queue)
	log, closeLog, err := sys.reach.OpenLog(ctx, logger)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	judged := audit.Config{Queue: id, Rate: cfg.ExpectRate}
	if judged.TopicID, err = log.Topic(ctx, id); err != nil {
		if errors.Is(err, linelog.ErrNoQueue) {
			return nil, sys.reach.NoQueue(id)
		}
		return nil, err
	}
	rdb, err := sys.reach.DialRedis()
	if err != nil {
		return nil, err
	}
	if rdb != nil {
		defer func() { _ = rdb.Close() }()
		judged.Redis = redisline.New(rdb, id)
	}

	shown := out
	if cfg.JSON {
		if shown = cfg.Progress; shown == nil {
			shown = io.Discard
		}
	}
	r := &run{cfg: cfg, sys: sys, shown: shown}
	transport := load.NewTransport(cfg.Pollers, cfg.AllowRemote)
	defer transport.CloseIdleConnections()
	r.pollers = newPollers(cfg, sys.target, transport, r)
	if err := r.pollers.knock(ctx); err != nil {
		return nil, err
	}
	_, _ = fmt.Fprintf(shown, "drill  %s\n", sys.what)
	r.start = time.Now()
	r.timeline = newTimeline(shown, r.start, cfg.Pollers, cfg.PollEvery)
	if r.along, err = readAlong(ctx, log, id, r.timeline); err != nil {
		return nil, err
	}
	defer r.along.reader.Close()

	if err := r.playOut(ctx); err != nil {
		return nil, err
	}
	rep = r.report()
	if ctx.Err() == nil && !r.brokeOff {
		if err := r.along.finish(ctx); err != nil {
			return nil, err
		}
		source := audit.OfLog(log, id)
		defer source.Close()
		found, err := judge(ctx, judged, source)
		if err != nil {
			return nil, err
		}
		rep.judge(found, r.inLog())
		if err := rep.writePage(cfg.HTML, cfg.Lang); err != nil {
			return nil, err
		}
	}
	return rep, rep.print(out, cfg.JSON)
}

// run is a drill under way.
type run struct {
	*timeline
	cfg      Config
	sys      *system
	shown    io.Writer
	pollers  *pollers
	along    *along
	start    time.Time
	crowd    *load.Report
	steps    [2]*Step // breaking and mending; nil until begun
	brokeOff bool     // since the break command failed
	cut      string
}

// playOut lets everything happen. When it returns nothing runs any more, and what was broken was mended.
func (r *run) playOut(parent context.Context) error {
	ctx, cancel := context.WithTimeoutCause(parent, r.cfg.Timeout, errTimeUp)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)

	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	var beside sync.WaitGroup
	beside.Go(func() {
		if err := r.along.run(watching); err != nil {
			fail(err)
		}
	})
	beside.Go(func() { r.watch(watching) })
	beside.Go(func() {
		select {
		case err := <-r.sys.failing:
			fail(fmt.Errorf("the drill's own system failed: %w", err))
		case <-watching.Done():
		}
	})

	arriving := "as fast as they are taken in"
	if r.cfg.Rate > 0 {
		arriving = fmt.Sprintf("%g a second", r.cfg.Rate)
	}
	r.say(r.start, "%s visitors entering, %s; %s pollers ask every %v", plot.Thousands(int64(r.cfg.Visitors)), arriving, plot.Thousands(int64(r.cfg.Pollers)), r.cfg.PollEvery)
	var working sync.WaitGroup
	working.Go(func() {
		rep, err := load.Run(ctx, r.cfg.crowd(r.sys.target, r.sys.keys), io.Discard)
		if err != nil && ctx.Err() == nil {
			fail(err)
		}
		r.crowd = rep
	})
	working.Go(func() { r.pollers.run(ctx) })
	working.Go(func() {
		if !r.operate(ctx) {
			fail(errBreakFailed)
		}
	})
	working.Wait()
	now := time.Now()
	if ctx.Err() == nil {
		r.say(now, "all in")
	}
	stopWatching()
	beside.Wait()

	switch cause := context.Cause(ctx); {
	case cause == nil:
	case parent.Err() != nil:
		r.cut = "interrupted"
	case errors.Is(cause, errTimeUp):
		r.cut = "timeout"
	case errors.Is(cause, errBreakFailed):
		r.brokeOff = true
	default:
		return cause
	}
	return nil
}

// watch looks at what was gathered, and sends the pollers home when there is nothing more to see.
func (r *run) watch(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	over := false
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			r.tick(now)
			if !over && r.over(now) {
				over = true
				r.pollers.outageEnds()
				close(r.pollers.enough)
			}
		}
	}
}

// operate breaks and mends at their times. What was broken is mended also when ctx ends before its time. It returns false
// when the breaking failed; then, too, it mends, since something may be half broken.
func (r *run) operate(ctx context.Context) bool {
	if lifecycle.Pause(ctx, time.Until(r.start.Add(r.cfg.BreakAt))) != nil {
		return true
	}
	r.pollers.outageBegins()
	what, do := r.sys.hands.breaks()
	r.breaks(time.Now())
	r.steps[0] = r.step(ctx, "break", what, do)
	whole := r.steps[0].Error == ""
	if whole {
		_ = lifecycle.Pause(ctx, time.Until(r.start.Add(r.cfg.MendAt)))
	}
	what, do = r.sys.hands.mends()
	r.mends(time.Now())
	r.steps[1] = r.step(context.WithoutCancel(ctx), "mend", what, do)
	r.isMended(time.Now())
	return whole
}

func (r *run) step(ctx context.Context, name, what string, do action) *Step {
	ctx, cancel := context.WithTimeoutCause(ctx, r.cfg.CommandTimeout, fmt.Errorf("it took more than the --command-timeout of %v", r.cfg.CommandTimeout))
	defer cancel()
	began := time.Now()
	s := &Step{What: what, AfterMs: began.Sub(r.start).Milliseconds()}
	output, exit, err := do(ctx)
	s.TookMs, s.Output, s.Exit = time.Since(began).Milliseconds(), output, exit
	if err != nil {
		s.Error = err.Error()
	}
	line := fmt.Sprintf("%-44s exit %d", name+": "+what, exit)
	if exit < 0 {
		line = fmt.Sprintf("%-44s %s", name+": "+what, s.Error)
	}
	r.say(began, "%s", line)
	if s.Error != "" && output != "" {
		_, _ = fmt.Fprintf(r.shown, "      %s\n", strings.ReplaceAll(strings.TrimSpace(output), "\n", "\n      "))
	}
	return s
}
