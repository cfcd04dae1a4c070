package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/admin"
	"github.com/soonbeon/soonbeon/services/admin/admintest"
	"github.com/soonbeon/soonbeon/services/catalog"
	"github.com/soonbeon/soonbeon/services/catalog/catalogtest"
	"github.com/soonbeon/soonbeon/services/httpapi"
	"github.com/soonbeon/soonbeon/services/standalone"
)

const (
	annas = "anna-anna-anna-anna-anna-anna-anna"
	bobs  = "bob-bob-bob-bob-bob-bob-bob-bob-bob"
)

// operated is a private port with the real handlers, and what a command needs to reach it.
type operated struct {
	*catalogtest.World
	t      *testing.T
	server *httptest.Server

	mu     sync.Mutex
	before func(*http.Request) // runs before each request is served
}

func operate(t *testing.T) *operated {
	o := &operated{World: catalogtest.Start(t), t: t}
	operators, err := httpapi.ParseCredentials("anna:" + annas + ",bob:" + bobs)
	require.NoError(t, err)
	s, err := admin.New(admin.Config{Known: o.Follower, Editor: o.Editor, Operators: operators, Changes: o.Log.Changes,
		Live: func(queue.ID) *catalog.Live { return &catalog.Live{Waiting: 12, Active: 3, Rate: 1.25, Skip: "paused"} }})
	require.NoError(t, err)
	e, err := httpapi.New(httpapi.Config{}, zap.NewNop(), o.Registry)
	require.NoError(t, err)
	s.Register(e)
	checked := admintest.Load(t).Wrap(e)
	o.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		before := o.before
		o.mu.Unlock()
		if before != nil {
			before(r)
		}
		checked.ServeHTTP(w, r)
	}))
	t.Cleanup(o.server.Close)
	return o
}

func (o *operated) first(do func(*http.Request)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.before = do
}

// do runs `soonbeon queue …` as anna.
func (o *operated) do(args ...string) (string, error) {
	o.t.Helper()
	out, _, err := soonbeon(o.t, append(append([]string{"queue"}, args...), "--token="+annas, "--admin="+o.server.Listener.Addr().String())...)
	return out, err
}

func (o *operated) ok(args ...string) string {
	o.t.Helper()
	out, err := o.do(args...)
	require.NoError(o.t, err)
	return out
}

func (o *operated) fails(want string, args ...string) {
	o.t.Helper()
	out, err := o.do(args...)
	require.ErrorContains(o.t, err, want)
	require.Empty(o.t, out)
	require.NotContains(o.t, err.Error(), annas)
}

func (o *operated) version(id queue.ID) string {
	o.t.Helper()
	e, ok := o.Follower.Get(id)
	require.True(o.t, ok)
	b, err := json.Marshal(e.Version)
	require.NoError(o.t, err)
	return string(b)
}

