package gate

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	sitegate "github.com/soonbeon/soonbeon/pkg/gate"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
	"github.com/soonbeon/soonbeon/pkg/redisline/redislinetest"
)

const browser = "text/html,application/xhtml+xml,*/*;q=0.8"

// world is the service as proxies see it.
type world struct {
	keyText string
	keys    *pass.Keys
	service *Service
	reg     *prometheus.Registry
	peer    string
}

func newWorld(t testing.TB, change func(*Config), rdb redisline.Client) *world {
	text, err := pass.GenerateKeys()
	require.NoError(t, err)
	w := &world{keyText: text, reg: prometheus.NewRegistry(), peer: "127.0.0.1:5000"}
	w.keys, err = pass.ParseKeys(text)
	require.NoError(t, err)
	cfg := Config{
		Queues: []string{"main", "vip"}, WaitingRoom: "https://wait.example", Site: "https://shop.example", Keys: text,
		TrustedProxies: []string{"127.0.0.0/8", "::1"}, OpenAfter: 5 * time.Second,
	}
	if change != nil {
		change(&cfg)
	}
	w.service, err = New(cfg, rdb, zap.NewNop(), w.reg)
	require.NoError(t, err)
	return w
}

func (w *world) token(t testing.TB, id queue.ID, ends time.Duration) string {
	now := time.Now()
	s, err := w.keys.SignEntry(pass.Entry{Queue: id, Visitor: "v/é", Ticket: 7, AdmittedMs: now.Add(-time.Hour).UnixMilli(), ExpiresMs: now.Add(ends).UnixMilli()})
	require.NoError(t, err)
	return s
}

// ask is a proxy's request; headers are name, value, ….
func (w *world) ask(method, target string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.RemoteAddr = w.peer
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	w.service.ServeHTTP(rec, r)
	return rec
}

func nginx(uri string, headers ...string) []string {
	return append([]string{"X-Original-Method", "GET", "X-Original-URI", uri}, headers...)
}

func forward(uri string, headers ...string) []string {
	return append([]string{"X-Forwarded-Method", "GET", "X-Forwarded-Uri", uri}, headers...)
}

func TestNginx(t *testing.T) {
	w := newWorld(t, nil, nil)
	rec := w.ask("GET", "/nginx/main", nginx("/checkout/7", "Authorization", "Bearer "+w.token(t, "main", time.Minute))...)
	require.Equal(t, 204, rec.Code)
	require.Equal(t, "v%2F%C3%A9", rec.Header().Get("Soonbeon-Visitor"))
	require.Equal(t, "7", rec.Header().Get("Soonbeon-Ticket"))
	require.Empty(t, rec.Result().Cookies())

	rec = w.ask("GET", "/nginx/main", nginx("/checkout/7", "Accept", browser)...)
	require.Equal(t, 401, rec.Code, "nginx makes a 500 of a redirect")
	require.Equal(t, sitegate.CodeRequired, rec.Header().Get("Soonbeon-Code"))
	rec = w.ask("GET", "/nginx/main/turn-away", nginx("/checkout/7?a=b", "Accept", browser, "Soonbeon-Code", sitegate.CodeRequired)...)
	require.Equal(t, 303, rec.Code)
	require.Equal(t, "https://wait.example/queue/wait?queue=main&return=https%3A%2F%2Fshop.example%2Fcheckout%2F7%3Fa%3Db", rec.Header().Get("Location"))

	rec = w.ask("GET", "/nginx/vip", nginx("/", "Authorization", "Bearer "+w.token(t, "vip", -time.Minute))...)
	require.Equal(t, sitegate.CodeExpired, rec.Header().Get("Soonbeon-Code"))
	rec = w.ask("GET", "/nginx/vip/turn-away", nginx("/", "Soonbeon-Code", sitegate.CodeExpired)...)
	require.Equal(t, 401, rec.Code)
	require.Contains(t, rec.Body.String(), sitegate.CodeExpired)
	rec = w.ask("GET", "/nginx/vip/turn-away", "X-Original-Method", "POST", "X-Original-URI", "/buy", "Accept", browser)
	require.Equal(t, 401, rec.Code)
	require.Contains(t, rec.Body.String(), "Go to the line")
	rec = w.ask("GET", "/nginx/vip/turn-away", nginx("/", "Soonbeon-Code", "made up")...)
	require.Contains(t, rec.Body.String(), sitegate.CodeRequired)
}

