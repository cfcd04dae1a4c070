package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Period is what a queue's operators had set from a moment on, as far as a log can be held against it.
type Period struct {
	FromMs    int64 // Unix milliseconds
	Rate      float64
	Interval  time.Duration
	MaxActive int64 // 0: no limit
	OpensAtMs int64 // 0: open from the start
	Paused    bool
}

// obeyMs is how long after a change its queue may still be led by what was set before: two seconds, and as much again and
// more for the clocks of operators and brokers.
const obeyMs = 5000

// shown is what the audit reads of a queue as the record of changes shows it.
type shown struct {
	Paused     bool   `json:"paused"`
	Commitment string `json:"commitment"`
	Settings   *struct {
		Rate      float64    `json:"rate"`
		Interval  string     `json:"interval"`
		MaxActive int64      `json:"maxActive"`
		OpensAt   *time.Time `json:"opensAt"`
	} `json:"settings"`
}

// History is what the record of changes says of a queue: what was set when, and the commitment to its draw's seed as it was
// published, "" for none. changes are the queue's, newest first, as linelog.Log.Changes returns them; those of earlier queues of the
// name are left out. No change is no history. An error says that one of them can't be read.
func History(changes []queue.Change) (periods []Period, commitment string, err error) {
	for _, c := range changes {
		if c.To == "" {
			break // an earlier queue of the name was removed
		}
		var to shown
		if err := json.Unmarshal([]byte(c.To), &to); err != nil {
			return nil, "", fmt.Errorf("the change %s by %s, %s: %w", c.Action, c.Who, clock(c.AtMs), err)
		}
		p, err := to.period(c.AtMs)
		if err != nil {
			return nil, "", fmt.Errorf("the change %s by %s, %s: %w", c.Action, c.Who, clock(c.AtMs), err)
		}
		periods = append(periods, p)
		commitment = to.Commitment // the first that was published is the one that counts
		if c.From == "" {
			break // it was made by this
		}
	}
	slices.Reverse(periods)
	return periods, commitment, nil
}

func (q *shown) period(atMs int64) (Period, error) {
	if q.Settings == nil {
		return Period{}, errors.New("it shows no settings")
	}
	interval, err := time.ParseDuration(q.Settings.Interval)
	if err != nil {
		return Period{}, fmt.Errorf("its interval: %w", err)
	}
	p := Period{FromMs: atMs, Rate: q.Settings.Rate, Interval: interval, MaxActive: q.Settings.MaxActive, Paused: q.Paused}
	if q.Settings.OpensAt != nil {
		p.OpensAtMs = q.Settings.OpensAt.UnixMilli()
	}
	return p, nil
}

// allowance is the most that was allowed at some time; 0 where it is not known, or there is no limit.
type allowance struct {
	perSecond int64 // people in any one second, as the issuer's pacer has it
	rate      float64
	maxActive int64
	shut      bool // nobody at all, the whole time
}

// allowed is the most that some period allows which was in force between two times, or nearly.
func (c Config) allowed(fromMs, toMs int64) allowance {
	var a allowance
	unlimited := false
	a.shut = len(c.Periods) > 0
	for i, p := range c.Periods {
		if i > 0 && p.FromMs > toMs+obeyMs || i+1 < len(c.Periods) && c.Periods[i+1].FromMs < fromMs-obeyMs {
			continue
		}
		if n := perSecond(p.Rate, p.Interval); n > a.perSecond {
			a.perSecond, a.rate = n, p.Rate
		}
		a.maxActive = max(a.maxActive, p.MaxActive)
		unlimited = unlimited || p.MaxActive == 0
		a.shut = a.shut && (p.Paused || p.OpensAtMs > toMs+obeyMs)
	}
	if unlimited {
		a.maxActive = 0
	}
	if c.Rate > 0 {
		a.perSecond, a.rate = perSecond(c.Rate, c.Interval), c.Rate
	}
	if c.MaxActive > 0 {
		a.maxActive = c.MaxActive
	}
	return a
}

func perSecond(rate float64, interval time.Duration) int64 {
	if rate == 0 {
		return 0
	}
	return int64(math.Ceil(rate + rate*interval.Seconds() - 1e-9))
}

// judgeOpen finds who was let in while nobody was to be.
func judgeOpen(cfg Config, b *book, f *findings) {
	for _, c := range b.batches {
		if cfg.allowed(c.atMs, c.atMs).shut {
			f.addN(NotOpen, c.n, &queue.Record{Ticket: c.ticket, AtMs: c.atMs}, "lets in %s", plural(c.n, "visitor"))
		}
	}
}
