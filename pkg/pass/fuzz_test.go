package pass

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// The fuzzer gets a header and a payload, which are signed, so that it explores what lies behind the signature, and a
// raw token, which is not. For each, the short path must say what the long one says.

type outcome[T any] struct {
	value T
	err   error // one of the four, or nil
}

func outcomeOf[T any](t *testing.T, v T, err error) outcome[T] {
	if err == nil {
		return outcome[T]{v, nil}
	}
	for _, known := range []error{ErrInvalid, ErrExpired, ErrNotYet, ErrOtherQueue} {
		if errors.Is(err, known) {
			return outcome[T]{err: known}
		}
	}
	t.Fatalf("an error of no kind: %v", err)
	return outcome[T]{}
}

// bothWays verifies by either path. short is nil where the short path leaves the token to the long one.
func bothWays[T any](t *testing.T, r *ring, token string, judge func(*claims) (T, error)) (long, short *outcome[T]) {
	run := func(read func(*claims) error) *outcome[T] {
		var (
			c claims
			v T
		)
		err := read(&c)
		if err == nil {
			v, err = judge(&c)
		}
		o := outcomeOf(t, v, err)
		return &o
	}
	long = run(func(c *claims) error { return r.verifyAny(token, c) })
	known := true
	short = run(func(c *claims) (err error) {
		known, err = r.verifyKnown(token, c)
		return err
	})
	if !known {
		short = nil
	}
	return long, short
}

func seeds(f *testing.F, header, body, typ string, key []byte) {
	f.Add(header, body, "")
	for _, g := range forgeries(header, body, typ, key) {
		h, p := header, body
		if parts := strings.Split(g.token, "."); len(parts) == 3 {
			if b, ok := unb64(parts[0]); ok {
				h = b
			}
			if b, ok := unb64(parts[1]); ok {
				p = b
			}
		}
		f.Add(h, p, g.token)
	}
	f.Add(`{"kid":"a","alg":"HS256","typ":"`+typ+`"}`, body, "")
	f.Add(header+" ", body, "")
	f.Add(header, strings.Replace(body, "{", `{"later":{"a":[1]},`, 1), "")
}

func FuzzReceipt(f *testing.F) {
	k := mustKeys(f, list(pair("a", keyA), pair("b", keyB)))
	key := receiptKey(f)
	seeds(f, receiptHeader, receiptBody, "soonbeon-receipt+jwt", key)
	judge := func(c *claims) (Receipt, error) { return receiptOf(c, "main") }
	f.Fuzz(func(t *testing.T, header, payload, raw string) {
		for _, token := range []string{raw, forge(header, payload, key), seal(header+"."+payload, key)} {
			if len(token) > MaxToken {
				_, err := k.VerifyReceipt(token, "main")
				require.ErrorIs(t, err, ErrInvalid)
				continue
			}
			long, short := bothWays(t, k.receipt, token, judge)
			if short != nil {
				require.Equal(t, long, short)
			}
			v, err := k.VerifyReceipt(token, "main")
			require.Equal(t, *long, outcomeOf(t, v, err))
			if err != nil {
				require.Zero(t, v)
				continue
			}
			require.NoError(t, queue.CheckVisitor(v.Visitor))
			again, err := k.SignReceipt(v)
			require.NoError(t, err, "what was accepted can be renewed")
			w, err := k.VerifyReceipt(again, "main")
			require.NoError(t, err)
			require.Equal(t, v, w)
		}
	})
}

func FuzzEntry(f *testing.F) {
	k := mustKeys(f, list(pair("a", keyA), pair("b", keyB)))
	key := entryKey(f)
	seeds(f, entryHeader, entryBody, "soonbeon-entry+jwt", key)
	judge := func(c *claims) (Entry, error) { return entryOf(c, entryKind, "main", during) }
	f.Fuzz(func(t *testing.T, header, payload, raw string) {
		for _, token := range []string{raw, forge(header, payload, key), seal(header+"."+payload, key)} {
			if len(token) > MaxToken {
				continue
			}
			long, short := bothWays(t, k.entry, token, judge)
			if short != nil {
				require.Equal(t, long, short)
			}
			v, err := k.VerifyEntry(token, "main", during)
			require.Equal(t, *long, outcomeOf(t, v, err))
			if err != nil {
				require.Zero(t, v)
				continue
			}
			require.EqualValues(t, "main", v.Queue)
			again, err := k.SignEntry(v)
			require.NoError(t, err)
			w, err := k.VerifyEntry(again, "main", during)
			require.NoError(t, err)
			require.Equal(t, v, w)
		}
	})
}

func FuzzIdentity(f *testing.F) {
	k := mustSite(f, list(pair("a", keyA), pair("b", keyB)))
	seeds(f, siteHeader, siteBody, "JWT", keyA)
	f.Fuzz(func(t *testing.T, header, payload, raw string) {
		for _, token := range []string{raw, forge(header, payload, keyA), seal(header+"."+payload, keyA)} {
			v, err := k.VerifyIdentity(token, during)
			if outcomeOf(t, v, err).err != nil {
				require.Empty(t, v)
				continue
			}
			require.NoError(t, queue.CheckVisitor(v))
		}
	})
}
