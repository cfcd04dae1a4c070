package page_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/httpapi"
	"github.com/soonbeon/soonbeon/services/page"
)

const site = "https://shop.example"

// room is a waiting room whose answers a test sets.
type room struct {
	*echo.Echo
	entry    *queue.Entry
	position func(c echo.Context) error
	enter    func(c echo.Context) error
}

func open(t testing.TB, change func(*page.Config)) *room {
	t.Helper()
	e, err := httpapi.New(httpapi.Config{}, zap.NewNop(), prometheus.NewRegistry())
	require.NoError(t, err)
	r := &room{Echo: e, entry: &queue.Entry{ID: "main", Settings: queue.DefaultSettings()}}
	cfg := page.Config{
		ReturnOrigins: []string{site},
		Find:          func(id queue.ID) (*queue.Entry, bool) { return r.entry, id == r.entry.ID },
	}
	if change != nil {
		change(&cfg)
	}
	s, err := page.New(cfg)
	require.NoError(t, err)
	e.GET("/queue/position", func(c echo.Context) error { return r.position(c) })
	e.POST("/queue/enter", func(c echo.Context) error { return r.enter(c) })
	s.Register(e)
	s.RegisterForm(e)
	preview, err := httpapi.New(httpapi.Config{}, zap.NewNop(), prometheus.NewRegistry())
	require.NoError(t, err)
	s.RegisterPreview(preview)
	e.GET("/queue/preview", func(c echo.Context) error { preview.ServeHTTP(c.Response(), c.Request()); return nil })
	return r
}

func (r *room) get(address string, header ...string) *httptest.ResponseRecorder {
	in := httptest.NewRequest(http.MethodGet, address, nil)
	for i := 0; i < len(header); i += 2 {
		in.Header.Add(header[i], header[i+1])
	}
	out := httptest.NewRecorder()
	r.ServeHTTP(out, in)
	return out
}

func (r *room) post(form url.Values, header ...string) *httptest.ResponseRecorder {
	in := httptest.NewRequest(http.MethodPost, "/queue/enter/form", strings.NewReader(form.Encode()))
	in.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(header); i += 2 {
		in.Header.Add(header[i], header[i+1])
	}
	out := httptest.NewRecorder()
	r.ServeHTTP(out, in)
	return out
}

// told is what a page has for its script.
func told(t *testing.T, body string) map[string]any {
	t.Helper()
	m := regexp.MustCompile(`(?s)id="soonbeon-data">(.*?)</script>`).FindStringSubmatch(body)
	require.NotNil(t, m, body)
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(m[1]), &v))
	return v
}

const cookie = "__Host-soonbeon-main=receipt"

func TestThePageLoadsNothingFromElsewhere(t *testing.T) {
	r := open(t, nil)
	w := r.get("/queue/wait?queue=main")
	require.Equal(t, 200, w.Code)
	require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	policy := w.Header().Get("Content-Security-Policy")
	require.Contains(t, policy, "default-src 'none'")
	require.NotContains(t, policy, "unsafe")
	require.Contains(t, policy, "form-action 'self'")
	require.NotContains(t, policy, "http")
	for _, m := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(w.Body.String(), -1) {
		at := html.UnescapeString(m[1])
		require.Regexp(t, `^(/queue/|data:,$|#$)`, at)
		if strings.HasPrefix(at, "/queue/page/") {
			f := r.get(at)
			require.Equal(t, 200, f.Code, at)
			require.Equal(t, "public, max-age=31536000, immutable", f.Header().Get("Cache-Control"))
		}
	}
	require.Equal(t, "no-cache", r.get("/queue/page/older/page.js").Header().Get("Cache-Control"), "what is there now is not what was meant")
	require.Equal(t, 404, r.get("/queue/page/older/other.js").Code)
}

// Everything that a newcomer's browser loads, as it comes over the wire.
func TestThePageIsUnder30KB(t *testing.T) {
	r := open(t, nil)
	for _, lang := range []string{"en", "ko"} {
		page := r.get("/queue/wait?queue=main&lang="+lang, "Accept-Encoding", "gzip, deflate, br")
		require.Equal(t, "gzip", page.Header().Get("Content-Encoding"))
		total := page.Body.Len()
		zipped, err := gzip.NewReader(page.Body)
		require.NoError(t, err)
		body, err := io.ReadAll(zipped)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`(?:src|href)="(/queue/page/[^"]*)"`).FindAllStringSubmatch(string(body), -1) {
			total += r.get(m[1], "Accept-Encoding", "gzip").Body.Len()
		}
		t.Logf("%s: %d bytes", lang, total)
		require.Less(t, total, 30_000)
		require.Greater(t, total, 5_000)
	}
}

