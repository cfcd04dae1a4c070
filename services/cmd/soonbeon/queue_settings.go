package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/soonbeon/soonbeon/services/catalog"
)

// settingFlags are the settings of a queue. None has a default, since one that isn't given is left alone; nor a variable, since the
// services' own are called alike. Limits are the API's to check.
type settingFlags struct {
	Rate             *float64       `help:"People a second, 0.001 to 10000; fractions are carried." env:"-"`
	Interval         *time.Duration `help:"Time between two batches, 10ms to 10s." env:"-"`
	ConservativeRate *float64       `help:"What waits are reckoned at while only the log is known; at most the rate, which takes it along when it is lowered." env:"-"`
	MaxActive        *int64         `help:"Admissions that hold at one time, at most; 0: no limit." env:"-"`
	GrantTTL         *time.Duration `help:"How long an admission lasts, 1s to 24h." name:"grant-ttl" env:"-"`
	Reentry          *string        `help:"What entering again does to who waits: back (to the end of the line) or keep (the place)." env:"-"`
	OpensAt          *string        `help:"When the first are let in, as 2026-11-30T10:00:00+09:00; none: at once." env:"-"`
	ClosesAt         *string        `help:"From when on nobody is taken into the line; none: never." env:"-"`
	AdmitTo          *string        `help:"Where to send who is admitted: a URL or a path; empty leaves it to the client." env:"-"`
	Message          *string        `help:"Text for those who wait; empty shows none." env:"-"`
	Polling          *string        `help:"Who asks how often, as POSITION:INTERVAL[:JITTER] up to a position, the last for everybody behind: 100:1s,1000:2s:300ms,rest:30s:4s; or default." env:"-"`
	ApproximateSizes *string        `help:"How approximate numbers are rounded up, as AHEAD:MULTIPLE: 1000:10,100000:100; or none." env:"-"`
}

// given are the settings that were given, as the API takes them; nil for one that is to have its default. The error tells every
// mistake at once.
func (f *settingFlags) given() (map[string]jsontext.Value, error) {
	all := map[string]jsontext.Value{}
	var errs []error
	put := func(name string, v any, err error) {
		if err != nil {
			errs = append(errs, err)
			return
		}
		raw, err := json.Marshal(v)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		all[name] = raw
	}
	number := func(name, flag string, v *float64) {
		if v != nil {
			var err error
			if math.IsNaN(*v) || math.IsInf(*v, 0) {
				err = fmt.Errorf("%s is a number of people a second, not %v", flag, *v)
			}
			put(name, *v, err)
		}
	}
	number("rate", "--rate", f.Rate)
	number("conservativeRate", "--conservative-rate", f.ConservativeRate)
	if f.Interval != nil {
		put("interval", f.Interval.String(), nil)
	}
	if f.MaxActive != nil {
		put("maxActive", *f.MaxActive, nil)
	}
	if f.GrantTTL != nil {
		put("grantTtl", f.GrantTTL.String(), nil)
	}
	for name, v := range map[string]*string{"reentry": f.Reentry, "admitTo": f.AdmitTo, "message": f.Message} {
		if v != nil {
			put(name, *v, nil)
		}
	}
	for name, v := range map[string]*string{"opensAt": f.OpensAt, "closesAt": f.ClosesAt} {
		switch {
		case v == nil:
		case *v == "none":
			all[name] = jsontext.Value("null")
		default:
			put(name, *v, nil)
		}
	}
	if f.Polling != nil {
		if *f.Polling == "default" {
			all["polling"] = nil
		} else {
			steps, err := parsePolling(*f.Polling)
			put("polling", steps, err)
		}
	}
	if f.ApproximateSizes != nil {
		sizes, err := parseSizes(*f.ApproximateSizes)
		put("approximateSizes", sizes, err)
	}
	return all, errors.Join(errs...)
}

func quote(s string) jsontext.Value {
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil { // not UTF-8: what is left of it is for the API to refuse
		b, _ = jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\uFFFD"))
	}
	return b
}

// rest stands for everybody behind, in --polling.
const rest = "rest"

func parsePolling(s string) ([]catalog.PollStep, error) {
	var steps []catalog.PollStep
	for part := range strings.SplitSeq(s, ",") {
		fields := strings.Split(strings.TrimSpace(part), ":")
		var step catalog.PollStep
		ok := len(fields) == 2 || len(fields) == 3
		if ok && fields[0] != rest {
			position, err := strconv.ParseInt(fields[0], 10, 64)
			step.Position, ok = &position, err == nil
		}
		for i, into := range []*int64{&step.IntervalMs, &step.JitterMs} {
			if ok && len(fields) > i+1 {
				d, err := time.ParseDuration(fields[i+1])
				*into, ok = d.Milliseconds(), err == nil
			}
		}
		if !ok {
			return nil, fmt.Errorf("--polling: POSITION:INTERVAL[:JITTER] is wanted, as 100:1s or rest:30s:4s, not %.40q", part)
		}
		steps = append(steps, step)
	}
	return steps, nil
}

func parseSizes(s string) ([]catalog.RoundStep, error) {
	sizes := []catalog.RoundStep{}
	if s == "none" {
		return sizes, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		ahead, to, found := strings.Cut(strings.TrimSpace(part), ":")
		a, errA := strconv.ParseInt(ahead, 10, 64)
		b, errB := strconv.ParseInt(to, 10, 64)
		if !found || errA != nil || errB != nil {
			return nil, fmt.Errorf("--approximate-sizes: AHEAD:MULTIPLE is wanted, as 1000:10, or none, not %.40q", part)
		}
		sizes = append(sizes, catalog.RoundStep{Ahead: a, RoundTo: b})
	}
	return sizes, nil
}
