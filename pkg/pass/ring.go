package pass

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"hash"
	"strings"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/golang-jwt/jwt/v5"
)

// MaxToken is the longest token that is looked into, in bytes. Ours have less than half of it.
const MaxToken = 2048

const macLen = 43 // of 32 bytes as unpadded base64

// ring holds the keys of one kind of token.
type ring struct {
	kind   kind
	first  *key
	byID   map[string]*key
	byHead map[string]*key // by the header that we write, encoded, exactly; none for identities
	parser *jwt.Parser
}

// key is one key of one kind.
type key struct {
	secret  []byte
	head    string // the header that it signs with, encoded, and the dot
	scratch sync.Pool
}

// scratch is what one signing or checking needs. The hash keeps its keyed state, which saves two of its eight or so
// compressions, and recycling it saves the allocations.
type scratch struct {
	mac     hash.Hash
	text    []byte // what is signed, then the whole token
	payload []byte
	sum     [sha256.Size]byte
	encoded [macLen]byte
}

func newRing(k kind) *ring {
	return &ring{
		kind:   k,
		byID:   make(map[string]*key),
		byHead: make(map[string]*key),
		parser: jwt.NewParser(
			jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
			jwt.WithStrictDecoding(),
			// Claims are judged by one piece of code for both paths, after the signature.
			jwt.WithoutClaimsValidation(),
		),
	}
}

func (r *ring) add(id string, secret []byte) {
	k := &key{secret: secret}
	k.scratch.New = func() any {
		return &scratch{mac: hmac.New(sha256.New, secret), text: make([]byte, 0, 1024), payload: make([]byte, 0, 512)}
	}
	r.byID[id] = k
	if r.kind != identityKind {
		// A kid has nothing that JSON would escape.
		header := `{"alg":"` + jwt.SigningMethodHS256.Alg() + `","kid":"` + id + `","typ":"` + r.kind.typ() + `"}`
		head := base64.RawURLEncoding.EncodeToString([]byte(header))
		r.byHead[head] = k
		k.head = head + "."
	}
	if r.first == nil {
		r.first = k
	}
}

// sign makes a token of the payload that write appends.
func (k *key) sign(write func([]byte) []byte) string {
	s := k.scratch.Get().(*scratch)
	defer k.scratch.Put(s)
	s.payload = write(s.payload[:0])
	s.text = append(s.text[:0], k.head...)
	s.text = base64.RawURLEncoding.AppendEncode(s.text, s.payload)
	s.seal()
	s.text = append(s.text, '.')
	s.text = append(s.text, s.encoded[:]...)
	return string(s.text)
}

// seal computes the MAC of text, encoded.
func (s *scratch) seal() {
	s.mac.Reset()
	s.mac.Write(s.text)
	base64.RawURLEncoding.Encode(s.encoded[:], s.mac.Sum(s.sum[:0]))
}

// verify reads the claims of a token of this kind into c, which the caller still has to judge.
func (r *ring) verify(token string, c payload) error {
	if len(token) > MaxToken {
		return errTooLong
	}
	if known, err := r.verifyKnown(token, c); known {
		return err
	}
	return r.verifyAny(token, c)
}

// verifyKnown is the short path, for the headers that we write. known is false for all others.
func (r *ring) verifyKnown(token string, c payload) (known bool, err error) {
	dot := strings.IndexByte(token, '.')
	if dot < 0 {
		return false, nil
	}
	k := r.byHead[token[:dot]]
	if k == nil {
		return false, nil
	}
	end := len(token) - macLen - 1
	if end <= dot || token[end] != '.' {
		return true, errShape
	}
	s := k.scratch.Get().(*scratch)
	defer k.scratch.Put(s)
	s.text = append(s.text[:0], token...)
	mac := s.text[end+1:]
	s.text = s.text[:end]
	s.seal()
	// Comparing what is encoded leaves no second spelling of a signature.
	if subtle.ConstantTimeCompare(s.encoded[:], mac) != 1 {
		return true, errSignature
	}
	encoded := s.text[dot+1:]
	if bytes.ContainsAny(encoded, "\r\n") {
		return true, errShape // the decoder would skip them
	}
	s.payload, err = base64.RawURLEncoding.Strict().AppendDecode(s.payload[:0], encoded)
	if err != nil {
		return true, errShape
	}
	if c.UnmarshalJSON(s.payload) != nil {
		return true, errClaims
	}
	return true, nil
}

// verifyAny is the long path, for every header that is allowed.
func (r *ring) verifyAny(token string, c payload) error {
	if !wellFormed(token) {
		return errShape
	}
	_, err := r.parser.ParseWithClaims(token, c, func(t *jwt.Token) (any, error) {
		k, err := r.keyOf(token)
		if err != nil {
			return nil, err
		}
		return k.secret, nil
	})
	if err == nil {
		return nil
	}
	// The parser's own errors quote pieces of the token.
	for _, ours := range []error{errHeader, errCrit, errKid} {
		if errors.Is(err, ours) {
			return ours
		}
	}
	switch {
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return errSignature
	case errors.Is(err, jwt.ErrTokenMalformed):
		return errClaims
	}
	return errHeader
}

// keyOf reads the header anew: the parser's map of it has lost names given twice, and replaced invalid UTF-8.
func (r *ring) keyOf(token string) (*key, error) {
	segment, _, _ := strings.Cut(token, ".")
	raw, err := base64.RawURLEncoding.Strict().DecodeString(segment)
	if err != nil {
		return nil, errHeader
	}
	var h struct {
		Alg  string         `json:"alg"`
		Kid  string         `json:"kid"`
		Typ  string         `json:"typ"`
		Crit jsontext.Value `json:"crit"`
	}
	// A site's library may write more (cty, x5t); nothing that it may write changes how we verify.
	if jsonv2.Unmarshal(raw, &h) != nil {
		return nil, errHeader
	}
	if h.Crit != nil {
		return nil, errCrit
	}
	if h.Alg != jwt.SigningMethodHS256.Alg() || !r.kind.acceptsTyp(h.Typ) {
		return nil, errHeader
	}
	if k := r.byID[h.Kid]; k != nil && validKid(h.Kid) {
		return k, nil
	}
	return nil, errKid
}

// wellFormed says whether token is three parts of the base64url alphabet. The parser alone lets line ends through.
func wellFormed(token string) bool {
	dots := 0
	for i := range len(token) {
		c := token[i]
		switch {
		case c == '.':
			dots++
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return dots == 2
}
