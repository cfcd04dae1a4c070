package follow

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Log is where the records come from; *linelog.Log has it.
type Log interface {
	Topic(ctx context.Context, id queue.ID) (topicID string, err error)
	Bounds(ctx context.Context, id queue.ID) (first, next queue.Ticket, err error)
	NewReader(id queue.ID, after queue.Ticket, topicID string) *linelog.Reader
}

// Follower follows one queue's log from its beginning. It is a lifecycle.Service, and safe for concurrent use.
type Follower struct {
	id      queue.ID
	log     Log
	logger  *zap.Logger
	metrics *Metrics

	mu      sync.RWMutex
	ledger  *line.Ledger
	line    *line.Line // nil: only the ledger is kept
	pace    pace
	times   times
	marks   marks
	trouble error
	changed chan struct{} // closed and replaced when something was folded, if anybody waits
	waiters int

	loop  lifecycle.Loop
	topic string // the id of the topic that is followed; only the reading goroutine's
}

// New makes a Follower that keeps the ledger alone: memory grows with live grants only.
func New(id queue.ID, log Log, logger *zap.Logger, m *Metrics) *Follower {
	f := &Follower{id: id, log: log, logger: logger.With(zap.String("queue", string(id))), metrics: m,
		ledger: line.NewLedger(), changed: make(chan struct{})}
	return f
}

// NewLine makes a Follower that also keeps the line: about 100 bytes more for each who waits.
func NewLine(id queue.ID, log Log, logger *zap.Logger, m *Metrics) *Follower {
	f := New(id, log, logger, m)
	f.line = line.New()
	f.ledger = &f.line.Ledger
	return f
}

// Start begins to read in the background; it does not wait for anything.
func (f *Follower) Start(context.Context) error {
	err := f.loop.Start(f.run)
	if err == nil {
		f.metrics.add(f)
	}
	return err
}

// Stop ends the reading and waits for it.
func (f *Follower) Stop(ctx context.Context) error {
	f.metrics.remove(f)
	return f.loop.Stop(ctx)
}

// KeepsLine says that it knows who waits.
func (f *Follower) KeepsLine() bool { return f.line != nil }

// ID is the queue's.
func (f *Follower) ID() queue.ID { return f.id }

// retryAfter is the pause after something that may pass by itself.
const retryAfter = 500 * time.Millisecond

func (f *Follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := f.read(ctx)
		if ctx.Err() != nil {
			return
		}
		before := f.swapTrouble(err)
		switch {
		case grave(err) && !grave(before):
			f.logger.Error("the log can't be followed any further; what is known stands still", zap.Error(err))
		case before == nil:
			f.logger.Warn("the log can't be read; trying again", zap.Error(err))
		}
		_ = lifecycle.Pause(ctx, retryAfter)
	}
}

// grave says of an error that it does not pass by itself.
func grave(err error) bool {
	var trouble *linelog.TroubleError
	return errors.As(err, &trouble)
}

func (f *Follower) read(ctx context.Context) error {
	if f.topic == "" { // asked once: a topic that was made anew is another log, though it has the name
		topic, err := f.log.Topic(ctx, f.id)
		if err != nil {
			return err
		}
		f.topic = topic
	}
	if f.Trouble() != nil && f.fits(ctx) {
		f.swapTrouble(nil) // nothing may come for hours that would show it
	}
	r := f.log.NewReader(f.id, f.State().Seq, f.topic)
	defer r.Close()
	for {
		recs, err := r.Next(ctx)
		if err != nil {
			return err
		}
		f.fold(recs)
	}
}

// fits says that the brokers answer, and that the log goes on from what was read.
func (f *Follower) fits(ctx context.Context) bool {
	topic, err := f.log.Topic(ctx, f.id)
	if err != nil || topic != f.topic {
		return false
	}
	first, next, err := f.log.Bounds(ctx, f.id)
	wanted := f.State().Seq + 1
	return err == nil && first <= wanted && wanted <= next
}

func (f *Follower) swapTrouble(err error) (before error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, f.trouble = f.trouble, err
	return before
}

// fold applies records that follow what was applied.
func (f *Follower) fold(recs []queue.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	seq := f.ledger.State().Seq
	if f.line != nil {
		f.line.Apply(seq, recs)
	} else {
		f.ledger.Apply(seq, recs)
	}
	for i := range recs {
		if recs[i].Kind == queue.Admitted {
			f.pace.add(recs[i].AtMs, len(recs[i].People))
		}
	}
	if f.line != nil {
		last := recs[len(recs)-1]
		f.times.add(last.Ticket, last.AtMs)
	}
	f.trouble = nil
	f.marks.add(time.Now(), f.ledger.State().Seq)
	if f.waiters > 0 {
		close(f.changed)
		f.changed = make(chan struct{})
	}
}

