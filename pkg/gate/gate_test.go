package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"

// fixture is a gate before a site that tells who came in.
type fixture struct {
	keys    *pass.Keys
	now     time.Time
	cfg     Config
	refused []error
	site    http.Handler
}

func setUp(t testing.TB, change func(*Config)) *fixture {
	line, err := pass.GenerateKeys()
	require.NoError(t, err)
	f := &fixture{now: time.UnixMilli(1764471234_000)}
	f.keys, err = pass.ParseKeys(line)
	require.NoError(t, err)
	f.cfg = Config{
		Queue: "main", Keys: f.keys, WaitingRoom: "https://wait.example/room?theme=dark",
		Now:     func() time.Time { return f.now },
		Refused: func(_ *http.Request, why error) { f.refused = append(f.refused, why) },
	}
	if change != nil {
		change(&f.cfg)
	}
	g, err := New(f.cfg)
	require.NoError(t, err)
	f.site = g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e, ok := EntryFrom(r.Context())
		_, _ = fmt.Fprintf(w, "%v %s %s %d", ok, e.Queue, e.Visitor, e.Ticket)
	}))
	return f
}

func (f *fixture) token(t testing.TB, id queue.ID, from, to time.Duration) string {
	s, err := f.keys.SignEntry(pass.Entry{
		Queue: id, Visitor: "v", Ticket: 7, AdmittedMs: f.now.Add(from).UnixMilli(), ExpiresMs: f.now.Add(to).UnixMilli(),
	})
	require.NoError(t, err)
	return s
}

func (f *fixture) good(t testing.TB) string { return f.token(t, "main", -time.Minute, time.Minute) }
func (f *fixture) stale(t testing.TB) string {
	return f.token(t, "main", -time.Hour, -time.Minute)
}

func (f *fixture) do(method, target string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	f.site.ServeHTTP(w, r)
	return w
}

func (f *fixture) letsIn(t *testing.T, name string, headers ...string) {
	w := f.do("GET", "/", append(headers, "Accept", browser)...)
	assert.Equal(t, 200, w.Code, name)
	assert.Equal(t, "true main v 7", w.Body.String(), name)
}

func TestTheAdmittedGetInWhicheverWayTheyShowIt(t *testing.T) {
	f := setUp(t, nil)
	good, stale := f.good(t), f.stale(t)
	cookie := CookieName("main") + "="
	var others []string
	for i := range 30 {
		others = append(others, fmt.Sprintf("c%d=%d", i, i))
	}
	thirty := strings.Join(others, "; ")

	f.letsIn(t, "bearer", "Authorization", "Bearer "+good)
	f.letsIn(t, "bearer in other letters", "authorization", "bEARER   "+good+" ")
	f.letsIn(t, "own header", TokenHeader, good)
	f.letsIn(t, "own header, the site's own Authorization", TokenHeader, good, "Authorization", "Basic dTpw")
	f.letsIn(t, "own header, the site's own bearer", TokenHeader, good, "Authorization", "Bearer x.y.z")
	f.letsIn(t, "cookie", "Cookie", cookie+good)
	f.letsIn(t, "stale header, good cookie", "Authorization", "Bearer "+stale, "Cookie", cookie+good)
	// Fault 21.
	f.letsIn(t, "last of thirty-one", "Cookie", thirty+"; "+cookie+good)
	f.letsIn(t, "first of thirty-one", "Cookie", cookie+good+"; "+thirty)
	f.letsIn(t, "doubled, stale first", "Cookie", cookie+stale+"; "+cookie+good)
	f.letsIn(t, "doubled, stale last", "Cookie", cookie+good+"; "+cookie+stale)
	f.letsIn(t, "doubled in two headers", "Cookie", cookie+"; "+thirty, "Cookie", cookie+good)
	f.letsIn(t, "quoted", "Cookie", cookie+`"`+good+`"`)
	f.letsIn(t, "among broken ones", "Cookie", `=; ;;a b=c; x="; é=1; `+cookie+"; "+cookie+`"; `+cookie+good)
	assert.Empty(t, f.refused)
}

