package dashboard

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/admin"
	"github.com/soonbeon/soonbeon/services/catalog"
	"github.com/soonbeon/soonbeon/services/catalog/catalogtest"
	"github.com/soonbeon/soonbeon/services/follow"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// TestInABrowser has a real Chromium look at the dashboard and use its controls: dashboard.test.mjs says what. The catalogue and the
// operators' API are real, the lines are those of this file.
func TestInABrowser(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium (Debian: apt-get install chromium fonts-noto-cjk): the dashboard is not looked at")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node (Debian: apt-get install nodejs npm): the dashboard is not looked at")
	}
	const tools = "../page/client"
	if _, err := os.Stat(tools + "/node_modules/playwright-core"); err != nil {
		t.Skip("playwright-core is not there (cd services/page/client && npm ci): the dashboard is not looked at")
	}
	c := catalogtest.Start(t)
	for _, id := range []queue.ID{"main", "second"} {
		e, err := c.Editor.Create(c.Soon(), "setup", id, queue.DefaultSettings())
		require.NoError(t, err)
		require.NoError(t, c.Follower.Seen(c.Soon(), e.Version))
	}
	w := newWorld("main", "second")
	main := w.readings["main"]
	main.live = follow.Live{Waiting: 7412, Active: 31, OldestMs: 95_000, State: queue.State{Seq: 9000, Served: 1500}}
	main.waits = follow.Waits{P50: 40_000, P90: 80_000, P99: 94_000}
	main.claim = queue.Record{Ticket: 4, Mode: queue.ModeRedis, Issuer: "host/7", AtMs: time.Now().Add(-time.Hour).UnixMilli()}
	w.applied["main"] = 8990
	w.why["second"] = queue.Empty.String()
	for i := range 40 {
		main.batches = append(main.batches, follow.Batch{AtMs: time.Now().Add(time.Duration(i-10) * time.Second).UnixMilli(), People: 150})
	}
	cfg := w.config()
	cfg.Queues, cfg.Look, cfg.Sample = c.Follower.AllAny, 200*time.Millisecond, time.Second
	s, err := New(cfg, zap.NewNop(), nil)
	require.NoError(t, err)

	e, err := httpapi.New(httpapi.Config{}, zap.NewNop(), prometheus.NewRegistry())
	require.NoError(t, err)
	s.Register(e)
	api, err := admin.New(admin.Config{Known: c.Follower, Editor: c.Editor, Operators: cfg.Operators, Changes: c.Log.Changes,
		Live: func(id queue.ID) *catalog.Live {
			return &catalog.Live{Waiting: w.readings[id].Live(time.Now()).Waiting}
		}})
	require.NoError(t, err)
	api.Register(e)
	e.POST("/test/break", func(c echo.Context) error { // Redis fails
		main.change(func() {
			main.claim = queue.Record{Ticket: 9, Mode: queue.ModeDirect, Issuer: "host/7", AtMs: time.Now().UnixMilli()}
		})
		return c.NoContent(http.StatusNoContent)
	})
	e.POST("/test/lose", func(c echo.Context) error { // another process leads second, and keeps its line
		w.readings["second"].change(func() { w.readings["second"].noLine = true })
		w.change(func() { w.why["second"] = queue.SkipNotLeading })
		return c.NoContent(http.StatusNoContent)
	})
	e.POST("/test/find", func(c echo.Context) error {
		w.readings["second"].change(func() { w.readings["second"].noLine = false })
		w.change(func() { w.why["second"] = queue.Empty.String() })
		return c.NoContent(http.StatusNoContent)
	})
	server := httpapi.NewServer(httpapi.ServerConfig{Name: "private", Address: "127.0.0.1:0"}, e, zap.NewNop())
	require.NoError(t, server.Start(t.Context()))
	require.NoError(t, s.Start(t.Context()))
	defer func() {
		require.NoError(t, s.Stop(context.Background()))
		require.NoError(t, server.Stop(context.Background()))
	}()

	cmd := exec.CommandContext(t.Context(), node, "--test", "--test-reporter=spec", "dashboard.test.mjs")
	cmd.Env = append(os.Environ(), "DASHBOARD=http://"+server.Addr()+"/dashboard/", "SECRET="+annas, "BOB="+bobs, "CHROMIUM="+chromium, "TOOLS="+tools)
	out, err := cmd.CombinedOutput()
	t.Log(string(out))
	require.NoError(t, err)

	// All of it has left its record.
	changes, err := c.Log.Changes(c.Soon(), "main", 20)
	require.NoError(t, err)
	var done []string
	for _, ch := range changes {
		done = append(done, ch.Who+" "+ch.Action)
	}
	require.Equal(t, []string{"anna close", "anna resume", "anna pause", "anna close", "anna resume", "anna close", "anna resume", "anna pause", "bob set", "anna set", "setup create"}, done)
	now, _ := c.Follower.GetAny("main")
	require.True(t, now.Closed && now.Ending)
	require.Equal(t, queue.WhySoldOut, now.Why)
	require.Equal(t, 50.0, now.Settings.Rate)
	require.Equal(t, "곧 다시 시작합니다", now.Settings.Message)
}
