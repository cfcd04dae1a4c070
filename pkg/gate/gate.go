package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// The codes of a refusal. They are stable.
const (
	CodeRequired = "entry_token_required" // there was no token, or none for this queue
	CodeExpired  = "entry_token_expired"  // there was one, and its time is over
	CodeUsed     = "entry_token_used"     // it may be used once, and was
	CodeCantTell = "gate_unavailable"     // whether it was can't be told at the moment
	CodeArrival  = "arrival_malformed"    // what was posted to the arrive path is not what belongs there
)

// TokenHeader may carry an entry token where Authorization is taken.
const TokenHeader = "Soonbeon-Token"

// ErrNoToken says that a request carried no token at all.
var ErrNoToken = errors.New("no entry token")

// ErrEarlier says that a token or session is of an earlier queue of the same name, by Config.Made.
var ErrEarlier = errors.New("of an earlier queue of this name")

// Config says which queue is in front of what.
type Config struct {
	Queue queue.ID
	Keys  *pass.Keys

	// WaitingRoom is where people wait: an https URL, or http on this host itself. queue= and return= are added. One without a
	// path means the waiting page that soonbeon serves there, DefaultPage.
	WaitingRoom string

	// Site is the origin of the protected site as browsers see it ("https://shop.example"). With it, return= is a
	// whole URL; without, it is the path and query, and the waiting room has to know the origin. Only a site that says here
	// that it is on plain http gets a session cookie without Secure.
	Site string

	// Protect are the paths behind the gate, each with everything below it; none: all. Exempt are those that are not. Of two
	// that cover a path the longer counts. Paths are compared as any server might read them: joined slashes, resolved dots,
	// escapes; and with FoldCase in small letters.
	Protect, Exempt []string
	FoldCase        bool

	// Preflights lets CORS preflights past: OPTIONS with Origin and Access-Control-Request-Method, which browsers send before a
	// call of another origin, and never with a token or cookie. False, as a rule: they are refused. A site that answers
	// whatever the method is would give to anybody who says OPTIONS what is behind the gate; set it where the site, or the CORS
	// handler in front of it, answers such requests by themselves.
	Preflights bool

	// Made, if set, says what the present queue was made with (made of GET /queue/info), 0 where it does not know: Room does. A queue
	// that was deleted and made again has another one, and tokens and sessions of the earlier are refused. While it is not
	// known, they open until their grant ends. It is called with each request, and must not take time.
	Made func() int64

	// Once, if set, lets each entry token be used once. Whoever shows one gets a session, by which they go on.
	Once     Once
	FailOpen FailOpen // what to do while Once can't tell

	// Opened, if set, is told when the gate begins to let people in unchecked, and why, and when it ends that. It is called in
	// the goroutine of a request, or in one of its own.
	Opened func(open bool, why error)

	// Refused, if set, is told of every request that was turned away, and why: ErrNoToken, ErrUsed, ErrCantTell, ErrEarlier, one of the
	// errors of pass, and at the arrive path also ErrArrival and ErrNoCookie.
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
	made    func() int64
	cookie  string
	session http.Cookie // without its value
	arrival string      // ArrivePath
	paths   paths
	flights bool // Config.Preflights
	use     *use // nil: tokens may be used again and again
	page    *page
}

// DefaultPage is the path of the waiting page that soonbeon serves.
const DefaultPage = "/queue/wait"

