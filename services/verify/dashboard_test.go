package verify

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const dashboardFile = "docs/prometheus/dashboard.json"

var writeDashboard = flag.Bool("write-dashboard", false, "write "+dashboardFile+" anew")

// panel is one of the dashboard's: what to see in it, and by which expressions. %s is the queues that are chosen.
type panel struct {
	title, about, unit string
	queries            []query
}

type query struct{ expr, legend string }

type section struct {
	title  string
	panels []panel
}

// of chooses queues.
const of = `{queue=~"$queue"}`

// sections are the dashboard, in the order in which an operator asks: how are people, what are they told, what is wrong.
func sections() []section {
	return []section{
		{"People", []panel{
			{"Waiting", "People in line, by the log.", "short", []query{{`max by (queue) (soonbeon_queue_waiting_people` + of + `)`, "{{queue}}"}}},
			{"Let in a second, and the rate", "Over the last minute; the dashes are what the queue is set to.", "short", []query{
				{`max by (queue) (soonbeon_queue_admitted_per_second` + of + `)`, "{{queue}}"},
				{`max by (queue) (soonbeon_issuer_target_per_second` + of + `)`, "{{queue}}, rate"}}},
			{"How long who comes next has waited", "", "s", []query{{`max by (queue) (soonbeon_queue_oldest_wait_seconds` + of + `)`, "{{queue}}"}}},
			{"Inside", "Admissions that hold.", "short", []query{{`max by (queue) (soonbeon_queue_active_admissions` + of + `)`, "{{queue}}"}}},
			{"Entries a second", "Those that took a place, of which refreshes, and repetitions that took none.", "short", []query{
				{`max by (queue) (rate(soonbeon_queue_entries_total` + of + `[1m]))`, "{{queue}}"},
				{`max by (queue) (rate(soonbeon_queue_refreshes_total` + of + `[1m]))`, "{{queue}}, refreshes"},
				{`max by (queue) (rate(soonbeon_queue_retransmissions_total` + of + `[1m]))`, "{{queue}}, repeated"}}},
			{"Admissions that end a second", "Completed by the site, or by their time.", "short", []query{
				{`max by (queue) (rate(soonbeon_queue_completed_total` + of + `[1m]))`, "{{queue}}, completed"},
				{`max by (queue) (rate(soonbeon_queue_expired_total` + of + `[1m]))`, "{{queue}}, expired"}}},
		}},
		{"Answers", []panel{
			{"What people are told, a second", "approximate: Redis is away or behind.", "short", []query{{`sum by (kind) (rate(soonbeon_position_answers_total[1m]))`, "{{kind}}"}}},
			{"Requests to enter and leave, a second", "", "short", []query{{`sum by (operation, result) (rate(soonbeon_enter_requests_total[1m]))`, "{{operation}}: {{result}}"}}},
			{"Time of answers, p99", "Streams are open as long as they are.", "s", []query{
				{`histogram_quantile(0.99, sum by (le, route) (rate(soonbeon_http_request_seconds_bucket{route!="/queue/events"}[1m])))`, "{{route}}"}}},
			{"Answers that fail, a second", "", "short", []query{{`sum by (route, class) (rate(soonbeon_http_requests_total{class=~"4xx|5xx"}[1m]))`, "{{route}} {{class}}"}}},
			{"Event streams", "", "short", []query{
				{`sum(soonbeon_events_streams)`, "open"},
				{`sum by (why) (rate(soonbeon_events_refused_total[1m]))`, "refused a second: {{why}}"},
				{`sum(rate(soonbeon_events_dropped_total[1m]))`, "dropped a second"}}},
			{"Pushed tokens", "From reading the record to having written the token.", "s", []query{
				{`histogram_quantile(0.99, sum by (le) (rate(soonbeon_events_push_seconds_bucket[5m])))`, "p99"},
				{`histogram_quantile(0.5, sum by (le) (rate(soonbeon_events_push_seconds_bucket[5m])))`, "p50"}}},
		}},
		{"Gate", []panel{
			{"Requests at the gate, a second", "unchecked: let in by --open-for. cant_tell: turned away, since Redis does not answer. not_yet: a clock is wrong.", "short", []query{
				{`sum by (queue, result) (rate(soonbeon_gate_checks_total` + of + `[1m]))`, "{{queue}}: {{result}}"}}},
			{"People who hand over a token, a second", "", "short", []query{{`sum by (queue, result) (rate(soonbeon_gate_arrivals_total` + of + `[1m]))`, "{{queue}}: {{result}}"}}},
			{"Open unchecked", "1 while a gate lets people in unchecked, by --open-for.", "short", []query{{`max by (queue) (soonbeon_gate_open` + of + `)`, "{{queue}}"}}},
		}},
		{"Machinery", []panel{
			{"Leaders", "One for each queue.", "short", []query{
				{`sum by (queue) (soonbeon_issuer_leading` + of + `)`, "{{queue}}"},
				{`max by (queue) (soonbeon_issuer_direct` + of + `)`, "{{queue}}, without Redis"}}},
			{"Why nobody was let in, intervals a second", "", "short", []query{{`sum by (queue, reason) (rate(soonbeon_issuer_skips_total` + of + `[1m]))`, "{{queue}}: {{reason}}"}}},
			{"How far Redis is behind the log", "", "s", []query{{`min by (queue) (soonbeon_projector_age_seconds` + of + `)`, "{{queue}}"}}},
			{"Appends to the log, a second", "", "short", []query{{`sum by (result) (rate(soonbeon_log_appends_total[1m]))`, "{{result}}"}}},
			{"Time of an append, p99", "", "s", []query{
				{`histogram_quantile(0.99, sum by (le) (rate(soonbeon_log_append_seconds_bucket[1m])))`, "entries"},
				{`histogram_quantile(0.99, sum by (le) (rate(soonbeon_issuer_append_seconds_bucket[1m])))`, "admissions"}}},
			{"Records that wait for the brokers", "", "short", []query{{`sum by (instance) (soonbeon_log_buffered_records)`, "{{instance}}"}}},
			{"What must not happen", "Troubles of the log, folds that differ, records that can't be read, panics.", "short", []query{
				{`sum by (kind) (increase(soonbeon_log_troubles_total[5m]))`, "log {{kind}}"},
				{`sum by (queue) (increase(soonbeon_follow_checkpoint_differs_total` + of + `[5m]))`, "{{queue}}: folds differ"},
				{`sum by (reason) (increase(soonbeon_log_skipped_records_total[5m]))`, "skipped: {{reason}}"},
				{`sum(increase(soonbeon_http_panics_total[5m]))`, "panics"}}},
			{"Version of the queues' settings", "All processes have the same.", "short", []query{{`soonbeon_catalog_version`, "{{instance}}"}}},
		}},
	}
}

