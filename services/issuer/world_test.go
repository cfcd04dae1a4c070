package issuer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap/zaptest"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/follow"
)

// world is a log, what is folded from it at once, and a shared view that may fail, all in memory, for simulated time. Its
// broker's clock is an hour before everybody else's.
type world struct {
	t  *testing.T
	mu sync.Mutex

	log     []queue.Record
	line    *line.Line    // by the log
	changed chan struct{} // closed and replaced at each record
	latency time.Duration // from sending a record to its acknowledgement; it is stamped half-way
	stall   time.Time     // records sent before are acknowledged only then
	next    int           // visitors so far

	shared shared
	entry  *queue.Entry // the catalogue's
	asked  int          // questions to a view
}

const clockAhead = time.Hour

func newWorld(t *testing.T) *world {
	w := &world{t: t, line: line.New(), changed: make(chan struct{}), latency: 6 * time.Millisecond}
	w.shared = shared{w: w, line: line.New()}
	return w
}

// write appends a record now.
func (w *world) write(rec queue.Record) queue.Ticket {
	w.mu.Lock()
	defer w.mu.Unlock()
	rec.Ticket = queue.Ticket(len(w.log) + 1)
	rec.AtMs = time.Now().Add(clockAhead).UnixMilli()
	w.log = append(w.log, rec)
	w.line.Apply(rec.Ticket-1, []queue.Record{rec})
	close(w.changed)
	w.changed = make(chan struct{})
	return rec.Ticket
}

// crowd lets n new visitors enter at once.
func (w *world) crowd(n int) {
	for range n {
		w.next++
		w.write(queue.Record{Kind: queue.Entered, Visitor: fmt.Sprintf("v%d", w.next)})
	}
}

// handle is what one issuer has of the world: its connection to the log, which can be paused.
type handle struct {
	*world
	mu    sync.Mutex
	pause time.Duration // the next append hangs so long before it is sent: the process is stopped between pop and append
}

func (h *handle) AppendUntil(ctx context.Context, _ queue.ID, rec queue.Record) (queue.Ticket, int64, error) {
	h.mu.Lock()
	pause := time.Duration(0)
	if rec.Kind == queue.Admitted {
		pause, h.pause = h.pause, 0
	}
	h.mu.Unlock()
	time.Sleep(pause)
	h.world.mu.Lock()
	until := time.Until(h.stall)
	h.world.mu.Unlock()
	time.Sleep(max(h.latency/2, until))
	t := h.write(rec)
	time.Sleep(h.latency / 2)
	return t, 0, ctx.Err()
}

func (w *world) State() queue.State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.line.State()
}

func (w *world) Claim() queue.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.line.Claim()
}

func (w *world) Waiting() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.line.Total()
}

