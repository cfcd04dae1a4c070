package linelog

import (
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/soonbeon/soonbeon/pkg/queue"
	soonbeonv1 "github.com/soonbeon/soonbeon/proto/soonbeon/v1"
)

// golden are the stored bytes. A change here is a change of the format: logs that exist can no longer be read.
var golden = []struct {
	name string
	rec  queue.Record
	hex  string
}{
	{"entered", queue.Record{Kind: queue.Entered, Visitor: "v1"}, "12040a027631"},
	{"entered with a key", queue.Record{Kind: queue.Entered, Visitor: "v1", Key: "\xff\x00k"}, "12090a0276311203ff006b"},
	{"left", queue.Record{Kind: queue.Left, Visitor: "v1"}, "1a040a027631"},
	{"claimed redis", queue.Record{Kind: queue.Claimed, Issuer: "a", Mode: queue.ModeRedis}, "22050a01611001"},
	{"claimed direct", queue.Record{Kind: queue.Claimed, Issuer: "a", Mode: queue.ModeDirect}, "22050a01611002"},
	{"admitted", queue.Record{Kind: queue.Admitted, AtMs: 1000, Epoch: 7, People: []queue.Person{{Visitor: "v1", Ticket: 3, ExpiresMs: 300}, {Visitor: "v2", Ticket: 5, ExpiresMs: 301}}},
		"2a1b080710e8071a090a0276311003" + "18ac021a090a027632100518ad02"},
	{"admitted nobody", queue.Record{Kind: queue.Admitted, Epoch: 7}, "2a020807"},
	{"released", queue.Record{Kind: queue.Released, Visitor: "v1", Of: 3}, "32060a0276311003"},
	{"settings back", queue.Record{Kind: queue.SettingsSet, Reentry: queue.Back}, "3a020801"},
	{"settings keep", queue.Record{Kind: queue.SettingsSet, Reentry: queue.Keep}, "3a020802"},
	{"checkpoint", queue.Record{Kind: queue.Checkpoint, Epoch: 7, Served: 300, Reentry: queue.Keep}, "4207080710ac021802"},
}

func TestGoldenBytes(t *testing.T) {
	for _, g := range golden {
		t.Run(g.name, func(t *testing.T) {
			b, err := Encode(g.rec)
			if err != nil {
				t.Fatal(err)
			}
			if got := hex.EncodeToString(b); got != g.hex {
				t.Errorf("encoded as %s, the stored format is %s", got, g.hex)
			}
			want := g.rec
			want.Ticket, want.AtMs = 9, 1234
			stored, _ := hex.DecodeString(g.hex)
			if got := Decode(9, 1234, stored); !reflect.DeepEqual(got, want) {
				t.Errorf("decoded as %+v, want %+v", got, want)
			}
		})
	}
}

func TestAdmittedKeepsItsTimeWhereTheBrokersIsNotKnown(t *testing.T) {
	b, err := Encode(queue.Record{Kind: queue.Admitted, AtMs: 1000, Epoch: 7})
	if err != nil {
		t.Fatal(err)
	}
	if got := Decode(1, 0, b).AtMs; got != 1000 {
		t.Errorf("AtMs is %d, want 1000", got)
	}
}

func TestEncodeRefuses(t *testing.T) {
	long := strings.Repeat("v", queue.MaxVisitor+1)
	for name, rec := range map[string]queue.Record{
		"skipped":       {Kind: queue.Skipped},
		"no visitor":    {Kind: queue.Entered},
		"long visitor":  {Kind: queue.Entered, Visitor: long},
		"control":       {Kind: queue.Left, Visitor: "a\r\nb"},
		"no UTF-8":      {Kind: queue.Entered, Visitor: "\xff"},
		"long key":      {Kind: queue.Entered, Visitor: "v", Key: strings.Repeat("k", maxKey+1)},
		"bad person":    {Kind: queue.Admitted, People: []queue.Person{{Visitor: ""}}},
		"many people":   {Kind: queue.Admitted, People: make([]queue.Person, queue.MaxBatch+1)},
		"unknown kind":  {Kind: 99},
		"released none": {Kind: queue.Released},
	} {
		if b, err := Encode(rec); err == nil {
			t.Errorf("%s: encoded as %x", name, b)
		}
	}
}

