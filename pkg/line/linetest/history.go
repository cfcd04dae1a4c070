package linetest

import (
	"fmt"
	"slices"
	"sort"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Target is a view of a line under test. Its methods end the test by themselves when what it stands on fails.
type Target interface {
	Apply(follows queue.Ticket, recs []queue.Record) bool
	Admit(queue.Ask) ([]queue.Person, queue.Reason)
	State() queue.State
	Place(queue.Visitor) (queue.Place, bool)
	Total() int64
	Digest() string
	Snapshot() any
	Restore(any) // nil: a view that came back empty
}

// Loader is a Target that can also be loaded with a folded line at once. A load goes step by step, so that a history can
// put anything between two of them, or never come back.
type Loader interface {
	// StartLoad returns a function that makes the next step. done says that the view is l now; ok is false when the load
	// can't go on, and then the view is as it was.
	StartLoad(l *line.Line) (step func() (done, ok bool))
}

// Source is where a history draws from: Intn is uniform in [0, n).
type Source interface{ Intn(n int) int }

// Tally says what a history was made of, so that a run can show that it met what it is for.
type Tally struct {
	Entries, Admissions, Void, Rehanded, Refused, Switches int

	Draws, Ends, Full, Parts int // draws and ends that counted, asks that found no room, batches admitted in parts

	Loads, LostLoads int // of a Loader: those that became the view, and those that could not go on
}

// Add sums up.
func (t *Tally) Add(u Tally) {
	t.Entries += u.Entries
	t.Admissions += u.Admissions
	t.Void += u.Void
	t.Rehanded += u.Rehanded
	t.Refused += u.Refused
	t.Switches += u.Switches
	t.Draws += u.Draws
	t.Ends += u.Ends
	t.Full += u.Full
	t.Parts += u.Parts
	t.Loads += u.Loads
	t.LostLoads += u.LostLoads
}

const (
	farMs    = 1 << 50 // when a history begins: long after a real Redis's own time, so that no grant ends by that
	leewayMs = 30      // for so long after its end an admission still holds a place
)

// both drives a target and a model with the same calls; they must answer alike.
type both struct {
	Target
	m *Model
	h *history
}

func (b *both) Apply(follows queue.Ticket, recs []queue.Record) bool {
	got, want := b.Target.Apply(follows, recs), b.m.Apply(follows, recs)
	if got != want {
		b.h.fail("apply after %d: took %v, the model %v", follows, got, want)
	}
	return got
}

func (b *both) Admit(ask queue.Ask) ([]queue.Person, queue.Reason) {
	got, why := b.Target.Admit(ask)
	want, wantWhy := b.m.Admit(ask)
	if why != wantWhy || !slices.Equal(got, want) {
		b.h.fail("admit %+v: %v %v, the model %v %v", ask, why, got, wantWhy, want)
	}
	return got, why
}

func (b *both) compare() {
	if got, want := b.Target.State(), b.m.State; got != want {
		b.h.fail("state %+v, the model %+v", got, want)
	}
	all := b.m.ByLog()
	if got := b.Total(); got != int64(len(all)) {
		b.h.fail("total %d, the model %d", got, len(all))
	}
	for _, v := range b.h.people {
		got, ok := b.Place(v)
		want, wantOK := b.m.Place(v)
		if got != want || ok != wantOK {
			b.h.fail("place of %s: %+v %v, the model %+v %v", v, got, ok, want, wantOK)
		}
	}
	if got, want := b.Digest(), b.m.Digest(); got != want {
		b.h.fail("digest differs; the model has %+v", all)
	}
}

// issuer is one of three who may believe that they lead.
type issuer struct {
	lead   *line.Leader // nil: never claimed, or stepped down
	direct *both        // the view of its own that it pops from; nil: the shared one
	own    *both        // that view, kept while it pops from the shared one
	held   bool         // stopped between its pop and its append

	reading *line.Ledger // the log as far as it has read: its own claim at least
	most    int64        // the capacity that it had in mind when it decided
	ttl     int64
	part    int // how many of those in its hands it decided to admit
}

type snapshot struct {
	t any
	m *Model
}

type told struct {
	v     queue.Visitor
	place queue.Place
	draw  queue.Ticket // the draw that it was told by
}

type history struct {
	src     Source
	log     []queue.Record
	shared  *both
	up      bool
	snaps   []snapshot
	issuers [3]issuer
	leader  int
	at      [2]queue.Ticket // where each of two projectors believes the shared view to be
	people  []queue.Visitor
	told    []told
	loads   [2]loading
	tally   Tally

	now    int64                  // Unix milliseconds
	most   int64                  // the capacity that the operators want
	paused bool                   // they let nobody in
	closed bool                   // they take nobody into the line
	most1  map[queue.Ticket]int64 // by which capacity an Admitted was decided
}

// loading is a load on its way: its next step, and what of the log it folded.
type loading struct {
	step func() (done, ok bool)
	recs []queue.Record
}

type broken struct{ error }

func (h *history) fail(format string, a ...any) { panic(broken{fmt.Errorf(format, a...)}) }

// chance is true pct times in a hundred.
func (h *history) chance(pct int) bool { return h.src.Intn(100) < pct }

// Play plays one history against target, which must be empty, and returns what was broken.
func Play(src Source, target Target) (tally Tally, err error) {
	h := &history{src: src, up: true, now: farMs, most1: map[queue.Ticket]int64{}}
	if h.chance(50) {
		h.caps()
	}
	defer func() {
		if r := recover(); r != nil {
			b, ok := r.(broken)
			if !ok {
				panic(r)
			}
			tally, err = h.tally, b.error
		}
	}()
	h.shared = &both{target, NewModel(), h}
	rule := queue.Back
	if h.chance(40) {
		rule = queue.Keep
	}
	h.append(queue.Record{Kind: queue.SettingsSet, Reentry: rule})
	for i := range 1 + src.Intn(9) {
		h.people = append(h.people, fmt.Sprintf("v%d", i))
	}
	h.events()
	h.drain()
	return h.tally, nil
}

// The events and their usual weights; each history has a temper of its own.
var events = []event{
	{30, (*history).enters},
	{3, (*history).leaves},
	{1, (*history).rules},
	{2, (*history).garbage},
	{3, (*history).releases},
	{18, (*history).projects},
	{6, (*history).leads},
	{22, (*history).ticks},
	{4, (*history).snapshots},
	{2, (*history).asks},
	{7, (*history).redis},
	{7, (*history).switches},
	{1, (*history).checkpoints},
	{1, (*history).draws},
	{1, (*history).ends},
	{1, (*history).caps},
	{1, (*history).pauses},
	{1, (*history).closes},
}

type event = struct {
	weight int
	do     func(*history)
}

func (h *history) events() {
	events := events
	if _, ok := h.shared.Target.(Loader); ok { // a draw more would make every seed of the others another history
		events = append(slices.Clip(events), event{8, (*history).rebuilds})
	}
	bounds := make([]int, len(events))
	sum := 0
	for i, e := range events {
		sum += e.weight * []int{1, 5, 5, 15}[h.src.Intn(4)]
		bounds[i] = sum
	}
	for range 20 + h.src.Intn(181) {
		i := sort.SearchInts(bounds, h.src.Intn(sum)+1)
		h.now += int64(h.src.Intn(40))
		events[i].do(h)
		if h.up && h.chance(12) {
			h.shared.compare()
		}
	}
}

// append gives rec its ticket. Sometimes Kafka leaves an offset out.
func (h *history) append(rec queue.Record) queue.Ticket {
	rec.Ticket, rec.AtMs = h.end()+1, h.now
	if h.chance(3) {
		rec.Ticket += queue.Ticket([]int{1, 2, 4090, 9000}[h.src.Intn(4)])
	}
	h.log = append(h.log, rec)
	return rec.Ticket
}

func (h *history) end() queue.Ticket {
	if len(h.log) == 0 {
		return 0
	}
	return h.log[len(h.log)-1].Ticket
}

// after is the log that follows ticket t.
func (h *history) after(t queue.Ticket) []queue.Record {
	i := sort.Search(len(h.log), func(i int) bool { return h.log[i].Ticket > t })
	return h.log[i:]
}

func (h *history) somebody() queue.Visitor { return h.people[h.src.Intn(len(h.people))] }

func (h *history) enters() {
	if h.closed {
		return
	}
	h.append(queue.Record{Kind: queue.Entered, Visitor: h.somebody(), Key: []string{"", "", "k1", "k2"}[h.src.Intn(4)]})
	h.tally.Entries++
}

func (h *history) leaves() { h.append(queue.Record{Kind: queue.Left, Visitor: h.somebody()}) }

func (h *history) rules() {
	h.append(queue.Record{Kind: queue.SettingsSet, Reentry: queue.Reentry(h.src.Intn(2))})
}

func (h *history) garbage() { h.append(queue.Record{Kind: queue.Skipped}) }

func (h *history) releases() {
	v := h.somebody()
	for i := len(h.log) - 1; i >= 0; i-- {
		for _, p := range h.log[i].People {
			if p.Visitor == v {
				h.append(queue.Record{Kind: queue.Released, Visitor: v, Of: p.Ticket})
				return
			}
		}
	}
}

func (h *history) projects() {
	if !h.up {
		return
	}
	p := h.src.Intn(2)
	part := h.after(h.at[p])
	part = part[:min(len(part), 1+h.src.Intn(6))]
	if !h.shared.Apply(h.at[p], part) {
		h.at[p] = h.shared.State().Seq
		h.tally.Refused++
	} else if len(part) > 0 {
		h.at[p] = part[len(part)-1].Ticket
	}
}

func (h *history) claim(i int, mode queue.Mode) { h.issuers[i].claim(h, mode) }

func (is *issuer) claim(h *history, mode queue.Mode) {
	is.lead = line.Lead(h.append(queue.Record{Kind: queue.Claimed, Mode: mode}))
	is.reading = line.NewLedger()
	is.read(h) // up to its claim, before it admits anybody
}

func (is *issuer) read(h *history) {
	seq := is.reading.State().Seq
	is.reading.Apply(seq, h.after(seq))
}

// room is how many it may admit now.
func (is *issuer) room(h *history) int {
	if h.chance(70) {
		is.read(h)
	}
	is.most, is.ttl = h.most, 1+int64(h.src.Intn(400))
	return is.lead.Room(is.reading.State().Seq, is.reading.Active(h.now, leewayMs), is.most)
}

func (h *history) leads() {
	h.leader = h.src.Intn(3) // the others may still believe that they lead
	h.issuers[h.leader] = issuer{}
	h.claim(h.leader, queue.ModeRedis)
}

func (h *history) ticks() {
	i := h.leader
	if h.chance(30) {
		i = h.src.Intn(3)
	}
	if h.issuers[i].lead != nil {
		h.tick(&h.issuers[i])
	}
}

func (h *history) tick(is *issuer) {
	if is.held { // a zombie wakes with a batch in its hands
		h.admitted(is)
		is.held = false
		return
	}
	if h.paused {
		return
	}
	room := is.room(h)
	if room == 0 {
		h.tally.Full++
		return
	}
	if n := len(is.lead.Held()); n > 0 { // the rest of a batch that found no room
		is.part = min(n, room)
		h.admitted(is)
		return
	}
	view := h.shared
	if is.direct != nil {
		view = is.direct
		view.Apply(view.State().Seq, h.after(view.State().Seq))
	} else if !h.up {
		return
	}
	pendingBefore := len(view.m.Pending)
	ask := is.lead.Ask(min(1+h.src.Intn(3), room))
	people, why := view.Admit(ask)
	is.part = min(len(people), room) // who is handed out again may be more than there is room for
	if why == queue.Handed {
		if pendingBefore > 0 && ask.Batch == 1 {
			h.tally.Rehanded++
		}
		if h.chance(10) {
			return // the reply is lost
		}
	}
	is.lead.Got(people, why)
	switch {
	case why == queue.Fenced && is.direct != nil:
		is.lead = nil // it has read a newer claim: steps down
	case why != queue.Handed:
	case h.chance(20):
		is.held = true
	default:
		h.admitted(is)
		if len(is.lead.Held()) == 0 && h.chance(5) { // of unknown outcome, and repeated some time later: the record had landed
			is.lead.Got(people, why)
			is.held, is.part = true, len(people)
		}
	}
}

func (h *history) admitted(is *issuer) {
	people := slices.Clone(is.lead.Held()[:is.part])
	for i := range people {
		people[i].ExpiresMs = h.now + is.ttl
	}
	rec := queue.Record{Kind: queue.Admitted, Epoch: is.lead.Epoch(), People: people}
	t := h.append(rec)
	h.most1[t] = is.most
	if h.chance(10) { // an append of unknown outcome is repeated, and had landed
		t = h.append(rec)
		h.most1[t] = is.most
	}
	is.lead.Appended(t, len(people))
	if len(is.lead.Held()) > 0 {
		h.tally.Parts++
	}
}

func (h *history) checkpoints() {
	is := &h.issuers[h.leader]
	if is.lead == nil || is.held {
		return
	}
	want := h.fold()
	is.lead.Noted(h.append(queue.Record{Kind: queue.Checkpoint, Epoch: is.lead.Epoch(), Served: want.Served}))
}

func (h *history) snapshots() {
	h.snaps = append(h.snaps, snapshot{h.shared.Snapshot(), h.shared.m.Clone()})
}

func (h *history) asks() {
	v := h.somebody()
	if p, ok := h.shared.Place(v); ok {
		h.told = append(h.told, told{v, p, h.shared.m.Draw.At})
	}
}

func (h *history) redis() {
	if h.up && h.chance(60) {
		h.up = false
		return
	}
	h.up = true
	x := h.src.Intn(100) // returns empty, or as of some time ago, or as it was
	switch {
	case x < 35:
		h.shared.Restore(nil)
		h.shared.m = NewModel()
	case x < 70 && len(h.snaps) > 0:
		s := h.snaps[h.src.Intn(len(h.snaps))]
		h.shared.Restore(s.t)
		h.shared.m = s.m.Clone()
	}
}

// rebuilds goes on with a load, or begins one of the log as it was at some time; it may be left lying at any step.
func (h *history) rebuilds() {
	if !h.up {
		return
	}
	l := &h.loads[h.src.Intn(len(h.loads))]
	if l.step == nil || h.chance(15) {
		l.recs = h.log[:h.src.Intn(len(h.log)+1)]
		folded := line.New()
		folded.Apply(0, l.recs)
		l.step = h.shared.Target.(Loader).StartLoad(folded)
	}
	for range 1 + h.src.Intn(8) {
		done, ok := l.step()
		switch {
		case !ok:
			h.tally.LostLoads++
		case done:
			h.shared.m = NewModel()
			h.shared.m.Apply(0, l.recs)
			h.shared.compare()
			h.tally.Loads++
		default:
			continue
		}
		l.step = nil
		return
	}
}

func (h *history) switches() {
	is := &h.issuers[h.leader]
	if is.lead == nil || is.held {
		return
	}
	if is.direct == nil {
		if !h.up || h.chance(20) { // Redis away, or only out of this leader's sight
			if is.own == nil || h.chance(50) { // a line folded anew, or one that was kept since the last outage
				is.own = &both{Memory(), NewModel(), h}
			}
			is.direct = is.own
			h.claim(h.leader, queue.ModeDirect) // who changes the view that it pops from claims anew
			h.tally.Switches++
		}
	} else if h.up && h.shared.State().Seq >= is.lead.Last() {
		is.direct = nil
		h.claim(h.leader, queue.ModeRedis)
		h.tally.Switches++
	}
}

// wild asks the shared view what no leader of this protocol would, and then takes it back: the answers must be the model's.
func (h *history) wild() {
	s := snapshot{h.shared.Snapshot(), h.shared.m.Clone()}
	for range 6 {
		m := h.shared.m
		h.shared.Admit(queue.Ask{
			Epoch:   max(m.Fence, m.Epoch) + queue.Ticket(h.src.Intn(4)-1),
			Batch:   max(0, m.Batch+int64(h.src.Intn(4)-1)),
			AtLeast: max(0, m.Seq+queue.Ticket(h.src.Intn(3)-1)),
			N:       1 + h.src.Intn(3),
		})
	}
	h.shared.compare()
	h.shared.Restore(s.t)
	h.shared.m = s.m
}

// drain: zombies wake, a new leader claims, everybody is let in.
func (h *history) drain() {
	for i := range h.issuers {
		if is := &h.issuers[i]; is.held {
			h.admitted(is)
		}
	}
	boss := &issuer{}
	boss.claim(h, queue.ModeRedis)
	boss.lead.Changed(h.append(queue.Record{Kind: queue.Reopened, Epoch: boss.lead.Epoch()}))
	h.paused, h.closed = false, false
	catchUp := func() { h.shared.Apply(h.shared.State().Seq, h.after(h.shared.State().Seq)) }
	catchUp()
	h.check()
	if h.chance(20) {
		h.wild()
	}
	late := 2 // once nobody waits any more, others come, twice: the leader must still find them
	for range 500 {
		h.now += 50
		room := boss.room(h)
		if room == 0 {
			continue
		}
		if len(boss.lead.Held()) > 0 {
			boss.part = min(len(boss.lead.Held()), room)
			h.admitted(boss)
			catchUp()
			continue
		}
		people, why := h.shared.Admit(boss.lead.Ask(min(2, room)))
		boss.part = min(len(people), room)
		boss.lead.Got(people, why)
		if why == queue.Handed {
			h.admitted(boss)
		} else if late--; late < 0 {
			break
		} else {
			h.enters()
		}
		catchUp()
	}
	want := h.check()
	if len(want.Line) > 0 || h.shared.Total() > 0 {
		h.fail("not everybody who waits gets in: %+v", want.Line)
	}
	h.tally.Admissions = len(want.Admitted)
	if err := h.account(want); err != nil {
		h.fail("%v", err)
	}
}

// memory is the Target of a line.Line.
type memory struct{ *line.Line }

// Memory is an empty memory line as a Target.
func Memory() Target { return &memory{line.New()} }

func (m *memory) Snapshot() any { return m.Line.Clone() }

func (m *memory) Restore(s any) {
	if s == nil {
		m.Line = line.New()
	} else {
		m.Line = s.(*line.Line).Clone()
	}
}
