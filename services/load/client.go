package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// maxAnswer bounds what is read of one answer, in bytes.
const maxAnswer = 64 << 10

// client speaks the waiting room's HTTP contract. It never retries by itself: whether an answer was lost matters to
// the checks, so each attempt is the visitor's.
type client struct {
	http     *http.Client
	own      *http.Transport // nil when the transport was given
	timeout  time.Duration
	enterAt  []*url.URL
	askAt    []*url.URL
	lotsAt   []*url.URL
	enterFor string // the body of every enter
}

func newClient(cfg Config) (*client, error) {
	c := &client{timeout: cfg.RequestTimeout, enterFor: fmt.Sprintf(`{"queue":%q}`, cfg.Queue)}
	var err error
	if c.enterAt, err = endpoints(cfg.Enter, "/queue/enter", ""); err != nil {
		return nil, err
	}
	if c.askAt, err = endpoints(cfg.Position, "/queue/position", "queue="+url.QueryEscape(cfg.Queue)); err != nil {
		return nil, err
	}
	if c.lotsAt, err = endpoints(cfg.Position, "/queue/draw", "queue="+url.QueryEscape(cfg.Queue)); err != nil {
		return nil, err
	}
	rt := cfg.Transport
	if rt == nil {
		c.own = NewTransport(cfg.Connections, cfg.AllowRemote)
		rt = c.own
	}
	c.http = &http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return c, nil
}

// NewTransport is how a crowd reaches its target: at most so many kept-alive connections to each address, through no
// proxy, and to no other machine unless allowRemote is set, whatever a name resolves to.
func NewTransport(connections int, allowRemote bool) *http.Transport {
	return &http.Transport{
		Proxy:               nil, // the target is meant, not somebody in between
		DialContext:         dialer(allowRemote).DialContext,
		MaxIdleConns:        connections,
		MaxIdleConnsPerHost: connections,
		MaxConnsPerHost:     connections,
		// Shorter than what servers allow, so that a connection is not closed under a request.
		IdleConnTimeout:    15 * time.Second,
		DisableCompression: true,
	}
}

func endpoints(bases []string, path, query string) ([]*url.URL, error) {
	var all []*url.URL
	for _, s := range bases {
		u, err := url.Parse(s)
		if err != nil {
			return nil, fmt.Errorf("read the address %.80q: %w", s, err)
		}
		u.Path, u.RawQuery = path, query
		all = append(all, u)
	}
	return all, nil
}

// dialer refuses, whatever a name resolves to, to leave the machine unless that is allowed.
func dialer(allowRemote bool) *net.Dialer {
	d := &net.Dialer{Timeout: 5 * time.Second}
	if !allowRemote {
		d.Control = func(_, address string, _ syscall.RawConn) error {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return err
			}
			if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
				return fmt.Errorf("%s is not this machine: say --allow-remote if it is yours", host)
			}
			return nil
		}
	}
	return d
}

func (c *client) close() {
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
}

// answer is what came back, or why nothing did.
type answer struct {
	status     int
	body       []byte
	retryAfter time.Duration // 0: not said
	failed     string        // no answer: "timeout", "connection refused", …
	err        error         // with failed, in full
	took       time.Duration
}

// enter posts one entry. receipt is "" for who comes for the first time.
func (c *client) enter(ctx context.Context, n int, key, receipt string) answer {
	req := c.request(http.MethodPost, c.enterAt[n%len(c.enterAt)], receipt)
	req.Header["Content-Type"] = []string{"application/json"}
	req.Header["Idempotency-Key"] = []string{key}
	// No GetBody: with it, the transport would quietly send the entry again over a new connection.
	req.Body = io.NopCloser(strings.NewReader(c.enterFor))
	req.ContentLength = int64(len(c.enterFor))
	return c.do(ctx, req)
}

// position asks where the holder of receipt stands.
func (c *client) position(ctx context.Context, n int, receipt string) answer {
	return c.do(ctx, c.request(http.MethodGet, c.askAt[n%len(c.askAt)], receipt))
}

// lots asks for the draw.
func (c *client) lots(ctx context.Context) answer {
	return c.do(ctx, c.request(http.MethodGet, c.lotsAt[0], ""))
}

func (c *client) request(method string, u *url.URL, receipt string) *http.Request {
	h := http.Header{"Accept": {"application/json"}, "User-Agent": {"soonbeon-load"}}
	if receipt != "" {
		h["Authorization"] = []string{"Bearer " + receipt}
	}
	return &http.Request{Method: method, URL: u, Host: u.Host, Header: h, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
}

func (c *client) do(ctx context.Context, req *http.Request) answer {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	start := time.Now()
	res, err := c.http.Do(req.WithContext(ctx))
	if err != nil {
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err // what it adds, method and address, is known here
		}
		return answer{failed: failureOf(err), err: err, took: time.Since(start)}
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	took := time.Since(start)
	if err != nil {
		return answer{failed: failureOf(err), err: err, took: took}
	}
	if len(body) > maxAnswer {
		return answer{failed: "answer too large", err: fmt.Errorf("an answer of more than %d bytes", maxAnswer), took: took}
	}
	return answer{status: res.StatusCode, body: body, took: took, retryAfter: retryAfter(res.Header.Get("Retry-After"), time.Now())}
}

// failureOf names the kind of a failure, from a small fixed set.
func failureOf(err error) string {
	var ne net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &ne) && ne.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection lost"
	case strings.Contains(err.Error(), "server closed idle connection"), strings.Contains(err.Error(), "broken connection"):
		return "connection lost" // net/http has no error value for these
	}
	return "no answer"
}

// retryAfter reads the header of that name, in seconds or as a date; 0 where it says nothing. Longer than an hour is
// taken as an hour.
func retryAfter(s string, now time.Time) time.Duration {
	if s == "" {
		return 0
	}
	var d time.Duration
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		d = time.Duration(min(max(n, 0), 3600)) * time.Second
	} else if t, err := http.ParseTime(s); err == nil {
		d = t.Sub(now)
	}
	return min(max(d, 0), time.Hour)
}

// code is the stable code of a problem document, or "" where the answer is none. What isn't a code is left out, so
// that an answer can't grow the list of errors.
func (a answer) code() string {
	var p struct {
		Code string `json:"code"`
	}
	if json.Unmarshal(a.body, &p) != nil || len(p.Code) > 40 {
		return ""
	}
	for i := range len(p.Code) {
		if c := p.Code[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return ""
		}
	}
	return p.Code
}

// kind names the answer in the list of errors.
func (a answer) kind() string {
	if a.failed != "" {
		return a.failed
	}
	if code := a.code(); code != "" {
		return fmt.Sprintf("%d %s", a.status, code)
	}
	return strconv.Itoa(a.status)
}

// again says whether the same request may well succeed later: no answer, or one that asks for patience.
func (a answer) again() bool {
	return a.failed != "" || a.status >= 500 || a.status == http.StatusTooManyRequests || a.status == http.StatusRequestTimeout
}

// lost says that the request may have been carried out without our knowing.
func (a answer) lost() bool {
	return (a.failed != "" && a.failed != "connection refused") || a.status >= 500
}
