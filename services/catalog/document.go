package catalog

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Document is a queue as it is shown. It is what the HTTP API answers, and what the record of changes holds; so a field may come,
// and none may go or change its meaning.
type Document struct {
	ID       queue.ID `json:"id"`
	Version  int64    `json:"version,omitzero"`
	Made     int64    `json:"made,omitzero"`
	State    State    `json:"state"`
	Settings Settings `json:"settings"`

	Paused     bool   `json:"paused"`
	Closed     bool   `json:"closed"`
	Ending     bool   `json:"ending"`
	Reason     string `json:"reason,omitempty"`
	Commitment string `json:"commitment,omitempty"`
	Live       *Live  `json:"live,omitempty"`
}

// State says in one word how a queue stands.
type State string

// The states. Of several that hold, the first one counts.
const (
	Deleting State = "deleting" // it is being deleted
	Ended    State = "ended"    // closed, and who waited is not let through any more
	Closed   State = "closed"   // nobody is taken into the line; who waits is let through
	Paused   State = "paused"   // nobody is let in; who waits keeps the place
	NotOpen  State = "not_open" // before its opening
	Open     State = "open"
)

// States lists all of them.
func States() []State { return []State{Deleting, Ended, Closed, Paused, NotOpen, Open} }

// Live is how a line goes at the moment, as far as the process that answers knows.
type Live struct {
	Waiting int64   `json:"waiting"`                 // people in line
	Active  int64   `json:"active"`                  // admissions that take a place: they hold, or ended less than 30 s ago
	Served  int64   `json:"served"`                  // the highest number admitted
	Rate    float64 `json:"ratePerSecond"`           // people let in, over the last minute
	Skip    string  `json:"nobodyBecause,omitempty"` // why nobody is let in just now; "" if somebody is
}

// Settings are queue.Settings as JSON. Times are RFC 3339 or null, durations as in "100ms", "5m0s".
type Settings struct {
	Rate             float64     `json:"rate"`
	Interval         string      `json:"interval"`
	ConservativeRate float64     `json:"conservativeRate"`
	MaxActive        int64       `json:"maxActive"`
	GrantTTL         string      `json:"grantTtl"`
	Reentry          string      `json:"reentry"`
	OpensAt          *string     `json:"opensAt"`
	ClosesAt         *string     `json:"closesAt"`
	Order            string      `json:"order"`
	AdmitTo          string      `json:"admitTo"`
	Message          string      `json:"message"`
	Polling          []PollStep  `json:"polling"`
	ApproximateSizes []RoundStep `json:"approximateSizes"`
}

// PollStep is one line of the polling table; without a position it is for everybody behind.
type PollStep struct {
	Position   *int64 `json:"position"`
	IntervalMs int64  `json:"intervalMs"`
	JitterMs   int64  `json:"jitterMs"`
}

// RoundStep is one size of the approximate mode.
type RoundStep struct {
	Ahead   int64 `json:"ahead"`
	RoundTo int64 `json:"roundTo"`
}

// Show makes the document of e at now. Its sealed seed is left out.
func Show(e *queue.Entry, now time.Time) Document {
	return Document{
		ID: e.ID, Version: e.Version, Made: e.Made, State: StateOf(e, now), Settings: ShowSettings(e.Settings),
		Paused: e.Paused, Closed: e.Closed, Ending: e.Ending, Reason: e.Why, Commitment: e.Commitment,
	}
}

// StateOf says in one word how e stands at now.
func StateOf(e *queue.Entry, now time.Time) State {
	ms := now.UnixMilli()
	takes, _ := e.TakesEntries(ms)
	switch {
	case e.Deleting:
		return Deleting
	case e.Closed && e.Ending:
		return Ended
	case !takes:
		return Closed
	case e.Paused:
		return Paused
	case !e.Settings.Opened(ms):
		return NotOpen
	}
	return Open
}

