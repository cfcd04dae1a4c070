package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/e2e/book"
	"github.com/soonbeon/soonbeon/services/load"
)

// visitor is one of the crowd. One worker has it at a time.
type visitor struct {
	id      queue.Visitor
	receipt string
	ticket  queue.Ticket // acknowledged last
	served  queue.Ticket // the ticket that counts, as far as was told
	ahead   int64        // told last for this entry; -1: nothing yet
	lost    bool         // a request of this key was not answered, so it may yet be written
	loose   bool         // one of an earlier key may: it moves the visitor back
	due     time.Time    // not asked for as somebody admitted before
}

// told is one answer of a place: what the log must bear out.
type told struct {
	visitor queue.Visitor
	ticket  queue.Ticket
	ahead   int64
	atMs    int64 // when it was received, by this machine's clock, which the brokers share
	exact   bool
}

// crowd enters, refreshes, polls and leaves, and writes down what it was promised.
type crowd struct {
	keys     *pass.Keys
	http     *http.Client
	enterAt  []string
	askAt    []string
	arrivals float64 // new visitors a second
	others   float64 // polls, refreshes and departures a second, beside those of who was admitted

	served  atomic.Int64 // the highest ticket that anybody was told of as served
	gate    sync.RWMutex // held for writing while the crowd stands still
	polls   load.Histogram
	enters  load.Histogram
	refused atomic.Int64 // requests without a useful answer
	late    atomic.Int64 // people who came for their token after their grant had ended

	mu      sync.Mutex
	rnd     *rand.Rand
	waiting []*visitor // whom no worker has; about in the order of their tickets
	acks    []book.Ack
	leaves  map[queue.Visitor]int
	entries map[queue.Ticket]pass.Entry
	told    []told
	broken  []string
	exact   int
	nBroken int
}

func newCrowd(f *fleet, seed uint64, arrivals, others float64) (*crowd, error) {
	keys, err := pass.ParseKeys(f.keys)
	if err != nil {
		return nil, err
	}
	c := &crowd{keys: keys, arrivals: arrivals, others: others, rnd: rand.New(rand.NewPCG(seed, 1)), leaves: map[queue.Visitor]int{},
		entries: map[queue.Ticket]pass.Entry{}, http: &http.Client{Transport: load.NewTransport(256, false), Timeout: 4 * time.Second}}
	for _, p := range f.parts[enters] {
		c.enterAt = append(c.enterAt, p.public)
	}
	for _, p := range f.parts[positions] {
		c.askAt = append(c.askAt, p.public)
	}
	return c, nil
}

// workers bounds the requests under way.
const workers = 192

// run keeps coming until ctx ends, and returns when the last request has ended.
func (c *crowd) run(ctx context.Context) {
	jobs := make(chan func(context.Context), workers)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for job := range jobs {
				c.gate.RLock()
				if ctx.Err() == nil {
					job(ctx)
				}
				c.gate.RUnlock()
			}
		})
	}
	const every = 20 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	var arrive, act float64
	for ctx.Err() == nil {
		arrive, act = min(arrive+c.arrivals*every.Seconds(), 100), min(act+c.others*every.Seconds(), 100)
		for ; arrive >= 1; arrive-- {
			offer(jobs, c.arrive)
		}
		for range 20 { // who is admitted comes at once
			if v := c.takeAdmitted(); v == nil || !offer(jobs, func(ctx context.Context) { c.poll(ctx, v); c.giveBack(v) }) {
				c.giveBack(v)
				break
			}
		}
		for ; act >= 1; act-- {
			offer(jobs, c.act)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	close(jobs)
	group.Wait()
	c.http.CloseIdleConnections()
}

// offer leaves a job out where everybody is busy waiting: then the system is what holds them up.
func offer(jobs chan<- func(context.Context), job func(context.Context)) bool {
	select {
	case jobs <- job:
		return true
	default:
		return false
	}
}

// still waits for the requests under way and holds the crowd until the function is called.
func (c *crowd) still() func() {
	c.gate.Lock()
	return c.gate.Unlock
}

func (c *crowd) breach(format string, a ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nBroken++
	if len(c.broken) < 20 {
		c.broken = append(c.broken, fmt.Sprintf(format, a...))
	}
}

func (c *crowd) accepted() int { c.mu.Lock(); defer c.mu.Unlock(); return len(c.acks) }

// takeAdmitted takes the first in line, where it is known to be admitted.
func (c *crowd) takeAdmitted() *visitor {
	c.mu.Lock()
	defer c.mu.Unlock()
	served := queue.Ticket(c.served.Load())
	now := time.Now()
	for i, v := range c.waiting[:min(len(c.waiting), 500)] {
		if v.served > served {
			break
		}
		if !v.due.After(now) {
			c.waiting = slices.Delete(c.waiting, i, i+1)
			return v
		}
	}
	return nil
}

func (c *crowd) takeAny() (*visitor, float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.waiting)
	if n == 0 {
		return nil, 0
	}
	i := c.rnd.IntN(n)
	if c.rnd.IntN(2) == 0 {
		i = c.rnd.IntN(min(n, 500)) // who is near asks more often
	}
	v := c.waiting[i]
	c.waiting = slices.Delete(c.waiting, i, i+1)
	return v, c.rnd.Float64()
}

