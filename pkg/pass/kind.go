package pass

import "strings"

// kind is what a token is for. Everything that keeps kinds apart is in this file.
type kind uint8

const (
	receiptKind kind = iota
	entryKind
	identityKind // signed by the site
	sessionKind  // what a gate gives in exchange for an entry token
)

func (k kind) String() string { return [...]string{"receipt", "entry", "identity", "session"}[k] }

// hkdfInfo separates the keys. It is a stored format: changing it voids every token.
func (k kind) hkdfInfo() string { return "soonbeon " + k.String() + " v1" }

func (k kind) typ() string {
	if k == identityKind {
		return "JWT"
	}
	return "soonbeon-" + k.String() + "+jwt"
}

// acceptsTyp is lenient for sites only, whose libraries write "JWT", "jwt" or nothing.
func (k kind) acceptsTyp(typ string) bool {
	if k == identityKind {
		return typ == "" || strings.EqualFold(typ, "JWT")
	}
	return typ == k.typ()
}

// audience is followed by the queue's id; the identity's stands alone.
func (k kind) audience() string {
	return [...]string{"soonbeon:receipt:", "soonbeon:gate:", "soonbeon", "soonbeon:session:"}[k]
}
