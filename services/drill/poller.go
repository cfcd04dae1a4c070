package drill

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/httpapi"
	"github.com/soonbeon/soonbeon/services/load"
)

const (
	requestTimeout = 10 * time.Second
	maxAnswer      = 64 << 10 // bytes that are read of an answer
	maxKinds       = 50       // of errors that are told apart, whatever a target answers
)

// What pollers see broken; the names are part of the report.
const (
	brokenRose    = "position_rose"    // while its owner only asked
	brokenBounds  = "position_bounds"  // below 1, or above the total
	brokenAnswer  = "answer_malformed" // a success without what the contract promises
	brokenReceipt = "receipt_refused"  // a receipt that the target itself gave out
	brokenLost    = "lost"             // acknowledged, and told that the wait is over without having been let in
)

// Watchers is what the pollers met.
type Watchers struct {
	Pollers     int64             `json:"pollers"`
	Came        int64             `json:"came"`     // entries that were acknowledged
	Admitted    int64             `json:"admitted"` // people among them who got their token
	Polls       int64             `json:"polls"`    // answers that told a place, or that it is over
	Exact       int64             `json:"exact"`
	Approximate int64             `json:"approximate"`
	SawError    int64             `json:"sawError"`   // pollers that did
	Errors      []load.ErrorCount `json:"errors"`     // answers other than a success, most frequent first
	Unexpected  int64             `json:"unexpected"` // errors that are not a 503 with a documented code, or a queue that is closed
	Broken      []load.Breach     `json:"broken"`
	Whole       load.Latency      `json:"whole"`  // of positions before the break and after all was as before
	Outage      load.Latency      `json:"outage"` // of positions between
}

// sight is where pollers report to; *timeline is one.
type sight interface {
	told(at time.Time, exact bool, total int64)
	error(at time.Time, poller int, kind string, first bool)
}

// pollers stand in line to watch. Each is a visitor who asks more often than told, with its newest receipt, and comes again
// as somebody new when it was let in.
type pollers struct {
	n      int
	every  time.Duration
	queue  string
	http   *http.Client
	enter  []string
	ask    []string
	sight  sight
	enough chan struct{} // closed when nobody is to come again

	mu            sync.Mutex
	w             Watchers
	errors        map[[2]string]int64
	broken        map[string]*load.Breach
	whole, outage load.Histogram
	inOutage      bool
}

