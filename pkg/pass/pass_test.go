package pass

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Tokens are a stored format: people hold them across releases.
func TestTokensAreTheDocumentedBytes(t *testing.T) {
	k := mustKeys(t, list(pair("a", keyA), pair("b", keyB)))

	got, err := k.SignReceipt(aReceipt())
	require.NoError(t, err)
	assert.Equal(t, forge(receiptHeader, receiptBody, receiptKey(t)), got)

	got, err = k.SignEntry(anEntry())
	require.NoError(t, err)
	assert.Equal(t, forge(entryHeader, entryBody, entryKey(t)), got)
}

func TestNoAheadIsLeftOut(t *testing.T) {
	k := mustKeys(t, pair("a", keyA))
	r := aReceipt()
	r.Ahead = queue.NoAhead
	token, err := k.SignReceipt(r)
	require.NoError(t, err)
	assert.Equal(t, forge(receiptHeader, strings.Replace(receiptBody, `,"ahead":3`, "", 1), receiptKey(t)), token)
	got, err := k.VerifyReceipt(token, "main")
	require.NoError(t, err)
	assert.Equal(t, r, got)
}

// Tokens of the versions before these claims, and claims that are nothing to speak of.
func TestTokensWithoutTheNewerClaims(t *testing.T) {
	k := mustKeys(t, pair("a", keyA))
	const newer = `,"made":5,"sure":true,"drawn":9`
	r := aReceipt()
	r.Made, r.Sure, r.Drawn = 0, false, 0
	token, err := k.SignReceipt(r)
	require.NoError(t, err)
	assert.Equal(t, forge(receiptHeader, strings.Replace(receiptBody, newer, "", 1), receiptKey(t)), token)
	for _, instead := range []string{"", `,"made":0,"sure":false,"drawn":0`, `,"later":[{"made":5}]`} {
		got, err := k.VerifyReceipt(forge(receiptHeader, strings.Replace(receiptBody, newer, instead, 1), receiptKey(t)), "main")
		require.NoError(t, err, instead)
		assert.Equal(t, r, got, instead)
	}
	e := anEntry()
	e.Made = 0
	token, err = k.SignEntry(e)
	require.NoError(t, err)
	assert.Equal(t, forge(entryHeader, strings.Replace(entryBody, `,"made":5`, "", 1), entryKey(t)), token)
	got, err := k.VerifyEntry(token, "main", during)
	require.NoError(t, err)
	assert.Equal(t, e, got)
}

func TestWhatIsSignedComesBack(t *testing.T) {
	k := mustKeys(t, pair("a", keyA))
	visitors := hardVisitors()
	rapid.Check(t, func(t *rapid.T) {
		visitor := rapid.OneOf(rapid.SampledFrom(visitors), rapid.StringN(1, 30, queue.MaxVisitor)).
			Filter(func(s string) bool { return queue.CheckVisitor(s) == nil }).Draw(t, "visitor")
		id := queue.ID(rapid.StringMatching(`[a-z0-9-]{1,64}`).Draw(t, "queue"))
		ticket := queue.Ticket(rapid.Int64Range(1, math.MaxInt64).Draw(t, "ticket"))

		r := Receipt{
			Queue: id, Visitor: visitor, Ticket: ticket,
			Ahead: rapid.Int64Min(queue.NoAhead).Draw(t, "ahead"), IssuedMs: rapid.Int64Range(0, maxMs).Draw(t, "issued"),
			Made: rapid.Int64Min(0).Draw(t, "made"), Sure: rapid.Bool().Draw(t, "sure"), Drawn: queue.Ticket(rapid.Int64Min(0).Draw(t, "drawn")),
		}
		token, err := k.SignReceipt(r)
		require.NoError(t, err)
		require.LessOrEqual(t, len(token), MaxToken/2)
		gotR, err := k.VerifyReceipt(token, id)
		require.NoError(t, err)
		require.Equal(t, r, gotR)

		e := Entry{Queue: id, Visitor: visitor, Ticket: ticket, AdmittedMs: rapid.Int64Range(0, maxMs-1).Draw(t, "admitted")}
		e.ExpiresMs = rapid.Int64Range(e.AdmittedMs+1, maxMs).Draw(t, "expires")
		e.Made = r.Made
		token, err = k.SignEntry(e)
		require.NoError(t, err)
		require.LessOrEqual(t, len(token), MaxToken/2)
		gotE, err := k.VerifyEntry(token, id, time.UnixMilli(e.AdmittedMs))
		require.NoError(t, err)
		require.Equal(t, e, gotE)
	})
}

