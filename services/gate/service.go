package gate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	sitegate "github.com/soonbeon/soonbeon/pkg/gate"
	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
)

// The codes of problems of this service alone. They are stable.
const (
	CodeProxy   = "proxy_untrusted" // whoever asks is no proxy that is trusted
	CodeHeaders = "proxy_headers"   // the proxy doesn't say what the request is for
	CodeAddress = "gate_unknown"    // there is no such queue here, or no such way to ask
	arrive      = "/.well-known/soonbeon/arrive/"
	turnAway    = "/turn-away"
	toSite      = "Soonbeon-Visitor" // escaped as in a URL
	toSiteToo   = "Soonbeon-Ticket"
	codeHeader  = "Soonbeon-Code" // from the check to the turning away, by way of nginx
)

// Service answers proxies. It is an http.Handler for any number of requests, and a lifecycle.Service that asks the waiting room about its
// queues between its start and its stop.
type Service struct {
	gates   map[queue.ID]*queueGate
	trusted []netip.Prefix
	metrics *metrics
	rooms   map[queue.ID]*sitegate.Room
	logger  *zap.Logger
	asking  lifecycle.Loop
}

type queueGate struct {
	*sitegate.Gate
	id queue.ID
}

// New checks cfg, and names every mistake at once. rdb is needed for single use only.
func New(cfg Config, rdb redisline.Client, logger *zap.Logger, reg prometheus.Registerer) (*Service, error) {
	p, err := cfg.parse()
	if err != nil {
		return nil, err
	}
	if cfg.SingleUse && rdb == nil {
		return nil, errors.New("--single-use: what was used is kept in Redis; give its address with --redis")
	}
	s := &Service{gates: map[queue.ID]*queueGate{}, trusted: p.trusted, rooms: p.rooms, logger: logger}
	for _, id := range p.ids {
		g, err := s.newGate(id, cfg, p, rdb, logger)
		if err != nil {
			return nil, fmt.Errorf("queue %s: %w", id, err)
		}
		s.gates[id] = &queueGate{g, id}
	}
	if s.metrics, err = newMetrics(reg, s.gates); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Service) newGate(id queue.ID, cfg Config, p *parsed, rdb redisline.Client, logger *zap.Logger) (*sitegate.Gate, error) {
	one := sitegate.Config{
		Queue: id, Keys: p.keys, WaitingRoom: cfg.WaitingRoom, Site: cfg.Site,
		Protect: cfg.Protect, Exempt: cfg.Exempt, FoldCase: cfg.FoldCase, Preflights: cfg.Preflights,
		// Checks are counted where they are made, so this is about those who arrive.
		Refused: func(_ *http.Request, why error) { s.metrics.arrivals.WithLabelValues(string(id), result(why)).Inc() },
		Opened: func(open bool, why error) {
			if open {
				logger.Warn("letting people in unchecked: whether their tokens were used before can't be told",
					zap.String("queue", string(id)), zap.Duration("for", p.openFor[id]), zap.Error(why))
				return
			}
			logger.Warn("checking again whether tokens were used before; who can't be checked is not let in", zap.String("queue", string(id)))
		},
	}
	if room := p.rooms[id]; room != nil {
		one.Made = room.Made
	}
	if cfg.SingleUse {
		one.Once = redisline.NewOnce(rdb, id)
		if d := p.openFor[id]; d > 0 {
			one.FailOpen = sitegate.FailOpen{For: d, After: cfg.OpenAfter}
		}
	}
	return sitegate.New(one)
}

// Start begins to ask.
func (s *Service) Start(context.Context) error {
	return s.asking.Start(func(ctx context.Context) {
		var all sync.WaitGroup
		for id, room := range s.rooms {
			all.Go(func() { room.Run(ctx, s.heard(id)) })
		}
		all.Wait()
	})
}

// Stop ends that.
func (s *Service) Stop(ctx context.Context) error { return s.asking.Stop(ctx) }

