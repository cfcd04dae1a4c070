package drill

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/plot"
)

// Event is one line of the timeline: what was done, or seen.
type Event struct {
	AfterMs int64  `json:"afterMs"` // since the drill began
	Text    string `json:"text"`
}

// Seen are the times of an outage, as outsiders met them. Null: not seen.
type Seen struct {
	ApproximateAfterMs *int64 `json:"approximateAfterMs"` // from the break until positions were approximate
	DirectAfterMs      *int64 `json:"directAfterMs"`      // from the break until a leader went on without Redis
	ExactAfterMs       *int64 `json:"exactAfterMs"`       // from the mending, or the break where it came first, until positions were exact
	BackAfterMs        *int64 `json:"backAfterMs"`        // the same until a leader popped from Redis
	LongestPauseMs     int64  `json:"longestPauseMs"`     // between two admissions from the break until all was as before, by the log
	HighestSecond      int64  `json:"highestSecond"`      // people let in within a second in that time, by the log
}

// tenth is what pollers were told in a tenth of a second.
type tenth struct{ exact, approximate int }

const (
	tenthLength = 100 * time.Millisecond
	tolerated   = 100             // one answer in so many may be of the other kind: a newcomer that Redis has not met yet
	looksOn     = time.Second     // after a switch of the leader, before the timeline says how it went
	givesUp     = 5 * time.Second // the same where nobody is let in
	settle      = 5 * time.Second // after mending, before all counts as if nothing had been
	patience    = 90 * time.Second
)

// timeline turns what pollers are told, what the log says and what the operator does into lines. Times come from outside.
// It is safe for concurrent use.
type timeline struct {
	mu      sync.Mutex
	out     io.Writer
	start   time.Time
	pollers int
	window  int // tenths that must agree
	events  []Event
	seen    Seen

	// What pollers were told.
	tenths      []tenth
	inLine      int64 // the latest total
	exactBefore bool  // somebody was told an exact position before the break
	approximate bool  // the state as it was last told
	since       time.Time

	// What they met that was no answer.
	failed map[int]bool

	// What the operator does.
	broke, mended, mendEnded time.Time

	// What the log says.
	epoch   queue.Ticket
	served  queue.Ticket
	mode    queue.Mode
	direct  bool // a leader went on without Redis since the break
	latest  int64
	past    []letIn // of the latest second
	sum     int64
	turn    *turn
	entered int64
	frozen  bool // there is nothing more to see
}

type letIn struct {
	atMs int64
	n    int64
}

// turn is a switch of the leader that was not told yet.
type turn struct {
	at       time.Time
	mode     queue.Mode
	admitted bool
}

func newTimeline(out io.Writer, start time.Time, pollers int, every time.Duration) *timeline {
	return &timeline{out: out, start: start, pollers: pollers, window: max(5, int(every*3/2/tenthLength)), failed: map[int]bool{}}
}

// say adds a line.
func (t *timeline) say(at time.Time, format string, a ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sayLocked(at, format, a...)
}

func (t *timeline) sayLocked(at time.Time, format string, a ...any) {
	e := Event{max(0, at.Sub(t.start).Milliseconds()), fmt.Sprintf(format, a...)}
	t.events = append(t.events, e)
	_, _ = fmt.Fprintf(t.out, "%s %s\n", stamp(e.AfterMs), e.Text) // the drill goes on when nobody reads
}

// told notes a poller's answer.
func (t *timeline) told(at time.Time, exact bool, total int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.index(at)
	for len(t.tenths) <= i {
		t.tenths = append(t.tenths, tenth{})
	}
	if !exact {
		t.tenths[i].approximate++
		return
	}
	t.tenths[i].exact++
	t.inLine = total
	if t.broke.IsZero() {
		t.exactBefore = true
	}
}

func (t *timeline) index(at time.Time) int { return int(max(0, at.Sub(t.start)) / tenthLength) }

