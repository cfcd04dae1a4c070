package queue

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
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

// Order says in which order those who entered before the opening are let in. Who comes later follows in order of arrival.
type Order uint8

// The opening orders. The zero value is the default.
const (
	Arrival Order = iota
	ByDraw        // by lot
)

func (o Order) String() string {
	if o == ByDraw {
		return "draw"
	}
	return "arrival"
}

// ParseOrder reads "arrival" or "draw".
func ParseOrder(s string) (Order, error) {
	switch s {
	case "arrival":
		return Arrival, nil
	case "draw":
		return ByDraw, nil
	}
	return Arrival, fmt.Errorf("the opening order is arrival or draw, not %.40q", s)
}

// Settings of one queue: what its operators say.
type Settings struct {
	Rate             float64       // people a second, at most; fractions are carried
	Interval         time.Duration // between two batches
	ConservativeRate float64       // what a wait is reckoned at when only the log is known; at most Rate
	MaxActive        int64         // admissions that hold at one time, at most; 0: as many as the rate gives
	GrantTTL         time.Duration // how long an admission lasts
	Reentry          Reentry
	OpensAtMs        int64  // nobody is let in before, Unix milliseconds; 0: open from the start
	ClosesAtMs       int64  // nobody is taken into the line from then on; 0: never. Who waits is let through
	Order            Order  // of the opening; fixed when the queue is made
	AdmitTo          string // where to send who is admitted: a URL (http, https), or a path; "" leaves it to the client
	Message          string // shown to those who wait
	Polling          []PollStep
	Rounding         []RoundStep // of approximate positions; empty: as they are
}

// RoundStep is one size of the approximate mode: up to Ahead people ahead, the number is rounded up to a multiple of To.
type RoundStep struct {
	Ahead int64
	To    int64
}

// The limits of Settings.
const (
	MaxRate      = 10_000.0
	MinRate      = 0.001
	MinInterval  = 10 * time.Millisecond
	MaxInterval  = 10 * time.Second
	MinGrantTTL  = time.Second
	MaxGrantTTL  = 24 * time.Hour
	MaxMaxActive = 10_000_000
	MaxMessage   = 500  // characters
	MaxAdmitTo   = 2000 // bytes
	MaxSteps     = 16   // of the polling table, and of the sizes of the approximate mode
	MinPoll      = 500 * time.Millisecond
	MaxPoll      = 10 * time.Minute
)

// DefaultSettings are those of a queue of which nothing is said: 175 a second as 17 and 18 people each 100 ms.
func DefaultSettings() Settings {
	return Settings{Rate: 175, Interval: 100 * time.Millisecond, ConservativeRate: 120, GrantTTL: 300 * time.Second, Polling: DefaultPolling()}
}

// PerBatch is the share of one interval, with its fraction.
func (s Settings) PerBatch() float64 { return s.Rate * s.Interval.Seconds() }

// Equal says that both are the same.
func (s Settings) Equal(o Settings) bool {
	p, q, r, t := s.Polling, o.Polling, s.Rounding, o.Rounding
	s.Polling, o.Polling, s.Rounding, o.Rounding = nil, nil, nil, nil
	same := len(p) == len(q) && len(r) == len(t) && reflect.DeepEqual(s, o)
	for i := range p {
		same = same && p[i] == q[i]
	}
	for i := range r {
		same = same && r[i] == t[i]
	}
	return same
}