// New checks cfg and names every mistake at once.
func New(cfg Config) (*Gate, error) {
	g := &Gate{
		queue: cfg.Queue, keys: cfg.Keys, refused: cfg.Refused, now: cfg.Now, cookie: CookieName(cfg.Queue),
		arrival: ArrivePath(cfg.Queue), page: newPage(), flights: cfg.Preflights, made: cfg.Made,
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
		if g.room.Path == "" {
			g.room.Path = DefaultPage
		}
	}
	if cfg.Site != "" {
		if g.site, err = Origin(cfg.Site); err != nil {
			errs = append(errs, fmt.Errorf("site: %w", err))
		}
	}
	if g.paths, err = newPaths(cfg.Protect, cfg.Exempt, cfg.FoldCase); err != nil {
		errs = append(errs, err)
	}
	if cfg.Once == nil && cfg.FailOpen != (FailOpen{}) {
		errs = append(errs, errors.New("fail open: without Once there is nothing that can fail"))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("gate: %w", errors.Join(errs...))
	}
	if g.now == nil {
		g.now = time.Now
	}
	if g.made == nil {
		g.made = func() int64 { return 0 }
	}
	if g.refused == nil {
		g.refused = func(*http.Request, error) {}
	}
	if cfg.Once != nil {
		tell := cfg.Opened
		if tell == nil {
			tell = func(bool, error) {}
		}
		g.use = newUse(cfg.Once, string(cfg.Queue)+"/0", cfg.FailOpen, g.now, tell)
	}
	g.session = http.Cookie{
		Name: SessionCookieName(cfg.Queue), Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
	if strings.HasPrefix(g.site, "http:") {
		g.session.Name, g.session.Secure = strings.TrimPrefix(g.session.Name, hostPrefix), false
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

// hostPrefix keeps other hosts from setting a cookie.
const hostPrefix = "__Host-"

// CookieName is the cookie that carries the entry token of a queue, where a site of its own accord sets one.
func CookieName(id queue.ID) string { return hostPrefix + "soonbeon-entry-" + string(id) }

// SessionCookieName is the cookie of a gate's session; on a site on plain http it is without "__Host-". No queue has an id with
// a dot, so it is not the cookie of another queue's receipt.
func SessionCookieName(id queue.ID) string { return hostPrefix + "soonbeon.gate-" + string(id) }

// Wrap puts the gate in front of next. The entry of a request that gets through is in its context: see EntryFrom. It also serves
// the arrive path; where it is in front of a part of the site only, route that path to Arrive.
func (g *Gate) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.isArrival(r) {
			g.arrive(w, r)
			return
		}
		if !g.Protects(r) {
			next.ServeHTTP(w, r)
			return
		}
		a, err := g.Admit(r)
		if err != nil {
			g.refused(r, err)
			g.turnAway(w, r, err)
			return
		}
		if a.Cookie != nil {
			http.SetCookie(w, a.Cookie)
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), entryKey{}, a.Entry)))
	})
}

// TurnAway answers r as Wrap does with one that Admit refused with why: a redirect for people, a problem for programs.
func (g *Gate) TurnAway(w http.ResponseWriter, r *http.Request, why error) { g.turnAway(w, r, why) }

// Protects says whether what r asks for is behind the gate, by Config.Protect, Config.Exempt and Config.Preflights. The arrive
// path is not.
func (g *Gate) Protects(r *http.Request) bool {
	return !g.isArrival(r) && !(g.flights && isPreflight(r)) && g.paths.protects(target(r))
}

func (g *Gate) isArrival(r *http.Request) bool { return asked(r).EscapedPath() == g.arrival }

// Open says whether the gate lets people in unchecked at the moment, by Config.FailOpen.
func (g *Gate) Open() bool { return g.use != nil && g.use.isOpen() }

type entryKey struct{}

// EntryFrom returns who was let through with the request that ctx belongs to; ok is false for one that no gate let
// through.
func EntryFrom(ctx context.Context) (e pass.Entry, ok bool) {
	e, ok = ctx.Value(entryKey{}).(pass.Entry)
	return e, ok
}

// Admission is why a request may go in.
type Admission struct {
	Entry     pass.Entry
	Cookie    *http.Cookie // the session, to be set with the answer, of one whose token was used up by this request; else nil
	Unchecked bool         // it went in by Config.FailOpen
}

