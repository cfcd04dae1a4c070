package enter_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/enter"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

var shopSecret = strings.Repeat("s3cret-", 6)

// withSite lets one site complete, and answers Grant by folding the log that is there, as a follower does.
func withSite(t testing.TB, log **memoryLog) func(*enter.Config) {
	sites, err := httpapi.ParseCredentials("shop:" + shopSecret)
	require.NoError(t, err)
	return func(c *enter.Config) {
		c.Sites = sites
		c.Grant = func(id queue.ID, v queue.Visitor, now time.Time) (queue.Grant, line.GrantState) {
			ledger := line.NewLedger()
			require.True(t, ledger.Apply(0, (*log).of(id)))
			return ledger.Grant(v, now.UnixMilli())
		}
	}
}

func done(id, token string) string {
	b, _ := json.Marshal(map[string]string{"queue": id, "token": token})
	return string(b)
}

// admit writes that v, who entered with ticket, was let in, and returns the entry token.
func (f *fixture) admit(t testing.TB, v queue.Visitor, ticket queue.Ticket, left time.Duration) string {
	t.Helper()
	p := queue.Person{Visitor: v, Ticket: ticket, ExpiresMs: noon.Add(left).UnixMilli()}
	_, err := f.log.Append(t.Context(), "main", queue.Record{Kind: queue.Admitted, People: []queue.Person{p}})
	require.NoError(t, err)
	s, err := f.keys.SignEntry(pass.Entry{Queue: "main", Visitor: v, Ticket: ticket, AdmittedMs: noon.Add(left - 5*time.Minute).UnixMilli(), ExpiresMs: p.ExpiresMs, Made: 3})
	require.NoError(t, err)
	return s
}

func TestComplete(t *testing.T) {
	var log *memoryLog
	f := newFixture(t, withSite(t, &log))
	log = f.log
	a := f.accepted(t)
	token := f.admit(t, a.Visitor, queue.Ticket(a.Ticket), time.Minute)
	before := f.log.total()
	for range 3 {
		a := f.do(t, donePath, done("main", token), bearer(shopSecret))
		require.Equal(t, []any{200, "completed"}, []any{a.http, a.Status}, a.Detail)
	}
	all := f.log.of("main")
	require.Len(t, all, before+1, "asked again, nothing more is written")
	require.Equal(t, queue.Record{Ticket: queue.Ticket(before + 1), Kind: queue.Released, Visitor: a.Visitor, Of: queue.Ticket(a.Ticket)}, all[before])
	require.Equal(t, 1.0, f.counted(t, "complete", "completed"))
	require.Equal(t, 2.0, f.counted(t, "complete", "repeated"))

	// Let in anew: the new token ends the new admission, and the old one nothing but its own.
	again := f.accepted(t, bearer(a.Receipt))
	newer := f.admit(t, a.Visitor, queue.Ticket(again.Ticket), time.Minute)
	require.Equal(t, 200, f.do(t, donePath, done("main", token), bearer(shopSecret)).http)
	ledger := line.NewLedger()
	require.True(t, ledger.Apply(0, f.log.of("main")))
	_, state := ledger.Grant(a.Visitor, noon.UnixMilli())
	require.Equal(t, line.Live, state)
	require.Equal(t, 200, f.do(t, donePath, done("main", newer), bearer(shopSecret)).http)
	ledger = line.NewLedger()
	require.True(t, ledger.Apply(0, f.log.of("main")))
	_, state = ledger.Grant(a.Visitor, noon.UnixMilli())
	require.Equal(t, line.Released, state)
	require.Zero(t, f.logs.Len(), "nothing is logged per request")
}

// A process that has not read the admission yet writes all the same: the log decides what counts.
func TestCompleteByAProcessThatIsBehind(t *testing.T) {
	f := newFixture(t, func(c *enter.Config) { c.Sites, _ = httpapi.ParseCredentials("shop:" + shopSecret) })
	token := f.admit(t, "v", 7, time.Minute)
	require.Equal(t, 200, f.do(t, donePath, done("main", token), bearer(shopSecret)).http)
	require.Equal(t, queue.Record{Ticket: 2, Kind: queue.Released, Visitor: "v", Of: 7}, f.log.of("main")[1])
}

