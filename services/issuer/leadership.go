package issuer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/follow"
)

// Appender appends for a leader: it returns once the record is acknowledged, or with ctx's error. *linelog.Writer has it.
type Appender interface {
	AppendUntil(ctx context.Context, id queue.ID, rec queue.Record) (ticket queue.Ticket, atMs int64, err error)
}

// View is the shared view that a leader pops from; *redisline.View has it.
type View interface {
	Admit(ctx context.Context, ask queue.Ask, set queue.Settings) ([]queue.Person, queue.Reason, error)
	Seq(ctx context.Context) (queue.Ticket, error)
}

// Reading is the leader's own reading of the log, and the line that it goes on from in direct mode. A *follow.Follower that
// keeps the line has it.
type Reading interface {
	State() queue.State
	Claim() queue.Record
	WaitFor(ctx context.Context, t queue.Ticket) error
	Recent(atMs int64) []follow.Batch
	Waiting() int64
	Admit(ctx context.Context, ask queue.Ask, set queue.Settings) ([]queue.Person, queue.Reason, error)
}

// leadership leads one queue for as long as it is assigned.
type leadership struct {
	id      queue.ID
	name    string // of this issuer, for people who read the log
	set     queue.Settings
	log     Appender
	shared  View // nil: there is none, and the mode is always direct
	reading Reading
	logger  *zap.Logger
	metrics *metrics

	mode   queue.Mode
	health health // of the shared view
}

var (
	errFenced   = errors.New("another claim came after ours")
	errSwitched = errors.New("the leader changes the view that it pops from")
)

// viewTimeout bounds one question to the shared view.
const viewTimeout = 400 * time.Millisecond

// checkpointEvery is how often the leader writes down the fold's integers.
const checkpointEvery = time.Minute

// run claims and leads until ctx ends, and claims anew when it was fenced off while the queue is still ours.
func (l *leadership) run(ctx context.Context) {
	l.mode = queue.ModeDirect
	if l.shared != nil && l.answers(ctx) {
		l.mode = queue.ModeRedis
	}
	for {
		err := l.lead(ctx)
		if errors.Is(err, errSwitched) {
			continue
		}
		l.metrics.leading.WithLabelValues(string(l.id)).Set(0)
		if ctx.Err() != nil {
			l.logger.Info("not leading any more")
			return
		}
		l.logger.Warn("lost the lead while the queue is assigned here; claiming anew", zap.Error(err))
		// Two who both believe that they are assigned must not claim in step.
		if lifecycle.Pause(ctx, 200*time.Millisecond+rand.N(300*time.Millisecond)) != nil {
			return
		}
	}
}

// answers asks the shared view for a sign of life, so that who takes over in an outage does not wait to find out.
func (l *leadership) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	_, err := l.shared.Seq(ctx)
	if err != nil {
		l.logger.Warn("the shared view does not answer; leading without it", zap.Error(err))
		l.health.switched = time.Now()
	}
	return err == nil
}

// term is one claim: from its record until another one is met.
type term struct {
	*leadership
	lead   *line.Leader
	pacer  *Pacer
	ahead  time.Duration // how far the broker's clock is before ours
	start  time.Time     // of the grid
	marked time.Time     // the latest checkpoint
}

func (l *leadership) lead(ctx context.Context) error {
	asked := time.Now()
	epoch, _, err := l.log.AppendUntil(ctx, l.id, queue.Record{Kind: queue.Claimed, Issuer: l.name, Mode: l.mode})
	if err != nil {
		return fmt.Errorf("claiming: %w", err)
	}
	acked := time.Now()
	if err := l.reading.WaitFor(ctx, epoch); err != nil {
		return fmt.Errorf("reading the log up to the claim: %w", err)
	}
	claim := l.reading.Claim()
	if claim.Ticket != epoch {
		return errFenced
	}
	t := &term{leadership: l, lead: line.Lead(epoch), pacer: NewPacer(l.set, acked), start: acked, marked: acked}
	// The broker stamped the claim between asking and acknowledgement.
	t.ahead = time.UnixMilli(claim.AtMs).Sub(asked.Add(acked.Sub(asked) / 2))
	for _, b := range l.reading.Recent(claim.AtMs) {
		t.pacer.Seed(time.UnixMilli(b.AtMs).Add(-t.ahead), b.People)
	}
	l.logger.Info("leading", zap.Int64("epoch", int64(epoch)), zap.Stringer("mode", l.mode), zap.Duration("broker_clock_ahead", t.ahead.Round(time.Millisecond)))
	l.metrics.leading.WithLabelValues(string(l.id)).Set(1)
	l.metrics.claims.WithLabelValues(string(l.id)).Inc()
	l.metrics.direct.WithLabelValues(string(l.id)).Set(map[bool]float64{true: 1}[l.mode == queue.ModeDirect])
	if l.shared != nil && l.mode == queue.ModeDirect {
		probe, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			t.probe(probe)
		}()
		defer func() { stop(); <-done }()
	}
	if l.reading.State().Reentry != l.set.Reentry {
		ticket, _, err := l.log.AppendUntil(ctx, l.id, queue.Record{Kind: queue.SettingsSet, Reentry: l.set.Reentry})
		if err != nil {
			return fmt.Errorf("writing the queue's settings: %w", err)
		}
		t.lead.Noted(ticket)
	}
	return t.issue(ctx)
}