// heard counts what the waiting room answers about a queue, and says when it ceases to.
func (s *Service) heard(id queue.ID) func(error) {
	failing := false
	return func(err error) {
		if err == nil {
			s.metrics.questions.WithLabelValues(string(id), "answered").Inc()
			if failing {
				s.logger.Info("the waiting room says again which queue there is", zap.String("queue", string(id)))
			}
			failing = false
			return
		}
		s.metrics.questions.WithLabelValues(string(id), "failed").Inc()
		if !failing {
			s.logger.Warn("the waiting room does not say which queue there is: while it does not, tokens of an earlier queue of the name may open",
				zap.String("queue", string(id)), zap.Error(err))
		}
		failing = true
	}
}

// CheckRedis refuses a Redis that may forget which tokens were used. One that is away is no reason not to start.
func CheckRedis(ctx context.Context, rdb redisline.Client, logger *zap.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	_, err := redisline.CheckSettings(ctx, rdb)
	if errors.Is(err, redisline.ErrEviction) {
		return err
	}
	if err != nil {
		logger.Warn("Redis does not answer: nobody new is let in until it does, unless --open-for says so", zap.Error(err))
	}
	return nil
}

// ServeHTTP finds what is asked by the path as it was sent: a router that joins slashes or resolves dots would answer Envoy, which
// appends the visitor's path to ours, with a redirect.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if id, ok := strings.CutPrefix(path, arrive); ok {
		if g := s.gates[queue.ID(id)]; g != nil {
			s.arrive(w, r, g)
			return
		}
		problem(w, http.StatusNotFound, CodeAddress, "There is no such queue at this gate; --queues names those that there are.")
		return
	}
	way, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	id, rest, _ := strings.Cut(rest, "/")
	g := s.gates[queue.ID(id)]
	if way != "nginx" && way != "forward" && way != "envoy" || g == nil {
		problem(w, http.StatusNotFound, CodeAddress, "Ask at /nginx/<queue>, /forward/<queue> or /envoy/<queue>/…, for one of the queues that --queues names.")
		return
	}
	if !s.trusts(r.RemoteAddr) {
		problem(w, http.StatusForbidden, CodeProxy, "Only a proxy that --trusted-proxies names may ask for others.")
		return
	}
	switch way {
	case "nginx":
		original, ok := said(r, "X-Original-Method", "X-Original-Uri")
		switch {
		case !ok:
			missing(w, "X-Original-Method and X-Original-URI")
		case rest == "turn-away":
			g.TurnAway(w, original, reason(r.Header.Get(codeHeader)))
		default:
			s.answerNginx(w, original, g)
		}
	case "forward":
		if original, ok := said(r, "X-Forwarded-Method", "X-Forwarded-Uri"); ok {
			s.answer(w, original, g)
		} else {
			missing(w, "X-Forwarded-Method and X-Forwarded-Uri")
		}
	case "envoy":
		s.answer(w, original(r, r.Method, strings.TrimPrefix(r.RequestURI, "/envoy/"+id)), g)
	}
}

func missing(w http.ResponseWriter, headers string) {
	problem(w, http.StatusBadRequest, CodeHeaders, "The proxy has to send "+headers+", each once; docs/gate.md shows how.")
}