func TestTheLanguageIsTheReaders(t *testing.T) {
	r := open(t, nil)
	for _, c := range []struct{ header, query, want string }{
		{"ko-KR,ko;q=0.9,en;q=0.8", "", "ko"},
		{"en-GB,en;q=0.9,ko;q=0.8", "", "en"},
		{"fr", "", "en"},
		{"", "", "en"},
		{"%%%;;q=x", "", "en"},
		{strings.Repeat("x,", 5000), "", "en"},
		{"en", "&lang=ko", "ko"},
		{"ko", "&lang=en", "en"},
		{"ko", "&lang=en-US", "en"},
		{"en", "&lang=ko-KR", "ko"},
		{"en", "&lang=ko_KR", "ko"},
	} {
		w := r.get("/queue/wait?queue=main"+c.query, "Accept-Language", c.header)
		require.Equal(t, 200, w.Code)
		require.Contains(t, w.Body.String(), `<html lang="`+c.want+`"`, c)
		require.Contains(t, w.Header().Values("Vary"), "Accept-Language")
		if c.query != "" {
			require.Contains(t, told(t, w.Body.String())["plain"], "lang="+c.want+"&", "by the name that it has here")
		}
	}
}

// Whatever is wrong with the address, there is a page that says so, and no way out but to where it is safe.
func TestBadAddressesGetAPage(t *testing.T) {
	r := open(t, nil)
	for address, want := range map[string]struct {
		status int
		says   string
	}{
		"/queue/wait":                                                                {400, "There is no such line"},
		"/queue/wait?queue=":                                                         {400, "There is no such line"},
		"/queue/wait?queue=other":                                                    {404, "There is no such line"},
		"/queue/wait?queue=main&queue=main":                                          {400, "There is no such line"},
		"/queue/wait?queue[]=main":                                                   {400, "There is no such line"},
		"/queue/wait?queue=%3Cscript%3E":                                             {400, "There is no such line"},
		"/queue/wait?queue=main&lang=xx":                                             {400, "There is no such language here"},
		"/queue/wait?queue=main&lang=fr":                                             {400, "There is no such language here"},
		"/queue/wait?queue=main&lang=i-klingon":                                      {400, "There is no such language here"},
		"/queue/wait?queue=main&lang=" + strings.Repeat("en-", 3000):                 {400, "There is no such language here"},
		"/queue/wait?queue=main&lang=%00%22":                                         {400, "There is no such language here"},
		"/queue/wait?queue=main&return=https%3A%2F%2Fevil.example%2F":                {400, "This link leads somewhere"},
		"/queue/wait?queue=main&return=%2F%2Fevil.example":                           {400, "This link leads somewhere"},
		"/queue/wait?queue=main&return=%2F%5Cevil.example":                           {400, "This link leads somewhere"},
		"/queue/wait?queue=main&return=javascript%3Aalert(1)":                        {400, "This link leads somewhere"},
		"/queue/wait?queue=main&return=https%3A%2F%2Fshop.example%40evil.example%2F": {400, "This link leads somewhere"},
		"/queue/wait?queue=main&return=%2Fa&return=%2Fb":                             {400, "This link leads somewhere"},
		"/queue/wait?queue=main&return=%2Fa%0d%0aSet-Cookie:x":                       {400, "This link leads somewhere"},
	} {
		w := r.get(address)
		require.Equal(t, want.status, w.Code, address)
		require.Contains(t, html.UnescapeString(w.Body.String()), want.says, address)
		require.NotContains(t, w.Body.String(), "evil", address)
		require.NotContains(t, w.Body.String(), "<script", address)
		require.Empty(t, w.Header().Get("Location"))
		require.Empty(t, w.Header().Get("Refresh"))
	}
}

func TestTheWayBack(t *testing.T) {
	r := open(t, nil)
	for _, c := range []struct{ back, action, to string }{
		{"", "", ""},
		{"https://shop.example/a?b=1+2&c=%23#d", site + "/.well-known/soonbeon/arrive/main", "/a?b=1+2&c=%23#d"},
		{"/결제?품목=의자", site + "/.well-known/soonbeon/arrive/main", "/%EA%B2%B0%EC%A0%9C?%ED%92%88%EB%AA%A9=%EC%9D%98%EC%9E%90"},
	} {
		w := r.get("/queue/wait?queue=main&return=" + url.QueryEscape(c.back))
		require.Equal(t, 200, w.Code, c)
		v := told(t, w.Body.String())
		require.Equal(t, c.action, v["action"])
		require.Equal(t, c.to, v["to"])
	}
	own := open(t, func(c *page.Config) { c.ReturnOrigins = nil })
	v := told(t, own.get("/queue/wait?queue=main&return=%2Fcheckout").Body.String())
	require.Equal(t, "/.well-known/soonbeon/arrive/main", v["action"], "where no site is named, a path is one of this host")
	require.Equal(t, 400, own.get("/queue/wait?queue=main&return=https%3A%2F%2Fshop.example%2F").Code)
	require.Equal(t, 400, own.get("/queue/wait?queue=main&return=https%3A%2F%2Fown.invalid.evil.example%2F").Code)
}

