package load

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/soonbeon/soonbeon/pkg/pass"
)

func signedEntry(t *testing.T, room *room, e pass.Entry) string {
	t.Helper()
	s, err := room.keys.SignEntry(e)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What a client without keys reads is what the keys' owner would verify.
func TestReadingAgreesWithVerifying(t *testing.T) {
	room := newRoom(t, 1)
	now := time.UnixMilli(1_800_000_000_123)
	want := pass.Entry{Queue: "main", Visitor: "someone", Ticket: 17, AdmittedMs: now.UnixMilli() - 1001, ExpiresMs: now.UnixMilli() + 300_000}
	token := signedEntry(t, room, want)
	for _, c := range []checker{{queue: "main"}, {queue: "main", keys: room.keys}} {
		if got, err := c.entry(token, now); err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := c.entry(token, now.Add(time.Hour)); err == nil {
			t.Error("expired")
		}
		if _, err := c.entry(token, now.Add(-time.Hour)); err == nil {
			t.Error("not yet")
		}
		// Within the skew that gates allow.
		if _, err := c.entry(token, now.Add(5*time.Minute+20*time.Second)); err != nil {
			t.Error(err)
		}
	}
}

func TestNoEntryToken(t *testing.T) {
	room := newRoom(t, 1)
	now := time.UnixMilli(1_800_000_000_000)
	e := pass.Entry{Queue: "main", Visitor: "someone", Ticket: 17, AdmittedMs: now.UnixMilli(), ExpiresMs: now.UnixMilli() + 1000}
	good := signedEntry(t, room, e)
	head, rest, _ := strings.Cut(good, ".")
	claims, mac, _ := strings.Cut(rest, ".")
	encode := base64.RawURLEncoding.EncodeToString
	decoded := func(part string) string {
		b, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	with := func(old, new string) string {
		h, c := decoded(head), decoded(claims)
		if !strings.Contains(h+c, old) {
			t.Fatalf("nothing to replace: %s", old)
		}
		return encode([]byte(strings.Replace(h, old, new, 1))) + "." + encode([]byte(strings.Replace(c, old, new, 1))) + "." + mac
	}
	other := e
	other.Queue = "other"
	for name, token := range map[string]string{
		"empty": "", "two parts": head + "." + claims, "four parts": good + ".x", "no signature": head + "." + claims + ".",
		"too long": good + strings.Repeat("x", pass.MaxToken), "not base64": "!." + rest, "not JSON": encode([]byte("x")) + "." + rest,
		"a receipt": room.receiptOf("someone", 17), "another queue": signedEntry(t, room, other),
		"alg none": with("HS256", "none"), "a receipt's typ": with("soonbeon-entry", "soonbeon-receipt"), "no kid": with(`"kid":"k`, `"kiff":"k`),
		"a receipt's audience": with("soonbeon:gate:", "soonbeon:receipt:"), "no sub": with(`"someone"`, `""`),
		"ticket 0": with("main/17", "main/0"), "jti of another queue": with("main/17", "else/17"), "no expiry": with(`"exp"`, `"expp"`),
		"expiry before admission": with(`"exp":18`, `"exp":17`),
	} {
		for _, c := range []checker{{queue: "main"}, {queue: "main", keys: room.keys}} {
			if _, err := c.entry(token, now); err == nil {
				t.Errorf("%s is taken for an entry token, with keys: %v", name, c.keys != nil)
			} else if token != "" && strings.Contains(err.Error(), token) {
				t.Errorf("%s: the error quotes it", name)
			}
		}
	}
}

func TestReceiptIsForWhomItWasGivenTo(t *testing.T) {
	room := newRoom(t, 1)
	c := checker{queue: "main", keys: room.keys}
	receipt := room.receiptOf("someone", 17)
	if err := c.receipt(receipt, "someone", 17); err != nil {
		t.Error(err)
	}
	if c.receipt(receipt, "someone", 18) == nil || c.receipt(receipt, "else", 17) == nil || c.receipt(receipt+"x", "someone", 17) == nil {
		t.Error("another's receipt, or a broken one, was taken")
	}
}

func TestOnePlaceOneVisitor(t *testing.T) {
	now := time.Now()
	tally := newTally(3)
	tally.acknowledge(1, "a", 10, false, now)
	tally.acknowledge(1, "a", 12, true, now) // a refresh
	if len(tally.broken) != 0 {
		t.Error("a refresh is no breach")
	}
	tally.acknowledge(2, "a", 13, false, now)
	if b := tally.broken[brokenTwice]; b == nil || b.Count != 1 || !strings.Contains(b.First, "one identity") {
		t.Errorf("two visitors, one id: %+v", b)
	}
	tally.acknowledge(3, "c", 12, false, now)
	if b := tally.broken[brokenTwice]; b.Count != 2 {
		t.Errorf("two visitors, one ticket: %+v", b)
	}
}
