package enter_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/services/enter"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// The answer to an entry is lost, once when it was written and once when it wasn't; the client sends it again.
func TestFault2_ARetryIsOnePlace(t *testing.T) {
	for name, credential := range map[string]func(f *fixture) []option{
		"newcomer": func(*fixture) []option { return []option{key(uuid)} },
		"by receipt, with a short key": func(f *fixture) []option {
			return []option{key("1"), bearer(f.receipt(t, "main", "v"))}
		},
		"by cookie": func(f *fixture) []option { return []option{key(uuid), cookie(f.receipt(t, "main", "v"))} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				options := credential(f)
				for _, m := range []mode{away, cut, cut} {
					f.log.set(m)
					a := f.do(t, enterPath, intoMain, options...)
					require.Equal(t, 503, a.http)
					require.Equal(t, "log_unavailable", a.Code)
					require.Contains(t, a.Detail, "retry with the same Idempotency-Key")
				}
				f.log.set(works)
				f.accepted(t) // somebody else comes in between
				a := f.accepted(t, options...)
				require.Equal(t, 202, a.http)
				waiting := f.log.waiting(t, "main")
				require.Len(t, waiting, 2)
				require.Equal(t, a.Visitor, waiting[0].Visitor)
				require.EqualValues(t, 1, waiting[0].Ticket, "the place of the first one that was written")

				// With the receipt at hand, the retransmission still is one, and another key is a refresh.
				f.accepted(t, append(options[:1:1], bearer(a.Receipt))...)
				require.EqualValues(t, 1, f.log.waiting(t, "main")[0].Ticket)
				again := f.accepted(t, key("another"), bearer(a.Receipt))
				waiting = f.log.waiting(t, "main")
				require.Len(t, waiting, 2)
				require.Equal(t, a.Visitor, waiting[1].Visitor)
				require.EqualValues(t, again.Ticket, waiting[1].Ticket)
			})
		})
	}
}

func TestFault6_AThousandEntriesOfOneVisitor(t *testing.T) {
	for name, options := range map[string][]option{
		"by receipt":          {bearer(newFixture(t).receipt(t, "main", "v"))},
		"newcomer with a key": {key(uuid)},
		"by a signed token":   {bearer(identity(t, "v", time.Hour))},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			if name == "by a signed token" {
				f = newFixture(t, signed)
			}
			var all sync.WaitGroup
			for range 1000 {
				all.Go(func() {
					r := httptest.NewRequest("POST", enterPath, strings.NewReader(intoMain))
					r.Header.Set("Content-Type", "application/json")
					for _, o := range options {
						o(r)
					}
					w := httptest.NewRecorder()
					f.e.ServeHTTP(w, r)
					if w.Code != 202 {
						t.Errorf("%d %s", w.Code, w.Body)
					}
				})
			}
			all.Wait()
			require.Equal(t, 1000, f.log.total())
			require.Len(t, f.log.waiting(t, "main"), 1)
		})
	}
}

func TestFault20_AnIDIsNoCredential(t *testing.T) {
	f := newFixture(t)
	victim := f.accepted(t)
	for _, path := range []string{enterPath, leavePath} {
		for _, field := range []string{"visitor", "visitorId", "visitor_id", "id", "user", "userId", "sub"} {
			a := f.do(t, path, `{"queue":"main","`+field+`":"`+victim.Visitor+`"}`)
			require.Equal(t, 400, a.http)
			require.Equal(t, "identity_in_body", a.Code)
		}
	}
	require.Equal(t, 1, f.log.total())
	a := f.do(t, enterPath+"?visitor="+victim.Visitor, intoMain, header("X-Visitor", victim.Visitor))
	require.Equal(t, 202, a.http)
	require.NotEqual(t, victim.Visitor, a.Visitor)
	require.Equal(t, 401, f.do(t, leavePath+"?visitor="+victim.Visitor, intoMain).http)
	require.Equal(t, 401, f.do(t, leavePath, intoMain, bearer(victim.Visitor)).http)
	require.Equal(t, victim.Visitor, f.log.waiting(t, "main")[0].Visitor)
}