func TestQueueCommands(t *testing.T) {
	t.Setenv("SOONBEON_RATE", "999") // the services' own: no setting of a queue
	o := operate(t)
	require.Equal(t, "no queues yet: `soonbeon queue create NAME` makes one\n", o.ok("list"))
	require.Equal(t, "made main   open, 50 people a second, at most 200 inside\n", o.ok("create", "main", "--rate=50", "--max-active=200", "--message=hello"))
	o.fails("queue main: there is a queue of that name already; nothing was changed (docs/runbook.md#queue_exists)", "create", "main")
	require.Equal(t, "made lots   not_open, 175 people a second, opens 2098-12-31T15:00:00Z\n",
		o.ok("create", "lots", "--order=draw", "--opens-at=2099-01-01T00:00:00+09:00"))

	require.Equal(t, `QUEUE   STATE      RATE    WAITING   INSIDE   VERSION
lots    not_open   175/s   12        3        `+o.version("lots")+`
main    open       50/s    12        3        `+o.version("main")+`
`, o.ok("list"))
	v := o.version("main")
	require.Equal(t, `queue               main
state               open
line                12 waiting, 3 inside, 1.2 a second over the last minute
                    nobody is let in just now: paused
rate                50 people a second every 100ms
conservative rate   50 a second
max active          200
grant ttl           5m0s
reentry             back
opens at            none
closes at           none
order               arrival
admit to            left to the client
message             "hello"
polling             100:1s,1000:2s:300ms,10000:5s:500ms,100000:10s:1s,rest:30s:4s
approximate sizes   none
version             `+v+`, made with `+v+"\n", o.ok("show", "main"))

	require.Contains(t, o.ok("set", "main", "--rate=60.5", "--grant-ttl=10m", "--polling=10:1s,rest:20s:2s", "--approximate-sizes=1000:10,100000:100",
		"--opens-at=2099-01-01T00:00:00Z", "--admit-to=/in"), "set main   not_open, 60.5 people a second")
	shown := o.ok("show", "main")
	for _, want := range []string{"60.5 people", "10m0s", "10:1s,rest:20s:2s", "1000:10,100000:100", "2099-01-01T00:00:00Z", "/in", `"hello"`, "200"} {
		require.Contains(t, shown, want, "what was not told stays")
	}
	o.ok("set", "main", "--opens-at=none", "--polling=default", "--approximate-sizes=none", "--message=")
	shown = o.ok("show", "main")
	for _, want := range []string{"opens at            none", "rest:30s:4s", "approximate sizes   none", "message             none"} {
		require.Contains(t, shown, want)
	}
	o.ok("set", "main", "--rate=20.5")
	require.Contains(t, o.ok("show", "main"), "conservative rate   20.5 a second", "it goes down with the rate")
	o.fails("conservative rate is at most the rate (20.5), not 30", "set", "main", "--conservative-rate=30")
	o.ok("set", "main", "--rate=60.5")
	require.Contains(t, o.ok("show", "main"), "conservative rate   20.5 a second", "and does not go up with it")
	was := o.version("main")
	o.ok("set", "main", "--message=")
	require.Equal(t, was, o.version("main"), "the same again changes nothing")

	require.Equal(t, "paused main   paused, 60.5 people a second, at most 200 inside\n", o.ok("pause", "main", "--message=back soon"))
	require.Equal(t, "closed main   closed, paused, 60.5 people a second, at most 200 inside, reason closed\n", o.ok("close", "main"), "it is both, and nobody moves")
	require.Contains(t, o.ok("show", "main"), "state               closed, paused, reason closed\n")
	require.Equal(t, "ended main   ended, 60.5 people a second, at most 200 inside, reason sold_out\n", o.ok("close", "main", "--reason=sold_out", "--ending"))
	require.Equal(t, "resumed main   open, 60.5 people a second, at most 200 inside\n", o.ok("resume", "main", "--message="))

	lines := strings.Split(strings.TrimSpace(o.ok("changes", "main")), "\n")
	require.Len(t, lines, 10)
	require.Contains(t, lines[1], `anna   resume   closed true → false, ending true → false, message "back soon" → "", paused true → false, reason sold_out → none`)
	require.Contains(t, lines[9], "anna   create")
	require.Len(t, strings.Split(strings.TrimSpace(o.ok("changes", "main", "--limit=2")), "\n"), 3)

	var d catalog.Document
	require.NoError(t, json.Unmarshal([]byte(o.ok("show", "main", "--json")), &d))
	require.Equal(t, queue.ID("main"), d.ID)
	require.Contains(t, o.ok("list", "--json"), `"queues": [`)
	require.Contains(t, o.ok("changes", "main", "--json"), `"who": "anna"`)
	require.Contains(t, o.ok("pause", "main", "--json"), `"paused": true`)

	require.Equal(t, "deleted main\n", o.ok("delete", "main", "--yes"))
	o.fails("queue main: there is no queue main (docs/runbook.md#queue_unknown)", "delete", "main", "--yes")
}

func TestSetSaysWhoWasFaster(t *testing.T) {
	o := operate(t)
	o.ok("create", "main", "--rate=50")
	o.first(func(r *http.Request) {
		if r.Method == http.MethodPut {
			message := "wait"
			_, err := o.Editor.Pause(o.Soon(), "bob", "main", &message, catalog.AnyVersion)
			require.NoError(t, err)
		}
	})
	_, err := o.do("set", "main", "--rate=60")
	require.ErrorContains(t, err, "queue main was changed while this was on its way: pause by bob at ")
	require.ErrorContains(t, err, `(message "" → "wait", paused false → true); nothing of yours is set: look at it, and run the command again`)
	o.first(nil)
	o.ok("set", "main", "--rate=60")
	e, _ := o.Follower.Get("main")
	require.Equal(t, []any{60.0, "wait", true}, []any{e.Settings.Rate, e.Settings.Message, e.Paused}, "his change is kept")
}

