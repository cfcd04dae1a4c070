package admin_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/admin"
	"github.com/soonbeon/soonbeon/services/catalog"
	"github.com/soonbeon/soonbeon/services/catalog/catalogtest"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

func TestAQueuesLife(t *testing.T) {
	f := newFixture(t)
	made := f.create("main", `{"rate":50,"message":"hello"}`)
	require.Equal(t, "/admin/queues/main", made.header.Get("Location"))
	require.Equal(t, fmt.Sprintf("%q", fmt.Sprint(made.doc.Version)), made.header.Get("ETag"))
	require.Equal(t, catalog.Open, made.doc.State)
	require.Equal(t, []any{50.0, 50.0, "100ms", "5m0s", "hello"}, []any{made.doc.Settings.Rate, made.doc.Settings.ConservativeRate,
		made.doc.Settings.Interval, made.doc.Settings.GrantTTL, made.doc.Settings.Message})

	f.live["main"] = &catalog.Live{Waiting: 7, Served: 3, Rate: 1.5, Skip: queue.SkipFull}
	shown := f.ok(200, f.do("GET", "/admin/queues/main", ""))
	require.Equal(t, made.header.Get("ETag"), shown.header.Get("ETag"))
	require.Equal(t, f.live["main"], shown.doc.Live)
	delete(f.live, "main")

	put := f.ok(200, f.do("PUT", "/admin/queues/main", `{"settings":{"rate":60}}`, "If-Match: "+made.header.Get("ETag")))
	require.Equal(t, []any{60.0, ""}, []any{put.doc.Settings.Rate, put.doc.Settings.Message}, "the whole of the settings is put")
	f.unchanged(func() {
		again := f.ok(200, f.do("PUT", "/admin/queues/main", `{"settings":{"rate":60}}`, "If-Match: "+made.header.Get("ETag")))
		require.Equal(t, put.body, again.body, "the same twice")
		conflict := f.refused(409, httpapi.QueueChanged, f.do("PUT", "/admin/queues/main", `{"settings":{"rate":70}}`, "If-Match: "+made.header.Get("ETag")))
		require.Equal(t, put.doc.Version, conflict.Current)
		f.refused(428, httpapi.VersionMissing, f.do("PUT", "/admin/queues/main", `{"settings":{"rate":70}}`))
	})
	f.ok(200, f.do("PUT", "/admin/queues/main", `{"settings":{"rate":70}}`, "If-Match: *"))

	paused := f.ok(200, f.do("POST", "/admin/queues/main/pause", `{"message":"back soon"}`, "Authorization: Bearer "+bobs))
	require.Equal(t, []any{catalog.Paused, "back soon"}, []any{paused.doc.State, paused.doc.Settings.Message})
	f.unchanged(func() {
		require.Equal(t, paused.body, f.ok(200, f.do("POST", "/admin/queues/main/pause", "")).body)
		f.refused(409, httpapi.QueueChanged, f.do("POST", "/admin/queues/main/resume", "", "If-Match: "+made.header.Get("ETag")))
	})
	ended := f.ok(200, f.do("POST", "/admin/queues/main/close", `{"reason":"sold_out","ending":true}`))
	require.Equal(t, []any{catalog.Ended, "sold_out", true, true}, []any{ended.doc.State, ended.doc.Reason, ended.doc.Closed, ended.doc.Ending})
	closed := f.ok(200, f.do("POST", "/admin/queues/main/close", ""))
	require.Equal(t, []any{catalog.Closed, "closed", false}, []any{closed.doc.State, closed.doc.Reason, closed.doc.Ending})
	open := f.ok(200, f.do("POST", "/admin/queues/main/resume", `{"message":""}`))
	require.Equal(t, []any{catalog.Open, ""}, []any{open.doc.State, open.doc.Settings.Message})

	a := f.ok(200, f.do("GET", "/admin/queues/main/changes?limit=3", ""))
	var changes struct {
		Changes []struct {
			Who, Action string
			At          time.Time
			From, To    *catalog.Document
		}
	}
	require.NoError(t, json.Unmarshal([]byte(a.body), &changes, json.MatchCaseInsensitiveNames(true)))
	require.Len(t, changes.Changes, 3)
	require.Equal(t, []string{"resume", "close", "close"}, []string{changes.Changes[0].Action, changes.Changes[1].Action, changes.Changes[2].Action})
	require.Equal(t, "anna", changes.Changes[0].Who)
	require.Equal(t, []any{"closed", ""}, []any{changes.Changes[0].From.Reason, changes.Changes[0].To.Reason})
	require.WithinDuration(t, time.Now(), changes.Changes[0].At, time.Minute)
	require.Contains(t, f.ok(200, f.do("GET", "/admin/queues/main/changes", "")).body, `"who":"bob"`)
	require.Contains(t, f.ok(200, f.do("GET", "/admin/queues/main/changes", "")).body, `"from":null`)

	f.create("another", `{}`)
	list := f.ok(200, f.do("GET", "/admin/queues", ""))
	require.Less(t, strings.Index(list.body, `"another"`), strings.Index(list.body, `"main"`))

	f.refused(409, httpapi.QueueChanged, f.do("DELETE", "/admin/queues/main", "", "If-Match: "+made.header.Get("ETag")))
	gone := f.ok(204, f.do("DELETE", "/admin/queues/main", "", "If-Match: "+open.header.Get("ETag")))
	require.Empty(t, gone.body)
	f.refused(404, httpapi.QueueUnknown, f.do("GET", "/admin/queues/main", ""))
	f.refused(404, httpapi.QueueUnknown, f.do("DELETE", "/admin/queues/main", ""))
	require.Contains(t, f.ok(200, f.do("GET", "/admin/queues/main/changes", "")).body, `"action":"gone"`, "what became of it is told still")
}

