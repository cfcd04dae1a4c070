package enter_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/golang-jwt/jwt/v5"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/enter"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mode is how a memoryLog behaves.
type mode int

const (
	works   mode = iota
	away         // nothing is written, nobody answers
	cut          // written, and the acknowledgement is lost
	busy         // the buffer is full
	noQueue      // the topic is gone
	closed       // stopping
	refuses      // an error that linelog doesn't name
	slow         // each append waits for one send on release
)

// memoryLog is a log for each queue, in memory, that fails as it is told to.
type memoryLog struct {
	mu      sync.Mutex
	mode    mode
	records map[queue.ID][]queue.Record
	arrived chan struct{} // in mode slow: one for each append that waits
	release chan struct{}
}

func newMemoryLog() *memoryLog {
	return &memoryLog{records: map[queue.ID][]queue.Record{}, arrived: make(chan struct{}, 10_000), release: make(chan struct{})}
}

func (l *memoryLog) Append(ctx context.Context, id queue.ID, rec queue.Record) (queue.Ticket, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	l.mu.Lock()
	now := l.mode
	l.mu.Unlock()
	switch now {
	case away:
		<-ctx.Done()
		return 0, fmt.Errorf("append: %w", linelog.ErrUnknown)
	case busy:
		return 0, fmt.Errorf("append: %w", linelog.ErrBusy)
	case noQueue:
		return 0, fmt.Errorf("append: %w", linelog.ErrNoQueue)
	case closed:
		return 0, fmt.Errorf("append: %w", linelog.ErrClosed)
	case refuses:
		return 0, fmt.Errorf("append: TOPIC_AUTHORIZATION_FAILED")
	case slow:
		l.arrived <- struct{}{}
		select {
		case <-l.release:
		case <-ctx.Done():
			return 0, fmt.Errorf("append: %w", linelog.ErrUnknown)
		}
	}
	l.mu.Lock()
	rec.Ticket = queue.Ticket(len(l.records[id]) + 1)
	l.records[id] = append(l.records[id], rec)
	l.mu.Unlock()
	if now == cut {
		<-ctx.Done()
		return 0, fmt.Errorf("append: %w", linelog.ErrUnknown)
	}
	return rec.Ticket, nil
}

func (l *memoryLog) set(m mode) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mode = m
}

func (l *memoryLog) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.records)
}

func (l *memoryLog) of(id queue.ID) []queue.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.records[id])
}

func (l *memoryLog) total() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, r := range l.records {
		n += len(r)
	}
	return n
}

// waiting folds a queue's log, as every view does, and returns who waits.
func (l *memoryLog) waiting(t testing.TB, id queue.ID) []queue.Waiting {
	t.Helper()
	view := line.New()
	for _, rec := range l.of(id) {
		require.True(t, view.Apply(rec.Ticket-1, []queue.Record{rec}))
	}
	return slices.Collect(view.Waiting())
}

var (
	// 2025-11-30T12:00:00Z, so that tokens can be made for before and after.
	noon    = time.Date(2025, 11, 30, 12, 0, 0, 0, time.UTC)
	siteKey = []byte(strings.Repeat("s", 32))
)

// fixture is the service as it is served, on a memoryLog.
type fixture struct {
	e    *echo.Echo
	log  *memoryLog
	keys *pass.Keys
	reg  *prometheus.Registry
	logs *observer.ObservedLogs

	queues enter.Fixed
}

