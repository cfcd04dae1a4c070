package page_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/gate"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/httpapi"
	"github.com/soonbeon/soonbeon/services/page"
)

// TestRealBrowser walks a real Chromium through every state, and through what people do: client/browser says what. The line is a
// small one of this file (a line of numbers), the site has a real gate, and tokens are real.
func TestRealBrowser(t *testing.T) {
	if os.Getenv("SOONBEON_REAL") == "" {
		t.Skip("a real browser: run make test-real, or set SOONBEON_REAL=1")
	}
	chromium, err := exec.LookPath("chromium")
	require.NoError(t, err, "apt-get install chromium fonts-noto-cjk")
	node, err := exec.LookPath("node")
	require.NoError(t, err, "apt-get install nodejs npm (20 or later)")
	_, err = os.Stat("client/node_modules/playwright-core")
	require.NoError(t, err, "cd services/page/client && npm ci")
	list, err := pass.GenerateKeys()
	require.NoError(t, err)
	keys, err := pass.ParseKeys(list)
	require.NoError(t, err)

	site := httptest.NewUnstartedServer(nil)
	room := httptest.NewUnstartedServer(nil)
	address := func(s *httptest.Server) string { // a name, as in earnest; browsers take Secure cookies from it
		_, port, err := net.SplitHostPort(s.Listener.Addr().String())
		require.NoError(t, err)
		return "http://localhost:" + port
	}
	g, err := gate.New(gate.Config{Queue: "main", Keys: keys, WaitingRoom: address(room), Site: address(site)})
	require.NoError(t, err)
	site.Config.Handler = g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entry, _ := gate.EntryFrom(r.Context())
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, "<!doctype html><title>Shop</title><p id=in>in with ticket %d</p>", entry.Ticket)
	}))

	lineUp := func() *fakeLine {
		l := &fakeLine{keys: keys, byKey: map[string]string{}, ticket: map[string]int64{}, until: map[string]time.Time{}}
		l.reset()
		return l
	}
	before := func(l *fakeLine, dir string) http.Handler {
		r := open(t, func(c *page.Config) {
			c.Dir = dir
			c.ReturnOrigins = []string{address(site)}
			c.Find = func(id queue.ID) (*queue.Entry, bool) { return l.entry(), id == "main" }
		})
		r.enter, r.position = l.enter, l.position
		r.GET("/queue/events", l.events)
		r.POST("/queue/leave", l.leave)
		r.POST("/test", l.set)
		return r
	}
	l := lineUp()
	room.Config.Handler = before(l, "")
	theirs := lineUp() // for a test that runs beside the others
	own := httptest.NewUnstartedServer(before(theirs, documentedLook(t)))
	site.Start()
	defer site.Close()
	room.Start()
	own.Start()
	defer func() {
		for _, l := range []*fakeLine{l, theirs} {
			l.changed(func() { l.closing = true })
		}
		room.Close()
		own.Close()
	}()

	files, err := filepath.Glob("client/browser/*.test.mjs")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	args := []string{"--test", "--test-concurrency=2", "--test-reporter=spec"}
	if only := os.Getenv("ONLY"); only != "" { // a pattern, for who works on one of them
		args = append(args, "--test-name-pattern="+only)
	}
	cmd := exec.CommandContext(t.Context(), node, append(args, files...)...)
	cmd.Env = append(os.Environ(), "ROOM="+address(room), "SITE="+address(site), "OWN="+address(own), "CHROMIUM="+chromium)
	out, err := cmd.CombinedOutput()
	t.Log(string(out))
	require.NoError(t, err)
}

