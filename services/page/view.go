package page

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// answer is what GET /queue/position says, as far as a page shows it.
type answer struct {
	State          string `json:"state"`
	Position       int64  `json:"position"`
	Ahead          *int64 `json:"ahead"`
	Behind         *int64 `json:"behind"`
	Total          int64  `json:"total"`
	Ticket         int64  `json:"ticket"`
	Number         int64  `json:"number"`
	NowServing     *int64 `json:"nowServing"`
	EtaSeconds     *int64 `json:"etaSeconds"`
	OpensAt        string `json:"opensAt"`
	OpensInSeconds int64  `json:"opensInSeconds"`
	Order          string `json:"order"`
	Commitment     string `json:"commitment"`
	Paused         bool   `json:"paused"`
	Message        string `json:"message"`
	Precision      string `json:"precision"`
	Token          string `json:"token"`
	ExpiresAt      string `json:"expiresAt"`
	AdmitTo        string `json:"admitTo"`
	Reason         string `json:"reason"`
	RetryAfterMs   int64  `json:"retryAfterMs"`

	Code string `json:"code"` // of a problem
}

// The views: what the page shows as a whole. Each has a title and a text in the files of words. page.ts has the same list.
const (
	entering  = "entering"
	waiting   = "waiting"
	paused    = "paused"
	notOpen   = "notopen"
	draw      = "draw"
	turn      = "turn"
	expired   = "expired"
	left      = "left"
	released  = "released"
	soldOut   = "sold_out"
	ended     = "ended"
	shut      = "shut"
	unknown   = "unknown"
	notIn     = "plain"  // without scripts: nobody enters by looking
	failed    = "failed" // without scripts: an entry that is not known to count
	refused   = "refused"
	badReturn = "badreturn"
	badLang   = "badlang"
)

// viewOf says which view shows a.
func viewOf(a answer) string {
	switch a.State {
	case "admitted":
		return turn
	case "over":
		switch a.Reason {
		case expired, left, released, soldOut:
			return a.Reason
		}
		return ended
	case "closed":
		if a.Reason == soldOut {
			return soldOut
		}
		return shut
	case failed:
		return failed
	case "refused":
		if a.Code == "queue_unknown" {
			return unknown
		}
		return refused
	case "waiting":
		switch {
		case a.Order == draw:
			return draw
		case a.OpensAt != "":
			return notOpen
		case a.Paused:
			return paused
		}
		return waiting
	}
	return entering
}

// values are what texts say of a, by name; page.ts makes the same ones.
func (w *words) values(a answer, now time.Time) map[string]string {
	v := map[string]string{}
	num := func(name string, n *int64) {
		if n != nil {
			v[name] = w.number(*n)
		}
	}
	positive := func(name string, n int64) {
		if n > 0 {
			v[name] = w.number(n)
		}
	}
	num("ahead", a.Ahead)
	if a.Precision != "approximate" { // a bound is said as one, and nothing that sounds surer beside it
		positive("position", a.Position)
		if a.Position > 0 {
			v["ordinal"] = w.ordinal(a.Position)
		}
		num("behind", a.Behind)
		positive("total", a.Total)
	}
	positive("ticket", a.Ticket)
	positive("number", a.Number)
	if a.OpensAt == "" { // before that, nobody is served
		num("nowServing", a.NowServing)
	}
	if a.EtaSeconds != nil {
		v["wait"] = w.wait(*a.EtaSeconds)
	}
	v["commitment"] = a.Commitment
	v["message"] = a.Message
	v["code"] = a.Code
	if t, err := time.Parse(time.RFC3339, a.OpensAt); err == nil {
		v["opensAt"] = w.date(t)
		v["countdown"] = w.clock(time.Duration(a.OpensInSeconds) * time.Second)
	}
	if t, err := time.Parse(time.RFC3339, a.ExpiresAt); err == nil {
		v["left"] = w.clock(t.Sub(now))
	}
	return v
}

// wait is a wait as a range: nobody knows it better, and "8 minutes" would be held against us.
func (w *words) wait(seconds int64) string {
	name, unit := "wait.minutes", int64(60)
	switch {
	case seconds < 60:
		return w.Text["wait.soon"]
	case seconds >= 100*60:
		name, unit = "wait.hours", 3600
	}
	low := max(seconds*9/(10*unit), 1)
	high := max((seconds*11+10*unit-1)/(10*unit), low+1)
	return w.say(name, map[string]string{"low": w.number(low), "high": w.number(high)})
}

// date writes a moment. The reader's own time of day is known to browsers alone, so it is that of the world, and says so.
func (w *words) date(t time.Time) string {
	t = t.UTC()
	v := map[string]string{"year": t.Format("2006"), "month": t.Format("1"), "day": t.Format("2"), "time": t.Format("15:04")}
	return w.say("date", v)
}

// clock writes a time that is left: "4:59", "1:02:03", or with days "3d 1:02:03".
func (w *words) clock(d time.Duration) string {
	s := max(int64(math.Ceil(d.Seconds())), 0)
	days, h, m, s := s/86400, s/3600%24, s/60%60, s%60
	var b strings.Builder
	if days > 0 {
		b.WriteString(w.say("days", map[string]string{"n": w.number(days)}))
	}
	if days > 0 || h > 0 {
		fmt.Fprintf(&b, "%d:%02d:%02d", h, m, s)
	} else {
		fmt.Fprintf(&b, "%d:%02d", m, s)
	}
	return b.String()
}

// from reads what the client would tell.
func (a *answer) from(told map[string]any) {
	b, err := json.Marshal(told)
	if err == nil {
		_ = json.Unmarshal(b, a) // ours, in preview.go
	}
}