// giveBack puts v back in its place, unless its story is over.
func (c *crowd) giveBack(v *visitor) {
	if v == nil || v.receipt == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i, _ := slices.BinarySearchFunc(c.waiting, v, func(a, b *visitor) int { return cmp.Compare(a.served, b.served) })
	c.waiting = slices.Insert(c.waiting, i, v)
}

func (c *crowd) arrive(ctx context.Context) {
	v := &visitor{ahead: -1}
	c.enter(ctx, v)
	c.giveBack(v)
}

// act is one thing that somebody who waits does.
func (c *crowd) act(ctx context.Context) {
	v, draw := c.takeAny()
	if v == nil {
		return
	}
	switch {
	case draw < 0.10:
		c.enter(ctx, v)
	case draw < 0.14:
		c.leave(ctx, v)
	default:
		c.poll(ctx, v)
	}
	c.giveBack(v)
}

// reply has whatever fields the answers have.
type reply struct {
	status     int
	Status     any           `json:"status"`
	Visitor    queue.Visitor `json:"visitor"`
	Ticket     queue.Ticket  `json:"ticket"`
	Receipt    string        `json:"receipt"`
	State      string        `json:"state"`
	Reason     string        `json:"reason"`
	Position   int64         `json:"position"`
	Ahead      int64         `json:"ahead"`
	Total      *int64        `json:"total"`
	NowServing queue.Ticket  `json:"nowServing"`
	Precision  string        `json:"precision"`
	Token      string        `json:"token"`
	Code       string        `json:"code"`
}

