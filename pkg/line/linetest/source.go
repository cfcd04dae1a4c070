package linetest

import "math/rand/v2"

// Seeded is a Source that one number replays.
type Seeded struct{ r *rand.Rand }

// NewSeeded starts the source of seed.
func NewSeeded(seed uint64) Seeded { return Seeded{rand.New(rand.NewPCG(seed, 0x736f6f6e62656f6e))} }

// Intn is uniform in [0, n).
func (s Seeded) Intn(n int) int { return s.r.IntN(n) }
