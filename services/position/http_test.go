package position

import (
	"encoding/base64"
	"fmt"
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
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// fixture is the service as it is served. Its visitor "v" stands at ticket 50, 25 behind the first.
type fixture struct {
	*stub
	e       *echo.Echo
	keys    *pass.Keys
	service *Service
	entry   *queue.Entry
	now     time.Time
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	keys, err := pass.ParseKeys("a:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	require.NoError(t, err)
	f := &fixture{keys: keys, entry: plain(), now: noon, stub: &stub{
		moment: moment(100, 20, 80), place: queue.Place{Ticket: 50, Ahead: 25}, state: queue.State{Seq: 100, Served: 20}}}
	q := &Queue{View: f.stub, Reading: f.stub}
	reg := prometheus.NewRegistry()
	f.e, err = httpapi.New(httpapi.Config{}, zap.NewNop(), reg)
	require.NoError(t, err)
	f.service, err = New(Config{Keys: keys, Find: func(id queue.ID) (*Queue, *queue.Entry, bool) {
		e := *f.entry
		e.ID = id
		if id == "young" {
			return nil, &e, true
		}
		return q, &e, id == "main" || id == "other"
	},
		Rand: func() float64 { return 0.5 }, Now: func() time.Time { return f.now }}, reg)
	require.NoError(t, err)
	f.service.Register(f.e)
	return f
}

func (f *fixture) receipt(t testing.TB, id queue.ID) string {
	t.Helper()
	s, err := f.keys.SignReceipt(pass.Receipt{Queue: id, Visitor: "v", Ticket: 50, Ahead: queue.NoAhead, IssuedMs: at(-time.Minute)})
	require.NoError(t, err)
	return s
}

// reply is any answer.
type reply struct {
	State, Queue, Token, ExpiresAt, Reason, Precision, Receipt string
	Position, Ahead, Ticket, NowServing, RetryAfterMs          int64
	Behind, Total, EtaSeconds                                  *int64
	Code, Detail                                               string
	http                                                       int
	header                                                     http.Header
}

type option func(*http.Request)

func header(name, value string) option { return func(r *http.Request) { r.Header.Add(name, value) } }
func bearer(token string) option       { return header("Authorization", "Bearer "+token) }
func cookie(value string) option       { return header("Cookie", "__Host-soonbeon-main="+value) }

func (f *fixture) get(t testing.TB, query string, options ...option) reply {
	t.Helper()
	r := httptest.NewRequest("GET", "/queue/position", nil)
	r.URL.RawQuery = query
	for _, o := range options {
		o(r)
	}
	return f.send(t, r)
}

func (f *fixture) send(t testing.TB, r *http.Request) reply {
	t.Helper()
	w := httptest.NewRecorder()
	f.e.ServeHTTP(w, r)
	var a reply
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &a, json.MatchCaseInsensitiveNames(true)), "body: %s", w.Body)
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	kind := "application/json"
	if w.Code >= 400 {
		kind = "application/problem+json"
	}
	require.Equal(t, kind, w.Header().Get("Content-Type"))
	a.http, a.header = w.Code, w.Header()
	return a
}

const inMain = "queue=main"

func TestWaitingExact(t *testing.T) {
	f := newFixture(t)
	a := f.get(t, inMain, bearer(f.receipt(t, "main")))
	require.Equal(t, 200, a.http)
	require.Equal(t, "waiting", a.State)
	require.Equal(t, "exact", a.Precision)
	require.Equal(t, []int64{26, 25, 50, 20, 1000}, []int64{a.Position, a.Ahead, a.Ticket, a.NowServing, a.RetryAfterMs})
	require.Equal(t, []int64{54, 80, 1}, []int64{*a.Behind, *a.Total, *a.EtaSeconds})
	require.Equal(t, "1", a.header.Get("Retry-After"))
	require.Empty(t, a.header.Values("Set-Cookie"), "who shows a header has no cookie of ours")
	r, err := f.keys.VerifyReceipt(a.Receipt, "main")
	require.NoError(t, err)
	require.Equal(t, pass.Receipt{Queue: "main", Visitor: "v", Ticket: 50, Ahead: 25, IssuedMs: at(0), Made: 3, Sure: true}, r, "the exact answer rides in the receipt")

	// With it, the number stays when the view is gone, though the log alone says less of who is ahead.
	f.err = errAway
	a = f.get(t, inMain, bearer(a.Receipt))
	require.Equal(t, "approximate", a.Precision)
	require.EqualValues(t, 26, a.Position)
	require.Nil(t, a.Total)
	require.Nil(t, a.Behind)
	a = f.get(t, inMain, bearer(f.receipt(t, "main")))
	require.EqualValues(t, 30, a.Position)
	r, err = f.keys.VerifyReceipt(a.Receipt, "main")
	require.NoError(t, err)
	require.EqualValues(t, 29, r.Ahead, "an approximate answer rides in it too")
	require.EqualValues(t, 1, testutil.ToFloat64(f.service.metrics.exact))
	require.EqualValues(t, 2, testutil.ToFloat64(f.service.metrics.approximate))
}

