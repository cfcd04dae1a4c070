package gate

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/pass"
)

// post arrives with a form.
func (f *fixture) post(accept string, form url.Values, cookies ...*http.Cookie) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", ArrivePath("main"), strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", accept)
	r.Header.Set("Origin", "https://wait.example") // from the waiting page, without scripts
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	for _, c := range cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	f.site.ServeHTTP(w, r)
	return w
}

func session(t *testing.T, w *httptest.ResponseRecorder) *http.Cookie {
	t.Helper()
	cookies := w.Result().Cookies()
	require.Len(t, cookies, 1)
	return cookies[0]
}

func TestTheWholeWayIn(t *testing.T) {
	f := setUp(t, func(cfg *Config) { cfg.Site = "https://shop.example" })
	const target = "/%EA%B3%B5%EC%97%B0/7?a=1+2&b=%23&c=%2B"

	// To the waiting room …
	w := f.do("GET", target, "Accept", browser)
	room, err := url.Parse(w.Header().Get("Location"))
	require.NoError(t, err)
	back, err := ReturnAddress(room.Query().Get("return"), []string{"https://shop.example"})
	require.NoError(t, err)
	require.Equal(t, "https://shop.example"+target, back)

	// … and back from there.
	action, to, err := Arrival("main", back)
	require.NoError(t, err)
	require.Equal(t, "https://shop.example"+ArrivePath("main"), action)
	w = f.post(browser, url.Values{"token": {f.good(t)}, "to": {to}})
	require.Equal(t, 303, w.Code)
	c := session(t, w)
	require.Equal(t, "__Host-soonbeon.gate-main", c.Name)
	require.True(t, c.Secure && c.HttpOnly && c.SameSite == http.SameSiteLaxMode && c.Path == "/" && c.Domain == "")
	require.Equal(t, 60, c.MaxAge, "as long as the grant")
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.NotContains(t, w.Header().Get("Location"), "token")
	w = f.do("GET", w.Header().Get("Location"), "Accept", browser, "Cookie", c.Name+"="+c.Value)
	require.Equal(t, 303, w.Code)
	require.Equal(t, target, w.Header().Get("Location"))
	f.letsIn(t, "by the session", "Cookie", c.Name+"="+c.Value)
	f.letsIn(t, "the session among others", "Cookie", "a=b; "+c.Name+"=junk; "+c.Name+`="`+c.Value+`"`)

	f.now = f.now.Add(time.Minute + pass.Leeway + time.Second)
	w = f.do("GET", target, "Accept", browser, "Cookie", c.Name+"="+c.Value)
	require.Equal(t, 303, w.Code, "it ends with the grant")
	require.Contains(t, w.Header().Get("Location"), "https://wait.example/")
	w = f.do("GET", target, "Cookie", c.Name+"="+c.Value)
	require.Contains(t, w.Body.String(), CodeExpired)
	w = f.do("POST", target, "Accept", browser, "Cookie", c.Name+"="+c.Value)
	require.Equal(t, 401, w.Code)
	require.Contains(t, w.Body.String(), "Go to the line", "a form that comes too late is answered to a person")
}