// issue admits a batch each interval until it is fenced off or ctx ends.
func (t *term) issue(ctx context.Context) error {
	for {
		if err := lifecycle.Pause(ctx, time.Until(Next(t.start, time.Now(), t.set.Interval))); err != nil {
			return err
		}
		if t.reading.State().Epoch > t.lead.Epoch() {
			return errFenced
		}
		if t.shouldSwitch(ctx) {
			return errSwitched
		}
		if err := t.tick(ctx); err != nil {
			return err
		}
		if time.Since(t.marked) >= checkpointEvery {
			if err := t.checkpoint(ctx); err != nil {
				return err
			}
		}
	}
}

// tick hands out at most one batch and puts it in the log.
func (t *term) tick(ctx context.Context) error {
	q := string(t.id)
	n := t.pacer.Allow(time.Now())
	if held := t.lead.Held(); len(held) == 0 {
		if n == 0 {
			t.metrics.skips.WithLabelValues(q, queue.Paced.String()).Inc()
			return nil
		}
		people, why, err := t.ask(ctx, n)
		if err != nil {
			t.metrics.skips.WithLabelValues(q, "view_away").Inc()
			return nil // the same batch again at the next tick
		}
		t.lead.Got(people, why)
		switch why {
		case queue.Fenced:
			return errFenced
		case queue.Empty:
			t.pacer.Idle()
		case queue.Paced, queue.Behind, queue.Handed:
		}
		if why != queue.Handed {
			t.metrics.skips.WithLabelValues(q, why.String()).Inc()
			return nil
		}
	}
	// Who is handed out again may be more than is due: a predecessor's batch, or one of a higher rate. They wait for it.
	if n < min(len(t.lead.Held()), t.pacer.Full()) {
		return nil
	}
	return t.admit(ctx, n)
}

// ask asks the view of this term, and notes how the shared one does.
func (t *term) ask(ctx context.Context, n int) ([]queue.Person, queue.Reason, error) {
	if t.mode == queue.ModeDirect {
		return t.reading.Admit(ctx, t.lead.Ask(n), t.set)
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	people, why, err := t.shared.Admit(ctx, t.lead.Ask(n), t.set)
	switch {
	case err != nil:
		if t.health.bad(began) {
			t.logger.Warn("the shared view does not answer", zap.Error(err))
		}
	case why == queue.Behind, why == queue.Empty && t.reading.Waiting() > 0:
		t.health.bad(began) // it is there, but people wait whom it does not know of: the projection is behind
	default:
		t.health.good(began)
	}
	return people, why, err
}

// shouldSwitch decides whether this term ends for one in the other mode. It is asked before a tick, so the projector has had
// an interval to apply the last batch.
func (t *term) shouldSwitch(ctx context.Context) bool {
	now := time.Now()
	if t.shared == nil || len(t.lead.Held()) > 0 {
		return false
	}
	switch {
	case t.mode == queue.ModeRedis && t.health.failed(now):
		t.mode = queue.ModeDirect
		t.logger.Warn("the shared view has failed; going on from the log")
	case t.mode == queue.ModeDirect && t.health.mended(now) && t.caughtUp(ctx):
		t.mode = queue.ModeRedis
		t.logger.Info("the shared view is back and has caught up; popping from it again")
	default:
		return false
	}
	t.health.switched = now
	t.metrics.switches.WithLabelValues(string(t.id)).Inc()
	return true
}

// caughtUp asks the shared view whether it has met the leader's own last record. A view that is well answers at once; one
// that does not must not cost a batch.
func (t *term) caughtUp(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, t.set.Interval/2)
	defer cancel()
	began := time.Now()
	seq, err := t.shared.Seq(ctx)
	if err != nil {
		t.health.bad(began)
		return false
	}
	return seq >= t.lead.Last()
}

// probeEvery is how often the shared view is asked, in direct mode, whether it is back.
const probeEvery = 500 * time.Millisecond

// probe watches the shared view until ctx ends, beside the ticks: one that hangs must not delay anybody.
func (t *term) probe(ctx context.Context) {
	for lifecycle.Pause(ctx, probeEvery) == nil {
		began := time.Now()
		call, cancel := context.WithTimeout(ctx, viewTimeout)
		_, err := t.shared.Seq(call)
		cancel()
		if err != nil {
			t.health.bad(began)
		} else {
			t.health.good(began)
		}
	}
}

// admit appends the people in hand; n is how many were due.
func (t *term) admit(ctx context.Context, n int) error {
	people := t.lead.Held()
	now := time.Now()
	at := now.Add(t.ahead)
	for i := range people {
		people[i].ExpiresMs = at.Add(t.set.GrantTTL).UnixMilli()
	}
	ticket, _, err := t.log.AppendUntil(ctx, t.id, queue.Record{Kind: queue.Admitted, Epoch: t.lead.Epoch(), AtMs: at.UnixMilli(), People: people})
	if err != nil {
		return fmt.Errorf("appending %d admissions: %w", len(people), err)
	}
	acked := time.Now()
	t.lead.Appended(ticket)
	t.pacer.Spend(acked, len(people))
	if len(people) < n {
		t.pacer.Idle() // the line is empty
	}
	t.metrics.admitted.WithLabelValues(string(t.id)).Add(float64(len(people)))
	t.metrics.appendSeconds.Observe(acked.Sub(now).Seconds())
	return nil
}

func (t *term) checkpoint(ctx context.Context) error {
	s := t.reading.State()
	if s.Seq < t.lead.Last() {
		return nil // not read up to our own last record yet: at the next tick
	}
	ticket, _, err := t.log.AppendUntil(ctx, t.id, queue.Record{Kind: queue.Checkpoint, Epoch: t.lead.Epoch(), Served: s.Served, Reentry: s.Reentry})
	if err != nil {
		return fmt.Errorf("appending a checkpoint: %w", err)
	}
	t.lead.Noted(ticket)
	t.marked = time.Now()
	return nil
}
