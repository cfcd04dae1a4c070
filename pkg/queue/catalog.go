package queue

import "fmt"

// Entry is one queue of the catalogue: its settings, and how it stands.
type Entry struct {
	ID       ID
	Version  int64 // of this state of it: the offset + 1 of its record. It grows with each change
	Made     int64 // the version that it was made with: tells it from an earlier queue of the same name
	Settings Settings

	Paused   bool   // nobody is let in; who waits keeps the place
	Closed   bool   // nobody is taken into the line
	Ending   bool   // and who waits is not let through any more
	Why      string // the reason of closing, a code for machines; "" while it is not closed
	Deleting bool   // it is being deleted: every service has let go of it

	Commitment string // of the draw's seed, hexadecimal; "" where lots are not drawn
	Sealed     []byte // the seed, readable only with the deployment's secret

	// Unknown is what a newer version has written into the record: kept as it is, and written back with every change.
	Unknown []byte
}

// Change is one change of the catalogue, as it is kept for whoever asks later who did what.
type Change struct {
	Who    string // the name of the operator's credential
	AtMs   int64  // Unix milliseconds
	Queue  ID
	Action string // create, set, pause, resume, close, delete
	From   string // the entry before, as JSON without secrets; "" where there was none
	To     string // and after
}

// The reasons of closing that the product itself gives.
const (
	WhyClosed  = "closed"
	WhySoldOut = "sold_out"
)

// MaxWhy is the longest reason, in bytes.
const MaxWhy = 32

// CheckWhy checks a reason of closing: 1 to 32 of a-z, 0-9 and '_'.
func CheckWhy(s string) error {
	ok := s != "" && len(s) <= MaxWhy
	for i := range len(s) {
		c := s[i]
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_')
	}
	if s == "left" || s == "expired" || s == "released" {
		return fmt.Errorf("the reason %s is what people are told who left or were let in: choose another word", s)
	}
	if !ok {
		return fmt.Errorf("a reason is 1 to %d of a-z, 0-9 and '_', not %.40q", MaxWhy, s)
	}
	return nil
}

// TakesEntries says whether entries are taken at nowMs, Unix milliseconds, and if not, the reason.
func (e *Entry) TakesEntries(nowMs int64) (ok bool, why string) {
	switch {
	case e.Closed:
		return false, e.Why
	case e.Settings.ClosesAtMs > 0 && nowMs >= e.Settings.ClosesAtMs:
		return false, WhyClosed
	}
	return true, ""
}