func TestTheLandingPageTakesTheTokenFromTheFragment(t *testing.T) {
	f := setUp(t, nil)
	w := f.do("GET", ArrivePath("main"), "Accept", browser, "Accept-Language", "ko-KR,ko;q=0.9,en;q=0.8")
	require.Equal(t, 200, w.Code)
	body, h := w.Body.String(), w.Header()
	require.Contains(t, body, `lang="ko"`)
	require.Contains(t, body, "입장하는 중입니다")
	require.Equal(t, "no-store", h.Get("Cache-Control"))
	require.Equal(t, "no-referrer", h.Get("Referrer-Policy"))
	policy := h.Get("Content-Security-Policy")
	for tag, directive := range map[string]string{"script": "script-src ", "style": "style-src "} {
		found := regexp.MustCompile("(?s)<" + tag + ">(.*)</" + tag + ">").FindStringSubmatch(body)
		require.Len(t, found, 2, body)
		require.Contains(t, policy, directive+hash(found[1]), "the policy allows just what is there")
	}
	require.Contains(t, policy, "default-src 'none'")
	require.Contains(t, policy, "base-uri 'none'; frame-ancestors 'none'")
	require.NotContains(t, policy, "form-action", "it would end the redirects of a site that sends people on to another origin")
	require.NotContains(t, body, "http-equiv")
	require.Regexp(t, `href="https://wait.example/room\?queue=main&amp;theme=dark"`, body)
	require.Less(t, w.Body.Len(), 3000)
	require.Contains(t, f.do("GET", ArrivePath("main"), "Accept", browser).Body.String(), `lang="en"`)
	for accept, want := range map[string]string{
		"ko": "ko", "ko-KR": "ko", "en-US,en;q=0.9,ko;q=0.8": "en", "fr,ko;q=0.5": "ko", "fr": "en", "ko;q=0": "en", "korean": "en", ";,=;q": "en",
	} {
		body := f.do("GET", ArrivePath("main"), "Accept", browser, "Accept-Language", accept).Body.String()
		require.Contains(t, body, `lang="`+want+`"`, accept)
	}
	require.Empty(t, f.do("HEAD", ArrivePath("main")).Body.String())
	for accept, says := range map[string]string{"": `"code":"` + CodeArrival + `"`, browser: "There is nothing here"} {
		f.refused = nil
		w = f.do("PUT", ArrivePath("main"), "Accept", accept)
		require.Equal(t, 405, w.Code)
		require.Equal(t, "GET, HEAD, POST", w.Header().Get("Allow"))
		require.Contains(t, w.Body.String(), says)
		require.ErrorIs(t, f.refused[0], ErrArrival)
	}
}

func TestWhoArrivesWithoutAGoodTokenIsToldWhy(t *testing.T) {
	f := setUp(t, func(cfg *Config) { cfg.Site = "https://shop.example" })
	receipt, err := f.keys.SignReceipt(pass.Receipt{Queue: "main", Visitor: "v", Ticket: 7})
	require.NoError(t, err)
	for _, c := range []struct {
		name  string
		form  url.Values
		code  int
		why   error
		says  string
		title string
	}{
		{"expired", url.Values{"token": {f.stale(t)}, "to": {"/a?b"}}, 401, pass.ErrExpired, CodeExpired, "Your time to go in is over"},
		{"not yet", url.Values{"token": {f.token(t, "main", time.Hour, 2*time.Hour)}}, 401, pass.ErrNotYet, CodeRequired, "Not quite yet"},
		{"receipt", url.Values{"token": {receipt}}, 401, pass.ErrInvalid, CodeRequired, "can&#39;t be used here"},
		{"junk", url.Values{"token": {"junk"}}, 401, pass.ErrInvalid, CodeRequired, "can&#39;t be used here"},
		{"another queue", url.Values{"token": {f.token(t, "other", 0, time.Hour)}}, 401, pass.ErrOtherQueue, CodeRequired, "can&#39;t be used here"},
		{"nothing", url.Values{}, 400, ErrArrival, CodeArrival, "There is nothing here"},
		{"empty", url.Values{"token": {""}}, 400, ErrArrival, CodeArrival, "There is nothing here"},
		{"twice", url.Values{"token": {f.good(t), f.good(t)}}, 400, ErrArrival, CodeArrival, "There is nothing here"},
		{"two ways", url.Values{"token": {f.good(t)}, "to": {"/", "/"}}, 400, ErrArrival, CodeArrival, "There is nothing here"},
		{"elsewhere", url.Values{"token": {f.good(t)}, "to": {"//evil.example"}}, 400, ErrArrival, CodeArrival, "There is nothing here"},
		{"elsewhere, whole", url.Values{"token": {f.good(t)}, "to": {"https://evil.example/"}}, 400, ErrArrival, CodeArrival, "There is nothing here"},
		{"split header", url.Values{"token": {f.good(t)}, "to": {"/\r\nSet-Cookie: a=b"}}, 400, ErrArrival, CodeArrival, "There is nothing here"},
		{"endless", url.Values{"token": {strings.Repeat("x", maxArrival)}}, 400, ErrArrival, CodeArrival, "There is nothing here"},
	} {
		f.refused = nil
		w := f.post("application/json", c.form)
		assert.Equal(t, c.code, w.Code, c.name)
		assert.Contains(t, w.Body.String(), `"code":"`+c.says+`"`, c.name)
		assert.ErrorIs(t, f.refused[0], c.why, c.name)
		assert.Empty(t, w.Result().Cookies(), c.name)

		w = f.post(browser, c.form)
		assert.Equal(t, c.code, w.Code, "%s: never a redirect, which could be a circle", c.name)
		assert.Contains(t, w.Body.String(), c.title, c.name)
		assert.Contains(t, w.Body.String(), "https://wait.example/room?queue=main", c.name)
	}
	w := f.post(browser, url.Values{"token": {f.stale(t)}, "to": {"/a?b"}})
	require.Contains(t, w.Body.String(), "return=https%3A%2F%2Fshop.example%2Fa%3Fb", "the way back is kept")

	r := httptest.NewRequest("POST", ArrivePath("main"), strings.NewReader(`{"token":"x"}`))
	r.Header.Set("Content-Type", "application/json")
	w = httptest.NewRecorder()
	f.site.ServeHTTP(w, r)
	require.Equal(t, 400, w.Code)
}