func TestWhatTheScriptIsTold(t *testing.T) {
	r := open(t, nil)
	v := told(t, r.get("/queue/wait?queue=main").Body.String())
	require.Equal(t, "back", v["reentry"])
	require.Equal(t, false, v["resume"])
	r.entry.Settings.Reentry = queue.Keep
	v = told(t, r.get("/queue/wait?queue=main", "Cookie", cookie).Body.String())
	require.Equal(t, "keep", v["reentry"])
	require.Equal(t, true, v["resume"])
}

// Pages are kept, and nobody gets one that was made for something else.
func TestKeptPagesAreNotMixedUp(t *testing.T) {
	r := open(t, nil)
	seen := map[string]string{}
	for _, rule := range []queue.Reentry{queue.Back, queue.Keep} {
		for _, header := range []string{"", cookie} {
			for _, query := range []string{"", "&lang=en", "&lang=ko", "&return=%2Fa", "&return=%2Fb"} {
				for _, language := range []string{"en", "ko"} {
					r.entry.Settings.Reentry = rule
					ask := func() string {
						return r.get("/queue/wait?queue=main"+query, "Cookie", header, "Accept-Language", language).Body.String()
					}
					body := ask()
					require.Equal(t, body, ask())
					asked := rule.String() + header + query + language
					if query == "&lang=en" || query == "&lang=ko" {
						asked = rule.String() + header + query // chosen by hand: whatever the browser prefers
					}
					if before, again := seen[asked]; again {
						require.Equal(t, before, body)
					}
					seen[asked] = body
				}
			}
		}
	}
	distinct := map[string]bool{}
	for _, body := range seen {
		distinct[body] = true
	}
	require.Equal(t, 2*2*(3*2+2), len(distinct), "as many pages as there are questions")
}

