package audit

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/soonbeon/soonbeon/services/plot"
)

// Text is the report for people: a line for each thing that they want to know, what was found, and the verdict last.
func (r *Report) Text() string {
	var b strings.Builder
	for _, row := range r.rows() {
		b.WriteString(strings.TrimRight(fmt.Sprintf("%-11s %-11s %s", row.Name, row.Value, row.What), " ") + "\n")
	}
	for _, f := range r.Findings {
		b.WriteString("\n" + f.text())
	}
	b.WriteString("\n" + r.Verdict() + "\n")
	return b.String()
}

func (f *Finding) text() string {
	var b strings.Builder
	word := "note"
	if f.Wrong {
		word = "WRONG"
	}
	fmt.Fprintf(&b, "%-11s %s: %s\n", word, f.Title, plot.Thousands(f.Count))
	for _, e := range f.First() {
		fmt.Fprintf(&b, "            %s\n", e)
	}
	if more := f.Count - int64(len(f.First())); more > 0 && len(f.First()) > 1 {
		fmt.Fprintf(&b, "            and %s more\n", plot.Thousands(more))
	}
	fmt.Fprintf(&b, "  it means  %s\n  what to do  %s\n", f.Means, f.Do)
	return b.String()
}

// First are the examples to show people: all that are wrong, and a few of a note.
func (f *Finding) First() []Example {
	if f.Wrong {
		return f.Examples
	}
	return f.Examples[:min(len(f.Examples), 3)]
}

// String is the example as a sentence.
func (e Example) String() string {
	if e.Ticket == 0 {
		return e.What
	}
	return fmt.Sprintf("%s, %s: %s", place(e.Ticket), clock(e.AtMs), e.What)
}

// Verdict is one line: whether what was promised was kept.
func (r *Report) Verdict() string {
	if r.OK() {
		return fmt.Sprintf("%-11s everything: %s", "held", r.Summary())
	}
	wrong := 0
	first := ""
	for _, f := range r.Findings {
		if !f.Wrong {
			continue
		}
		if wrong++; first == "" {
			first = f.Title
			if len(f.Examples) > 0 && f.Examples[0].Ticket > 0 {
				first += ", first at " + place(f.Examples[0].Ticket)
			}
		}
	}
	if wrong > 1 {
		first += fmt.Sprintf("; and %d more", wrong-1)
	}
	return fmt.Sprintf("%-11s %s", "BROKEN", first)
}

// Summary is the numbers that a promise is kept by, in a line: as a drill tells it.
func (r *Report) Summary() string {
	order := "order kept"
	if !r.OrderKept {
		order = "order BROKEN"
	}
	return fmt.Sprintf("%s accepted · %s admitted · %s lost · %s twice · %s · at most %s in any second",
		plot.Thousands(r.Accepted), plot.Thousands(r.Admitted), plot.Thousands(r.Lost), plot.Thousands(r.Twice), order, plot.Thousands(r.Rate.HighestSecond))
}

// Row is one line of a report.
type Row struct{ Name, Value, What string }

