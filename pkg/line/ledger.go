package line

import "github.com/soonbeon/soonbeon/pkg/queue"

// RememberMs is how long after its end a grant is still known, so that its holder can be told what became of it.
const RememberMs = 10 * 60 * 1000

// GrantState is what became of an admission, as of a moment.
type GrantState uint8

// The states of a grant.
const (
	NoGrant  GrantState = iota // never admitted, or too long ago to be remembered
	Live                       // the visitor may go in
	Expired                    // its time is over
	Released                   // it was ended early
)

type grant struct {
	queue.Grant
	released bool
}

// Ledger is the part of the fold that needs no line: it decides which admissions are valid and keeps the grants. What
// decides is three integers; only the grants grow with people. A position node follows a log with a Ledger alone.
type Ledger struct {
	state   queue.State
	grants  map[queue.Visitor]grant
	expiry  []expiring // in the order of admission, which is nearly that of expiry; those before oldest are done with
	oldest  int
	active  slots
	counts  Counts
	lastMs  int64
	claimed queue.Record // the latest claim
}

type expiring struct {
	visitor queue.Visitor
	endsMs  int64
}

// Counts of what a ledger has met. They only grow.
type Counts struct {
	Records  int64
	Skipped  int64 // records that could not be read
	Void     int64 // admissions and checkpoints of a leader that did not lead any more, and repetitions, by person
	Admitted int64 // people
	Released int64 // of them, those whose grant was ended early
	Differs  int64 // valid checkpoints whose served is not this ledger's: this reader, or the leader, is wrong

	// Of a Line only:
	Entered  int64 // entries that took a place
	Moved    int64 // of them, those of somebody who waited already: refreshes
	Repeated int64 // entries that took none: retransmissions, and who has a place by the rule keep
	Refused  int64 // entries that took none since the line was over
}

// NewLedger returns the ledger of an empty log.
func NewLedger() *Ledger { return &Ledger{grants: map[queue.Visitor]grant{}} }

// State returns the integers and the rule.
func (l *Ledger) State() queue.State { return l.state }

// Counts returns what was met so far.
func (l *Ledger) Counts() Counts { return l.counts }

// Claim returns the latest claim, zero where there was none.
func (l *Ledger) Claim() queue.Record { return l.claimed }

// LastMs is the broker's time of the last record applied, Unix milliseconds; 0 before the first.
func (l *Ledger) LastMs() int64 { return l.lastMs }

// Apply folds recs, which follow what was applied: compare-and-set as Line.Apply, for those who keep no line.
func (l *Ledger) Apply(follows queue.Ticket, recs []queue.Record) bool {
	if !l.fits(follows, recs) {
		return false
	}
	for i := range recs {
		l.step(&recs[i])
	}
	return true
}

func (l *Ledger) fits(follows queue.Ticket, recs []queue.Record) bool {
	if follows != l.state.Seq {
		return false
	}
	for i := range recs { // offsets that Kafka leaves out make gaps; going back is never right
		if recs[i].Ticket <= follows {
			return false
		}
		follows = recs[i].Ticket
	}
	return true
}

// step folds one record and returns the people that it validly admits, in ticket order.
func (l *Ledger) step(rec *queue.Record) []queue.Person {
	l.state.Seq = rec.Ticket
	l.lastMs = rec.AtMs
	l.counts.Records++
	switch rec.Kind {
	case queue.Skipped:
		l.counts.Skipped++
	case queue.Claimed:
		l.state.Epoch = rec.Ticket
		l.claimed = *rec
	case queue.SettingsSet:
		l.state.Reentry = rec.Reentry
	case queue.Checkpoint:
		if rec.Epoch != l.state.Epoch {
			l.counts.Void++
		} else if rec.Served != l.state.Served {
			l.counts.Differs++
		}
	case queue.Released:
		if g, ok := l.grants[rec.Visitor]; ok && g.Ticket == rec.Of {
			g.released = true
			l.grants[rec.Visitor] = g
		}
		if l.active.free(rec.Of) {
			l.counts.Released++
		}
	case queue.Admitted:
		return l.admit(rec)
	case queue.Drawn:
		if l.leads(rec) && l.state.Draw.At == 0 {
			l.state.Draw = queue.Draw{From: l.state.Served, At: rec.Ticket, Seed: rec.Seed}
		}
	case queue.Ended:
		if l.leads(rec) {
			l.state.End = queue.End{At: rec.Ticket, Why: rec.Why, Over: true}
			l.state.Served = rec.Ticket // who waits was before it, and waits no more
		}
	case queue.Reopened:
		if l.leads(rec) {
			l.state.End.Over = false
		}
	}
	return nil
}

// leads says that rec is of the latest claim; others' are void.
func (l *Ledger) leads(rec *queue.Record) bool {
	if rec.Epoch != l.state.Epoch {
		l.counts.Void++
		return false
	}
	return true
}

func (l *Ledger) admit(rec *queue.Record) []queue.Person {
	valid := rec.People
	if rec.Epoch != l.state.Epoch {
		valid = nil // a zombie's
	}
	served := l.state.Served
	for i, p := range valid {
		if p.Ticket <= served { // a repetition: keep only the others
			valid = append([]queue.Person(nil), valid[:i]...)
			for _, p := range rec.People[i:] {
				if p.Ticket > served {
					served = p.Ticket
					valid = append(valid, p)
				}
			}
			break
		}
		served = p.Ticket
	}
	l.state.Served = served
	l.counts.Void += int64(len(rec.People) - len(valid))
	l.counts.Admitted += int64(len(valid))
	for _, p := range valid {
		l.grants[p.Visitor] = grant{Grant: queue.Grant{Ticket: p.Ticket, AdmittedMs: rec.AtMs, ExpiresMs: p.ExpiresMs}}
		l.expiry = append(l.expiry, expiring{p.Visitor, p.ExpiresMs})
		l.active.take(p.Ticket, p.ExpiresMs)
	}
	l.forget(rec.AtMs)
	return valid
}

// forget drops grants that ended long before nowMs. The log's own time is enough of a clock for that: it is never ahead
// of what a reader is asked about.
func (l *Ledger) forget(nowMs int64) {
	l.active.expire(nowMs - RememberMs)
	for l.oldest < len(l.expiry) && l.expiry[l.oldest].endsMs+RememberMs <= nowMs {
		e := l.expiry[l.oldest]
		if g, ok := l.grants[e.visitor]; ok && g.ExpiresMs <= e.endsMs {
			delete(l.grants, e.visitor)
		}
		l.oldest++
	}
	if l.oldest > len(l.expiry)/2 {
		l.expiry = append([]expiring(nil), l.expiry[l.oldest:]...)
		l.oldest = 0
	}
}

// Grant tells what became of the visitor's latest admission, as of nowMs.
func (l *Ledger) Grant(v queue.Visitor, nowMs int64) (queue.Grant, GrantState) {
	g, ok := l.grants[v]
	switch {
	case !ok:
		return queue.Grant{}, NoGrant
	case g.released:
		return g.Grant, Released
	case g.ExpiresMs <= nowMs:
		return g.Grant, Expired
	}
	return g.Grant, Live
}