// error notes that poller met an error. first is true for the first of its kind.
func (t *timeline) error(at time.Time, poller int, kind string, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed[poller] = true
	if first {
		t.sayLocked(at, "a poller saw an error: %s", kind)
	}
}

// breaks says that the breaking begins now; mends and isMended the same of mending.
func (t *timeline) breaks(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.broke, t.since = now, now
	t.seen.LongestPauseMs, t.seen.HighestSecond = 0, 0
}

func (t *timeline) mends(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turn != nil && t.turn.admitted { // in the order in which it happened
		t.tellTurn()
	}
	t.mended = now
}

func (t *timeline) isMended(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mendEnded = now
}

// reference is what times are told from: the mending, or the breaking before it.
func (t *timeline) reference(at time.Time) (from time.Time, what string) {
	if !t.mended.IsZero() && !at.Before(t.mended) {
		return t.mended, "mending"
	}
	return t.broke, "the break"
}

// tick looks at what was gathered by now, and tells what is new.
func (t *timeline) tick(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broke.IsZero() {
		return
	}
	if !t.frozen { // afterwards few answers come, and a stray one would be most of them
		t.judgePrecision(now)
	}
	if t.turn != nil && (t.turn.admitted && now.Sub(t.turn.at) >= looksOn || now.Sub(t.turn.at) >= givesUp) {
		t.tellTurn()
	}
}

// judgePrecision finds that positions have become approximate, or exact: when nearly all answers of a whole window are.
// They became so right after the last tenth with noticeably many of the other kind.
func (t *timeline) judgePrecision(now time.Time) {
	of := func(c tenth) (want, other int) {
		if t.approximate {
			return c.exact, c.approximate
		}
		return c.approximate, c.exact
	}
	end := min(t.index(now), len(t.tenths)) // the present one is not whole yet
	from := t.index(now) - t.window
	if from < t.index(t.since) {
		return
	}
	var want, other int
	for _, c := range t.tenths[min(from, end):end] {
		w, o := of(c)
		want, other = want+w, other+o
	}
	if want == 0 || other*tolerated > want+other {
		return
	}
	first := end
	for i := end - 1; i >= t.index(t.since); i-- {
		w, o := of(t.tenths[i])
		if o > 0 && o*tolerated > w+o {
			break
		}
		if w > 0 {
			first = i
		}
	}
	at := t.start.Add(time.Duration(first) * tenthLength)
	if at.Before(t.since) {
		at = t.since
	}
	t.approximate, t.since = !t.approximate, at
	reference, what := t.reference(at)
	ms := at.Sub(reference).Milliseconds()
	if t.approximate {
		again := ""
		if t.seen.ApproximateAfterMs == nil {
			t.seen.ApproximateAfterMs = &ms
		} else {
			again = " again"
		}
		t.sayLocked(at, "positions approximate%s (%s after %s); %s of %s pollers saw an error", again, seconds(ms), what,
			plot.Thousands(int64(len(t.failed))), plot.Thousands(int64(t.pollers)))
		return
	}
	t.seen.ExactAfterMs = &ms
	t.sayLocked(at, "line exact again (%s after %s); %s people in line", seconds(ms), what, plot.Thousands(t.inLine))
}

// record takes the log's next record, met now.
func (t *timeline) record(now time.Time, rec *queue.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch rec.Kind {
	case queue.Entered:
		t.entered++
	case queue.Claimed:
		t.claim(now, rec)
	case queue.Ended:
		if rec.Epoch == t.epoch {
			t.served = rec.Ticket // who waited waits no more
		}
	case queue.Admitted:
		if rec.Epoch < t.epoch {
			return // of a leader that does not lead any more
		}
		var n int64
		for _, p := range rec.People {
			if p.Ticket > t.served {
				t.served = p.Ticket
				n++
			}
		}
		if n > 0 {
			t.admits(rec.AtMs, n)
		}
	}
}

