package gate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// around are targets that are tried, as they go over the wire, to get around the gate of /checkout.
func around() []string {
	pieces := []string{
		"/", "/", "/checkout", "checkout", "/a", "/..", "/../", "/./", "//", "%2e", "%2f", "%5c", `\`, ";x=y", "%3b", "#", "%23", "?", "%3f", "%63heckout", "%252f", "..;/", "x",
	}
	all := []string{
		"/checkout#x", "/checkout#x?y", "/a#/../checkout", "/checkout%23x", "/checkout?x", "/x/../checkout//../y", "/a//../checkout", "//x/checkout", `/\x/checkout`,
		"/static/..;/checkout", "/checkout;a=b", `/static\..\checkout`, "/checkout%20", "/./checkout", "/%2e/checkout", "/checkout//", "/checkout/../static",
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		s := "/"
		for range 1 + rnd.IntN(6) {
			s += pieces[rnd.IntN(len(pieces))]
		}
		all = append(all, s)
	}
	return all
}

// over asks addr for a target exactly as it is written, which Go's client does not.
func over(t *testing.T, c net.Conn, r *bufio.Reader, target string) (status int, body string, closed bool) {
	t.Helper()
	require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: shop.example\r\n\r\n", target)
	require.NoError(t, err)
	res, err := http.ReadResponse(r, nil)
	require.NoError(t, err, target)
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode, string(b), res.Close
}

// What real programs take for a path behind the gate, the gate takes for one too. Each says what it reads, and none is asked what we
// think that it does.
func TestRealServersReadNoPathThatTheGateLetsPast(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Protect = []string{"/checkout"} }, nil)
	judge := func(t *testing.T, target, path string) (behind bool) {
		behind = path == "/checkout" || strings.HasPrefix(path, "/checkout/")
		if behind {
			require.Equal(t, 401, w.ask("GET", "/forward/main", forward(target)...).Code, "%q is %q", target, path)
		}
		return behind
	}
	targets := around()
	server := func(name, file, conf string, args ...string) {
		t.Run(name, func(t *testing.T) {
			path := proxy(t, strings.Split(name, ", ")[0])
			dir, addr := t.TempDir(), freeAddr(t)
			t.Setenv("HOME", dir)
			t.Setenv("XDG_DATA_HOME", dir)
			t.Setenv("XDG_CONFIG_HOME", dir)
			require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(strings.NewReplacer("ADDR", addr, "PORT", addr[strings.LastIndex(addr, ":"):], `"NUMBER"`, addr[strings.LastIndex(addr, ":")+1:]).Replace(conf)), 0o600))
			for i := range args {
				args[i] = strings.NewReplacer("DIR", dir, "ADDR", addr).Replace(args[i])
			}
			run(t, path, args, addr)
			require.Eventually(t, func() bool { // Traefik listens before it has read its file
				res, _ := visit(t, "GET", "http://"+addr+"/", "", "Connection", "close")
				return res.StatusCode == http.StatusOK
			}, 10*time.Second, 10*time.Millisecond)
			var c net.Conn
			var r *bufio.Reader
			count := 0
			for _, target := range targets {
				if c == nil {
					var err error
					c, err = net.Dial("tcp", addr)
					require.NoError(t, err)
					r = bufio.NewReader(c)
				}
				status, body, closed := over(t, c, r, target)
				if status != http.StatusOK {
					body = ""
				}
				once, err := url.PathUnescape(body)
				if is := judge(t, target, body); is || err == nil && judge(t, target, once) {
					count++
				}
				if closed {
					require.NoError(t, c.Close())
					c = nil
				}
			}
			if c != nil {
				require.NoError(t, c.Close())
			}
			require.Greater(t, count, 20)
		})
	}
	for _, merge := range []string{"on", "off"} {
		server("nginx, merge_slashes "+merge, "nginx.conf", "pid nginx.pid;\nerror_log stderr crit;\nevents {}\nhttp {\naccess_log off; keepalive_requests 10000; default_type text/plain;\n"+
			"client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;\n"+
			"server { listen ADDR; merge_slashes "+merge+"; location / { return 200 $uri; } }\n}\n",
			"-p", "DIR", "-c", "nginx.conf", "-e", "stderr", "-g", "daemon off; master_process off;")
	}
	haproxy := "global\n    expose-experimental-directives\ndefaults\n    mode http\n    timeout connect 2s\n    timeout client 5s\n    timeout server 5s\nfrontend f\n    bind ADDR\n" +
		"    option accept-invalid-http-request\n%s    http-request return status 200 content-type text/plain lf-string %%[path]\n"
	server("haproxy, as it comes", "haproxy.cfg", fmt.Sprintf(haproxy, ""), "-db", "-f", "DIR/haproxy.cfg")
	server("haproxy, normalizing", "haproxy.cfg", fmt.Sprintf(haproxy, "    http-request normalize-uri fragment-strip\n    http-request normalize-uri percent-decode-unreserved\n"+
		"    http-request normalize-uri path-strip-dot\n    http-request normalize-uri path-strip-dotdot full\n    http-request normalize-uri path-merge-slashes\n"),
		"-db", "-f", "DIR/haproxy.cfg")
	server("caddy", "Caddyfile", "{\n\tadmin off\n}\nhttp://PORT {\n\tbind 127.0.0.1\n\t@in path /checkout /checkout/*\n"+
		"\trespond @in /checkout\n\trespond {http.request.uri.path}\n}\n", "run", "--config", "DIR/Caddyfile", "--adapter", "caddyfile")

	// These two don't say what they read; a site behind them does, which takes the path as it comes, or decodes it once.
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, _, _ := strings.Cut(r.RequestURI, "?")
		_, _ = io.WriteString(w, path)
	}))
	t.Cleanup(site.Close)
	behind := strings.TrimPrefix(site.URL, "http://")
	_, port, err := net.SplitHostPort(behind)
	require.NoError(t, err)
	server("traefik", "dynamic.yaml", "http:\n  routers: {all: {rule: 'PathPrefix(`/`)', service: site}}\n"+
		"  services: {site: {loadBalancer: {servers: [{url: '"+site.URL+"'}]}}}\n",
		"--global.checknewversion=false", "--global.sendanonymoususage=false", "--entrypoints.all.address=ADDR", "--providers.file.filename=DIR/dynamic.yaml")
	server("envoy", "envoy.yaml", strings.NewReplacer("SITE", port).Replace(`
static_resources:
  listeners:
  - address: { socket_address: { address: 127.0.0.1, port_value: "NUMBER" } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: all
          normalize_path: true
          merge_slashes: true
          path_with_escaped_slashes_action: UNESCAPE_AND_FORWARD
          route_config: { virtual_hosts: [{ name: all, domains: ["*"], routes: [{ match: { prefix: / }, route: { cluster: site } }] }] }
          http_filters:
          - name: envoy.filters.http.router
            typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
  clusters:
  - name: site
    load_assignment:
      cluster_name: site
      endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: SITE } } } }] }]