func TestWhatCanBeCompleted(t *testing.T) {
	var log *memoryLog
	f := newFixture(t, withSite(t, &log))
	log = f.log
	sign := func(id queue.ID, made int64, expires time.Duration) string {
		s, err := f.keys.SignEntry(pass.Entry{Queue: id, Visitor: "v", Ticket: 1, AdmittedMs: noon.Add(expires - time.Minute).UnixMilli(), ExpiresMs: noon.Add(expires).UnixMilli(), Made: made})
		require.NoError(t, err)
		return s
	}
	remembered := line.RememberMs * time.Millisecond
	good := sign("main", 3, time.Minute)
	for name, tc := range map[string]struct {
		body string
		http int
		code string
	}{
		"live":                      {done("main", good), 200, ""},
		"of a version without made": {done("main", sign("main", 0, time.Minute)), 200, ""},
		"expired":                   {done("main", sign("main", 3, -time.Minute)), 200, ""},
		"nearly forgotten":          {done("main", sign("main", 3, time.Millisecond-remembered)), 200, ""},
		"forgotten":                 {done("main", sign("main", 3, -remembered)), 404, "token_unknown"},
		"of another queue":          {done("main", sign("other", 3, time.Minute)), 404, "token_unknown"},
		"of an earlier queue":       {done("main", sign("main", 2, time.Minute)), 404, "token_unknown"},
		"a receipt":                 {done("main", f.receipt(t, "main", "v")), 404, "token_unknown"},
		"forged":                    {done("main", good[:len(good)-2]+"AA"), 404, "token_unknown"},
		"nothing":                   {done("main", ""), 404, "token_unknown"},
		"no token":                  {intoMain, 404, "token_unknown"},
		"another queue's name":      {done("other", good), 404, "token_unknown"},
		"no such queue":             {done("nobody", good), 404, "queue_unknown"},
		"no queue id":               {done("../main", good), 400, "body_malformed"},
		"a visitor's id":            {`{"queue":"main","visitor":"v"}`, 400, "identity_in_body"},
		"empty":                     {``, 400, "body_malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			before := f.log.total()
			a := f.do(t, donePath, tc.body, bearer(shopSecret))
			require.Equal(t, []any{tc.http, tc.code}, []any{a.http, a.Code}, a.Detail)
			require.NotContains(t, a.Detail, good[:20])
			require.Equal(t, tc.http == 200, f.log.total() == before+1)
		})
	}
}

func TestWhoMayComplete(t *testing.T) {
	var log *memoryLog
	f, none := newFixture(t, withSite(t, &log)), newFixture(t)
	log = f.log
	token := f.admit(t, "v", 1, time.Minute)
	for name, tc := range map[string]struct {
		f       *fixture
		options []option
		http    int
		code    string
		words   string
	}{
		"nobody":                    {f, nil, 401, "credential_missing", ""},
		"the visitor":               {f, []option{bearer(token)}, 403, "credential_forbidden", ""},
		"a receipt":                 {f, []option{bearer(f.receipt(t, "main", "v"))}, 403, "credential_forbidden", ""},
		"a visitor's cookie":        {f, []option{cookie(f.receipt(t, "main", "v"))}, 403, "credential_forbidden", ""},
		"a guess":                   {f, []option{bearer(shopSecret + "x")}, 403, "credential_forbidden", ""},
		"another site's page":       {f, []option{bearer(shopSecret), header("Sec-Fetch-Site", "cross-site")}, 403, "cross_site", ""},
		"where no site has one":     {none, []option{bearer(shopSecret)}, 403, "credential_forbidden", "SOONBEON_SITES"},
		"nobody, where none has it": {none, nil, 403, "credential_forbidden", "SOONBEON_SITES"},
	} {
		t.Run(name, func(t *testing.T) {
			before := tc.f.log.total()
			a := tc.f.do(t, donePath, done("main", token), tc.options...)
			require.Equal(t, []any{tc.http, tc.code}, []any{a.http, a.Code}, a.Detail)
			require.Contains(t, a.Detail, tc.words)
			require.NotContains(t, a.Detail, shopSecret)
			require.Equal(t, before, tc.f.log.total())
		})
	}
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		require.Equal(t, 405, f.method(t, method, donePath).http)
	}
}

func TestCompleteWhenTheLogIsAway(t *testing.T) {
	var log *memoryLog
	f := newFixture(t, withSite(t, &log), func(c *enter.Config) {
		c.AckTimeout = time.Millisecond
		c.Trouble = func(id queue.ID) error {
			if id == "other" {
				return errors.New("trimmed")
			}
			return nil
		}
	})
	log = f.log
	token := f.admit(t, "v", 1, time.Minute)
	other, err := f.keys.SignEntry(pass.Entry{Queue: "other", Visitor: "v", Ticket: 1, AdmittedMs: noon.UnixMilli(), ExpiresMs: noon.Add(time.Minute).UnixMilli()})
	require.NoError(t, err)
	a := f.do(t, donePath, done("other", other), bearer(shopSecret))
	require.Equal(t, []any{503, "log_trouble"}, []any{a.http, a.Code})
	for m, code := range map[mode]string{away: "log_unavailable", busy: "overloaded", noQueue: "queue_unknown"} {
		f.log.set(m)
		a := f.do(t, donePath, done("main", token), bearer(shopSecret))
		require.Equal(t, code, a.Code)
		if a.http == 503 {
			require.NotEmpty(t, a.header.Get("Retry-After"))
		}
	}
	f.log.set(works)
	require.Equal(t, 200, f.do(t, donePath, done("main", token), bearer(shopSecret)).http)
}
