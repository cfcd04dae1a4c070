package audit

import (
	"fmt"
	"iter"
	"slices"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// fate is what became of an entry. Each entry has exactly one at any time.
type fate uint8

const (
	waiting fate = iota
	admitted
	movedBack     // the visitor entered again, and that entry counts
	kept          // the visitor waited already, and the rule was keep
	retransmitted // the visitor waited already, by an entry with the same idempotency key
	absorbed      // the visitor was admitted on an earlier ticket while this entry waited
	left
	ended   // it waited when the line was ended
	refused // it came after the end, and took no place
	fates
)

var fateNames = [fates]string{"waiting", "admitted", "moved back", "kept", "repeated", "absorbed", "left", "ended", "refused"}

func (f fate) String() string { return fateNames[f] }

// entry is one Entered record.
type entry struct {
	ticket queue.Ticket
	atMs   int64
	who    int32
	fate   fate
}

// person is one visitor over the whole log.
type person struct {
	counts   int32 // the entry that waits, by its index + 1; 0: none
	released bool
	key      string       // of the entry that waits
	by       queue.Ticket // the record of the latest admission, 0: none,
	ticket   queue.Ticket // and its ticket
	endsMs   int64        // of its grant
}

// batch is one record that admitted somebody.
type batch struct {
	ticket queue.Ticket
	atMs   int64
	n      int64
	paused int64 // how long people had waited for it since the admission before, in ms
}

// wait is how long one person waited.
type wait struct{ atMs, ms int64 }

// book is the accounting: a state for each entry rather than a line. It shares nothing with package line.
type book struct {
	findings *findings
	first    queue.Ticket // where the log begins
	trimmed  bool
	records  int64
	last     queue.Ticket

	served, epoch queue.Ticket
	rule          queue.Reentry
	draw          queue.Draw
	over          bool // the line was ended, and not reopened
	ends          []End
	claims        []Claim
	byEpoch       map[queue.Ticket]int // index in claims

	ids     map[queue.Visitor]int32
	names   []queue.Visitor
	people  []person
	entries []entry
	fates   [fates]int64
	head    int // entries before it are at or below served, or have a lot
	lots    lots
	active  active

	void       int64
	voidBy     map[string]int64
	differ     int64
	skipped    int64
	gaps       int64 // tickets left out
	released   int64
	again      int64
	passed     int64
	outOfOrder int64
	twice      int64
	notTheirs  int64
	afterEnd   int64
	admissions int64

	batches  []batch
	waits    []wait
	lengths  lengths
	firstMs  int64
	lastMs   int64
	prevMs   int64 // of the record before; brokers stamp out of step by some milliseconds
	admitMs  int64 // of the latest admission
	sinceMs  int64 // since when somebody has waited without pause
	someWait bool
}

func newBook(first queue.Ticket, f *findings) *book {
	return &book{findings: f, first: first, trimmed: first > 1, last: first - 1, ends: []End{},
		ids: map[queue.Visitor]int32{}, byEpoch: map[queue.Ticket]int{}, voidBy: map[string]int64{}}
}

// inOrder drops records that go back, which no reader folds, and says so.
func (b *book) inOrder(recs []queue.Record) []queue.Record {
	last, good := b.last, true
	for i := range recs {
		if recs[i].Ticket <= last {
			good = false
			break
		}
		last = recs[i].Ticket
	}
	if good {
		return recs
	}
	last = b.last
	out := make([]queue.Record, 0, len(recs))
	for _, rec := range recs {
		if rec.Ticket <= last {
			b.findings.add(Backwards, &rec, "ticket %d comes after ticket %d", rec.Ticket, last)
			continue
		}
		last = rec.Ticket
		out = append(out, rec)
	}
	return out
}

// step takes one record; its ticket is above the last.
func (b *book) step(rec *queue.Record) {
	if n := int64(rec.Ticket - b.last - 1); n > 0 {
		b.gaps += n
		b.findings.addN(Gap, n, rec, "tickets %d to %d before it are in no record", b.last+1, rec.Ticket-1)
	}
	if b.records == 0 {
		b.firstMs, b.lastMs = rec.AtMs, rec.AtMs
		b.lengths.start(rec.AtMs)
	}
	if rec.AtMs < b.prevMs-second && b.records > 0 {
		b.findings.add(ClockBack, rec, "written %s before the record that it follows, by the brokers' clocks", duration(b.prevMs-rec.AtMs))
	}
	b.prevMs, b.lastMs = rec.AtMs, max(b.lastMs, rec.AtMs)
	b.last = rec.Ticket
	b.records++
	switch rec.Kind {
	case queue.Skipped:
		b.skipped++
		b.findings.add(Unreadable, rec, "can't be read by this version")
	case queue.Entered:
		b.enter(rec)
	case queue.Left:
		if id, ok := b.ids[rec.Visitor]; ok {
			b.end(&b.people[id], left)
		}
	case queue.Claimed:
		b.epoch = rec.Ticket
		b.byEpoch[rec.Ticket] = len(b.claims)
		b.claims = append(b.claims, Claim{Ticket: rec.Ticket, AtMs: rec.AtMs, Issuer: rec.Issuer, Mode: rec.Mode.String()})
	case queue.SettingsSet:
		b.rule = rec.Reentry
	case queue.Checkpoint:
		b.checkpoint(rec)
	case queue.Released:
		b.release(rec)
	case queue.Admitted:
		b.admit(rec)
	case queue.Drawn:
		b.drawLots(rec)
	case queue.Ended:
		b.endLine(rec)
	case queue.Reopened:
		b.reopen(rec)
	}
	waits := b.fates[waiting] > 0
	if waits && !b.someWait {
		b.sinceMs = rec.AtMs
	}
	b.someWait = waits
	b.lengths.note(rec.AtMs, b.fates[waiting])
}

func (b *book) id(v queue.Visitor) int32 {
	id, ok := b.ids[v]
	if !ok {
		id = int32(len(b.people))
		b.ids[v] = id
		b.people = append(b.people, person{})
		b.names = append(b.names, v)
	}
	return id
}

func (b *book) become(e *entry, f fate) {
	b.fates[e.fate]--
	e.fate = f
	b.fates[f]++
}

// end gives the entry that waits, if there is one, its fate.
func (b *book) end(p *person, f fate) {
	if p.counts > 0 {
		b.become(&b.entries[p.counts-1], f)
		p.counts, p.key = 0, ""
	}
}

func (b *book) enter(rec *queue.Record) {
	id := b.id(rec.Visitor)
	p := &b.people[id]
	e := entry{ticket: rec.Ticket, atMs: rec.AtMs, who: id}
	switch {
	case b.over:
		e.fate = refused
		b.ends[len(b.ends)-1].Refused++
	case p.counts > 0 && rec.Key != "" && rec.Key == p.key:
		e.fate = retransmitted
	case p.counts > 0 && b.rule == queue.Keep:
		e.fate = kept
	default:
		b.end(p, movedBack)
		p.counts, p.key = int32(len(b.entries)+1), rec.Key
	}
	b.entries = append(b.entries, e)
	b.fates[e.fate]++
}

func (b *book) release(rec *queue.Record) {
	id, ok := b.ids[rec.Visitor]
	if !ok {
		return
	}
	b.active.release(rec.Of, id)
	if p := &b.people[id]; p.by > 0 && p.ticket == rec.Of {
		p.released = true
		b.released++
	}
}

// entryOf finds the entry with a ticket, or with a number that was drawn.
func (b *book) entryOf(n queue.Ticket) (*entry, bool) {
	t := b.draw.Ticket(n)
	i, ok := slices.BinarySearchFunc(b.entries, t, func(e entry, t queue.Ticket) int { return int(e.ticket - t) })
	if !ok {
		return nil, false
	}
	return &b.entries[i], true
}

// leads says whether a record of this epoch counts.
func (b *book) leads(epoch queue.Ticket) bool {
	if b.trimmed && len(b.claims) == 0 && epoch < b.first {
		b.epoch = epoch // its claim is not in the log any more
	}
	return epoch == b.epoch
}

// leader names who claimed an epoch.
func (b *book) leader(epoch queue.Ticket) string {
	if i, ok := b.byEpoch[epoch]; ok {
		return b.claims[i].Issuer
	}
	return "nobody known"
}

func (b *book) voids(rec *queue.Record, n int64) {
	if n == 0 {
		return
	}
	b.void += n
	b.voidBy[b.leader(rec.Epoch)] += n
	b.findings.addN(Void, n, rec, "%s by %s, whose claim %d was followed by claim %d", rec.Kind, b.leader(rec.Epoch), rec.Epoch, b.epoch)
}

func (b *book) checkpoint(rec *queue.Record) {
	switch {
	case !b.leads(rec.Epoch):
		b.voids(rec, 1)
	case b.trimmed && b.served == 0:
		b.served = rec.Served
	case rec.Served != b.served:
		b.differ++
		b.findings.add(CheckpointDiffers, rec, "%s wrote that ticket %d was served; by the records before it, it was %d", b.leader(rec.Epoch), rec.Served, b.served)
	}
}

func (b *book) admit(rec *queue.Record) {
	if !b.leads(rec.Epoch) {
		b.voids(rec, int64(len(rec.People)))
		return
	}
	paused := int64(0)
	if b.someWait {
		paused = max(0, rec.AtMs-max(b.sinceMs, b.admitMs))
	}
	n := int64(0)
	for i := range rec.People {
		if b.admitOne(rec, &rec.People[i]) {
			n++
		}
	}
	if n > 0 {
		b.admissions += n
		b.active.note(rec, b.lastMs)
		b.batches = append(b.batches, batch{rec.Ticket, rec.AtMs, n, paused})
		b.admitMs = max(b.admitMs, rec.AtMs)
	}
}

// admitOne says whether the admission counts: whether its ticket is above all that were admitted before.
func (b *book) admitOne(rec *queue.Record, in *queue.Person) bool {
	e, known := b.entryOf(in.Ticket)
	cutOff := b.draw.Ticket(in.Ticket) < b.first // entered before the log begins
	id, met := b.ids[in.Visitor]
	theirs := known && met && e.who == id
	if in.Ticket <= b.served {
		b.void++
		switch {
		case theirs && e.fate == admitted:
			b.findings.add(Repeated, rec, "names %s of visitor %s again", b.name(in.Ticket), Hash(in.Visitor))
		case theirs && e.fate == ended:
			b.afterEnd++
			b.findings.add(AfterEnd, rec, "names %s of visitor %s, who waited when record %d ended the line", b.name(in.Ticket), Hash(in.Visitor), b.endAfter(e.ticket))
		case cutOff: // what became of it is not in the log any more
		default:
			b.outOfOrder++
			b.findings.add(OutOfOrder, rec, "names %s of visitor %s after %s had been admitted", b.name(in.Ticket), Hash(in.Visitor), b.name(b.served))
		}
		return false
	}
	b.pass(rec, in.Ticket)
	b.served = in.Ticket
	id = b.id(in.Visitor)
	p := &b.people[id]
	switch {
	case cutOff:
	case theirs && e.fate == refused:
		b.afterEnd++
		b.findings.add(AfterEnd, rec, "admits visitor %s on ticket %d, which took no place: record %d had ended the line", Hash(in.Visitor), in.Ticket, b.endBefore(e.ticket))
	case !theirs || e.fate == kept || e.fate == retransmitted:
		b.notTheirs++
		b.findings.add(NotTheirs, rec, "admits visitor %s on %s, which %s", Hash(in.Visitor), b.name(in.Ticket), whose(e, known, theirs))
	case e.ticket <= p.by:
		b.twice++
		b.findings.add(Twice, rec, "admits visitor %s on %s, whose entry the admission in record %d (%s) had settled", Hash(in.Visitor), b.name(in.Ticket), p.by, b.name(p.ticket))
	case p.by > 0 && !p.released && p.endsMs > rec.AtMs:
		b.again++
		b.findings.add(Again, rec, "admits visitor %s on %s, entered after the admission in record %d, whose grant had %d ms left", Hash(in.Visitor), b.name(in.Ticket), p.by, p.endsMs-rec.AtMs)
	}
	if theirs {
		if p.counts > 0 && &b.entries[p.counts-1] == e {
			p.counts, p.key = 0, ""
		}
		b.become(e, admitted)
		b.waits = append(b.waits, wait{rec.AtMs, max(0, rec.AtMs-e.atMs)})
	}
	b.end(p, absorbed)
	b.active.take(in.Ticket, id, in.ExpiresMs)
	*p = person{by: rec.Ticket, ticket: in.Ticket, endsMs: in.ExpiresMs}
	return true
}

func whose(e *entry, known, theirs bool) string {
	switch {
	case !known:
		return "is nobody's entry"
	case !theirs:
		return "is another's entry"
	}
	return "did not count: its visitor waited already"
}

// pass moves the head up to number n, and finds who waits before it.
func (b *book) pass(rec *queue.Record, n queue.Ticket) {
	for e, at := range b.upTo(n) {
		if e.fate == waiting && at < n {
			b.passed++
			b.findings.add(Passed, rec, "admits %s while %s of visitor %s waits", b.name(n), b.name(at), Hash(b.names[e.who]))
		}
	}
}

// upTo yields the entries that the head passes on its way to number n, each with its number.
func (b *book) upTo(n queue.Ticket) iter.Seq2[*entry, queue.Ticket] {
	return func(yield func(*entry, queue.Ticket) bool) {
		for b.lots.head < len(b.lots.all) && b.lots.all[b.lots.head].number <= n {
			l := b.lots.all[b.lots.head]
			b.lots.head++
			if !yield(&b.entries[l.entry], l.number) {
				return
			}
		}
		for b.head < len(b.entries) && b.entries[b.head].ticket <= n {
			e := &b.entries[b.head]
			b.head++
			if !yield(e, e.ticket) {
				return
			}
		}
	}
}

// waitingNow yields everybody who waits, in the order of their numbers.
func (b *book) waitingNow() iter.Seq[queue.Waiting] {
	return func(yield func(queue.Waiting) bool) {
		tell := func(e *entry, n queue.Ticket) bool {
			return e.fate != waiting || yield(queue.Waiting{Visitor: b.names[e.who], Ticket: n, Key: b.people[e.who].key})
		}
		for _, l := range b.lots.all {
			if !tell(&b.entries[l.entry], l.number) {
				return
			}
		}
		for i := b.lots.entries; i < len(b.entries); i++ {
			if e := &b.entries[i]; !tell(e, e.ticket) {
				return
			}
		}
	}
}

func (b *book) state() queue.State {
	return queue.State{Seq: b.last, Served: b.served, Epoch: b.epoch, Reentry: b.rule, Draw: b.draw, End: b.endState()}
}

// report writes down the sums.
func (b *book) report(r *Report) {
	r.Records, r.FirstMs, r.LastMs, r.Trimmed = b.records, b.firstMs, b.lastMs, b.trimmed
	r.Served = b.served
	r.Rule = b.rule.String()
	r.Visitors = int64(len(b.people))
	r.Accepted = int64(len(b.entries))
	r.Fates = Fates{Admitted: b.fates[admitted], Waiting: b.fates[waiting], MovedBack: b.fates[movedBack], Kept: b.fates[kept],
		Retransmitted: b.fates[retransmitted], Absorbed: b.fates[absorbed], Left: b.fates[left], Ended: b.fates[ended], Refused: b.fates[refused]}
	r.Admitted = b.admissions
	r.Waiting = b.fates[waiting]
	r.Lost, r.Twice, r.OutOfOrder, r.Again = b.passed, b.twice, b.outOfOrder, b.again
	r.OrderKept = b.passed == 0 && b.outOfOrder == 0
	r.Released, r.Void, r.VoidBy, r.Skipped, r.Gaps = b.released, b.void, b.voidBy, b.skipped, b.gaps
	r.Claims, r.Ends = b.claims, b.ends
	r.Waits = percentiles(b.waits)
	if b.trimmed {
		b.findings.add(Trimmed, nil, "the log begins at ticket %d", b.first)
	}
	sum := r.Fates.Sum()
	if sum != r.Accepted {
		b.findings.add(Sums, nil, "%d entries, and %d with a fate", r.Accepted, sum)
	}
	if b.fates[admitted] != r.Admitted && b.notTheirs == 0 && !b.trimmed {
		b.findings.add(Sums, nil, "%d people were admitted, and %d entries", r.Admitted, b.fates[admitted])
	}
}

// Hash names a visitor in reports: a few digits of a hash, enough to tell people apart and no way back to the id.
func Hash(v queue.Visitor) string { return fmt.Sprintf("%08x", shortHash(v)) }
