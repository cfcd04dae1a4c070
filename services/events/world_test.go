package events

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a queue whose line a test moves, with a reading of its log and a position service that tells of it. Its bearer
// tokens are the visitors' names.
type world struct {
	t       testing.TB
	service *Service
	server  *httpapi.Server
	reg     *prometheus.Registry

	mu      sync.Mutex
	line    *line.Line
	changed chan struct{}
	version int64
	message string
	gone    bool
	untold  bool
	asked   []pass.Receipt
}

// options of a world, beyond what is quick enough for tests.
type options struct {
	events func(*Config)
	server func(*httpapi.ServerConfig)
}

func newWorld(t testing.TB, o options) *world {
	t.Helper()
	w := &world{t: t, line: line.New(), changed: make(chan struct{}), reg: prometheus.NewRegistry()}
	cfg := Config{Answers: w, Find: w.find, Tick: time.Millisecond}
	if o.events != nil {
		o.events(&cfg)
	}
	var err error
	w.service, err = New(cfg, w.reg)
	require.NoError(t, err)
	e, err := httpapi.New(httpapi.Config{}, zap.NewNop(), w.reg)
	require.NoError(t, err)
	w.service.Register(e)
	sc := httpapi.ServerConfig{Name: "public", Address: "127.0.0.1:0"}
	if o.server != nil {
		o.server(&sc)
	}
	w.server = httpapi.NewServer(sc, e, zap.NewNop())
	require.NoError(t, w.server.Start(t.Context()))
	require.NoError(t, w.service.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(t, w.service.Stop(ctx))
		require.NoError(t, w.server.Stop(ctx))
	})
	w.apply(queue.Record{Kind: queue.Claimed, Mode: queue.ModeDirect})
	return w
}

// apply appends records to the log.
func (w *world) apply(recs ...queue.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seq := w.line.State().Seq
	for i := range recs {
		recs[i].Ticket, recs[i].AtMs = seq+1+queue.Ticket(i), time.Now().UnixMilli()
	}
	w.line.Apply(seq, recs)
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *world) enter(visitors ...string) {
	var recs []queue.Record
	for _, v := range visitors {
		recs = append(recs, queue.Record{Kind: queue.Entered, Visitor: queue.Visitor(v)})
	}
	w.apply(recs...)
}

// crowd is n visitors: v1, v2, and so on.
func crowd(n int) []string {
	var all []string
	for i := range n {
		all = append(all, "v"+strconv.Itoa(i+1))
	}
	return all
}

// admit lets those who are named in; they are first in line, in this order.
func (w *world) admit(visitors ...string) {
	r := queue.Record{Kind: queue.Admitted, Epoch: w.State().Epoch}
	for _, v := range visitors {
		_, p, _ := w.Place(queue.Visitor(v))
		r.People = append(r.People, queue.Person{Visitor: queue.Visitor(v), Ticket: p.Ticket, ExpiresMs: time.Now().Add(time.Minute).UnixMilli()})
	}
	w.apply(r)
}

// change is what an operator does.
func (w *world) change(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
	w.version++
}

func (w *world) find(id queue.ID) (Reading, int64, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w, w.version, id == "main" && !w.gone
}

func (w *world) State() queue.State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.line.State()
}

func (w *world) Grant(v queue.Visitor, now time.Time) (queue.Grant, line.GrantState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.line.Grant(v, now.UnixMilli())
}

func (w *world) Place(v queue.Visitor) (queue.Moment, queue.Place, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, _ := w.line.Place(v)
	return queue.Moment{State: w.line.State(), Total: w.line.Total()}, p, nil
}

func (w *world) WaitFor(ctx context.Context, t queue.Ticket) error {
	for {
		w.mu.Lock()
		changed, there := w.changed, w.line.State().Seq >= t
		w.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (w *world) Receipt(r *http.Request) (pass.Receipt, httpapi.Source, error) {
	token, err := httpapi.Bearer(r)
	if err != nil || token == "" {
		return pass.Receipt{}, httpapi.FromNowhere, httpapi.Problemf(httpapi.CredentialMissing, "no receipt")
	}
	return pass.Receipt{Queue: "main", Visitor: queue.Visitor(token), Ahead: queue.NoAhead}, httpapi.FromCookie, nil
}

func (w *world) Tell(_ context.Context, r pass.Receipt, b []byte) (Told, error) {
	grant, gs := w.Grant(r.Visitor, time.Now())
	m, p, _ := w.Place(r.Visitor)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, r)
	switch {
	case w.gone:
		return Told{}, httpapi.Problemf(httpapi.QueueUnknown, "gone")
	case w.untold:
		return Told{}, httpapi.Problemf(httpapi.ViewUnavailable, "away").After(time.Second)
	case gs == line.Live:
		b = fmt.Appendf(b[:0], `{"state":"admitted","token":"%s-%d"}`, r.Visitor, grant.Ticket)
		return Told{State: "admitted", Body: b, Lasting: len(b), Receipt: r}, nil
	case p.Ticket == 0:
		b = append(b[:0], `{"state":"over","reason":"left"}`...)
		return Told{State: "over", Body: b, Lasting: len(b), Receipt: r}, nil
	}
	b = fmt.Appendf(b[:0], `{"state":"waiting","position":%d,"total":%d,"message":"%s"`, p.Ahead+1, m.Total, w.message)
	t := Told{State: "waiting", Position: p.Ahead + 1, Exact: true, RetryAfter: 2300 * time.Millisecond, Lasting: len(b), Signed: "signed", Receipt: r}
	t.Receipt.Ahead = p.Ahead
	t.Body = fmt.Appendf(b, `,"drawn":%d}`, len(w.asked))
	return t, nil
}

// client is a stream that a test reads.
type client struct {
	t      testing.TB
	res    *http.Response
	lines  *bufio.Reader
	cancel context.CancelFunc
}

// event is one as it came: its fields by name, and "" for a comment.
type event map[string]string

// open asks for a stream. The test ends it if nobody else does.
func (w *world) open(visitor string, headers ...string) *client {
	w.t.Helper()
	return openAt(w.t, "http://"+w.server.Addr(), visitor, headers...)
}

func openAt(t testing.TB, base, visitor string, headers ...string) *client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	r, err := http.NewRequestWithContext(ctx, "GET", base+"/queue/events?queue=main", nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+visitor)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	tr := &http.Transport{DialContext: (&net.Dialer{}).DialContext}
	res, err := tr.RoundTrip(r)
	require.NoError(t, err)
	c := &client{t: t, res: res, lines: bufio.NewReader(res.Body), cancel: cancel}
	t.Cleanup(c.close)
	return c
}

func (c *client) close() {
	c.cancel()
	_ = c.res.Body.Close()
}

// read is the next event or comment; the error is how the stream ended.
func (c *client) read() (event, error) {
	e := event{}
	for {
		text, err := c.lines.ReadString('\n')
		switch text = strings.TrimSuffix(text, "\n"); {
		case err != nil:
			return nil, err
		case text == "":
			return e, nil
		}
		name, value, ok := strings.Cut(text, ":")
		require.True(c.t, ok, text)
		e[name] = strings.TrimPrefix(value, " ")
	}
}

// next is the next event that is no comment.
func (c *client) next() event {
	c.t.Helper()
	for {
		e, err := c.read()
		require.NoError(c.t, err)
		if e["event"] != "" {
			return e
		}
	}
}

// data is that of the next event that contains what.
func (c *client) until(what string) event {
	c.t.Helper()
	for {
		if e := c.next(); strings.Contains(e["event"]+e["data"], what) {
			return e
		}
	}
}