// badBodies are refused by both routes with a 4xx, and nothing is written.
var badBodies = map[string]struct {
	body string
	http int
	code string
}{
	"empty":            {"", 400, "body_malformed"},
	"no queue":         {"{}", 400, "body_malformed"},
	"null":             {"null", 400, "body_malformed"},
	"null queue":       {`{"queue":null}`, 400, "body_malformed"},
	"empty queue":      {`{"queue":""}`, 400, "body_malformed"},
	"4 KiB and one":    {`{"queue":"main"}` + strings.Repeat(" ", httpapi.MaxBody-15), 413, "body_too_large"},
	"a megabyte":       {strings.Repeat("[", 1<<20), 413, "body_too_large"},
	"wrong type":       {`{"queue":["main"]}`, 400, "body_malformed"},
	"not an object":    {`["main"]`, 400, "body_malformed"},
	"deep":             {strings.Repeat(`{"queue":`, 400), 400, "body_malformed"},
	"invalid UTF-8":    {"{\"queue\":\"main\xc3\x28\"}", 400, "body_malformed"},
	"NUL":              {"{\"queue\":\"main\x00\"}", 400, "body_malformed"},
	"NUL, escaped":     {`{"queue":"main\u0000"}`, 400, "body_malformed"},
	"CRLF":             {"{\"queue\":\"main\r\n\"}", 400, "body_malformed"},
	"CRLF, escaped":    {`{"queue":"main\r\nSet-Cookie: a=b"}`, 400, "body_malformed"},
	"path":             {`{"queue":"../main"}`, 400, "body_malformed"},
	"other letters":    {`{"queue":"MAIN"}`, 400, "body_malformed"},
	"too long":         {`{"queue":"` + strings.Repeat("a", 65) + `"}`, 400, "body_malformed"},
	"unknown":          {`{"queue":"nobody-knows"}`, 404, "queue_unknown"},
	"two of one name":  {`{"queue":"other","queue":"main"}`, 400, "body_malformed"},
	"unknown field":    {`{"queue":"main","ticket":1}`, 400, "body_malformed"},
	"more behind":      {`{"queue":"main"} x`, 400, "body_malformed"},
	"somebody's id":    {`{"queue":"main","visitor":"v"}`, 400, "identity_in_body"},
	"a form":           {`queue=main`, 400, "body_malformed"},
	"XML":              {`<queue>main</queue>`, 400, "body_malformed"},
	"not a number":     {`{"queue":NaN}`, 400, "body_malformed"},
	"single quotes":    {`{'queue':'main'}`, 400, "body_malformed"},
	"a trailing comma": {`{"queue":"main",}`, 400, "body_malformed"},
}

func TestFault22_BadBodiesLeaveNoRecord(t *testing.T) {
	f := newFixture(t)
	receipt := bearer(f.receipt(t, "main", "v"))
	for _, path := range []string{enterPath, leavePath} {
		for name, tc := range badBodies {
			t.Run(path+" "+name, func(t *testing.T) {
				a := f.do(t, path, tc.body, receipt)
				require.Equal(t, tc.http, a.http, a.Detail)
				require.Equal(t, tc.code, a.Code)
				require.NotEmpty(t, a.Detail)
				require.Zero(t, f.log.total(), "a record was written")
			})
		}
		for _, contentType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"} {
			a := f.do(t, path, intoMain, receipt, header("Content-Type", contentType))
			require.Equal(t, 415, a.http)
			require.Equal(t, "content_type", a.Code)
			require.Zero(t, f.log.total())
		}
	}
	require.Equal(t, 202, f.do(t, enterPath, `{"queue":"main"}`+strings.Repeat(" ", httpapi.MaxBody-16)).http, "4 KiB are fine")
}

