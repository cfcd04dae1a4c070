package enter_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/enter"
)

func TestAccepted(t *testing.T) {
	f := newFixture(t)
	a := f.accepted(t)
	require.Equal(t, "accepted", a.Status)
	require.Equal(t, "main", a.Queue)
	require.EqualValues(t, 1, a.Ticket)
	require.EqualValues(t, 1000, a.RetryAfterMs)
	require.Equal(t, "1", a.header.Get("Retry-After"))
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	require.Equal(t, []queue.Record{{Ticket: 1, Kind: queue.Entered, Visitor: a.Visitor}}, f.log.of("main"))

	receipt, err := f.keys.VerifyReceipt(a.Receipt, "main")
	require.NoError(t, err)
	require.Equal(t, a.Visitor, receipt.Visitor)
	require.EqualValues(t, 1, receipt.Ticket)
	require.Equal(t, queue.NoAhead, receipt.Ahead)
	require.Equal(t, noon.UnixMilli(), receipt.IssuedMs)
	c, err := http.ParseSetCookie(a.header.Get("Set-Cookie"))
	require.NoError(t, err)
	require.Equal(t, "__Host-soonbeon-main", c.Name)
	require.Equal(t, a.Receipt, c.Value)

	next := f.accepted(t)
	require.EqualValues(t, 2, next.Ticket)
	require.NotEqual(t, a.Visitor, next.Visitor)
	require.EqualValues(t, 1, f.do(t, enterPath, `{"queue":"other"}`).Ticket, "each queue has a log of its own")
	require.Zero(t, f.logs.Len(), "nothing is logged per request")
}

func TestWhenToAskFirst(t *testing.T) {
	draw := 0.0
	f := newFixture(t, func(c *enter.Config) {
		c.Rand = func() float64 { return draw }
		c.Position = func(e *queue.Entry, ticket queue.Ticket) (int64, bool) {
			require.EqualValues(t, "main", e.ID)
			return int64(ticket)*5_000 - 5_000, false
		}
	})
	for _, want := range []struct {
		ms     int64
		header string
	}{{1000, "1"}, {4500, "5"}, {4500, "5"}, {9000, "9"}} {
		a := f.accepted(t)
		require.Equal(t, want.ms, a.RetryAfterMs)
		require.Equal(t, want.header, a.header.Get("Retry-After"))
	}
	draw = 0.999999
	require.InDelta(t, 11_000, f.accepted(t).RetryAfterMs, 2)
}

// Until the first poll the answer is all that somebody has: it says how the queue stands, and a bound of the place. What it tells rides
// in the receipt.
func TestWhatIsToldAtOnce(t *testing.T) {
	most, near := int64(1207), true
	f := newFixture(t, func(c *enter.Config) {
		c.Position = func(*queue.Entry, queue.Ticket) (int64, bool) { return most, near }
	})
	told := func() map[string]any {
		var v map[string]any
		require.NoError(t, json.Unmarshal([]byte(f.accepted(t).body), &v))
		for _, name := range []string{"status", "queue", "visitor", "ticket", "receipt", "retryAfterMs"} {
			require.Contains(t, v, name)
			if name != "receipt" {
				delete(v, name)
			}
		}
		r, err := f.keys.VerifyReceipt(v["receipt"].(string), "main")
		require.NoError(t, err)
		v["receipt"] = float64(r.Ahead)
		return v
	}
	e := f.queues["main"]
	require.Equal(t, map[string]any{"position": 1207.0, "ahead": 1206.0, "precision": "approximate", "receipt": 1206.0}, told())
	near = false
	require.Equal(t, map[string]any{"receipt": -1.0}, told(), "a bound that is far from the truth is none to tell")
	near, most = true, -3 // the reading is ahead of this very entry: it was admitted already
	require.Equal(t, map[string]any{"position": 1.0, "ahead": 0.0, "precision": "approximate", "receipt": 0.0}, told())
	most, e.Settings.Rounding = 1207, []queue.RoundStep{{Ahead: 10_000, To: 100}}
	e.Paused, e.Settings.Message = true, "Back at \"five\""
	require.Equal(t, map[string]any{"position": 1301.0, "ahead": 1300.0, "precision": "approximate", "receipt": 1300.0, "paused": true, "message": "Back at \"five\""}, told())
	e.Paused, e.Settings.Message, e.Settings.Rounding = false, "", nil
	e.Settings.OpensAtMs = noon.Add(90*time.Second - time.Millisecond).UnixMilli()
	opens := map[string]any{"opensAt": "2025-11-30T12:01:29.999Z", "opensInSeconds": 90.0}
	v := map[string]any{"position": 1207.0, "ahead": 1206.0, "precision": "approximate", "receipt": 1206.0}
	maps.Copy(v, opens)
	require.Equal(t, v, told())
	e.Settings.Order, e.Commitment = queue.ByDraw, "c0ffee"
	v = map[string]any{"order": "draw", "commitment": "c0ffee", "receipt": -1.0}
	maps.Copy(v, opens)
	require.Equal(t, v, told(), "before a draw nobody has a place")
	e.Settings.OpensAtMs = 0
	require.Equal(t, map[string]any{"receipt": -1.0}, told(), "nor does this process know whether lots were drawn")
}

