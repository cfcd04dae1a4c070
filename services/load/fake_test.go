package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// room is a waiting room in memory, by the HTTP contract. It has no goroutine: what should have happened by now happens
// when somebody asks. Each field below "faults" breaks one promise.
type room struct {
	mu              sync.Mutex
	keys            *pass.Keys
	keyText         string
	rate            float64 // a second, in batches of 100 ms
	ttl             time.Duration
	tick            time.Time // of the last batch
	carry           float64
	seq             int64
	served          int64
	line            []*person // in ticket order
	byID            map[string]*person
	byKey           map[string]string // idempotency key → visitor
	untimely, stale int               // polls at another time than told, or not with the newest receipt

	// faults
	lose        map[int64]bool   // by ticket: never admitted
	over        map[int64]bool   // by ticket: told "over"
	shareTicket map[int64]int64  // by ticket: its token says another
	readmit     map[int64]bool   // by ticket: admitted anew whenever asked again
	swap        [2]int64         // these two tickets change places
	rise        map[int64]int    // by ticket: its n-th poll is told 500 more
	waitAgain   map[int64]bool   // by ticket: waits again after its token
	refuse      map[int64]bool   // by ticket: 401
	zero        map[int64]bool   // by ticket: position 0
	tooFew      map[int64]bool   // by ticket: total below its position
	noWait      map[int64]bool   // by ticket: no retryAfterMs
	noTicket    map[int64]bool   // by ticket: a 202 without it
	otherTicket map[int64]bool   // by ticket: waits with a later one
	sameID      map[int64]string // by ticket: this visitor id
	burstAt     int64            // once served is here, one batch has 30 more
	forge       map[int64]*pass.Keys
	late        map[int64]time.Duration // by ticket: its token is that much older
	wrongExpiry map[int64]bool
	stranger    map[int64]bool // by ticket: a token for somebody else
	becomes     bool           // who re-enters with a receipt becomes somebody else

	day // what its operators do
}

type person struct {
	id         string
	ticket     int64
	number     int64 // that it drew; 0: none
	ended      bool
	polls      int
	shown      int
	admittedMs int64
	askAt      time.Time // when it was told to ask next
	receipt    string    // the newest
}

// tell notes what p was told, and returns the milliseconds.
func (p *person) tell(after time.Duration, receipt string) int64 {
	p.askAt, p.receipt = time.Now().Add(after), receipt
	return after.Milliseconds()
}

func newRoom(t testing.TB, rate float64) *room {
	text, err := pass.GenerateKeys()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := pass.ParseKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	return &room{keys: keys, keyText: text, rate: rate, ttl: 5 * time.Minute,
		byID: map[string]*person{}, byKey: map[string]string{}}
}

func (r *room) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advance(time.Now())
	switch {
	case req.URL.Path == "/queue/enter" && req.Method == http.MethodPost:
		r.serveEnter(w, req)
	case req.URL.Path == "/queue/draw" && req.Method == http.MethodGet:
		r.serveDraw(w)
	case req.URL.Path == "/queue/position" && req.Method == http.MethodGet:
		r.servePosition(w, req)
	default:
		problem(w, 405, "method_not_allowed")
	}
}

// advance admits what the time since the last call allows.
func (r *room) advance(now time.Time) {
	if r.tick.IsZero() {
		r.tick = now
	}
	for next := r.tick.Add(100 * time.Millisecond); !next.After(now); next = next.Add(100 * time.Millisecond) {
		r.tick = next
		if !r.opened(next) {
			continue
		}
		r.carry = math.Min(r.carry, 1) + r.rate/10
		n := math.Floor(r.carry)
		if r.burstAt > 0 && r.served >= r.burstAt {
			n += 30
			r.burstAt = 0
		}
		r.carry -= math.Min(n, r.carry)
		r.admit(int(n), next)
		r.end()
	}
}

func (r *room) admit(n int, at time.Time) {
	var stay []*person
	for i, p := range r.line {
		if n == 0 {
			stay = append(stay, r.line[i:]...)
			break
		}
		r.served = p.counts()
		if r.lose[p.ticket] {
			stay = append(stay, p)
			continue
		}
		p.admittedMs = at.UnixMilli()
		n--
	}
	r.line = stay
}

func (r *room) serveEnter(w http.ResponseWriter, req *http.Request) {
	key := req.Header.Get("Idempotency-Key")
	var body struct{ Queue string }
	if json.NewDecoder(req.Body).Decode(&body) != nil || body.Queue != "main" || key == "" {
		problem(w, 400, "body_malformed")
		return
	}
	if r.closedAt > 0 && r.seq >= r.closedAt {
		problem(w, 410, "queue_closed")
		return
	}
	r.seq++
	id, known := r.byKey[key]
	if bearer := bearerOf(req); bearer != "" {
		rec, err := r.keys.VerifyReceipt(bearer, "main")
		if err != nil {
			problem(w, 401, "credential_invalid")
			return
		}
		id = rec.Visitor
		if r.becomes {
			id = queue.NewVisitor()
		}
	} else if !known {
		id = queue.NewVisitor()
	}
	if s, ok := r.sameID[r.seq]; ok {
		id = s
	}
	p := r.byID[id]
	switch {
	case p == nil:
		p = &person{id: id, ticket: r.seq}
		r.byID[id] = p
		r.line = append(r.line, p)
		if a, b := r.swap[0], r.swap[1]; b != 0 && r.seq == b {
			i := len(r.line) - 1 - int(b-a)
			r.line[i], r.line[len(r.line)-1] = r.line[len(r.line)-1], r.line[i]
		}
	case known: // a retransmission keeps its place
	case p.admittedMs == 0: // a refresh moves back
		for i := range r.line {
			if r.line[i] == p {
				r.line = append(r.line[:i:i], r.line[i+1:]...)
				break
			}
		}
		p.ticket, p.number = r.seq, 0
		r.line = append(r.line, p)
	}
	r.byKey[key] = id
	receipt := r.receiptOf(id, r.seq)
	ack := map[string]any{"status": "accepted", "queue": "main", "visitor": id, "ticket": r.seq, "receipt": receipt,
		"retryAfterMs": r.byID[id].tell(queue.PollAfter(queue.DefaultPolling(), int64(len(r.line)), 0.5), receipt)}
	if r.noTicket[r.seq] {
		delete(ack, "ticket")
	}
	reply(w, 202, ack)
}