// Check is Admit for a site whose tokens may be used again: it returns the entry alone. With Config.Once it uses the token up
// and nobody gets the session, so call Admit then.
func (g *Gate) Check(r *http.Request) (pass.Entry, error) {
	a, err := g.Admit(r)
	return a.Entry, err
}

// Admit returns by what r may go in: a session, or else the first valid entry token that it carries, which with Config.Once
// is used by that. Where nothing is valid, the error is the most telling one: ErrCantTell, ErrUsed, pass.ErrExpired,
// pass.ErrNotYet, ErrEarlier, pass.ErrOtherQueue, pass.ErrInvalid or ErrNoToken, in this order.
func (g *Gate) Admit(r *http.Request) (Admission, error) {
	now := g.now()
	why, rank := ErrNoToken, len(telling)
	note := func(err error) {
		for i, kind := range telling {
			if i < rank && errors.Is(err, kind) {
				why, rank = err, i
			}
		}
	}
	for _, token := range g.sessions(r) {
		e, err := g.verify(g.keys.VerifySession(token, g.queue, now))
		if err == nil {
			return Admission{Entry: e}, nil
		}
		note(err)
	}
	for _, token := range g.tokens(r) {
		e, err := g.verify(g.keys.VerifyEntry(token, g.queue, now))
		if err == nil && g.use == nil {
			return Admission{Entry: e}, nil
		}
		if err == nil {
			var a Admission
			if a, err = g.begin(r.Context(), e, now); err == nil {
				return a, nil
			}
		}
		note(err)
	}
	return Admission{}, why
}

var telling = [...]error{ErrCantTell, ErrUsed, pass.ErrExpired, pass.ErrNotYet, ErrEarlier, pass.ErrOtherQueue, pass.ErrInvalid}

// verify refuses what is signed and in its time, but of an earlier queue. One of a later queue than is known here is signed by
// the same keys: what is known is old then.
func (g *Gate) verify(e pass.Entry, err error) (pass.Entry, error) {
	if err == nil && e.Made != 0 && e.Made < g.made() {
		return pass.Entry{}, ErrEarlier
	}
	return e, err
}

// begin makes a session of an entry token that was found valid, and uses it up where that is wanted.
func (g *Gate) begin(ctx context.Context, e pass.Entry, now time.Time) (Admission, error) {
	a := Admission{Entry: e}
	if g.use != nil {
		id := string(e.Queue) + "/" + strconv.FormatInt(int64(e.Ticket), 10)
		if e.Made != 0 { // another queue of this name has tickets of the same numbers
			id += "/" + strconv.FormatInt(e.Made, 10)
		}
		// The token opens until pass.Leeway after its end by this clock; the mark ends by another one, which may be ahead as much.
		checked, err := g.use.first(ctx, id, time.UnixMilli(e.ExpiresMs).Add(2*pass.Leeway))
		if err != nil {
			return Admission{}, err
		}
		a.Unchecked = !checked
	}
	token, err := g.keys.SignSession(e)
	if err != nil { // what was verified can be signed
		return Admission{}, fmt.Errorf("%w: %w", pass.ErrInvalid, err)
	}
	c := g.session
	c.Value = token
	c.MaxAge = max(int((e.ExpiresMs-now.UnixMilli()+999)/1000), 1)
	a.Cookie = &c
	return a, nil
}

func (g *Gate) turnAway(w http.ResponseWriter, r *http.Request, why error) {
	person := prefersHTML(r.Header.Values("Accept"))
	switch {
	case person && errors.Is(why, ErrCantTell):
		// This one was admitted: the line is no place for them.
		w.Header().Set("Retry-After", retryAfter)
		g.page.write(w, r, http.StatusServiceUnavailable, view{Text: cantTell, Retry: r.Method != http.MethodPost})
	case person && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Location", g.enterURL(g.returnTo(r)))
		w.WriteHeader(http.StatusSeeOther)
	case person: // what was sent can't be sent again from the line, so they are not taken there unasked
		w.Header().Set("WWW-Authenticate", challenge)
		g.page.write(w, r, http.StatusUnauthorized, view{Text: sentLate, Link: g.enterURL("")})
	default:
		g.refuse(w, why)
	}
}

