package gate

import (
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	sitegate "github.com/soonbeon/soonbeon/pkg/gate"
)

// HAProxy with the configuration and the Lua of docs/gate.md.
func TestHAProxyAsDocumented(t *testing.T) {
	path := proxy(t, "haproxy")
	w := newWorld(t, func(c *Config) { c.Exempt = []string{"/static"} }, nil)
	s := httptest.NewServer(w.service)
	t.Cleanup(s.Close)
	dir, front := t.TempDir(), freeAddr(t)
	lua, err := filepath.Abs("../../docs/examples/haproxy.lua")
	require.NoError(t, err)
	gate := strings.TrimPrefix(s.URL, "http://")
	site, _ := newShop(t)
	conf := replace(t, documented(t, "haproxy"), "/etc/haproxy/haproxy.lua", lua, ":443 ssl crt /etc/haproxy/shop.pem", front,
		"127.0.0.1:8090", gate, "127.0.0.1:8090", gate, "127.0.0.1:3000", site)
	conf = strings.Replace(conf, "frontend shop", "defaults\n    timeout connect 2s\n    timeout client 5s\n    timeout server 5s\n\nfrontend shop", 1)
	file := filepath.Join(dir, "haproxy.cfg")
	require.NoError(t, os.WriteFile(file, []byte(conf+"\n"), 0o600))
	run(t, path, []string{"-db", "-f", file}, front)
	shop := "http://" + front
	passesOnWhatTheGateSays(t, shop, w)

	s.Close()
	res, _ := visit(t, "GET", shop+"/a", "", "Authorization", "Bearer "+w.token(t, "main", time.Minute))
	require.Equal(t, 503, res.StatusCode)
}

// Caddy with the configuration of docs/gate.md.
func TestCaddyAsDocumented(t *testing.T) {
	path := proxy(t, "caddy")
	w := newWorld(t, func(c *Config) { c.Exempt = []string{"/static"} }, nil)
	s := httptest.NewServer(w.service)
	t.Cleanup(s.Close)
	dir, front := t.TempDir(), freeAddr(t)
	t.Setenv("HOME", dir)
	t.Setenv("XDG_DATA_HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", dir)
	gate := strings.TrimPrefix(s.URL, "http://")
	site, _ := newShop(t)
	conf := "{\n\tadmin off\n}\n" + replace(t, documented(t, "caddyfile"), "shop.example {", "http://"+front+" {",
		"soonbeon-gate:8090", gate, "soonbeon-gate:8090", gate, "shop:3000", site) + "\n"
	file := filepath.Join(dir, "Caddyfile")
	require.NoError(t, os.WriteFile(file, []byte(conf), 0o600))
	run(t, path, []string{"run", "--config", file, "--adapter", "caddyfile"}, front)
	shop := "http://" + front
	passesOnWhatTheGateSays(t, shop, w)

	s.Close()
	res, _ := visit(t, "GET", shop+"/a", "", "Authorization", "Bearer "+w.token(t, "main", time.Minute))
	require.Equal(t, 502, res.StatusCode)
}

// passesOnWhatTheGateSays walks through a proxy of the kind that gives the gate's own answer to whom it may not let in.
func passesOnWhatTheGateSays(t *testing.T, shop string, w *world) {
	t.Helper()

	res, _ := visit(t, "GET", shop+"/a?b=%26", "", "Accept", browser)
	require.Equal(t, 303, res.StatusCode)
	require.Equal(t, "https://wait.example/queue/wait?queue=main&return=https%3A%2F%2Fshop.example%2Fa%3Fb%3D%2526", res.Header.Get("Location"))
	res, body := visit(t, "POST", shop+"/a", "x", "Accept", "application/json", "X-Forwarded-Uri", "/static", "X-Forwarded-Method", "GET")
	require.Equal(t, 401, res.StatusCode)
	require.Contains(t, body, sitegate.CodeRequired)
	require.Equal(t, []string{"application/problem+json"}, res.Header.Values("Content-Type"))

	token := w.token(t, "main", time.Minute)
	res, body = visit(t, "POST", shop+"/a", "x=y", "Authorization", "Bearer "+token, "Soonbeon-Ticket", "1")
	require.Equal(t, 200, res.StatusCode, body)
	require.Contains(t, body, `shop: POST /a visitor="v%2F%C3%A9" ticket="7" body=x=y`)
	_, body = visit(t, "GET", shop+"/static/x", "", "Soonbeon-Visitor", "made up")
	require.Contains(t, body, `shop: GET /static/x visitor="" ticket=""`)

	res, _ = visit(t, "POST", shop+sitegate.ArrivePath("main"), url.Values{"token": {token}, "to": {"/a"}}.Encode(), "Content-Type", form)
	require.Equal(t, 303, res.StatusCode)
	session := res.Cookies()[0]
	res, _ = visit(t, "GET", shop+"/a", "", "Cookie", "a=b", "Cookie", session.Name+"="+session.Value)
	require.Equal(t, 200, res.StatusCode)
}
