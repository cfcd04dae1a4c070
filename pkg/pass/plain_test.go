package pass

import (
	"encoding/base64"
	"reflect"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// The short way to read a receipt's claims and the JSON decoder never differ about what the short way accepts.
func FuzzPlain(f *testing.F) {
	for _, s := range []string{
		`{"aud":"soonbeon:receipt:main","sub":"v","iat":1.000,"ticket":1,"ahead":0}`,
		`{"aud":"soonbeon:receipt:main","sub":"v","iat":253402300799.999,"ticket":1}`,
		`{"aud":"a","sub":"v","iat":1.000,"ticket":1,"ahead":2,"made":3,"sure":true,"drawn":4}`,
		`{"aud":"a","sub":"v","iat":1.000,"ticket":1,"made":3}`, `{"aud":"a","sub":"v","iat":1.000,"ticket":1,"sure":true}`,
		`{"aud":"a","sub":"v","iat":1.000,"ticket":1,"drawn":4}`, `{"aud":"a","sub":"v","iat":1.000,"ticket":1,"sure":false}`,
		`{"aud":"a","sub":"v","iat":1.000,"ticket":1,"sure":truely}`, `{"aud":"a","sub":"v","iat":1.000,"ticket":1,"made":-1}`,
		`{"aud":"a","sub":"v","iat":1.000,"ticket":1,"made":1,"made":1}`, `{"aud":"a","sub":"v","iat":1.000,"ticket":1,"drawn":4,"sure":true}`,
		`{"aud":"a","sub":"v","iat":253402300800.000,"ticket":1}`,
		`{"aud":"a","sub":"v","iat":01.000,"ticket":1}`, `{"aud":"a","sub":"v","iat":1.0000,"ticket":1}`,
		`{"aud":"a","sub":"v","iat":1.0,"ticket":1}`, `{"aud":"a","sub":"v","iat":1.-12,"ticket":1}`,
		`{"aud":"a","sub":"v","iat":1.000,"ticket":9223372036854775808}`, `{"aud":"a","sub":"v","iat":1.000,"ticket":01}`,
		`{"aud":"a","sub":"v","iat":1.000,"ticket":-1}`, `{"aud":"a","sub":"v","iat":1.000,"ticket":1,"ahead":-1}`,
		`{"aud":"a","sub":"v","iat":1.000,"ticket":1,"ahead":1}}`, `{"aud":"a","sub":"v","iat":1.000,"ticket":1,"ticket":2}`,
		`{"aud":"a\u0062","sub":"v\"","iat":1.000,"ticket":1}`, "{\"aud\":\"\xff\",\"sub\":\"é\",\"iat\":1.000,\"ticket\":1}",
		"{\"aud\":\"\n\",\"sub\":\"v\",\"iat\":1.000,\"ticket\":1}", `{"aud":"a","sub":"v","iat":1.000,"ticket":1e3}`,
		`{"sub":"v","aud":"a","iat":1.000,"ticket":1}`, `{"aud":"a"`, `{}`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var short, long claims
		if !short.readPlain(b) {
			if !reflect.DeepEqual(short, claims{}) {
				t.Errorf("%q: not read, and left %+v", b, short)
			}
			return
		}
		type plain claims
		if err := jsonv2.Unmarshal(b, (*plain)(&long)); err != nil {
			t.Fatalf("%q: read, and the decoder says %v", b, err)
		}
		if !reflect.DeepEqual(short, long) {
			t.Errorf("%q: %+v, and the decoder reads %+v", b, short, long)
		}
	})
}

// Whatever visitors there are without quoting, the receipts that are written are read the short way.
func TestReceiptsAreReadTheShortWay(t *testing.T) {
	keys, err := ParseKeys("a:" + strings.Repeat("A", 43) + "=")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []Receipt{
		{Queue: "main", Visitor: queue.NewVisitor(), Ticket: 1, Ahead: queue.NoAhead},
		{Queue: "main", Visitor: "user@example.org, 1/2 <&>", Ticket: 1 << 40, Ahead: 999_999, IssuedMs: 1_790_000_000_123},
		{Queue: "main", Visitor: "v", Ticket: 2, Ahead: 1, Made: 1 << 50, Sure: true, Drawn: 1 << 50},
		{Queue: "main", Visitor: "v", Ticket: 2, Ahead: queue.NoAhead, Made: 7},
		{Queue: "main", Visitor: "v", Ticket: 2, Ahead: queue.NoAhead, Sure: true},
		{Queue: "main", Visitor: "v", Ticket: 2, Ahead: 1, Drawn: 3},
	} {
		token, err := keys.SignReceipt(r)
		if err != nil {
			t.Fatal(err)
		}
		payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
		if err != nil {
			t.Fatal(err)
		}
		if !new(claims).readPlain(payload) {
			t.Errorf("%s is not read", payload)
		}
		if got, err := keys.VerifyReceipt(token, r.Queue); err != nil || got != r {
			t.Errorf("%+v, %v; want %+v", got, err, r)
		}
	}
}
