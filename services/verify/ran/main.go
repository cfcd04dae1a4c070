// Command ran stands behind `go test -json` in CI, since a green run says nothing of tests that were skipped:
//
//	go test -json … | ran KEPT        show the run as go test would without -json, and keep the tests' fates in the file KEPT
//	ran -judge KEPT…                  fail where a test was skipped in one run and has run in none
//
// So a missing tool (nginx, promtool, a browser, …) can't turn a check off unnoticed, whatever the test itself does about it.
// With -v what passing tests print is shown too.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// allowed are tests that no run of CI is meant to reach, by "package test", and why.
var allowed = map[string]string{
	"github.com/soonbeon/soonbeon/services/projector TestMillionIsExactAgainWithin15s": "needs SOONBEON_LONG; TestRealOutageOfAMillion is CI's",
}

func main() {
	verbose := flag.Bool("v", false, "show what passing tests print")
	judging := flag.Bool("judge", false, "judge the kept files instead of reading a run")
	flag.Parse()
	var err error
	switch {
	case *judging && flag.NArg() > 0:
		err = judgeFiles(flag.Args(), os.Stdout)
	case !*judging && flag.NArg() == 1:
		err = keep(os.Stdin, os.Stdout, flag.Arg(0), *verbose)
	default:
		err = errors.New("usage: go test -json … | ran [-v] KEPT, or ran -judge KEPT…")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// event is one line of `go test -json`.
type event struct{ Action, Package, Test, Output string }

// fates are what became of each test of a run, by "package test".
type fates struct {
	Passed  map[string]bool
	Skipped map[string]string // why
}

func newFates() fates { return fates{map[string]bool{}, map[string]string{}} }

// noise is what only -v prints.
var noise = regexp.MustCompile(`^=== (RUN|PAUSE|CONT|NAME) `)

// left is how a test of another runner, run inside of one of Go's, tells that it left some out.
var left = regexp.MustCompile(`(?:ℹ|#) skipped [1-9]`)

// read shows a run and returns the fates. Lines that are not JSON, as make's, are shown as they are.
func read(in io.Reader, out io.Writer, verbose bool) (fates, error) {
	f := newFates()
	type line struct{ test, text string }
	pending := map[string][]line{} // by package, what no finished test has taken away
	drop := func(pkg, test string) {
		pending[pkg] = slices.DeleteFunc(pending[pkg], func(l line) bool { return l.test == test })
	}
	lines := bufio.NewReader(in)
	for {
		text, err := lines.ReadString('\n')
		if text != "" {
			var e event
			if !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &e) != nil || e.Action == "" {
				fmt.Fprint(out, text)
			} else {
				key := e.Package + " " + e.Test
				switch {
				case e.Action == "output" && e.Test != "":
					if left.MatchString(e.Output) {
						f.Skipped[key+" (part of it)"] = strings.TrimSpace(e.Output)
					}
					if verbose {
						fmt.Fprint(out, e.Output)
					} else if !noise.MatchString(e.Output) {
						pending[e.Package] = append(pending[e.Package], line{e.Test, e.Output})
					}
				case e.Action == "output", e.Action == "build-output":
					if e.Output != "PASS\n" {
						fmt.Fprint(out, e.Output)
					}
				case e.Action == "pass" && e.Test != "":
					f.Passed[key] = true
					drop(e.Package, e.Test)
				case e.Action == "skip" && e.Test != "":
					why := ""
					for _, l := range pending[e.Package] {
						if l.test == e.Test && !strings.HasPrefix(strings.TrimSpace(l.text), "---") {
							why += strings.TrimSpace(l.text) + " "
						}
					}
					f.Skipped[key] = strings.TrimSpace(why)
					drop(e.Package, e.Test)
				case e.Action == "fail" && e.Test == "":
					for _, l := range pending[e.Package] {
						fmt.Fprint(out, l.text)
					}
					delete(pending, e.Package)
				}
			}
		}
		if err == io.EOF {
			return f, nil
		}
		if err != nil {
			return f, fmt.Errorf("read the run: %w", err)
		}
	}
}

func keep(in io.Reader, out io.Writer, path string, verbose bool) error {
	f, err := read(in, out, verbose)
	if err != nil {
		return err
	}
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

func judgeFiles(paths []string, out io.Writer) error {
	var all []fates
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f := newFates()
		if err := json.Unmarshal(b, &f); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, f)
	}
	return judge(all, out)
}

// judge fails where a test has run nowhere.
func judge(all []fates, out io.Writer) error {
	passed, skipped := map[string]bool{}, map[string]string{}
	for _, f := range all {
		maps.Copy(passed, f.Passed)
		maps.Copy(skipped, f.Skipped)
	}
	nowhere := 0
	for _, test := range slices.Sorted(maps.Keys(skipped)) {
		switch why, ok := allowed[test]; {
		case passed[test]:
		case ok:
			fmt.Fprintf(out, "left out: %s: %s\n", test, why)
		default:
			nowhere++
			fmt.Fprintf(out, "--- FAIL: %s was skipped, and has run nowhere: %s\n", test, skipped[test])
		}
	}
	switch {
	case len(passed) == 0:
		return errors.New("no test has passed at all: is it `go test -json`?")
	case nowhere > 0:
		return fmt.Errorf("%d tests were skipped and have run nowhere: install what they want (.ci/run, tools)", nowhere)
	}
	fmt.Fprintf(out, "%d tests have run, and none was skipped that has run nowhere\n", len(passed))
	return nil
}