func TestABrowserWithoutCookiesDoesNotGoInCircles(t *testing.T) {
	f := setUp(t, nil)
	w := f.post(browser, url.Values{"token": {f.good(t)}, "to": {"/a"}})
	w = f.do("GET", w.Header().Get("Location"), "Accept", browser, "Accept-Language", "ko")
	require.Equal(t, 401, w.Code)
	require.Contains(t, w.Body.String(), "쿠키를 허용해 주세요")
	require.ErrorIs(t, f.refused[0], ErrNoCookie)
	require.Equal(t, 400, f.do("GET", ArrivePath("main")+"?to=//evil.example").Code)
}

// A post from another site can give a session and not take one away.
func TestALongerSessionStays(t *testing.T) {
	f := setUp(t, nil)
	long := session(t, f.post(browser, url.Values{"token": {f.token(t, "main", 0, time.Hour)}}))
	w := f.post(browser, url.Values{"token": {f.good(t)}}, long)
	require.Equal(t, 303, w.Code)
	require.Empty(t, w.Result().Cookies())
	short := session(t, f.post(browser, url.Values{"token": {f.good(t)}}))
	require.Len(t, f.post(browser, url.Values{"token": {f.token(t, "main", 0, time.Hour)}}, short).Result().Cookies(), 1)
}

func TestOnlyASiteThatSaysItIsOnPlainHTTPGetsAPlainCookie(t *testing.T) {
	f := setUp(t, func(cfg *Config) { cfg.Site = "http://localhost:3000" })
	c := session(t, f.post(browser, url.Values{"token": {f.good(t)}}))
	require.Equal(t, "soonbeon.gate-main", c.Name)
	require.False(t, c.Secure)
	f.letsIn(t, "by it", "Cookie", c.Name+"="+c.Value)
}

func TestAnEntryTokenIsNoSession(t *testing.T) {
	f := setUp(t, nil)
	require.Equal(t, 401, f.do("GET", "/", "Cookie", SessionCookieName("main")+"="+f.good(t)).Code)
	c := session(t, f.post(browser, url.Values{"token": {f.good(t)}}))
	require.Equal(t, 401, f.do("GET", "/", "Cookie", CookieName("main")+"="+c.Value).Code)
	require.Equal(t, 401, f.do("GET", "/", "Authorization", "Bearer "+c.Value).Code)
}

