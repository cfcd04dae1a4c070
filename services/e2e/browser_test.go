package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/services/e2e/realservers"
)

// program finds what a test of a browser needs; where it is missing, the test says how to get it.
func program(t *testing.T, how string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatalf("there is no %s: %s", names[0], how)
	return ""
}

// TestRealBrowser is what one person lives through, in a real Chromium: from the shop into the line and back into the shop, with the waiting
// room and `soonbeon gate` behind a stock nginx that is configured as docs/gate.md says. services/page tests the page's every state.
func TestRealBrowser(t *testing.T) {
	if os.Getenv("SOONBEON_REAL") == "" {
		t.Skip("a real browser: run make test-real")
	}
	const client = "../page/client"
	chromium := program(t, "apt-get install chromium fonts-noto-cjk", "chromium")
	node := program(t, "apt-get install nodejs npm (20 or later)", "node")
	nginx := program(t, "apt-get install nginx", "nginx", "/usr/sbin/nginx")
	if _, err := os.Stat(client + "/node_modules/playwright-core"); err != nil {
		t.Fatal("playwright-core is not there: cd services/page/client && npm ci")
	}

	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, "<!doctype html><title>Shop</title><p id=in>ticket %s</p>", r.Header.Get("Soonbeon-Ticket"))
	}))
	t.Cleanup(shop.Close)
	here := func() string { return fmt.Sprintf("127.0.0.1:%d", realservers.Port(t)) }
	shopAt, roomAt, gateAt := here(), here(), here()
	data := filepath.Join(t.TempDir(), "data")
	const operator = "an-operator-who-looks-at-a-browser"
	room := start(t, "standalone", "standalone", nil, "--data", data, "--rate=20", "--return-origins", "http://"+shopAt, "--operators", "noor:"+operator)
	start(t, "gate", "gate", []string{"SOONBEON_KEYS=" + keysOf(t, data)}, "--listen", gateAt, "--waiting-room", "http://"+roomAt, "--site", "http://"+shopAt,
		"--trusted-proxies", "127.0.0.1")
	room.leads(t)
	startNginx(t, nginx, strings.NewReplacer(
		"127.0.0.1:8090", gateAt, "127.0.0.1:8080", strings.TrimPrefix(room.public, "http://"), "127.0.0.1:3000", strings.TrimPrefix(shop.URL, "http://")), shopAt, roomAt)

	cmd := exec.CommandContext(t.Context(), node, "--test", "--test-reporter=spec", client+"/browser/whole.mjs")
	cmd.Env = append(os.Environ(), "ROOM=http://"+roomAt, "SITE=http://"+shopAt, "ADMIN="+room.private, "OPERATOR="+operator, "CHROMIUM="+chromium)
	out, err := cmd.CombinedOutput()
	t.Log(string(out))
	require.NoError(t, err)
}

// startNginx runs the nginx of docs/gate.md, as it stands there but for addresses and certificates.
func startNginx(t *testing.T, path string, addresses *strings.Replacer, shopAt, roomAt string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/gate.md")
	require.NoError(t, err)
	_, conf, found := strings.Cut(string(text), "\n```nginx\n")
	require.True(t, found)
	conf, _, _ = strings.Cut(conf, "\n```")
	conf = addresses.Replace(conf)
	conf = strings.Replace(conf, "listen 443 ssl;", "listen "+shopAt+";", 1)
	conf = strings.Replace(conf, "listen 443 ssl;", "listen "+roomAt+";", 1)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte("pid nginx.pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log access.log;\n"+
		"client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;\n"+conf+"\n}\n"), 0o600))
	cmd := exec.Command(path, "-p", dir, "-c", "nginx.conf", "-e", "stderr", "-g", "daemon off; master_process off;")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said strings.Builder
	cmd.Stderr = &said
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
		log, err := os.ReadFile(filepath.Join(dir, "access.log"))
		require.NoError(t, err)
		require.NotContains(t, string(log), "token=", "an entry token is in no address that a proxy writes down")
	})
	until(t, 10*time.Second, "nginx answers", func() bool {
		res, err := http.Get("http://" + roomAt + "/queue/info?queue=main")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}