// State is the fold's integers as far as the log was read.
func (f *Follower) State() queue.State {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.ledger.State()
}

// Trouble is why the log can't be followed: a *linelog.TroubleError, which takes an operator, or what kept the reading from
// beginning. It is nil while brokers that did answer are away, since the reading goes on by itself.
func (f *Follower) Trouble() error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.trouble
}

// Grant tells what became of the visitor's latest admission.
func (f *Follower) Grant(v queue.Visitor, now time.Time) (queue.Grant, line.GrantState) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.ledger.Grant(v, now.UnixMilli())
}

// WaitFor returns once ticket t was folded, or with ctx's error.
func (f *Follower) WaitFor(ctx context.Context, t queue.Ticket) error {
	f.mu.Lock()
	f.waiters++
	for f.ledger.State().Seq < t {
		changed := f.changed
		f.mu.Unlock()
		select {
		case <-changed:
			f.mu.Lock()
		case <-ctx.Done():
			f.mu.Lock()
			f.waiters--
			f.mu.Unlock()
			return ctx.Err()
		}
	}
	f.waiters--
	f.mu.Unlock()
	return nil
}

// Fresh is how far the log had been read a moment (Grace) ago: a view that is behind it is behind, and not just on its way.
func (f *Follower) Fresh(now time.Time) queue.Ticket {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.marks.before(now.Add(-Grace))
}

// Batch is one Admitted record as it bears on the pace.
type Batch struct {
	AtMs   int64 // the broker's time
	People int
}

// Recent are the batches of the last second before the broker's time atMs, valid or not.
func (f *Follower) Recent(atMs int64) []Batch {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.pace.since(atMs - 1000)
}

// Rate is the people a second that full batches (fullBatch people or more) came to over the last minute; ok is false where
// too little was seen. Batches that the line was too short to fill say nothing about how fast it moves. With fullBatch 0 it is all
// people over all of the time up to now: where a capacity decides how many go, and how long nobody does.
func (f *Follower) Rate(now time.Time, fullBatch int) (perSecond float64, ok bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if fullBatch == 0 {
		return f.pace.overall(now.UnixMilli()-60_000, now.UnixMilli())
	}
	return f.pace.rate(now.UnixMilli()-60_000, fullBatch)
}

// Claim is the latest claim that was read.
func (f *Follower) Claim() queue.Record {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.ledger.Claim()
}

// Digest is the fingerprint of the line; "" where only the ledger is kept.
func (f *Follower) Digest() string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.line == nil {
		return ""
	}
	return f.line.Digest()
}

// Place finds one visitor in the line, at one moment with what else is known. Only of a Follower that keeps the line.
func (f *Follower) Place(_ context.Context, v queue.Visitor) (queue.Moment, queue.Place, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	p, _ := f.line.Place(v)
	return queue.Moment{State: f.ledger.State(), Total: f.line.Total()}, p, nil
}

// Waiting is how many wait by the log. Only of a Follower that keeps the line.
func (f *Follower) Waiting() int64 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.line.Total()
}

// Active is how many admissions hold at nowMs, Unix milliseconds by the broker's clock, those included that ended less than leeway
// ago: see line.Ledger.Active. Time that goes back counts as standing still.
func (f *Follower) Active(nowMs int64, leeway time.Duration) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ledger.Active(nowMs, leeway.Milliseconds())
}

// Live is what there is to see of a queue at one moment. Only of a Follower that keeps the line.
type Live struct {
	State    queue.State
	Counts   line.Counts
	Waiting  int64
	Active   int64   // admissions that take a place of the capacity: as a leader counts them, for pass.Leeway after their end, too
	OldestMs int64   // how long who comes first has waited, to about a second; 0 where nobody waits
	Rate     float64 // people a second, over the last minute
}

// Live tells how the queue does at now.
func (f *Follower) Live(now time.Time) Live {
	f.mu.RLock()
	defer f.mu.RUnlock()
	l := Live{State: f.ledger.State(), Counts: f.ledger.Counts(), Active: f.ledger.Holding(now.Add(-pass.Leeway).UnixMilli())}
	for _, b := range f.pace.since(now.UnixMilli() - 60_000) {
		l.Rate += float64(b.People) / 60
	}
	if f.line != nil {
		l.Waiting = f.line.Total()
		if head, ok := f.line.Head(); ok {
			l.OldestMs = max(1, now.UnixMilli()-f.times.of(l.State.Draw.Ticket(head)))
		}
	}
	return l
}

// Admit hands out the next batch from the line. Only of a Follower that keeps the line.
func (f *Follower) Admit(_ context.Context, ask queue.Ask, _ queue.Settings) ([]queue.Person, queue.Reason, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	people, why := f.line.Admit(ask)
	return people, why, nil
}
