package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// schemathesis is the program that asks for whatever a description allows, and for what it does not; "" where it is not there.
func schemathesis(t *testing.T) string {
	t.Helper()
	for _, path := range []string{"schemathesis", "../../.cache/contract/bin/schemathesis"} {
		if found, err := exec.LookPath(path); err == nil {
			found, err = filepath.Abs(found)
			require.NoError(t, err)
			return found
		}
	}
	t.Skip("schemathesis is not there: python3 -m venv .cache/contract && .cache/contract/bin/pip install schemathesis openapi-spec-validator")
	return ""
}

// TestRealContract asks the process for what its own description allows and what it does not, some hundred times each: no answer is
// a 5xx that is not described, and each answer has a status, a type, headers and a body as described. What is against the
// description is refused. (Not the reverse: a rate times an interval that is more than a batch, say, can't be said in a schema.)
func TestRealContract(t *testing.T) {
	if os.Getenv("SOONBEON_REAL") == "" {
		t.Skip("a program of its own: run make test-real, or set SOONBEON_REAL=1")
	}
	program := schemathesis(t)
	data := filepath.Join(t.TempDir(), "data")
	room := start(t, "standalone", "standalone", nil, "--data", data)
	secret, err := os.ReadFile(filepath.Join(data, "operator.token"))
	require.NoError(t, err)
	description := filepath.Join(t.TempDir(), "openapi.json")
	got := ask(t, "GET", room.private+"/admin/openapi.json", "")
	require.NoError(t, os.WriteFile(description, []byte(got.body), 0o600))

	if validator, err := exec.LookPath(filepath.Join(filepath.Dir(program), "openapi-spec-validator")); err == nil {
		out, err := exec.CommandContext(t.Context(), validator, description).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	main := enter(t, room.public)
	for name, args := range map[string][]string{
		"operators": {"--url", room.private, "--include-path-regex", "^/admin", "-H", "Authorization: Bearer " + strings.TrimSpace(string(secret))},
		"visitors":  {"--url", room.public, "--include-path-regex", "^/queue", "--exclude-path", "/queue/events", "-H", "Authorization: Bearer " + main.Receipt},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"run", description, "--phases", "examples,coverage,fuzzing", "--max-examples", "15", "--seed", "1", "--no-color",
				"--request-timeout", "20", "--checks", "not_a_server_error,status_code_conformance,content_type_conformance," +
					"response_headers_conformance,response_schema_conformance,negative_data_rejection"}, args...)
			cmd := exec.CommandContext(t.Context(), program, args...)
			cmd.Dir = t.TempDir()
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			require.Contains(t, string(out), " passed")
		})
	}
	room.stop(t)
}
