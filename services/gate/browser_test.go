package gate

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	sitegate "github.com/soonbeon/soonbeon/pkg/gate"
)

// The one script that the gate has, run by a real browser under the policy that the gate sends with it.
func TestABrowserHandsTheTokenOver(t *testing.T) {
	chromium := proxy(t, "chromium")
	var s *httptest.Server
	w := newWorld(t, func(c *Config) {
		s = httptest.NewUnstartedServer(nil)
		c.Site = "http://" + s.Listener.Addr().String()
	}, nil)
	var (
		mu   sync.Mutex
		seen []string // all that a proxy could write down
	)
	login := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { // another port is another origin
		_, _ = rw.Write([]byte("<!doctype html><title>login</title>this is the login for " + r.RequestURI))
	}))
	t.Cleanup(login.Close)
	site := w.service.gates["main"].Wrap(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/account" {
			http.Redirect(rw, r, login.URL+"/?back=account", http.StatusSeeOther)
			return
		}
		_, _ = rw.Write([]byte("<!doctype html><title>shop</title>this is the shop at " + r.RequestURI))
	}))
	s.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.RequestURI+" "+r.Referer())
		mu.Unlock()
		site.ServeHTTP(rw, r)
	})
	s.Start()
	t.Cleanup(s.Close)

	dump := func(fragment string) string {
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--lang=en",
			"--user-data-dir="+t.TempDir(), "--virtual-time-budget=5000", "--dump-dom", s.URL+sitegate.ArrivePath("main")+fragment)
		out, err := cmd.Output()
		require.NoError(t, err)
		return string(out)
	}
	to := "/%EA%B3%B5%EC%97%B0?a=1+2&b=%23"
	out := dump("#token=" + w.token(t, "main", time.Minute) + "&to=" + url.QueryEscape(to))
	require.Contains(t, out, "this is the shop at /%EA%B3%B5%EC%97%B0?a=1+2&amp;b=%23")
	mu.Lock()
	require.NotContains(t, strings.Join(seen, "\n"), "token")
	require.GreaterOrEqual(t, len(seen), 4, "the page, the post, the look for the session, the shop")
	mu.Unlock()

	require.Contains(t, dump("#token="+w.token(t, "main", time.Minute)+"&to=/account"), "this is the login for /?back=account", "a page that sends people to another origin")
	require.Contains(t, dump("#token=junk&to=/a"), "can't be used here")
	require.Contains(t, dump("#token="+w.token(t, "main", time.Minute)+"&to=//evil.example"), "There is nothing here")
	require.Contains(t, dump(""), `<div id="none"><h1>There is nothing here`, "nothing to hand over")
}