func TestPollsAfterTheTable(t *testing.T) {
	f := newFixture(t)
	for ahead, want := range map[int64][2]any{0: {1000, "1"}, 99: {1000, "1"}, 100: {2000, "2"}, 5000: {5000, "5"}, 99_999: {10_000, "10"}, 100_000: {30_000, "30"}} {
		f.moment, f.place = moment(1_000_000, 0, 500_000), queue.Place{Ticket: 900_000, Ahead: ahead}
		f.state = queue.State{}
		a := f.get(t, inMain, bearer(f.receipt(t, "main")))
		require.EqualValues(t, want[0], a.RetryAfterMs, "position %d", a.Position)
		require.Equal(t, want[1], a.header.Get("Retry-After"))
	}
}

func TestCookieIsRenewed(t *testing.T) {
	f := newFixture(t)
	a := f.get(t, inMain, cookie(f.receipt(t, "main")))
	require.Equal(t, 200, a.http)
	require.Equal(t, []string{"__Host-soonbeon-main=" + a.Receipt + "; Path=/; Secure; HttpOnly; SameSite=Lax"}, a.header.Values("Set-Cookie"))
	f.err = errAway
	a = f.get(t, inMain, cookie(f.receipt(t, "main")))
	require.Equal(t, "approximate", a.Precision)
	require.Len(t, a.header.Values("Set-Cookie"), 1)
}

func TestAdmitted(t *testing.T) {
	f := newFixture(t)
	f.grant, f.gs = queue.Grant{Ticket: 50, AdmittedMs: at(-time.Second), ExpiresMs: at(5 * time.Minute)}, line.Live
	a := f.get(t, inMain, bearer(f.receipt(t, "main")))
	require.Equal(t, 200, a.http)
	require.Equal(t, []string{"admitted", "main", "2025-11-30T12:05:00Z"}, []string{a.State, a.Queue, a.ExpiresAt})
	e, err := f.keys.VerifyEntry(a.Token, "main", noon)
	require.NoError(t, err)
	require.Equal(t, pass.Entry{Queue: "main", Visitor: "v", Ticket: 50, AdmittedMs: at(-time.Second), ExpiresMs: at(5 * time.Minute), Made: 3}, e)
	f.now = noon.Add(time.Minute)
	require.Equal(t, a.Token, f.get(t, inMain, bearer(f.receipt(t, "main"))).Token, "who asks twice holds one")
	require.EqualValues(t, 2, testutil.ToFloat64(f.service.metrics.admitted))
}

// The brokers' clock is ahead of the issuer's and of this node's. A little, and the token is the same whenever it is asked for;
// by an hour, or by more than the grant lasts, and the token holds all the same.
func TestAdmittedByAClockThatIsAhead(t *testing.T) {
	for _, tc := range []struct{ ahead, lasts, dated time.Duration }{
		{20 * time.Second, 5 * time.Minute, 20 * time.Second},
		{20 * time.Second, time.Second, time.Second - time.Millisecond},
		{time.Hour, 5 * time.Minute, pass.Leeway},
	} {
		f := newFixture(t)
		f.grant, f.gs = queue.Grant{Ticket: 50, AdmittedMs: at(tc.ahead), ExpiresMs: at(tc.lasts)}, line.Live
		a := f.get(t, inMain, bearer(f.receipt(t, "main")))
		require.Equal(t, 200, a.http)
		e, err := f.keys.VerifyEntry(a.Token, "main", noon)
		require.NoError(t, err)
		require.Equal(t, at(tc.dated), e.AdmittedMs)
		f.now = noon.Add(500 * time.Millisecond)
		again := f.get(t, inMain, bearer(f.receipt(t, "main")))
		if tc.ahead < pass.Leeway {
			require.Equal(t, a.Token, again.Token)
		}
	}
}

// The admission is written, and read, while the view is being asked: the token says when that was, as it does for who asks
// again. With the time of the request it would be another token the second time, and from before people with lower tickets.
func TestAdmittedWhileTheViewIsAsked(t *testing.T) {
	f := newFixture(t)
	f.place = queue.Place{}
	f.onCatch = func() {
		f.now = noon.Add(300 * time.Millisecond)
		f.grant, f.gs = queue.Grant{Ticket: 50, AdmittedMs: at(200 * time.Millisecond), ExpiresMs: at(5 * time.Minute)}, line.Live
	}
	a := f.get(t, inMain, bearer(f.receipt(t, "main")))
	require.Equal(t, "admitted", a.State)
	e, err := f.keys.VerifyEntry(a.Token, "main", f.now)
	require.NoError(t, err)
	require.Equal(t, at(200*time.Millisecond), e.AdmittedMs)
	require.Equal(t, a.Token, f.get(t, inMain, bearer(f.receipt(t, "main"))).Token)
}

