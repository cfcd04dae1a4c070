package position

import (
	"encoding/json"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// ask is one answer as it is sent, member by member.
func (f *fixture) ask(t testing.TB, address, token string) map[string]any {
	t.Helper()
	r := httptest.NewRequest("GET", address, nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	f.e.ServeHTTP(w, r)
	var a map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &a), w.Body)
	return a
}

const positionPath = "/queue/position?" + inMain

// without the receipt, which is checked by itself.
func without(a map[string]any) map[string]any {
	delete(a, "receipt")
	return a
}

func (f *fixture) renewed(t testing.TB, a map[string]any) pass.Receipt {
	t.Helper()
	r, err := f.keys.VerifyReceipt(a["receipt"].(string), "main")
	require.NoError(t, err)
	return r
}

func TestBeforeTheOpening(t *testing.T) {
	f := newFixture(t)
	f.entry.Settings.OpensAtMs = at(90*time.Second + time.Millisecond)
	f.entry.Settings.Message = "문이 곧 열립니다 \"soon\"\n"
	a := f.ask(t, positionPath, f.receipt(t, "main"))
	require.Equal(t, map[string]any{"state": "waiting", "position": 26., "ahead": 25., "behind": 54., "total": 80., "ticket": 50., "nowServing": 20.,
		"opensAt": "2025-11-30T12:01:30.001Z", "opensInSeconds": 91., "message": "문이 곧 열립니다 \"soon\"\n", "retryAfterMs": 1000., "precision": "exact"}, without(a))
}

// A place by lot is not known before the draw, and neither Redis nor the log tells one.
func TestBeforeTheDraw(t *testing.T) {
	f := newFixture(t)
	*f.entry = *byDraw(90 * time.Second)
	a := f.ask(t, positionPath, f.receipt(t, "main"))
	r := f.renewed(t, a)
	require.Equal(t, map[string]any{"state": "waiting", "total": 80., "ticket": 50., "nowServing": 20., "opensAt": "2025-11-30T12:01:30Z", "opensInSeconds": 90.,
		"order": "draw", "commitment": "c0ffee", "retryAfterMs": 1000., "precision": "exact"}, without(a))
	require.Equal(t, pass.Receipt{Queue: "main", Visitor: "v", Ticket: 50, Ahead: queue.NoAhead, IssuedMs: at(0), Made: 3, Sure: true}, r)

	f.err = errAway
	a = f.ask(t, positionPath, f.receipt(t, "main"))
	r = f.renewed(t, a)
	require.Equal(t, map[string]any{"state": "waiting", "ticket": 50., "nowServing": 20., "opensAt": "2025-11-30T12:01:30Z", "opensInSeconds": 90.,
		"order": "draw", "commitment": "c0ffee", "retryAfterMs": 1000., "precision": "approximate"}, without(a))
	require.False(t, r.Sure, "the log alone does not tell whether the entry took a place")
	require.Equal(t, queue.NoAhead, r.Ahead)

	f.now = noon.Add(92 * time.Second) // it should have been drawn
	a = f.ask(t, positionPath, f.receipt(t, "main"))
	require.Equal(t, 0., a["opensInSeconds"])
	require.NotContains(t, a, "position")
	require.NotContains(t, a, "etaSeconds")

	// And with the draw everything is there, first by the log alone, for who was sure before it.
	f.state = drawn(120, 20)
	sure, err := f.keys.SignReceipt(pass.Receipt{Queue: "main", Visitor: "v", Ticket: 50, Ahead: queue.NoAhead, IssuedMs: at(0), Made: 3, Sure: true})
	require.NoError(t, err)
	a = f.ask(t, positionPath, sure)
	n := float64(lottery.Number(50))
	require.Equal(t, []any{n, 50., n - 20, "approximate"}, []any{a["number"], a["ticket"], a["position"], a["precision"]})
	require.NotContains(t, a, "opensAt")
	require.NotContains(t, a, "order")
	f.err, f.moment, f.place = nil, queue.Moment{State: drawn(120, 20), Total: 80}, queue.Place{Ticket: lottery.Number(50), Ahead: int64(n) - 22}
	a = f.ask(t, positionPath, a["receipt"].(string))
	require.Equal(t, []any{n, 50., n - 21, "exact"}, []any{a["number"], a["ticket"], a["position"], a["precision"]})
	require.Equal(t, pass.Receipt{Queue: "main", Visitor: "v", Ticket: 50, Ahead: int64(n) - 22, IssuedMs: f.now.UnixMilli(), Made: 3, Sure: true, Drawn: 100}, f.renewed(t, a))
}

