package queue

// Ticket is a record's place in its queue's log: offset + 1, so that 0 is "none". It only grows and is not dense.
// Below 2^53 it is exact as a Redis score too.
type Ticket int64

// Kind says what a record is.
type Kind uint8

// The kinds of record. Skipped stands for one that could not be read: its ticket is used up, and nothing else happens.
const (
	Skipped Kind = iota
	Entered
	Left
	Claimed
	Admitted
	Released
	SettingsSet
	Checkpoint
	Drawn
	Ended
	Reopened
)

var kindNames = [...]string{"skipped", "entered", "left", "claimed", "admitted", "released", "settings", "checkpoint", "drawn", "ended", "reopened"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// Mode says which view a leader pops from.
type Mode uint8

// The modes of a claim.
const (
	ModeUnknown Mode = iota
	ModeRedis
	ModeDirect
)

func (m Mode) String() string {
	switch m {
	case ModeRedis:
		return "redis"
	case ModeDirect:
		return "direct"
	}
	return "unknown"
}

// Record is one record of a queue's log. Which fields count depends on Kind; the others are zero.
type Record struct {
	Ticket  Ticket
	AtMs    int64 // when the broker appended it, Unix milliseconds; of an Admitted to be appended, when it was decided
	Kind    Kind
	Mode    Mode     // Claimed
	Reentry Reentry  // SettingsSet, Checkpoint
	Visitor Visitor  // Entered, Left, Released
	Key     string   // Entered: digest of the idempotency key, "" for none
	Issuer  string   // Claimed
	Of      Ticket   // Released: the admission's ticket
	Epoch   Ticket   // Admitted, Checkpoint, Drawn, Ended, Reopened
	Served  Ticket   // Checkpoint
	People  []Person // Admitted, in the order of their numbers
	Seed    Seed     // Drawn
	Why     string   // Ended: the reason, a code for machines
}

// Person is one admission: who, for which ticket (where lots were drawn: the number drawn), and until when (Unix
// milliseconds).
type Person struct {
	Visitor   Visitor
	Ticket    Ticket
	ExpiresMs int64
}

// Grant is an admission that holds, or held: what an entry token is made from.
type Grant struct {
	Ticket     Ticket
	AdmittedMs int64
	ExpiresMs  int64
}

// Reason says why a view handed nobody out.
type Reason uint8

// The reasons of Admit.
const (
	Handed Reason = iota // somebody was handed out
	Empty                // nobody waits, or the head is itself being admitted
	Paced                // the rate bucket is empty
	Behind               // the view has not met the asker's own last record yet
	Fenced               // a later claim asked or was applied: the asker does not lead any more
)

var reasonNames = [...]string{"handed", "empty", "paced", "behind", "fenced"}

func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "unknown"
}

// Ask is a leader's request for the next batch. Batch counts from 1 in each epoch; asking for a number says that the
// batches before it are in the log. Asking for the same number again returns the same people.
type Ask struct {
	Epoch   Ticket
	Batch   int64
	AtLeast Ticket // the ticket of the asker's own last record
	N       int    // how many at most; 1 to MaxBatch
}

// MaxBatch bounds one call to a view: so many members are popped or applied by one script at the most.
const MaxBatch = 1000

// Waiting is one visitor in line, as a digest or a comparison sees it. Ticket is as in Place.
type Waiting struct {
	Visitor Visitor
	Ticket  Ticket
	Key     string
}

// Place is where one visitor stands in a line: the ticket that counts (where lots were drawn: the number drawn), and how many
// wait ahead, those being admitted included. Ticket is 0 for who does not wait.
type Place struct {
	Ticket Ticket
	Ahead  int64
}

// Moment is what a view knows of the whole line at the moment of an answer. Total counts everybody who waits by the log.
type Moment struct {
	State
	Total int64
}

// The reasons that a leader skips a batch for, beside those of a view.
const (
	SkipFull       = "full"
	SkipPaused     = "paused"
	SkipClosed     = "closed"
	SkipNotOpen    = "not_open"
	SkipNotLeading = "not_leading"
)