// endless is a body that never ends and counts what was read of it.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	e.read.Add(int64(len(b)))
	return len(b), nil
}

func TestFault22_AnEndlessBodyIsNotReadOn(t *testing.T) {
	f := newFixture(t)
	body := &endless{}
	r := httptest.NewRequest("POST", enterPath, body)
	r.Header.Set("Content-Type", "application/json")
	a := f.send(t, r)
	require.Equal(t, 413, a.http)
	require.LessOrEqual(t, body.read.Load(), int64(2*httpapi.MaxBody))
	require.Zero(t, f.log.total())
}

// A body that breaks off is not taken for what came of it.
func TestFault22_ABodyThatBreaksOff(t *testing.T) {
	f := newFixture(t)
	for _, length := range []int64{-1, 40} {
		r := httptest.NewRequest("POST", enterPath, io.MultiReader(strings.NewReader(intoMain), brokenOff{}))
		r.ContentLength = length
		r.Header.Set("Content-Type", "application/json")
		a := f.send(t, r)
		require.Equal(t, 400, a.http)
		require.Equal(t, "body_malformed", a.Code)
	}
	require.Zero(t, f.log.total())
}

type brokenOff struct{}

func (brokenOff) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestFault24_OnlyPostChangesAnything(t *testing.T) {
	f := newFixture(t)
	for _, path := range []string{enterPath, leavePath} {
		for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"} {
			r := httptest.NewRequest(method, path+"?queue=main", strings.NewReader(intoMain))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("X-Http-Method-Override", "POST")
			a := f.send(t, r)
			require.Equal(t, 405, a.http, method)
			require.Equal(t, "OPTIONS, POST", a.header.Get("Allow"))
		}
		a := f.do(t, path, intoMain, cookie(f.receipt(t, "main", "v")), header("Sec-Fetch-Site", "cross-site"))
		require.Equal(t, 403, a.http)
		require.Equal(t, "cross_site", a.Code)
	}
	require.Zero(t, f.log.total())
}

func TestFault25_KafkaAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		receipt := bearer(f.receipt(t, "main", "v"))
		for _, path := range []string{enterPath, leavePath} {
			for m, code := range map[mode]string{
				away: "log_unavailable", cut: "log_unavailable", closed: "log_unavailable", refuses: "log_unavailable", busy: "overloaded",
			} {
				f.log.set(m)
				began := time.Now()
				a := f.do(t, path, intoMain, receipt)
				require.LessOrEqual(t, time.Since(began), 3*time.Second)
				require.Equal(t, 503, a.http)
				require.Equal(t, code, a.Code)
				require.Equal(t, "2", a.header.Get("Retry-After"))
				require.Empty(t, a.Receipt)
				require.Empty(t, a.header.Get("Set-Cookie"))
			}
			f.log.set(noQueue)
			require.Equal(t, 404, f.do(t, path, intoMain, receipt).http)
		}
		f.log.set(works)
		require.Equal(t, 202, f.do(t, enterPath, intoMain, receipt).http, "and it is back at once")
	})
}

// A client that hangs up doesn't hold a handler, and is no failure of the log.
func TestAClientThatIsGone(t *testing.T) {
	f := newFixture(t)
	f.log.set(slow)
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequest("POST", enterPath, strings.NewReader(intoMain)).WithContext(ctx)
	r.Header.Set("Content-Type", "application/json")
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.e.ServeHTTP(httptest.NewRecorder(), r)
	}()
	<-f.log.arrived
	cancel()
	<-done
	require.Equal(t, 1.0, f.counted(t, "enter", "gone"))
	require.Equal(t, 0.0, f.counted(t, "enter", "unknown"))
}