// makeDashboard puts the sections into Grafana's own types.
func makeDashboard(t *testing.T) []byte {
	t.Helper()
	source := common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}
	//lint:ignore SA1019 the classic format is the one that Grafana's import and its provisioning take, old and new
	b := dashboard.NewDashboardBuilder("soonbeon").Uid("soonbeon").Tags([]string{"soonbeon"}).Refresh("5s").Time("now-1h", "now").
		Description("The waiting room: who waits, what people are told, and what is wrong. Alerts: docs/prometheus/alerts.yml.").
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus")).
		WithVariable(dashboard.NewQueryVariableBuilder("queue").Label("Queue").Datasource(source).Multi(true).IncludeAll(true).
			Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
			Query(dashboard.StringOrMap{String: cog.ToPtr("label_values(soonbeon_follow_seq_ticket, queue)")}))
	id := uint32(0)
	for _, s := range sections() {
		id++
		b.WithRow(dashboard.NewRowBuilder(s.title).Id(id))
		for _, p := range s.panels {
			id++
			out := timeseries.NewPanelBuilder().Id(id).Title(p.title).Description(p.about).Unit(p.unit).Min(0).Height(8).Span(12).Datasource(source).
				Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom)).
				OverrideByRegexp("/, rate$/", []dashboard.DynamicConfigValue{{Id: "custom.lineStyle", Value: map[string]any{"fill": "dash"}}})
			for i, q := range p.queries {
				out.WithTarget(prometheus.NewDataqueryBuilder().Datasource(source).Expr(q.expr).LegendFormat(q.legend).Range().RefId(string(rune('A' + i))))
			}
			b.WithPanel(out)
		}
	}
	d, err := b.Build()
	require.NoError(t, err)
	for i := range d.Templating.List {
		v := &d.Templating.List[i]
		v.Auto, v.AutoMin, v.AutoCount = nil, nil, nil // which only intervals have
	}
	text, err := json.MarshalIndent(d, "", "  ")
	require.NoError(t, err)
	return append(text, '\n')
}

