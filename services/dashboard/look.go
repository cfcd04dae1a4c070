package dashboard

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/catalog"
)

// row is a queue at a glance. What is null is not known to this process.
type row struct {
	ID        queue.ID      `json:"id"`
	Version   int64         `json:"version"`
	State     catalog.State `json:"state"`
	Paused    bool          `json:"paused"`           // whatever the state: what is paused and then closed is both
	Reason    string        `json:"reason,omitempty"` // of closing
	Target    float64       `json:"target"`           // people a second
	MaxActive int64         `json:"maxActive"`        // 0: no limit
	OpensAt   *string       `json:"opensAt"`
	Waiting   *int64        `json:"waiting"`
	Active    *int64        `json:"active"`
	Rate      *float64      `json:"rate"` // people a second, over the last ten
	OldestMs  *int64        `json:"oldestMs"`
	Why       string        `json:"why,omitempty"`     // nobody is let in
	Elsewhere bool          `json:"elsewhere"`         // another process leads it, if any: why nobody is let in isn't known here
	Mode      string        `json:"mode,omitempty"`    // redis or direct, as the log says
	Outage    bool          `json:"outage"`            // direct, though there is a shared view
	Trouble   string        `json:"trouble,omitempty"` // of the log: "trimmed" and so on, or unreadable
	Detail    string        `json:"detail,omitempty"`  // of the trouble, for who mends it
}

// details are what is shown of one queue besides.
type details struct {
	ID          queue.ID `json:"id"`
	HalfMs      *int64   `json:"halfMs"` // half of those in line have waited no longer
	NineMs      *int64   `json:"nineMs"` // nine in ten
	Most        *int64   `json:"mostMs"` // 99 in 100
	Served      *int64   `json:"served"`
	Seq         *int64   `json:"seq"`
	Behind      *int64   `json:"behind"` // records that the shared view has not met yet
	Shared      bool     `json:"shared"` // there is a shared view
	Leader      string   `json:"leader,omitempty"`
	LeaderSince int64    `json:"leaderSinceMs,omitempty"`
	ModeSince   int64    `json:"modeSinceMs,omitempty"`
	Outages     []outage `json:"outages"` // oldest first
	Entered     *int64   `json:"entered"` // since the log began
	Moved       *int64   `json:"moved"`
	Admitted    *int64   `json:"admitted"`
	BeganMs     int64    `json:"beganMs"` // since when this process takes samples
}

// outage is a time in which the leader went on without the shared view. ToMs is 0 while it goes on.
type outage struct {
	FromMs int64 `json:"fromMs"`
	ToMs   int64 `json:"toMs"`
}

// unreadable is the trouble of a log that could not be read yet; the others are those of linelog.
const unreadable = "unreadable"

// outages is how many are kept of a queue.
const outages = 20

// watched is one queue as the service follows it. All of it is behind the service's lock.
type watched struct {
	made    int64
	history history
	told    []byte // the row as JSON
	turn    int64  // of the look in which it changed last

	claim     queue.Ticket // the latest that was looked at
	mode      queue.Mode
	modeSince int64
	outages   []outage

	behind    int64 // -1: not known
	behindSeq queue.Ticket
}

// rateOver is what "a second" is averaged over, and settled how long a batch may take from the log to this process.
const (
	rateOver = 10 * time.Second
	settled  = time.Second
)