func TestWithoutScripts(t *testing.T) {
	r := open(t, nil)
	address := "/queue/wait?queue=main&plain=1&return=" + url.QueryEscape(site+"/buy")

	w := r.get(address)
	require.Equal(t, 200, w.Code)
	require.Contains(t, w.Body.String(), `action="/queue/enter/form"`)
	require.NotContains(t, w.Body.String(), "<script")
	require.Equal(t, []string{"You are not in line yet", "Press the button to take a place. From then on this page renews itself."}, said(w)[:2], "and not that it is being done")
	require.NotContains(t, said(w), "This page renews itself. Reloading it loses nothing.")
	require.Empty(t, w.Header().Get("Refresh"), "nobody enters by looking, and a form is not renewed under a finger")
	key := regexp.MustCompile(`name="key" value="([0-9a-f]{32})"`).FindStringSubmatch(w.Body.String())
	require.NotNil(t, key)

	// Kafka is away, and then it is not: one key.
	form := url.Values{"queue": {"main"}, "key": {key[1]}, "return": {site + "/buy"}, "lang": {""}}
	r.enter = func(echo.Context) error {
		return httpapi.Problemf(httpapi.LogUnavailable, "retry").After(3 * time.Second)
	}
	w = r.post(form)
	require.Equal(t, 503, w.Code)
	require.Equal(t, "3", w.Header().Get("Retry-After"))
	require.Contains(t, w.Body.String(), `value="`+key[1]+`"`)
	require.Equal(t, []string{"You are not known to be in line", "The waiting room did not answer. Please press the button again; you are not counted twice."}, said(w)[:2])
	r.enter = func(c echo.Context) error {
		require.Equal(t, key[1], c.Request().Header.Get("Idempotency-Key"))
		id, err := httpapi.DecodeQueue(c)
		require.NoError(t, err)
		require.Equal(t, "main", id)
		c.Response().Header().Add("Set-Cookie", httpapi.ReceiptCookie("main", "receipt"))
		return httpapi.WriteRawJSON(c, 202, []byte(`{"status":"accepted"}`))
	}
	w = r.post(form)
	require.Equal(t, 303, w.Code)
	require.Equal(t, "/queue/wait?plain=1&queue=main&return=https%3A%2F%2Fshop.example%2Fbuy", w.Header().Get("Location"))
	require.Contains(t, w.Header().Get("Set-Cookie"), cookie)

	// And now it waits, by its cookie.
	r.position = func(c echo.Context) error {
		require.Equal(t, []string{"receipt"}, httpapi.CookieTokens(c.Request(), "main"))
		c.Response().Header().Add("Set-Cookie", httpapi.ReceiptCookie("main", "newer"))
		return httpapi.WriteRawJSON(c, 200, []byte(`{"state":"waiting","position":1234,"ahead":1233,"behind":0,"total":1234,"ticket":48214,"nowServing":46980,
			"etaSeconds":480,"retryAfterMs":4800,"precision":"exact"}`))
	}
	w = r.get(w.Header().Get("Location"), "Cookie", cookie)
	require.Equal(t, 200, w.Code)
	require.Equal(t, "5; url=/queue/wait?plain=1&queue=main&return=https%3A%2F%2Fshop.example%2Fbuy", w.Header().Get("Refresh"))
	require.Contains(t, w.Header().Get("Set-Cookie"), "newer", "the newest receipt")
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.Equal(t, []string{"You are in line", "1,234th", "about 7 to 9 minutes", "1,233 ahead · 0 behind", "1,234 in line", "now serving 46,980 · your ticket 48,214",
		"When it is your turn, this page says so and has a button to go in. Leave it open.", "This page renews itself. Reloading it loses nothing."}, said(w))
	w = r.get(address+"&lang=ko", "Cookie", cookie)
	for _, says := range []string{"1,234번째", "약 7~9분", "앞에 1,233명 · 뒤에 0명", "전체 1,234명", "현재 입장 46,980번 · 내 번호표 48,214번"} {
		require.Contains(t, said(w), says)
	}

	// Its turn: on to the site by a form, since the token is in no address.
	r.position = func(c echo.Context) error {
		return httpapi.WriteRawJSON(c, 200, []byte(`{"state":"admitted","queue":"main","token":"abc","expiresAt":"`+time.Now().Add(5*time.Minute).UTC().Format(time.RFC3339)+`"}`))
	}
	w = r.get(address, "Cookie", cookie)
	require.Contains(t, w.Body.String(), `<form method="post" action="https://shop.example/.well-known/soonbeon/arrive/main">`)
	require.Contains(t, w.Body.String(), `name="token" value="abc"`)
	require.Contains(t, w.Body.String(), `name="to" value="/buy"`)
	require.NotContains(t, w.Header().Get("Content-Security-Policy"), "form-action", "it is held against the site's own redirects, too")
	require.Equal(t, []string{"It is your turn", "The way in is open.", "Counted from when this page was loaded, the way stays open for 5:00.", "This page renews itself. Reloading it loses nothing."},
		said(w), "nothing takes anybody there but the button")
	require.Regexp(t, "^30[01]; ", w.Header().Get("Refresh"), "and then it says that it is over")
	require.Equal(t, "same-origin", w.Header().Get("Referrer-Policy"))

	// The place can't be told: it is not lost, and no form offers another.
	r.position = func(echo.Context) error {
		return httpapi.Problemf(httpapi.ViewUnavailable, "ask again").After(7 * time.Second)
	}
	w = r.get(address, "Cookie", cookie)
	require.Equal(t, 200, w.Code)
	require.NotContains(t, w.Body.String(), "<form")
	require.True(t, strings.HasPrefix(w.Header().Get("Refresh"), "7; "), w.Header().Get("Refresh"))
	require.Equal(t, "You are in line", said(w)[0])
	require.Contains(t, said(w), "The waiting room does not answer at the moment. Your place is kept, and this page tries again by itself.")

	// It was not used.
	r.position = func(c echo.Context) error {
		return httpapi.WriteRawJSON(c, 200, []byte(`{"state":"over","reason":"expired"}`))
	}
	w = r.get(address, "Cookie", cookie)
	require.Equal(t, "Your turn is over", said(w)[0])
	require.Contains(t, w.Body.String(), "/queue/enter/form")
	require.Empty(t, w.Header().Get("Refresh"))

	// A cookie that counts for nothing is replaced.
	r.position = func(echo.Context) error { return httpapi.Problemf(httpapi.CredentialInvalid, "old") }
	require.Contains(t, r.get(address, "Cookie", cookie).Body.String(), "/queue/enter/form")
	r.enter = func(c echo.Context) error {
		if c.Request().Header.Get("Cookie") != "" {
			return httpapi.Problemf(httpapi.CredentialInvalid, "old")
		}
		return httpapi.WriteRawJSON(c, 202, []byte(`{"status":"accepted"}`))
	}
	require.Equal(t, 303, r.post(form, "Cookie", cookie).Code)
}

