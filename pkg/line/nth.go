package line

import (
	"math/bits"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Nth is the ticket, or the number drawn, of who waits with k others before them; ok is false where there is nobody. Who was handed out
// and is not admitted yet doesn't count, nor does k count them. It takes as long as a rank does, whatever the line's length.
func (l *Line) Nth(k int64) (t queue.Ticket, ok bool) {
	if k < 0 || k >= int64(l.index.len) {
		return 0, false
	}
	return l.index.nth(int(k)), true
}

// nth is the inverse of rank; there must be more than k.
func (x *index) nth(k int) queue.Ticket {
	i := 0 // blocks that are before it for sure
	for step := 1 << bits.Len(uint(len(x.tree))); step > 0; step /= 2 {
		if i+step <= len(x.tree) && int(x.tree[i+step-1]) <= k {
			k -= int(x.tree[i+step-1])
			i += step
		}
	}
	b := x.blocks[i]
	w := 0
	for n := bits.OnesCount64(b.live[w]); k >= n; n = bits.OnesCount64(b.live[w]) {
		k -= n
		w++
	}
	s := b.live[w]
	for ; k > 0; k-- {
		s &= s - 1
	}
	return queue.Ticket((x.base+int64(i))*blockBits + int64(w)*64 + int64(bits.TrailingZeros64(s)))
}
