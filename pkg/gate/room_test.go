package gate

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/pass"
)

func (f *fixture) made(t *testing.T, made int64, to time.Duration) string {
	t.Helper()
	s, err := f.keys.SignEntry(pass.Entry{Queue: "main", Visitor: "v", Ticket: 7, ExpiresMs: f.now.Add(to).UnixMilli(), Made: made})
	require.NoError(t, err)
	return s
}

// A queue that was deleted and made again has its own visitors, and not those of the one before.
func TestTokensOfAnEarlierQueueOfTheNameDoNotOpen(t *testing.T) {
	known := int64(0)
	f := setUp(t, func(cfg *Config) { cfg.Made = func() int64 { return known } })
	old, present, later, unsaid := f.made(t, 11, time.Hour), f.made(t, 12, time.Minute), f.made(t, 13, time.Minute), f.good(t)
	f.letsIn(t, "while nothing is known", TokenHeader, old)
	c := session(t, f.post(browser, url.Values{"token": {old}}))
	cookie := c.Name + "=" + c.Value
	f.letsIn(t, "while nothing is known, by a session", "Cookie", cookie)

	known = 11
	f.letsIn(t, "of the present one", TokenHeader, old)
	known = 12
	for _, headers := range [][]string{{TokenHeader, old}, {"Cookie", cookie}, {"Cookie", cookie, TokenHeader, old}} {
		f.refused = nil
		w := f.do("GET", "/", headers...)
		require.Equal(t, 401, w.Code)
		require.Contains(t, w.Body.String(), `"code":"`+CodeRequired+`"`)
		require.Contains(t, w.Body.String(), "earlier queue")
		require.ErrorIs(t, f.refused[0], ErrEarlier)
		require.Equal(t, 303, f.do("GET", "/", append(headers, "Accept", browser)...).Code)
	}
	f.letsIn(t, "of the present one", TokenHeader, present)
	f.letsIn(t, "of one that is not known here yet", TokenHeader, later)
	f.letsIn(t, "of an older version, which does not say", TokenHeader, unsaid)
	f.letsIn(t, "a good one beside the session of the earlier", "Cookie", cookie, TokenHeader, present)

	w := f.post(browser, url.Values{"token": {old}})
	require.Equal(t, 401, w.Code)
	require.Contains(t, w.Body.String(), "earlier line")
	require.Contains(t, w.Body.String(), "https://wait.example/room?queue=main")
	// The session of the earlier one would last longer; it does not stand in the way.
	w = f.post(browser, url.Values{"token": {present}}, c)
	require.Equal(t, 303, w.Code)
	f.letsIn(t, "by the new session", "Cookie", session(t, w).Name+"="+session(t, w).Value)
	require.Equal(t, 401, f.do("GET", ArrivePath("main")+"?to=/", "Cookie", cookie).Code)
}

func TestARoomIsAsked(t *testing.T) {
	status, body := 200, ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/queue/info?queue=main", r.RequestURI)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	r, err := NewRoom(s.URL+"/some/page?x=y", "main", nil)
	require.NoError(t, err)
	require.Zero(t, r.Made())
	for _, c := range []struct {
		status int
		body   string
		want   int64
		fails  bool
	}{
		{200, `{"queue":"main","made":12,"state":"open"}`, 12, false},
		{200, `{"queue":"other","made":13}`, 12, true},
		{404, `{"code":"queue_unknown"}`, 12, false},
		{404, `<html>`, 12, true},
		{503, `{"queue":"main","made":13}`, 12, true},
		{200, `{"queue":"main","made":` + strings.Repeat("1", maxQuestion), 12, true},
		{200, `{"queue":"main","made":5}`, 5, false}, // a room that began anew
		{200, `{"queue":"main"}`, 0, false},          // of an older version
	} {
		status, body = c.status, c.body
		require.Equal(t, c.fails, r.Ask(t.Context()) != nil, c)
		require.Equal(t, c.want, r.Made(), c)
	}
	s.Close()
	require.Error(t, r.Ask(t.Context()))
	for _, address := range []string{"", "wait.example", "ftp://wait.example", "https://", "https://u:p@wait.example", "%zz"} {
		_, err := NewRoom(address, "main", nil)
		require.Error(t, err, address)
	}
}

type answers func(*http.Request) (*http.Response, error)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

func TestARoomIsAskedAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		r, err := NewRoom("https://wait.example", "main", &http.Client{Transport: answers(func(*http.Request) (*http.Response, error) {
			asked++
			return nil, errors.New("away")
		})})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		told := 0
		r.Run(ctx, func(err error) {
			require.ErrorContains(t, err, "away")
			told++
		})
		require.Equal(t, asked, told)
		require.InDelta(t, 12, asked, 2)
	})
}