func TestTraefikCaddyAndEnvoy(t *testing.T) {
	w := newWorld(t, nil, nil)
	good := "Bearer " + w.token(t, "main", time.Minute)
	const back = "https://wait.example/queue/wait?queue=main&return=https%3A%2F%2Fshop.example%2Fa%3Fb%3D1"

	require.Equal(t, 200, w.ask("GET", "/forward/main", forward("/a?b=1", "Authorization", good)...).Code)
	rec := w.ask("GET", "/forward/main", forward("/a?b=1", "Accept", browser)...)
	require.Equal(t, 303, rec.Code)
	require.Equal(t, back, rec.Header().Get("Location"))
	rec = w.ask("GET", "/forward/main", "X-Forwarded-Method", "POST", "X-Forwarded-Uri", "/a")
	require.Equal(t, 401, rec.Code)
	require.Equal(t, "application/problem+json", rec.Header().Get("Content-Type"))

	require.Equal(t, 200, w.ask("POST", "/envoy/main/a?b=1", "Authorization", good).Code)
	rec = w.ask("GET", "/envoy/main/a?b=1", "Accept", browser)
	require.Equal(t, 303, rec.Code)
	require.Equal(t, back, rec.Header().Get("Location"))
	rec = w.ask("GET", "/envoy/main//a/../b", "Accept", browser)
	require.Equal(t, 303, rec.Code, "no router mends the path first")
	require.Contains(t, rec.Header().Get("Location"), "wait.example")
	require.Equal(t, 401, w.ask("GET", "/envoy/main").Code)
}

// Only what the proxy's own configuration writes says what a request is for. Fault 23.
func TestFault23_HeadersFromNobodyTrusted(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Exempt = []string{"/static"} }, nil)
	require.Equal(t, 204, w.ask("GET", "/nginx/main", nginx("/static/app.js")...).Code)
	require.Equal(t, 401, w.ask("GET", "/nginx/main", nginx("/x", "X-Forwarded-Uri", "/static", "X-Original-URL", "/static")...).Code)
	require.Equal(t, 401, w.ask("GET", "/forward/main", forward("/x", "X-Original-URI", "/static")...).Code)
	require.Equal(t, 401, w.ask("GET", "/envoy/main/x", nginx("/static", "X-Forwarded-Uri", "/static")...).Code)

	for name, headers := range map[string][]string{
		"none": nil, "no method": {"X-Original-URI", "/static"}, "no address": {"X-Original-Method", "GET"}, "empty": nginx(""),
		"twice": nginx("/static", "X-Original-URI", "/x"), "two methods": nginx("/static", "X-Original-Method", "POST"),
		"a whole URL": nginx("https://shop.example/static"), "the other proxy's": forward("/static"),
	} {
		rec := w.ask("GET", "/nginx/main", headers...)
		require.Equal(t, 400, rec.Code, name)
		require.Contains(t, rec.Body.String(), CodeHeaders)
		require.Equal(t, 400, w.ask("GET", "/nginx/main/turn-away", headers...).Code, name)
	}
	require.Equal(t, 400, w.ask("GET", "/forward/main").Code)

	good := w.token(t, "main", time.Minute)
	for _, peer := range []string{"192.0.2.1:80", "[2001:db8::1]:80", "", "@", "127.0.0.1"} {
		w.peer = peer
		for _, target := range []string{"/nginx/main", "/nginx/main/turn-away", "/forward/main", "/envoy/main/static"} {
			rec := w.ask("GET", target, nginx("/static", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/static",
				"X-Forwarded-For", "127.0.0.1", "Authorization", "Bearer "+good)...)
			require.Equal(t, 403, rec.Code, peer+target)
			require.Contains(t, rec.Body.String(), CodeProxy)
		}
	}
	for _, peer := range []string{"[::1]:80", "127.9.9.9:1", "[::ffff:127.0.0.1]:80"} {
		w.peer = peer
		require.Equal(t, 204, w.ask("GET", "/nginx/main", nginx("/static")...).Code, peer)
	}
}