// rows are what people want to know.
func (r *Report) rows() []Row {
	var rows []Row
	add := func(name, value, what string, a ...any) {
		rows = append(rows, Row{name, value, fmt.Sprintf(what, a...)})
	}
	n := plot.Thousands

	if r.Records == 0 {
		add("log", string(r.Queue), "holds no record")
		return append(rows, r.redisRow()...)
	}
	add("log", string(r.Queue), "%s, tickets %s to %s, %s to %s UTC (%s)", plural(r.Records, "record"), n(int64(r.First)), n(int64(r.End)),
		time.UnixMilli(r.FirstMs).UTC().Format("2006-01-02 15:04:05"), time.UnixMilli(r.LastMs).UTC().Format("15:04:05"), duration(r.LastMs-r.FirstMs))
	add("accepted", n(r.Accepted), "entries of %s, every one in the log", plural(r.Visitors, "visitor"))
	add("admitted", n(r.Admitted), "by %s", plural(r.Rate.Batches, "record"))
	f := r.Fates
	for _, x := range []struct {
		name string
		n    int64
		what string
	}{
		{"waiting", f.Waiting, "at the end"},
		{"moved back", f.MovedBack, "entered again while they waited"},
		{"kept", f.Kept, "entered again, and kept their place by the rule"},
		{"repeated", f.Retransmitted, "the same request once more: one place"},
		{"absorbed", f.Absorbed, "entered again while they were being let in"},
		{"left", f.Left, "of their own will"},
		{"ended", f.Ended, "waited when the line was ended"},
		{"refused", f.Refused, "written after the end: they took no place"},
	} {
		if x.n > 0 || x.name == "waiting" {
			add(x.name, n(x.n), "%s", x.what)
		}
	}
	switch {
	case r.Lost > 0:
		add("lost", n(r.Lost), "passed while they waited")
	case f.Sum() == r.Accepted:
		add("lost", "0", "every entry is accounted for: the %s above are all", n(r.Accepted))
	default:
		add("lost", "?", "%s of %s entries are accounted for", n(f.Sum()), n(r.Accepted))
	}
	add("twice", n(r.Twice), "%s", map[bool]string{true: "", false: "no one was let in twice for one entry"}[r.Twice > 0])
	if r.OrderKept {
		add("order", "kept", "no one passed anyone (%s compared)", n(r.Admitted))
	} else {
		add("order", "BROKEN", "%s were passed, %s were named too late", n(r.Lost), n(r.OutOfOrder))
	}
	rows = append(rows, r.dayRows()...)
	rows = append(rows, r.rateRows()...)
	rows = append(rows, r.leaderRows()...)
	if r.Void > 0 {
		add("void", n(r.Void), "in records that no reader counts%s", by(r.VoidBy))
	}
	if r.Skipped > 0 {
		add("unreadable", n(r.Skipped), "records")
	}
	if r.Gaps > 0 {
		add("gaps", n(r.Gaps), "tickets that Kafka left out")
	}
	return append(rows, r.redisRow()...)
}

// dayRows are what the operators did: the draw, the ends of the line, the capacity; and the ticket that was asked for.
func (r *Report) dayRows() []Row {
	var rows []Row
	n := plot.Thousands
	if d := r.Draw; d != nil {
		held := "no commitment to compare it with: give --commitment"
		if d.CommitmentOK != nil {
			held = map[bool]string{true: "it is the one that was committed to", false: "it is NOT the one that was committed to"}[*d.CommitmentOK]
		}
		rows = append(rows, Row{"draw", n(d.People), fmt.Sprintf("drew lots at %s, %s: numbers %d to %d, by seed %s; %s", clock(d.AtMs), place(d.Record), d.First, d.Last, d.Seed, held)})
	}
	for _, e := range r.Ends {
		until := "to the end of the log"
		if e.Reopened > 0 {
			until = "until it was reopened at " + clock(e.ReopenedMs)
		}
		rows = append(rows, Row{"line ended", n(e.InLine), fmt.Sprintf("sent away at %s, %s, because of %s; %s after it took no place, %s",
			clock(e.AtMs), place(e.Record), e.Why, map[bool]string{true: "1 entry", false: n(e.Refused) + " entries"}[e.Refused == 1], until)})
	}
	if a := r.Active; a.Highest > 0 {
		judged := "not judged: no limit all the time, or give --max-active"
		if a.Limit > 0 {
			judged = "at most " + n(a.Limit) + " are to"
		}
		rows = append(rows, Row{"active", n(a.Highest), fmt.Sprintf("admissions held at one time at most, at %s, %s (%s)", clock(a.AtMs), place(a.Record), judged)})
	}
	if a := r.Asked; a != nil {
		what := "nobody's entry"
		if a.Entry {
			what = "its entry: " + a.Fate
		}
		drew := "it did not draw"
		if a.Drew {
			drew = fmt.Sprintf("drew number %d", a.Number)
		}
		if r.Draw == nil {
			drew = "lots were not drawn"
		}
		rows = append(rows, Row{"ticket", fmt.Sprint(a.Ticket), drew + "; " + what})
	}
	return rows
}