// look looks at all queues once, wakes the streams, and keeps a sample where it is due.
func (s *Service) look(ctx context.Context, now time.Time, due bool) {
	entries := s.cfg.Queues()
	var lags map[queue.ID]int64
	if due {
		lags = s.lags(ctx, entries, now)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn++
	over := s.cfg.Sample
	if due {
		if s.samples > 0 { // so that each batch counts once, though looks come late
			over = max(over/2, min(now.Sub(time.UnixMilli(s.times[s.samples%kept])), 10*over))
		}
		s.samples++
		s.times[s.samples%kept] = now.UnixMilli()
	}
	there := make(map[queue.ID]bool, len(entries))
	for _, e := range entries {
		there[e.ID] = true
		w := s.watched[e.ID]
		if w == nil || w.made != e.Made {
			w = &watched{made: e.Made, behind: -1}
			s.watched[e.ID] = w
			s.setTurn = s.turn
		}
		reading, ok := s.reading(e.ID)
		if due {
			if lag, asked := lags[e.ID]; asked {
				w.behind = lag
			}
			p := unknown
			if ok {
				w.follow(reading.Claim(), s.cfg.Applied != nil, s.began.UnixMilli())
				p = take(reading, now, over)
				p.behind = small(w.behind)
			}
			w.history.add(s.samples, p)
		}
		told, err := json.Marshal(s.row(e, reading, ok, now))
		if err != nil {
			s.logger.Error("a queue can't be shown on the dashboard", zap.String("queue", string(e.ID)), zap.Error(err))
			continue
		}
		if !bytes.Equal(told, w.told) {
			w.told, w.turn = told, s.turn
		}
	}
	for id := range s.watched {
		if !there[id] {
			delete(s.watched, id)
			s.setTurn = s.turn
		}
	}
	close(s.looked)
	s.looked = make(chan struct{})
}

func (s *Service) reading(id queue.ID) (Reading, bool) {
	r, ok := s.cfg.Reading(id)
	return r, ok && r != nil
}

// lags asks how far the shared view is behind, where something has happened since it was asked last. Where nothing has, it asks of one queue all the same,
// in turn: so it is noticed that the view is away, or empty again. After one question without an answer nothing is known, and no other is asked: a view
// that is away must not hold up a thousand queues.
func (s *Service) lags(ctx context.Context, entries []*queue.Entry, now time.Time) map[queue.ID]int64 {
	if s.cfg.Applied == nil {
		return nil
	}
	type question struct {
		id  queue.ID
		seq queue.Ticket
	}
	var anew, again []question
	lags := map[queue.ID]int64{}
	for _, e := range entries {
		reading, ok := s.reading(e.ID)
		if !ok {
			continue
		}
		q := question{e.ID, reading.Live(now).State.Seq}
		s.mu.Lock()
		w := s.watched[e.ID]
		known := w != nil && w.made == e.Made && w.behind == 0 && w.behindSeq == q.seq
		s.mu.Unlock()
		if known {
			again = append(again, q)
		} else {
			anew = append(anew, q)
		}
	}
	ask := func(q question) (ok bool) {
		call, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		applied, err := s.cfg.Applied(call, q.id)
		if err != nil {
			return false
		}
		lags[q.id] = max(0, int64(q.seq-applied))
		s.mu.Lock()
		if w := s.watched[q.id]; w != nil {
			w.behindSeq = q.seq
		}
		s.mu.Unlock()
		return true
	}
	if len(anew) == 0 && len(again) > 0 {
		one := again[s.samples%int64(len(again))]
		switch ok := ask(one); {
		case ok && lags[one.id] == 0:
			return lags
		case ok: // of the others it isn't known any more, either
			anew = again
		default:
			for _, q := range again {
				lags[q.id] = -1
			}
		}
	}
	for i, q := range anew {
		if !ask(q) {
			for _, q := range slices.Concat(anew[i:], again) {
				lags[q.id] = -1
			}
			break
		}
	}
	return lags
}

// take makes a sample; over is the time since the one before.
func take(r Reading, now time.Time, over time.Duration) sample {
	l := r.Live(now)
	p := sample{waiting: -1, oldest: -1, half: -1, nine: -1, active: small(l.Active), rate: float32(rate(r, now, over))}
	if r.KeepsLine() {
		p.waiting, p.oldest, p.half, p.nine = small(l.Waiting), 0, 0, 0
		if l.Waiting > 0 {
			w := r.Waits(now)
			p.oldest, p.half, p.nine = small(l.OldestMs), small(w.P50), small(w.P90)
		}
	}
	return p
}

// rate is people let in a second, by the log's own times: what a process that has just started reads of yesterday doesn't count as now.
func rate(r Reading, now time.Time, over time.Duration) float64 {
	to := now.Add(-settled).UnixMilli()
	from := to - over.Milliseconds()
	n := 0
	for _, b := range r.Recent(from + 1000) { // which goes a second back
		if b.AtMs <= to {
			n += b.People
		}
	}
	return float64(n) / over.Seconds()
}

func (s *Service) row(e *queue.Entry, r Reading, ok bool, now time.Time) row {
	shown := catalog.ShowSettings(e.Settings)
	out := row{ID: e.ID, Version: e.Version, State: catalog.StateOf(e, now), Paused: e.Paused, Reason: e.Why, Target: e.Settings.Rate, MaxActive: e.Settings.MaxActive,
		OpensAt: shown.OpensAt}
	if out.Why = s.cfg.Why(e.ID); out.Why == queue.SkipNotLeading { // which is no reason that holds for the queue
		out.Why, out.Elsewhere = "", true
	}
	if !ok {
		return out
	}
	l := r.Live(now)
	perSecond := math.Round(rate(r, now, rateOver)*10) / 10
	out.Active, out.Rate = &l.Active, &perSecond
	if r.KeepsLine() {
		oldest := l.OldestMs / 1000 * 1000
		out.Waiting, out.OldestMs = &l.Waiting, &oldest
	}
	if perSecond > 0 && out.Why == queue.Paced.String() {
		out.Why = "" // between two batches
	}
	if mode := r.Claim().Mode; mode != queue.ModeUnknown {
		out.Mode = mode.String()
		out.Outage = mode == queue.ModeDirect && s.cfg.Applied != nil
	}
	if err := r.Trouble(); err != nil {
		out.Trouble, out.Detail = unreadable, err.Error()
		var known *linelog.TroubleError
		if errors.As(err, &known) {
			out.Trouble = known.Kind.String()
		}
	}
	return out
}

// details of a queue; false where there is none any more. The service's lock is held.
func (s *Service) details(id queue.ID, now time.Time) (details, bool) {
	w := s.watched[id]
	if w == nil {
		return details{}, false
	}
	d := details{ID: id, Shared: s.cfg.Applied != nil, ModeSince: w.modeSince, Outages: append([]outage{}, w.outages...), BeganMs: s.began.UnixMilli()}
	if d.Shared && w.behind >= 0 {
		d.Behind = &w.behind
	}
	r, ok := s.reading(id)
	if !ok {
		return d, true
	}
	l, c := r.Live(now), r.Claim()
	served, seq := int64(l.State.Served), int64(l.State.Seq)
	d.Served, d.Seq, d.Admitted = &served, &seq, &l.Counts.Admitted
	d.Leader, d.LeaderSince = c.Issuer, c.AtMs
	if r.KeepsLine() {
		d.Entered, d.Moved = &l.Counts.Entered, &l.Counts.Moved
		if l.Waiting > 0 {
			waits := r.Waits(now)
			for _, ms := range []*int64{&waits.P50, &waits.P90, &waits.P99} {
				*ms = *ms / 1000 * 1000
			}
			d.HalfMs, d.NineMs, d.Most = &waits.P50, &waits.P90, &waits.P99
		}
	}
	return d, true
}

// follow notes who leads, and from which view. A claim from before this process began may be one of many that it is reading just now: it counts
// when it is still the latest at the next look.
func (w *watched) follow(c queue.Record, shared bool, beganMs int64) {
	if c.Ticket != w.claim {
		w.claim = c.Ticket
		if c.AtMs < beganMs {
			return
		}
	}
	if c.Ticket == 0 || c.Mode == w.mode {
		return
	}
	if n := len(w.outages); n > 0 && w.outages[n-1].ToMs == 0 {
		w.outages[n-1].ToMs = c.AtMs
	}
	w.mode, w.modeSince = c.Mode, c.AtMs
	if shared && c.Mode == queue.ModeDirect {
		w.outages = append(w.outages, outage{FromMs: c.AtMs})
		if len(w.outages) > outages {
			w.outages = w.outages[1:]
		}
	}
}