func TestPathsThatAreNotProtectedCarryEmptyHeaders(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Protect = []string{"/checkout"} }, nil)
	rec := w.ask("GET", "/forward/main", forward("/static/x")...)
	require.Equal(t, 200, rec.Code)
	require.Equal(t, []string{""}, rec.Header()["Soonbeon-Visitor"])
	require.Equal(t, []string{""}, rec.Header()["Soonbeon-Ticket"])
	for _, uri := range []string{"/checkout", "//checkout", "/%63heckout", "/static/..%2fcheckout", "/%zz/../checkout"} {
		require.Equal(t, 401, w.ask("GET", "/forward/main", forward(uri)...).Code, uri)
		require.Equal(t, 401, w.ask("GET", "/nginx/main", nginx(uri)...).Code, uri)
	}
	require.Equal(t, 200, w.ask("GET", "/forward/main", forward("/Checkout")...).Code)
	folding := newWorld(t, func(c *Config) { c.Protect, c.FoldCase = []string{"/checkout"}, true }, nil)
	require.Equal(t, 401, folding.ask("GET", "/forward/main", forward("/Checkout/7")...).Code)
	require.Equal(t, 200, w.ask("GET", "/forward/main", forward(sitegate.ArrivePath("main"))...).Code, "where they hand the token over")
	require.Equal(t, 200, newWorld(t, nil, nil).ask("GET", "/forward/main", forward(sitegate.ArrivePath("main"))...).Code)
	require.Equal(t, 401, newWorld(t, nil, nil).ask("GET", "/forward/main", forward(sitegate.ArrivePath("vip"))...).Code)
}

func TestArriving(t *testing.T) {
	w := newWorld(t, nil, nil)
	w.peer = "192.0.2.1:80" // this is for everybody
	post := func(path string, form url.Values) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		rec := httptest.NewRecorder()
		w.service.ServeHTTP(rec, r)
		return rec
	}
	require.Equal(t, 200, w.ask("GET", sitegate.ArrivePath("main")).Code)
	rec := post(sitegate.ArrivePath("vip"), url.Values{"token": {w.token(t, "vip", time.Minute)}, "to": {"/a"}})
	require.Equal(t, 303, rec.Code)
	c := rec.Result().Cookies()[0]
	require.Equal(t, 303, w.ask("GET", rec.Header().Get("Location"), "Cookie", c.Name+"="+c.Value).Code)
	w.peer = "127.0.0.1:1"
	require.Equal(t, 204, w.ask("GET", "/nginx/vip", nginx("/", "Cookie", c.Name+"="+c.Value)...).Code)
	require.Equal(t, 401, w.ask("GET", "/nginx/main", nginx("/", "Cookie", c.Name+"="+c.Value)...).Code, "of another queue")
	require.Equal(t, 401, post(sitegate.ArrivePath("main"), url.Values{"token": {"junk"}}).Code)
	require.Equal(t, 404, post(sitegate.ArrivePath("none"), url.Values{"token": {"junk"}}).Code)

	require.NoError(t, testutil.GatherAndCompare(w.reg, strings.NewReader(`
# HELP soonbeon_gate_arrivals_total People who came to hand over an entry token, by what came of it.
# TYPE soonbeon_gate_arrivals_total counter
soonbeon_gate_arrivals_total{queue="main",result="invalid"} 1
soonbeon_gate_arrivals_total{queue="vip",result="admitted"} 1
# HELP soonbeon_gate_checks_total Requests that a proxy asked about, by what was found.
# TYPE soonbeon_gate_checks_total counter
soonbeon_gate_checks_total{queue="main",result="admitted"} 0
soonbeon_gate_checks_total{queue="main",result="cant_tell"} 0
soonbeon_gate_checks_total{queue="main",result="no_token"} 1
soonbeon_gate_checks_total{queue="main",result="not_yet"} 0
soonbeon_gate_checks_total{queue="main",result="unchecked"} 0
soonbeon_gate_checks_total{queue="vip",result="admitted"} 1
soonbeon_gate_checks_total{queue="vip",result="cant_tell"} 0
soonbeon_gate_checks_total{queue="vip",result="no_token"} 0
soonbeon_gate_checks_total{queue="vip",result="not_yet"} 0
soonbeon_gate_checks_total{queue="vip",result="unchecked"} 0
# HELP soonbeon_gate_open 1 while people are let in although it can't be told whether their tokens were used before.
# TYPE soonbeon_gate_open gauge
soonbeon_gate_open{queue="main"} 0
soonbeon_gate_open{queue="vip"} 0
`), "soonbeon_gate_checks_total", "soonbeon_gate_arrivals_total", "soonbeon_gate_open"))
}