// counted reads one series of soonbeon_enter_requests_total.
func (f *fixture) counted(t testing.TB, operation, result string) float64 {
	t.Helper()
	families, err := f.reg.Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if family.GetName() == "soonbeon_enter_requests_total" && labels["operation"] == operation && labels["result"] == result {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no series %s %s", operation, result)
	return 0
}

func TestMetrics(t *testing.T) {
	f := newFixture(t)
	a := f.accepted(t)
	f.do(t, enterPath, "")
	f.do(t, enterPath, intoMain, bearer(f.entry(t, "main", "v", time.Minute)))
	f.do(t, leavePath, intoMain, bearer(a.Receipt))
	f.do(t, leavePath, intoMain)
	for m, result := range map[mode]string{busy: "busy", noQueue: "no_queue", closed: "unknown", refuses: "failed"} {
		f.log.set(m)
		f.do(t, enterPath, intoMain)
		require.Equal(t, 1.0, f.counted(t, "enter", result), result)
	}
	for _, result := range []string{"accepted", "admitted", "refused"} {
		require.Equal(t, 1.0, f.counted(t, "enter", result), result)
	}
	require.Equal(t, 1.0, f.counted(t, "leave", "left"))
	require.Equal(t, 1.0, f.counted(t, "leave", "refused"))
	require.Equal(t, 1, f.logs.FilterMessage("log refused a record").Len())
}

// The server is told to stop while a hundred entries wait for the log: all of them are answered, and each that was
// accepted is in the log.
func TestFault28_StopUnderLoad(t *testing.T) {
	f := newFixture(t)
	f.log.set(slow)
	s := httpapi.NewServer(httpapi.ServerConfig{Name: "test", Address: "127.0.0.1:0"}, f.e, zap.NewNop())
	require.NoError(t, s.Start(t.Context()))
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()

	const n = 100
	var clients sync.WaitGroup
	var ok atomic.Int64
	for range n {
		clients.Go(func() {
			res, err := client.Post("http://"+s.Addr()+enterPath, "application/json", strings.NewReader(intoMain))
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != 202 || !bytes.HasSuffix(body, []byte("}")) {
				t.Errorf("%d %s %v", res.StatusCode, body, err)
				return
			}
			ok.Add(1)
		})
	}
	for range n {
		<-f.log.arrived
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(context.Background()) }()
	for range n {
		f.log.release <- struct{}{}
	}
	clients.Wait()
	require.NoError(t, <-stopped)
	require.EqualValues(t, n, ok.Load())
	require.Equal(t, n, f.log.total())
}

func TestFault28_StopWithKafkaAway(t *testing.T) {
	f := newFixture(t, func(c *enter.Config) { c.AckTimeout = 50 * time.Millisecond })
	f.log.set(slow) // and never let go
	s := httpapi.NewServer(httpapi.ServerConfig{Name: "test", Address: "127.0.0.1:0"}, f.e, zap.NewNop())
	require.NoError(t, s.Start(t.Context()))
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	status := make(chan int, 1)
	go func() {
		res, err := client.Post("http://"+s.Addr()+enterPath, "application/json", strings.NewReader(intoMain))
		if err != nil {
			status <- 0
			return
		}
		res.Body.Close()
		status <- res.StatusCode
	}()
	<-f.log.arrived
	require.NoError(t, s.Stop(context.Background()))
	require.Equal(t, 503, <-status)
}

func TestFault30_HostileIDsDoNotGrowTheMetrics(t *testing.T) {
	f := newFixture(t)
	visit := func(i int) {
		id := strings.Repeat("a", 1+i%60) + string(rune('a'+i%26))
		f.do(t, enterPath, `{"queue":"`+id+`"}`)
		f.do(t, enterPath, intoMain, key(uuid+id[:1]+string(rune('a'+i%26))))
		f.do(t, enterPath, intoMain, bearer(f.receipt(t, "main", id)))
		f.do(t, leavePath, intoMain, bearer(id))
		f.do(t, "/queue/"+id, intoMain)
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