func TestPartOfASite(t *testing.T) {
	f := setUp(t, func(cfg *Config) { cfg.Protect, cfg.Exempt = []string{"/checkout"}, []string{"/checkout/help"} })
	require.Equal(t, "false   0", f.do("GET", "/").Body.String(), "past the gate, with no entry")
	require.Equal(t, 200, f.do("GET", "/checkout/help").Code)
	for _, target := range []string{"/checkout", "//checkout", "/x/../checkout", "/%63heckout", "/x%2f..%2fcheckout", "http://shop.example/checkout"} {
		require.Equal(t, 401, f.do("GET", target).Code, target)
	}
	require.Equal(t, 200, f.do("GET", "/Checkout").Code)
	folding := setUp(t, func(cfg *Config) {
		cfg.Protect, cfg.Exempt, cfg.FoldCase = []string{"/Checkout"}, []string{"/checkout/Help"}, true
	})
	require.Equal(t, 401, folding.do("GET", "/cHECKOUT/7").Code)
	require.Equal(t, 200, folding.do("GET", "/CHECKOUT/HELP").Code)
	require.Equal(t, 200, folding.do("GET", "/").Code)

	// Go's client can't send these: the server has them in RequestURI alone.
	for _, target := range []string{"/checkout#x", "/checkout#x?y", "/a#/../checkout", "/checkout?a#b"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RequestURI = target
		var err error
		r.URL, err = url.ParseRequestURI(target)
		require.NoError(t, err)
		w := httptest.NewRecorder()
		f.site.ServeHTTP(w, r)
		require.Equal(t, 401, w.Code, target)
	}

	g, err := New(f.cfg)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle(ArrivePath("main"), g.Arrive())
	f.site = mux
	require.Equal(t, 303, f.post(browser, url.Values{"token": {f.good(t)}}).Code)
}

// onceFunc is a Once that tests can break.
type onceFunc func(ctx context.Context, id string, until time.Time) (bool, error)

func (o onceFunc) Use(ctx context.Context, id string, until time.Time) (bool, error) {
	return o(ctx, id, until)
}

// usedIDs is a Once that remembers, and fails with err where that is set.
type usedIDs struct {
	ids   map[string]time.Time
	err   error
	asked int
}

func (u *usedIDs) Use(ctx context.Context, id string, until time.Time) (bool, error) {
	u.asked++
	if u.err != nil {
		return false, u.err
	}
	_, used := u.ids[id]
	u.ids[id] = until
	return !used, ctx.Err()
}

func TestATokenOpensOnce(t *testing.T) {
	store := &usedIDs{ids: map[string]time.Time{}}
	f := setUp(t, func(cfg *Config) { cfg.Once = store })
	good := f.good(t)
	w := f.post(browser, url.Values{"token": {good}, "to": {"/a"}})
	require.Equal(t, 303, w.Code)
	c := session(t, w)
	require.Equal(t, map[string]time.Time{"main/7": f.now.Add(time.Minute + 2*pass.Leeway)}, store.ids,
		"as long as it opens by the gate's clock, and the store's may be ahead")

	w = f.post(browser, url.Values{"token": {good}, "to": {"/a"}}, c)
	require.Equal(t, 303, w.Code, "the same form again, in the same browser")
	w = f.post(browser, url.Values{"token": {good}, "to": {"/a"}})
	require.Equal(t, 401, w.Code)
	require.Contains(t, w.Body.String(), "used already")
	for _, headers := range [][]string{{"Authorization", "Bearer " + good}, {"Cookie", CookieName("main") + "=" + good}} {
		w = f.do("GET", "/", headers...)
		require.Equal(t, 401, w.Code)
		require.Contains(t, w.Body.String(), CodeUsed)
	}
	f.letsIn(t, "by the session, whatever token comes along", "Cookie", c.Name+"="+c.Value, "Authorization", "Bearer "+good)

	// Shown to the site itself it opens once too, and the session comes with the answer.
	clear(store.ids)
	w = f.do("GET", "/", "Authorization", "Bearer "+good)
	require.Equal(t, 200, w.Code)
	c = session(t, w)
	require.Equal(t, 401, f.do("GET", "/", "Authorization", "Bearer "+good).Code)
	f.letsIn(t, "by the session", "Cookie", c.Name+"="+c.Value)
	asked := store.asked
	require.Equal(t, 401, f.do("GET", "/", "Authorization", "Bearer "+f.stale(t)).Code)
	require.Equal(t, asked, store.asked, "what is not valid is not asked for")

	g, err := New(f.cfg)
	require.NoError(t, err)
	made, err := f.keys.SignEntry(pass.Entry{Queue: "main", Visitor: "v", Ticket: 7, Made: 12, ExpiresMs: f.now.Add(time.Minute).UnixMilli()})
	require.NoError(t, err)
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set(TokenHeader, made)
	_, err = g.Check(r)
	require.NoError(t, err)
	require.Contains(t, store.ids, "main/7/12", "the same ticket of a later queue of this name is another one")
}

