package httpapi_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/soonbeon/soonbeon/services/httpapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is an instance with one of each kind of handler.
type fixture struct {
	e    *echo.Echo
	reg  *prometheus.Registry
	logs *observer.ObservedLogs
}

func newFixture(t testing.TB, cfg httpapi.Config) *fixture {
	core, logs := observer.New(zap.DebugLevel)
	reg := prometheus.NewRegistry()
	e, err := httpapi.New(cfg, zap.New(core), reg)
	require.NoError(t, err)
	e.GET("/ok", func(c echo.Context) error { return httpapi.WriteJSON(c, 200, map[string]string{"ip": c.RealIP()}) })
	e.POST("/ok", func(c echo.Context) error { return httpapi.WriteRawJSON(c, 200, []byte(`{}`)) })
	e.GET("/panics", func(echo.Context) error { panic("secret-in-a-panic") })
	e.GET("/panics/late", func(c echo.Context) error {
		_ = httpapi.WriteRawJSON(c, 200, []byte(`{}`))
		panic("late")
	})
	e.GET("/aborts", func(echo.Context) error { panic(http.ErrAbortHandler) })
	e.GET("/fails", func(echo.Context) error { return errors.New("a plain error") })
	e.GET("/busy", func(echo.Context) error {
		return httpapi.Problemf(httpapi.Overloaded, "later").After(1500 * time.Millisecond)
	})
	e.GET("/binary", func(echo.Context) error { return httpapi.Problemf(httpapi.NotFound, "\xff") })
	e.GET("/u/:id", func(c echo.Context) error { return httpapi.WriteRawJSON(c, 200, []byte(`{}`)) })
	return &fixture{e, reg, logs}
}

func (f *fixture) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	f.e.ServeHTTP(w, r)
	return w
}

// requireProblem checks all that every problem document has.
func requireProblem(t testing.TB, w *httptest.ResponseRecorder, status int, code httpapi.Code) {
	t.Helper()
	var doc struct {
		Type, Title, Code, Detail string
		Status                    int
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &doc, json.MatchCaseInsensitiveNames(true)), "body: %s", w.Body)
	require.Equal(t, string(code), doc.Code)
	require.Equal(t, status, w.Code)
	require.Equal(t, status, doc.Status)
	require.Equal(t, "urn:soonbeon:problem:"+string(code), doc.Type)
	require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
}

func TestEveryErrorIsAProblem(t *testing.T) {
	f := newFixture(t, httpapi.Config{})
	for _, tc := range []struct {
		method, path string
		status       int
		code         httpapi.Code
	}{
		{"GET", "/nowhere", 404, httpapi.NotFound},
		{"GET", "/ok/", 404, httpapi.NotFound},
		{"GET", "/%zz", 404, httpapi.NotFound},
		{"PUT", "/ok", 405, httpapi.MethodNotAllowed},
		{"BREW", "/ok", 405, httpapi.MethodNotAllowed},
		{"GET", "/fails", 500, httpapi.Internal},
		{"GET", "/panics", 500, httpapi.Internal},
		{"GET", "/busy", 503, httpapi.Overloaded},
	} {
		t.Run(tc.method+tc.path, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			r.Method, r.URL.Path = tc.method, tc.path
			w := f.do(r)
			requireProblem(t, w, tc.status, tc.code)
			require.NotContains(t, w.Body.String(), "secret")
			require.NotContains(t, w.Body.String(), "plain error")
		})
	}
	w := f.do(httptest.NewRequest("DELETE", "/ok", nil))
	require.ElementsMatch(t, []string{"OPTIONS", "GET", "POST"}, strings.Split(w.Header().Get("Allow"), ", "))
	require.Equal(t, "2", f.do(httptest.NewRequest("GET", "/busy", nil)).Header().Get("Retry-After"))
	require.Equal(t, 404, f.do(httptest.NewRequest("GET", "/binary", nil)).Code)
}

func TestPanicsAreCountedAndEndNothingElse(t *testing.T) {
	f := newFixture(t, httpapi.Config{})
	require.Equal(t, 500, f.do(httptest.NewRequest("GET", "/panics", nil)).Code)
	require.Equal(t, 200, f.do(httptest.NewRequest("GET", "/panics/late", nil)).Code, "the answer was out already")
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { f.do(httptest.NewRequest("GET", "/aborts", nil)) })
	require.Equal(t, 2, f.logs.FilterMessage("handler panicked").Len())
	require.Zero(t, f.logs.FilterMessage("handler returned an error that is no problem").Len())
	require.NoError(t, testutil.GatherAndCompare(f.reg, strings.NewReader(`
# HELP soonbeon_http_panics_total Handlers that panicked. Each is a defect.
# TYPE soonbeon_http_panics_total counter
soonbeon_http_panics_total 2
`), "soonbeon_http_panics_total"))
}

func TestNothingIsLoggedPerRequest(t *testing.T) {
	f := newFixture(t, httpapi.Config{})
	for _, path := range []string{"/ok", "/nowhere", "/busy"} {
		f.do(httptest.NewRequest("GET", path, nil))
	}
	require.Zero(t, f.logs.Len(), "%v", f.logs.All())
}