func TestPausedIsTold(t *testing.T) {
	f := newFixture(t)
	f.entry.Paused, f.entry.Settings.Message = true, "back in 5 minutes"
	a := f.ask(t, positionPath, f.receipt(t, "main"))
	require.Equal(t, []any{true, "back in 5 minutes", 26.}, []any{a["paused"], a["message"], a["position"]})
	require.NotContains(t, a, "etaSeconds")
	f.err = errAway
	a = f.ask(t, positionPath, f.receipt(t, "main"))
	require.Equal(t, true, a["paused"])
	require.NotContains(t, a, "etaSeconds")
	f.entry.Paused, f.entry.Settings.Message = false, ""
	a = f.ask(t, positionPath, f.receipt(t, "main"))
	require.NotContains(t, a, "paused")
	require.NotContains(t, a, "message")
	require.Contains(t, a, "etaSeconds")
	f.entry.Closed, f.entry.Why = true, queue.WhyClosed
	require.Equal(t, without(a), without(f.ask(t, positionPath, f.receipt(t, "main"))), "who waits in a queue that takes nobody in any more is not troubled")
}

// An entry that took no place says so once, to who goes on with the newest receipt.
func TestNotInsertedIsToldOnce(t *testing.T) {
	f := newFixture(t)
	f.place.Ticket = 40
	a := f.ask(t, positionPath, f.receipt(t, "main"))
	require.Equal(t, false, a["inserted"])
	require.EqualValues(t, 40, a["ticket"])
	require.EqualValues(t, 40, f.renewed(t, a).Ticket)
	require.NotContains(t, f.ask(t, positionPath, a["receipt"].(string)), "inserted")
	f.place.Ticket = 50
	require.NotContains(t, f.ask(t, positionPath, f.receipt(t, "main")), "inserted")
}

func TestTheLineIsOver(t *testing.T) {
	f := newFixture(t)
	f.entry.Closed, f.entry.Ending, f.entry.Why, f.entry.Settings.Message = true, true, "sold_out", "thank you"
	f.state = queue.State{Seq: 101, Served: 101, End: queue.End{At: 101, Why: "sold_out", Over: true}}
	f.place, f.moment, f.onCatch = queue.Place{}, queue.Moment{State: f.state}, func() {}
	want := map[string]any{"state": "over", "reason": "sold_out", "message": "thank you"}
	require.Equal(t, want, f.ask(t, positionPath, f.receipt(t, "main")))
	f.err = errAway
	require.Equal(t, want, f.ask(t, positionPath, f.receipt(t, "main")))
	f.grant, f.gs = queue.Grant{Ticket: 50, ExpiresMs: at(-time.Second)}, line.Expired
	require.Equal(t, map[string]any{"state": "over", "reason": "expired"}, f.ask(t, positionPath, f.receipt(t, "main")))
}

func TestAdmitTo(t *testing.T) {
	f := newFixture(t)
	f.grant, f.gs = queue.Grant{Ticket: 50, AdmittedMs: at(-time.Second), ExpiresMs: at(5 * time.Minute)}, line.Live
	require.NotContains(t, f.ask(t, positionPath, f.receipt(t, "main")), "admitTo")
	f.entry.Settings.AdmitTo = `https://shop.example/in?a=1&b="2"`
	require.Equal(t, f.entry.Settings.AdmitTo, f.ask(t, positionPath, f.receipt(t, "main"))["admitTo"])
}

// A queue was deleted and another of its name was made: what was signed for the one does not count in the other.
func TestReceiptsOfAnEarlierQueue(t *testing.T) {
	f := newFixture(t)
	sign := func(made int64) string {
		s, err := f.keys.SignReceipt(pass.Receipt{Queue: "main", Visitor: "v", Ticket: 50, Ahead: queue.NoAhead, IssuedMs: at(0), Made: made})
		require.NoError(t, err)
		return s
	}
	for made, want := range map[int64]int{0: 200, 2: 401, 3: 200, 4: 401} {
		a := f.get(t, inMain, bearer(sign(made)))
		require.Equal(t, want, a.http, made)
		if want == 401 {
			require.Equal(t, "credential_invalid", a.Code)
			require.Contains(t, a.Detail, "earlier queue of this name")
		}
	}
	a := f.get(t, inMain, header("Cookie", "__Host-soonbeon-main="+sign(2)+"; __Host-soonbeon-main="+sign(3)))
	require.Equal(t, 200, a.http, "of two cookies the one that counts")
}