func (r *room) receiptOf(id string, ticket int64) string {
	s, err := r.keys.SignReceipt(pass.Receipt{Queue: "main", Visitor: id, Ticket: queue.Ticket(ticket), Ahead: queue.NoAhead, IssuedMs: time.Now().UnixMilli()})
	if err != nil {
		panic(err)
	}
	return s
}

func (r *room) servePosition(w http.ResponseWriter, req *http.Request) {
	rec, err := r.keys.VerifyReceipt(bearerOf(req), "main")
	if err != nil {
		problem(w, 401, "credential_invalid")
		return
	}
	p := r.byID[rec.Visitor]
	p.polls++
	if p.shown == 0 && !time.Now().Equal(p.askAt) {
		r.untimely++
	}
	if bearerOf(req) != p.receipt {
		r.stale++
	}
	switch {
	case r.refuse[p.ticket]:
		problem(w, 401, "credential_invalid")
	case p.ended:
		reply(w, 200, map[string]any{"state": "over", "reason": "sold_out"})
	case r.over[p.ticket]:
		reply(w, 200, map[string]any{"state": "over", "reason": "expired"})
	case p.admittedMs > 0 && (p.shown == 0 || !r.waitAgain[p.ticket]):
		p.shown++
		r.serveToken(w, p)
	default:
		r.serveWaiting(w, p)
	}
}

func (r *room) serveToken(w http.ResponseWriter, p *person) {
	e := pass.Entry{Queue: "main", Visitor: p.id, Ticket: queue.Ticket(p.counts()), AdmittedMs: p.admittedMs}
	e.AdmittedMs -= r.late[p.ticket].Milliseconds()
	if r.readmit[p.ticket] {
		e.AdmittedMs += int64(p.shown-1) * 100
	}
	e.ExpiresMs = e.AdmittedMs + r.ttl.Milliseconds()
	if other, ok := r.shareTicket[p.ticket]; ok {
		e.Ticket = queue.Ticket(other)
	}
	if r.stranger[p.ticket] {
		e.Visitor = queue.NewVisitor()
	}
	keys := r.keys
	if k := r.forge[p.ticket]; k != nil {
		keys = k
	}
	token, err := keys.SignEntry(e)
	if err != nil {
		panic(err)
	}
	expires := time.UnixMilli(e.ExpiresMs)
	if r.wrongExpiry[p.ticket] {
		expires = expires.Add(time.Hour)
	}
	reply(w, 200, map[string]any{"state": "admitted", "queue": "main", "token": token, "expiresAt": expires.UTC().Format(time.RFC3339)})
}

func (r *room) serveWaiting(w http.ResponseWriter, p *person) {
	at := int64(1)
	for i, q := range r.line {
		if q == p {
			at = int64(i) + 1
		}
	}
	total := max(int64(len(r.line)), 1)
	receipt := r.receiptOf(p.id, p.ticket)
	after := p.tell(queue.PollAfter(queue.DefaultPolling(), at, 0.5), receipt)
	if n, ok := r.rise[p.ticket]; ok && p.polls == n {
		at, total = at+500, total+500
	}
	if r.zero[p.ticket] {
		at = 0
	}
	if r.tooFew[p.ticket] {
		total = at - 1
	}
	ticket := p.ticket
	if r.otherTicket[p.ticket] {
		ticket += 1000
	}
	place := map[string]any{"state": "waiting", "position": at, "ahead": at - 1, "behind": total - at, "total": total,
		"ticket": ticket, "nowServing": r.served, "retryAfterMs": after, "precision": "exact", "receipt": receipt}
	r.tell(place, p)
	if r.noWait[p.ticket] {
		delete(place, "retryAfterMs")
	}
	reply(w, 200, place)
}

func bearerOf(req *http.Request) string {
	s, _ := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	return s
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func problem(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"type":"urn:soonbeon:problem:%s","status":%d,"code":%q}`, code, status, code)
}

// wire carries requests to a handler with no network, so that all of a run can stand in a synctest bubble. meddle, when
// set, may answer or fail in the handler's place; the handler is called with serve.
type wire struct {
	handler http.Handler
	meddle  func(req *http.Request, serve func() *http.Response) (*http.Response, error)
}

func (w wire) RoundTrip(req *http.Request) (*http.Response, error) {
	serve := func() *http.Response {
		rec := httptest.NewRecorder()
		w.handler.ServeHTTP(rec, req)
		return rec.Result()
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	if w.meddle != nil {
		return w.meddle(req, serve)
	}
	return serve(), nil
}

// after waits on the request's own terms.
func after(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func unavailable(seconds int) *http.Response {
	return &http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {strconv.Itoa(seconds)}},
		Body: io.NopCloser(strings.NewReader(`{"status":503,"code":"log_unavailable"}`))}
}
