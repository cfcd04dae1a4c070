package verify

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGrafanasPublishedTypesTakeTheDashboard holds the dashboard against the newest types that Grafana publishes (@grafana/schema), beside those of the
// SDK that it is made with. They are a tool of this test: nothing of them is linked or shipped.
func TestGrafanasPublishedTypesTakeTheDashboard(t *testing.T) {
	tsc, err := filepath.Abs("grafana/node_modules/.bin/tsc")
	require.NoError(t, err)
	if _, err := os.Stat(tsc); err != nil {
		why := "Grafana's types are not there: cd services/verify/grafana && npm ci"
		if os.Getenv("CI") != "" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	text, err := os.ReadFile(filepath.Join(root, dashboardFile))
	require.NoError(t, err)
	check := func(text []byte) (string, error) {
		t.Helper()
		out := "grafana/.out"
		require.NoError(t, os.MkdirAll(out, 0o755))
		defer os.RemoveAll(out)
		source := append([]byte("import type { DashboardJSON } from \"../schema.ts\";\nexport const dashboard: DashboardJSON = "), text...)
		require.NoError(t, os.WriteFile(filepath.Join(out, "dashboard.ts"), source, 0o600))
		cmd := exec.CommandContext(t.Context(), tsc, "-p", ".")
		cmd.Dir = "grafana"
		said, err := cmd.CombinedOutput()
		return string(said), err
	}
	said, err := check(text)
	require.NoError(t, err, said)
	for was, is := range map[string]string{`"panels"`: `"panel"`, `"gridPos"`: `"grid"`, `"refresh": "5s"`: `"refresh": 5`} {
		_, err = check(bytes.Replace(text, []byte(was), []byte(is), 1))
		require.Error(t, err, "it would say so of %s", is)
	}
}