func (w *world) WaitFor(ctx context.Context, t queue.Ticket) error {
	for {
		w.mu.Lock()
		seq, changed := w.line.State().Seq, w.changed
		w.mu.Unlock()
		if seq >= t {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (w *world) Active(nowMs int64, leeway time.Duration) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.line.Active(nowMs, leeway.Milliseconds())
}

// operate changes the queue's entry in the catalogue.
func (w *world) operate(change func(*queue.Entry)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := *w.entry
	e.Version++
	change(&e)
	w.entry = &e
}

func (w *world) current() (*queue.Entry, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.entry, true
}

func (w *world) Recent(atMs int64) (b []follow.Batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.log {
		if r.Kind == queue.Admitted && r.AtMs > atMs-1000 {
			b = append(b, follow.Batch{AtMs: r.AtMs, People: len(r.People)})
		}
	}
	return b
}

// Admit is direct mode's. Every issuer of the world shares the line that it is folded to: its fence must keep them apart.
func (w *world) Admit(_ context.Context, ask queue.Ask, _ queue.Settings) ([]queue.Person, queue.Reason, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	people, why := w.line.Admit(ask)
	return people, why, nil
}

// shared is the view that can fail, projected whenever it is asked.
type shared struct {
	w         *world
	mu        sync.Mutex
	line      *line.Line
	down      bool
	hang      time.Duration // each call takes so long
	cut       int           // so many replies are lost after the work was done
	projected bool          // false: no projector runs
	asked     int           // by leaders, for people
}

var errDown = errors.New("away")

func (s *shared) begin(ctx context.Context) error {
	s.mu.Lock()
	down, hang := s.down, s.hang
	s.mu.Unlock()
	if hang > 0 {
		select {
		case <-time.After(hang):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if down {
		return errDown
	}
	return nil
}

func (s *shared) project() {
	if !s.projected {
		return
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.line.Apply(s.line.State().Seq, s.w.log[s.line.State().Seq:])
}

func (s *shared) Admit(ctx context.Context, ask queue.Ask, _ queue.Settings) ([]queue.Person, queue.Reason, error) {
	if err := s.begin(ctx); err != nil {
		return nil, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.project()
	s.asked++
	people, why := s.line.Admit(ask)
	if s.cut > 0 {
		s.cut--
		return nil, 0, errDown
	}
	return people, why, nil
}

func (s *shared) Seq(ctx context.Context) (queue.Ticket, error) {
	if err := s.begin(ctx); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.project()
	return s.line.State().Seq, nil
}

func (s *shared) set(change func(*shared)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// issuer starts one that believes that the queue is assigned to it, until stop is called.
func (w *world) issuer(name string, set queue.Settings, view View) (h *handle, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	h = &handle{world: w}
	w.mu.Lock()
	if w.entry == nil {
		w.entry = &queue.Entry{ID: "main", Version: 1, Settings: set}
	}
	w.mu.Unlock()
	l := &leadership{id: "main", name: name, log: h, shared: view, reading: h.world, logger: zaptest.NewLogger(w.t), metrics: newMetrics(prometheus.NewRegistry()),
		entry: w.current, seed: func(sealed []byte) (s queue.Seed, err error) {
			if len(sealed) != queue.SeedBytes {
				return s, errors.New("not sealed with this secret")
			}
			return queue.Seed(sealed), nil
		}}
	if view != nil {
		l.health.watch = &watch{ping: func(ctx context.Context) error { return w.shared.begin(ctx) }}
		if err := l.health.watch.Start(ctx); err != nil {
			w.t.Fatal(err)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.run(ctx)
	}()
	return h, func() {
		cancel()
		<-done
		if view != nil {
			_ = l.health.watch.Stop(context.Background())
		}
		synctest.Wait() // nothing of it is left running
	}
}

// admission is one valid admission: by the log, and by the broker's clock.
type admission struct {
	queue.Person
	atMs int64
	mode queue.Mode
}

// admissions folds the log anew and checks what must always hold: ticket order, nobody twice.
func (w *world) admissions() (all []admission) {
	w.mu.Lock()
	defer w.mu.Unlock()
	epoch, served, mode := queue.Ticket(0), queue.Ticket(0), queue.ModeUnknown
	in := map[queue.Visitor]bool{}
	for _, r := range w.log {
		switch r.Kind {
		case queue.Claimed:
			epoch, mode = r.Ticket, r.Mode
		case queue.Admitted:
			if r.Epoch != epoch {
				continue
			}
			for _, p := range r.People {
				if p.Ticket <= served {
					continue
				}
				served = p.Ticket
				if in[p.Visitor] {
					w.t.Errorf("%s is in twice", p.Visitor)
				}
				in[p.Visitor] = true
				all = append(all, admission{p, r.AtMs, mode})
			}
		}
	}
	return all
}

// count is how many were admitted in [from, to) after the start of the test.
func count(all []admission, start time.Time, from, to time.Duration) (n int) {
	lo, hi := start.Add(clockAhead+from).UnixMilli(), start.Add(clockAhead+to).UnixMilli()
	for _, a := range all {
		if a.atMs >= lo && a.atMs < hi {
			n++
		}
	}
	return n
}

// checkRate looks at every window of one second that begins with an admission.
func checkRate(t *testing.T, all []admission, set queue.Settings) (highest int) {
	t.Helper()
	j := 0
	for i := range all {
		for j < len(all) && all[j].atMs < all[i].atMs+1000 {
			j++
		}
		highest = max(highest, j-i)
	}
	if limit := int(set.Rate + set.PerBatch() + almost); highest > limit {
		t.Errorf("a second had %d admissions; %d is the rate and one batch", highest, limit)
	}
	return highest
}

// longestPause is the longest time between two admissions.
func longestPause(all []admission) (d time.Duration) {
	for i := 1; i < len(all); i++ {
		d = max(d, time.Duration(all[i].atMs-all[i-1].atMs)*time.Millisecond)
	}
	return d
}