func TestADrawIsShownByItsCommitmentAlone(t *testing.T) {
	f := newFixture(t)
	made := f.create("main", `{"order":"draw","opensAt":"2099-01-01T00:00:00Z"}`)
	require.Len(t, made.doc.Commitment, 64)
	require.Equal(t, catalog.NotOpen, made.doc.State)
	put := f.ok(200, f.do("PUT", "/admin/queues/main", `{"settings":{"rate":9,"opensAt":"2098-01-01T00:00:00+09:00"}}`, "If-Match: "+made.header.Get("ETag")))
	require.Equal(t, []string{"draw", "2097-12-31T15:00:00Z"}, []string{put.doc.Settings.Order, *put.doc.Settings.OpensAt}, "the order need not be said")
	f.unchanged(func() {
		a := f.refused(400, httpapi.SettingsInvalid, f.do("PUT", "/admin/queues/main", `{"settings":{"order":"arrival"}}`, "If-Match: *"))
		require.Contains(t, a.Detail, "opening order is draw since the queue was made, and can't become arrival")
	})
	for _, path := range []string{"/admin/queues", "/admin/queues/main", "/admin/queues/main/changes"} {
		require.NotContains(t, strings.ToLower(f.ok(200, f.do("GET", path, "")).body), "seal")
	}
}