// documentedLook is a folder with the template that docs/waiting-page.md shows, and what that needs.
func documentedLook(t *testing.T) string {
	text, err := os.ReadFile("../../docs/waiting-page.md")
	require.NoError(t, err)
	_, template, found := strings.Cut(string(text), "\n```html\n")
	require.True(t, found)
	template, _, _ = strings.Cut(template, "```")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"template.html": template,
		"style.css":     "header{background:#032;padding:1rem}",
		"logo.svg":      `<svg xmlns="http://www.w3.org/2000/svg" width="120" height="40"><rect width="120" height="40" fill="#fff"/></svg>`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// fakeLine is a line in which everybody's place is a matter of two numbers: the last ticket given out, and the last one served.
type fakeLine struct {
	keys *pass.Keys

	mu      sync.Mutex
	moved   chan struct{} // closed when something changes
	closing bool
	byKey   map[string]string // Idempotency-Key → visitor
	ticket  map[string]int64
	until   map[string]time.Time
	state   lineState
	count   map[string]int
}

type lineState struct {
	Last, Served int64
	Now          queue.Entry
	Rule         string
	Down         bool // 503 for everything
	Approximate  bool
	RetryMs      int64
	GrantMs      int64
	NoStreams    bool
	AdmitTo      string
}

func (l *fakeLine) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = lineState{Now: queue.Entry{ID: "main", Settings: queue.DefaultSettings()}, RetryMs: 300, GrantMs: 60_000}
	l.count = map[string]int{}
	if l.moved != nil {
		close(l.moved)
	}
	l.moved = make(chan struct{})
}

func (l *fakeLine) changed(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.moved)
	l.moved = make(chan struct{})
}

func (l *fakeLine) entry() *queue.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.state.Now
	e.Settings.Reentry, _ = queue.ParseReentry(l.state.Rule)
	return &e
}

// set changes what the body names, and answers with what was asked since the last reset.
func (l *fakeLine) set(c echo.Context) error {
	b, err := io.ReadAll(c.Request().Body)
	if err != nil {
		return err
	}
	if strings.Contains(string(b), `"reset"`) {
		l.reset()
	}
	l.changed(func() { err = json.Unmarshal(b, &l.state) })
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return c.JSON(200, map[string]any{"count": l.count, "last": l.state.Last, "served": l.state.Served})
}

func (l *fakeLine) who(r *http.Request) (string, error) {
	v, _, err := httpapi.Authenticate(r, "main", func(token string) (string, error) {
		receipt, err := l.keys.VerifyReceipt(token, "main")
		return receipt.Visitor, err
	})
	return v, err
}

func (l *fakeLine) down(kind string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count[kind]++
	if l.state.Down {
		return httpapi.Problemf(httpapi.LogUnavailable, "down").After(time.Second)
	}
	return nil
}

func (l *fakeLine) receipt(v string) string {
	s, _ := l.keys.SignReceipt(pass.Receipt{Queue: "main", Visitor: v, Ticket: queue.Ticket(l.ticket[v]), Ahead: queue.NoAhead, IssuedMs: time.Now().UnixMilli()})
	return s
}

func (l *fakeLine) enter(c echo.Context) error {
	if err := l.down("enter"); err != nil {
		return err
	}
	if _, err := httpapi.DecodeQueue(c); err != nil {
		return err
	}
	if ok, why := l.entry().TakesEntries(time.Now().UnixMilli()); !ok {
		return httpapi.Problemf(httpapi.QueueClosed, "closed").With("reason", why).With("message", l.entry().Settings.Message)
	}
	v, err := l.who(c.Request())
	key := c.Request().Header.Get("Idempotency-Key")
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.byKey[key]
	if err != nil {
		if v = known; v == "" {
			v = queue.NewVisitor()
		}
	}
	if known != v || l.ticket[v] == 0 {
		l.byKey[key] = v
		l.count["entered"]++
		if l.ticket[v] == 0 || l.state.Rule != "keep" {
			l.state.Last++
			l.ticket[v] = l.state.Last
		}
	}
	receipt := l.receipt(v)
	c.Response().Header().Set("Set-Cookie", httpapi.ReceiptCookie("main", receipt))
	return c.JSON(202, map[string]any{"status": "accepted", "queue": "main", "visitor": v, "ticket": l.ticket[v], "receipt": receipt, "retryAfterMs": l.state.RetryMs})
}