func TestWhoIsNotAdmittedDoesNotGetIn(t *testing.T) {
	f := setUp(t, nil)
	receipt, err := f.keys.SignReceipt(pass.Receipt{Queue: "main", Visitor: "v", Ticket: 7, Ahead: queue.NoAhead})
	require.NoError(t, err)
	for _, c := range []struct {
		name, token, code string
		why               error
	}{
		{"nothing", "", CodeRequired, pass.ErrInvalid},
		{"junk", "junk", CodeRequired, pass.ErrInvalid},
		{"receipt", receipt, CodeRequired, pass.ErrInvalid},
		{"another queue", f.token(t, "other", -time.Minute, time.Minute), CodeRequired, pass.ErrOtherQueue},
		{"expired", f.stale(t), CodeExpired, pass.ErrExpired},
		{"not yet", f.token(t, "main", time.Minute, time.Hour), CodeRequired, pass.ErrNotYet},
		{"another site's keys", setUp(t, nil).good(t), CodeRequired, pass.ErrInvalid},
	} {
		for _, header := range [][2]string{
			{"Authorization", "Bearer " + c.token}, {TokenHeader, c.token}, {"Cookie", CookieName("main") + "=" + c.token},
		} {
			f.refused = nil
			w := f.do("GET", "/", append(header[:], "Accept", "application/json")...)
			require.Equal(t, 401, w.Code, c.name)
			assert.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
			assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
			assert.Contains(t, w.Header().Get("WWW-Authenticate"), "Bearer ")
			var p map[string]any
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
			assert.Equal(t, c.code, p["code"], c.name)
			assert.EqualValues(t, 401, p["status"])
			assert.Equal(t, "https://wait.example/room?queue=main&theme=dark", p["enterUrl"])
			if len(c.token) > 8 {
				assert.NotContains(t, w.Body.String(), c.token[len(c.token)-8:])
			}
			require.Len(t, f.refused, 1)
			if c.token != "" {
				assert.ErrorIs(t, f.refused[0], c.why, c.name)
			}

			w = f.do("GET", "/", append(header[:], "Accept", browser)...)
			assert.Equal(t, 303, w.Code, c.name)
		}
	}
	f.refused = nil
	f.do("GET", "/")
	assert.Equal(t, []error{ErrNoToken}, f.refused)
}

func TestTheCookieOfAnotherQueueIsNotRead(t *testing.T) {
	f := setUp(t, nil)
	assert.Equal(t, 401, f.do("GET", "/", "Cookie", CookieName("other")+"="+f.good(t)).Code)
	assert.Equal(t, 401, f.do("GET", "/?token="+f.good(t)).Code, "nor anything in the URL")
}

func TestTheMostTellingReasonWins(t *testing.T) {
	f := setUp(t, nil)
	w := f.do("GET", "/", "Authorization", "Bearer junk", TokenHeader, f.stale(t), "Cookie", CookieName("main")+"=junk")
	assert.Contains(t, w.Body.String(), CodeExpired)
}

func TestManyTokensAreNotAllLookedAt(t *testing.T) {
	f := setUp(t, nil)
	var headers []string
	for range maxTokens {
		headers = append(headers, TokenHeader, "junk")
	}
	assert.Equal(t, 401, f.do("GET", "/", append(headers, TokenHeader, f.good(t))...).Code)
	assert.Equal(t, 200, f.do("GET", "/", append(headers[2:], TokenHeader, f.good(t))...).Code)
}

