package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// The codes of a refusal. They are stable.
const (
	CodeRequired = "entry_token_required" // there was no token, or none for this queue
	CodeExpired  = "entry_token_expired"  // there was one, and its time is over
)

// TokenHeader may carry an entry token where Authorization is taken.
const TokenHeader = "Soonbeon-Token"

// ErrNoToken says that a request carried no token at all.
var ErrNoToken = errors.New("no entry token")

// maxReturn is the longest return address that is sent along, in bytes; a longer one is left out, since browsers and
// proxies cut long locations off.
const maxReturn = 2048

// Config says which queue is in front of what.
type Config struct {
	Queue       queue.ID
	Keys        *pass.Keys
	WaitingRoom string // where people wait: an https URL, or http on this host itself. queue= and return= are added

	// Site is the origin of the protected site as browsers see it ("https://shop.example"). With it, return= is a
	// whole URL; without, it is the path and query, and the waiting room has to know the origin.
	Site string

	// Refused, if set, is told of every request that was turned away, and why: ErrNoToken or one of the errors of pass.
	// It is called in the request's goroutine. A rising number of pass.ErrNotYet means that this host's clock is slow.
	Refused func(r *http.Request, why error)

	Now func() time.Time // time.Now if nil
}

// Gate checks entry tokens. It does not change, and any number of goroutines may use it.
type Gate struct {
	queue   queue.ID
	keys    *pass.Keys
	room    url.URL
	query   url.Values // of room
	site    string
	refused func(*http.Request, error)
	now     func() time.Time
	cookie  string
}

// New checks cfg and names every mistake at once.
func New(cfg Config) (*Gate, error) {
	g := &Gate{
		queue: cfg.Queue, keys: cfg.Keys, refused: cfg.Refused, now: cfg.Now, cookie: CookieName(cfg.Queue),
	}
	var errs []error
	if _, err := queue.ParseID(string(cfg.Queue)); err != nil {
		errs = append(errs, err)
	}
	if cfg.Keys == nil {
		errs = append(errs, errors.New("keys are missing"))
	}
	room, err := webURL(cfg.WaitingRoom)
	if err != nil {
		errs = append(errs, fmt.Errorf("waiting room: %w", err))
	} else {
		g.room, g.query = *room, room.Query()
	}
	if cfg.Site != "" {
		site, err := webURL(cfg.Site)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("site: %w", err))
		case strings.Trim(site.Path, "/") != "" || site.RawQuery != "":
			errs = append(errs, errors.New("site: an origin has no path and no query"))
		default:
			g.site = site.Scheme + "://" + site.Host
		}
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("gate: %w", errors.Join(errs...))
	}
	if g.now == nil {
		g.now = time.Now
	}
	if g.refused == nil {
		g.refused = func(*http.Request, error) {}
	}
	return g, nil
}

// webURL parses s, which may be http only on this host, where developers try things out.
func webURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, errors.New("not a URL") // the parser's error quotes it, with what may be a password
	}
	if u.Host == "" || u.Opaque != "" || u.User != nil || u.Fragment != "" {
		return nil, errors.New("not a URL with a host and without user and fragment")
	}
	if u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname()) {
		return u, nil
	}
	return nil, errors.New("not an https URL")
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// CookieName is the cookie that carries the entry token of a queue. Its prefix keeps other hosts from setting it.
func CookieName(id queue.ID) string { return "__Host-soonbeon-entry-" + string(id) }

// Wrap puts the gate in front of next. The entry of a request that gets through is in its context: see EntryFrom.
func (g *Gate) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e, err := g.Check(r)
		if err != nil {
			g.refused(r, err)
			g.turnAway(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), entryKey{}, e)))
	})
}

type entryKey struct{}

// EntryFrom returns who was let through with the request that ctx belongs to; ok is false for one that no gate let
// through.
func EntryFrom(ctx context.Context) (e pass.Entry, ok bool) {
	e, ok = ctx.Value(entryKey{}).(pass.Entry)
	return e, ok
}

// Check returns the entry of the first valid token that r carries. Where none is valid, the error is the most telling
// one: pass.ErrExpired, pass.ErrNotYet, pass.ErrOtherQueue, pass.ErrInvalid or ErrNoToken, in this order.
func (g *Gate) Check(r *http.Request) (pass.Entry, error) {
	now := g.now()
	why, rank := ErrNoToken, len(telling)
	for _, token := range g.tokens(r) {
		e, err := g.keys.VerifyEntry(token, g.queue, now)
		if err == nil {
			return e, nil
		}
		for i, kind := range telling {
			if i < rank && errors.Is(err, kind) {
				why, rank = err, i
			}
		}
	}
	return pass.Entry{}, why
}

var telling = [...]error{pass.ErrExpired, pass.ErrNotYet, pass.ErrOtherQueue, pass.ErrInvalid}

func (g *Gate) turnAway(w http.ResponseWriter, r *http.Request, why error) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	if (r.Method == http.MethodGet || r.Method == http.MethodHead) && prefersHTML(r.Header.Values("Accept")) {
		h.Set("Location", g.enterURL(g.returnTo(r)))
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	p := problem{
		Type: "about:blank", Title: "Waiting in line is required", Status: http.StatusUnauthorized,
		Code: CodeRequired, Detail: "This needs an entry token. Enter the queue at enterUrl to get one.",
		EnterURL: g.enterURL(""), Queue: g.queue,
	}
	challenge := `Bearer realm="soonbeon"`
	switch {
	case errors.Is(why, pass.ErrExpired):
		p.Code, p.Title = CodeExpired, "The entry token has expired"
		p.Detail = "The time to go in is over. Enter the queue at enterUrl again."
		challenge += `, error="invalid_token", error_description="expired"`
	case errors.Is(why, pass.ErrNotYet):
		p.Detail = "The entry token is not valid yet: clocks are apart. Try again in a minute."
		challenge += `, error="invalid_token", error_description="not valid yet"`
	case errors.Is(why, pass.ErrOtherQueue):
		p.Detail = "The entry token is for another queue. Enter this one at enterUrl."
		challenge += `, error="invalid_token"`
	case errors.Is(why, pass.ErrInvalid):
		challenge += `, error="invalid_token"`
	}
	h.Set("WWW-Authenticate", challenge)
	h.Set("Content-Type", "application/problem+json")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // fails only where the client is gone
}

// problem is the body of a refusal, RFC 9457.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Code     string   `json:"code"`
	Detail   string   `json:"detail"`
	Queue    queue.ID `json:"queue"`
	EnterURL string   `json:"enterUrl"`
}

// enterURL is the waiting room with the queue, and the way back unless that is empty.
func (g *Gate) enterURL(back string) string {
	q := make(url.Values, len(g.query)+2)
	for name, values := range g.query {
		q[name] = values
	}
	q.Set("queue", string(g.queue))
	q.Del("return")
	if back != "" {
		q.Set("return", back)
	}
	u := g.room
	u.RawQuery = q.Encode()
	return u.String()
}

// returnTo is what the browser asked for, before any router took a prefix away.
func (g *Gate) returnTo(r *http.Request) string {
	u, err := url.ParseRequestURI(r.RequestURI)
	if err != nil {
		u = r.URL
	}
	// Read as an address of its own, "//host" would lead to another site.
	back := g.site + "/" + strings.TrimLeft(u.EscapedPath(), "/")
	if u.RawQuery != "" {
		back += "?" + u.RawQuery
	}
	if len(back) > maxReturn {
		return ""
	}
	return back
}