func TestOverAndUntold(t *testing.T) {
	f := newFixture(t)
	f.place, f.onCatch = queue.Place{}, func() {}
	a := f.get(t, inMain, bearer(f.receipt(t, "main")))
	require.Equal(t, 200, a.http)
	require.Equal(t, []string{"over", "left"}, []string{a.State, a.Reason})
	require.EqualValues(t, 1, testutil.ToFloat64(f.service.metrics.over))

	f.onCatch = nil
	a = f.get(t, inMain, bearer(f.receipt(t, "main")))
	require.Equal(t, 503, a.http)
	require.Equal(t, "view_unavailable", a.Code)
	require.Equal(t, "5", a.header.Get("Retry-After"))
	require.EqualValues(t, 1, testutil.ToFloat64(f.service.metrics.answers.WithLabelValues("untold")))
}

func TestRefusals(t *testing.T) {
	f := newFixture(t)
	good := f.receipt(t, "main")
	entry, err := f.keys.SignEntry(pass.Entry{Queue: "main", Visitor: "v", Ticket: 50, AdmittedMs: at(0), ExpiresMs: at(time.Hour)})
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		query   string
		options []option
		http    int
		code    string
	}{
		"no query":                        {"", []option{bearer(good)}, 400, "query_invalid"},
		"no queue":                        {"q=main", []option{bearer(good)}, 400, "query_invalid"},
		"empty queue":                     {"queue=", []option{bearer(good)}, 400, "query_invalid"},
		"not an id":                       {"queue=../main", []option{bearer(good)}, 400, "query_invalid"},
		"too long":                        {"queue=" + strings.Repeat("a", 65), []option{bearer(good)}, 400, "query_invalid"},
		"broken escape":                   {"queue=%zz", []option{bearer(good)}, 400, "query_invalid"},
		"NUL":                             {"queue=main%00", []option{bearer(good)}, 400, "query_invalid"},
		"unknown queue":                   {"queue=nobody", []option{bearer(good)}, 404, "queue_unknown"},
		"unknown queue, no receipt":       {"queue=nobody", nil, 404, "queue_unknown"},
		"no receipt":                      {inMain, nil, 401, "credential_missing"},
		"not a token":                     {inMain, []option{bearer("v")}, 401, "credential_invalid"},
		"no token":                        {inMain, []option{header("Authorization", "Bearer ")}, 401, "credential_invalid"},
		"another scheme":                  {inMain, []option{header("Authorization", "Basic dXNlcjpwYXNz")}, 401, "credential_invalid"},
		"given twice":                     {inMain, []option{bearer(good), bearer(good)}, 401, "credential_invalid"},
		"forged":                          {inMain, []option{bearer(good[:len(good)-2] + "AA")}, 401, "credential_invalid"},
		"of another queue":                {inMain, []option{bearer(f.receipt(t, "other"))}, 401, "credential_invalid"},
		"an entry token":                  {inMain, []option{bearer(entry)}, 401, "credential_invalid"},
		"cookie of another queue":         {"queue=other", []option{cookie(good)}, 401, "credential_missing"},
		"a bad cookie":                    {inMain, []option{cookie("x")}, 401, "credential_invalid"},
		"a header counts before a cookie": {inMain, []option{bearer("x"), cookie(good)}, 401, "credential_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			a := f.get(t, tc.query, tc.options...)
			require.Equal(t, tc.http, a.http, a.Code)
			require.Equal(t, tc.code, a.Code)
			require.NotContains(t, a.Detail, good)
			require.Empty(t, a.header.Values("Set-Cookie"))
			if tc.http == 401 {
				require.NotEmpty(t, a.header.Get("WWW-Authenticate"))
			}
		})
	}
}

func TestFault20_AnIDIsNoCredential(t *testing.T) {
	f := newFixture(t)
	for _, field := range []string{"visitor", "visitorId", "id", "sub", "ticket", "receipt", "token"} {
		require.Equal(t, 401, f.get(t, inMain+"&"+field+"=v").http, field)
		require.Equal(t, 401, f.get(t, inMain, header(field, "v"), header("X-"+field, "v")).http, field)
	}
	require.Equal(t, 401, f.get(t, inMain+"&receipt="+f.receipt(t, "main")).http, "addresses end up in logs")
	a := f.get(t, inMain+"&visitor=somebody", bearer(f.receipt(t, "main")))
	require.EqualValues(t, 26, a.Position, "who shows a receipt is who it names")
}