func TestFault24_CrossSitePostsAreRefused(t *testing.T) {
	f := newFixture(t, httpapi.Config{TrustedOrigins: []string{"https://shop.example"}})
	for name, tc := range map[string]struct {
		method string
		header map[string]string
		status int
	}{
		"no browser":                   {"POST", nil, 200},
		"the same origin":              {"POST", map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "https://example.com"}, 200},
		"another site":                 {"POST", map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, 403},
		"a sibling":                    {"POST", map[string]string{"Sec-Fetch-Site": "same-site", "Origin": "https://evil.example.com"}, 403},
		"an old browser, another site": {"POST", map[string]string{"Origin": "https://evil.example"}, 403},
		"an old browser, this site":    {"POST", map[string]string{"Origin": "https://example.com"}, 200},
		"no origin at all":             {"POST", map[string]string{"Origin": "null"}, 403},
		"a trusted site":               {"POST", map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://shop.example"}, 200},
		"reading changes nothing":      {"GET", map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, 200},
		"an address that isn't there":  {"DELETE", map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(tc.method, "/ok", nil)
			for k, v := range tc.header {
				r.Header.Set(k, v)
			}
			w := f.do(r)
			require.Equal(t, tc.status, w.Code)
			if tc.status == 403 {
				requireProblem(t, w, 403, httpapi.CrossSite)
			}
		})
	}
	_, err := httpapi.New(httpapi.Config{TrustedOrigins: []string{"shop.example", "https://a/b"}}, zap.NewNop(), prometheus.NewRegistry())
	require.ErrorContains(t, err, `trusted origin "shop.example"`)
	require.ErrorContains(t, err, `trusted origin "https://a/b"`)
}

func TestFault23_ForwardedForIsIgnored(t *testing.T) {
	f := newFixture(t, httpapi.Config{})
	r := httptest.NewRequest("GET", "/ok", nil)
	r.RemoteAddr = "192.0.2.7:1234"
	for _, h := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "True-Client-Ip"} {
		r.Header.Set(h, "203.0.113.9")
	}
	require.JSONEq(t, `{"ip":"192.0.2.7"}`, f.do(r).Body.String())
}

func TestFault30_HostileRequestsDoNotGrowTheMetrics(t *testing.T) {
	f := newFixture(t, httpapi.Config{})
	visit := func(i int) {
		id := strings.Repeat("x", i%50) + string(rune('a'+i%26))
		for _, path := range []string{"/ok", "/u/" + id, "/nowhere/" + id, "/" + id, "/fails", "/u/" + id + "/more"} {
			for _, method := range []string{"GET", "POST", "M" + strings.ToUpper(id)} {
				r := httptest.NewRequest("GET", "/", nil)
				r.Method, r.URL.Path = method, path
				f.do(r)
			}
		}
	}
	visit(0)
	before, err := testutil.GatherAndCount(f.reg)
	require.NoError(t, err)
	for i := range 300 {
		visit(i)
	}
	after, err := testutil.GatherAndCount(f.reg)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestCodes(t *testing.T) {
	seen := map[httpapi.Code]bool{}
	for _, c := range httpapi.Codes() {
		require.False(t, seen[c.Code], "%s twice", c.Code)
		seen[c.Code] = true
		require.Equal(t, c.Status, httpapi.Problemf(c.Code, "").Status())
		require.NotEmpty(t, c.Title)
		require.GreaterOrEqual(t, c.Status, 400)
		if c.Status >= 500 {
			require.Contains(t, []httpapi.Code{httpapi.LogUnavailable, httpapi.LogTrouble, httpapi.Overloaded, httpapi.ViewUnavailable, httpapi.StreamsFull, httpapi.Internal}, c.Code)
		}
	}
	require.Len(t, seen, 29)
	require.Equal(t, 500, httpapi.Problemf("made_up", "").Status())
}

func TestTwoInstancesInOneProcess(t *testing.T) {
	newFixture(t, httpapi.Config{})
	f := newFixture(t, httpapi.Config{})
	e, err := httpapi.New(httpapi.Config{}, zap.NewNop(), f.reg)
	require.NoError(t, err, "the private port's beside the public one's")
	e.GET("/ok", func(c echo.Context) error { return httpapi.WriteRawJSON(c, 200, []byte(`{}`)) })
	f.do(httptest.NewRequest("GET", "/ok", nil))
	e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/ok", nil))
	require.NoError(t, testutil.GatherAndCompare(f.reg, strings.NewReader(`
# HELP soonbeon_http_requests_total Requests answered, by route pattern and class of status.
# TYPE soonbeon_http_requests_total counter
soonbeon_http_requests_total{class="1xx",route="/ok"} 0
soonbeon_http_requests_total{class="2xx",route="/ok"} 2
soonbeon_http_requests_total{class="3xx",route="/ok"} 0
soonbeon_http_requests_total{class="4xx",route="/ok"} 0
soonbeon_http_requests_total{class="5xx",route="/ok"} 0
soonbeon_http_requests_total{class="none",route="/ok"} 0
`), "soonbeon_http_requests_total"))
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "soonbeon_http_panics_total"}))
	_, err = httpapi.New(httpapi.Config{}, zap.NewNop(), reg)
	require.ErrorContains(t, err, "register HTTP metrics")
}

func BenchmarkMiddleware(b *testing.B) {
	f := newFixture(b, httpapi.Config{})
	r := httptest.NewRequest("POST", "/ok", nil)
	w := discard{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		f.e.ServeHTTP(w, r)
	}
}

type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(b []byte) (int, error) { return io.Discard.Write(b) }
func (d discard) WriteHeader(int)             {}
