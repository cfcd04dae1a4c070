package pass

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The limits of a key list.
const (
	MinKey  = 32   // bytes of a key at the least
	MaxKey  = 1024 // bytes of a key at the most
	MaxKeys = 16   // keys in one list
	MaxKid  = 32   // bytes of a kid
)

// Keys signs and verifies receipts, entry tokens and the sessions of gates: its first key signs, all verify. It does not change, and any
// number of goroutines may use it.
type Keys struct {
	ids     []string
	receipt *ring
	entry   *ring
	session *ring
}

// ParseKeys reads "kid:base64[,kid:base64…]", the form of the environment variable and of the key file. A kid is 1 to
// MaxKid of A-Z, a-z, 0-9, '_', '.' and '-', does not begin with a dot and has no "..". A key is MinKey to MaxKey bytes,
// as base64 in the standard or the URL alphabet, padded or not. White space around entries is ignored. No kid and no
// key may come twice. The error names every mistake at once, by place and never by key material.
func ParseKeys(s string) (*Keys, error) {
	masters, err := parseMasters(s)
	if err != nil {
		return nil, err
	}
	k := &Keys{receipt: newRing(receiptKind), entry: newRing(entryKind), session: newRing(sessionKind)}
	for _, m := range masters {
		k.ids = append(k.ids, m.id)
		for _, r := range []*ring{k.receipt, k.entry, k.session} {
			derived, err := hkdf.Key(sha256.New, m.key, nil, r.kind.hkdfInfo(), sha256.Size)
			if err != nil {
				return nil, fmt.Errorf("derive the key of %s tokens from %q: %w", r.kind, m.id, err)
			}
			r.add(m.id, derived)
		}
	}
	return k, nil
}

// GenerateKeys makes a list of one fresh key for ParseKeys: 256 random bits under a random kid.
func GenerateKeys() (string, error) {
	var b [4 + MinKey]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("draw a key: %w", err)
	}
	return "k" + hex.EncodeToString(b[:4]) + ":" + base64.StdEncoding.EncodeToString(b[4:]), nil
}

// IDs returns the kids in the order of the list; the first one's key signs.
func (k *Keys) IDs() []string { return append([]string(nil), k.ids...) }

// Format prints the kids, whatever the verb: keys must not get into a log by "%+v".
func (k Keys) Format(f fmt.State, _ rune) { formatIDs(f, "Keys", k.ids) }

// SiteKeys verifies identity tokens that the protected site signs. It does not change, and any number of goroutines may
// use it.
type SiteKeys struct {
	ids  []string
	ring *ring
}

// ParseSiteKeys reads a list in the form of ParseKeys. The site signs with the very bytes given here: nothing is derived
// from them.
func ParseSiteKeys(s string) (*SiteKeys, error) {
	masters, err := parseMasters(s)
	if err != nil {
		return nil, err
	}
	k := &SiteKeys{ring: newRing(identityKind)}
	for _, m := range masters {
		k.ids = append(k.ids, m.id)
		k.ring.add(m.id, m.key)
	}
	return k, nil
}

// IDs returns the kids in the order of the list.
func (k *SiteKeys) IDs() []string { return append([]string(nil), k.ids...) }

// Format prints the kids, whatever the verb.
func (k SiteKeys) Format(f fmt.State, _ rune) { formatIDs(f, "SiteKeys", k.ids) }

func formatIDs(w io.Writer, name string, ids []string) {
	_, _ = fmt.Fprintf(w, "pass.%s(%s)", name, strings.Join(ids, ","))
}

type master struct {
	id  string
	key []byte
}

func parseMasters(s string) ([]master, error) {
	if strings.TrimSpace(s) == "" {
		return nil, errors.New("no key given; a key list is kid:base64[,kid:base64…]")
	}
	parts := strings.Split(s, ",")
	if len(parts) > MaxKeys {
		return nil, fmt.Errorf("a key list has at most %d keys, not %d", MaxKeys, len(parts))
	}
	var (
		masters []master
		errs    []error
		byID    = make(map[string]int, len(parts))
		byKey   = make(map[string]int, len(parts))
	)
	for i, part := range parts {
		bad := func(format string, a ...any) {
			errs = append(errs, fmt.Errorf("key %d: %w", i+1, fmt.Errorf(format, a...)))
		}
		id, encoded, found := strings.Cut(strings.TrimSpace(part), ":")
		if !found {
			// What stands here may be a bare key, so it is not quoted.
			bad("not kid:base64")
			continue
		}
		if !validKid(id) {
			bad("a kid is 1 to %d of A-Z, a-z, 0-9, '_', '.' and '-', with no dot in front and no two in a row", MaxKid)
		} else if first, dup := byID[id]; dup {
			bad("has the kid of key %d", first)
		} else {
			byID[id] = i + 1
		}
		key, ok := decodeKey(encoded)
		switch {
		case !ok:
			bad("is not base64")
		case len(key) < MinKey || len(key) > MaxKey:
			bad("has %d to %d bytes, not %d", MinKey, MaxKey, len(key))
		case byKey[string(key)] != 0:
			bad("is the same as key %d", byKey[string(key)])
		default:
			byKey[string(key)] = i + 1
		}
		masters = append(masters, master{id, key})
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return masters, nil
}

// validKid lets nothing through that could be read as a path: people have kept keys in files named by kid.
func validKid(s string) bool {
	if s == "" || len(s) > MaxKid || s[0] == '.' || strings.Contains(s, "..") {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '.' && c != '-' {
			return false
		}
	}
	return true
}

func decodeKey(s string) ([]byte, bool) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, false // the decoder would skip them
	}
	for _, enc := range []*base64.Encoding{
		base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding,
	} {
		if key, err := enc.Strict().DecodeString(s); err == nil {
			return key, true
		}
	}
	return nil, false
}
