package position

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// Whoever is told in another way is told the same as by GET /queue/position.
func TestTellSaysWhatAPollSays(t *testing.T) {
	f := newFixture(t)
	r := httptest.NewRequest("GET", "/queue/position?"+inMain, nil)
	_, _, err := f.service.Receipt(r)
	require.ErrorContains(t, err, string(httpapi.CredentialMissing))
	r.Header.Set("Cookie", "__Host-soonbeon-main="+f.receipt(t, "main"))
	receipt, from, err := f.service.Receipt(r)
	require.NoError(t, err)
	require.Equal(t, httpapi.FromCookie, from)

	told := func() Told {
		t.Helper()
		w := httptest.NewRecorder()
		f.e.ServeHTTP(w, r)
		a, err := f.service.Tell(t.Context(), receipt, nil)
		require.NoError(t, err)
		require.Equal(t, w.Body.String(), string(a.Body))
		require.NotContains(t, w.Body.String(), "\n", "one line")
		return a
	}
	a := told()
	require.Equal(t, []any{Waiting, int64(26), true, time.Second}, []any{a.State, a.Position, a.Exact, a.RetryAfter})
	require.EqualValues(t, 25, a.Receipt.Ahead)
	signed, err := f.keys.VerifyReceipt(a.Signed, "main")
	require.NoError(t, err)
	require.Equal(t, a.Receipt, signed)

	f.now = f.now.Add(time.Second) // the next answer is signed anew, and says the same
	b := told()
	require.NotEqual(t, a.Body, b.Body)
	require.Equal(t, string(a.Body[:a.Lasting]), string(b.Body[:b.Lasting]))
	f.entry.Settings.Message = "다음 열차"
	b = told()
	require.NotEqual(t, string(a.Body[:a.Lasting]), string(b.Body[:b.Lasting]))

	f.entry.Settings.Order, f.entry.Settings.OpensAtMs = queue.ByDraw, f.now.Add(time.Hour).UnixMilli()
	require.Zero(t, told().Position, "nobody has one before the draw")
	f.grant, f.gs = queue.Grant{Ticket: 50, AdmittedMs: f.now.UnixMilli(), ExpiresMs: f.now.Add(time.Minute).UnixMilli()}, line.Live
	require.Equal(t, Admitted, told().State)
	f.grant.ExpiresMs, f.gs, f.place = at(-time.Second), line.Expired, queue.Place{}
	f.onCatch = func() {}
	a = told()
	require.Equal(t, []any{Over, len(a.Body)}, []any{a.State, a.Lasting})

	receipt.Made = 2
	_, err = f.service.Tell(t.Context(), receipt, nil)
	require.ErrorContains(t, err, string(httpapi.QueueUnknown), "the queue was made anew")
}
