package dashboard

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/follow"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	annas    = "anna-anna-anna-anna-anna-anna-anna"
	bobs     = "bob-bob-bob-bob-bob-bob-bob-bob-bob"
	patience = 30 * time.Second
)

// world is queues that do what a test says.
type world struct {
	mu       sync.Mutex
	entries  []*queue.Entry
	readings map[queue.ID]*reading
	why      map[queue.ID]string
	applied  map[queue.ID]queue.Ticket
	away     bool
	asked    int
}

type reading struct {
	mu      sync.Mutex
	noLine  bool
	live    follow.Live
	waits   follow.Waits
	batches []follow.Batch
	claim   queue.Record
	trouble error
}

func (r *reading) change(f func()) { r.mu.Lock(); defer r.mu.Unlock(); f() }

func (r *reading) KeepsLine() bool              { r.mu.Lock(); defer r.mu.Unlock(); return !r.noLine }
func (r *reading) Live(time.Time) follow.Live   { r.mu.Lock(); defer r.mu.Unlock(); return r.live }
func (r *reading) Waits(time.Time) follow.Waits { r.mu.Lock(); defer r.mu.Unlock(); return r.waits }
func (r *reading) Claim() queue.Record          { r.mu.Lock(); defer r.mu.Unlock(); return r.claim }
func (r *reading) Trouble() error               { r.mu.Lock(); defer r.mu.Unlock(); return r.trouble }

func (r *reading) Recent(atMs int64) (out []follow.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.batches {
		if b.AtMs > atMs-1000 {
			out = append(out, b)
		}
	}
	return out
}

func newWorld(ids ...queue.ID) *world {
	w := &world{readings: map[queue.ID]*reading{}, why: map[queue.ID]string{}, applied: map[queue.ID]queue.Ticket{}}
	for _, id := range ids {
		w.make(id, 1)
	}
	return w
}

func (w *world) change(f func()) { w.mu.Lock(); defer w.mu.Unlock(); f() }

func (w *world) make(id queue.ID, version int64) {
	w.entries = append(w.entries, &queue.Entry{ID: id, Version: version, Made: version, Settings: queue.DefaultSettings()})
	w.readings[id] = &reading{}
}

func (w *world) config() Config {
	operators, err := httpapi.ParseCredentials("anna:" + annas + ",bob:" + bobs)
	if err != nil {
		panic(err)
	}
	return Config{
		Queues: func() []*queue.Entry {
			w.mu.Lock()
			defer w.mu.Unlock()
			return append([]*queue.Entry(nil), w.entries...)
		},
		Reading: func(id queue.ID) (Reading, bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			r, ok := w.readings[id]
			return r, ok
		},
		Why: func(id queue.ID) string { w.mu.Lock(); defer w.mu.Unlock(); return w.why[id] },
		Applied: func(_ context.Context, id queue.ID) (queue.Ticket, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.asked++; w.away {
				return 0, context.DeadlineExceeded
			}
			return w.applied[id], nil
		},
		Operators: operators, Look: 5 * time.Millisecond, Sample: 20 * time.Millisecond,
	}
}

// open starts a Service and serves it; both end with the test.
func open(t *testing.T, cfg Config) (*Service, string) {
	t.Helper()
	return openWith(t, cfg, nil)
}

func openWith(t *testing.T, cfg Config, reg prometheus.Registerer) (*Service, string) {
	t.Helper()
	s, err := New(cfg, zap.NewNop(), reg)
	require.NoError(t, err)
	e, err := httpapi.New(httpapi.Config{}, zap.NewNop(), prometheus.NewRegistry())
	require.NoError(t, err)
	s.Register(e)
	server := httpapi.NewServer(httpapi.ServerConfig{Name: "private", Address: "127.0.0.1:0"}, e, zap.NewNop())
	require.NoError(t, server.Start(t.Context()))
	require.NoError(t, s.Start(t.Context()))
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		require.NoError(t, s.Stop(context.Background()))
		require.NoError(t, server.Stop(context.Background()))
	})
	return s, "http://" + server.Addr()
}

// stream is an operator's.
type stream struct {
	t    *testing.T
	body *bufio.Reader
	shut func()
}

func watch(t *testing.T, url string) *stream {
	t.Helper()
	res := get(t, url, "Bearer "+annas)
	require.Equal(t, 200, res.StatusCode)
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	require.Equal(t, "no", res.Header.Get("X-Accel-Buffering"))
	return &stream{t, bufio.NewReader(res.Body), func() { _ = res.Body.Close() }}
}

func get(t *testing.T, url, authorization string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	require.NoError(t, err)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// next is the next event of that kind; others are passed over.
func (s *stream) next(kind string, into any) {
	s.t.Helper()
	for {
		got, data := s.any()
		require.NotEmpty(s.t, got, "the stream has ended before a %s", kind)
		if got == kind {
			require.NoError(s.t, json.Unmarshal([]byte(data), into), data)
			return
		}
	}
}

// any is the next event or ":", the kind "" at the end.
func (s *stream) any() (kind, data string) {
	for {
		line, err := s.body.ReadString('\n')
		if err != nil {
			return "", ""
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == ":":
			return ":", ""
		case line == "" && kind != "":
			return kind, data
		}
		if v, ok := strings.CutPrefix(line, "event: "); ok {
			kind = v
		}
		if v, ok := strings.CutPrefix(line, "data: "); ok {
			data = v
		}
	}
}

// shown is a row as a client reads it.
type shown struct {
	IDs    []queue.ID `json:"ids"`
	Queues []row      `json:"queues"`
}

// until takes rows until one of id is as wanted.
func (s *stream) until(id queue.ID, wanted func(row) bool) row {
	s.t.Helper()
	for {
		var got shown
		s.next("rows", &got)
		for _, r := range got.Queues {
			if r.ID == id && wanted(r) {
				return r
			}
		}
	}
}

func record(t *testing.T, s *Service, method, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	e, err := httpapi.New(httpapi.Config{}, zap.NewNop(), prometheus.NewRegistry())
	require.NoError(t, err)
	s.Register(e)
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	return w
}