func TestTheLongestTokensAreHalfOfTheLimit(t *testing.T) {
	k := mustKeys(t, pair(strings.Repeat("k", MaxKid), keyA))
	id, visitor := queue.ID(strings.Repeat("q", queue.MaxID)), strings.Repeat(`"`, queue.MaxVisitor)
	r, err := k.SignReceipt(Receipt{id, visitor, math.MaxInt64, math.MaxInt64, maxMs, math.MaxInt64, true, math.MaxInt64})
	require.NoError(t, err)
	e, err := k.SignEntry(Entry{id, visitor, math.MaxInt64, maxMs - 1, maxMs, math.MaxInt64})
	require.NoError(t, err)
	assert.Less(t, len(r), MaxToken/2)
	assert.Less(t, len(e), MaxToken/2)
	_, err = k.VerifyReceipt(r, id)
	assert.NoError(t, err)
	_, err = k.VerifyEntry(e, id, time.UnixMilli(maxMs))
	assert.NoError(t, err)
}

func TestFieldsOutOfRangeAreNotSigned(t *testing.T) {
	k := mustKeys(t, pair("a", keyA))
	for name, spoil := range map[string]func(*Receipt){
		"no queue":         func(r *Receipt) { r.Queue = "" },
		"queue":            func(r *Receipt) { r.Queue = "Main" },
		"no visitor":       func(r *Receipt) { r.Visitor = "" },
		"visitor not UTF8": func(r *Receipt) { r.Visitor = "\xff" },
		"ticket":           func(r *Receipt) { r.Ticket = 0 },
		"ahead":            func(r *Receipt) { r.Ahead = -2 },
		"issued":           func(r *Receipt) { r.IssuedMs = -1 },
		"made":             func(r *Receipt) { r.Made = -1 },
		"drawn":            func(r *Receipt) { r.Drawn = -1 },
		"issued late":      func(r *Receipt) { r.IssuedMs = maxMs + 1 },
	} {
		r := aReceipt()
		spoil(&r)
		token, err := k.SignReceipt(r)
		assert.Error(t, err, name)
		assert.Empty(t, token, name)
	}
	for name, spoil := range map[string]func(*Entry){
		"queue":         func(e *Entry) { e.Queue = "a/b" },
		"visitor":       func(e *Entry) { e.Visitor = "a\nb" },
		"ticket":        func(e *Entry) { e.Ticket = -1 },
		"admitted":      func(e *Entry) { e.AdmittedMs = -1 },
		"expires at":    func(e *Entry) { e.ExpiresMs = e.AdmittedMs },
		"made":          func(e *Entry) { e.Made = -1 },
		"expires never": func(e *Entry) { e.ExpiresMs = maxMs + 1 },
	} {
		e := anEntry()
		spoil(&e)
		token, err := k.SignEntry(e)
		assert.Error(t, err, name)
		assert.Empty(t, token, name)
	}
}

// The site may check entry tokens with a JWT library of its own language, which knows nothing of ours.
func TestAPlainJWTLibraryReadsEntryTokens(t *testing.T) {
	k := mustKeys(t, pair("a", keyA))
	token, err := k.SignEntry(anEntry())
	require.NoError(t, err)
	var c jwt.RegisteredClaims
	_, err = jwt.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return entryKey(t), nil },
		jwt.WithAudience("soonbeon:gate:main"), jwt.WithTimeFunc(func() time.Time { return during }),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt())
	require.NoError(t, err)
	assert.Equal(t, "main/7", c.ID)
	assert.Equal(t, "v", c.Subject)
}

