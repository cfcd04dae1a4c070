package enter

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// The limits of an Idempotency-Key. Where it is all that says who asks, whoever knows it is that visitor: then it must be
// long, and a key that is the same for everybody, such as the nil UUID, would put them all into one place.
const (
	maxKey         = 64
	minLoneKey     = 16
	minLoneSymbols = 4 // a random one of 16 hex digits has fewer once in a billion
)

// idempotencyKey reads the header: "" where there is none. The error is a *httpapi.Problem.
func idempotencyKey(given []string) (string, error) {
	switch len(given) {
	case 0:
		return "", nil
	case 1:
	default:
		return "", httpapi.Problemf(httpapi.IdempotencyKeyInvalid, "it is given %d times", len(given))
	}
	key := given[0]
	if key == "" || len(key) > maxKey {
		return "", httpapi.Problemf(httpapi.IdempotencyKeyInvalid, "it has 1 to %d characters; this one has %d", maxKey, len(key))
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return "", httpapi.Problemf(httpapi.IdempotencyKeyInvalid, "it is visible ASCII; byte %d is not", i)
		}
	}
	return key, nil
}

// checkLoneKey checks a key that comes without a credential. It can't see whether a key is random; it refuses those that
// can't be.
func checkLoneKey(key string) error {
	if len(key) < minLoneKey {
		return httpapi.Problemf(httpapi.IdempotencyKeyInvalid,
			"without a receipt the key alone says who asks, so it has %d characters at least; this one has %d. Send a random UUID", minLoneKey, len(key))
	}
	var seen [256]bool
	symbols := 0
	for i := range len(key) {
		if !seen[key[i]] {
			seen[key[i]] = true
			symbols++
		}
	}
	if symbols < minLoneSymbols {
		return httpapi.Problemf(httpapi.IdempotencyKeyInvalid,
			"without a receipt the key alone says who asks, so it has to be random; this one has %d different characters. Send a random UUID", symbols)
	}
	return nil
}

// digest is what a record carries of a key: 72 bits, enough to tell the few keys of one visitor apart. "" stays "".
func digest(key string) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// visitorOf makes a visitor id of a queue and an Idempotency-Key: the same for a retry on any node, of the form of
// queue.NewVisitor, and not to be found from outside without the key itself.
func visitorOf(secret []byte, id queue.ID, key string) queue.Visitor {
	mac := hmac.New(sha256.New, secret)
	// Neither a queue id nor a key holds a NUL, so no two pairs read alike.
	mac.Write([]byte("soonbeon first entry v1\x00" + string(id) + "\x00" + key))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}
