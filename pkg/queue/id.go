package queue

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"unicode/utf8"
)

// MaxID is the longest queue id, in bytes.
const MaxID = 64

// MaxVisitor is the longest visitor id, in bytes.
const MaxVisitor = 128

// ID names a queue: 1 to 64 of a-z, 0-9 and '-'. It is part of topic names and Redis keys, so nothing else is let in.
type ID string

// ParseID checks s. The error says what is wrong and is fit to be shown.
func ParseID(s string) (ID, error) {
	if s == "" {
		return "", fmt.Errorf("a queue id is 1 to %d of a-z, 0-9 and '-'; this one is empty", MaxID)
	}
	if len(s) > MaxID {
		return "", fmt.Errorf("a queue id is 1 to %d of a-z, 0-9 and '-'; this one has %d bytes", MaxID, len(s))
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return "", fmt.Errorf("a queue id is 1 to %d of a-z, 0-9 and '-'; byte %d of %.80q is not", MaxID, i, s)
		}
	}
	return ID(s), nil
}

// Visitor is who waits: an id that NewVisitor minted, or the subject of a token that the site signed.
type Visitor = string

// NewVisitor mints a visitor id: 128 random bits, 22 characters of base64url.
func NewVisitor() Visitor {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// CheckVisitor checks an id that came from outside: 1 to 128 bytes of printable UTF-8.
func CheckVisitor(v Visitor) error {
	if v == "" || len(v) > MaxVisitor {
		return fmt.Errorf("a visitor id has 1 to %d bytes; this one has %d", MaxVisitor, len(v))
	}
	if !utf8.ValidString(v) {
		return fmt.Errorf("a visitor id is UTF-8; this one is not")
	}
	for _, r := range v {
		if r < 0x20 || r == 0x7f {
			return fmt.Errorf("a visitor id has no control characters; this one has U+%04X", r)
		}
	}
	return nil
}
