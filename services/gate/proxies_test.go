package gate

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	sitegate "github.com/soonbeon/soonbeon/pkg/gate"
	"github.com/soonbeon/soonbeon/pkg/redisline/redislinetest"
)

// haproxyAsDocumented runs HAProxy with the configuration and the Lua of docs/gate.md.
func haproxyAsDocumented(t *testing.T, gate, site string) (shop string) {
	t.Helper()
	path := proxy(t, "haproxy")
	dir, front := t.TempDir(), freeAddr(t)
	lua, err := filepath.Abs("../../docs/examples/haproxy.lua")
	require.NoError(t, err)
	conf := replace(t, documented(t, "haproxy"), "/etc/haproxy/haproxy.lua", lua, ":443 ssl crt /etc/haproxy/shop.pem", front,
		"127.0.0.1:8090", gate, "127.0.0.1:8090", gate, "127.0.0.1:3000", site)
	file := filepath.Join(dir, "haproxy.cfg")
	require.NoError(t, os.WriteFile(file, []byte(conf+"\n"), 0o600))
	run(t, path, []string{"-db", "-f", file}, front)
	return "http://" + front
}

// caddyAsDocumented runs Caddy with the configuration of docs/gate.md.
func caddyAsDocumented(t *testing.T, gate, site string) (shop string) {
	t.Helper()
	path := proxy(t, "caddy")
	dir, front := t.TempDir(), freeAddr(t)
	t.Setenv("HOME", dir)
	t.Setenv("XDG_DATA_HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", dir)
	conf := "{\n\tadmin off\n}\n" + replace(t, documented(t, "caddyfile"), "shop.example {", "http://"+front+" {",
		"soonbeon-gate:8090", gate, "soonbeon-gate:8090", gate, "shop:3000", site) + "\n"
	file := filepath.Join(dir, "Caddyfile")
	require.NoError(t, os.WriteFile(file, []byte(conf), 0o600))
	run(t, path, []string{"run", "--config", file, "--adapter", "caddyfile"}, front)
	return "http://" + front
}

// traefikAsDocumented runs Traefik with the dynamic configuration of docs/gate.md.
func traefikAsDocumented(t *testing.T, gate, site string) (shop string) {
	t.Helper()
	path := proxy(t, "traefik")
	dir, front := t.TempDir(), freeAddr(t)
	conf := replace(t, documented(t, "yaml", "Traefik"), "soonbeon-gate:8090", gate, "soonbeon-gate:8090", gate, "shop:3000", site,
		"Host(`shop.example`)", "Host(`127.0.0.1`)", "Host(`shop.example`)", "Host(`127.0.0.1`)")
	file := filepath.Join(dir, "dynamic.yaml")
	require.NoError(t, os.WriteFile(file, []byte(conf+"\n"), 0o600))
	run(t, path, []string{
		"--global.checknewversion=false", "--global.sendanonymoususage=false", "--entrypoints.shop.address=" + front, "--providers.file.filename=" + file,
	}, front)
	shop = "http://" + front
	require.Eventually(t, func() bool { // it listens before it has read the file
		res, _ := visit(t, "GET", shop+sitegate.ArrivePath("main"), "")
		return res.StatusCode == http.StatusOK
	}, 10*time.Second, 10*time.Millisecond)
	return shop
}

