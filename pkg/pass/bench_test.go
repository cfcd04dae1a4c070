package pass

import (
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

func benchReceipt() Receipt {
	return Receipt{Queue: "main", Visitor: queue.NewVisitor(), Ticket: 483_211, Ahead: 120_345, IssuedMs: 1764471234_567, Made: 12, Sure: true}
}

// BenchmarkPoll is what a position node does for each answer: check one receipt and sign its renewal.
func BenchmarkPoll(b *testing.B) {
	k := mustKeys(b, list(pair("a", keyA), pair("b", keyB)))
	token, err := k.SignReceipt(benchReceipt())
	require.NoError(b, err)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r, err := k.VerifyReceipt(token, "main")
			if err != nil {
				b.Error(err)
				return
			}
			r.Ahead--
			if _, err := k.SignReceipt(r); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkSignReceipt(b *testing.B) {
	k, r := mustKeys(b, pair("a", keyA)), benchReceipt()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.SignReceipt(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifyReceipt(b *testing.B) {
	k := mustKeys(b, pair("a", keyA))
	token, err := k.SignReceipt(benchReceipt())
	require.NoError(b, err)
	b.Run("short path", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := k.VerifyReceipt(token, "main"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("long path", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var c claims
			if err := k.receipt.verifyAny(token, &c); err != nil {
				b.Fatal(err)
			}
		}
	})
	forged := token[:len(token)-2] + "AA"
	b.Run("forged", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := k.VerifyReceipt(forged, "main"); err == nil {
				b.Fatal("accepted")
			}
		}
	})
}

func BenchmarkVerifyEntry(b *testing.B) {
	k := mustKeys(b, pair("a", keyA))
	token, err := k.SignEntry(anEntry())
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.VerifyEntry(token, "main", during); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifyIdentity(b *testing.B) {
	k := mustSite(b, pair("a", keyA))
	token := forge(siteHeader, siteBody, keyA)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.VerifyIdentity(token, during); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPlainLibrary is the same poll by golang-jwt alone, for comparison.
func BenchmarkPlainLibrary(b *testing.B) {
	key := receiptKey(b)
	token := forge(receiptHeader, receiptBody, key)
	b.ReportAllocs()
	for b.Loop() {
		var c jwt.RegisteredClaims
		if _, err := jwt.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return key, nil }); err != nil {
			b.Fatal(err)
		}
		if _, err := jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString(key); err != nil {
			b.Fatal(err)
		}
	}
}