func (r *Report) rateRows() []Row {
	var rows []Row
	if r.Rate.Batches > 0 {
		mean := "one batch"
		if r.Rate.Mean != nil {
			mean = fmt.Sprintf("%.1f/s", *r.Rate.Mean)
		}
		judged := "not judged: give --rate"
		if r.Rate.Limit > 0 {
			judged = fmt.Sprintf("at most %s are let in at %v/s", plot.Thousands(r.Rate.Limit), r.Rate.Expected)
		}
		rows = append(rows, Row{"rate", mean, fmt.Sprintf("highest second: %s, from %s (%s); the largest batch %s",
			plot.Thousands(r.Rate.HighestSecond), clock(r.Rate.HighestAtMs), judged, plot.Thousands(r.Rate.LargestBatch))})
	}
	p := r.LongestPause
	switch {
	case p.Ms == 0:
		rows = append(rows, Row{"pause", "none", "longer than a millisecond while people waited"})
	case p.Before == 0:
		rows = append(rows, Row{"pause", duration(p.Ms), fmt.Sprintf("the longest while people waited, from %s; it lasts to the end of the log", clock(p.FromMs))})
	default:
		rows = append(rows, Row{"pause", duration(p.Ms), fmt.Sprintf("the longest while people waited, from %s; ended by %s", clock(p.FromMs), place(p.Before))})
	}
	if w := r.Waits; w.Count > 0 {
		rows = append(rows, Row{"waited", duration(w.P50), fmt.Sprintf("half of them; p90 %s  p99 %s  longest %s", duration(w.P90), duration(w.P99), duration(w.Max))})
	}
	return rows
}

func (r *Report) leaderRows() []Row {
	issuers := map[string]int64{}
	for _, c := range r.Claims {
		issuers[c.Issuer]++
	}
	rows := []Row{{"leaders", plot.Thousands(int64(len(issuers))), plural(int64(len(r.Claims)), "claim") + by(issuers)}}
	if len(r.Outages) == 0 {
		what := "Redis was never missed"
		if len(r.Claims) == 0 || r.Claims[0].Mode == "direct" {
			what = "no leader ever popped from Redis"
		}
		return append(rows, Row{"outages", "none", what})
	}
	for i, o := range r.Outages {
		name := ""
		if i == 0 {
			name = "outages"
		}
		if i == 5 && len(r.Outages) > 6 {
			rows = append(rows, Row{"", "…", fmt.Sprintf("%d in all, with %d changes of mode", len(r.Outages), r.ModeChanges)})
			break
		}
		until := "to " + clock(o.ToMs)
		if o.ToTicket == 0 {
			until = "still direct at the end"
		}
		rows = append(rows, Row{name, duration(o.ToMs - o.FromMs), fmt.Sprintf("direct from %s %s; %s let in, longest pause %s, highest second %s",
			clock(o.FromMs), until, plot.Thousands(o.Admitted), duration(o.LongestPauseMs), plot.Thousands(o.HighestSecond))})
	}
	return rows
}

func (r *Report) redisRow() []Row {
	d := r.Redis
	if d == nil {
		return nil
	}
	compared := fmt.Sprintf("%s who wait compared one by one", plot.Thousands(d.Compared))
	if d.Exact {
		compared += ", digest " + d.Digest
	} else {
		compared += ", while it moved"
	}
	at := fmt.Sprintf("at ticket %s", plot.Thousands(int64(d.Seq)))
	if d.Behind > 0 {
		at += fmt.Sprintf(", %s behind after %s", plot.Thousands(d.Behind), duration(d.WaitedMs))
	}
	switch {
	case r.Find(RedisAway) != nil, r.Find(RedisAhead) != nil, r.Find(RedisOtherTopic) != nil:
		return []Row{{"redis", "?", "not compared, see below"}}
	case d.Differences > 0:
		return []Row{{"redis", "DIFFERS", fmt.Sprintf("in %s, %s; %s", plural(d.Differences, "place"), at, compared)}}
	case r.Trimmed:
		return []Row{{"redis", "?", at + "; not compared: the log does not hold all who wait"}}
	}
	return []Row{{"redis", "equal", fmt.Sprintf("%s; %s", at, compared)}}
}

func by(counts map[string]int64) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return int(counts[b] - counts[a])
		}
		return strings.Compare(a, b)
	})
	if len(names) == 0 {
		return ""
	}
	more := ""
	if len(names) > 3 {
		more = fmt.Sprintf(" and %d others", len(names)-3)
		names = names[:3]
	}
	for i, name := range names {
		if name == "" {
			name = "somebody without a name"
		}
		names[i] = name
	}
	return ", by " + strings.Join(names, ", ") + more
}

// duration prints milliseconds like 12 ms, 4.2 s, 42 s, 1m12s, 1h05m.
func duration(ms int64) string {
	s := int64(math.Round(float64(ms) / 1000))
	switch {
	case ms < 1000:
		return fmt.Sprintf("%d ms", ms)
	case ms < 10_000:
		return fmt.Sprintf("%.1f s", float64(ms)/1000)
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	}
	return fmt.Sprintf("%dh%02dm", s/3600, s%3600/60)
}

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return plot.Thousands(n) + " " + what + "s"
}
