package queue

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"iter"
)

// State is what the fold knows besides the people: three integers and the rule.
type State struct {
	Seq     Ticket
	Served  Ticket
	Epoch   Ticket
	Reentry Reentry
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