// Opened says that the queue lets people in at nowMs, Unix milliseconds, as far as its opening goes.
func (s Settings) Opened(nowMs int64) bool { return nowMs >= s.OpensAtMs }

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
	if intervalOK && s.Interval%time.Millisecond != 0 {
		bad("interval is a whole number of milliseconds, not %v", s.Interval)
	}
	if rateOK && intervalOK && math.Ceil(s.PerBatch()) > MaxBatch {
		bad("rate × interval is at most %d people a batch, not %v: take a shorter interval", MaxBatch, s.PerBatch())
	}
	if !(s.ConservativeRate >= MinRate && s.ConservativeRate <= MaxRate) {
		bad("conservative rate is %v to %v people a second, not %v", MinRate, MaxRate, s.ConservativeRate)
	} else if rateOK && s.ConservativeRate > s.Rate {
		bad("conservative rate is at most the rate (%v), not %v: people would be told less than they wait", s.Rate, s.ConservativeRate)
	}
	if s.MaxActive < 0 || s.MaxActive > MaxMaxActive {
		bad("max active is 1 to %d admissions, or 0 for no limit, not %d", MaxMaxActive, s.MaxActive)
	}
	if s.GrantTTL < MinGrantTTL || s.GrantTTL > MaxGrantTTL {
		bad("grant TTL is %v to %v, not %v", MinGrantTTL, MaxGrantTTL, s.GrantTTL)
	} else if s.GrantTTL%time.Millisecond != 0 {
		bad("grant TTL is a whole number of milliseconds, not %v", s.GrantTTL)
	}
	if s.Reentry > Keep {
		bad("re-entry rule is back or keep")
	}
	if s.Order > ByDraw {
		bad("opening order is arrival or draw")
	} else if s.Order == ByDraw && s.OpensAtMs == 0 {
		bad("opening order draw needs a time of opening: lots are drawn among those who entered before it")
	}
	if s.OpensAtMs < 0 || s.OpensAtMs > maxTimeMs {
		bad("opens at is a time from 1970 to 9999")
	}
	if s.ClosesAtMs < 0 || s.ClosesAtMs > maxTimeMs {
		bad("closes at is a time from 1970 to 9999")
	}
	if s.ClosesAtMs > 0 && s.ClosesAtMs <= s.OpensAtMs {
		bad("closes at (%s) is after opens at (%s)", clock(s.ClosesAtMs), clock(s.OpensAtMs))
	}
	if err := checkAdmitTo(s.AdmitTo); err != nil {
		bad("%w", err)
	}
	if err := CheckMessage(s.Message); err != nil {
		bad("%w", err)
	}
	if err := checkPolling(s.Polling); err != nil {
		bad("%w", err)
	}
	if err := checkRounding(s.Rounding); err != nil {
		bad("%w", err)
	}
	return errors.Join(errs...)
}

// maxTimeMs is the end of the year 9999, Unix milliseconds.
const maxTimeMs = 253_402_300_799_999

func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

func checkAdmitTo(s string) error {
	if s == "" {
		return nil
	}
	if len(s) > MaxAdmitTo {
		return fmt.Errorf("admit to has at most %d bytes, not %d", MaxAdmitTo, len(s))
	}
	u, err := url.Parse(s)
	ok := err == nil && u.User == nil && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' })
	switch {
	case ok && u.Scheme == "" && u.Host == "" && strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "//"):
	case ok && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "":
	default:
		return fmt.Errorf("admit to is a URL with http or https, or a path that begins with one /, not %.80q", s)
	}
	return nil
}

// CheckMessage checks what is shown to those who wait: at most MaxMessage characters of text, line breaks among them.
func CheckMessage(s string) error {
	switch n := utf8.RuneCountInString(s); {
	case n > MaxMessage:
		return fmt.Errorf("message has at most %d characters, not %d", MaxMessage, n)
	case !utf8.ValidString(s):
		return errors.New("message is UTF-8; this one is not")
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }):
		return errors.New("message has no control characters but line breaks")
	}
	return nil
}

func checkPolling(table []PollStep) error {
	if len(table) == 0 || len(table) > MaxSteps {
		return fmt.Errorf("polling has 1 to %d steps, not %d", MaxSteps, len(table))
	}
	before := int64(0)
	for i, s := range table {
		switch {
		case s.Position <= before:
			return fmt.Errorf("polling: step %d is for positions up to %d, and the one before it up to %d: they grow", i+1, s.Position, before)
		case s.Interval < MinPoll || s.Interval > MaxPoll:
			return fmt.Errorf("polling: the interval of step %d is %v to %v, not %v", i+1, MinPoll, MaxPoll, s.Interval)
		case s.Jitter < 0 || s.Jitter > s.Interval/2:
			return fmt.Errorf("polling: the jitter of step %d is 0 to half of its interval, not %v", i+1, s.Jitter)
		}
		before = s.Position
	}
	if before != LastPosition {
		return fmt.Errorf("polling: the last step is for everybody behind, so it has no position")
	}
	return nil
}

func checkRounding(sizes []RoundStep) error {
	if len(sizes) > MaxSteps {
		return fmt.Errorf("sizes of the approximate mode are at most %d, not %d", MaxSteps, len(sizes))
	}
	before := int64(0)
	for i, s := range sizes {
		if s.Ahead <= before {
			return fmt.Errorf("sizes of the approximate mode: size %d is for up to %d ahead, and the one before it up to %d: they grow", i+1, s.Ahead, before)
		}
		if s.To < 1 || s.To > 100_000 {
			return fmt.Errorf("sizes of the approximate mode: size %d rounds up to a multiple of 1 to 100000, not %d", i+1, s.To)
		}
		before = s.Ahead
	}
	return nil
}