func TestOnlyNavigationIsRedirected(t *testing.T) {
	f := setUp(t, nil)
	for _, c := range []struct {
		method, accept string
		want           int
	}{
		{"GET", browser, 303},
		{"HEAD", browser, 303},
		{"POST", browser, 401},
		{"PUT", browser, 401},
		{"OPTIONS", browser, 401},
		{"GET", "", 401},
		{"GET", "*/*", 401},
		{"GET", "application/json", 401},
		{"GET", "application/json, text/plain, */*", 401},
		{"GET", "text/html", 303},
		{"GET", "TEXT/HTML ; q=1", 303},
		{"GET", "text/*", 303},
		{"GET", "text/*;q=1, text/html;q=0", 401},
		{"GET", "text/html;q=0", 401},
		{"GET", "text/html;q=0.000", 401},
		{"GET", "text/html;q=0.1", 303},
		{"GET", "text/html;q=0.5, application/json", 401},
		{"GET", "text/html, application/json;q=0.9", 303},
		{"GET", "text/html;q=0.8, application/problem+json;q=0.9", 401},
		{"GET", "text/html, application/json", 303},
		{"GET", "text/html;level=1;q=0.3, application/json;q=0.2", 303},
		{"GET", "application/*, text/html;q=0.1", 401},
		{"GET", "application/*;q=0.1, text/html", 303},
		{"GET", "application/*, application/json;q=0.1, application/problem+json;q=0, text/html;q=0.5", 303},
		{"GET", "*/*, text/html;q=0.1", 401},
		{"GET", "*/*, application/*;q=0.1, text/html;q=0.5", 303},
		{"GET", "text/html, */*", 303},
		{"GET", "text/html;q=", 401},
		{"GET", "text/html;q=NaN", 401},
		{"GET", "text/html;q=-1", 401},
		{"GET", "text/html;q=2", 401},
		{"GET", ",;,=;q", 401},
		{"GET", "text/html5", 401},
	} {
		w := f.do(c.method, "/x", "Accept", c.accept)
		assert.Equal(t, c.want, w.Code, c)
		assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		if c.want == 303 {
			assert.Empty(t, w.Body.String())
		}
	}
	assert.Equal(t, 303, f.do("GET", "/", "Accept", "text/plain", "Accept", "text/html").Code, "two lines of Accept")
}

func TestPreflightsGoPastWhereThatIsWanted(t *testing.T) {
	preflight := []string{"Origin", "https://app.example", "Access-Control-Request-Method", "POST"}
	require.Equal(t, 401, setUp(t, nil).do("OPTIONS", "/", preflight...).Code)
	f := setUp(t, func(cfg *Config) { cfg.Preflights = true })
	w := f.do("OPTIONS", "/", preflight...)
	require.Equal(t, 200, w.Code)
	require.Equal(t, "false   0", w.Body.String(), "with no entry")
	require.Equal(t, 401, f.do("OPTIONS", "/").Code)
	require.Equal(t, 401, f.do("OPTIONS", "/", preflight[:2]...).Code)
	require.Equal(t, 401, f.do("OPTIONS", "/", preflight[2:]...).Code)
	require.Equal(t, 401, f.do("POST", "/", preflight...).Code)
	require.Equal(t, 401, f.do("GET", "/", append(preflight, "X-Http-Method-Override", "OPTIONS")...).Code)
	require.Equal(t, 405, f.do("OPTIONS", ArrivePath("main"), preflight...).Code)
}

