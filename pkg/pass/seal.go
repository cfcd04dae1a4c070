package pass

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// ErrSealed says that a sealed seed can't be opened: it was sealed with another secret or for another queue, or was changed.
var ErrSealed = errors.New("the seed can't be opened with this secret")

// sealInfo separates the key from all others that are derived from the same secret. It is a stored format, like the first byte
// of what Seal returns.
const sealInfo = "soonbeon seed v1"

const sealVersion = 1

// Sealer hides the seeds of draws, which lie in the catalogue until the opening: whoever could read one there could reckon
// everybody's lot before entering. It does not change, and any number of goroutines may use it.
type Sealer struct{ aead cipher.AEAD }

// NewSealer makes a Sealer from the deployment's secret, which has MinKey bytes or more and is the same on every node; a
// shorter one is a defect of the caller, who checks it.
func NewSealer(secret []byte) *Sealer {
	if len(secret) < MinKey {
		panic(fmt.Sprintf("pass: a sealer's secret has %d bytes; %d are the least", len(secret), MinKey))
	}
	key, err := hkdf.Key(sha256.New, secret, nil, sealInfo, 32)
	if err != nil {
		panic("pass: " + err.Error()) // only for a length that is not this one
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("pass: " + err.Error())
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("pass: " + err.Error())
	}
	return &Sealer{aead}
}

// NewSeed draws a seed: 256 random bits.
func NewSeed() queue.Seed {
	var s queue.Seed
	_, _ = rand.Read(s[:]) // never fails: it ends the process instead
	return s
}

// Seal hides the seed of id's draw: AES-256-GCM with the queue's id as associated data. Twice is never the same.
func (s *Sealer) Seal(id queue.ID, seed queue.Seed) []byte {
	return s.aead.Seal([]byte{sealVersion}, nil, seed[:], []byte(id))
}

// Open is the seed that was sealed for id, or ErrSealed.
func (s *Sealer) Open(id queue.ID, sealed []byte) (queue.Seed, error) {
	var seed queue.Seed
	if len(sealed) == 0 || sealed[0] != sealVersion {
		return seed, fmt.Errorf("queue %s: %w", id, ErrSealed)
	}
	plain, err := s.aead.Open(nil, nil, sealed[1:], []byte(id))
	if err != nil || len(plain) != len(seed) {
		return seed, fmt.Errorf("queue %s: %w", id, ErrSealed)
	}
	copy(seed[:], plain)
	return seed, nil
}

// Format prints nothing of the secret, whatever the verb.
func (s *Sealer) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, "pass.Sealer") }