// envoyAsDocumented runs Envoy with the configuration of docs/gate.md.
func envoyAsDocumented(t *testing.T, gate, site string) (shop string) {
	t.Helper()
	path := proxy(t, "envoy")
	dir, front := t.TempDir(), freeAddr(t)
	at := func(addr string) string {
		host, port, err := net.SplitHostPort(addr)
		require.NoError(t, err)
		return "address: " + host + ", port_value: " + port
	}
	conf := replace(t, documented(t, "yaml", "Envoy"), "soonbeon-gate:8090", gate, "address: soonbeon-gate, port_value: 8090", at(gate),
		"address: shop, port_value: 3000", at(site), "address: 0.0.0.0, port_value: 8443", at(front))
	file := filepath.Join(dir, "envoy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(conf+"\n"), 0o600))
	run(t, path, []string{"-c", file, "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warn"}, front)
	return "http://" + front
}

func TestTraefikAsDocumented(t *testing.T) { testProxy(t, traefikAsDocumented, 500, 200) }
func TestEnvoyAsDocumented(t *testing.T)   { testProxy(t, envoyAsDocumented, 503, 401) }
func TestHAProxyAsDocumented(t *testing.T) { testProxy(t, haproxyAsDocumented, 503, 200) }
func TestCaddyAsDocumented(t *testing.T)   { testProxy(t, caddyAsDocumented, 502, 200) }

// testProxy tries a proxy of the kind that gives the gate's own answer to whom it may not let in; down is what it answers without a gate.
// twoLines is that for the session in the second of two lines of Cookie, which no browser sends: Envoy joins them by a comma, and there is no
// session then.
func testProxy(t *testing.T, start func(t *testing.T, gate, site string) string, down, twoLines int) {
	t.Helper()
	w := newWorld(t, func(c *Config) { c.Exempt, c.Preflights = []string{"/static"}, true }, nil)
	s := httptest.NewServer(w.service)
	t.Cleanup(s.Close)
	site, _ := newShop(t)
	shop := start(t, strings.TrimPrefix(s.URL, "http://"), site)
	session := passesOnWhatTheGateSays(t, shop, w)
	res, _ := visit(t, "GET", shop+"/a", "", "Cookie", "a=b", "Cookie", session.Name+"="+session.Value)
	require.Equal(t, twoLines, res.StatusCode)
	s.Close()
	res, _ = visit(t, "GET", shop+"/a", "", "Authorization", "Bearer "+w.token(t, "main", time.Minute))
	require.Equal(t, down, res.StatusCode)

	single := newWorld(t, func(c *Config) { c.Exempt, c.SingleUse = []string{"/static"}, true }, redislinetest.Start(t))
	s = httptest.NewServer(single.service)
	t.Cleanup(s.Close)
	opensOnce(t, start(t, strings.TrimPrefix(s.URL, "http://"), site), single)
}

// opensOnce shows a token to the site itself, through a proxy before a gate with single use.
func opensOnce(t *testing.T, shop string, w *world) {
	t.Helper()
	token := "Bearer " + w.token(t, "main", time.Minute)
	res, body := visit(t, "GET", shop+"/a", "", "Authorization", token, "Soonbeon-Ticket", "1")
	require.Equal(t, 200, res.StatusCode, body)
	require.Contains(t, body, `ticket="7"`)
	require.Len(t, res.Cookies(), 1)
	session := res.Cookies()[0]
	require.Equal(t, sitegate.SessionCookieName("main"), session.Name)
	res, body = visit(t, "GET", shop+"/a", "", "Authorization", token, "Cookie", session.Name+"="+session.Value)
	require.Equal(t, 200, res.StatusCode, body)
	require.Contains(t, body, `visitor="v%2F%C3%A9" ticket="7"`)
	require.Empty(t, res.Header.Values("Set-Cookie"))
	res, body = visit(t, "GET", shop+"/a", "", "Authorization", token)
	require.Equal(t, 401, res.StatusCode)
	require.Contains(t, body, sitegate.CodeUsed)
	res, _ = visit(t, "GET", shop+"/static/a", "", "Authorization", token)
	require.Equal(t, 200, res.StatusCode)
}

// passesOnWhatTheGateSays walks through a proxy of the kind that gives the gate's own answer to whom it may not let in.
func passesOnWhatTheGateSays(t *testing.T, shop string, w *world) (session *http.Cookie) {
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
	require.Empty(t, res.Header.Values("Set-Cookie"))
	preflight := []string{"Origin", "https://app.example", "Access-Control-Request-Method", "POST"}
	res, _ = visit(t, "OPTIONS", shop+"/a", "", preflight...)
	require.Equal(t, 200, res.StatusCode)
	res, _ = visit(t, "OPTIONS", shop+"/a", "", preflight[:2]...)
	require.Equal(t, 401, res.StatusCode)
	_, body = visit(t, "GET", shop+"/static/x", "", "Soonbeon-Visitor", "made up")
	require.Contains(t, body, `shop: GET /static/x visitor="" ticket=""`)

	res, _ = visit(t, "POST", shop+sitegate.ArrivePath("main"), url.Values{"token": {token}, "to": {"/a"}}.Encode(), "Content-Type", form)
	require.Equal(t, 303, res.StatusCode)
	session = res.Cookies()[0]
	res, _ = visit(t, "GET", shop+"/a", "", "Cookie", "a=b; "+session.Name+"="+session.Value)
	require.Equal(t, 200, res.StatusCode)
	return session
}