func TestWhileItCannotTellTheGateIsClosed(t *testing.T) {
	store := &usedIDs{ids: map[string]time.Time{}, err: errors.New("away")}
	f := setUp(t, func(cfg *Config) { cfg.Once = store })
	good := f.good(t)
	for range 3 {
		f.now = f.now.Add(5 * time.Second)
		w := f.do("GET", "/", "Authorization", "Bearer "+good)
		require.Equal(t, 503, w.Code)
		require.Equal(t, "5", w.Header().Get("Retry-After"))
		require.Contains(t, w.Body.String(), CodeCantTell)
		w = f.do("GET", "/a?b", "Accept", browser, "Cookie", CookieName("main")+"="+good)
		require.Equal(t, 503, w.Code, "who was admitted is not sent into the line again")
		require.Contains(t, w.Body.String(), "Try again")
	}
	require.Equal(t, 3, store.asked, "once in half a second: nobody else waits")
	w := f.post(browser, url.Values{"token": {good}, "to": {`/a?"<b>`}})
	require.Equal(t, 503, w.Code)
	require.Contains(t, w.Body.String(), `name="token" value="`+good+`"`, "can be sent again by a button")
	require.Contains(t, w.Body.String(), `value="/a?%22%3Cb%3E"`)
	require.Equal(t, 401, f.do("GET", "/").Code, "who has no token waits, as ever")

	store.err = nil
	f.now = f.now.Add(time.Second)
	require.Equal(t, 200, f.do("GET", "/", "Authorization", "Bearer "+good).Code)
}