// ShowSettings makes the JSON form of s.
func ShowSettings(s queue.Settings) Settings {
	d := Settings{
		Rate: s.Rate, Interval: s.Interval.String(), ConservativeRate: s.ConservativeRate, MaxActive: s.MaxActive, GrantTTL: s.GrantTTL.String(),
		Reentry: s.Reentry.String(), OpensAt: showTime(s.OpensAtMs), ClosesAt: showTime(s.ClosesAtMs), Order: s.Order.String(),
		AdmitTo: s.AdmitTo, Message: s.Message, Polling: make([]PollStep, 0, len(s.Polling)), ApproximateSizes: make([]RoundStep, 0, len(s.Rounding)),
	}
	for _, p := range s.Polling {
		step := PollStep{IntervalMs: p.Interval.Milliseconds(), JitterMs: p.Jitter.Milliseconds()}
		if p.Position != queue.LastPosition {
			step.Position = &p.Position
		}
		d.Polling = append(d.Polling, step)
	}
	for _, r := range s.Rounding {
		d.ApproximateSizes = append(d.ApproximateSizes, RoundStep{r.Ahead, r.To})
	}
	return d
}

func showTime(ms int64) *string {
	if ms == 0 {
		return nil
	}
	t := time.UnixMilli(ms).UTC().Format(time.RFC3339Nano)
	return &t
}

// DefaultConservative is the conservative rate of a queue of which only the rate is said.
func DefaultConservative(rate float64) float64 {
	def := queue.DefaultSettings().ConservativeRate
	if rate < queue.MinRate { // a mistake, and there need not be two
		return def
	}
	return min(def, rate)
}

// ReadSettings reads settings as JSON, {} or nothing being all defaults. order is what is meant where none is told. The mistakes are
// all there are, each naming the setting and its limit; the settings count only where there is none.
func ReadSettings(raw jsontext.Value, order queue.Order) (s queue.Settings, mistakes []string) {
	s = queue.DefaultSettings()
	s.Order = order
	var given map[string]jsontext.Value
	if raw != nil {
		if err := json.Unmarshal(raw, &given); err != nil || given == nil {
			return s, []string{"settings is an object"}
		}
	}
	r := reading{given: given}
	r.rate("rate", &s.Rate)
	r.duration("interval", &s.Interval)
	if _, told := given["conservativeRate"]; !told {
		s.ConservativeRate = DefaultConservative(s.Rate)
	}
	r.rate("conservativeRate", &s.ConservativeRate)
	read(&r, "maxActive", "a whole number", &s.MaxActive)
	r.duration("grantTtl", &s.GrantTTL)
	word(&r, "reentry", queue.ParseReentry, &s.Reentry)
	r.time("opensAt", &s.OpensAtMs)
	r.time("closesAt", &s.ClosesAtMs)
	word(&r, "order", queue.ParseOrder, &s.Order)
	read(&r, "admitTo", "a string", &s.AdmitTo)
	read(&r, "message", "a string", &s.Message)
	r.polling(&s)
	r.rounding(&s)
	for _, name := range slices.Sorted(maps.Keys(r.given)) {
		r.bad("there is no setting %.80q", name)
	}
	if len(r.failed) == 0 {
		return s, append(r.mistakes, complaints(s.Validate())...)
	}
	// What could not be read has its default now, and is not to be complained about twice, nor with what depends on it.
	for _, c := range complaints(s.Validate()) {
		if !slices.ContainsFunc(r.failed, func(name string) bool { return strings.Contains(c, spoken[name]) }) {
			r.mistakes = append(r.mistakes, c)
		}
	}
	return s, r.mistakes
}

// spoken is how queue.Settings.Validate calls what is named otherwise here.
var spoken = map[string]string{
	"rate": "rate", "interval": "interval", "conservativeRate": "rate", "maxActive": "max active", "grantTtl": "grant TTL", "reentry": "re-entry",
	"opensAt": "open", "closesAt": "closes", "order": "order", "admitTo": "admit to", "message": "message", "polling": "polling", "approximateSizes": "sizes",
}