// The list at the end of what was asked for: each is told clearly, and changes nothing.
func TestBadInput(t *testing.T) {
	f := newFixture(t)
	f.create("main", `{}`)
	f.unchanged(func() {
		for _, name := range []string{"{main}", "a/b", "../etc", "a.b", "a*", "a?", "MAIN", "", strings.Repeat("a", 65), "a b", "ñ", "a\nb", "a\x00b", "a%2Fb"} {
			raw, err := json.Marshal(map[string]string{"id": name})
			require.NoError(t, err)
			a := f.refused(400, httpapi.SettingsInvalid, f.do("POST", "/admin/queues", string(raw)))
			require.Len(t, a.Mistakes, 1, name)
			require.Contains(t, a.Mistakes[0], "a queue id is 1 to 64 of a-z, 0-9 and '-'")
			if name == "" || strings.ContainsAny(name, "/?\x00\n") {
				continue // no path
			}
			for _, ask := range [][3]string{{"GET", "", ""}, {"PUT", "", `{"settings":{}}`}, {"DELETE", "", ""}, {"POST", "/pause", ""}, {"POST", "/resume", ""}, {"POST", "/close", ""}, {"GET", "/changes", ""}} {
				f.refused(404, httpapi.QueueUnknown, f.do(ask[0], "/admin/queues/"+name+ask[1], ask[2], "If-Match: *"))
			}
		}
		for settings, want := range map[string]string{
			`{"rate":0}`:             "rate is 0.001 to 10000 people a second, not 0",
			`{"rate":-1}`:            "rate is 0.001 to 10000 people a second, not -1",
			`{"rate":"NaN"}`:         `rate is a number of people a second, not "NaN"`,
			`{"rate":1e12}`:          "rate is 0.001 to 10000 people a second, not 1e+12",
			`{"rate":1000000000000}`: "rate is 0.001 to 10000 people a second, not 1e+12",
			`{"opensAt":"2030-01-02T00:00:00Z","closesAt":"2030-01-01T00:00:00Z"}`: "closes at (2030-01-01T00:00:00Z) is after opens at (2030-01-02T00:00:00Z)",
			`{"speed":5}`:                  "there is no setting \"speed\"",
			`{"visitor":"v"}`:              "there is no setting \"visitor\"",
			`{"polling":[{"pos":1}]}`:      "polling is a list of",
			`{"message":"\u0000"}`:         "message has no control characters",
			`{"admitTo":"//evil.example"}`: "admit to is a URL",
			`"fast"`:                       "settings is an object",
		} {
			for _, ask := range [][3]string{{"POST", "", `{"id":"new","settings":` + settings + `}`}, {"PUT", "/main", `{"settings":` + settings + `}`}} {
				a := f.refused(400, httpapi.SettingsInvalid, f.do(ask[0], "/admin/queues"+ask[1], ask[2], "If-Match: *"))
				require.Len(t, a.Mistakes, 1, settings)
				require.Contains(t, a.Mistakes[0], want)
				require.Contains(t, a.Detail, want)
			}
		}
		for body, code := range map[string]httpapi.Code{
			`{"id":"new","settings":{"rate":NaN}}`:        httpapi.BodyMalformed,
			`{"id":"new","settings":{"rate":1,"rate":2}}`: httpapi.BodyMalformed,
			`{"id":"new","id":"main"}`:                    httpapi.BodyMalformed,
			`[]`:                                          httpapi.BodyMalformed,
			`{`:                                           httpapi.BodyMalformed,
			`{"id":"new","pad":"` + strings.Repeat("x", 40_000) + `"}`: httpapi.BodyTooLarge,
			`{"id":"new","colour":"red"}`:                              httpapi.SettingsInvalid,
			`{"id":5}`:                                                 httpapi.SettingsInvalid,
			`{}`:                                                       httpapi.SettingsInvalid,
		} {
			a := f.do("POST", "/admin/queues", body)
			require.Equal(t, code, a.Code, "%.60s: %s", body, a.body)
		}
		a := f.refused(400, httpapi.SettingsInvalid, f.do("POST", "/admin/queues", `{"id":"A","colour":"red","settings":{"rate":0,"grantTtl":7}}`))
		require.Len(t, a.Mistakes, 4, "all at once: %q", a.Mistakes)
		f.refused(400, httpapi.SettingsInvalid, f.do("PUT", "/admin/queues/main", `{}`, "If-Match: *"))
		f.refused(400, httpapi.SettingsInvalid, f.do("PUT", "/admin/queues/main", `{"settings":{},"version":1}`, "If-Match: *"))
		for _, version := range []string{"1", `W/"1"`, `"x"`, `"1","2"`, `""`, `"-1"`, `"99999999999999999999"`} {
			f.refused(428, httpapi.VersionMissing, f.do("PUT", "/admin/queues/main", `{"settings":{}}`, "If-Match: "+version))
			f.refused(428, httpapi.VersionMissing, f.do("DELETE", "/admin/queues/main", "", "If-Match: "+version))
		}
		for path, body := range map[string]string{"/pause": `{"message":5}`, "/resume": `{"reason":"x"}`, "/close": `{"reason":"Sold out","ending":"yes"}`} {
			f.refused(400, httpapi.SettingsInvalid, f.do("POST", "/admin/queues/main"+path, body))
		}
		f.refused(415, httpapi.ContentType, f.do("POST", "/admin/queues", `{"id":"new"}`, "Content-Type: text/plain"))
		f.refused(409, httpapi.QueueExists, f.do("POST", "/admin/queues", `{"id":"main"}`))
		for _, ask := range [][3]string{{"GET", "", ""}, {"PUT", "", `{"settings":{}}`}, {"DELETE", "", ""}, {"POST", "/pause", ""}, {"POST", "/resume", ""}, {"POST", "/close", ""}, {"GET", "/changes", ""}} {
			f.refused(404, httpapi.QueueUnknown, f.do(ask[0], "/admin/queues/nobodys"+ask[1], ask[2], "If-Match: *"))
		}
		for _, limit := range []string{"0", "1001", "x", "", "1&limit=2"} {
			f.refused(400, httpapi.QueryInvalid, f.do("GET", "/admin/queues/main/changes?limit="+limit, ""))
		}
		f.refused(404, httpapi.NotFound, f.do("GET", "/admin/queues/a/b/c", ""))
		f.refused(405, httpapi.MethodNotAllowed, f.do("PATCH", "/admin/queues/main", ""))
		f.refused(403, httpapi.CrossSite, f.do("POST", "/admin/queues/main/pause", "", "Sec-Fetch-Site: cross-site", "Origin: https://evil.example"))
	})
}