`), "-c", "DIR/envoy.yaml", "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "error")

	t.Run("node", func(t *testing.T) {
		in, err := json.Marshal(targets)
		require.NoError(t, err)
		cmd := exec.Command(proxy(t, "node"), "-e", `
			const url = require("url");
			const tried = f => { try { return f() } catch { return "" } };
			const decoded = s => [s, tried(() => decodeURIComponent(s)), tried(() => decodeURI(s))];
			const all = JSON.parse(require("fs").readFileSync(0, "utf8")).map(t => [
				...decoded(tried(() => new URL(t, "http://shop.example").pathname)),
				...decoded(tried(() => new URL("http://shop.example" + t).pathname)),
				...decoded(tried(() => url.parse(t).pathname) || ""),
				...decoded(require("path").posix.normalize(decodeURI(tried(() => encodeURI(decodeURIComponent(t.split("?")[0])))))),
			]);
			console.log(JSON.stringify(all));`)
		cmd.Stdin = bytes.NewReader(in)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		require.NoError(t, err)
		var all [][]string
		require.NoError(t, json.Unmarshal(out, &all))
		require.Len(t, all, len(targets))
		count := 0
		for i, paths := range all {
			for _, path := range paths {
				if judge(t, targets[i], path) {
					count++
				}
			}
		}
		require.Greater(t, count, 20)
	})
}