// A reader that hangs up is not held against the store.
func TestAVisitorWhoLeavesDoesNotFailTheStore(t *testing.T) {
	f := setUp(t, func(cfg *Config) {
		cfg.Once = onceFunc(func(ctx context.Context, _ string, _ time.Time) (bool, error) {
			_, bounded := ctx.Deadline()
			return bounded, ctx.Err()
		})
	})
	g, err := New(f.cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
	r.Header.Set(TokenHeader, f.good(t))
	_, err = g.Check(r)
	require.NoError(t, err)
}

// openings is a gate with a fail mode whose clock, timers and store are the test's.
type openings struct {
	u     *use
	now   time.Time
	err   error
	told  []bool
	asked int
	due   time.Time // when next runs
	next  func()
}

func newOpenings(mode FailOpen) *openings {
	o := &openings{now: time.UnixMilli(1764471234_000)}
	store := onceFunc(func(context.Context, string, time.Time) (bool, error) { o.asked++; return true, o.err })
	o.u = newUse(store, "main/0", mode, func() time.Time { return o.now }, func(open bool, _ error) { o.told = append(o.told, open) })
	o.u.later = func(d time.Duration, f func()) {
		if o.next != nil {
			panic("two at a time")
		}
		o.due, o.next = o.now.Add(d), f
	}
	return o
}

// nobodyFor lets d pass in which nobody comes.
func (o *openings) nobodyFor(d time.Duration) {
	for end := o.now.Add(d); o.now.Before(end); o.now = o.now.Add(100 * time.Millisecond) {
		if f := o.next; f != nil && !o.now.Before(o.due) {
			o.next = nil
			f()
		}
	}
}

// visit says whether somebody who comes is let in unchecked.
func (o *openings) visit(ctx context.Context) bool {
	checked, err := o.u.first(ctx, "x", o.now)
	return err == nil && !checked
}

// after lets d pass with a question each second and counts who was let in unchecked.
func (o *openings) after(ctx context.Context, d time.Duration) (unchecked int) {
	for end := o.now.Add(d); o.now.Before(end); o.nobodyFor(time.Second) {
		if o.visit(ctx) {
			unchecked++
		}
	}
	return unchecked
}

func TestTheGateOpensForALimitedTime(t *testing.T) {
	o := newOpenings(FailOpen{For: time.Minute, After: 10 * time.Second})
	require.Zero(t, o.after(t.Context(), 5*time.Second))
	o.err = errors.New("away")
	require.Zero(t, o.after(t.Context(), 10*time.Second), "not at once")
	require.Equal(t, 60, o.after(t.Context(), 5*time.Minute), "for a minute, and no longer")
	require.Equal(t, []bool{true, false}, o.told)
	require.False(t, o.u.isOpen())

	o.err = nil
	o.after(t.Context(), 30*time.Second)
	o.err = errors.New("away")
	require.Zero(t, o.after(t.Context(), time.Minute), "that was not the end of the outage")
	o.err = nil
	o.after(t.Context(), time.Minute+time.Second)
	o.err = errors.New("away")
	require.Equal(t, 50, o.after(t.Context(), time.Minute), "this is another one")
	require.True(t, o.u.isOpen())
	o.err = nil
	require.Zero(t, o.after(t.Context(), time.Second), "an answer closes it")
	require.False(t, o.u.isOpen())
	require.Equal(t, []bool{true, false, true, false}, o.told)
}

func TestAFlappingStoreDoesNotOpenTheGate(t *testing.T) {
	o := newOpenings(FailOpen{For: time.Hour, After: 5 * time.Second})
	for i := range 600 {
		o.err = nil
		if i%5 != 0 {
			o.err = errors.New("away")
		}
		require.Zero(t, o.after(t.Context(), time.Second))
	}
	require.Empty(t, o.told)
}

// On a quiet site nobody may come for hours. What the gate knows of an outage it has from asking, and not from nobody having come.
func TestAQuietSiteDoesNotOpenTheGate(t *testing.T) {
	away := errors.New("away")
	o := newOpenings(FailOpen{For: time.Hour, After: 5 * time.Second})
	for range 5 { // time-outs of one question each, hours apart
		o.err = away
		require.False(t, o.visit(t.Context()))
		o.err = nil
		o.nobodyFor(2 * time.Hour)
	}
	require.Empty(t, o.told)
	require.Equal(t, 10, o.asked, "once more after each, and then it is well")

	// The same in a process that was stopped meanwhile, or whose machine was.
	o.next = nil
	o.u.waiting = true
	o.err = away
	for range 5 {
		require.False(t, o.visit(t.Context()))
		o.now = o.now.Add(time.Hour)
	}
	require.False(t, o.u.isOpen())

	// But where the store is away in earnest, the gate opens for the second who comes, and before that, so that it shows.
	o = newOpenings(FailOpen{For: time.Minute, After: 5 * time.Second})
	o.err = away
	require.False(t, o.visit(t.Context()))
	o.nobodyFor(4 * time.Second)
	require.Empty(t, o.told)
	o.nobodyFor(6 * time.Second)
	require.Equal(t, []bool{true}, o.told)
	require.True(t, o.visit(t.Context()))
	o.nobodyFor(time.Minute)
	require.Equal(t, []bool{true, false}, o.told)

	// One answer and a silent minute do not give the time back …
	o.err = nil
	require.False(t, o.visit(t.Context()))
	o.err = away
	o.nobodyFor(2 * time.Minute)
	require.False(t, o.visit(t.Context()))
	o.nobodyFor(10 * time.Second)
	require.False(t, o.visit(t.Context()))
	// … nor if nobody has asked at all.
	o.err = nil
	o.nobodyFor(time.Second)
	next := o.next
	o.next = nil
	o.now = o.now.Add(time.Hour)
	require.False(t, o.visit(t.Context()))
	o.err = away
	o.next = next
	o.nobodyFor(10 * time.Second)
	require.False(t, o.u.isOpen())
	// A minute of answers does, whether anybody comes or not.
	o.err = nil
	o.visit(t.Context())
	o.nobodyFor(62 * time.Second)
	require.Nil(t, o.next, "and then there is nothing more to ask")
	o.err = away
	require.Equal(t, 10, o.after(t.Context(), 15*time.Second))
}

func TestTheGateLeavesTheStoreAloneWhenNobodyComes(t *testing.T) {
	o := newOpenings(FailOpen{For: time.Minute, After: 5 * time.Second})
	o.err = errors.New("away")
	o.visit(t.Context())
	o.nobodyFor(onceQuiet + 5*time.Second)
	require.Nil(t, o.next)
	require.Equal(t, []bool{true, false}, o.told)
	o.visit(t.Context())
	require.NotNil(t, o.next)

	o = newOpenings(FailOpen{})
	o.err = errors.New("away")
	o.visit(t.Context())
	require.Nil(t, o.next, "nor where the gate stays closed")
}

func TestWhatIsSaidWhenTheGateOpens(t *testing.T) {
	store := &usedIDs{ids: map[string]time.Time{}, err: errors.New("away")}
	var told []error
	f := setUp(t, func(cfg *Config) {
		cfg.Once, cfg.FailOpen = store, FailOpen{For: time.Minute, After: time.Second}
		cfg.Opened = func(open bool, why error) { told = append(told, why) }
	})
	g, err := New(f.cfg)
	require.NoError(t, err)
	g.use.later = func(time.Duration, func()) {} // the clock is the test's, and timers are not
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set(TokenHeader, f.good(t))
	for range 3 {
		_, err = g.Admit(r)
		f.now = f.now.Add(time.Second)
	}
	require.NoError(t, err)
	require.True(t, g.Open())
	require.Equal(t, []error{store.err}, told)
	a, err := g.Admit(r)
	require.NoError(t, err)
	require.True(t, a.Unchecked)
	require.NotNil(t, a.Cookie)
	r.Header.Set(TokenHeader, "junk")
	_, err = g.Admit(r)
	require.ErrorIs(t, err, pass.ErrInvalid, "open is not open for everybody")
}

func FuzzArrive(f *testing.F) {
	fx := setUp(f, nil)
	good := fx.good(f)
	f.Add("token="+good+"&to=/a", "application/x-www-form-urlencoded")
	f.Add("token="+good+"&to=//evil.example", "application/x-www-form-urlencoded; charset=utf-8")
	f.Add("token=%&to=\\", "text/plain")
	f.Fuzz(func(t *testing.T, body, kind string) {
		r := httptest.NewRequest("POST", ArrivePath("main"), strings.NewReader(body))
		r.Header["Content-Type"] = []string{kind}
		w := httptest.NewRecorder()
		fx.refused = nil
		fx.site.ServeHTTP(w, r)
		require.Contains(t, []int{303, 400, 401}, w.Code)
		if w.Code == 303 {
			to := w.Header().Get("Location")
			w = fx.do("GET", to, "Cookie", w.Header().Get("Set-Cookie"))
			require.Equal(t, 303, w.Code)
			require.True(t, w.Header().Get("Location")[0] == '/' && !strings.HasPrefix(w.Header().Get("Location"), "//"))
		}
	})
}
