package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/plot"
)

// Report is what an audit found. Its JSON form has the fields below and "ok". Times are Unix milliseconds by the brokers'
// clock; tickets are offsets + 1.
type Report struct {
	Queue    queue.ID     `json:"queue"`
	First    queue.Ticket `json:"first"` // of the log
	End      queue.Ticket `json:"end"`   // the last ticket that was audited
	Records  int64        `json:"records"`
	FirstMs  int64        `json:"firstMs"`
	LastMs   int64        `json:"lastMs"`
	Trimmed  bool         `json:"trimmed"` // the log does not begin at ticket 1
	Visitors int64        `json:"visitors"`
	Accepted int64        `json:"accepted"` // entries: each was acknowledged, or could have been
	Admitted int64        `json:"admitted"` // people let in, by valid records
	Waiting  int64        `json:"waiting"`  // at the end
	Fates    Fates        `json:"fates"`    // of the entries

	Lost       int64 `json:"lost"`       // passed while they waited: no reader admits them any more
	Twice      int64 `json:"twice"`      // admissions of people who had been let in for that entry
	Again      int64 `json:"again"`      // admissions after a new entry, while the grant before still lived
	OutOfOrder int64 `json:"outOfOrder"` // people named after a later ticket, whom no reader admits
	OrderKept  bool  `json:"orderKept"`  // no one passed anyone

	Draw   *Draw  `json:"draw"` // null: lots were not drawn
	Ends   []End  `json:"ends"`
	Active Active `json:"active"`
	Asked  *Asked `json:"asked,omitempty"`

	Rate         Rate     `json:"rate"`
	LongestPause Pause    `json:"longestPause"`
	Waits        Waits    `json:"waits"`
	Claims       []Claim  `json:"claims"`
	ModeChanges  int64    `json:"modeChanges"`
	Outages      []Outage `json:"outages"`

	Void     int64            `json:"void"`   // people and checkpoints in records that no reader counts
	VoidBy   map[string]int64 `json:"voidBy"` // issuer → how many of them
	Skipped  int64            `json:"skipped"`
	Gaps     int64            `json:"gaps"` // tickets that are in no record
	Released int64            `json:"released"`
	Served   queue.Ticket     `json:"served"`
	Rule     string           `json:"rule"`
	Digest   string           `json:"digest"` // of the line at the end

	Redis    *Redis    `json:"redis,omitempty"`
	Findings []Finding `json:"findings"` // what is wrong first
	Series   Series    `json:"series"`
}

// Fates of the entries; each has exactly one.
type Fates struct {
	Admitted      int64 `json:"admitted"`
	Waiting       int64 `json:"waiting"`
	MovedBack     int64 `json:"movedBack"`     // the visitor entered again
	Kept          int64 `json:"kept"`          // the visitor waited already, under the rule keep
	Retransmitted int64 `json:"retransmitted"` // the same request once more
	Absorbed      int64 `json:"absorbed"`      // written while its visitor was being admitted
	Left          int64 `json:"left"`
	Ended         int64 `json:"ended"`   // waited when the line was ended
	Refused       int64 `json:"refused"` // written after the end, and took no place
}

// Sum is how many entries have a fate.
func (f Fates) Sum() int64 {
	return f.Admitted + f.Waiting + f.MovedBack + f.Kept + f.Retransmitted + f.Absorbed + f.Left + f.Ended + f.Refused
}

// Rate is that of admissions.
type Rate struct {
	Mean          *float64     `json:"meanPerSecond"` // from the first batch to the last; null with fewer than two
	HighestSecond int64        `json:"highestSecond"` // most people in any one second
	HighestAtMs   int64        `json:"highestAtMs"`   // where it begins
	HighestTicket queue.Ticket `json:"highestTicket"` // the record that it ends with
	Batches       int64        `json:"batches"`
	LargestBatch  int64        `json:"largestBatch"`
	Expected      float64      `json:"expected,omitempty"` // the highest that was ever set
	Limit         int64        `json:"limit,omitempty"`    // of any second: the expected rate and one batch
}

// Draw is the lot of the opening. Who knows the seed, First and Last can reckon every number: see docs/guarantees.md.
type Draw struct {
	Record       queue.Ticket `json:"record"`
	AtMs         int64        `json:"atMs"`
	First        queue.Ticket `json:"first"` // tickets that drew, and the numbers that they drew
	Last         queue.Ticket `json:"last"`
	Seed         string       `json:"seed"`                 // hexadecimal
	People       int64        `json:"people"`               // who waited
	Commitment   string       `json:"commitment,omitempty"` // as it was published; "" where that is not known
	CommitmentOK *bool        `json:"commitmentOk"`         // null: there was none to compare
}

// End is one end of the line.
type End struct {
	Record     queue.Ticket `json:"record"`
	AtMs       int64        `json:"atMs"`
	Why        string       `json:"why"`
	InLine     int64        `json:"inLine"`     // people who waited, and were sent away
	Refused    int64        `json:"refused"`    // entries after it that took no place
	Reopened   queue.Ticket `json:"reopened"`   // the record that reopened it; 0: none
	ReopenedMs int64        `json:"reopenedMs"` // 0: it was not
}

// Active is how many admissions held at one time: each until it was released, or until the gates' allowance for clocks after
// its end was over.
type Active struct {
	Highest int64        `json:"highest"`
	AtMs    int64        `json:"atMs"`
	Record  queue.Ticket `json:"record"`
	Limit   int64        `json:"limit,omitempty"` // the highest that was ever set; 0: not known, or there was a time without
}

