package gate

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	sitegate "github.com/soonbeon/soonbeon/pkg/gate"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/redisline/redislinetest"
	"github.com/soonbeon/soonbeon/services/standalone"
)

// proxy finds a proxy's program, or skips the test.
func proxy(t *testing.T, name string) string {
	t.Helper()
	// The last is where CI puts Traefik and Envoy, which Debian does not have: pip install -r .ci/proxies.txt in a venv there.
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "../../.cache/proxies/bin") {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path
		}
	}
	if os.Getenv("SOONBEON_REAL") != "" {
		t.Fatalf("%s is not installed: apt-get install %[1]s", name)
	}
	t.Skipf("%s is not installed", name)
	return ""
}

// documented is the first block of docs/gate.md in a language, or the first below a heading.
func documented(t *testing.T, language string, below ...string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/gate.md")
	require.NoError(t, err)
	for _, heading := range below {
		_, after, found := strings.Cut(string(text), "\n### "+heading+"\n")
		require.True(t, found)
		text = []byte(after)
	}
	_, block, found := strings.Cut(string(text), "\n```"+language+"\n")
	require.True(t, found)
	block, _, _ = strings.Cut(block, "\n```")
	return block
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// replace puts a test's addresses where the documented configuration has its own; each must be there.
func replace(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		require.Contains(t, text, pairs[i])
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	return text
}

// run starts a program that dies with the test, and waits until each address takes connections.
func run(t *testing.T, path string, args []string, addrs ...string) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(out.String())
		}
	})
	for _, addr := range addrs {
		require.Eventually(t, func() bool {
			c, err := net.Dial("tcp", addr)
			if err == nil {
				_ = c.Close()
			}
			return err == nil
		}, 10*time.Second, 10*time.Millisecond, "%s listens on %s", path, addr)
	}
}

// nginxAsDocumented runs nginx with the configuration of docs/gate.md.
func nginxAsDocumented(t *testing.T, gate, room, shop string) (shopURL, roomURL string) {
	t.Helper()
	path := proxy(t, "nginx")
	dir := t.TempDir()
	conf := replace(t, documented(t, "nginx"), "127.0.0.1:8090", gate, "127.0.0.1:8080", room, "127.0.0.1:3000", shop)
	shopURL, roomURL = freeAddr(t), freeAddr(t)
	conf = replace(t, conf, "listen 443 ssl;", "listen "+shopURL+";", "listen 443 ssl;", "listen "+roomURL+";")
	conf = "pid nginx.pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log access.log;\n" +
		"client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;\n" + conf + "\n}\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o600))
	run(t, path, []string{"-p", dir, "-c", "nginx.conf", "-e", "stderr", "-g", "daemon off; master_process off;"}, shopURL, roomURL)
	t.Cleanup(func() {
		log, err := os.ReadFile(filepath.Join(dir, "access.log"))
		if err == nil && regexp.MustCompile(`ey[A-Za-z0-9_-]+\.ey`).Match(log) {
			t.Errorf("a token got into the log:\n%s", log)
		}
	})
	return "http://" + shopURL, "http://" + roomURL
}

// newShop is the protected site: it says what it was asked and by whom.
func newShop(t *testing.T) (addr string, asked func() []string) {
	var (
		mu  sync.Mutex
		all []string
	)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		said := fmt.Sprintf("shop: %s %s visitor=%q ticket=%q body=%s", r.Method, r.RequestURI, r.Header.Get("Soonbeon-Visitor"), r.Header.Get("Soonbeon-Ticket"), body)
		mu.Lock()
		all = append(all, said)
		mu.Unlock()
		_, _ = io.WriteString(w, said)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://"), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// process is `soonbeon gate` in this process.
func newProcess(t *testing.T, cfg Config) *Process {
	t.Helper()
	p, err := NewProcess(t.Context(), cfg, nil, zap.NewNop())
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() { _ = p.Stop(context.Background()) })
	return p
}

// visit is a request of somebody who follows no redirects by themselves.
func visit(t *testing.T, method, target string, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	res, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res, string(b)
}

const form = "application/x-www-form-urlencoded"

// street is a shop, a waiting room and a gate behind one nginx, all as docs/gate.md says.
type street struct {
	shop, room string
	gate       *Process
	asked      func() []string // what the shop was asked for
}

