package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/catalog"
	"github.com/soonbeon/soonbeon/services/load"
)

// still is a rate at which nobody is admitted while a test runs.
const still = "--rate=0.001"

// keysOf are the keys that the data folder made for itself.
func keysOf(t testing.TB, data string) string {
	t.Helper()
	b, err := os.ReadFile(data + "/keys")
	require.NoError(t, err)
	return strings.TrimSpace(string(b))
}

// TestASessionByHand is the session of the README: a place, a look, leaving, an entry token.
func TestASessionByHand(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	room := start(t, "standalone", "standalone", nil, "--data", data, still)
	for _, told := range []string{room.public, room.private, data, "/queue/enter", "/queue/position?queue=main", "--keys-file " + data + "/keys"} {
		require.Contains(t, room.printed(t), told, "what it prints at its start")
	}

	room.leads(t)
	ann := enter(t, room.public, "Idempotency-Key: ann-at-her-desk-1")
	require.Equal(t, http.StatusAccepted, ann.status, ann.body)
	require.Equal(t, "accepted", ann.Status)
	require.NotZero(t, ann.Ticket)
	require.NotEmpty(t, ann.header.Get("Retry-After"))
	again := enter(t, room.public, "Idempotency-Key: ann-at-her-desk-1")
	require.Equal(t, ann.Visitor, again.Visitor, "a retransmission is the same visitor")
	bob := enter(t, room.public)
	require.Greater(t, bob.Ticket, ann.Ticket)
	require.NotEqual(t, ann.Visitor, bob.Visitor)

	var place reply
	until(t, 5*time.Second, "bob is told the exact place", func() bool { // once the log was read so far, a moment after the acknowledgement
		place = position(t, room.public, bob.Receipt)
		return place.Precision == "exact"
	})
	require.Equal(t, http.StatusOK, place.status, place.body)
	require.Equal(t, "waiting", place.State)
	require.EqualValues(t, 2, place.Position, place.body)
	require.EqualValues(t, 2, place.Total, "ann's retransmission took no second place")
	require.Equal(t, "exact", place.Precision)
	require.Equal(t, ann.Ticket, position(t, room.public, again.Receipt).Ticket, "a retransmission keeps the place")

	require.Equal(t, http.StatusOK, leave(t, room.public, ann.Receipt).status)
	until(t, 5*time.Second, "ann is told that she left", func() bool { return position(t, room.public, ann.Receipt).Reason == "left" })
	require.EqualValues(t, 1, position(t, room.public, bob.Receipt).Position)

	badInput(t, room, bob)

	room.stop(t)
	room = start(t, "again", "standalone", nil, "--data", data, "--rate=50") // of queues that are made: this one is there
	room.set(t, data, "main", `{"rate":50}`)
	var in reply
	until(t, 10*time.Second, "bob is admitted", func() bool {
		in = position(t, room.public, bob.Receipt)
		return in.State != "waiting"
	})
	require.Equal(t, "admitted", in.State, in.body)
	keys, err := pass.ParseKeys(keysOf(t, data))
	require.NoError(t, err)
	token, err := keys.VerifyEntry(in.Token, "main", time.Now())
	require.NoError(t, err)
	require.Equal(t, bob.Visitor, token.Visitor)
	require.Equal(t, bob.Ticket, token.Ticket)
	require.Equal(t, in.Token, position(t, room.public, bob.Receipt).Token, "who asks again has the same token")
	more := enter(t, room.public, "Authorization: Bearer "+in.Token)
	require.Equal(t, http.StatusOK, more.status)
	require.Equal(t, "admitted", more.Status)
	require.Equal(t, http.StatusUnauthorized, position(t, room.public, in.Token).status, "an entry token is no receipt")
	room.stop(t)
}

