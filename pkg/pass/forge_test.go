package pass

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// The forger knows every key and writes tokens by hand, sharing no code with the package, so that each test breaks
// exactly one thing and the signature is right.

var (
	keyA = []byte("0123456789abcdefghijklmnopqrstuv")
	keyB = []byte("ZYXWVUTSRQPONMLKJIHGFEDCBA987654")
)

const (
	receiptHeader = `{"alg":"HS256","kid":"a","typ":"soonbeon-receipt+jwt"}`
	receiptBody   = `{"aud":"soonbeon:receipt:main","sub":"v","iat":1764471234.567,"ticket":7,"ahead":3,"made":5,"sure":true,"drawn":9}`
	entryHeader   = `{"alg":"HS256","kid":"a","typ":"soonbeon-entry+jwt"}`
	entryBody     = `{"aud":"soonbeon:gate:main","sub":"v","jti":"main/7","iat":1764471234.000,"exp":1764471534.000,"made":5}`
	siteHeader    = `{"alg":"HS256","kid":"a","typ":"JWT"}`
	siteBody      = `{"sub":"user-1","aud":"soonbeon","iat":1764471234,"exp":1764471534}`
)

var (
	issued  = time.UnixMilli(1764471234_000)
	expires = time.UnixMilli(1764471534_000)
	during  = issued.Add(time.Minute)
)

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func unb64(s string) (string, bool) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	return string(b), err == nil
}

func forge(header, payload string, key []byte) string {
	return seal(b64([]byte(header))+"."+b64([]byte(payload)), key)
}

// seal signs what may not even be two parts.
func seal(text string, key []byte) string {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return text + "." + b64(m.Sum(nil))
}

func derive(t testing.TB, master []byte, info string) []byte {
	k, err := hkdf.Key(sha256.New, master, nil, info, 32)
	require.NoError(t, err)
	return k
}

func receiptKey(t testing.TB) []byte { return derive(t, keyA, "soonbeon receipt v1") }
func entryKey(t testing.TB) []byte   { return derive(t, keyA, "soonbeon entry v1") }

func list(pairs ...string) string { return strings.Join(pairs, ",") }
func pair(id string, key []byte) string {
	return id + ":" + base64.StdEncoding.EncodeToString(key)
}

func mustKeys(t testing.TB, s string) *Keys {
	k, err := ParseKeys(s)
	require.NoError(t, err)
	return k
}

func mustSite(t testing.TB, s string) *SiteKeys {
	k, err := ParseSiteKeys(s)
	require.NoError(t, err)
	return k
}

func aReceipt() Receipt {
	return Receipt{Queue: "main", Visitor: "v", Ticket: 7, Ahead: 3, IssuedMs: 1764471234_567, Made: 5, Sure: true, Drawn: 9}
}

func anEntry() Entry {
	return Entry{Queue: "main", Visitor: "v", Ticket: 7, AdmittedMs: issued.UnixMilli(), ExpiresMs: expires.UnixMilli(), Made: 5}
}

// hardVisitors are ids that need care on their way through JSON.
func hardVisitors() []queue.Visitor {
	return []queue.Visitor{
		"v", queue.NewVisitor(), `"`, `\`, `","sub":"other`, "</script>", "사람", "\u2028\u2029", "🎫", "a b", "null", "\u0080",
		"\ufffd", "\U0010ffff", strings.Repeat("x", queue.MaxVisitor), strings.Repeat(`"`, queue.MaxVisitor),
	}
}