func (s *Service) trusts(peer string) bool {
	host, _, err := net.SplitHostPort(peer)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	addr = addr.Unmap().WithZone("")
	for _, p := range s.trusted {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// said is the request that the proxy asks about, by two headers of which each comes once.
func said(r *http.Request, method, uri string) (*http.Request, bool) {
	m, u := r.Header.Values(method), r.Header.Values(uri)
	if len(m) != 1 || len(u) != 1 || m[0] == "" || !strings.HasPrefix(u[0], "/") {
		return nil, false
	}
	return original(r, m[0], u[0]), true
}

// original is r with the method and address of the request that it is about.
func original(r *http.Request, method, uri string) *http.Request {
	o := *r
	o.Method, o.RequestURI = method, uri
	var err error
	if o.URL, err = url.ParseRequestURI(uri); err != nil {
		path, query, _ := strings.Cut(uri, "?")
		o.URL = &url.URL{Path: path, RawQuery: query} // a path that is escaped wrongly, read as it stands
	}
	return &o
}

// check decides, and writes what goes to the site and to the browser with a request that is let in.
func (s *Service) check(w http.ResponseWriter, r *http.Request, g *queueGate) error {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	if !g.Protects(r) {
		s.metrics.checks.WithLabelValues(string(g.id), "free").Inc()
		h.Set(toSite, "")
		h.Set(toSiteToo, "")
		return nil
	}
	a, err := g.Admit(r)
	name := result(err)
	if a.Unchecked {
		name = "unchecked"
	}
	s.metrics.checks.WithLabelValues(string(g.id), name).Inc()
	if err != nil {
		return err
	}
	if a.Cookie != nil {
		http.SetCookie(w, a.Cookie)
	}
	h.Set(toSite, url.PathEscape(a.Entry.Visitor))
	h.Set(toSiteToo, strconv.FormatInt(int64(a.Entry.Ticket), 10))
	return nil
}

// answer is for proxies that pass on whatever is no 2xx.
func (s *Service) answer(w http.ResponseWriter, r *http.Request, g *queueGate) {
	if err := s.check(w, r, g); err != nil {
		g.TurnAway(w, r, err)
		return
	}
	w.WriteHeader(http.StatusOK)
}

// answerNginx is for nginx, which takes 2xx, 401 and 403, and makes a 500 of all others.
func (s *Service) answerNginx(w http.ResponseWriter, r *http.Request, g *queueGate) {
	if err := s.check(w, r, g); err != nil {
		w.Header().Set(codeHeader, code(err))
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Service) arrive(w http.ResponseWriter, r *http.Request, g *queueGate) {
	rec := &recorder{ResponseWriter: w}
	g.Arrive().ServeHTTP(rec, r)
	if r.Method == http.MethodPost && rec.status == http.StatusSeeOther {
		s.metrics.arrivals.WithLabelValues(string(g.id), result(nil)).Inc()
	}
}

// recorder notes the status.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// refusals are the reasons not to let somebody in: as a metric's label, and as a code where nginx carries it to turn-away.
var refusals = []struct {
	why          error
	result, code string
}{
	{sitegate.ErrCantTell, "cant_tell", sitegate.CodeCantTell},
	{sitegate.ErrUsed, "used", sitegate.CodeUsed},
	{pass.ErrExpired, "expired", sitegate.CodeExpired},
	{pass.ErrNotYet, "not_yet", sitegate.CodeRequired},
	{sitegate.ErrEarlier, "earlier_queue", sitegate.CodeRequired},
	{pass.ErrOtherQueue, "other_queue", sitegate.CodeRequired},
	{pass.ErrInvalid, "invalid", sitegate.CodeRequired},
	{sitegate.ErrArrival, "malformed", sitegate.CodeArrival},
	{sitegate.ErrNoCookie, "no_cookie", sitegate.CodeRequired},
}

func result(why error) string {
	if why == nil {
		return "admitted"
	}
	for _, r := range refusals {
		if errors.Is(why, r.why) {
			return r.result
		}
	}
	return "no_token"
}

func code(why error) string {
	for _, r := range refusals {
		if errors.Is(why, r.why) {
			return r.code
		}
	}
	return sitegate.CodeRequired
}

// reason is what code stands for. What is not known is no token.
func reason(code string) error {
	for _, r := range refusals {
		if r.code == code && code != sitegate.CodeRequired {
			return r.why
		}
	}
	return sitegate.ErrNoToken
}

func problem(w http.ResponseWriter, status int, code, detail string) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.MarshalWrite(w, struct { // fails only where nobody is there to be told
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Code   string `json:"code"`
		Detail string `json:"detail"`
	}{"urn:soonbeon:problem:" + code, http.StatusText(status), status, code, detail})
}
