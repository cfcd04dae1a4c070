package queue

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
)

// SeedBytes is the length of a draw's seed.
const SeedBytes = 32

// Seed decides a draw. It is secret until the opening and a record in the log from then on.
type Seed [SeedBytes]byte

func (s Seed) String() string { return hex.EncodeToString(s[:]) }

// Commitment is what is published of a seed before the opening: the SHA-256 of a fixed text, the queue's id, and the seed,
// each after a NUL, in hexadecimal. Whoever is shown the seed afterwards can tell that it is the one that was meant.
func Commitment(id ID, s Seed) string {
	sum := sha256.Sum256([]byte("soonbeon draw v1\x00" + string(id) + "\x00" + string(s[:])))
	return hex.EncodeToString(sum[:])
}

// Draw is the lot of one opening: everybody who waits at the record with ticket At gets another number in place of the
// ticket, which is what counts from then on. Numbers are a permutation of the tickets above From and up to At; who comes
// later has a number equal to the ticket, and so stands behind. The zero value is no draw, and every ticket its own number.
//
// The permutation is a generalised Feistel network (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002) of
// drawRounds rounds whose functions are SHA-256 keyed by the seed, walked until it falls into the range. Nothing is
// stored for each person, anybody who knows the seed can reckon it, and it can be turned around.
type Draw struct {
	From Ticket // served at the opening: tickets up to here are not drawn any more
	At   Ticket // the opening's own record; 0: none
	Seed Seed
}

const drawRounds = 8

// Drawn says that ticket t took part.
func (d *Draw) Drawn(t Ticket) bool { return d.From < t && t <= d.At }

// Number is what counts in the place of ticket t.
func (d *Draw) Number(t Ticket) Ticket {
	if !d.Drawn(t) {
		return t
	}
	return d.From + 1 + Ticket(d.walk(uint64(t-d.From-1), d.forth))
}

// Ticket is the ticket that drew number n: Number turned around.
func (d *Draw) Ticket(n Ticket) Ticket {
	if !d.Drawn(n) {
		return n
	}
	return d.From + 1 + Ticket(d.walk(uint64(n-d.From-1), d.back))
}

// walk steps through the network until it is in the range again: twice at the most on average, since the network's own
// range is smaller than twice as large.
func (d *Draw) walk(x uint64, step func(x, a, b uint64) uint64) uint64 {
	n := uint64(d.At - d.From)
	a := uint64(math.Ceil(math.Sqrt(float64(n))))
	for a*a < n { // where the floating point fell short
		a++
	}
	b := (n + a - 1) / a
	for {
		if x = step(x, a, b); x < n {
			return x
		}
	}
}

func (d *Draw) forth(x, a, b uint64) uint64 {
	l, r := x%a, x/a
	for j := range drawRounds {
		if j%2 == 0 {
			l = (l + d.round(j, r)%a) % a
		} else {
			r = (r + d.round(j, l)%b) % b
		}
	}
	return r*a + l
}

func (d *Draw) back(x, a, b uint64) uint64 {
	l, r := x%a, x/a
	for j := drawRounds - 1; j >= 0; j-- {
		if j%2 == 0 {
			l = (l + a - d.round(j, r)%a) % a
		} else {
			r = (r + b - d.round(j, l)%b) % b
		}
	}
	return r*a + l
}

// round is the first 8 bytes, big-endian, of SHA-256(seed ‖ round ‖ x as 8 bytes big-endian).
func (d *Draw) round(j int, x uint64) uint64 {
	var b [SeedBytes + 1 + 8]byte
	copy(b[:], d.Seed[:])
	b[SeedBytes] = byte(j)
	binary.BigEndian.PutUint64(b[SeedBytes+1:], x)
	sum := sha256.Sum256(b[:])
	return binary.BigEndian.Uint64(sum[:8])
}