// said is what somebody reads on a page without scripts, from the title down: its paragraphs that are not hidden.
func said(w *httptest.ResponseRecorder) []string {
	var all []string
	for _, m := range regexp.MustCompile(`<(?:h1|p)( [^>]*)?>([^<]+)</(?:h1|p)>`).FindAllStringSubmatch(w.Body.String(), -1) {
		if !strings.HasSuffix(m[1], "hidden") {
			all = append(all, html.UnescapeString(m[2]))
		}
	}
	return all
}

// What is told of how a queue stands is said without scripts, too.
func TestWithoutScriptsInEveryState(t *testing.T) {
	r := open(t, nil)
	read := func(lang, told string) []string {
		r.position = func(c echo.Context) error { return httpapi.WriteRawJSON(c, 200, []byte(told)) }
		return said(r.get("/queue/wait?queue=main&plain=1&lang="+lang, "Cookie", cookie))
	}
	const renewsItself = "This page renews itself. Reloading it loses nothing."
	require.Equal(t, []string{"You are in line", "about 10 to 13 minutes", "about 1,200 ahead", "now serving 5 · your ticket 1,300",
		"When it is your turn, this page says so and has a button to go in. Leave it open.", "The number may be a little high at the moment. Your place is safe.", renewsItself},
		read("en", `{"state":"waiting","position":1201,"ahead":1200,"ticket":1300,"nowServing":5,"etaSeconds":700,"precision":"approximate","retryAfterMs":1000}`))
	require.Equal(t, []string{"Not open yet", "Bring a ticket", "6th", "5 ahead · 0 behind", "6 in line", "opens in 1d 2:03:04", "your ticket 6",
		"You are in line already. It opens on 2030-1-2 01:00 UTC.", renewsItself},
		read("en", `{"state":"waiting","position":6,"ahead":5,"behind":0,"total":6,"ticket":6,"nowServing":0,"opensAt":"2030-01-02T01:00:00Z","opensInSeconds":93784,"message":"Bring a ticket","precision":"exact","retryAfterMs":1000}`))
	require.Equal(t, []string{"추첨에 참여하셨습니다", "시작까지 2일 0:00:01", "내 번호표 6번", "2030년 1월 2일 01:00(UTC)에 열립니다. 그때까지 들어온 모든 분의 순서를 추첨으로 정하므로, 먼저 왔다고 유리하지 않습니다.",
		"이 페이지는 자동으로 갱신됩니다. 새로고침해도 순서는 그대로입니다.", "추첨은 미리 정해져 있습니다: c0ffee"},
		slices.DeleteFunc(read("ko", `{"state":"waiting","order":"draw","commitment":"c0ffee","ticket":6,"nowServing":0,"opensAt":"2030-01-02T01:00:00Z","opensInSeconds":172801,"retryAfterMs":1000}`),
			func(s string) bool { return strings.HasPrefix(s, "전체") }))
	require.Equal(t, []string{"The line is paused", "your ticket 6", "Nobody is let in at the moment. You keep your place, and this page goes on by itself.", renewsItself},
		read("en", `{"state":"waiting","paused":true,"ticket":6,"retryAfterMs":1000}`))
	for seconds, want := range map[int]string{59: "less than a minute", 60: "about 1 to 2 minutes", 600: "about 9 to 11 minutes", 1200: "about 18 to 22 minutes", 1201: "about 18 to 23 minutes",
		5999: "about 89 to 110 minutes", 6000: "about 1 to 2 hours", 36000: "about 9 to 11 hours"} {
		require.Contains(t, read("en", fmt.Sprintf(`{"state":"waiting","position":6,"ahead":5,"etaSeconds":%d}`, seconds)), want)
	}

	// Whose identity the site signs, and who has no scripts to bring it.
	r.enter = func(echo.Context) error {
		return httpapi.Problemf(httpapi.CredentialMissing, "a token that the site signed is wanted")
	}
	w := r.post(url.Values{"queue": {"main"}, "key": {"0123456789abcdef"}})
	require.Equal(t, 401, w.Code)
	require.Equal(t, "You can't enter the line from here", said(w)[0])
	require.Contains(t, strings.Join(said(w), " "), "switch it on, or use a newer browser, and come here from the site again")
}