// complaints are the errors that were joined in err, one by one.
func complaints(err error) []string {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []string{err.Error()}
	}
	var all []string
	for _, e := range joined.Unwrap() {
		all = append(all, e.Error())
	}
	return all
}

// reading takes the settings out of what is given, one by one.
type reading struct {
	given    map[string]jsontext.Value
	failed   []string // the names of those that can't be read
	mistakes []string
}

func (r *reading) bad(format string, a ...any) {
	r.mistakes = append(r.mistakes, fmt.Sprintf(format, a...))
}

func (r *reading) wrong(name, what string, raw jsontext.Value) {
	r.failed = append(r.failed, name)
	r.bad("%s is %s, not %.80s", name, what, raw)
}

// read takes the setting called name into v, strictly; null is no value of it.
func read[T any](r *reading, name, what string, v *T) (ok bool) {
	raw, told := r.given[name]
	if !told {
		return false
	}
	delete(r.given, name)
	var got T
	if raw.Kind() == 'n' || json.Unmarshal(raw, &got, json.RejectUnknownMembers(true)) != nil {
		r.wrong(name, what, raw)
		return false
	}
	*v = got
	return true
}

func (r *reading) rate(name string, v *float64) {
	raw := r.given[name]
	if !read(r, name, "a number of people a second", v) {
		return
	}
	if math.IsInf(*v, 0) {
		r.wrong(name, "a number of people a second", raw)
	}
}

func word[T any](r *reading, name string, parse func(string) (T, error), v *T) {
	var s string
	raw := r.given[name]
	if !read(r, name, "a string", &s) {
		return
	}
	got, err := parse(s)
	if err != nil {
		r.failed = append(r.failed, name)
		r.bad("%s: %v", name, err)
		return
	}
	_, *v = raw, got
}

func (r *reading) duration(name string, v *time.Duration) {
	const what = `a duration as "100ms" or "5m"`
	var s string
	raw := r.given[name]
	if !read(r, name, what, &s) {
		return
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		r.wrong(name, what, raw)
		return
	}
	if d%time.Millisecond != 0 {
		r.wrong(name, "a whole number of milliseconds", raw)
		return
	}
	*v = d
}

func (r *reading) time(name string, v *int64) {
	const what = `a time as "2026-11-30T10:00:00Z", or null`
	raw := r.given[name]
	if raw.Kind() == 'n' {
		delete(r.given, name)
		return // none, which is the default
	}
	var s string
	if !read(r, name, what, &s) {
		return
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || t.UnixMilli() <= 0 {
		r.wrong(name, what, raw)
		return
	}
	*v = t.UnixMilli()
}

func (r *reading) polling(s *queue.Settings) {
	var steps []PollStep
	if !read(r, "polling", `a list of {"position": a whole number or null, "intervalMs", "jitterMs"}`, &steps) {
		return
	}
	s.Polling = make([]queue.PollStep, 0, len(steps))
	for _, p := range steps {
		step := queue.PollStep{Position: queue.LastPosition, Interval: millis(p.IntervalMs), Jitter: millis(p.JitterMs)}
		if p.Position != nil {
			step.Position = *p.Position
		}
		s.Polling = append(s.Polling, step)
	}
}

func (r *reading) rounding(s *queue.Settings) {
	var sizes []RoundStep
	if !read(r, "approximateSizes", `a list of {"ahead", "roundTo"}`, &sizes) {
		return
	}
	s.Rounding = nil
	for _, z := range sizes {
		s.Rounding = append(s.Rounding, queue.RoundStep{Ahead: z.Ahead, To: z.RoundTo})
	}
}

// millis is ms milliseconds, or as long as a duration can be, so that a number of any size is out of the limits and none comes
// round to be within.
func millis(ms int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Millisecond)
	return time.Duration(max(-most, min(ms, most))) * time.Millisecond
}