func newPollers(cfg Config, target []string, transport http.RoundTripper, s sight) *pollers {
	enter, ask := cfg.Enter, cfg.Position
	if len(enter) == 0 {
		enter = target
	}
	if len(ask) == 0 {
		ask = target
	}
	return &pollers{
		n: cfg.Pollers, every: cfg.PollEvery, queue: cfg.Queue, sight: s, enough: make(chan struct{}),
		http: &http.Client{Transport: transport, Timeout: requestTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		enter: addresses(enter, "/queue/enter"), ask: addresses(ask, "/queue/position?queue="+url.QueryEscape(cfg.Queue)),
		errors: map[[2]string]int64{}, broken: map[string]*load.Breach{},
	}
}

func addresses(bases []string, path string) []string {
	out := make([]string, len(bases))
	for i, b := range bases {
		out[i] = strings.TrimRight(b, "/") + path
	}
	return out
}

// knock asks each address once, so that a wrong one is told before anybody comes or anything is broken.
func (p *pollers) knock(ctx context.Context) error {
	for _, at := range p.ask {
		a := p.do(ctx, http.MethodGet, at, "", "")
		if a.err != nil {
			u, _ := url.Parse(at)
			return fmt.Errorf("nothing answers at %s://%s (%s): start it first, or name another address with --target: %w", u.Scheme, u.Host, a.kind, a.err)
		}
		if a.kind == "404 "+string(httpapi.QueueUnknown) {
			return fmt.Errorf("%s: there is no queue %s", at, p.queue)
		}
	}
	return nil
}

// run plays all pollers until nobody is to come again and the last one is in, or ctx ends. They come over the time of one
// poll, so that they do not ask all at once.
func (p *pollers) run(ctx context.Context) {
	var all sync.WaitGroup
	for i := range p.n {
		all.Go(func() {
			if lifecycle.Pause(ctx, p.every*time.Duration(i)/time.Duration(p.n)) == nil {
				p.play(ctx, i)
			}
		})
	}
	all.Wait()
}

func (p *pollers) play(ctx context.Context, i int) {
	for n := 0; ; n++ {
		select {
		case <-p.enough:
			return
		default:
		}
		receipt, ok := p.comes(ctx, i, n)
		if !ok || !p.waits(ctx, i, receipt) {
			return
		}
	}
}

// comes enters, as often as it takes, always with the same key. ok is false when it is not to come, or may not.
func (p *pollers) comes(ctx context.Context, i, n int) (receipt string, ok bool) {
	key := queue.NewVisitor() // 128 random bits are what a key is, too
	for {
		a := p.do(ctx, http.MethodPost, p.enter[(i+n)%len(p.enter)], "", key)
		if ctx.Err() != nil {
			return "", false
		}
		if a.status == http.StatusAccepted {
			var ack struct {
				Ticket  int64  `json:"ticket"`
				Receipt string `json:"receipt"`
			}
			if json.Unmarshal(a.body, &ack) != nil || ack.Ticket < 1 || ack.Receipt == "" {
				p.breach(brokenAnswer, "poller %d: a 202 without ticket or receipt", i+1)
				return "", false
			}
			p.mu.Lock()
			p.w.Came++
			p.mu.Unlock()
			return ack.Receipt, true
		}
		p.failed(a, i, "enter")
		if a.refused() {
			return "", false
		}
		select {
		case <-p.enough:
			return "", false
		default:
		}
		if lifecycle.Pause(ctx, p.every) != nil {
			return "", false
		}
	}
}

// place is an answer to "where am I".
type place struct {
	State        string `json:"state"`
	Reason       string `json:"reason"`
	Order        string `json:"order"`    // draw, where lots are to be drawn
	Position     int64  `json:"position"` // 0: nobody has one before that
	Total        int64  `json:"total"`
	Precision    string `json:"precision"`
	Receipt      string `json:"receipt"`
	Token        string `json:"token"`
	RetryAfterMs int64  `json:"retryAfterMs"`
}

// waits asks until it is let in; false says that it won't be.
func (p *pollers) waits(ctx context.Context, i int, receipt string) bool {
	next, last := time.Now(), int64(0)
	pause := p.every
	for n := 0; ; n++ {
		// On a grid, so that the pollers stay spread over the time of one poll, and that a slow answer is not asked for twice.
		for next = next.Add(pause); next.Before(time.Now()); next = next.Add(pause) {
		}
		if lifecycle.Pause(ctx, time.Until(next)) != nil {
			return false
		}
		a := p.do(ctx, http.MethodGet, p.ask[(i+n)%len(p.ask)], receipt, "")
		if ctx.Err() != nil {
			return false
		}
		if a.status != http.StatusOK {
			p.failed(a, i, "position")
			if a.refused() {
				p.breach(brokenReceipt, "poller %d: its receipt was answered with %s", i+1, a.kind)
				return false
			}
			continue
		}
		var at place
		_ = json.Unmarshal(a.body, &at)
		p.answered(a, at)
		switch {
		case at.State == "admitted" && at.Token != "":
			return true
		case at.State == "waiting" && (at.Precision == "exact" || at.Precision == "approximate"):
		case at.State == "over" && load.EndedBy(at.Reason):
			return false // the operators have ended the line
		case at.State == "over":
			p.breach(brokenLost, "poller %d was told that its wait is over, and it was never let in", i+1)
			return true
		default:
			p.breach(brokenAnswer, "poller %d: an answer without a known state, a token, or a precision", i+1)
			continue
		}
		exact := at.Precision == "exact"
		p.sight.told(a.at, exact, at.Total)
		switch {
		case at.Position == 0 && at.Order == queue.ByDraw.String():
		case at.Position < 1 || exact && at.Total < at.Position:
			p.breach(brokenBounds, "poller %d: position %d of %d", i+1, at.Position, at.Total)
		case last > 0 && at.Position > last:
			p.breach(brokenRose, "poller %d: from %d to %d", i+1, last, at.Position)
		}
		if at.Position > 0 {
			last = at.Position
		}
		if at.Receipt != "" {
			receipt = at.Receipt
		}
		select {
		case <-p.enough: // there is nothing more to watch
			pause = max(p.every, time.Duration(min(at.RetryAfterMs, time.Minute.Milliseconds()))*time.Millisecond)
		default:
		}
	}
}

// outageBegins and outageEnds say which of the two latencies counts.
func (p *pollers) outageBegins() { p.mu.Lock(); p.inOutage = true; p.mu.Unlock() }
func (p *pollers) outageEnds()   { p.mu.Lock(); p.inOutage = false; p.mu.Unlock() }

func (p *pollers) answered(a answer, at place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.w.Polls++
	switch {
	case at.State == "admitted":
		p.w.Admitted++
	case at.Precision == "exact":
		p.w.Exact++
	case at.Precision == "approximate":
		p.w.Approximate++
	}
	if p.inOutage {
		p.outage.Add(a.took)
	} else {
		p.whole.Add(a.took)
	}
}

func (p *pollers) failed(a answer, i int, step string) {
	p.mu.Lock()
	k := [2]string{step, a.kind}
	if _, known := p.errors[k]; !known && len(p.errors) >= maxKinds {
		k[1] = "other"
	}
	p.errors[k]++
	first := p.errors[k] == 1
	if !a.documented {
		p.w.Unexpected++
	}
	p.mu.Unlock()
	p.sight.error(a.at, i, step+": "+k[1], first)
}

func (p *pollers) breach(name, format string, a ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.broken[name]
	if b == nil {
		b = &load.Breach{Invariant: name, First: fmt.Sprintf(format, a...)}
		p.broken[name] = b
	}
	b.Count++
}

// report is what they met so far.
func (p *pollers) report() Watchers {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.w
	w.Pollers, w.Errors, w.Broken = int64(p.n), []load.ErrorCount{}, []load.Breach{}
	w.Whole, w.Outage = p.whole.Latency(), p.outage.Latency()
	for k, n := range p.errors {
		w.Errors = append(w.Errors, load.ErrorCount{Step: k[0], Kind: k[1], Count: n})
	}
	slices.SortFunc(w.Errors, func(a, b load.ErrorCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Step, b.Step), cmp.Compare(a.Kind, b.Kind))
	})
	for _, b := range p.broken {
		w.Broken = append(w.Broken, *b)
	}
	slices.SortFunc(w.Broken, func(a, b load.Breach) int { return cmp.Compare(a.Invariant, b.Invariant) })
	return w
}