func newStreet(t *testing.T) *street {
	t.Helper()
	proxy(t, "nginx")
	keys, err := pass.GenerateKeys()
	require.NoError(t, err)
	s := &street{}
	gateAddr, roomAddr := freeAddr(t), freeAddr(t)
	shop, asked := newShop(t)
	s.shop, s.room = nginxAsDocumented(t, gateAddr, roomAddr, shop)
	s.asked = asked
	room, err := standalone.New(t.Context(), standalone.Config{
		Listen: roomAddr, Admin: "127.0.0.1:0", Data: t.TempDir(), Queues: []string{"main"}, Rate: 10, Interval: 100 * time.Millisecond,
		GrantTTL: time.Minute, Reentry: "back", Identity: "anonymous", StartTimeout: time.Minute, Keys: keys, ReturnOrigins: []string{s.shop},
	}, standalone.All, zap.NewNop())
	require.NoError(t, err)
	require.NoError(t, room.Start(t.Context()))
	t.Cleanup(func() { _ = room.Stop(context.Background()) })
	s.gate = newProcess(t, Config{
		Listen: gateAddr, Admin: "127.0.0.1:0", Queues: []string{"main"}, Keys: keys, WaitingRoom: s.room, Site: s.shop, TrustedProxies: []string{"127.0.0.1"},
	})
	return s
}

// The whole way, as docs/gate.md says to set it up: a person comes to the shop, waits, and comes back to where they were going.
func TestNginxAsDocumented(t *testing.T) {
	s := newStreet(t)
	shopURL, roomURL := s.shop, s.room

	// To the shop, and from there into the line.
	const target = "/%EA%B3%B5%EC%97%B0/7?a=1+2&b=%23"
	res, _ := visit(t, "GET", shopURL+target, "", "Accept", browser)
	require.Equal(t, 303, res.StatusCode)
	require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
	at, err := url.Parse(res.Header.Get("Location"))
	require.NoError(t, err)
	require.Equal(t, roomURL+"/queue/wait", at.Scheme+"://"+at.Host+at.Path)
	back, err := sitegate.ReturnAddress(at.Query().Get("return"), []string{shopURL})
	require.NoError(t, err)
	require.Equal(t, shopURL+target, back)
	res, body := visit(t, "GET", at.String(), "", "Accept", browser)
	require.Equal(t, 200, res.StatusCode, body)
	require.Contains(t, body, "arrive/main", "the page knows where to go")

	// A program is told in its own words; a form is not sent.
	res, body = visit(t, "POST", shopURL+"/api", `{"a":1}`, "Accept", "application/json")
	require.Equal(t, 401, res.StatusCode)
	require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
	require.Contains(t, body, `"code":"entry_token_required"`)
	res, body = visit(t, "POST", shopURL+"/buy", "a=b", "Accept", browser, "Content-Type", form)
	require.Equal(t, 401, res.StatusCode)
	require.Contains(t, body, "Go to the line")

	// The line, and the stream of whoever is near its head, through the same nginx.
	var receipt string
	for range 30 {
		res, body = visit(t, "POST", roomURL+"/queue/enter", `{"queue":"main"}`, "Content-Type", "application/json", "Origin", roomURL)
		require.Equal(t, 202, res.StatusCode, body)
		var answer struct{ Receipt string }
		require.NoError(t, json.Unmarshal([]byte(body), &answer))
		receipt = answer.Receipt
	}
	res, body = visit(t, "GET", roomURL+"/queue/position?queue=main", "", "Authorization", "Bearer "+receipt)
	require.Equal(t, 200, res.StatusCode, body)
	require.Contains(t, body, `"state":"waiting"`)
	token := pushedToken(t, roomURL, receipt)

	// Back, as the waiting page does it, with scripts and without.
	action, to, err := sitegate.Arrival("main", back)
	require.NoError(t, err)
	res, body = visit(t, "GET", action, "", "Accept", browser)
	require.Equal(t, 200, res.StatusCode)
	require.Contains(t, res.Header.Get("Content-Security-Policy"), "script-src 'sha256-")
	require.Contains(t, body, `<form method="post">`)
	res, _ = visit(t, "POST", action, url.Values{"token": {token}, "to": {to}}.Encode(), "Accept", browser, "Content-Type", form, "Origin", roomURL)
	require.Equal(t, 303, res.StatusCode)
	require.Len(t, res.Cookies(), 1)
	session := res.Cookies()[0].Name + "=" + res.Cookies()[0].Value
	res, _ = visit(t, "GET", shopURL+res.Header.Get("Location"), "", "Accept", browser, "Cookie", session)
	require.Equal(t, 303, res.StatusCode)
	require.Equal(t, target, res.Header.Get("Location"))

	res, body = visit(t, "GET", shopURL+target, "", "Accept", browser, "Cookie", session, "Soonbeon-Visitor", "made up", "Soonbeon-Ticket", "1")
	require.Equal(t, 200, res.StatusCode, body)
	require.Contains(t, body, "shop: GET "+target+` visitor="`)
	require.NotContains(t, body, "made up")
	require.Regexp(t, `ticket="\d\d+"`, body)
	require.Empty(t, res.Header.Values("Set-Cookie"))
	res, body = visit(t, "POST", shopURL+"/buy", "a=b", "Cookie", session)
	require.Equal(t, 200, res.StatusCode)
	require.Contains(t, body, "shop: POST /buy")
	require.Contains(t, body, "body=a=b")

	// The gate knows which queue of the name it is for.
	_, metrics := visit(t, "GET", "http://"+s.gate.Private()+"/metrics", "")
	require.Regexp(t, `soonbeon_gate_questions_total\{queue="main",result="answered"\} [1-9]`, metrics)

	// Without a gate nobody gets in.
	require.NoError(t, s.gate.Stop(t.Context()))
	res, _ = visit(t, "GET", shopURL+target, "", "Cookie", session)
	require.GreaterOrEqual(t, res.StatusCode, 500)
}