const challenge = `Bearer realm="soonbeon"`

// retryAfter is how many seconds to wait while the gate can't tell.
const retryAfter = "5"

// refuse answers with a problem.
func (g *Gate) refuse(w http.ResponseWriter, why error) {
	p := problem{
		Type: "about:blank", Title: "Waiting in line is required", Status: http.StatusUnauthorized,
		Code: CodeRequired, Detail: "This needs an entry token. Enter the queue at enterUrl to get one.",
		EnterURL: g.enterURL(""), Queue: g.queue,
	}
	h := w.Header()
	challenge := challenge
	switch {
	case errors.Is(why, ErrCantTell):
		p.Code, p.Status, p.Title = CodeCantTell, http.StatusServiceUnavailable, "The entry token can't be checked"
		p.Detail = "Whether the entry token was used before can't be told at the moment. Try again with the same one."
		h.Set("Retry-After", retryAfter)
	case errors.Is(why, ErrUsed):
		p.Code, p.Title = CodeUsed, "The entry token was used before"
		p.Detail = "An entry token opens once; the cookie that came with the answer opens from then on. Enter the queue at enterUrl again."
		challenge += `, error="invalid_token", error_description="used"`
	case errors.Is(why, ErrArrival):
		p.Code, p.Status, p.Title = CodeArrival, http.StatusBadRequest, "This is not how to arrive"
		if errors.Is(why, errMethod) {
			p.Status = http.StatusMethodNotAllowed
		}
		p.Detail = "Post a form of at most 16 KiB with one field token, and at most one field to, a path of this site to go to."
	case errors.Is(why, pass.ErrExpired):
		p.Code, p.Title = CodeExpired, "The entry token has expired"
		p.Detail = "The time to go in is over. Enter the queue at enterUrl again."
		challenge += `, error="invalid_token", error_description="expired"`
	case errors.Is(why, pass.ErrNotYet):
		p.Detail = "The entry token is not valid yet: clocks are apart. Try again in a minute."
		challenge += `, error="invalid_token", error_description="not valid yet"`
	case errors.Is(why, ErrEarlier):
		p.Detail = "The entry token is of an earlier queue of this name. Enter the present one at enterUrl."
		challenge += `, error="invalid_token"`
	case errors.Is(why, pass.ErrOtherQueue):
		p.Detail = "The entry token is for another queue. Enter this one at enterUrl."
		challenge += `, error="invalid_token"`
	case errors.Is(why, pass.ErrInvalid):
		challenge += `, error="invalid_token"`
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", challenge)
	}
	h.Set("Cache-Control", "no-store")
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

// asked is what the browser asked for, before any router took a prefix away.
func asked(r *http.Request) *url.URL {
	if u, err := url.ParseRequestURI(r.RequestURI); err == nil {
		return u
	}
	return r.URL
}

// target is the path that r asks for as it was sent: what is no part of a path for us ("#") may be the end of one for others.
func target(r *http.Request) string {
	if strings.HasPrefix(r.RequestURI, "/") {
		path, _, _ := strings.Cut(r.RequestURI, "?")
		return path
	}
	return asked(r).EscapedPath()
}

// returnTo is the address that r is for, "" where it is too long to be sent along.
func (g *Gate) returnTo(r *http.Request) string {
	u := asked(r)
	// Read as an address of its own, "//host" would lead to another site.
	back := g.site + "/" + strings.TrimLeft(u.EscapedPath(), "/")
	if u.RawQuery != "" {
		// Browsers leave a backslash in a query as it is, and no address to return to has one.
		back += "?" + strings.ReplaceAll(escape(u.RawQuery), "#", "%23")
	}
	if len(back) > MaxReturn {
		return ""
	}
	return back
}