func TestOnlyOperatorsMay(t *testing.T) {
	f := newFixture(t)
	f.create("main", `{}`)
	receipt, entry := visitors(t)
	f.unchanged(func() {
		for _, operation := range f.contract.Operations() {
			method, path, _ := strings.Cut(operation, " ")
			path = strings.ReplaceAll(path, "{id}", "main")
			if !strings.HasPrefix(path, "/admin/queues") {
				continue
			}
			a := f.refused(401, httpapi.CredentialMissing, f.do(method, path, "", "Authorization: "))
			require.NotEmpty(t, a.header.Get("WWW-Authenticate"))
			for _, credential := range []string{"Bearer " + receipt, "Bearer " + entry, "Bearer site-site-site-site-site-site-site", "Bearer " + annas[1:], "Basic " + annas} {
				f.refused(403, httpapi.CredentialForbidden, f.do(method, path, "", "Authorization: "+credential))
			}
			f.refused(403, httpapi.CredentialForbidden, f.do(method, path, "", "Authorization: ", "Cookie: __Host-soonbeon-main="+receipt))
		}
	})
	f.ok(200, f.do("GET", "/admin/openapi.json", "", "Authorization: "))

	s, err := admin.New(admin.Config{Known: f.Follower, Editor: f.Editor, Changes: f.Log.Changes})
	require.NoError(t, err)
	f.e, err = httpapi.New(httpapi.Config{}, nil, f.Registry)
	require.NoError(t, err)
	s.Register(f.e)
	f.handler = f.e
	require.Contains(t, f.refused(403, httpapi.CredentialForbidden, f.do("GET", "/admin/queues", "")).Detail, "SOONBEON_OPERATORS")
	_, err = admin.New(admin.Config{})
	require.Error(t, err)
}

func TestADeletionThatWasCutShort(t *testing.T) {
	f := newFixture(t)
	f.create("main", `{}`)
	f.Topics.Fail("line", true)
	a := f.refused(503, httpapi.ViewUnavailable, f.do("DELETE", "/admin/queues/main", ""))
	require.Contains(t, a.Detail, "delete it again")
	require.NotEmpty(t, a.header.Get("Retry-After"))
	require.Eventually(t, func() bool { return f.do("GET", "/admin/queues/main", "").doc.State == catalog.Deleting }, catalogtest.Patience, time.Millisecond)
	f.refused(409, httpapi.QueueDeleting, f.do("POST", "/admin/queues", `{"id":"main"}`))
	f.refused(409, httpapi.QueueDeleting, f.do("POST", "/admin/queues/main/pause", ""))
	f.Topics.Fail("line", false)
	f.ok(204, f.do("DELETE", "/admin/queues/main", ""))
	f.create("main", `{}`)
}