// badInput is answered by a problem document and writes nothing.
func badInput(t *testing.T, room *soonbeon, who reply) {
	enterAt, askAt, leaveAt := room.public+"/queue/enter", room.public+"/queue/position", room.public+"/queue/leave"
	bearer := "Authorization: Bearer " + who.Receipt
	before := enter(t, room.public).Ticket
	for _, c := range []struct {
		name, method, url, body string
		header                  []string
		status                  int
		code                    string
	}{
		{"unknown queue", "POST", enterAt, `{"queue":"nope"}`, []string{asJSON}, 404, "queue_unknown"},
		{"unknown queue asked", "GET", askAt + "?queue=nope", "", []string{bearer}, 404, "queue_unknown"},
		{"no body", "POST", enterAt, "", []string{asJSON}, 400, "body_malformed"},
		{"half a body", "POST", enterAt, `{"queue":`, []string{asJSON}, 400, "body_malformed"},
		{"a path", "POST", enterAt, `{"queue":"../main"}`, []string{asJSON}, 400, "body_malformed"},
		{"wrong type in the body", "POST", enterAt, `{"queue":["main"]}`, []string{asJSON}, 400, "body_malformed"},
		{"too large", "POST", enterAt, `{"queue":"` + strings.Repeat("a", 4096) + `"}`, []string{asJSON}, 413, "body_too_large"},
		{"not JSON", "POST", enterAt, `queue=main`, []string{"Content-Type: application/x-www-form-urlencoded"}, 415, "content_type"},
		{"an id in the body", "POST", enterAt, `{"queue":"main","visitor":"` + who.Visitor + `"}`, []string{asJSON}, 400, "identity_in_body"},
		{"a bad key", "POST", enterAt, `{"queue":"main"}`, []string{asJSON, "Idempotency-Key: a key of two words"}, 400, "idempotency_key_invalid"},
		{"a forged receipt", "POST", enterAt, `{"queue":"main"}`, []string{asJSON, bearer + "x"}, 401, "credential_invalid"},
		{"another site", "POST", enterAt, `{"queue":"main"}`, []string{asJSON, "Origin: https://evil.example", "Sec-Fetch-Site: cross-site"}, 403, "cross_site"},
		{"entering by GET", "GET", enterAt, "", nil, 405, "method_not_allowed"},
		{"leaving by GET", "GET", leaveAt, "", []string{bearer}, 405, "method_not_allowed"},
		{"leaving as nobody", "POST", leaveAt, `{"queue":"main"}`, []string{asJSON}, 401, "credential_missing"},
		{"asking as nobody", "GET", askAt + "?queue=main", "", nil, 401, "credential_missing"},
		{"asking with a forged receipt", "GET", askAt + "?queue=main", "", []string{bearer + "x"}, 401, "credential_invalid"},
		{"asking twice", "GET", askAt + "?queue=main&queue=main", "", []string{bearer}, 400, "query_invalid"},
		{"asking for nothing", "GET", askAt, "", []string{bearer}, 400, "query_invalid"},
		{"nowhere", "GET", room.public + "/queue", "", nil, 404, "not_found"},
		{"metrics in public", "GET", room.public + "/metrics", "", nil, 404, "not_found"},
	} {
		r := ask(t, c.method, c.url, c.body, c.header...)
		require.Equal(t, c.status, r.status, "%s: %s", c.name, r.body)
		require.Equal(t, c.code, r.Code, "%s: %s", c.name, r.body)
		require.Equal(t, "application/problem+json", r.header.Get("Content-Type"), c.name)
		require.NotContains(t, r.body, who.Receipt, c.name)
	}
	require.Equal(t, before+1, enter(t, room.public).Ticket, "bad input must write nothing")
}

func TestACrowdPasses(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	room := start(t, "standalone", "standalone", nil, "--data", data, "--rate=500")
	s, r := loadCommand(t, "--target", room.public, "--visitors=1500", "--keys-file", data+"/keys", "--refresh=0.05", "--expect-rate=500")
	require.Zero(t, r.code, "%+v", r)
	require.True(t, s.OK)
	require.True(t, s.Verified)
	require.True(t, s.Order.Kept)
	require.Equal(t, 1500, s.Admitted)
	require.Empty(t, s.Broken)
	require.LessOrEqual(t, s.Rate.HighestSecond, 550)

	// The command also says so when something is not as it was promised, or it was not there to see the end.
	s, r = loadCommand(t, "--target", room.public, "--visitors=300", "--expect-rate=20", "--expect-batch=1")
	require.Equal(t, load.ExitBroken, r.code, "%+v", r)
	require.False(t, s.OK)
	require.Len(t, s.Broken, 1)
	other := run(t, nil, "keys")
	require.Zero(t, other.code)
	s, r = loadCommand(t, "--target", room.public, "--visitors=5", "--keys", strings.TrimSpace(other.out))
	require.Equal(t, load.ExitBroken, r.code, "tokens that these keys did not sign: %+v", r)
	require.False(t, s.OK)
	s, r = loadCommand(t, "--target", room.public, "--visitors=100", "--rate=40", "--timeout=2600ms")
	require.Empty(t, s.Broken)
	require.Equal(t, load.ExitIncomplete, r.code, "%+v", r)
	require.Equal(t, "timeout", s.Cut)
	room.stop(t)
	nothing := run(t, nil, "load", "--json", "--target", room.public, "--visitors=5")
	require.Equal(t, 1, nothing.code)
	require.Empty(t, nothing.out)
	require.Contains(t, nothing.errOut, "nothing answers at "+room.public)
	book := offline(t, data, "main")
	require.LessOrEqual(t, book.fastest(), 550)
}