// A browser does all of that by itself: from the shop into the line, and from the waiting page back to where it was going.
func TestABrowserGoesTheWholeWayBehindNginx(t *testing.T) {
	chromium := proxy(t, "chromium")
	s := newStreet(t)
	const target = "/%EA%B3%B5%EC%97%B0/7?a=1+2&b=%23"
	run(t, chromium, []string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--user-data-dir=" + t.TempDir(),
		"--remote-debugging-port=0", s.shop + target,
	})
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(s.asked(), func(said string) bool { return strings.HasPrefix(said, "shop: GET "+target+` visitor="`) })
	}, 60*time.Second, 50*time.Millisecond)
	for _, said := range s.asked() {
		require.NotContains(t, said, `ticket=""`, "and nobody came in without a ticket")
	}
}

// pushedToken waits by server-sent events.
func pushedToken(t *testing.T, room, receipt string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, room+"/queue/events?queue=main", nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+receipt)
	began := time.Now()
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, 200, res.StatusCode)
	lines := bufio.NewScanner(res.Body)
	kind, first := "", true
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			kind = name
			if first {
				require.Less(t, time.Since(began), time.Second, "the first event within a second (fault 29)")
				first = false
			}
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && kind == "admitted" {
			var answer struct{ Token string }
			require.NoError(t, json.Unmarshal([]byte(data), &answer))
			return answer.Token
		}
	}
	t.Fatalf("the stream ended without a token: %v", lines.Err())
	return ""
}

// What nginx decides by a location, the gate decides by paths.
func TestNginxLetsNobodyAround(t *testing.T) {
	proxy(t, "nginx")
	keys, err := pass.GenerateKeys()
	require.NoError(t, err)
	gateAddr := freeAddr(t)
	shop, _ := newShop(t)
	shopURL, roomURL := nginxAsDocumented(t, gateAddr, "127.0.0.1:9", shop)
	newProcess(t, Config{
		Listen: gateAddr, Admin: "127.0.0.1:0", Queues: []string{"main"}, Keys: keys, WaitingRoom: roomURL, Site: shopURL,
		TrustedProxies: []string{"127.0.0.1"}, Protect: []string{"/checkout"},
	})
	res, body := visit(t, "GET", shopURL+"/static/app.js", "", "Soonbeon-Visitor", "made up")
	require.Equal(t, 200, res.StatusCode)
	require.Contains(t, body, `visitor="" ticket=""`)
	for _, path := range []string{"/checkout", "/%63heckout", "/static/..%2fcheckout", "/static/%2e%2e/checkout", "/static/..;/checkout", "/checkout?x=/static"} {
		res, body = visit(t, "GET", shopURL+path, "")
		require.Equal(t, 401, res.StatusCode, path)
		require.NotContains(t, body, "shop:")
	}
	for _, target := range []string{"/checkout#x", "/checkout#x?y", "/static#/../checkout", "http://shop.example/checkout", "/x/../checkout", "//checkout"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(shopURL, "http://"))
		require.NoError(t, err)
		status, body, _ := over(t, c, bufio.NewReader(c), target)
		require.NoError(t, c.Close())
		require.Equal(t, 401, status, target)
		require.NotContains(t, body, "shop:")
	}
	for _, path := range []string{"/soonbeon/check", "/nginx/main", "/nginx/main/turn-away", "/forward/main"} { // ours, and nobody else's to ask
		_, body = visit(t, "GET", shopURL+path, "", "X-Original-URI", "/static", "X-Original-Method", "GET", "Soonbeon-Code", "gate_unavailable")
		require.NotContains(t, body, "entry_token", path)
		require.NotContains(t, body, "gate_unavailable", path)
	}
	res, _ = visit(t, "GET", shopURL+"/checkout", "", "Soonbeon-Code", "gate_unavailable", "X-Original-URI", "/static", "X-Forwarded-Uri", "/static")
	require.Equal(t, 401, res.StatusCode, "the browser does not say these")
}

func TestNginxHandsTheSessionOfASingleUseToTheBrowser(t *testing.T) {
	proxy(t, "nginx")
	w := newWorld(t, func(c *Config) { c.SingleUse, c.Exempt = true, []string{"/static"} }, redislinetest.Start(t))
	s := httptest.NewServer(w.service)
	t.Cleanup(s.Close)
	shop, _ := newShop(t)
	shopURL, _ := nginxAsDocumented(t, strings.TrimPrefix(s.URL, "http://"), "127.0.0.1:9", shop)
	opensOnce(t, shopURL, w)
}
