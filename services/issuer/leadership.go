package issuer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/pass"
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
	Active(nowMs int64, leeway time.Duration) int64
	Admit(ctx context.Context, ask queue.Ask, set queue.Settings) ([]queue.Person, queue.Reason, error)
}

// leadership leads one queue for as long as it is assigned.
type leadership struct {
	id      queue.ID
	name    string                      // of this issuer, for people who read the log
	entry   func() (*queue.Entry, bool) // the catalogue's
	seed    func(sealed []byte) (queue.Seed, error)
	log     Appender
	shared  View // nil: there is none, and the mode is always direct
	reading Reading
	logger  *zap.Logger
	metrics *metrics

	mode     queue.Mode
	health   health // of the shared view
	unsealed bool   // it was told that the seed can't be opened
	why      atomic.Pointer[string]
}

var (
	errFenced   = errors.New("another claim came after ours")
	errSwitched = errors.New("the leader changes the view that it pops from")
	errGone     = errors.New("the queue is not in the catalogue")
)

// viewTimeout bounds one question to the shared view.
const viewTimeout = 400 * time.Millisecond

// checkpointEvery is how often the leader writes down the fold's integers.
const checkpointEvery = time.Minute

// lookEvery is the longest time that a leader who has nothing to do goes without a look at the catalogue and the clock.
const lookEvery = time.Second

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
		l.why.Store(nil)
		if ctx.Err() != nil {
			l.logger.Info("not leading any more")
			return
		}
		l.metrics.skip(l.id, queue.SkipNotLeading, 1)
		if !errors.Is(err, errGone) {
			l.logger.Warn("lost the lead while the queue is assigned here; claiming anew", zap.Error(err))
		}
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
	now    *queue.Entry // the queue as the term obeys it
	set    queue.Settings
	lead   *line.Leader
	pacer  *Pacer
	ahead  time.Duration // how far the broker's clock is before ours
	start  time.Time     // of the grid
	marked time.Time     // the latest checkpoint
	noted  queue.Ticket  // served by it
}

func (l *leadership) lead(ctx context.Context) error {
	entry, ok := l.entry()
	if !ok {
		return errGone
	}
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
	t := &term{leadership: l, now: entry, set: entry.Settings, lead: line.Lead(epoch), pacer: NewPacer(entry.Settings, acked), start: acked, marked: acked}
	// The broker stamped the claim between asking and acknowledgement.
	t.ahead = time.UnixMilli(claim.AtMs).Sub(asked.Add(acked.Sub(asked) / 2))
	for _, b := range l.reading.Recent(claim.AtMs) {
		t.pacer.Seed(time.UnixMilli(b.AtMs).Add(-t.ahead), b.People)
	}
	l.logger.Info("leading", zap.Int64("epoch", int64(epoch)), zap.Stringer("mode", l.mode), zap.Duration("broker_clock_ahead", t.ahead.Round(time.Millisecond)))
	l.metrics.leading.WithLabelValues(string(l.id)).Set(1)
	l.metrics.claims.WithLabelValues(string(l.id)).Inc()
	l.metrics.direct.WithLabelValues(string(l.id)).Set(map[bool]float64{true: 1}[l.mode == queue.ModeDirect])
	l.metrics.rate.WithLabelValues(string(l.id)).Set(t.set.Rate)
	return t.issue(ctx)
}

// issue admits a batch each interval until it is fenced off or ctx ends.
func (t *term) issue(ctx context.Context) error {
	why := ""
	for {
		if err := t.await(ctx, why); err != nil {
			return err
		}
		if t.reading.State().Epoch > t.lead.Epoch() {
			return errFenced
		}
		if err := t.obey(ctx); err != nil {
			return err
		}
		if t.shouldSwitch(ctx) {
			return errSwitched
		}
		var err error
		if why, err = t.tick(ctx); err != nil {
			return err
		}
		now := why
		t.why.Store(&now)
		if time.Since(t.marked) >= checkpointEvery {
			if err := t.checkpoint(ctx); err != nil {
				return err
			}
		}
	}
}