func TestAClosedQueueIsSaid(t *testing.T) {
	r := open(t, nil)
	r.entry.Settings.Message = "A second date on Monday"
	r.entry.Closed, r.entry.Why = true, queue.WhySoldOut
	w := r.get("/queue/wait?queue=main&plain=1")
	require.Equal(t, []string{"Sold out", "A second date on Monday"}, said(w)[:2], "who comes late reads what the operators say")
	require.NotContains(t, w.Body.String(), "<form")
	r.enter = func(echo.Context) error {
		return httpapi.Problemf(httpapi.QueueClosed, "closed").With("reason", "closed").With("message", "A third one on Tuesday")
	}
	w = r.post(url.Values{"queue": {"main"}, "key": {"0123456789abcdef"}})
	require.Equal(t, 410, w.Code)
	require.Equal(t, []string{"The line is closed", "A third one on Tuesday"}, said(w)[:2])
}

func TestFault24_FormsOfOtherSitesAreRefused(t *testing.T) {
	r := open(t, nil)
	r.enter = func(echo.Context) error { t.Error("entered"); return nil }
	form := url.Values{"queue": {"main"}, "key": {"0123456789abcdef"}}
	require.Equal(t, 403, r.post(form, "Sec-Fetch-Site", "cross-site").Code)
	require.Equal(t, 403, r.post(form, "Origin", "https://evil.example").Code)
	require.Equal(t, 405, r.get("/queue/enter/form").Code, "and nothing changes by a GET")
}

func TestBadForms(t *testing.T) {
	r := open(t, nil)
	r.enter = func(echo.Context) error { t.Error("entered"); return nil }
	for _, form := range []url.Values{
		{},
		{"queue": {"MAIN"}},
		{"queue": {"main", "main"}},
		{"queue": {"main"}, "key": {"a", "b"}},
		{"queue": {"main"}, "lang": {"xx"}},
		{"queue": {"other"}},
		{"queue": {"main"}, "return": {"https://evil.example/"}},
		{"queue": {"main"}, "more": {strings.Repeat("x", 5000)}},
	} {
		w := r.post(form)
		require.GreaterOrEqual(t, w.Code, 400, form)
		require.Less(t, w.Code, 500, form)
	}
}

func TestInfo(t *testing.T) {
	r := open(t, nil)
	r.entry.Made = 12
	w := r.get("/queue/info?queue=main")
	require.Equal(t, 200, w.Code)
	require.JSONEq(t, `{"queue":"main","made":12,"state":"open","takesEntries":true,"reentry":"back","order":"arrival"}`, w.Body.String())
	opens := time.Now().Add(90 * time.Second).Truncate(time.Second).UTC()
	r.entry.Settings.OpensAtMs = opens.UnixMilli()
	r.entry.Settings.Order, r.entry.Settings.Message, r.entry.Commitment = queue.ByDraw, "Soon", "c0ffee"
	w = r.get("/queue/info?queue=main")
	var v map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v))
	require.InDelta(t, 90, v["opensInSeconds"], 2)
	delete(v, "opensInSeconds")
	require.Equal(t, map[string]any{
		"queue": "main", "made": 12.0, "state": "not_open", "takesEntries": true, "reentry": "back", "order": "draw", "opensAt": opens.Format(time.RFC3339), "commitment": "c0ffee", "message": "Soon",
	}, v)
	require.Equal(t, 404, r.get("/queue/info?queue=other").Code)
	require.Equal(t, 400, r.get("/queue/info").Code)
	r.entry.Deleting = true
	require.Equal(t, 404, r.get("/queue/info?queue=main").Code)
}

func TestPreview(t *testing.T) {
	r := open(t, nil)
	list := r.get("/queue/preview").Body.String()
	links := regexp.MustCompile(`href="(\?state=[^"]*)"`).FindAllStringSubmatch(list, -1)
	require.Greater(t, len(links), 50)
	seen := map[string]bool{}
	for _, m := range links {
		w := r.get("/queue/preview" + html.UnescapeString(m[1]))
		require.Equal(t, 200, w.Code, m[1])
		require.Contains(t, w.Body.String(), `id="soonbeon"`)
		require.NotRegexp(t, `<[^>]* hidden[^>]* hidden`, w.Body.String())
		require.False(t, seen[m[1]], "twice: "+m[1])
		seen[m[1]] = true
		if strings.Contains(m[1], "state=plain_") {
			text := strings.Join(said(w), "\n")
			require.NotEmpty(t, text)
			require.NotContains(t, text, "{")
			for line := range strings.SplitSeq(text, "\n") {
				if strings.Contains(m[1], "lang=ko") && !regexp.MustCompile(`^(A second date|The site is)`).MatchString(line) { // what operators say is in their words
					require.Regexp(t, `[가-힣]`, line, m[1])
				}
			}
		}
	}
	for _, bad := range []string{"?state=none", "?state=waiting&lang=xx", "?lang=xx"} {
		require.Equal(t, 400, r.get("/queue/preview"+bad).Code)
	}
}

