package queue

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Reentry says what entering again does to somebody who waits.
type Reentry uint8

// The re-entry rules. The zero value is the default.
const (
	Back Reentry = iota // a refresh moves back: the new ticket counts
	Keep                // the first ticket is kept
)

func (r Reentry) String() string {
	if r == Keep {
		return "keep"
	}
	return "back"
}

// ParseReentry reads "back" or "keep".
func ParseReentry(s string) (Reentry, error) {
	switch s {
	case "back":
		return Back, nil
	case "keep":
		return Keep, nil
	}
	return Back, fmt.Errorf("the re-entry rule is back or keep, not %.40q", s)
}

// Settings of one queue.
type Settings struct {
	Rate             float64       // people a second, at most; fractions are carried
	Interval         time.Duration // between two batches
	ConservativeRate float64       // what a wait is reckoned at when only the log is known; at most Rate
	GrantTTL         time.Duration // how long an admission lasts
	Reentry          Reentry
}

// The limits of Settings.
const (
	MaxRate     = 10_000.0
	MinRate     = 0.001
	MinInterval = 10 * time.Millisecond
	MaxInterval = 10 * time.Second
	MinGrantTTL = time.Second
	MaxGrantTTL = 24 * time.Hour
)

// DefaultSettings are those of a queue of which nothing is said: 175 a second as 17 and 18 people each 100 ms.
func DefaultSettings() Settings {
	return Settings{Rate: 175, Interval: 100 * time.Millisecond, ConservativeRate: 120, GrantTTL: 300 * time.Second}
}

// PerBatch is the share of one interval, with its fraction.
func (s Settings) PerBatch() float64 { return s.Rate * s.Interval.Seconds() }

// Validate returns every mistake at once, each naming the setting and its limit.
func (s Settings) Validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	rateOK := s.Rate >= MinRate && s.Rate <= MaxRate // false for NaN too
	if !rateOK {
		bad("rate is %v to %v people a second, not %v", MinRate, MaxRate, s.Rate)
	}
	intervalOK := s.Interval >= MinInterval && s.Interval <= MaxInterval
	if !intervalOK {
		bad("interval is %v to %v, not %v", MinInterval, MaxInterval, s.Interval)
	}
	if rateOK && intervalOK && math.Ceil(s.PerBatch()) > MaxBatch {
		bad("rate × interval is at most %d people a batch, not %v: take a shorter interval", MaxBatch, s.PerBatch())
	}
	if !(s.ConservativeRate >= MinRate && s.ConservativeRate <= MaxRate) {
		bad("conservative rate is %v to %v people a second, not %v", MinRate, MaxRate, s.ConservativeRate)
	} else if rateOK && s.ConservativeRate > s.Rate {
		bad("conservative rate is at most the rate (%v), not %v: people would be told less than they wait", s.Rate, s.ConservativeRate)
	}
	if s.GrantTTL < MinGrantTTL || s.GrantTTL > MaxGrantTTL {
		bad("grant TTL is %v to %v, not %v", MinGrantTTL, MaxGrantTTL, s.GrantTTL)
	}
	if s.Reentry > Keep {
		bad("re-entry rule is back or keep")
	}
	return errors.Join(errs...)
}