// await waits for the next tick. A queue that nobody waits in, or whose people have to wait for something else than their turn,
// costs nothing meanwhile: it has no ticks until somebody comes, the time of its opening, or a look at the catalogue.
func (t *term) await(ctx context.Context, why string) error {
	tick := time.Until(Next(t.start, time.Now(), t.set.Interval))
	long := max(tick, lookEvery)
	switch why {
	case queue.Empty.String():
		seq := t.reading.State().Seq // before asking who waits: whoever comes after it ends the waiting
		if t.reading.Waiting() > 0 {
			break
		}
		began := time.Now()
		wait, cancel := context.WithTimeout(ctx, long)
		err := t.reading.WaitFor(wait, seq+1)
		cancel()
		t.metrics.skip(t.id, why, int(time.Since(began)/t.set.Interval))
		t.rest()
		if err != nil { // nobody came
			return ctx.Err()
		}
		tick = time.Until(Next(t.start, time.Now(), t.set.Interval))
	case queue.SkipNotOpen:
		opens := time.Until(time.UnixMilli(t.set.OpensAtMs).Add(-t.ahead))
		return t.sit(ctx, why, min(long, max(opens, tick)))
	case queue.SkipPaused, queue.SkipClosed:
		return t.sit(ctx, why, long)
	}
	return lifecycle.Pause(ctx, tick)
}

// sit waits d, in which nobody is let in.
func (t *term) sit(ctx context.Context, why string, d time.Duration) error {
	err := lifecycle.Pause(ctx, d)
	t.metrics.skip(t.id, why, int(d/t.set.Interval))
	t.rest()
	return err
}

// rest says that up to the last point of the grid nobody could be let in: that time earns nothing.
func (t *term) rest() {
	t.pacer.Rest(Next(t.start, time.Now(), t.set.Interval).Add(-t.set.Interval))
}

// nowMs is the broker's time, as well as it is known.
func (t *term) nowMs() int64 { return time.Now().Add(t.ahead).UnixMilli() }

// obey takes over what the operators have changed, and writes into the log whatever of it the fold depends on. It compares with
// the log and not with what was done before, so whoever leads next finishes what this leader has begun.
func (t *term) obey(ctx context.Context) error {
	entry, ok := t.entry()
	if !ok {
		return errGone
	}
	if entry.Version != t.now.Version {
		t.now, t.set = entry, entry.Settings
		t.pacer.Set(t.set)
		t.metrics.rate.WithLabelValues(string(t.id)).Set(t.set.Rate)
		t.logger.Info("obeying a change of the catalogue", zap.Int64("version", entry.Version))
	}
	s := t.reading.State()
	if s.Seq < t.lead.Last() {
		return nil // not read up to our own last record yet: at the next tick
	}
	if s.Reentry != t.set.Reentry {
		ticket, err := t.write(ctx, queue.Record{Kind: queue.SettingsSet, Reentry: t.set.Reentry})
		if err != nil {
			return err
		}
		t.lead.Noted(ticket)
	}
	switch ending := entry.Closed && entry.Ending; {
	case ending && (!s.End.Over || s.End.Why != entry.Why):
		return t.change(ctx, queue.Record{Kind: queue.Ended, Epoch: t.lead.Epoch(), Why: entry.Why})
	case !ending && s.End.Over:
		return t.change(ctx, queue.Record{Kind: queue.Reopened, Epoch: t.lead.Epoch()})
	case t.drawDue(s) && len(t.lead.Held()) == 0:
		seed, err := t.seed(entry.Sealed)
		if err != nil {
			if !t.unsealed {
				t.unsealed = true
				t.logger.Error("the seed of the draw can't be opened, so the queue stays closed; give this process the secret that it was made with", zap.Error(err))
			}
			return nil
		}
		return t.change(ctx, queue.Record{Kind: queue.Drawn, Epoch: t.lead.Epoch(), Seed: seed})
	}
	return nil
}

// drawDue says that the queue opens by a draw that has not been.
func (t *term) drawDue(s queue.State) bool {
	return t.set.Order == queue.ByDraw && s.Draw.At == 0 && t.set.Opened(t.nowMs())
}

// change appends a record after which others come first.
func (t *term) change(ctx context.Context, rec queue.Record) error {
	ticket, err := t.write(ctx, rec)
	if err != nil {
		return err
	}
	t.lead.Changed(ticket)
	t.logger.Info("wrote into the log", zap.Stringer("record", rec.Kind), zap.Int64("ticket", int64(ticket)))
	return nil
}

func (t *term) write(ctx context.Context, rec queue.Record) (queue.Ticket, error) {
	ticket, _, err := t.log.AppendUntil(ctx, t.id, rec)
	if err != nil {
		return 0, fmt.Errorf("appending a %s record: %w", rec.Kind, err)
	}
	return ticket, nil
}

// hindered says why nobody may be let in at the moment, whoever waits; "" where somebody may.
func (t *term) hindered() string {
	s := t.reading.State()
	switch {
	case t.now.Closed && t.now.Ending, s.End.Over:
		return queue.SkipClosed
	case t.now.Paused:
		return queue.SkipPaused
	case !t.set.Opened(t.nowMs()), t.set.Order == queue.ByDraw && s.Draw.At == 0:
		return queue.SkipNotOpen
	}
	return ""
}