func TestAddressesThatAreNone(t *testing.T) {
	w := newWorld(t, nil, nil)
	for _, target := range []string{"/", "/nginx", "/nginx/", "/nginx/none", "/forward/none/x", "/else/main", "//nginx/main", "/envoy/..%2fmain/x"} {
		rec := w.ask("GET", target, nginx("/")...)
		require.Equal(t, 404, rec.Code, target)
		require.Contains(t, rec.Body.String(), CodeAddress)
	}
	n, err := testutil.GatherAndCount(w.reg, "soonbeon_gate_checks_total")
	require.NoError(t, err)
	require.Equal(t, 10, n, "what was made up is no series (fault 30)")
}

func TestSingleUseAndItsRedis(t *testing.T) {
	rdb := redislinetest.Start(t)
	link := redislinetest.NewLink(t, rdb)
	mine, err := redisline.Dial(redisline.Config{Addrs: []string{link.Addr()}, Timeout: 200 * time.Millisecond})
	require.NoError(t, err)
	defer mine.Close()
	single := func(c *Config) { c.SingleUse = true }
	w := newWorld(t, single, mine)
	good := w.token(t, "main", time.Minute)
	rec := w.ask("GET", "/nginx/main", nginx("/", "Authorization", "Bearer "+good)...)
	require.Equal(t, 204, rec.Code)
	session := rec.Result().Cookies()[0]
	rec = w.ask("GET", "/nginx/main", nginx("/", "Authorization", "Bearer "+good)...)
	require.Equal(t, 401, rec.Code)
	require.Equal(t, sitegate.CodeUsed, rec.Header().Get("Soonbeon-Code"))

	link.Away()
	vip := w.token(t, "vip", time.Minute)
	rec = w.ask("GET", "/nginx/vip", nginx("/", "Authorization", "Bearer "+vip)...)
	require.Equal(t, 401, rec.Code, "closed")
	require.Equal(t, sitegate.CodeCantTell, rec.Header().Get("Soonbeon-Code"))
	rec = w.ask("GET", "/nginx/vip/turn-away", nginx("/", "Soonbeon-Code", sitegate.CodeCantTell)...)
	require.Equal(t, 503, rec.Code)
	require.NotEmpty(t, rec.Header().Get("Retry-After"))
	require.Equal(t, 204, w.ask("GET", "/nginx/main", nginx("/", "Cookie", session.Name+"="+session.Value)...).Code, "who is in goes on")
	require.NoError(t, CheckRedis(t.Context(), mine, zap.NewNop()), "away is no reason not to start")

	link.Back()
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	require.ErrorIs(t, CheckRedis(t.Context(), rdb, zap.NewNop()), redisline.ErrEviction)
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	text, err := pass.GenerateKeys()
	require.NoError(t, err)
	for want, change := range map[string]func(*Config){
		"--queues: a queue id":           func(c *Config) { c.Queues = []string{"Main"} },
		"--queues: main is given twice":  func(c *Config) { c.Queues = []string{"main", "main"} },
		"--queues: none":                 func(c *Config) { c.Queues = nil },
		"--keys":                         func(c *Config) { c.Keys = "" },
		"--keys-file":                    func(c *Config) { c.KeysFile = "/none" },
		"waiting room: not an https URL": func(c *Config) { c.WaitingRoom = "http://wait.example" },
		"site: an origin has no path":    func(c *Config) { c.Site = "https://shop.example/a" },
		"--room: not the address":        func(c *Config) { c.Room = "wait.example" },
		"path \"a\"":                     func(c *Config) { c.Protect = []string{"a"} },
		"give its address with --redis":  func(c *Config) { c.SingleUse = true },
		"without --single-use":           func(c *Config) { c.OpenFor = map[string]time.Duration{"main": time.Minute} },
		"\"vip\" is none of --queues":    func(c *Config) { c.SingleUse, c.OpenFor = true, map[string]time.Duration{"vip": time.Minute} },
		"0s is no time":                  func(c *Config) { c.SingleUse, c.OpenFor = true, map[string]time.Duration{"main": 0} },
		"--trusted-proxies: \"10.0.0\"":  func(c *Config) { c.TrustedProxies = []string{"10.0.0"} },
	} {
		cfg := Config{Queues: []string{"main"}, Keys: text, WaitingRoom: "https://wait.example"}
		change(&cfg)
		_, err := New(cfg, nil, zap.NewNop(), prometheus.NewRegistry())
		require.ErrorContains(t, err, want)
	}
}

