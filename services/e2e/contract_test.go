package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// contractTool finds schemathesis, which asks for whatever a description allows and for what it does not, or the validator of descriptions. Where it is not
// there, the test is skipped; in CI it fails.
func contractTool(t *testing.T, name string) string {
	t.Helper()
	for _, path := range []string{name, "../../.cache/contract/bin/" + name} {
		if found, err := exec.LookPath(path); err == nil {
			found, err = filepath.Abs(found)
			require.NoError(t, err)
			return found
		}
	}
	why := name + " is not there: python3 -m venv .cache/contract && .cache/contract/bin/pip install schemathesis openapi-spec-validator"
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
	return ""
}

// TestRealContract asks the process for what its own description allows and what it does not, some hundred times each: no answer is
// a 5xx that is not described, and each answer has a status, a type, headers and a body as described. What is against the
// description is refused. (Not the reverse: a rate times an interval that is more than a batch, say, can't be said in a schema.)
func TestRealContract(t *testing.T) {
	if os.Getenv("SOONBEON_REAL") == "" {
		t.Skip("a program of its own: run make test-real, or set SOONBEON_REAL=1")
	}
	program, validator := contractTool(t, "schemathesis"), contractTool(t, "openapi-spec-validator")
	data := filepath.Join(t.TempDir(), "data")
	const shop = "shop-shop-shop-shop-shop-shop-shop"
	room := start(t, "standalone", "standalone", []string{"SOONBEON_SITES=shop:" + shop}, "--data", data)
	secret, err := os.ReadFile(filepath.Join(data, "operator.token"))
	require.NoError(t, err)
	description := filepath.Join(t.TempDir(), "openapi.json")
	got := ask(t, "GET", room.private+"/admin/openapi.json", "")
	require.NoError(t, os.WriteFile(description, []byte(got.body), 0o600))
	out, err := exec.CommandContext(t.Context(), validator, description).CombinedOutput()
	require.NoError(t, err, string(out))

	main, done := enter(t, room.public), enter(t, room.public)
	var in reply
	until(t, 10*time.Second, "the turn of both has come", func() bool {
		in = position(t, room.public, done.Receipt)
		return in.State == "admitted" && position(t, room.public, main.Receipt).State == "admitted"
	})
	// So that what can't be guessed is asked for as well: the queue that there is, and an admission that can be completed.
	require.NoError(t, os.WriteFile(description, []byte(withExamples(t, got.body, in.Token)), 0o600))
	for _, who := range []struct {
		name string
		args []string
	}{
		{"sites", []string{"--url", room.public, "--include-path", "/queue/complete", "-H", "Authorization: Bearer " + shop}},
		{"visitors", []string{"--url", room.public, "--include-path-regex", "^/queue", "--exclude-path", "/queue/complete", "-H", "Authorization: Bearer " + main.Receipt}},
		{"operators", []string{"--url", room.private, "--include-path-regex", "^/admin", "-H", "Authorization: Bearer " + strings.TrimSpace(string(secret))}},
	} {
		t.Run(who.name, func(t *testing.T) {
			args := append([]string{"run", description, "--phases", "examples,coverage,fuzzing", "--max-examples", "15", "--seed", "1", "--no-color",
				"--request-timeout", "20", "--checks", "not_a_server_error,status_code_conformance,content_type_conformance," +
					"response_headers_conformance,response_schema_conformance,negative_data_rejection"}, who.args...)
			cmd := exec.CommandContext(t.Context(), program, args...)
			cmd.Dir = t.TempDir()
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			require.Contains(t, string(out), " passed")
		})
	}
	metrics := ask(t, "GET", room.private+"/metrics", "").body
	require.True(t, strings.Contains(metrics, `soonbeon_enter_requests_total{operation="complete",result="completed"} 1`), "the example was asked for")
	room.stop(t)
}

// withExamples puts examples into the description that only this process has.
func withExamples(t *testing.T, description, token string) string {
	t.Helper()
	for was, now := range map[string]string{
		`"name": "queue",`: `"name": "queue", "example": "main",`,
		`"schema": {"$ref": "#/components/schemas/Completion"}`: `"example": {"queue": "main", "token": "` + token + `"}, "schema": {"$ref": "#/components/schemas/Completion"}`,
	} {
		require.Equal(t, 1, strings.Count(description, was), was)
		description = strings.Replace(description, was, now, 1)
	}
	return description
}