// tick hands out at most one batch and puts it in the log, or says why not.
func (t *term) tick(ctx context.Context) (why string, err error) {
	if why := t.hindered(); why != "" {
		return why, nil // counted by how long it lasts
	}
	n := t.pacer.Allow(time.Now())
	seq := t.reading.State().Seq
	if len(t.lead.Held()) == 0 && seq >= t.lead.Last() && t.reading.Waiting() == 0 {
		t.pacer.Idle()
		return queue.Empty.String(), nil // the log says so: no view has to be asked; counted by how long it lasts
	}
	room := t.lead.Room(seq, t.reading.Active(t.nowMs(), pass.Leeway), t.set.MaxActive)
	if held := t.lead.Held(); len(held) == 0 {
		if n == 0 || room == 0 {
			why := queue.Paced.String()
			if n > 0 {
				why = queue.SkipFull
			}
			t.metrics.skip(t.id, why, 1)
			return why, nil
		}
		people, reason, err := t.ask(ctx, min(n, room))
		if err != nil {
			t.metrics.skip(t.id, "view_away", 1)
			return "view_away", nil // the same batch again at the next tick
		}
		t.lead.Got(people, reason)
		switch reason {
		case queue.Fenced:
			return "", errFenced
		case queue.Empty:
			t.pacer.Idle()
		case queue.Paced, queue.Behind, queue.Handed:
		}
		if reason != queue.Handed {
			t.metrics.skip(t.id, reason.String(), 1)
			return reason.String(), nil
		}
	}
	// Who is handed out again may be more than is due, or than there is room for: a predecessor's batch, or one of a higher rate.
	// They wait for a whole batch to be due, and go as room comes.
	held := len(t.lead.Held())
	switch {
	case n < min(held, t.pacer.Full()):
		t.metrics.skip(t.id, queue.Paced.String(), 1)
		return queue.Paced.String(), nil
	case room == 0:
		t.metrics.skip(t.id, queue.SkipFull, 1)
		return queue.SkipFull, nil
	}
	return "", t.admit(ctx, min(held, n, room), n)
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
		t.health.good()
	}
	return people, why, err
}

// shouldSwitch decides whether this term ends for one in the other mode. It is asked before a tick, so the projector has had
// an interval to apply the last batch. A queue that nobody waits in does not leave a view that it has no use for, but returns to
// it: whoever comes next shall not wait for that.
func (t *term) shouldSwitch(ctx context.Context) bool {
	now := time.Now()
	if t.shared == nil || len(t.lead.Held()) > 0 {
		return false
	}
	switch {
	case t.mode == queue.ModeRedis && t.reading.Waiting() > 0 && t.health.failed(now):
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
	t.health.good()
	return seq >= t.lead.Last()
}

// admit appends the first k of the people in hand; n is how many were due.
func (t *term) admit(ctx context.Context, k, n int) error {
	people := slices.Clone(t.lead.Held()[:k])
	now := time.Now()
	at := now.Add(t.ahead)
	for i := range people {
		people[i].ExpiresMs = at.Add(t.set.GrantTTL).UnixMilli()
	}
	ticket, err := t.write(ctx, queue.Record{Kind: queue.Admitted, Epoch: t.lead.Epoch(), AtMs: at.UnixMilli(), People: people})
	if err != nil {
		return err
	}
	acked := time.Now()
	t.lead.Appended(ticket, k)
	t.pacer.Spend(acked, k)
	if k < n && len(t.lead.Held()) == 0 {
		t.pacer.Idle() // the line is empty, or full
	}
	t.metrics.admitted.WithLabelValues(string(t.id)).Add(float64(k))
	t.metrics.appendSeconds.Observe(acked.Sub(now).Seconds())
	return nil
}

func (t *term) checkpoint(ctx context.Context) error {
	s := t.reading.State()
	if s.Seq < t.lead.Last() {
		return nil // not read up to our own last record yet: at the next tick
	}
	t.marked = time.Now()
	if s.Seq == t.lead.Last() && s.Served == t.noted {
		return nil // nothing has happened since the last one, or the claim
	}
	ticket, err := t.write(ctx, queue.Record{Kind: queue.Checkpoint, Epoch: t.lead.Epoch(), Served: s.Served, Reentry: s.Reentry})
	if err != nil {
		return err
	}
	t.lead.Noted(ticket)
	t.noted = s.Served
	return nil
}
