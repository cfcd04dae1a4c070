package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/services/e2e/realservers"
)

// binary is soonbeon, built once for all tests.
var binary string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "soonbeon-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "soonbeon")
	args := []string{"build", "-o", binary}
	if raceEnabled {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "../cmd/soonbeon")...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building soonbeon: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// stopBound is how long a process may take from SIGTERM to its end.
const stopBound = 10 * time.Second

// soonbeon is a process of ours that serves: one role, or standalone.
type soonbeon struct {
	*realservers.Server
	public, private string // http://host:port; public is "" where the role has no such port
	log             string // file: all that it ever printed
}

// start runs `soonbeon role args…` on ports of its own, which it keeps over restarts, and waits until it is ready.
func start(t testing.TB, name string, role string, env []string, args ...string) *soonbeon {
	t.Helper()
	dir := t.TempDir()
	s := &soonbeon{private: fmt.Sprintf("http://127.0.0.1:%d", realservers.Port(t)), log: filepath.Join(dir, name+".log")}
	line := append([]string{role, "--admin", strings.TrimPrefix(s.private, "http://")}, args...)
	if role == "standalone" || role == "enter" || role == "position" {
		s.public = fmt.Sprintf("http://127.0.0.1:%d", realservers.Port(t))
		line = append(line, "--listen", strings.TrimPrefix(s.public, "http://"))
	}
	s.Server = realservers.Process(t, realservers.ProcessConfig{
		Name: name, Path: binary, Args: line, Env: env, Dir: dir, Addr: strings.TrimPrefix(s.public, "http://"), Ready: s.ready,
	})
	t.Cleanup(func() {
		if strings.Contains(s.printed(t), "DATA RACE") {
			t.Errorf("%s has a data race:\n%s", name, s.printed(t))
		}
	})
	return s
}

func (s *soonbeon) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.private+"/readyz", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(res.Body)
		return fmt.Errorf("not ready: %s", body)
	}
	return nil
}

func (s *soonbeon) printed(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile(s.log)
	require.NoError(t, err)
	return string(b)
}

// metric is the sum of a metric's series, 0 where there is none or nobody answers.
func (s *soonbeon) metric(name string) float64 { return s.series(name, "") }

// series is the same of those series that have a label, as `queue="main"`.
func (s *soonbeon) series(name, label string) float64 {
	sum := 0.0
	for line := range strings.Lines(s.metrics()) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if base, labels, _ := strings.Cut(series, "{"); base == name && strings.Contains(labels, label) {
			v, _ := strconv.ParseFloat(value, 64)
			sum += v
		}
	}
	return sum
}

// metrics are all of them, as a scrape has them; "" where nobody answers.
func (s *soonbeon) metrics() string {
	res, err := http.Get(s.private + "/metrics")
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return string(body)
}

// set changes a queue's settings by the operators' API, with the secret in the data folder.
func (s *soonbeon) set(t testing.TB, data, id, settings string) {
	t.Helper()
	secret, err := os.ReadFile(filepath.Join(data, "operator.token"))
	require.NoError(t, err)
	at, bearer := s.private+"/admin/queues/"+id, "Authorization: Bearer "+strings.TrimSpace(string(secret))
	before := ask(t, http.MethodGet, at, "", bearer)
	require.Equal(t, http.StatusOK, before.status, before.body)
	put := ask(t, http.MethodPut, at, `{"settings":`+settings+`}`, bearer, asJSON, "If-Match: "+before.header.Get("ETag"))
	require.Equal(t, http.StatusOK, put.status, put.body)
}

// leads waits until an issuer's claim is in the log: from then on nobody writes but those who enter.
func (s *soonbeon) leads(t testing.TB) {
	t.Helper()
	until(t, 20*time.Second, s.Name()+" leads", s.leading)
}

func (s *soonbeon) leading() bool { return s.metric("soonbeon_issuer_leading") > 0 }

// stop sends SIGTERM, and holds the process to ending well and in time.
func (s *soonbeon) stop(t testing.TB) (took time.Duration) {
	t.Helper()
	code, took := s.stopWith(t)
	require.Zero(t, code, "exit code of %s; it printed:\n%s", s.Name(), s.printed(t))
	return took
}

func (s *soonbeon) stopWith(t testing.TB) (code int, took time.Duration) {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 3*stopBound)
	defer cancel()
	code, err := s.Terminate(ctx)
	took = time.Since(began)
	require.NoError(t, err)
	require.Less(t, took, stopBound+time.Second, "from SIGTERM to the end of %s", s.Name())
	return code, took
}

// result of a command that ends by itself.
type result struct {
	code        int
	out, errOut string
}

// run runs `soonbeon args…` to its end, which it has to reach within a minute.
func run(t testing.TB, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), env...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	require.NoError(t, ctx.Err(), "soonbeon %v does not end; it printed:\n%s%s", args, out.String(), errOut.String())
	if err != nil {
		require.IsType(t, new(exec.ExitError), err)
	}
	require.NotContains(t, errOut.String(), "DATA RACE")
	return result{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// until waits for a condition that has no other sign.
func until(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, within, 20*time.Millisecond, what)
}