func TestRotation(t *testing.T) {
	before := mustKeys(t, pair("a", keyA))
	both := mustKeys(t, list(pair("b", keyB), pair("a", keyA)))
	after := mustKeys(t, pair("b", keyB))

	old, err := before.SignReceipt(aReceipt())
	require.NoError(t, err)
	_, err = both.VerifyReceipt(old, "main")
	assert.NoError(t, err, "the second key verifies")
	renewed, err := both.SignReceipt(aReceipt())
	require.NoError(t, err)
	_, err = after.VerifyReceipt(renewed, "main")
	assert.NoError(t, err, "the first key signs")
	_, err = after.VerifyReceipt(old, "main")
	assert.ErrorIs(t, err, ErrInvalid)
	_, err = before.VerifyReceipt(renewed, "main")
	assert.ErrorIs(t, err, ErrInvalid)
}

func TestEntryTokensHoldWithinTheLeeway(t *testing.T) {
	k := mustKeys(t, pair("a", keyA))
	token, err := k.SignEntry(anEntry())
	require.NoError(t, err)
	for _, c := range []struct {
		now  time.Time
		want error
	}{
		{issued.Add(-Leeway - time.Millisecond), ErrNotYet},
		{issued.Add(-Leeway), nil},
		{issued, nil},
		{expires, nil},
		{expires.Add(Leeway), nil},
		{expires.Add(Leeway + time.Millisecond), ErrExpired},
		{time.Time{}, ErrNotYet},
		{time.UnixMilli(maxMs), ErrExpired},
	} {
		_, err := k.VerifyEntry(token, "main", c.now)
		if c.want == nil {
			assert.NoError(t, err, c.now)
		} else {
			assert.ErrorIs(t, err, c.want, c.now)
			assert.NotErrorIs(t, err, ErrInvalid, c.now)
		}
	}
}

// Who completes an admission says whose it was, which stays true when its time is over.
func TestEntryTokensAreReadAtAnyTime(t *testing.T) {
	k := mustKeys(t, pair("a", keyA))
	token, err := k.SignEntry(anEntry())
	require.NoError(t, err)
	e, err := k.ReadEntry(token, "main")
	require.NoError(t, err)
	assert.Equal(t, anEntry(), e)
	_, err = k.ReadEntry(token, "other")
	assert.ErrorIs(t, err, ErrOtherQueue)
	receipt, err := k.SignReceipt(aReceipt())
	require.NoError(t, err)
	refuse(t, append(forgeries(entryHeader, entryBody, "soonbeon-entry+jwt", entryKey(t)), forgery{"a receipt", receipt}),
		func(s string) error { _, err := k.ReadEntry(s, "main"); return err })
}

func TestNotBeforeIsHeld(t *testing.T) {
	k := mustKeys(t, pair("a", keyA))
	token := forge(entryHeader, strings.Replace(entryBody, `"iat"`, `"nbf":1764471334,"iat"`, 1), entryKey(t))
	_, err := k.VerifyEntry(token, "main", issued.Add(69*time.Second))
	assert.ErrorIs(t, err, ErrNotYet)
	_, err = k.VerifyEntry(token, "main", issued.Add(70*time.Second))
	assert.NoError(t, err)
}

func TestOneTokenForManyGoroutines(t *testing.T) {
	k := mustKeys(t, pair("a", keyA))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 200 {
				r := Receipt{Queue: "main", Visitor: fmt.Sprintf("visitor-%d-%d", i, n), Ticket: queue.Ticket(n + 1), Ahead: int64(i)}
				token, err := k.SignReceipt(r)
				if !assert.NoError(t, err) {
					return
				}
				got, err := k.VerifyReceipt(token, "main")
				if !assert.NoError(t, err) || !assert.Equal(t, r, got) {
					return
				}
			}
		})
	}
	wg.Wait()
}
