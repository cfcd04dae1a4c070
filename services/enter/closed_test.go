package enter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// A queue that takes nobody says so and why, to everybody alike; who holds an admission still hears of that, and who waits may leave.
func TestClosed(t *testing.T) {
	f := newFixture(t)
	e := f.queues["main"]
	first := f.accepted(t, key(uuid))
	refuse := func(reason string, options ...option) {
		t.Helper()
		a := f.do(t, enterPath, intoMain, options...)
		require.Equal(t, []any{410, "queue_closed", reason}, []any{a.http, a.Code, a.Reason}, a.Detail)
		require.Empty(t, a.Receipt)
		require.Equal(t, 1, f.log.total())
	}
	e.Closed, e.Why = true, queue.WhySoldOut
	refuse("sold_out")
	refuse("sold_out", key(uuid)) // a retransmission: its sender holds a place already
	refuse("sold_out", bearer(first.Receipt))
	refuse("sold_out", bearer("x.y.z"))
	require.Equal(t, 200, f.do(t, enterPath, intoMain, bearer(f.entry(t, "main", "v", time.Minute))).http)

	require.Contains(t, f.do(t, enterPath, intoMain).Detail, "has not lost the place", "who waits is let through")
	require.NotContains(t, f.do(t, enterPath, intoMain).body, `"message"`)
	e.Settings.Message = "A second date on Monday"
	require.Contains(t, f.do(t, enterPath, intoMain).body, `"message":"A second date on Monday"`, "who comes late reads it too")
	e.Ending = true
	require.Contains(t, f.do(t, enterPath, intoMain).Detail, "its line is over", "and not where the line was ended")

	e.Closed, e.Ending, e.Why = false, false, ""
	e.Settings.ClosesAtMs = noon.UnixMilli()
	refuse("closed")
	e.Settings.ClosesAtMs++
	f.accepted(t)
	require.Equal(t, 202, f.do(t, enterPath, `{"queue":"other"}`).http, "no other queue is closed by it")

	e.Closed, e.Why = true, "maintenance"
	require.Equal(t, 200, f.do(t, leavePath, intoMain, bearer(first.Receipt)).http)
	require.Equal(t, 9.0, f.counted(t, "enter", "closed"))
}

// Before the opening people enter as at any time.
func TestNotOpenYet(t *testing.T) {
	f := newFixture(t)
	f.queues["main"].Settings.OpensAtMs = noon.Add(time.Hour).UnixMilli()
	f.queues["main"].Paused = true
	f.accepted(t)
}

// A queue was deleted and another of its name was made: nothing that was signed for the one counts in the other.
func TestTokensOfAnEarlierQueue(t *testing.T) {
	f := newFixture(t)
	a := f.accepted(t)
	r, err := f.keys.VerifyReceipt(a.Receipt, "main")
	require.NoError(t, err)
	require.EqualValues(t, 3, r.Made)
	receipt := func(made int64) string {
		s, err := f.keys.SignReceipt(pass.Receipt{Queue: "main", Visitor: "v", Ticket: 1, Ahead: queue.NoAhead, IssuedMs: noon.UnixMilli(), Made: made})
		require.NoError(t, err)
		return s
	}
	entry := func(made int64) string {
		s, err := f.keys.SignEntry(pass.Entry{Queue: "main", Visitor: "v", Ticket: 1, AdmittedMs: noon.UnixMilli(), ExpiresMs: noon.Add(time.Minute).UnixMilli(), Made: made})
		require.NoError(t, err)
		return s
	}
	for _, made := range []int64{0, 2, 3, 4} {
		ok := made == 0 || made == 3
		for path, tokens := range map[string][]string{enterPath: {receipt(made), entry(made)}, leavePath: {receipt(made)}} {
			for _, token := range tokens {
				a := f.do(t, path, intoMain, bearer(token))
				if ok {
					require.Less(t, a.http, 300, "%s, made %d: %s", path, made, a.Detail)
					continue
				}
				require.Equal(t, []any{401, "credential_invalid"}, []any{a.http, a.Code}, "%s, made %d", path, made)
				require.Contains(t, a.Detail, "earlier queue of this name")
			}
		}
	}
	require.Equal(t, 401, f.do(t, enterPath, intoMain, cookie(receipt(2))).http, "a cookie is not thrown away by whoever can't read it")
	require.Equal(t, 202, f.do(t, enterPath, intoMain, cookie(receipt(2)), cookie(receipt(3))).http)
}

// The polling table is the queue's, as it is at the moment.
func TestThePollingTableIsTheQueues(t *testing.T) {
	f := newFixture(t)
	require.EqualValues(t, 1000, f.accepted(t).RetryAfterMs)
	f.queues["main"].Settings.Polling = []queue.PollStep{{Position: queue.LastPosition, Interval: 7 * time.Second}}
	require.EqualValues(t, 7000, f.accepted(t).RetryAfterMs)
	require.EqualValues(t, 1000, f.do(t, enterPath, `{"queue":"other"}`).RetryAfterMs)
}