func newFixture(t testing.TB, change ...func(*enter.Config)) *fixture {
	t.Helper()
	keys, err := pass.ParseKeys("a:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	require.NoError(t, err)
	site, err := pass.ParseSiteKeys("s:" + base64.StdEncoding.EncodeToString(siteKey))
	require.NoError(t, err)
	queues := enter.Only("main", "other")
	queues["main"].Made = 3
	cfg := enter.Config{
		Queues:   queues,
		SiteKeys: site,
		IDSecret: []byte(strings.Repeat("i", 32)),
		Rand:     func() float64 { return 0.5 },
		Now:      func() time.Time { return noon },
	}
	for _, f := range change {
		f(&cfg)
	}
	core, logs := observer.New(zap.DebugLevel)
	f := &fixture{log: newMemoryLog(), keys: keys, reg: prometheus.NewRegistry(), logs: logs, queues: queues}
	f.e, err = httpapi.New(httpapi.Config{}, zap.New(core), f.reg)
	require.NoError(t, err)
	s, err := enter.New(cfg, f.log, keys, zap.New(core), f.reg)
	require.NoError(t, err)
	s.Register(f.e)
	return f
}

func signed(c *enter.Config) { c.Identity = enter.Signed }

// answer is any answer of the two routes.
type answer struct {
	Status, Queue, Visitor, Receipt, ExpiresAt string // Status of a problem is its Code
	Ticket, RetryAfterMs                       int64
	Code, Detail, Reason                       string
	Position                                   int64
	body                                       string
	http                                       int
	header                                     http.Header
}

type option func(*http.Request)

func bearer(token string) option {
	return func(r *http.Request) { r.Header.Add("Authorization", "Bearer "+token) }
}
func cookie(value string) option {
	return func(r *http.Request) { r.Header.Add("Cookie", "__Host-soonbeon-main="+value) }
}
func key(k string) option {
	return func(r *http.Request) { r.Header["Idempotency-Key"] = append(r.Header["Idempotency-Key"], k) }
}
func header(name, value string) option {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func (f *fixture) do(t testing.TB, path, body string, options ...option) answer {
	t.Helper()
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for _, o := range options {
		o(r)
	}
	return f.send(t, r)
}

// method asks for path in another way than by POST.
func (f *fixture) method(t testing.TB, method, path string) answer {
	t.Helper()
	return f.send(t, httptest.NewRequest(method, path, nil))
}

func (f *fixture) send(t testing.TB, r *http.Request) answer {
	t.Helper()
	w := httptest.NewRecorder()
	f.e.ServeHTTP(w, r)
	var raw struct {
		Status       any    `json:"status"`
		Queue        string `json:"queue"`
		Visitor      string `json:"visitor"`
		Receipt      string `json:"receipt"`
		ExpiresAt    string `json:"expiresAt"`
		Ticket       int64  `json:"ticket"`
		RetryAfterMs int64  `json:"retryAfterMs"`
		Code         string `json:"code"`
		Detail       string `json:"detail"`
		Reason       string `json:"reason"`
		Position     int64  `json:"position"`
	}
	body := w.Body.String()
	require.NoError(t, json.Unmarshal([]byte(body), &raw), "body: %s", body)
	status, _ := raw.Status.(string)
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	return answer{
		status, raw.Queue, raw.Visitor, raw.Receipt, raw.ExpiresAt, raw.Ticket, raw.RetryAfterMs, raw.Code, raw.Detail, raw.Reason, raw.Position, body, w.Code, w.Header(),
	}
}

const (
	intoMain  = `{"queue":"main"}`
	enterPath = "/queue/enter"
	leavePath = "/queue/leave"
	donePath  = "/queue/complete"
	uuid      = "3f2a8c1e-77b4-4c0e-9d55-0a1b2c3d4e5f"
)

// accepted enters and requires that it worked.
func (f *fixture) accepted(t testing.TB, options ...option) answer {
	t.Helper()
	a := f.do(t, enterPath, intoMain, options...)
	require.Equal(t, 202, a.http, "%s: %s", a.Code, a.Detail)
	return a
}

func (f *fixture) receipt(t testing.TB, id queue.ID, visitor string) string {
	t.Helper()
	s, err := f.keys.SignReceipt(pass.Receipt{Queue: id, Visitor: visitor, Ticket: 1, Ahead: queue.NoAhead, IssuedMs: noon.UnixMilli()})
	require.NoError(t, err)
	return s
}

// entry is an entry token that ends at noon plus left.
func (f *fixture) entry(t testing.TB, id queue.ID, visitor string, left time.Duration) string {
	t.Helper()
	s, err := f.keys.SignEntry(pass.Entry{
		Queue: id, Visitor: visitor, Ticket: 1, AdmittedMs: noon.Add(left - 5*time.Minute).UnixMilli(), ExpiresMs: noon.Add(left).UnixMilli(),
	})
	require.NoError(t, err)
	return s
}

// identity is a token as the site signs it.
func identity(t testing.TB, visitor string, left time.Duration) string {
	t.Helper()
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{Subject: visitor, ExpiresAt: jwt.NewNumericDate(noon.Add(left))})
	token.Header["kid"] = "s"
	s, err := token.SignedString(siteKey)
	require.NoError(t, err)
	return s
}