// folder is a look of operators, with some of it changed; "" takes a file away.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"template.html": "<!doctype html>\n<html lang=\"{{.Lang}}\">\n<head>{{template \"head\" .}}</head>\n<body><img src=\"{{.File \"logo.svg\"}}\" alt=\"Shop\">\n{{template \"line\" .}}</body></html>\n",
		"style.css":     "/* ours { */\n:root {\n  --sb-accent: #a00;\n}\n",
		"logo.svg":      "<svg xmlns=\"http://www.w3.org/2000/svg\"/>",
	} {
		if _, changed := files[name]; !changed {
			files[name] = text
		}
	}
	for name, text := range files {
		if text == "" {
			continue
		}
		at := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		require.NoError(t, os.WriteFile(at, []byte(text), 0o600))
	}
	return dir
}

func TestTheOperatorsLook(t *testing.T) {
	dir := folder(t, map[string]string{})
	r := open(t, func(c *page.Config) { c.Dir = dir })
	body := r.get("/queue/wait?queue=main").Body.String()
	logo := regexp.MustCompile(`<img src="(/queue/page/\w+/logo.svg)"`).FindStringSubmatch(body)
	require.NotNil(t, logo, body)
	require.Equal(t, "image/svg+xml", r.get(logo[1]).Header().Get("Content-Type"))
	require.Regexp(t, `(?s)page.css.*style.css`, body, "theirs comes after ours")
	require.Contains(t, r.get(regexp.MustCompile(`/queue/page/\w+/style.css`).FindString(body)).Body.String(), "#a00")
}

func TestALanguageIsOneFile(t *testing.T) {
	en, err := os.ReadFile("lang/en.json")
	require.NoError(t, err)
	fr := strings.Replace(string(en), "You are in line\"", "Vous êtes dans la file\"", 1)
	fr = regexp.MustCompile(`  "ordinal\.(two|few)": "[^"]*",\n`).ReplaceAllString(fr, "")
	dir := folder(t, map[string]string{"lang/fr.json": fr})
	r := open(t, func(c *page.Config) { c.Dir = dir })
	require.Contains(t, r.get("/queue/wait?queue=main", "Accept-Language", "fr-CA").Body.String(), "Vous êtes dans la file")
}

