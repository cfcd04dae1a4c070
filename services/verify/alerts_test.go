package verify

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const (
	alertsFile = "docs/prometheus/alerts.yml"
	runbookURL = "https://github.com/soonbeon/soonbeon/blob/main/docs/runbook.md#"
)

// rules is a file of rules, as far as it is looked at here; promtool looks at the rest.
type rules struct {
	Groups []struct {
		Rules []struct {
			Alert, Expr string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

var alertHeading = regexp.MustCompile(`(?m)^### (Soonbeon[A-Za-z]+)$`)

// TestAlertsAreDocumented: whoever is woken finds what to do, and no alert waits for a metric that is not there any more.
func TestAlertsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, alertsFile))
	require.NoError(t, err)
	cases, err := os.ReadFile(filepath.Join(root, "docs/prometheus/alerts_test.yml"))
	require.NoError(t, err)
	metrics, _ := metricsIn(goFiles(t, "pkg", "services"))
	report(t, alertProblems(t, text, cases, documents(t)["docs/runbook.md"], metrics))
}

func alertProblems(t *testing.T, text, cases []byte, runbook string, metrics map[string]string) []string {
	t.Helper()
	var problems []string
	var file rules
	require.NoError(t, yaml.Unmarshal(text, &file))
	headings := map[string]bool{}
	for _, m := range alertHeading.FindAllStringSubmatch(runbook, -1) {
		headings[m[1]] = true
	}
	alerts := map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			alerts[r.Alert] = true
			add := func(format string, args ...any) {
				problems = append(problems, fmt.Sprintf("%s: %s ", alertsFile, r.Alert)+fmt.Sprintf(format, args...))
			}
			if !headings[r.Alert] {
				add("has no heading \"### %s\" in docs/runbook.md", r.Alert)
			}
			if want := runbookURL + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
				add("has the runbook_url %q, not %q", r.Annotations["runbook_url"], want)
			}
			if r.Annotations["summary"] == "" {
				add("has no summary")
			}
			if s := r.Labels["severity"]; s != "page" && s != "ticket" {
				add("has the severity %q: page and ticket are what the file explains", s)
			}
			if !strings.Contains(string(cases), "alertname: "+r.Alert+"\n        exp_alerts:\n") {
				add("has no case in alerts_test.yml in which it fires")
			}
			for _, name := range unknownMetrics(r.Expr, metrics) {
				add("asks for %s, and no code has it", name)
			}
		}
	}
	for _, h := range slices.Sorted(maps.Keys(headings)) {
		if !alerts[h] {
			problems = append(problems, fmt.Sprintf("docs/runbook.md explains the alert %s, which %s doesn't have", h, alertsFile))
		}
	}
	return problems
}

// unknownMetrics are those of ours in an expression that no code has; one that names none of ours is such a one itself.
func unknownMetrics(expr string, metrics map[string]string) []string {
	words := metricWord.FindAllString(expr, -1)
	if len(words) == 0 {
		return []string{"no metric of ours"}
	}
	return slices.DeleteFunc(words, func(word string) bool {
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			if base, ok := strings.CutSuffix(word, suffix); ok && metrics[base] != "" {
				return true
			}
		}
		return false
	})
}

func TestAlertProblemsAreFound(t *testing.T) {
	const good = `groups: [{rules: [{alert: SoonbeonX, expr: "rate(soonbeon_x_seconds_bucket[1m]) > 0", labels: {severity: page}, annotations: {summary: s, runbook_url: "` + runbookURL + `soonbeonx"}}]}]`
	const cases = "        alertname: SoonbeonX\n        exp_alerts:\n          - {}\n"
	metrics := map[string]string{"soonbeon_x_seconds": "x.go:1"}
	require.Empty(t, alertProblems(t, []byte(good), []byte(cases), "### SoonbeonX\n", metrics))
	for _, c := range []struct{ text, cases, runbook, want string }{
		{good, cases, "", "no heading"},
		{good, cases, "### SoonbeonX\n### SoonbeonY\n", "SoonbeonY, which"},
		{good, "alertname: SoonbeonX\n        exp_alerts: []\n", "### SoonbeonX\n", "in which it fires"},
		{strings.Replace(good, "soonbeon_x", "soonbeon_y", 1), cases, "### SoonbeonX\n", "no code has it"},
		{strings.Replace(good, "soonbeon_x_seconds_bucket", "up", 1), cases, "### SoonbeonX\n", "no metric of ours"},
		{strings.Replace(good, "soonbeonx", "soonbeony", 1), cases, "### SoonbeonX\n", "runbook_url"},
		{strings.Replace(good, "page", "wake", 1), cases, "### SoonbeonX\n", "severity"},
		{strings.Replace(good, "summary: s", "summary: ''", 1), cases, "### SoonbeonX\n", "no summary"},
	} {
		got := alertProblems(t, []byte(c.text), []byte(c.cases), c.runbook, metrics)
		require.Len(t, got, 1, c)
		require.Contains(t, got[0], c.want)
	}
}

// promtool runs Prometheus' own checker in the folder of the rules.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (Debian's package prometheus has it)")
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = filepath.Join(root, "docs/prometheus")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "promtool %s: %s", strings.Join(args, " "), out)
}

// TestAlertsFire lets Prometheus evaluate each rule over series with which it has to fire, and others with which it has not.
func TestAlertsFire(t *testing.T) {
	promtool(t, "check", "rules", "alerts.yml")
	promtool(t, "test", "rules", "alerts_test.yml")
}