// ask sends one request. ok is false where there is no answer that says anything: none at all, or one that asks for patience.
func (c *crowd) ask(ctx context.Context, method, url, key, receipt string) (r reply, ok bool) {
	var body io.Reader
	if method == http.MethodPost {
		// No GetBody: with it, the transport would quietly send the request again.
		body = io.NopCloser(bytes.NewReader([]byte(`{"queue":"` + string(queueID) + `"}`)))
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		c.breach("%v", err)
		return r, false
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	if receipt != "" {
		req.Header.Set("Authorization", "Bearer "+receipt)
	}
	res, err := c.http.Do(req)
	if err != nil {
		c.refused.Add(1)
		return r, false
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		c.refused.Add(1)
		return r, false
	}
	r.status = res.StatusCode
	if err := json.Unmarshal(b, &r); err != nil {
		c.breach("%s %s answers %d with %.200q", method, url, res.StatusCode, b)
		return r, false
	}
	if res.StatusCode == http.StatusServiceUnavailable {
		c.refused.Add(1)
		return r, false
	}
	if res.StatusCode >= 300 {
		c.breach("%s %s answers %d %s", method, url, res.StatusCode, r.Code)
		return r, false
	}
	return r, true
}

// enter enters, or enters again where v waits, and repeats the request with its key until it is acknowledged or ctx ends.
func (c *crowd) enter(ctx context.Context, v *visitor) {
	key := queue.NewVisitor()
	v.loose = v.loose || v.lost
	v.lost = false
	for try := 0; ; try++ {
		began := time.Now()
		r, ok := c.ask(ctx, http.MethodPost, c.enterAt[(try+int(key[0]))%len(c.enterAt)]+"/queue/enter", key, v.receipt)
		if ok {
			c.enters.Add(time.Since(began))
			if s, _ := r.Status.(string); s != "accepted" || r.Ticket < 1 || r.Receipt == "" || v.id != "" && r.Visitor != v.id {
				c.breach("an entry is answered with status %v, ticket %d", r.Status, r.Ticket)
			}
			v.id, v.receipt, v.ticket, v.served, v.ahead = r.Visitor, r.Receipt, r.Ticket, r.Ticket, -1
			c.mu.Lock()
			c.acks = append(c.acks, book.Ack{Visitor: r.Visitor, Ticket: r.Ticket})
			c.mu.Unlock()
			return
		}
		v.lost = true
		if lifecycle.Pause(ctx, time.Duration(100+50*min(try, 18))*time.Millisecond) != nil {
			return
		}
	}
}

func (c *crowd) leave(ctx context.Context, v *visitor) {
	r, ok := c.ask(ctx, http.MethodPost, c.enterAt[int(v.ticket)%len(c.enterAt)]+"/queue/leave", "", v.receipt)
	v.receipt = "" // it does not ask any more, whatever came of it
	if !ok {
		return
	}
	if s, _ := r.Status.(string); s != "left" {
		c.breach("leaving is answered with %v", r.Status)
	}
	c.mu.Lock()
	c.leaves[v.id]++
	c.mu.Unlock()
}

// poll asks where v stands, with its newest receipt. It tells whether there was an answer.
func (c *crowd) poll(ctx context.Context, v *visitor) bool {
	v.due = time.Now().Add(500 * time.Millisecond)
	at := c.rndInt(len(c.askAt))
	began := time.Now()
	r, ok := c.ask(ctx, http.MethodGet, c.askAt[at]+"/queue/position?queue="+string(queueID), "", v.receipt)
	now := time.Now()
	if !ok {
		return false
	}
	c.polls.Add(now.Sub(began))
	switch r.State {
	case "admitted":
		c.admitted(v, r.Token, now)
		v.receipt = ""
	case "over":
		if r.Reason != "expired" {
			c.breach("somebody who waits with ticket %d and did not leave is told: over, %s", v.ticket, r.Reason)
		}
		c.late.Add(1)
		v.receipt = ""
	case "waiting":
		c.place(v, r, now)
	default:
		c.breach("a position has state %q", r.State)
	}
	return true
}

func (c *crowd) rndInt(n int) int { c.mu.Lock(); defer c.mu.Unlock(); return c.rnd.IntN(n) }

func (c *crowd) admitted(v *visitor, token string, now time.Time) {
	e, err := c.keys.VerifyEntry(token, queueID, now)
	if err != nil {
		c.breach("an entry token is refused: %v", err)
		return
	}
	if e.Visitor != v.id {
		c.breach("an entry token of ticket %d is another visitor's", e.Ticket)
	}
	c.mu.Lock()
	c.entries[e.Ticket] = e
	c.mu.Unlock()
	c.raise(e.Ticket)
}

func (c *crowd) raise(served queue.Ticket) {
	for {
		old := c.served.Load()
		if int64(served) <= old || c.served.CompareAndSwap(old, int64(served)) {
			return
		}
	}
}

// place checks one answer by itself and against the one before, and keeps it to be held against the log.
func (c *crowd) place(v *visitor, r reply, now time.Time) {
	c.raise(r.NowServing)
	exact := r.Precision == "exact"
	if problem := v.told(r); problem != nil {
		c.breach("ticket %d: %v", v.ticket, problem)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if exact {
		c.exact++
	}
	c.told = append(c.told, told{v.id, r.Ticket, r.Ahead, now.UnixMilli(), exact})
}

// told takes an answer and says what is wrong with it.
func (v *visitor) told(r reply) error {
	exact := r.Precision == "exact"
	last := v.ahead
	v.ahead, v.served = r.Ahead, r.Ticket
	switch {
	case r.Position != r.Ahead+1 || r.Position < 1:
		return fmt.Errorf("position %d with %d ahead", r.Position, r.Ahead)
	case !exact && r.Precision != "approximate":
		return fmt.Errorf("precision %q", r.Precision)
	case exact && (r.Total == nil || *r.Total < r.Position):
		return errors.New("the total is below the position")
	case r.Receipt == "":
		return errors.New("a place without a renewed receipt")
	case last >= 0 && r.Ahead > last && !v.loose:
		return fmt.Errorf("%d ahead (%s) after %d were told", r.Ahead, r.Precision, last)
	}
	v.receipt = r.Receipt
	return nil
}

// settle asks for everybody who must have been admitted, up to ticket served, until each has been told so.
func (c *crowd) settle(ctx context.Context, served queue.Ticket) error {
	c.raise(served)
	return until(ctx, 30*time.Second, "everybody admitted is told so", func() error {
		var again []*visitor
		for v := c.takeAdmitted(); v != nil; v = c.takeAdmitted() { // who was asked is due again later
			c.poll(ctx, v)
			again = append(again, v)
		}
		for _, v := range again {
			c.giveBack(v)
		}
		if left := c.upTo(served); left > 0 {
			return fmt.Errorf("%d people up to ticket %d were not", left, served)
		}
		return nil
	})
}

// upTo is how many wait, as far as they were told, with a ticket up to served.
func (c *crowd) upTo(served queue.Ticket) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, _ := slices.BinarySearchFunc(c.waiting, served+1, func(v *visitor, t queue.Ticket) int { return cmp.Compare(v.served, t) })
	return i
}

// promised is what was promised so far.
func (c *crowd) promised() (acks []book.Ack, entries []pass.Entry, leaves map[queue.Visitor]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.entries {
		entries = append(entries, e)
	}
	leaves = make(map[queue.Visitor]int, len(c.leaves))
	for v, n := range c.leaves {
		leaves[v] = n
	}
	return append(acks, c.acks...), entries, leaves
}

// takeTold hands over the answers since the last call, and what the crowd found wrong in that time.
func (c *crowd) takeTold() (answers []told, broken []string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	answers, broken, n = c.told, c.broken, c.nBroken
	c.told, c.broken, c.nBroken = nil, nil, 0
	return answers, broken, n
}