// Asked is what became of one ticket.
type Asked struct {
	Ticket queue.Ticket `json:"ticket"`
	Entry  bool         `json:"entry"`          // it is somebody's; else the rest says nothing
	Drew   bool         `json:"drew"`           // it took part in the draw
	Number queue.Ticket `json:"number"`         // that counts in its place; the ticket where it did not draw
	Fate   string       `json:"fate,omitempty"` // what became of it
}

// Pause is a time in which people waited and nobody was let in.
type Pause struct {
	Ms     int64        `json:"ms"`
	FromMs int64        `json:"fromMs"`
	After  queue.Ticket `json:"after"`  // the record that admitted before it; 0: none
	Before queue.Ticket `json:"before"` // the record that ended it; 0: none, up to the end of the log
}

// Waits are percentiles of the time from an entry to its admission, in milliseconds.
type Waits struct {
	Count int64 `json:"count"`
	P50   int64 `json:"p50Ms"`
	P90   int64 `json:"p90Ms"`
	P99   int64 `json:"p99Ms"`
	Max   int64 `json:"maxMs"`
}

// Claim is a leader's.
type Claim struct {
	Ticket queue.Ticket `json:"ticket"`
	AtMs   int64        `json:"atMs"`
	Issuer string       `json:"issuer"`
	Mode   string       `json:"mode"`
}

// Outage is a time under claims of mode direct, in a log that has some of mode redis: Redis was not to be had.
type Outage struct {
	FromTicket     queue.Ticket `json:"fromTicket"` // the claim that began it
	FromMs         int64        `json:"fromMs"`
	ToTicket       queue.Ticket `json:"toTicket"` // the claim that ended it; 0: it goes on
	ToMs           int64        `json:"toMs"`
	Admitted       int64        `json:"admitted"`
	LongestPauseMs int64        `json:"longestPauseMs"` // at its edges too
	HighestSecond  int64        `json:"highestSecond"`  // at its edges too
}

// Redis is what the comparison with Redis said.
type Redis struct {
	Seq         queue.Ticket `json:"seq"`
	Behind      int64        `json:"behind"` // tickets that it had not applied after waiting
	WaitedMs    int64        `json:"waitedMs"`
	Exact       bool         `json:"exact"`    // of one moment; else of a view that moved while it was read
	Compared    int64        `json:"compared"` // people
	Differences int64        `json:"differences"`
	Digest      string       `json:"digest,omitempty"`
	LogDigest   string       `json:"logDigest,omitempty"`
}

// Series is what happened in each step of time.
type Series struct {
	FromMs  int64  `json:"fromMs"`
	WidthMs int64  `json:"widthMs"`
	Steps   []Step `json:"steps"`
}

// Step is one of them.
type Step struct {
	Entered       int64 `json:"entered"`
	Admitted      int64 `json:"admitted"`
	HighestSecond int64 `json:"highestSecond"` // of the seconds that end in it
	Waiting       int64 `json:"waiting"`       // at most
	P50           int64 `json:"p50Ms"`         // of those admitted in it
	P90           int64 `json:"p90Ms"`
	P99           int64 `json:"p99Ms"`
}

// The exit codes of the command.
const (
	ExitOK    = 0
	ExitWrong = 1
)

// OK says that nothing is wrong.
func (r *Report) OK() bool { return len(r.Findings) == 0 || !r.Findings[0].Wrong }

// ExitCode is ExitOK or ExitWrong.
func (r *Report) ExitCode() int {
	if r.OK() {
		return ExitOK
	}
	return ExitWrong
}

// Find returns the finding of a kind; nil where there is none.
func (r *Report) Find(k Kind) *Finding {
	for i := range r.Findings {
		if r.Findings[i].Kind == k {
			return &r.Findings[i]
		}
	}
	return nil
}

// MarshalJSON adds "ok".
func (r *Report) MarshalJSON() ([]byte, error) {
	type plain Report
	return json.Marshal(struct {
		OK bool `json:"ok"`
		*plain
	}{r.OK(), (*plain)(r)})
}

func shortHash(v queue.Visitor) uint32 {
	h := sha256.Sum256([]byte(v))
	return binary.BigEndian.Uint32(h[:])
}

func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format("15:04:05.000") }

// place names a record for people.
func place(t queue.Ticket) string { return fmt.Sprintf("record %d (offset %d)", t, t-1) }

// Span is the time from the first record to the latest, in milliseconds.
func (r *Report) Span() int64 { return r.LastMs - r.FirstMs }

// asked tells of one ticket; nil where none was asked for.
func (b *book) asked(t queue.Ticket) *Asked {
	if t == 0 {
		return nil
	}
	a := &Asked{Ticket: t, Drew: b.draw.Drawn(t), Number: b.draw.Number(t)}
	e, ok := b.entryOf(a.Number)
	if !ok {
		return a
	}
	a.Entry, a.Fate = true, e.fate.String()
	return a
}

// Took is how long the outage lasted, in milliseconds.
func (o Outage) Took() int64 { return o.ToMs - o.FromMs }

// Wrongs names everything that is wrong, in a line.
func (r *Report) Wrongs() string {
	var titles []string
	for _, f := range r.Findings {
		if f.Wrong {
			titles = append(titles, fmt.Sprintf("%s (%s)", f.Title, plot.Thousands(f.Count)))
		}
	}
	return strings.Join(titles, "; ")
}

// FirstClaims are the first hundred claims, for a page.
func (r *Report) FirstClaims() []Claim { return r.Claims[:min(len(r.Claims), 100)] }
