package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/load"
)

// ack is an acknowledged entry, as the visitor was told.
type ack struct {
	Visitor string       `json:"visitor"`
	Ticket  queue.Ticket `json:"ticket"`
	Receipt string       `json:"receipt"`
}

// witness stands between a crowd and its target and writes down what the crowd was promised.
type witness struct {
	http  *http.Transport
	heard func(req *http.Request, sent time.Time, body []byte) // of each answer that is a success; may be nil

	mu     sync.Mutex
	acks   []ack
	ackAt  []time.Time
	tokens map[string]bool // every entry token that was handed out
}

func newWitness() *witness {
	return &witness{tokens: map[string]bool{},
		http: &http.Transport{MaxIdleConns: 256, MaxIdleConnsPerHost: 256, MaxConnsPerHost: 256, IdleConnTimeout: 15 * time.Second}}
}

// RoundTrip is that of http.RoundTripper.
func (w *witness) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := time.Now()
	res, err := w.http.RoundTrip(req)
	if err != nil || res.StatusCode >= 300 {
		return res, err
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	if w.heard != nil {
		w.heard(req, sent, body)
	}
	var told struct {
		ack
		Status string `json:"status"`
		Token  string `json:"token"`
	}
	if err := json.Unmarshal(body, &told); err != nil {
		return res, nil // the crowd says so itself
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case told.Status == "accepted":
		w.acks, w.ackAt = append(w.acks, told.ack), append(w.ackAt, time.Now())
	case told.Token != "":
		w.tokens[told.Token] = true
	}
	return res, nil
}

func (w *witness) accepted() int { w.mu.Lock(); defer w.mu.Unlock(); return len(w.acks) }
func (w *witness) admitted() int { w.mu.Lock(); defer w.mu.Unlock(); return len(w.tokens) }

// arrived is how many different visitors were acknowledged.
func (w *witness) arrived() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[queue.Visitor]bool{}
	for _, a := range w.acks {
		all[a.Visitor] = true
	}
	return len(all)
}

// silentAfter is how long after a moment nobody was acknowledged.
func (w *witness) silentAfter(at time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	longest := time.Duration(0)
	for i := 1; i < len(w.ackAt); i++ {
		if w.ackAt[i].After(at) {
			longest = max(longest, w.ackAt[i].Sub(w.ackAt[i-1]))
		}
	}
	return longest
}

func (w *witness) promised() (acks []ack, tokens []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for token := range w.tokens {
		tokens = append(tokens, token)
	}
	return append(acks, w.acks...), tokens
}

// entries are the admissions of the tokens that were handed out, each checked with the keys.
func (w *witness) entries(t testing.TB, keys string, id queue.ID) []pass.Entry {
	t.Helper()
	k, err := pass.ParseKeys(keys)
	require.NoError(t, err)
	_, tokens := w.promised()
	var all []pass.Entry
	for _, token := range tokens {
		e, err := k.VerifyEntry(token, id, time.Now())
		require.NoError(t, err)
		all = append(all, e)
	}
	return all
}

// crowd is a load that runs in the background.
type crowd struct {
	*witness
	done   chan struct{}
	cancel context.CancelFunc
	report *load.Report
	err    error
}

// send sends a crowd and returns at once. It is called back with the test.
func send(t testing.TB, cfg load.Config) *crowd {
	t.Helper()
	return sendWith(t, cfg, newWitness())
}

// sendWith sends a crowd with a witness that was made before.
func sendWith(t testing.TB, cfg load.Config, w *witness) *crowd {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &crowd{witness: w, done: make(chan struct{}), cancel: cancel}
	cfg.Transport, cfg.JSON = c.witness, true
	go func() {
		defer close(c.done)
		c.report, c.err = load.Run(ctx, cfg, io.Discard)
		c.http.CloseIdleConnections()
	}()
	t.Cleanup(func() { cancel(); <-c.done })
	return c
}

func (c *crowd) underWay() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// held waits until the crowd's story has ended, and requires that every promise to it was kept.
func (c *crowd) held(t testing.TB, within time.Duration) *load.Report {
	t.Helper()
	select {
	case <-c.done:
	case <-time.After(within):
		require.Failf(t, "the crowd is not through", "%v after it was last looked at: %d acknowledged, %d admitted", within, c.accepted(), c.admitted())
	}
	require.NoError(t, c.err)
	require.True(t, c.report.OK(), "a promise was broken:\n%s", c.report.Text())
	return c.report
}

// called sends the crowd away and returns what it knows by then.
func (c *crowd) called(t testing.TB) *load.Report {
	t.Helper()
	c.cancel()
	<-c.done
	require.NoError(t, c.err)
	require.Empty(t, c.report.Broken, "a promise was broken:\n%s", c.report.Text())
	return c.report
}

// summary is the part of `soonbeon load --json` that is looked at here.
type summary struct {
	OK       bool `json:"ok"`
	Verified bool
	Accepted int
	Admitted int
	Waiting  int
	Cut      string
	Order    load.Order
	Rate     load.Rate
	Broken   []load.Breach
	Errors   []load.ErrorCount
}

// loadCommand runs `soonbeon load --json args…`.
func loadCommand(t testing.TB, args ...string) (summary, result) {
	t.Helper()
	r := run(t, nil, append([]string{"load", "--json"}, args...)...)
	var s summary
	require.NoError(t, json.Unmarshal([]byte(r.out), &s), "%+v", r)
	return s, r
}