func TestTheWayBack(t *testing.T) {
	for _, c := range []struct{ site, target, want string }{
		{"", "/", "/"},
		{"", "/checkout/7?item=a&item=b&x=%26", "/checkout/7?item=a&item=b&x=%26"},
		{"", "/%E2%82%AC/a%2Fb", "/%E2%82%AC/a%2Fb"},
		{"", "//evil.example/x", "/evil.example/x"},
		{"", "///evil.example", "/evil.example"},
		{"", `/\evil.example`, "/%5Cevil.example"},
		{"", "http://evil.example/x?y", "/x?y"},
		{"", "/?return=https://evil.example", "/?return=https://evil.example"},
		{"", `/?q=a\b&c=d\`, "/?q=a%5Cb&c=d%5C"},
		{"", `/?q="<{|}>` + "`^공\xff#x", "/?q=%22%3C%7B%7C%7D%3E%60%5E%EA%B3%B5%FF%23x"},
		{"", "/" + strings.Repeat("x", MaxReturn), ""},
		{"", "/?" + strings.Repeat(`\`, MaxReturn/2), ""},
		{"https://shop.example", "/a?b", "https://shop.example/a?b"},
		{"https://shop.example:8443/", "//evil.example", "https://shop.example:8443/evil.example"},
		{"https://shop.example", "http://evil.example/x", "https://shop.example/x"},
	} {
		f := setUp(t, func(cfg *Config) { cfg.Site = c.site })
		w := f.do("GET", c.target, "Accept", browser, "X-Forwarded-Host", "evil.example", "X-Original-URL", "/evil")
		require.Equal(t, 303, w.Code)
		loc, err := url.Parse(w.Header().Get("Location"))
		require.NoError(t, err)
		assert.Equal(t, "wait.example", loc.Host)
		assert.Equal(t, "/room", loc.Path)
		q := loc.Query()
		assert.Equal(t, c.want, q.Get("return"), c.target)
		if c.want != "" { // the waiting page takes it as it is
			back, err := ReturnAddress(c.want, []string{"https://shop.example", "https://shop.example:8443"})
			require.NoError(t, err)
			require.True(t, strings.HasSuffix(back, c.want), back)
		}
		assert.Equal(t, []string{"main"}, q["queue"])
		assert.Equal(t, []string{"dark"}, q["theme"])
	}
}

func TestTheRoomsOwnParametersDoNotStandInTheWay(t *testing.T) {
	f := setUp(t, func(cfg *Config) { cfg.WaitingRoom = "https://wait.example/?queue=other&return=/old&a=1&a=2" })
	w := f.do("GET", "/new", "Accept", browser)
	assert.Equal(t, "https://wait.example/?a=1&a=2&queue=main&return=%2Fnew", w.Header().Get("Location"))
	w = f.do("POST", "/new")
	assert.Contains(t, w.Body.String(), `"enterUrl":"https://wait.example/?a=1\u0026a=2\u0026queue=main"`)
	w = f.do("GET", "/new", "Accept", browser)
	assert.Equal(t, "https://wait.example/?a=1&a=2&queue=main&return=%2Fnew", w.Header().Get("Location"), "again the same")
}

func TestTheWayBackIsWhatTheBrowserAskedFor(t *testing.T) {
	f := setUp(t, nil)
	f.site = http.StripPrefix("/shop", f.site)
	w := f.do("GET", "/shop/cart?x=1", "Accept", browser)
	loc, err := url.Parse(w.Header().Get("Location"))
	require.NoError(t, err)
	assert.Equal(t, "/shop/cart?x=1", loc.Query().Get("return"))
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"queue":             {func(c *Config) { c.Queue = "Main" }, "queue id"},
		"no queue":          {func(c *Config) { c.Queue = "" }, "queue id"},
		"keys":              {func(c *Config) { c.Keys = nil }, "keys are missing"},
		"no room":           {func(c *Config) { c.WaitingRoom = "" }, "waiting room: not a URL"},
		"room in the clear": {func(c *Config) { c.WaitingRoom = "http://wait.example/" }, "not an https URL"},
		"room elsewhere":    {func(c *Config) { c.WaitingRoom = "//wait.example/" }, "not an https URL"},
		"room a script":     {func(c *Config) { c.WaitingRoom = "javascript:alert(1)" }, "waiting room: not"},
		"room with user":    {func(c *Config) { c.WaitingRoom = "https://u:secret@wait.example/" }, "without user"},
		"room broken":       {func(c *Config) { c.WaitingRoom = "https://u:secret@%zz" }, "waiting room: not a URL"},
		"room with anchor":  {func(c *Config) { c.WaitingRoom = "https://wait.example/#a" }, "fragment"},
		"site with path":    {func(c *Config) { c.Site = "https://shop.example/a" }, "site: an origin"},
		"site in the clear": {func(c *Config) { c.Site = "http://shop.example" }, "site: not an https URL"},
	} {
		cfg := setUp(t, nil).cfg
		c.change(&cfg)
		_, err := New(cfg)
		if assert.ErrorContains(t, err, c.want, name) {
			assert.NotContains(t, err.Error(), "secret", name)
		}
	}
	_, err := New(Config{})
	for _, want := range []string{"queue id", "keys", "waiting room"} {
		assert.ErrorContains(t, err, want)
	}
	cfg := setUp(t, nil).cfg
	for _, room := range []string{"http://localhost:8080/", "http://127.0.0.1/", "http://[::1]:1/"} {
		cfg.WaitingRoom, cfg.Now, cfg.Refused = room, nil, nil
		g, err := New(cfg)
		require.NoError(t, err)
		_, err = g.Check(httptest.NewRequest("GET", "/", nil))
		assert.ErrorIs(t, err, ErrNoToken)
	}
}

// A site that imports the gate should not have to take in our dependencies by it.
func TestTheGateImportsLittle(t *testing.T) {
	names, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, n := range names {
		if !strings.HasSuffix(n.Name(), ".go") || strings.HasSuffix(n.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), n.Name(), nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, imp := range file.Imports {
			path, err := strconv.Unquote(imp.Path.Value)
			require.NoError(t, err)
			first, _, _ := strings.Cut(path, "/")
			ours := path == "github.com/soonbeon/soonbeon/pkg/pass" || path == "github.com/soonbeon/soonbeon/pkg/queue"
			assert.True(t, ours || !strings.Contains(first, "."), "%s imports %s", n.Name(), path)
		}
	}
}

// Never a 5xx, never let in by junk, and always sent to our own waiting room. Fault 21.
func FuzzGate(f *testing.F) {
	fx := setUp(f, nil)
	stale := fx.stale(f)
	f.Add("GET", "/", "Bearer "+stale, stale, CookieName("main")+"="+stale, browser)
	f.Add("POST", "//x?%zz", "Bearer", "", `__Host-soonbeon-entry-main="`, "*/*;q=é")
	f.Add("HEAD", "/%00?a=1&a=2", "Bearer  ..", "..", "a=b; =; ;", "text/html;q=1e-400")
	f.Fuzz(func(t *testing.T, method, uri, authorization, own, cookie, accept string) {
		r := &http.Request{
			Method: method, RequestURI: uri, URL: &url.URL{Path: uri}, Body: io.NopCloser(strings.NewReader("")),
			Header: http.Header{
				"Authorization": {authorization}, TokenHeader: {own}, "Cookie": {cookie}, "Accept": {accept},
			},
		}
		w := httptest.NewRecorder()
		fx.refused = nil
		fx.site.ServeHTTP(w, r)
		require.Contains(t, []int{303, 401}, w.Code)
		require.Len(t, fx.refused, 1)
		why := fx.refused[0]
		require.True(t, errors.Is(why, ErrNoToken) || errors.Is(why, pass.ErrInvalid) || errors.Is(why, pass.ErrExpired), why)
		if w.Code == 303 {
			loc, err := url.Parse(w.Header().Get("Location"))
			require.NoError(t, err)
			require.Equal(t, "wait.example", loc.Host)
			back := loc.Query().Get("return")
			require.True(t, back == "" || back[0] == '/' && !strings.HasPrefix(back, "//") && !strings.HasPrefix(back, `/\`), back)
		}
	})
}

func BenchmarkGate(b *testing.B) {
	f := setUp(b, nil)
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Cookie", "a=b; c=d; "+CookieName("main")+"="+f.good(b))
	g, err := New(f.cfg)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Check(r); err != nil {
			b.Fatal(err)
		}
	}
}