func TestFault21_CookiesAndQueries(t *testing.T) {
	f := newFixture(t)
	good := f.receipt(t, "main")
	var thirty []string
	for i := range 30 {
		thirty = append(thirty, fmt.Sprintf("c%d=%s", i, strings.Repeat("x", 500)))
	}
	ours := "__Host-soonbeon-main="
	for name, c := range map[string]string{
		"last of thirty":      strings.Join(append(thirty, ours+good), "; "),
		"first of thirty":     ours + good + "; " + strings.Join(thirty, "; "),
		"doubled, old first":  ours + "old; " + ours + good,
		"doubled, old last":   ours + good + "; " + ours + "old",
		"quoted":              ours + `"` + good + `"`,
		"empty one before it": ours + "; " + ours + good,
		"odd ones around it":  `;;=; a; "b"="; ` + ours + good + `; é=1`,
	} {
		a := f.get(t, inMain, header("Cookie", c))
		require.Equal(t, 200, a.http, "%s: %s", name, a.Code)
		require.EqualValues(t, 26, a.Position, name)
	}
	two := f.get(t, inMain, header("Cookie", strings.Join(thirty, "; ")), header("Cookie", ours+good))
	require.Equal(t, 200, two.http, "in two headers")
	for _, query := range []string{"queue=main&queue=main", "queue=main&queue=other", "queue[]=main", "queue[0]=main", "queue=main&queue[]=x", "queue=main,other", "queue=main;x=1"} {
		a := f.get(t, query, bearer(good))
		require.Equal(t, 400, a.http, query)
		require.Equal(t, "query_invalid", a.Code, query)
	}
	for _, query := range []string{"queue=main&x=1", "x=1&queue=main", "queue=m%61in", "utm[]=a&queue=main"} {
		require.Equal(t, 200, f.get(t, query, bearer(good)).http, query)
	}
}

func TestFault23_ForwardedForIsIgnored(t *testing.T) {
	f := newFixture(t)
	plain := f.get(t, inMain, bearer(f.receipt(t, "main")))
	for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Original-Url", "X-Http-Method-Override"} {
		a := f.get(t, inMain, bearer(f.receipt(t, "main")), header(name, "10.0.0.1"), header(name, "\x7f,,;"))
		require.Equal(t, plain, a, name)
	}
}

func TestFault24_OnlyGetAndNothingChanges(t *testing.T) {
	f := newFixture(t)
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "TRACE"} {
		r := httptest.NewRequest(method, "/queue/position?"+inMain, nil)
		bearer(f.receipt(t, "main"))(r)
		a := f.send(t, r)
		require.Equal(t, 405, a.http, method)
		require.Equal(t, "method_not_allowed", a.Code)
		require.Contains(t, a.header.Get("Allow"), "GET")
	}
	r := httptest.NewRequest("POST", "/queue/position?"+inMain, nil)
	header("Sec-Fetch-Site", "cross-site")(r)
	require.Equal(t, 403, f.send(t, r).http)
}

func TestNewWantsWhatItNeeds(t *testing.T) {
	_, err := New(Config{}, nil)
	require.Error(t, err)
}

// Whatever the query and the credentials: an answer for whom the receipt names, or a 4xx; always JSON, never stored.
func FuzzPositionQuery(f *testing.F) {
	x := newFixture(f)
	good := x.receipt(f, "main")
	for _, query := range []string{inMain, "", "queue=main&queue=main", "queue[]=main", "queue=%zz", "queue=nobody", "queue=%00", "a;b=c&queue=main"} {
		f.Add(query, "Bearer "+good, "")
		f.Add(query, "", "__Host-soonbeon-main="+good)
	}
	f.Add(inMain, "Bearer x.y.z", "a=b; __Host-soonbeon-main=\"")
	f.Fuzz(func(t *testing.T, query, authorization, cookies string) {
		var options []option
		if authorization != "" {
			options = append(options, header("Authorization", authorization))
		}
		if cookies != "" {
			options = append(options, header("Cookie", cookies))
		}
		a := x.get(t, query, options...)
		switch a.http {
		case 200:
			if a.State != "waiting" || a.Position != 26 || !strings.Contains(authorization+cookies, good) {
				t.Errorf("got %+v", a)
			}
		case 400, 401, 404:
			if a.Code == "" {
				t.Errorf("got %+v", a)
			}
		default:
			t.Errorf("got %d %s", a.http, a.Code)
		}
	})
}

// A queue that was made a moment ago, and is not read here yet, is not told to be none.
func TestAQueueThatIsNotReadYetIsNotUnknown(t *testing.T) {
	f := newFixture(t)
	r := f.get(t, "queue=young", bearer(f.receipt(t, "young")))
	require.Equal(t, http.StatusServiceUnavailable, r.http)
	require.Equal(t, "view_unavailable", r.Code)
	require.NotEmpty(t, r.header.Get("Retry-After"))
}
