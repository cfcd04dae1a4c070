package verify

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	metricName = regexp.MustCompile(`^soonbeon_[a-z0-9]+(_[a-z0-9]+)+$`)
	metricWord = regexp.MustCompile(`\bsoonbeon_[a-z0-9_]+`)
	metricRow  = regexp.MustCompile("^\\| *`?(soonbeon_[a-z0-9_]+)")
)

// TestMetricsAreDocumented compares the names in the code with the rows of the tables in docs/: every metric has one row
// that begins with its name, and no document names a metric that isn't there.
func TestMetricsAreDocumented(t *testing.T) {
	report(t, metricProblems(goFiles(t, "pkg", "services"), documents(t)))
}

func metricProblems(files []goFile, docs map[string]string) []string {
	names, problems := metricsIn(files)
	rows := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(docs)) {
		for line := range strings.Lines(docs[path]) {
			if m := metricRow.FindStringSubmatch(line); m != nil {
				rows[m[1]] = true
			}
			for _, word := range metricWord.FindAllString(line, -1) {
				base := word
				for _, suffix := range []string{"_bucket", "_sum", "_count"} { // what Prometheus makes of a histogram
					if names[word] == "" {
						base = strings.TrimSuffix(base, suffix)
					}
				}
				if names[base] == "" {
					problems = append(problems, fmt.Sprintf("%s names the metric %s, and no code has it", path, word))
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !rows[name] {
			problems = append(problems, fmt.Sprintf("%s (%s) has no row in docs/: add \"| `%s` | … |\" to the metrics table of "+
				"docs/runbook.md", name, names[name], name))
		}
	}
	return problems
}

// metricsIn finds the names, and where each is: every string in the product's code that is one whole metric name.
// (So names are written in full: a name put together from parts can't be searched for.)
func metricsIn(files []goFile) (names map[string]string, problems []string) {
	names = map[string]string{}
	for _, f := range files {
		if f.isTest() || under(f.path, "services/e2e") || under(f.path, "services/verify") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && (key.Name == "Namespace" || key.Name == "Subsystem") {
					problems = append(problems, fmt.Sprintf("%s: a metric's name in parts: write Name: \"soonbeon_…\" in full", f.at(n)))
				}
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
					if metricName.MatchString(text) {
						names[text] = f.at(n)
					} else if strings.HasPrefix(text, "soonbeon_") && !strings.ContainsAny(text, " \n") {
						problems = append(problems, fmt.Sprintf("%s: %q is a metric's name in parts: write it in full", f.at(n), text))
					}
				}
			}
			return true
		})
	}
	return names, problems
}

func TestMetricProblemsAreFound(t *testing.T) {
	code := func(expr string) []goFile { return []goFile{parse(t, "pkg/x/x.go", "package x\nvar v = "+expr+"\n")} }
	docs := func(text string) map[string]string { return map[string]string{"docs/runbook.md": text} }
	opts := `O{Name: "soonbeon_x_seconds"}`
	row := "| `soonbeon_x_seconds` | histogram | … |\n"

	require.Empty(t, metricProblems(code(opts), docs(row+"rate(soonbeon_x_seconds_bucket[5m])\n")))
	for _, c := range []struct{ expr, doc, want string }{
		{opts, "", "no row"},
		{opts, "soonbeon_x_seconds is mentioned, and has no row\n", "no row"},
		{opts, row + "| `soonbeon_gone_total` | … |\n", "no code has it"},
		{opts, row + "rate(soonbeon_gone_count[5m])\n", "no code has it"},
		{`O{Name: "x"}`, "sum(soonbeon_x_total)", "no code has it"},
		{`O{Namespace: "soonbeon", Name: "x_total"}`, "", "in parts"},
		{`"soonbeon_" + x`, "", "in parts"},
	} {
		got := metricProblems(code(c.expr), docs(c.doc))
		require.Len(t, got, 1, c)
		require.Contains(t, got[0], c.want)
	}
}