// Fault 13: what can't be read is skipped, with its ticket and nothing else.
func TestUnreadableIsSkipped(t *testing.T) {
	marshal := func(m *soonbeonv1.Record) []byte {
		b, err := proto.MarshalOptions{AllowPartial: true}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	newKind := protowire.AppendBytes(protowire.AppendTag(nil, 15, protowire.BytesType), []byte("news"))
	for _, c := range []struct {
		name string
		b    []byte
		why  string
	}{
		{"nothing", nil, skipKind},
		{"no protobuf", []byte("\xff\xff\xff"), skipBroken},
		{"cut short", []byte{0x12, 0x04, 0x0a, 0x02, 'v'}, skipBroken},
		{"visitor is not UTF-8", []byte{0x12, 0x04, 0x0a, 0x02, 0xff, 0xfe}, skipBroken},
		{"a kind of a later version", newKind, skipKind},
		{"a later version", marshal(&soonbeonv1.Record{MinVersion: Version + 1, Kind: &soonbeonv1.Record_Entered{Entered: &soonbeonv1.Entered{Visitor: "v"}}}), skipVersion},
		{"entered by nobody", marshal(&soonbeonv1.Record{Kind: &soonbeonv1.Record_Entered{Entered: &soonbeonv1.Entered{}}}), skipValue},
		{"visitor too long", appendEntered(nil, strings.Repeat("v", queue.MaxVisitor+1), ""), skipValue},
		{"settings without a rule", marshal(&soonbeonv1.Record{Kind: &soonbeonv1.Record_Settings{Settings: &soonbeonv1.Settings{}}}), skipValue},
		{"a rule of a later version", marshal(&soonbeonv1.Record{Kind: &soonbeonv1.Record_Settings{Settings: &soonbeonv1.Settings{Reentry: 9}}}), skipValue},
		{"one admitted has no name", marshal(&soonbeonv1.Record{Kind: &soonbeonv1.Record_Admitted{Admitted: &soonbeonv1.Admitted{Epoch: 1, People: []*soonbeonv1.Person{{Visitor: "v", Ticket: 1}, {}}}}}), skipValue},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := queue.Record{Ticket: 5, AtMs: 6}
			if why := decode(c.b, &rec); why != c.why {
				t.Errorf("skipped for %q, want %q", why, c.why)
			}
			if want := (queue.Record{Ticket: 5, AtMs: 6}); !reflect.DeepEqual(rec, want) {
				t.Errorf("got %+v, want only the ticket and the time", rec)
			}
		})
	}
}

// An unknown field beside a known kind, as a later version that still lets us read it would add, changes nothing.
func TestUnknownFieldIsPassedOver(t *testing.T) {
	b, err := Encode(queue.Record{Kind: queue.Entered, Visitor: "v1", Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	b = protowire.AppendVarint(protowire.AppendTag(b, 99, protowire.VarintType), 1)
	if got := Decode(1, 1, b); got.Kind != queue.Entered || got.Visitor != "v1" || got.Key != "k" {
		t.Errorf("got %+v", got)
	}
}

// The fast path and the generated code are one format: whatever the bytes, they say the same.
func FuzzDecode(f *testing.F) {
	for _, g := range golden {
		b, _ := hex.DecodeString(g.hex)
		f.Add(b)
	}
	f.Add([]byte{0x12, 0x84, 0x00, 0x0a, 0x02, 'v', '1'})              // a length in more bytes than needed
	f.Add([]byte{0x12, 0x06, 0x0a, 0x01, 'a', 0x0a, 0x01, 'b'})        // the visitor twice
	f.Add([]byte{0x12, 0x03, 0x0a, 0x01, 'a', 0x12, 0x02, 0x12, 0x00}) // the kind twice: merged
	f.Add(appendEntered(nil, strings.Repeat("v", 128), strings.Repeat("k", 64)))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, want := queue.Record{Ticket: 1, AtMs: 2}, queue.Record{Ticket: 1, AtMs: 2}
		why := decode(b, &got)
		whySlow := slowDecode(b, &want)
		if whySlow != "" {
			want = queue.Record{Ticket: 1, AtMs: 2}
		}
		if why != whySlow || !reflect.DeepEqual(got, want) {
			t.Fatalf("%x: %+v (%q), by the generated code %+v (%q)", b, got, why, want, whySlow)
		}
		if got.Kind == queue.Skipped {
			return
		}
		again, err := Encode(got)
		if err != nil {
			return // stricter than Decode, which takes what stands in the log
		}
		if rec := Decode(1, 2, again); !reflect.DeepEqual(rec, got) {
			t.Fatalf("%x: decoded as %+v, encoded and decoded again as %+v", b, got, rec)
		}
	})
}

// FuzzEncodeEntered: the hand-written writer writes what the generated one does.
func FuzzEncodeEntered(f *testing.F) {
	f.Add("v", "")
	f.Add(strings.Repeat("v", 128), strings.Repeat("k", 64))
	f.Fuzz(func(t *testing.T, visitor, key string) {
		b, err := Encode(queue.Record{Kind: queue.Entered, Visitor: visitor, Key: key})
		if err != nil {
			return
		}
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(&soonbeonv1.Record{Kind: &soonbeonv1.Record_Entered{
			Entered: &soonbeonv1.Entered{Visitor: visitor, Key: []byte(key)},
		}})
		if err != nil || string(b) != string(want) {
			t.Fatalf("wrote %x, the generated code %x (%v)", b, want, err)
		}
	})
}

func BenchmarkDecodeEntered(b *testing.B) {
	raw, err := Encode(queue.Record{Kind: queue.Entered, Visitor: queue.NewVisitor(), Key: "0123456789abcdef"})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("fast", func(b *testing.B) {
		b.ReportAllocs()
		var rec queue.Record
		for b.Loop() {
			decode(raw, &rec)
		}
	})
	b.Run("generated", func(b *testing.B) {
		b.ReportAllocs()
		var rec queue.Record
		for b.Loop() {
			slowDecode(raw, &rec)
		}
	})
}