// answer is what came back.
type answer struct {
	at         time.Time // when
	took       time.Duration
	status     int
	body       []byte
	kind       string // where it is no success: "503 view_unavailable", "timeout", …
	documented bool   // a 503 with a code of ours, or 410 queue_closed
	err        error  // there was no answer
}

// refused says that asking again helps nothing.
func (a answer) refused() bool {
	return a.status >= 400 && a.status < 500 && a.status != http.StatusTooManyRequests && a.status != http.StatusRequestTimeout
}

func (p *pollers) do(ctx context.Context, method, at, receipt, key string) answer {
	var body io.Reader
	if method == http.MethodPost {
		// No more than a Reader: with GetBody, the transport would quietly send an entry again.
		body = io.NopCloser(strings.NewReader(fmt.Sprintf(`{"queue":%q}`, p.queue)))
	}
	req, err := http.NewRequestWithContext(ctx, method, at, body)
	if err != nil {
		return answer{kind: "no request", err: err}
	}
	req.Header.Set("User-Agent", "soonbeon-drill")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", key)
	}
	if receipt != "" {
		req.Header.Set("Authorization", "Bearer "+receipt)
	}
	began := time.Now()
	res, err := p.http.Do(req)
	a := answer{}
	if err == nil {
		a.status = res.StatusCode
		a.body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer))
		_ = res.Body.Close()
	}
	a.at = time.Now()
	a.took = a.at.Sub(began)
	if err != nil {
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err // method and address are known
		}
		a.status, a.kind, a.err = 0, failureOf(err), err
		return a
	}
	if a.status < 300 {
		return a
	}
	a.kind = fmt.Sprint(a.status)
	var problem struct {
		Code httpapi.Code `json:"code"`
	}
	if json.Unmarshal(a.body, &problem) == nil {
		for _, c := range httpapi.Codes() {
			if c.Code == problem.Code && c.Status == a.status {
				a.kind += " " + string(c.Code)
				a.documented = a.status == http.StatusServiceUnavailable || c.Code == httpapi.QueueClosed
			}
		}
	}
	return a
}

// failureOf names the kind of a failure, from a small fixed set.
func failureOf(err error) string {
	var ne net.Error
	switch {
	case errors.As(err, &ne) && ne.Timeout(), errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection lost"
	}
	return "no answer"
}