// A folder that is broken is told with file and line, and every mistake at once, before anything starts.
func TestABrokenLookIsRefused(t *testing.T) {
	en, err := os.ReadFile("lang/en.json")
	require.NoError(t, err)
	lineOf := func(part string) int { return 1 + strings.Count(string(en)[:strings.Index(string(en), part)], "\n") }
	head, line := "{{template \"head\" .}}", "{{template \"line\" .}}"
	for _, c := range []struct {
		name, file, text string
		want             []string
	}{
		{"no template", "template.html", "", []string{"template.html is missing"}},
		{"no style", "style.css", "", []string{"style.css is missing"}},
		{"does not parse", "template.html", head + "\n" + line + "\n{{if}}", []string{"template.html:3:"}},
		{"no such field", "template.html", head + "\n\n" + line + "{{.Nothing}}", []string{"template.html:3:", "Nothing"}},
		{"no such file", "template.html", head + line + "\n{{.File \"none.png\"}}", []string{"template.html:2:", "none.png"}},
		{"no line", "template.html", head, []string{"template.html:1:", `{{template "line" .}}`}},
		{"twice", "template.html", head + line + line, []string{"template.html:1:", "2 times"}},
		{"a script, and a style", "template.html", head + line + "\n<script>x</script>\n<p style=\"x\">", []string{"template.html:2: scripts", "template.html:3: styles"}},
		{"a handler", "template.html", head + line + "\n<p onclick=\"x\">", []string{"template.html:2: handlers"}},
		{"from elsewhere", "template.html", head + line + "\n\n<img src=\"https://cdn.example/x.png\">", []string{"template.html:3: nothing is loaded from elsewhere"}},
		{"not closed", "style.css", "a {\n color: red;\n\nb {}\n", []string{"style.css:1: the { of this line is not closed"}},
		{"closed twice", "style.css", "a {}\n}\n", []string{"style.css:2: this } closes nothing"}},
		{"a comment", "style.css", "a {}\n/* b {}\n", []string{"style.css:2: the comment"}},
		{"a string", "style.css", "a { content: \"x\n; }\n", []string{"style.css:1: the string"}},
		{"imports", "style.css", "\n@import 'x.css';\na { background: url(//cdn.example/x.png) }\n", []string{"style.css:2: @import", "style.css:3: nothing is loaded"}},
		{"too large", "logo.svg", strings.Repeat("x", 600<<10), []string{"logo.svg: it has 614400 bytes"}},
		{"a name of ours", "page.css", "a{}", []string{"page.css: a file of this name is built in"}},
		{"words that don't parse", "lang/fr.json", "{\n\"name\": \"x\",\n oops}", []string{"lang/fr.json:3:"}},
		{"words that are missing", "lang/fr.json", strings.Replace(string(en), `"leave.no"`, `"leave.nope"`, 1), []string{
			fmt.Sprintf(`lang/fr.json:%d: "leave.no" is missing`, lineOf("}\n")), fmt.Sprintf(`lang/fr.json:%d: "leave.nope" is no text`, lineOf(`"leave.no"`))}},
		{"a word that is empty", "lang/fr.json", strings.Replace(string(en), `"Leave the line"`, `""`, 1), []string{fmt.Sprintf(`lang/fr.json:%d: "leave" is missing`, lineOf(`"leave":`))}},
		{"other values", "lang/fr.json", strings.Replace(string(en), "{low} to {high} minutes", "{low} minutes", 1), []string{fmt.Sprintf(`lang/fr.json:%d: "wait.minutes" has the values [low]`, lineOf(`"wait.minutes"`))}},
		{"a word twice", "lang/fr.json", strings.Replace(string(en), `"leave":`, `"page":`, 1), []string{fmt.Sprintf(`lang/fr.json:%d:`, lineOf(`"leave":`)), "duplicate"}},
		{"no text", "lang/fr.json", strings.Replace(string(en), `"Leave the line"`, `5`, 1), []string{fmt.Sprintf(`lang/fr.json:%d: what "leave" is has to be a text`, lineOf(`"leave":`))}},
		{"no object", "lang/fr.json", "\n\n[]", []string{"lang/fr.json:3: it is one object"}},
		{"our own words, half of them", "lang/en.json", "{\n\"name\": \"English\",\n\"more\": \"\"\n}\n", []string{`lang/en.json:4: "leave" is missing`, `lang/en.json:3: "more" is no text`}},
		{"a quote", "template.html", head + "\n" + line + "\n<p class=\"x>\n<b>y</b>\n", []string{"template.html:3: what begins here does not end"}},
		{"a quote that another one ends", "template.html", head + "\n" + line + "\n\n<p class=\"x>\n<a href=\"/y\">\n<i title='z'>\n{{.Lang}}", []string{"template.html:4: "}},
		{"a quote around a part", "template.html", head + "\n<p title=\"\n" + line + "\n", []string{"template.html:2: "}},
		{"a comment", "template.html", head + "\n" + line + "\n{{if .Lang}}\n{{end}}\n<!-- x\n", []string{"template.html:5: what begins here does not end"}},
		{"a comment within a condition", "template.html", head + "\n" + line + "\n{{if .Lang}}\n<!-- {{end}}\n", []string{"template.html:3:"}},
		{"a tag", "template.html", head + "\n" + line + "\n<p\nclass=x\n", []string{"template.html:3: what begins here does not end"}},
		{"a title", "template.html", head + "\n<title>\n" + line, []string{"template.html:2: "}},
		{"a comment of an action", "template.html", head + line + "\n{{/* x\n", []string{"template.html:2: unclosed comment"}},
		{"no language", "lang/no-such-tag-at-all.json", string(en), []string{"lang/no-such-tag-at-all.json: the name is a language tag"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := folder(t, map[string]string{c.file: c.text})
			_, err := page.New(page.Config{Dir: dir, Find: func(queue.ID) (*queue.Entry, bool) { return nil, false }})
			require.ErrorContains(t, err, dir)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
	_, err = page.New(page.Config{Dir: filepath.Join(t.TempDir(), "none"), Find: func(queue.ID) (*queue.Entry, bool) { return nil, false }})
	require.ErrorContains(t, err, "can't be read")
	_, err = page.New(page.Config{ReturnOrigins: []string{"https://a.example/x", "ftp://b"}, Find: func(queue.ID) (*queue.Entry, bool) { return nil, false }})
	require.ErrorContains(t, err, "https://a.example/x")
	require.ErrorContains(t, err, "ftp://b")
}