func TestATopicThatIsThere(t *testing.T) {
	f := newFixture(t)
	_, _, err := f.Log.EnsureQueue(f.Soon(), "main")
	require.NoError(t, err)
	f.Broker.AppendMany("main", 1, func(int) queue.Record { return queue.Record{Kind: queue.Entered, Visitor: "v"} })
	f.refused(409, httpapi.QueueHasRecords, f.do("POST", "/admin/queues", `{"id":"main"}`))
	f.Broker.Create("three", 3, nil)
	a := f.refused(503, httpapi.LogTrouble, f.do("POST", "/admin/queues", `{"id":"three"}`))
	require.Contains(t, a.Detail, "partitions is 3, wanted 1")
}

func TestTheDescriptionIsOfWhatIsServed(t *testing.T) {
	f := newFixture(t)
	f.contract.Compile()
	var served []string
	for _, r := range f.e.Routes() {
		served = append(served, r.Method+" "+strings.ReplaceAll(r.Path, ":id", "{id}"))
	}
	var described []string
	for _, o := range f.contract.Operations() {
		if _, path, _ := strings.Cut(o, " "); strings.HasPrefix(path, "/admin/") {
			described = append(described, o)
		}
	}
	require.ElementsMatch(t, served, described)

	var codes []string
	for _, c := range httpapi.Codes() {
		codes = append(codes, string(c.Code))
	}
	require.ElementsMatch(t, codes, f.contract.Enum("Problem", "code"))
	var states []string
	for _, s := range catalog.States() {
		states = append(states, string(s))
	}
	require.Equal(t, states, f.contract.Enum("Queue", "state"))
	require.Equal(t, f.contract.Properties("Settings"), f.contract.Properties("SomeSettings"))
	require.Equal(t, http.StatusOK, f.ok(200, f.do("GET", "/admin/openapi.json", "")).status)
}

// What the schemas of requests allow is taken, and what they refuse is refused, as far as a schema can tell.
func TestTheDescriptionOfRequests(t *testing.T) {
	f := newFixture(t)
	for i, tc := range []struct {
		settings string
		taken    bool
	}{
		{`{}`, true},
		{`{"rate":0.001,"conservativeRate":0.001}`, true},
		{`{"opensAt":null,"closesAt":"2099-01-01T00:00:00Z","polling":[{"position":null,"intervalMs":500}]}`, true},
		{`{"approximateSizes":[],"message":"줄","maxActive":10000000}`, true},
		{`{"rate":0}`, false},
		{`{"rate":"1"}`, false},
		{`{"maxActive":-1}`, false},
		{`{"maxActive":1.5}`, false},
		{`{"interval":100}`, false},
		{`{"reentry":"no"}`, false},
		{`{"opensAt":"soon"}`, false},
		{`{"polling":[]}`, false},
		{`{"approximateSizes":[{"ahead":1}]}`, false},
		{`{"Rate":1}`, false},
		{`{"message":null}`, false},
	} {
		body := fmt.Sprintf(`{"id":"q%d","settings":%s}`, i, tc.settings)
		err := f.contract.Validate("Create", []byte(body))
		require.Equal(t, tc.taken, err == nil, "%s: %v", tc.settings, err)
		require.Equal(t, tc.taken, f.do("POST", "/admin/queues", body).status == 201, tc.settings)
	}
}

func TestChangesWhileTheBrokersAreAway(t *testing.T) {
	f := newFixtureFor(t, 300*time.Millisecond)
	f.create("main", `{}`)
	f.Broker.Away()
	for _, ask := range [][3]string{{"POST", "", `{"id":"new"}`}, {"PUT", "/main", `{"settings":{"rate":5}}`}, {"POST", "/main/pause", ""}, {"DELETE", "/main", ""}} {
		a := f.ok(503, f.do(ask[0], "/admin/queues"+ask[1], ask[2], "If-Match: *"))
		require.Contains(t, []httpapi.Code{httpapi.Overloaded, httpapi.LogUnavailable}, a.Code)
		require.NotEmpty(t, a.header.Get("Retry-After"))
	}
	f.ok(200, f.do("GET", "/admin/queues/main", ""))
	f.Broker.Back()
	require.Eventually(t, func() bool { return f.do("POST", "/admin/queues/main/pause", "").status == 200 }, catalogtest.Patience, time.Millisecond)
}
