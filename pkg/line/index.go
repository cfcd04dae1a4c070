package line

import (
	"math/bits"
	"slices"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// blockBits tickets share a block: one bitmap of those that wait, one count in the Fenwick tree.
const (
	blockBits  = 4096
	blockWords = blockBits / 64
)

// block holds the tickets [n*blockBits, (n+1)*blockBits) of its number n.
type block struct {
	live   [blockWords]uint64 // who waits
	stored [blockWords]uint64 // whose names are in names: live, and those removed since the last compaction
	names  []queue.Visitor    // of stored, in ticket order
	count  int                // of live
}

// index is the set of waiting tickets with their visitors, ordered. Tickets are added in growing order only and are
// removed anywhere, so a bitmap answers "how many before this one" by counting bits, and a Fenwick tree over the blocks
// keeps that from depending on the length of the line.
type index struct {
	base   int64    // number of blocks[0]
	blocks []*block // nil where nobody waits any more
	tree   []int32  // Fenwick tree over blocks' counts; tree[i] covers blocks (i+1-lowbit(i+1), i+1]
	len    int
	head   int // blocks before it are empty
}

func split(t queue.Ticket) (blk int64, word int, bit uint64) {
	return int64(t) / blockBits, int(t) % blockBits / 64, 1 << (uint(t) % 64)
}

// add puts t, which is above every ticket ever added, with its visitor.
func (x *index) add(t queue.Ticket, v queue.Visitor) {
	n, word, bit := split(t)
	if len(x.blocks) == 0 {
		x.base, x.head = n, 0
	}
	for x.base+int64(len(x.blocks)) <= n {
		x.grow()
	}
	i := int(n - x.base)
	b := x.blocks[i]
	if b == nil {
		b = &block{}
		x.blocks[i] = b
		x.head = min(x.head, i)
	}
	b.live[word] |= bit
	b.stored[word] |= bit
	b.names = append(b.names, v)
	b.count++
	x.len++
	for j := i + 1; j <= len(x.tree); j += j & -j {
		x.tree[j-1]++
	}
}

// grow appends one empty block. The new node of the tree covers the lowbit(i) blocks that end with it.
func (x *index) grow() {
	if x.head > 64 && x.head > len(x.blocks)/2 { // the line has moved on: forget its past, at a cost that is amortised
		x.blocks = append([]*block(nil), x.blocks[x.head:]...)
		x.base += int64(x.head)
		x.head = 0
		x.tree = make([]int32, len(x.blocks))
		for i, b := range x.blocks {
			if b != nil {
				x.tree[i] += int32(b.count)
			}
			if up := i + 1 + (i+1)&-(i+1); up <= len(x.tree) {
				x.tree[up-1] += x.tree[i]
			}
		}
	}
	x.blocks = append(x.blocks, nil)
	i := len(x.blocks)
	x.tree = append(x.tree, int32(x.prefix(i-1)-x.prefix(i-i&-i)))
}

// prefix counts the waiting tickets of the first n blocks.
func (x *index) prefix(n int) int {
	s := 0
	for ; n > 0; n -= n & -n {
		s += int(x.tree[n-1])
	}
	return s
}

// remove takes t out; it must be there.
func (x *index) remove(t queue.Ticket) {
	n, word, bit := split(t)
	i := int(n - x.base)
	b := x.blocks[i]
	b.live[word] &^= bit
	b.count--
	x.len--
	for j := i + 1; j <= len(x.tree); j += j & -j {
		x.tree[j-1]--
	}
	switch {
	case b.count == 0:
		x.blocks[i] = nil
		for x.head < len(x.blocks) && x.blocks[x.head] == nil {
			x.head++
		}
	case b.count <= len(b.names)/2:
		b.compact()
	}
}

// compact drops the names of those who are gone; halving each time, it costs a constant per removal.
func (b *block) compact() {
	names := make([]queue.Visitor, 0, b.count)
	k := 0
	for w, s := range b.stored {
		for ; s != 0; s &= s - 1 {
			if b.live[w]&(s&-s) != 0 {
				names = append(names, b.names[k])
			}
			k++
		}
	}
	b.names, b.stored = names, b.live
}

// rank is how many wait with a lower ticket than t.
func (x *index) rank(t queue.Ticket) int {
	n, word, bit := split(t)
	i := int(n - x.base)
	if i < 0 {
		return 0
	}
	if i >= len(x.blocks) {
		return x.len
	}
	r := x.prefix(i)
	if b := x.blocks[i]; b != nil {
		r += countBefore(&b.live, word, bit)
	}
	return r
}

func countBefore(set *[blockWords]uint64, word int, bit uint64) int {
	n := bits.OnesCount64(set[word] & (bit - 1))
	for _, w := range set[:word] {
		n += bits.OnesCount64(w)
	}
	return n
}

// ascend calls f for everybody in ticket order until f returns false. f must not change the index.
func (x *index) ascend(f func(queue.Ticket, queue.Visitor) bool) {
	for i := x.head; i < len(x.blocks); i++ {
		b := x.blocks[i]
		if b == nil {
			continue
		}
		k := 0
		for w, s := range b.stored {
			for ; s != 0; s &= s - 1 {
				if low := s & -s; b.live[w]&low != 0 {
					t := (x.base+int64(i))*blockBits + int64(w)*64 + int64(bits.TrailingZeros64(low))
					if !f(queue.Ticket(t), b.names[k]) {
						return
					}
				}
				k++
			}
		}
	}
}

func (x *index) clone() index {
	c := *x
	c.tree = slices.Clone(x.tree)
	c.blocks = make([]*block, len(x.blocks))
	for i, b := range x.blocks {
		if b != nil {
			d := *b
			d.names = slices.Clone(b.names)
			c.blocks[i] = &d
		}
	}
	return c
}
