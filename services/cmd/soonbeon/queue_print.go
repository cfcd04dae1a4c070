package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/soonbeon/soonbeon/services/catalog"
)

// summary is a queue in one line.
func summary(d *catalog.Document) string {
	parts := []string{string(d.State)}
	if d.Paused && d.State == catalog.Closed {
		parts = append(parts, "paused")
	}
	parts = append(parts, pace(d))
	if d.Settings.MaxActive > 0 {
		parts = append(parts, fmt.Sprintf("at most %d inside", d.Settings.MaxActive))
	}
	if d.Reason != "" {
		parts = append(parts, "reason "+d.Reason)
	}
	if d.State == catalog.NotOpen {
		parts = append(parts, "opens "+*d.Settings.OpensAt)
	}
	return strings.Join(parts, ", ")
}

func pace(d *catalog.Document) string {
	return fmt.Sprintf("%g people a second", d.Settings.Rate)
}

func printList(out io.Writer, all []catalog.Document) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "no queues yet: `soonbeon queue create NAME` makes one")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "QUEUE\tSTATE\tRATE\tWAITING\tINSIDE\tVERSION")
	for _, d := range all {
		waiting, inside := "-", "-"
		if d.Live != nil {
			waiting, inside = strconv.FormatInt(d.Live.Waiting, 10), strconv.FormatInt(d.Live.Active, 10)
		}
		fmt.Fprintf(w, "%s\t%s\t%g/s\t%s\t%s\t%d\n", d.ID, d.State, d.Settings.Rate, waiting, inside, d.Version)
	}
	return w.Flush()
}

func printQueue(out io.Writer, d *catalog.Document) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	row := func(name, format string, a ...any) { fmt.Fprintf(w, "%s\t"+format+"\n", append([]any{name}, a...)...) }
	s := &d.Settings
	row("queue", "%s", d.ID)
	state := string(d.State)
	if d.Paused && d.State == catalog.Closed {
		state += ", paused"
	}
	if d.Reason != "" {
		state += ", reason " + d.Reason
	}
	row("state", "%s", state)
	if l := d.Live; l != nil {
		row("line", "%d waiting, %d inside, %.1f a second over the last minute", l.Waiting, l.Active, l.Rate)
		if l.Skip != "" {
			row("", "nobody is let in just now: %s", l.Skip)
		}
	}
	row("rate", "%s every %s", pace(d), s.Interval)
	row("conservative rate", "%g a second", s.ConservativeRate)
	row("max active", "%s", orElse(s.MaxActive > 0, strconv.FormatInt(s.MaxActive, 10), "no limit"))
	row("grant ttl", "%s", s.GrantTTL)
	row("reentry", "%s", s.Reentry)
	row("opens at", "%s", orNone(s.OpensAt))
	row("closes at", "%s", orNone(s.ClosesAt))
	row("order", "%s", s.Order)
	if d.Commitment != "" {
		row("commitment", "%s", d.Commitment)
	}
	row("admit to", "%s", orElse(s.AdmitTo != "", s.AdmitTo, "left to the client"))
	row("message", "%s", orElse(s.Message != "", strconv.Quote(s.Message), "none"))
	row("polling", "%s", pollingText(s.Polling))
	row("approximate sizes", "%s", sizesText(s.ApproximateSizes))
	row("version", "%d, made with %d", d.Version, d.Made)
	return w.Flush()
}

func orElse(ok bool, text, other string) string {
	if ok {
		return text
	}
	return other
}

func orNone(t *string) string {
	if t == nil {
		return "none"
	}
	return *t
}

// pollingText is a table as --polling takes it.
func pollingText(steps []catalog.PollStep) string {
	var parts []string
	for _, p := range steps {
		to := rest
		if p.Position != nil {
			to = strconv.FormatInt(*p.Position, 10)
		}
		part := to + ":" + (time.Duration(p.IntervalMs) * time.Millisecond).String()
		if p.JitterMs > 0 {
			part += ":" + (time.Duration(p.JitterMs) * time.Millisecond).String()
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ",")
}

// sizesText are sizes as --approximate-sizes takes them.
func sizesText(sizes []catalog.RoundStep) string {
	var parts []string
	for _, s := range sizes {
		parts = append(parts, fmt.Sprintf("%d:%d", s.Ahead, s.RoundTo))
	}
	return cmp.Or(strings.Join(parts, ","), "none")
}

func printChanges(out io.Writer, changes []change) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "WHEN\tWHO\tWHAT\tCHANGED")
	for _, c := range changes {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", clock(c.At), c.Who, c.Action, difference(c))
	}
	return w.Flush()
}

// difference says what is other after a change, as "rate 50 → 60".
func difference(c change) string {
	if c.From == nil || c.To == nil {
		return ""
	}
	from, to := members(c.From), members(c.To)
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(to)) {
		if from[name] != to[name] {
			parts = append(parts, fmt.Sprintf("%s %s → %s", name, cmp.Or(from[name], "none"), cmp.Or(to[name], "none")))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if _, stays := to[name]; !stays {
			parts = append(parts, fmt.Sprintf("%s %s → none", name, from[name]))
		}
	}
	return strings.Join(parts, ", ")
}

// members are what an operator may have changed, by name, as text. The state follows from the others, so it isn't among them.
func members(d *catalog.Document) map[string]string {
	all := map[string]string{"paused": strconv.FormatBool(d.Paused), "closed": strconv.FormatBool(d.Closed), "ending": strconv.FormatBool(d.Ending)}
	if d.Reason != "" {
		all["reason"] = d.Reason
	}
	if d.State == catalog.Deleting {
		all["state"] = string(d.State)
	}
	raw, err := json.Marshal(d.Settings)
	if err != nil {
		return all
	}
	var settings map[string]jsontext.Value
	if json.Unmarshal(raw, &settings) == nil {
		for name, v := range settings {
			all[name] = string(v)
		}
	}
	return all
}