func TestTheProcessStartsAndStops(t *testing.T) {
	text, err := pass.GenerateKeys()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(file, []byte(text+"\n"), 0o600))
	p, err := NewProcess(t.Context(), Config{
		Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Queues: []string{"main"}, KeysFile: file, WaitingRoom: "https://wait.example",
	}, nil, zap.NewNop())
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	get := func(url string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	require.Equal(t, 200, get("http://"+p.Private()+"/readyz"))
	require.Equal(t, 200, get("http://"+p.Public()+sitegate.ArrivePath("main")))
	require.Equal(t, 403, get("http://"+p.Public()+"/forward/main"), "no proxy is trusted unless it is named")
	require.NoError(t, p.Stop(context.WithoutCancel(t.Context())))
}

// The gate asks the waiting room which queue of the name there is, and goes on by what it knows while that does not answer.
func TestTheWaitingRoomIsAskedWhichQueueThereIs(t *testing.T) {
	var away atomic.Bool
	room := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.URL.Query().Get("queue")
		if away.Load() || id == "vip" {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_, _ = w.Write([]byte(`{"queue":"` + id + `","made":12}`))
	}))
	t.Cleanup(room.Close)
	w := newWorld(t, func(c *Config) { c.Room = room.URL }, nil)
	token := func(id queue.ID, made int64) []string {
		s, err := w.keys.SignEntry(pass.Entry{Queue: id, Visitor: "v", Ticket: 7, ExpiresMs: time.Now().Add(time.Minute).UnixMilli(), Made: made})
		require.NoError(t, err)
		return forward("/", sitegate.TokenHeader, s)
	}
	require.Equal(t, 200, w.ask("GET", "/forward/main", token("main", 11)...).Code, "while nothing is known")
	require.NoError(t, w.service.Start(t.Context()))
	require.Eventually(t, func() bool { return w.ask("GET", "/forward/main", token("main", 11)...).Code == 401 }, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, 200, w.ask("GET", "/forward/main", token("main", 12)...).Code)
	require.Equal(t, 200, w.ask("GET", "/forward/vip", token("vip", 11)...).Code, "of that nothing is known")
	require.GreaterOrEqual(t, testutil.ToFloat64(w.service.metrics.checks.WithLabelValues("main", "earlier_queue")), 1.0)
	asked := func(id, result string) float64 {
		return testutil.ToFloat64(w.service.metrics.questions.WithLabelValues(id, result))
	}
	require.Eventually(t, func() bool { return asked("main", "answered") == 1 && asked("vip", "failed") == 1 }, 10*time.Second, 10*time.Millisecond)
	away.Store(true)
	require.NoError(t, w.service.Stop(t.Context()))
	require.Equal(t, 401, w.ask("GET", "/forward/main", token("main", 11)...).Code, "what is known stays known")

	w = newWorld(t, func(c *Config) { c.Room = "none" }, nil)
	require.Empty(t, w.service.rooms)
}

func TestReasonsHaveNames(t *testing.T) {
	require.Equal(t, "admitted", result(nil))
	require.Equal(t, "no_token", result(sitegate.ErrNoToken))
	require.Equal(t, "expired", result(errors.Join(errors.New("x"), pass.ErrExpired)))
	for _, why := range []error{sitegate.ErrCantTell, sitegate.ErrUsed, pass.ErrExpired} {
		require.Equal(t, why, reason(code(why)))
	}
	require.Equal(t, sitegate.ErrNoToken, reason(code(pass.ErrNotYet)))
}

func FuzzService(f *testing.F) {
	w := newWorld(f, func(c *Config) { c.Protect = []string{"/checkout"} }, nil)
	f.Add("GET", "/nginx/main", "GET", "/checkout")
	f.Add("POST", "/envoy/main/../checkout?x", "", "")
	f.Add("GET", sitegate.ArrivePath("main")+"?to=//x", "", "%zz")
	f.Fuzz(func(t *testing.T, method, target, m, uri string) {
		r := &http.Request{Method: method, RequestURI: target, URL: &url.URL{Path: target}, RemoteAddr: "127.0.0.1:1", Body: http.NoBody, Header: http.Header{
			"X-Original-Method": {m}, "X-Original-Uri": {uri}, "X-Forwarded-Method": {m}, "X-Forwarded-Uri": {uri}, "Accept": {browser},
		}}
		rec := httptest.NewRecorder()
		w.service.ServeHTTP(rec, r)
		require.Less(t, rec.Code, 500)
		if strings.HasPrefix(uri, "/checkout/") && m != "" {
			require.NotEqual(t, 204, rec.Code)
		}
	})
}
