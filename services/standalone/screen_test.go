package standalone

import (
	"bufio"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// The private port shows the dashboard, which tells operators what goes on, and its streams don't hold up a stop.
func TestTheDashboardOfAProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := started(t, embeddedConfig(dir), All)
	ready(t, p)
	get := func(path, bearer string) *http.Response {
		req, err := http.NewRequestWithContext(soon(t), "GET", "http://"+p.Private()+path, nil)
		require.NoError(t, err)
		if bearer != "" {
			req.Header.Set("Authorization", "Bearer "+bearer)
		}
		req.Close = true
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}
	page := get("/", "")
	require.Equal(t, 200, page.StatusCode)
	require.Equal(t, "/dashboard/", page.Request.URL.Path)
	require.Equal(t, 200, get("/healthz", "").StatusCode)
	require.Equal(t, 404, get("/nothing", "").StatusCode)
	require.Equal(t, 401, get("/dashboard/events", "").StatusCode)

	operator, err := os.ReadFile(filepath.Join(dir, OperatorToken))
	require.NoError(t, err)
	events := bufio.NewScanner(get("/dashboard/events?queue=main", strings.TrimSpace(string(operator))).Body)
	enterMain(t, p)
	for entered := false; !entered; {
		require.True(t, events.Scan(), "the stream has ended")
		entered = strings.Contains(events.Text(), `"entered":1,`)
	}
	because := func(why string) string { return p.live("main", func(queue.ID) string { return why }).Skip }
	require.Equal(t, queue.SkipPaused, because(queue.SkipPaused))
	require.Empty(t, because(queue.SkipNotLeading), "another process may let people in")
	require.NoError(t, p.Stop(soon(t)))
	for events.Scan() {
	}
	require.NoError(t, events.Err(), "an end, and not a cut")
}
