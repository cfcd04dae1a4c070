package main

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kind is what a row's value is, and how it is judged.
type kind int

const (
	ratio        kind = iota // at least need
	printedRatio             // of no threshold
	bytesEach                // at most need
	seconds                  // of no threshold
	millisAtMost             // at most need
)

// result is one row.
type result struct {
	what, against string
	kind          kind
	value, need   float64
	ours, theirs  string
	spread        string // how much rounds differed, or whatever else belongs to the number
}

// holds says whether the row is as good as it has to be. Ratios are judged as they are printed, to two decimals.
func (r result) holds() bool {
	switch r.kind {
	case ratio:
		return r.value >= r.need-0.005
	case bytesEach, millisAtMost:
		return r.value <= r.need
	}
	return true
}

// columns are what it was, what it has to be, and whether it is.
func (r result) columns() (got, need, verdict string) {
	switch r.kind {
	case ratio:
		got, need = fmt.Sprintf("%.2f", r.value), fmt.Sprintf("≥ %.2f", r.need)
	case bytesEach:
		got, need = fmt.Sprintf("%.0f bytes", r.value), fmt.Sprintf("≤ %.0f bytes", r.need)
	case millisAtMost:
		got, need = fmt.Sprintf("%.1f ms", r.value), fmt.Sprintf("≤ %.0f ms", r.need)
	case printedRatio:
		return fmt.Sprintf("%.2f", r.value), "–", ""
	case seconds:
		return fmt.Sprintf("%.2f s", r.value), "–", ""
	}
	verdict = "yes"
	if !r.holds() {
		verdict = "**NO**"
	}
	return got, need, verdict
}

func (r result) String() string {
	got, need, verdict := r.columns()
	return fmt.Sprintf("%s: %s (%s) %s %s", r.what, got, need, verdict, r.detail())
}

func (r result) detail() string {
	var parts []string
	if r.ours != "" {
		parts = append(parts, r.ours+" : "+r.theirs)
	}
	if r.spread != "" {
		parts = append(parts, r.spread)
	}
	return strings.Join(parts, "; ")
}

func table(results []result) string {
	var b strings.Builder
	b.WriteString("| what | against | measured | wanted | held | in numbers |\n|---|---|---|---|---|---|\n")
	for _, r := range results {
		got, need, verdict := r.columns()
		against := r.against
		if against == "" {
			against = "–"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", r.what, against, got, need, verdict, r.detail())
	}
	return b.String()
}

func spread(ratios []float64) string {
	return fmt.Sprintf("rounds %.2f–%.2f", slices.Min(ratios), slices.Max(ratios))
}

func rate(perSecond float64) string { return thousands(int(perSecond)) + "/s" }

func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

//go:embed benchmarks.md
var document string

// writeDocument puts the table into docs/benchmarks.md.
func writeDocument(results []result, busy string) error {
	root, err := findRoot()
	if err != nil {
		return err
	}
	text := strings.NewReplacer("{{date}}", time.Now().UTC().Format(time.DateOnly), "{{machine}}", machine(), "{{busy}}", busy, "{{table}}", table(results)).Replace(document)
	return os.WriteFile(filepath.Join(root, "docs", "benchmarks.md"), []byte(text), 0o644)
}

// findRoot is the folder of go.work, here or above.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("there is no go.work here or above")
		}
		dir = up
	}
}

// machine describes it in words, and not by name.
func machine() string {
	words := []string{fmt.Sprintf("%d CPU cores", runtime.NumCPU())}
	if model := lineOf("/proc/cpuinfo", "model name"); model != "" {
		words[0] += " (" + model + ")"
	}
	if kib, err := strconv.Atoi(strings.TrimSuffix(lineOf("/proc/meminfo", "MemTotal"), " kB")); err == nil {
		words = append(words, fmt.Sprintf("%d GiB of memory", (kib+1<<19)>>20))
	}
	return strings.Join(append(words, runtime.GOOS+"/"+runtime.GOARCH, runtime.Version()), ", ")
}

// busyness says how much else goes on; asked before anything of ours runs.
func busyness() string {
	b, err := os.ReadFile("/proc/loadavg")
	one, _, ok := strings.Cut(string(b), " ")
	if err != nil || !ok {
		return "not known"
	}
	return fmt.Sprintf("a load average of %s on %d cores before the run began", one, runtime.NumCPU())
}

// lineOf is the value of a "name: value" line of a file; "" where there is none.
func lineOf(file, name string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