// Whoever shows a credential re-enters as the same visitor, and by default a refresh moves back.
func TestReentry(t *testing.T) {
	f := newFixture(t)
	first := f.accepted(t)
	f.accepted(t)
	require.Equal(t, first.Visitor, f.accepted(t, bearer(first.Receipt)).Visitor)
	again := f.accepted(t, cookie("stale"), cookie(first.Receipt))
	require.Equal(t, first.Visitor, again.Visitor)
	waiting := f.log.waiting(t, "main")
	require.Len(t, waiting, 2)
	require.EqualValues(t, queue.Waiting{Visitor: first.Visitor, Ticket: 4}, waiting[1])
}

func TestAdmittedAlready(t *testing.T) {
	f := newFixture(t)
	a := f.do(t, enterPath, intoMain, bearer(f.entry(t, "main", "v", time.Minute)), key("k"))
	require.Equal(t, 200, a.http)
	require.Equal(t, "admitted", a.Status)
	require.Equal(t, "2025-11-30T12:01:00Z", a.ExpiresAt)
	require.Empty(t, a.header.Get("Set-Cookie"))
	require.Zero(t, f.log.total())
}

func TestCredentials(t *testing.T) {
	anonymous, bySite := newFixture(t), newFixture(t, signed)
	receipt := anonymous.receipt(t, "main", "v")
	for name, tc := range map[string]struct {
		f     *fixture
		path  string
		opts  []option
		http  int
		code  string
		who   string // with 2xx: the visitor of the record
		words string // in the detail
	}{
		"receipt":                        {anonymous, enterPath, []option{bearer(receipt)}, 202, "", "v", ""},
		"receipt in a quoted cookie":     {anonymous, enterPath, []option{cookie(`"` + receipt + `"`)}, 202, "", "v", ""},
		"receipt, forged":                {anonymous, enterPath, []option{bearer(receipt[:len(receipt)-2] + "AA")}, 401, "credential_invalid", "", ""},
		"receipt, of another queue":      {anonymous, enterPath, []option{bearer(anonymous.receipt(t, "other", "v"))}, 401, "credential_invalid", "", "another queue"},
		"receipt, given twice":           {anonymous, enterPath, []option{bearer(receipt), bearer(receipt)}, 401, "credential_invalid", "", "2 times"},
		"cookie that is stale":           {anonymous, enterPath, []option{cookie("stale")}, 401, "credential_invalid", "", "/queue/leave"},
		"bearer before cookie":           {anonymous, enterPath, []option{bearer("bad"), cookie(receipt)}, 401, "credential_invalid", "", ""},
		"entry token, expired":           {anonymous, enterPath, []option{bearer(anonymous.entry(t, "main", "v", -time.Minute))}, 401, "credential_invalid", "", "expired"},
		"entry token, other queue":       {anonymous, enterPath, []option{bearer(anonymous.entry(t, "other", "v", time.Minute))}, 401, "credential_invalid", "", ""},
		"entry token in the cookie":      {anonymous, enterPath, []option{cookie(anonymous.entry(t, "main", "v", time.Minute))}, 401, "credential_invalid", "", ""},
		"entry token, then the receipt":  {anonymous, enterPath, []option{cookie(anonymous.entry(t, "main", "x", time.Minute)), cookie(receipt)}, 202, "", "v", ""},
		"site token in mode anonymous":   {anonymous, enterPath, []option{bearer(identity(t, "v", time.Hour))}, 401, "credential_invalid", "", ""},
		"alg none":                       {anonymous, enterPath, []option{bearer("eyJhbGciOiJub25lIn0.eyJzdWIiOiJ2In0.")}, 401, "credential_invalid", "", ""},
		"signed: site token":             {bySite, enterPath, []option{bearer(identity(t, `구매자"7\`, time.Hour))}, 202, "", `구매자"7\`, ""},
		"signed: expired":                {bySite, enterPath, []option{bearer(identity(t, "v", -time.Hour))}, 401, "credential_invalid", "", "expired"},
		"signed: nothing":                {bySite, enterPath, nil, 401, "credential_missing", "", "site signed"},
		"signed: a key alone":            {bySite, enterPath, []option{key(uuid)}, 401, "credential_missing", "", "site signed"},
		"signed: receipt":                {bySite, enterPath, []option{bearer(receipt)}, 202, "", "v", ""},
		"leave: receipt":                 {anonymous, leavePath, []option{bearer(receipt)}, 200, "", "v", ""},
		"leave: cookie":                  {anonymous, leavePath, []option{cookie(receipt)}, 200, "", "v", ""},
		"leave: nothing":                 {anonymous, leavePath, nil, 401, "credential_missing", "", ""},
		"leave: a key alone":             {anonymous, leavePath, []option{key(uuid)}, 401, "credential_missing", "", ""},
		"leave: forged":                  {anonymous, leavePath, []option{bearer("x.y.z")}, 401, "credential_invalid", "", ""},
		"leave: entry token":             {anonymous, leavePath, []option{bearer(anonymous.entry(t, "main", "v", time.Minute))}, 401, "credential_invalid", "", ""},
		"leave: receipt, other queue":    {anonymous, leavePath, []option{bearer(anonymous.receipt(t, "other", "v"))}, 401, "credential_invalid", "", ""},
		"leave, signed: site token":      {bySite, leavePath, []option{bearer(identity(t, "v", time.Hour))}, 200, "", "v", ""},
		"leave, anonymous: a site token": {anonymous, leavePath, []option{bearer(identity(t, "v", time.Hour))}, 401, "credential_invalid", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := tc.f.log.total()
			a := tc.f.do(t, tc.path, intoMain, tc.opts...)
			require.Equal(t, tc.http, a.http, "%s: %s", a.Code, a.Detail)
			require.Equal(t, tc.code, a.Code)
			require.Contains(t, a.Detail, tc.words)
			if tc.who == "" {
				require.Equal(t, before, tc.f.log.total(), "a record was written")
				require.NotEmpty(t, a.header.Get("WWW-Authenticate"))
				return
			}
			records := tc.f.log.of("main")
			require.Equal(t, tc.who, records[len(records)-1].Visitor)
			if tc.path == enterPath {
				require.Equal(t, tc.who, a.Visitor)
			}
		})
	}
}

// A node that lacks a key must not make browsers throw receipts away; leaving may.
func TestOnlyLeavingForgetsACookie(t *testing.T) {
	f := newFixture(t)
	require.Empty(t, f.do(t, enterPath, intoMain, cookie("stale")).header.Get("Set-Cookie"))
	c, err := http.ParseSetCookie(f.do(t, leavePath, intoMain, cookie("stale")).header.Get("Set-Cookie"))
	require.NoError(t, err)
	require.True(t, c.Name == "__Host-soonbeon-main" && c.MaxAge < 0)
	require.Empty(t, f.do(t, leavePath, intoMain, bearer("stale")).header.Get("Set-Cookie"))
	require.Empty(t, f.do(t, leavePath, intoMain, cookie(f.receipt(t, "main", "v"))).header.Get("Set-Cookie"))
}

func TestLeave(t *testing.T) {
	f := newFixture(t)
	first, second := f.accepted(t), f.accepted(t)
	for range 2 {
		a := f.do(t, leavePath, intoMain, bearer(first.Receipt))
		require.Equal(t, 200, a.http)
		require.Equal(t, "left", a.Status)
	}
	waiting := f.log.waiting(t, "main")
	require.Len(t, waiting, 1)
	require.Equal(t, second.Visitor, waiting[0].Visitor)
	require.EqualValues(t, 5, f.accepted(t, bearer(first.Receipt)).Ticket, "whoever left may come again")
}

func TestIdempotencyKeys(t *testing.T) {
	f := newFixture(t)
	receipt := bearer(f.receipt(t, "main", "v"))
	for name, tc := range map[string]struct {
		opts  []option
		words string // "" where it is taken
	}{
		"one character":            {[]option{receipt, key("k")}, ""},
		"64 characters":            {[]option{receipt, key(strings.Repeat("k", 64))}, ""},
		"all that is visible":      {[]option{receipt, key(`!"#$%&'()*+,-./:;<=>?@[\]^_{|}~`)}, ""},
		"a UUID alone":             {[]option{key(uuid)}, ""},
		"a quoted UUID alone":      {[]option{key(`"` + uuid + `"`)}, ""},
		"16 characters alone":      {[]option{key("0123456789abcdef")}, ""},
		"65 characters":            {[]option{receipt, key(strings.Repeat("k", 65))}, "65"},
		"empty":                    {[]option{receipt, key("")}, "has 0"},
		"twice":                    {[]option{receipt, key("k"), key("k")}, "2 times"},
		"a space":                  {[]option{receipt, key("a b")}, "byte 1"},
		"a control character":      {[]option{receipt, key("ab\x7f")}, "byte 2"},
		"not ASCII":                {[]option{receipt, key("é")}, "byte 0"},
		"15 characters alone":      {[]option{key("0123456789abcde")}, "random UUID"},
		"the nil UUID alone":       {[]option{key("00000000-0000-0000-0000-000000000000")}, "random"},
		"one letter over and over": {[]option{key(strings.Repeat("x", 40))}, "random"},
	} {
		t.Run(name, func(t *testing.T) {
			before := f.log.total()
			a := f.do(t, enterPath, intoMain, tc.opts...)
			if tc.words == "" {
				require.Equal(t, 202, a.http, a.Detail)
				return
			}
			require.Equal(t, 400, a.http)
			require.Equal(t, "idempotency_key_invalid", a.Code)
			require.Contains(t, a.Detail, tc.words)
			require.Equal(t, before, f.log.total())
		})
	}
}

// The digest is a stored format: changing it would turn retransmissions into refreshes. So is the visitor made of a key.
func TestStoredFormats(t *testing.T) {
	f := newFixture(t)
	a := f.accepted(t, key(uuid))
	rec := f.log.of("main")[0]
	require.Equal(t, "dZLkPov1NRD7npxW", rec.Key)
	require.Len(t, rec.Key, 16)
	require.Equal(t, "8oxlCmpjenj0Z7Vil4DGgQ", a.Visitor)
	require.Len(t, a.Visitor, len(queue.NewVisitor()))
}

func TestTheRawKeyIsNowhere(t *testing.T) {
	f := newFixture(t)
	for _, m := range []mode{works, busy, refuses} {
		f.log.set(m)
		a := f.do(t, enterPath, intoMain, key(uuid))
		require.NotContains(t, fmt.Sprint(a), uuid)
	}
	f.do(t, enterPath, intoMain, key(uuid+" "+uuid))
	require.NotContains(t, fmt.Sprint(f.log.of("main")), uuid)
	require.NotEmpty(t, f.logs.All())
	for _, l := range f.logs.All() {
		require.NotContains(t, fmt.Sprint(l.Message, l.ContextMap()), uuid)
	}
}

// Whoever sees a visitor's id, or the record, can't make the key or act for the visitor; another secret, another queue and
// another key each give another visitor.
func TestVisitorsMadeOfKeys(t *testing.T) {
	f := newFixture(t)
	a := f.accepted(t, key(uuid))
	require.Equal(t, a.Visitor, f.accepted(t, key(uuid)).Visitor)
	require.Equal(t, a.Visitor, newFixture(t).accepted(t, key(uuid)).Visitor, "another node")
	require.NotEqual(t, a.Visitor, f.accepted(t, key(uuid+"0")).Visitor)
	require.NotEqual(t, a.Visitor, f.do(t, enterPath, `{"queue":"other"}`, key(uuid)).Visitor)
	other := newFixture(t, func(c *enter.Config) { c.IDSecret = []byte(strings.Repeat("j", 32)) })
	require.NotEqual(t, a.Visitor, other.accepted(t, key(uuid)).Visitor)
	require.NotEqual(t, a.Visitor, f.accepted(t, key(a.Visitor)).Visitor)
	require.NotEqual(t, a.Visitor, f.accepted(t, key(f.log.of("main")[0].Key)).Visitor)
}

func TestConfigTellsEveryMistake(t *testing.T) {
	_, err := enter.New(enter.Config{AckTimeout: 3 * time.Second}, newMemoryLog(), nil, zap.NewNop(), prometheus.NewRegistry())
	for _, want := range []string{"queues", "id secret has 0 bytes", "ack timeout"} {
		require.ErrorContains(t, err, want)
	}
	_, err = enter.New(enter.Config{Queues: enter.Only(), Identity: enter.Signed}, newMemoryLog(), nil, zap.NewNop(), prometheus.NewRegistry())
	require.ErrorContains(t, err, "site keys")
	require.NotContains(t, err.Error(), "secret", "mode signed makes no ids")
	for s, want := range map[string]enter.Identity{"anonymous": enter.Anonymous, "signed": enter.Signed} {
		got, err := enter.ParseIdentity(s)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err = enter.ParseIdentity("none")
	require.ErrorContains(t, err, "anonymous or signed")
}
