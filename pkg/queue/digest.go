package queue

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"iter"
)

// State is what the fold knows besides the people: three integers, the rule, the draw, and the line's end.
type State struct {
	Seq     Ticket
	Served  Ticket // the highest ticket (number, where lots were drawn) that waits no more
	Epoch   Ticket
	Reentry Reentry
	Draw    Draw // the zero value until there was one
	End     End
}

// End says that the line was ended: who waited then waits no more, and who enters takes no place, until it is reopened.
type End struct {
	At   Ticket // the record that ended it last; it stays when the line is reopened. 0: never
	Why  string // its reason
	Over bool   // not reopened since
}

// Digest is the fingerprint of a line: equal for two views that folded the same log, whichever way they hold it.
// waiting yields everybody who waits by the log, those popped but not yet met in the log included, in ticket order.
// Grants are left out, since which of them still live depends on the clock.
func Digest(s State, waiting iter.Seq[Waiting]) string {
	h := sha256.New()
	var b []byte
	num := func(n int64) { b = binary.AppendVarint(b, n) }
	str := func(s string) { num(int64(len(s))); b = append(b, s...) }
	num(int64(s.Seq))
	num(int64(s.Served))
	num(int64(s.Epoch))
	num(int64(s.Reentry))
	num(int64(s.Draw.At))
	num(int64(s.Draw.From))
	b = append(b, s.Draw.Seed[:]...)
	num(int64(s.End.At))
	str(s.End.Why)
	num(map[bool]int64{true: 1}[s.End.Over])
	h.Write(b)
	for w := range waiting {
		b = b[:0]
		num(int64(w.Ticket))
		str(w.Visitor)
		str(w.Key)
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