// TestDashboard: the file is what the sections above say (`go test ./verify -run TestDashboard -write-dashboard` writes it), Grafana's
// schema takes it, and each expression asks for metrics that there are.
func TestDashboard(t *testing.T) {
	want, path := makeDashboard(t), filepath.Join(root, dashboardFile)
	if *writeDashboard {
		require.NoError(t, os.WriteFile(path, want, 0o644))
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got), "%s is not what services/verify/dashboard_test.go says: run `go test ./verify -run TestDashboard -write-dashboard` in services", dashboardFile)

	plugins.RegisterDefaultPlugins()
	require.Empty(t, schemaProblems(got))
	require.NotEmpty(t, schemaProblems(bytes.Replace(got, []byte(`"panels"`), []byte(`"panel"`), 1)), "it would say so")
	require.NotEmpty(t, schemaProblems(bytes.Replace(got, []byte(`"showLegend"`), []byte(`"showLegends"`), 1)), "also of what only one kind of panel has")

	metrics, _ := metricsIn(goFiles(t, "pkg", "services"))
	var problems []string
	var recorded []map[string]string
	for _, s := range sections() {
		for _, p := range s.panels {
			for _, q := range p.queries {
				for _, name := range unknownMetrics(q.expr, metrics) {
					problems = append(problems, fmt.Sprintf("panel %q asks for %s, and no code has it", p.title, name))
				}
				recorded = append(recorded, map[string]string{"record": fmt.Sprintf("panel:n%d", len(recorded)), "expr": strings.ReplaceAll(q.expr, "$queue", ".*")})
			}
		}
	}
	report(t, problems)

	// Prometheus reads them as recording rules.
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "panels", "rules": recorded}}})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "panels.yml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	promtool(t, "check", "rules", file)
}

// schemaProblems is what Grafana's own types don't know of in a dashboard.
func schemaProblems(text []byte) cog.BuildErrors {
	//lint:ignore SA1019 the classic format is the one that Grafana's import and its provisioning take, old and new
	var d dashboard.Dashboard
	if err := d.UnmarshalJSONStrict(text); err != nil {
		if errs := cog.MakeBuildErrors("dashboard", err); len(errs) > 0 { // none is an error, too
			return errs
		}
	}
	if err := d.Validate(); err != nil {
		return cog.MakeBuildErrors("dashboard", err)
	}
	return nil
}

func TestUnknownMetricsAreFound(t *testing.T) {
	metrics := map[string]string{"soonbeon_x_seconds": "x.go:1"}
	require.Empty(t, unknownMetrics("rate(soonbeon_x_seconds_bucket[1m]) / soonbeon_x_seconds_count", metrics))
	require.Equal(t, []string{"soonbeon_y_total"}, unknownMetrics("soonbeon_x_seconds_sum + soonbeon_y_total", metrics))
	require.True(t, slices.Equal([]string{"no metric of ours"}, unknownMetrics("up", metrics)))
}
