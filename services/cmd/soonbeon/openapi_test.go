package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/services/admin/admintest"
	"github.com/soonbeon/soonbeon/services/standalone"
)

const shop = "shop-shop-shop-shop-shop-shop-shop"

// described is a running process whose every answer is held against the description.
type described struct {
	t        *testing.T
	contract *admintest.Contract
	public   http.Handler
	data     string
	admin    string
}

func describe(t *testing.T) *described {
	t.Helper()
	d := &described{t: t, contract: admintest.Load(t), data: filepath.Join(t.TempDir(), "data")}
	cfg := standalone.Config{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Data: d.data, Queues: []string{"main"}, Rate: 1000, Interval: 100 * time.Millisecond,
		GrantTTL: time.Minute, Reentry: "back", Identity: "anonymous", StartTimeout: time.Minute, Sites: "shop:" + shop}
	p, err := standalone.New(t.Context(), cfg, standalone.All, zap.NewNop())
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() { stop(t, p) })
	d.public = d.contract.Wrap(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: p.Public()}))
	d.admin = p.Private()
	return d
}

// ask answers what was told, as JSON.
func (d *described) ask(status int, method, path, body, credential string) map[string]any {
	d.t.Helper()
	got, answer := d.try(method, path, body, credential)
	require.Equal(d.t, status, got, "%s %s: %v", method, path, answer)
	return answer
}

func (d *described) try(method, path, body, credential string) (int, map[string]any) {
	d.t.Helper()
	r := httptest.NewRequestWithContext(d.t.Context(), method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if credential != "" {
		r.Header.Set("Authorization", "Bearer "+credential)
	}
	w := httptest.NewRecorder()
	d.public.ServeHTTP(w, r)
	raw, err := io.ReadAll(w.Body)
	require.NoError(d.t, err)
	answer := map[string]any{}
	if len(raw) > 0 {
		require.NoError(d.t, json.Unmarshal(raw, &answer), string(raw))
	}
	return w.Code, answer
}

func (d *described) enter(queue string) string {
	d.t.Helper()
	return d.ask(202, "POST", "/queue/enter", fmt.Sprintf(`{"queue":%q}`, queue), "")["receipt"].(string)
}

// until polls until the answer has that state.
func (d *described) until(queue, receipt, state string) map[string]any {
	d.t.Helper()
	var last map[string]any
	require.Eventually(d.t, func() bool {
		var status int
		status, last = d.try("GET", "/queue/position?queue="+queue, "", receipt)
		return status == 200 && last["state"] == state
	}, 20*time.Second, 10*time.Millisecond, "the last answer: %v", last)
	return last
}

func (d *described) queue(args ...string) {
	d.t.Helper()
	_, _, err := soonbeon(d.t, append(append([]string{"queue"}, args...), "--admin="+d.admin, "--data="+d.data)...)
	require.NoError(d.t, err)
}

// What a visitor and a site go through is answered as it is described, from the entry to the end.
func TestPublicAnswersAreAsDescribed(t *testing.T) {
	d := describe(t)
	_, err := os.Stat(filepath.Join(d.data, standalone.OperatorToken))
	require.NoError(t, err)

	receipt := d.enter("main")
	in := d.until("main", receipt, "admitted")
	token := in["token"].(string)
	d.ask(200, "POST", "/queue/enter", `{"queue":"main"}`, token)
	completion := fmt.Sprintf(`{"queue":"main","token":%q}`, token)
	d.ask(401, "POST", "/queue/complete", completion, "")
	d.ask(403, "POST", "/queue/complete", completion, token)
	d.ask(404, "POST", "/queue/complete", `{"queue":"main","token":"x"}`, shop)
	d.ask(200, "POST", "/queue/complete", completion, shop)
	d.ask(200, "POST", "/queue/complete", completion, shop)
	d.until("main", receipt, "over")

	d.queue("create", "lots", "--order=draw", "--opens-at=2099-01-01T00:00:00Z", "--message=soon")
	waits := d.enter("lots")
	position := d.until("lots", waits, "waiting")
	require.NotContains(t, position, "position", "nobody can know before the draw")
	require.Equal(t, "soon", position["message"])
	info := d.ask(200, "GET", "/queue/info?queue=main", "", "")
	require.Equal(t, "open", info["state"])
	d.ask(200, "GET", "/queue/draw?queue=lots", "", "")
	d.ask(404, "GET", "/queue/draw?queue=main", "", "")
	d.queue("set", "lots", "--opens-at="+time.Now().Add(time.Second).UTC().Format(time.RFC3339), "--rate=0.001", "--conservative-rate=0.001")
	require.Eventually(t, func() bool {
		_, lots := d.try("GET", "/queue/draw?queue=lots", "", "")
		return lots["seed"] != nil
	}, 20*time.Second, 20*time.Millisecond)

	d.queue("create", "slow", "--rate=0.001", "--opens-at=2099-01-01T00:00:00Z")
	first, second := d.enter("slow"), d.enter("slow")
	d.until("slow", first, "waiting")
	d.queue("pause", "slow", "--message=a moment")
	require.Eventually(t, func() bool {
		_, a := d.try("GET", "/queue/position?queue=slow", "", first)
		return a["paused"] == true
	}, 20*time.Second, 10*time.Millisecond)
	d.ask(200, "POST", "/queue/leave", `{"queue":"slow"}`, first)
	d.until("slow", first, "over")
	d.queue("close", "slow", "--ending", "--reason=sold_out")
	require.Equal(t, "sold_out", d.until("slow", second, "over")["reason"])
	gone := d.ask(410, "POST", "/queue/enter", `{"queue":"slow"}`, "")
	require.Equal(t, "sold_out", gone["reason"])

	// What is refused.
	d.ask(404, "POST", "/queue/enter", `{"queue":"nobodys"}`, "")
	d.ask(400, "POST", "/queue/enter", `{"queue":"A"}`, "")
	d.ask(400, "POST", "/queue/enter", `{"queue":"main","visitor":"v"}`, "")
	d.ask(413, "POST", "/queue/enter", `{"queue":"`+strings.Repeat("x", 5000)+`"}`, "")
	d.ask(415, "POST", "/queue/enter", "", "")
	d.ask(401, "GET", "/queue/position?queue=main", "", "")
	d.ask(400, "GET", "/queue/position", "", "")
	d.ask(404, "GET", "/queue/position?queue=nobodys", "", receipt)
	d.ask(401, "POST", "/queue/leave", `{"queue":"main"}`, "")
	d.ask(401, "GET", "/queue/events?queue=main", "", "")
	d.ask(404, "GET", "/nowhere", "", "")
}
