package admin_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/admin"
	"github.com/soonbeon/soonbeon/services/admin/admintest"
	"github.com/soonbeon/soonbeon/services/catalog"
	"github.com/soonbeon/soonbeon/services/catalog/catalogtest"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	annas = "anna-anna-anna-anna-anna-anna-anna"
	bobs  = "bob-bob-bob-bob-bob-bob-bob-bob-bob"
)

type fixture struct {
	*catalogtest.World
	t        *testing.T
	e        *echo.Echo
	service  *admin.Service
	contract *admintest.Contract
	handler  http.Handler // held against the description
	live     map[queue.ID]*catalog.Live
}

func newFixture(t *testing.T) *fixture { return newFixtureFor(t, catalogtest.Patience) }

func newFixtureFor(t *testing.T, timeout time.Duration) *fixture {
	f := &fixture{World: catalogtest.Start(t), t: t, contract: admintest.Load(t), live: map[queue.ID]*catalog.Live{}}
	operators, err := httpapi.ParseCredentials("anna:" + annas + ",bob:" + bobs)
	require.NoError(t, err)
	s, err := admin.New(admin.Config{Timeout: timeout, Known: f.Follower, Editor: f.Editor, Operators: operators, Changes: f.Log.Changes,
		Live: func(id queue.ID) *catalog.Live { return f.live[id] }})
	require.NoError(t, err)
	f.e, err = httpapi.New(httpapi.Config{}, zap.NewNop(), f.Registry)
	require.NoError(t, err)
	s.Register(f.e)
	f.service = s
	f.handler = f.contract.Wrap(f.e)
	return f
}

// answer is what was answered, decoded.
type answer struct {
	status int
	header http.Header
	body   string
	doc    catalog.Document
	problem
}

type problem struct {
	Code     httpapi.Code `json:"code"`
	Detail   string       `json:"detail"`
	Mistakes []string     `json:"mistakes"`
	Current  int64        `json:"version"`
}

// do asks as anna. A header is "Name: value".
func (f *fixture) do(method, path, body string, headers ...string) answer {
	f.t.Helper()
	r := httptest.NewRequest(method, "/", strings.NewReader(body))
	if body == "" {
		r = httptest.NewRequest(method, "/", nil)
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	path, r.URL.RawQuery, _ = strings.Cut(path, "?")
	r.URL.Path = path
	r.Header.Set("Authorization", "Bearer "+annas)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if value == "" {
			r.Header.Del(name)
		} else {
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	a := answer{status: w.Code, header: w.Header(), body: w.Body.String()}
	if w.Body.Len() > 0 {
		into := any(&a.doc)
		if w.Code >= 400 {
			into = &a.problem
		}
		require.NoError(f.t, json.Unmarshal(bytes.Clone(w.Body.Bytes()), into), a.body)
	}
	return a
}

func (f *fixture) ok(status int, a answer) answer {
	f.t.Helper()
	require.Equal(f.t, status, a.status, a.body)
	return a
}

func (f *fixture) refused(status int, code httpapi.Code, a answer) answer {
	f.t.Helper()
	require.Equal(f.t, status, a.status, a.body)
	require.Equal(f.t, code, a.Code, a.body)
	return a
}

// create makes a queue.
func (f *fixture) create(id string, settings string) answer {
	f.t.Helper()
	return f.ok(201, f.do("POST", "/admin/queues", fmt.Sprintf(`{"id":%q,"settings":%s}`, id, settings)))
}

// unchanged runs do and sees that the catalogue is what it was.
func (f *fixture) unchanged(do func()) {
	f.t.Helper()
	end, err := f.Log.CatalogEnd(f.Soon())
	require.NoError(f.t, err)
	do()
	now, err := f.Log.CatalogEnd(f.Soon())
	require.NoError(f.t, err)
	require.Equal(f.t, end, now, "something was written")
}

// visitors are the credentials that visitors hold.
func visitors(t *testing.T) (receipt, entry string) {
	list, err := pass.GenerateKeys()
	require.NoError(t, err)
	keys, err := pass.ParseKeys(list)
	require.NoError(t, err)
	receipt, err = keys.SignReceipt(pass.Receipt{Queue: "main", Visitor: "v", Ticket: 1, Ahead: queue.NoAhead, IssuedMs: 1})
	require.NoError(t, err)
	entry, err = keys.SignEntry(pass.Entry{Queue: "main", Visitor: "v", Ticket: 1, AdmittedMs: 1, ExpiresMs: 2})
	require.NoError(t, err)
	return receipt, entry
}
