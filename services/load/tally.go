package load

import (
	"fmt"
	"sort"
	"sync"
	"time"
)

// admission is what an entry token says of one visitor of this run.
type admission struct {
	visitor    int   // its number in this run
	ticket     int64 // or the number that it drew
	admittedMs int64
}

// mark says that by the time at, somebody with this ticket, or number, had been admitted.
type mark struct {
	ticket int64
	at     time.Time
}

// The invariants, by the names that the report uses.
const (
	brokenLost     = "lost"                   // acknowledged, and then neither waiting nor admitted
	brokenPassed   = "passed"                 // still waiting long after a later ticket was admitted
	brokenTwice    = "twice"                  // one visitor or one ticket admitted, or acknowledged, twice
	brokenOrder    = "order"                  // admitted in a later batch than a later ticket
	brokenRose     = "position_rose"          // while its owner only polled
	brokenBounds   = "position_bounds"        // below 1, above the total, or not one more than ahead
	brokenAfter    = "waiting_after_admitted" // what the name says
	brokenReceipt  = "receipt_refused"        // a receipt that the target itself gave out
	brokenToken    = "token_invalid"          // an entry token that no gate would take
	brokenTicket   = "ticket_changed"         // another ticket than the one acknowledged
	brokenIdentity = "identity_changed"       // entering again with a receipt, as somebody else
	brokenAnswer   = "answer_malformed"       // a success without what the contract promises
	brokenDraw     = "draw_differs"           // a number that the seed does not give, or a seed that was not committed to
	brokenRate     = "rate_exceeded"          // more in a second than the rate and one batch
)

// maxKinds bounds the list of errors, whatever a target answers.
const maxKinds = 100

// tally gathers what the visitors meet. Safe for concurrent use.
type tally struct {
	enter, enterIntended, position, late Histogram

	start time.Time // of the crowd

	mu          sync.Mutex
	lastAck     time.Time
	accepted    int64
	admitted    int64
	lost        int64
	refused     int64
	closed      int64
	ended       map[string]int64 // by reason
	refreshed   int64
	polls       int64
	approximate int64
	rechecked   int64
	errors      map[[2]string]int64 // by step and kind
	broken      map[string]*Breach
	admissions  []admission
	byVisitor   map[string]int // who got this id
	byTicket    map[int64]int  // who got this ticket acknowledged
	marks       []mark         // tickets and times both rising
	series      series
	ackedAt     []time.Duration // after the start, of each visitor's latest entry, by its number in this run
}

func newTally(visitors int) *tally {
	return &tally{
		errors:     map[[2]string]int64{},
		ended:      map[string]int64{},
		broken:     map[string]*Breach{},
		admissions: make([]admission, 0, visitors),
		byVisitor:  make(map[string]int, visitors),
		byTicket:   make(map[int64]int, visitors),
		ackedAt:    make([]time.Duration, visitors+1),
	}
}

// breach notes a broken invariant; the first example of each is kept.
func (t *tally) breach(invariant, format string, a ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.breachLocked(invariant, format, a...)
}

func (t *tally) breachLocked(invariant, format string, a ...any) {
	b := t.broken[invariant]
	if b == nil {
		b = &Breach{Invariant: invariant, First: fmt.Sprintf(format, a...)}
		t.broken[invariant] = b
	}
	b.Count++
}

func (t *tally) failed(step, kind string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := [2]string{step, kind}
	if _, known := t.errors[k]; !known && len(t.errors) >= maxKinds {
		k[1] = "other"
	}
	t.errors[k]++
	t.nowLocked().failed++
}

// nowLocked is the step of the series that it is now.
func (t *tally) nowLocked() *moments { return t.series.at(time.Since(t.start)) }

// answered notes an answer that was of use, which had taken took.
func (t *tally) answered(of func(*moments) *rough, took time.Duration) {
	t.mu.Lock()
	of(t.nowLocked()).add(took)
	t.mu.Unlock()
}

// lose notes somebody who will never get in.
func (t *tally) lose() {
	t.mu.Lock()
	t.lost++
	t.nowLocked().gone++
	t.mu.Unlock()
}

// toldApproximately notes a poll that was answered approximately.
func (t *tally) toldApproximately() {
	t.mu.Lock()
	t.approximate++
	t.nowLocked().approximate++
	t.mu.Unlock()
}

func (t *tally) count(n *int64) {
	t.mu.Lock()
	*n++
	t.mu.Unlock()
}

// end notes that somebody was told that the line is over, for a reason of its operators.
func (t *tally) end(reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.ended[reason]; !known && len(t.ended) >= maxKinds {
		reason = "other"
	}
	t.ended[reason]++
	t.nowLocked().gone++
}

func (t *tally) endedLocked() (n int64) {
	for _, of := range t.ended {
		n += of
	}
	return n
}

// acknowledge notes an entry's ticket, told at now. An id or a ticket that another visitor of this run holds is a breach: they
// would share one place. again is set for a visitor's second entry.
func (t *tally) acknowledge(v int, id string, ticket int64, again bool, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ackedAt[v] = now.Sub(t.start)
	if again {
		t.refreshed++
	} else {
		t.series.at(now.Sub(t.start)).entered++
		t.accepted++
		t.lastAck = now
	}
	if other, ok := t.byVisitor[id]; ok && other != v {
		t.breachLocked(brokenTwice, "visitors %d and %d of this run were given one identity (tickets %d and another)", other, v, ticket)
	} else {
		t.byVisitor[id] = v
	}
	if other, ok := t.byTicket[ticket]; ok && other != v {
		t.breachLocked(brokenTwice, "ticket %d was acknowledged to visitors %d and %d of this run", ticket, other, v)
	} else {
		t.byTicket[ticket] = v
	}
}

// admit notes a token that was received at now.
func (t *tally) admit(a admission, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.admitted++
	step := t.series.at(now.Sub(t.start))
	step.admitted++
	step.waits.add(now.Sub(t.start) - t.ackedAt[a.visitor])
	t.admissions = append(t.admissions, a)
	if n := len(t.marks); n == 0 || a.ticket > t.marks[n-1].ticket {
		t.marks = append(t.marks, mark{a.ticket, now})
	}
}

// passedAt is when a ticket later than this one was first known to be admitted.
func (t *tally) passedAt(ticket int64) (m mark, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := sort.Search(len(t.marks), func(i int) bool { return t.marks[i].ticket > ticket })
	if i == len(t.marks) {
		return mark{}, false
	}
	return t.marks[i], true
}

// enterRate is first acknowledgements a second, from the start to the last of them.
func (t *tally) enterRate() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.enterRateLocked()
}

func (t *tally) enterRateLocked() float64 {
	if d := t.lastAck.Sub(t.start).Seconds(); d > 0 {
		return float64(t.accepted) / d
	}
	return 0
}

// glance is what the progress shows.
type glance struct {
	accepted, admitted, lost, refused, closed, ended, errors, broken int64
}

func (t *tally) glance() glance {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := glance{accepted: t.accepted, admitted: t.admitted, lost: t.lost, refused: t.refused, closed: t.closed, ended: t.endedLocked()}
	for _, n := range t.errors {
		g.errors += n
	}
	for _, b := range t.broken {
		g.broken += b.Count
	}
	return g
}