func (t *timeline) claim(now time.Time, rec *queue.Record) {
	before := t.mode
	t.epoch, t.mode = rec.Ticket, rec.Mode
	if t.broke.IsZero() {
		return
	}
	if t.turn != nil {
		t.tellTurn()
	}
	if rec.Mode == queue.ModeDirect && before == queue.ModeDirect || rec.Mode == queue.ModeRedis && !t.direct {
		t.sayLocked(now, "another leader")
		return
	}
	reference, _ := t.reference(now)
	ms := now.Sub(reference).Milliseconds()
	if rec.Mode == queue.ModeDirect {
		if !t.direct {
			t.seen.DirectAfterMs = &ms
		}
		t.direct = true
		t.seen.BackAfterMs = nil
	} else {
		t.seen.BackAfterMs = &ms
	}
	t.turn = &turn{at: now, mode: rec.Mode}
}

// tellTurn tells how the leader's switch went.
func (t *timeline) tellTurn() {
	how := fmt.Sprintf("longest pause %s, no second above %s", seconds(t.seen.LongestPauseMs), plot.Thousands(t.seen.HighestSecond))
	if !t.turn.admitted {
		how = "nobody was let in since"
	}
	what := "from Redis"
	if t.turn.mode == queue.ModeDirect {
		what = "direct"
	}
	reference, name := t.reference(t.turn.at)
	t.sayLocked(t.turn.at, "admissions %s (%s after %s); %s", what, seconds(t.turn.at.Sub(reference).Milliseconds()), name, how)
	t.turn = nil
}

// admits counts n people who were let in at atMs, by the brokers' clock.
func (t *timeline) admits(atMs, n int64) {
	if t.turn != nil {
		t.turn.admitted = true
	}
	if t.frozen {
		return
	}
	if t.latest > 0 {
		t.seen.LongestPauseMs = max(t.seen.LongestPauseMs, atMs-t.latest)
	}
	t.latest = max(t.latest, atMs)
	t.past, t.sum = append(t.past, letIn{atMs, n}), t.sum+n
	for atMs-t.past[0].atMs >= 1000 {
		t.sum -= t.past[0].n
		t.past = t.past[1:]
	}
	t.seen.HighestSecond = max(t.seen.HighestSecond, t.sum)
}

// over says that there is nothing more to see: all is as before, or it was waited for long enough.
func (t *timeline) over(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mendEnded.IsZero() {
		return false
	}
	since := now.Sub(t.mendEnded)
	back := !t.approximate && (!t.direct || t.mode == queue.ModeRedis) && t.turn == nil
	if since < settle || !back && since < patience {
		return false
	}
	t.frozen = true
	return true
}

// unseen is what a rehearsal was to show and did not, each as a sentence.
func (t *timeline) unseen() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	switch {
	case t.broke.IsZero():
		return nil
	case !t.exactBefore:
		out = append(out, "nobody was told an exact position before the break: the line was not whole when the drill began")
	case t.seen.ApproximateAfterMs == nil:
		out = append(out, "positions never became approximate: was Redis broken at all, and for longer than a second?")
	}
	if t.approximate {
		out = append(out, "positions were still approximate when the drill ended: did mending bring Redis back, and does a projector run?")
	}
	if t.direct && t.mode != queue.ModeRedis {
		out = append(out, "the leader had not gone back to Redis when the drill ended")
	}
	return out
}

// figures are what was seen by now.
func (t *timeline) figures() (Seen, []Event, int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen, append([]Event{}, t.events...), int64(len(t.failed))
}

// acknowledged is how many entries the log holds since the drill began.
func (t *timeline) inLog() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.entered
}

// stamp prints milliseconds as 05:02, or 1:05:02.
func stamp(ms int64) string {
	s := ms / 1000
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s%3600/60, s%60)
	}
	return fmt.Sprintf("%02d:%02d", s/60, s%60)
}

// seconds prints milliseconds as 1.1 s.
func seconds(ms int64) string { return fmt.Sprintf("%.1f s", float64(ms)/1000) }