func TestQueueMistakes(t *testing.T) {
	o := operate(t)
	o.ok("create", "main")
	was := o.version("main")
	o.fails("queue main: no setting is given", "set", "main")
	o.fails("rate is 0.001 to 10000 people a second, not 0\nmax active is 1 to 10000000 admissions, or 0 for no limit, not -1 (docs/runbook.md#settings_invalid)",
		"set", "main", "--rate=0", "--max-active=-1")
	o.fails("--rate is a number of people a second, not NaN\n--polling: POSITION:INTERVAL[:JITTER] is wanted", "set", "main", "--rate=NaN", "--polling=1")
	o.fails("--approximate-sizes: AHEAD:MULTIPLE is wanted, as 1000:10, or none, not \"5\"", "create", "new", "--approximate-sizes=5")
	o.fails(`opensAt is a time as "2026-11-30T10:00:00Z", or null, not "soon"`, "create", "new", "--opens-at=soon")
	o.fails("a queue id is 1 to 64 of a-z, 0-9 and '-'", "create", "Main/1")
	for _, command := range []string{"show", "pause", "resume", "close", "changes", "set"} {
		args := []string{command, "A/../b"}
		if command == "set" {
			args = append(args, "--rate=5")
		}
		o.fails("queue A/../b: a queue id is 1 to 64", args...)
	}
	o.fails("a reason is 1 to 32 of a-z, 0-9 and '_'", "close", "main", "--reason=Sold out")
	require.Equal(t, was, o.version("main"))

	_, _, err := soonbeon(t, "queue", "list", "--token="+annas+"x", "--admin="+o.server.Listener.Addr().String())
	require.ErrorContains(t, err, "the operator's secret is not accepted")
	require.ErrorContains(t, err, "SOONBEON_OPERATOR_TOKEN")
	_, _, err = soonbeon(t, "queue", "list", "--token="+annas, "--admin=127.0.0.1:1")
	require.ErrorContains(t, err, "the private port at 127.0.0.1:1 does not answer: ")
	_, _, err = soonbeon(t, "queue", "list", "--token="+annas, "--admin=nowhere")
	require.ErrorContains(t, err, "--admin: host:port is wanted")
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	_, _, err = soonbeon(t, "queue", "list", "--token="+annas, "--admin="+other.Listener.Addr().String())
	require.ErrorContains(t, err, "is --admin the private port of a soonbeon?")
}

func TestTheOperatorsSecret(t *testing.T) {
	o := operate(t)
	address := "--admin=" + o.server.Listener.Addr().String()
	dir := t.TempDir()
	_, _, err := soonbeon(t, "queue", "list", address, "--data="+dir)
	require.ErrorContains(t, err, "no operator's secret: give one by --token or SOONBEON_OPERATOR_TOKEN")
	require.NoError(t, os.WriteFile(filepath.Join(dir, standalone.OperatorToken), []byte(bobs+"\n"), 0o600))
	_, _, err = soonbeon(t, "queue", "create", "main", address, "--data="+dir)
	require.NoError(t, err)
	t.Setenv("SOONBEON_OPERATOR_TOKEN", annas)
	_, _, err = soonbeon(t, "queue", "pause", "main", address, "--data="+dir)
	require.NoError(t, err)
	changes, err := o.Log.Changes(o.Soon(), "main", 10)
	require.NoError(t, err)
	require.Equal(t, []string{"anna", "bob"}, []string{changes[0].Who, changes[1].Who})
}

func TestDeleteHasTheNameTyped(t *testing.T) {
	o := operate(t)
	o.ok("create", "main")
	for _, typed := range []string{"", "y\n", "mai\n", "main2\n"} {
		require.ErrorContains(t, o.deletes(typed), "that is not its name, so nothing was deleted", typed)
		_, there := o.Follower.Get("main")
		require.True(t, there)
	}
	require.NoError(t, o.deletes(" main \n"))
	_, err := o.do("show", "main", "--json")
	require.Error(t, err)
}

// deletes runs a delete of main by somebody who types that.
func (o *operated) deletes(typed string) error {
	o.t.Helper()
	var asked bytes.Buffer
	c := queueDeleteCmd{in: strings.NewReader(typed)}
	c.ID, c.Token, c.Admin = "main", annas, o.server.Listener.Addr().String()
	err := c.Run(o.t.Context(), streams{out: &bytes.Buffer{}, err: &asked})
	require.Contains(o.t, asked.String(), "Queue main is open. 12 people wait in it, and 3 were let in and are not done.")
	return err
}