// Three times kill -9, among those who enter and among those who wait. In between the truth is read from the data folder,
// and then told by the process that was started on it.
func TestFault08_KilledInTheMiddleOfACrowd(t *testing.T) {
	t.Parallel()
	const visitors = 800
	data := filepath.Join(t.TempDir(), "data")
	args := []string{"--data", data}
	room := start(t, "standalone", "standalone", []string{"SOONBEON_RATE=100"}, args...)
	crowd := send(t, load.Config{Target: []string{room.public}, Visitors: visitors, Rate: 500, Refresh: 0.05,
		Keys: keysOf(t, data), ExpectRate: 100})

	until(t, 30*time.Second, "some have entered", func() bool { return crowd.accepted() >= visitors/4 })
	require.NoError(t, room.Restart(t.Context())) // kill -9, and a start on the same ports and folder
	until(t, 60*time.Second, "all have entered and some are admitted", func() bool {
		return crowd.accepted() >= visitors && crowd.admitted() >= 100
	})
	require.NoError(t, room.Kill())
	acks, _ := crowd.promised()
	before := offline(t, data, "main")
	fates := before.accounts(t, acks, crowd.entries(t, keysOf(t, data), "main"))
	t.Logf("what became of %d acknowledged entries at the second kill: waiting %d, admitted %d, moved back %d, repeated %d",
		len(acks), fates[waits], fates[wasAdmitted], fates[movedBack], fates[repeated])
	require.NotZero(t, fates[waits])

	// Started anew, it tells everybody what the log says.
	operate(t, data, func(e *catalog.Editor) error { // and lets nobody in, so that all can be compared
		_, err := e.Pause(t.Context(), "test", "main", nil, catalog.AnyVersion)
		return err
	})
	quiet := start(t, "quiet", "standalone", nil, args...)
	keys, err := pass.ParseKeys(keysOf(t, data))
	require.NoError(t, err)
	places, in := map[queue.Visitor]int{}, map[queue.Visitor]bool{}
	for i, w := range before.waiting() {
		places[w.Visitor] = i + 1
	}
	for _, visitor := range before.admitted {
		in[visitor] = true
	}
	for _, a := range acks {
		told := position(t, quiet.public, a.Receipt)
		if in[a.Visitor] { // and may wait as well: who lost the reply and entered again after being admitted
			require.Equal(t, "admitted", told.State, told.body)
			token, err := keys.VerifyEntry(told.Token, "main", time.Now())
			require.NoError(t, err)
			require.Equal(t, a.Visitor, before.admitted[token.Ticket])
			continue
		}
		require.Equal(t, "waiting", told.State, told.body)
		require.EqualValues(t, places[a.Visitor], told.Position, told.body)
		require.EqualValues(t, len(places), told.Total)
		require.Equal(t, before.line[a.Visitor].Ticket, told.Ticket)
	}
	require.NoError(t, quiet.Kill())
	require.Equal(t, before.waiting(), offline(t, data, "main").waiting(), "a start and a kill -9 change nobody's place")

	operate(t, data, func(e *catalog.Editor) error {
		_, err := e.Resume(t.Context(), "test", "main", nil, catalog.AnyVersion)
		return err
	})
	require.NoError(t, room.Start(t.Context()))
	crowd.held(t, 60*time.Second)
	room.stop(t)
	after := offline(t, data, "main")
	acks, _ = crowd.promised()
	after.accounts(t, acks, crowd.entries(t, keysOf(t, data), "main"))
	require.LessOrEqual(t, after.fastest(), 110, "people in one second, by the log")
	require.GreaterOrEqual(t, len(after.claims), 4, "each start claims")
}