// where is what v is told; final says that it does not wait.
func (l *fakeLine) where(v string) (told map[string]any, position int64, final bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, e := l.ticket[v], l.state.Now
	switch {
	case t == 0:
		return map[string]any{"state": "over", "reason": "left"}, 0, true
	case t <= l.state.Served:
		until, ok := l.until[v]
		if !ok { // each answer gives the same token, as in earnest
			until = time.Now().Add(time.Duration(l.state.GrantMs) * time.Millisecond)
			l.until[v] = until
		}
		if time.Now().After(until) {
			return map[string]any{"state": "over", "reason": "expired"}, 0, true
		}
		since := until.Add(-time.Duration(l.state.GrantMs)*time.Millisecond - time.Second)
		token, _ := l.keys.SignEntry(pass.Entry{Queue: "main", Visitor: v, Ticket: queue.Ticket(t), AdmittedMs: since.UnixMilli(), ExpiresMs: until.UnixMilli()})
		return map[string]any{"state": "admitted", "queue": "main", "token": token, "expiresAt": until.UTC().Format(time.RFC3339Nano), "admitTo": l.state.AdmitTo}, 0, true
	case e.Closed && e.Ending:
		return map[string]any{"state": "over", "reason": e.Why, "message": e.Settings.Message}, 0, true
	}
	ahead := t - 1 - l.state.Served
	told = map[string]any{
		"state": "waiting", "position": ahead + 1, "ahead": ahead, "ticket": t, "nowServing": l.state.Served, "retryAfterMs": l.state.RetryMs,
		"precision": "exact", "receipt": l.receipt(v), "etaSeconds": ahead / 2,
	}
	if l.state.Approximate {
		told["precision"] = "approximate"
	} else {
		told["behind"], told["total"] = l.state.Last-t, l.state.Last-l.state.Served
	}
	if e.Settings.Message != "" {
		told["message"] = e.Settings.Message
	}
	if e.Paused {
		told["paused"] = true
		delete(told, "etaSeconds")
	}
	if ms := e.Settings.OpensAtMs - time.Now().UnixMilli(); ms > 0 {
		told["opensAt"], told["opensInSeconds"] = time.UnixMilli(e.Settings.OpensAtMs).UTC().Format(time.RFC3339Nano), (ms+999)/1000
		delete(told, "etaSeconds")
	}
	return told, ahead + 1, false
}

func (l *fakeLine) position(c echo.Context) error {
	if err := l.down("position"); err != nil {
		return err
	}
	v, err := l.who(c.Request())
	if err != nil {
		return err
	}
	told, _, _ := l.where(v)
	if r, ok := told["receipt"].(string); ok {
		c.Response().Header().Set("Set-Cookie", httpapi.ReceiptCookie("main", r))
	}
	return c.JSON(200, told)
}

func (l *fakeLine) leave(c echo.Context) error {
	v, err := l.who(c.Request())
	if err != nil {
		return err
	}
	l.changed(func() { delete(l.ticket, v); l.count["left"]++ })
	return c.JSON(200, map[string]any{"status": "left"})
}

func (l *fakeLine) events(c echo.Context) error {
	if err := l.down("events"); err != nil {
		return err
	}
	v, err := l.who(c.Request())
	if err != nil {
		return err
	}
	l.mu.Lock()
	off := l.state.NoStreams
	l.mu.Unlock()
	if _, position, _ := l.where(v); off || position > 100 {
		return echo.NewHTTPError(http.StatusNotFound)
	}
	c.Response().Header().Set("Content-Type", "text/event-stream")
	for id := 1; ; id++ {
		l.mu.Lock()
		moved, stop := l.moved, l.closing || l.state.Down || l.state.NoStreams
		l.mu.Unlock()
		if stop {
			return nil
		}
		told, _, final := l.where(v)
		b, err := json.Marshal(told)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(c.Response(), "retry: 300\nid: %s\nevent: %v\ndata: %s\n\n", strconv.Itoa(id), told["state"], b)
		c.Response().Flush()
		if final {
			return nil
		}
		select {
		case <-moved:
		case <-c.Request().Context().Done():
			return nil
		}
	}
}