// What operators change is told with the next answer, and the polling table is theirs.
func TestSettingsAreReadForEachAnswer(t *testing.T) {
	f := newFixture(t)
	f.place.Ahead, f.moment, f.state = 350, moment(1000, 20, 800), queue.State{Seq: 1000, Served: 20}
	f.place.Ticket = 900
	ask := func() []any {
		a := f.ask(t, positionPath, f.receipt(t, "main"))
		return []any{a["etaSeconds"], a["retryAfterMs"]}
	}
	require.Equal(t, []any{2., 2000.}, ask())
	f.entry.Settings.Rate = 10
	require.Equal(t, []any{35., 2000.}, ask())
	f.entry.Settings.Polling = []queue.PollStep{{Position: queue.LastPosition, Interval: 7 * time.Second}}
	require.Equal(t, []any{35., 7000.}, ask())
}

// Who would ask after the opening asks within one interval of it, at an own moment.
func TestWhenToAskAroundTheOpening(t *testing.T) {
	f := newFixture(t)
	draw := 0.
	f.service.cfg.Rand = func() float64 { return draw }
	after := func(e *queue.Entry, a answer) time.Duration { return f.service.after(e, a, noon) }
	open := func(in time.Duration) *queue.Entry {
		e := plain()
		e.Settings.OpensAtMs = at(in)
		return e
	}
	far := answer{ahead: 500_000} // asks each 30 s ± 4 s
	for _, tc := range []struct {
		in          time.Duration
		least, most time.Duration
	}{
		{time.Hour, 26 * time.Second, 34 * time.Second},
		{35 * time.Second, 26 * time.Second, 34 * time.Second},
		{26 * time.Second, 26 * time.Second, 56 * time.Second},
		{5 * time.Second, 5 * time.Second, 35 * time.Second},
		{time.Millisecond, queue.MinPoll, 30*time.Second + time.Millisecond},
		{0, 26 * time.Second, 34 * time.Second},
		{-time.Hour, 26 * time.Second, 34 * time.Second},
	} {
		draw = 0
		require.Equal(t, tc.least, after(open(tc.in), far), "opens in %v", tc.in)
		draw = 1
		require.Equal(t, tc.most, after(open(tc.in), far), "opens in %v", tc.in)
	}
	slow := open(5 * time.Second)
	slow.Settings.Polling = []queue.PollStep{{Position: queue.LastPosition, Interval: queue.MaxPoll}}
	require.Equal(t, 35*time.Second, after(slow, far), "nobody comes much later, however rarely people ask")

	// Where lots are drawn nobody knows who comes first, so all are asked to come as the last one is; and the leader takes a moment.
	draw = 0
	e := byDraw(5 * time.Second)
	require.Equal(t, 7*time.Second, after(e, answer{unplaced: true, exact: true, total: 500_000}))
	require.Equal(t, 7*time.Second, after(e, answer{unplaced: true, ticket: 500_000}))
	draw = 1
	require.Equal(t, 37*time.Second, after(e, answer{unplaced: true, exact: true, total: 500_000}))
	require.Equal(t, 5*time.Second+500*time.Millisecond, after(byDraw(time.Hour), answer{unplaced: true, exact: true, total: 10_000}))
	year9999 := plain()
	year9999.Settings.OpensAtMs = 253_402_300_799_999
	require.Equal(t, 34*time.Second, after(year9999, far))
}

func TestDrawIsPublic(t *testing.T) {
	f := newFixture(t)
	const path = "/queue/draw?queue="
	a := f.ask(t, path+"main", "")
	require.Equal(t, []any{"draw_unknown", 404.}, []any{a["code"], a["status"]})
	require.Equal(t, "queue_unknown", f.ask(t, path+"nobody", "")["code"])
	require.Equal(t, "query_invalid", f.ask(t, path+"../x", "")["code"])
	*f.entry = *byDraw(90 * time.Second)
	want := map[string]any{"queue": "main", "order": "draw", "opensAt": "2025-11-30T12:01:30Z", "commitment": "c0ffee"}
	require.Equal(t, want, f.ask(t, path+"main", ""))
	f.state = drawn(120, 20)
	want["seed"], want["first"], want["last"] = "07"+"00000000000000000000000000000000000000000000000000000000000000", 21., 100.
	require.Equal(t, want, f.ask(t, path+"main", ""))
}
