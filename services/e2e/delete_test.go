package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/gate"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/e2e/realservers"
)

// passRate is that of the queue that goes on while another one is deleted.
const passRate = 175

// Deleting a queue in which very many wait disturbs nobody in another one, and leaves nothing of it.
func TestDeletingALongLineDisturbsNobody(t *testing.T) {
	t.Parallel()
	v, room := embeddedVenue(t)
	token := firstOfBig(t, v)
	room.stop(t)
	addrs, done := v.brokers()
	pourInto(t, v, addrs, 100_000)
	done()
	require.NoError(t, room.Start(t.Context()))
	require.NoError(t, room.WaitReady(t.Context()))
	room.leads(t)
	deletesBig(t, v, token, 100_000, func(queue.ID) {}, func() { room.stop(t) })
}

// The same with a million, on real servers.
func TestRealDeletingALongLineDisturbsNobody(t *testing.T) {
	const people = 1_000_000
	redis := realservers.Redis(t)
	d := deploy(t, realservers.Kafka(t, 1), redis, 1, 1, credentials...)
	v := venueOf(d)
	token := firstOfBig(t, v)
	pourInto(t, v, d.kafka.Addrs(), people)
	rdb, view := viewOf(t, redis, v.id("big"))
	until(t, 2*time.Minute, "Redis has the line", func() bool { seq, _ := view.Seq(t.Context()); return seq >= people })
	deletesBig(t, v, token, people, func(id queue.ID) {
		log, err := linelog.Open(linelog.Config{Brokers: d.kafka.Addrs()}, zap.NewNop(), nil)
		require.NoError(t, err)
		defer log.Close()
		_, err = log.Topic(t.Context(), id)
		require.ErrorIs(t, err, linelog.ErrNoQueue)
		left, err := rdb.Keys(t.Context(), "soonbeon:{"+string(id)+"}*").Result()
		require.NoError(t, err)
		for _, key := range left {
			ttl, err := rdb.TTL(t.Context(), key).Result()
			require.NoError(t, err)
			require.Contains(t, key, ":grant:", "what is left in Redis")
			require.Positive(t, ttl, "%s ends by itself", key)
		}
		t.Logf("%d grants are left in Redis until they end", len(left))
	}, func() {})
}

// firstOfBig makes the queues, and is the entry token of the only person who is in the big one so far.
func firstOfBig(t *testing.T, v *venue) (token string) {
	t.Helper()
	v.create(t, v.id("big"), "--rate=20")
	v.create(t, v.id("small"), fmt.Sprintf("--rate=%d", passRate))
	one := v.enters(t, v.id("big"))
	require.Equal(t, http.StatusAccepted, one.status, one.body)
	until(t, 20*time.Second, "the first one is let in", func() bool { token = v.place(t, v.id("big"), one.Receipt).Token; return token != "" })
	return token
}

// asksTheRoom says whether a gate that asks the waiting room about the queue lets somebody in by a token.
func asksTheRoom(t *testing.T, v *venue, id queue.ID, token string) (bool, error) {
	t.Helper()
	room, err := gate.NewRoom(v.position[0], id, nil)
	require.NoError(t, err)
	require.NoError(t, room.Ask(t.Context()))
	require.Positive(t, room.Made())
	keys, err := pass.ParseKeys(v.keys)
	require.NoError(t, err)
	g, err := gate.New(gate.Config{Queue: id, Keys: keys, WaitingRoom: "https://wait.example", Made: room.Made})
	require.NoError(t, err)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set(gate.TokenHeader, token)
	_, err = g.Check(r)
	return err == nil, err
}

func pourInto(t *testing.T, v *venue, brokers []string, people int) {
	t.Helper()
	broker := linelogtest.At(t, brokers)
	entry := func(i int) queue.Record { return queue.Record{Kind: queue.Entered, Visitor: fmt.Sprintf("v%021d", i)} }
	broker.AppendMany(v.id("big"), people, entry)
	broker.AppendMany(v.id("small"), 120*passRate, entry)
}

func deletesBig(t *testing.T, v *venue, token string, people int64, gone func(queue.ID), close func()) {
	t.Helper()
	big, small := v.id("big"), v.id("small")
	last := v.enters(t, big)
	require.Equal(t, http.StatusAccepted, last.status, last.body)
	calm := v.enters(t, small)
	var at told
	until(t, 30*time.Second, "the last of the long line has an exact place", func() bool { at = v.place(t, big, last.Receipt); return at.Precision == "exact" })
	require.Greater(t, *at.Position, people*9/10, at.body)
	ahead := func() int64 { return v.place(t, small, calm.Receipt).Ahead }
	before := ahead()
	until(t, 30*time.Second, "the other one moves", func() bool { return ahead() < before-2*passRate })

	opens, why := asksTheRoom(t, v, big, token)
	require.True(t, opens, why)
	from := time.Now()
	_, deleted := v.queue(t, "delete", string(big), "--yes")
	for what, tries := range map[string]func() reply{
		"entering":            func() reply { return v.enters(t, big) },
		"entering again":      func() reply { return v.enters(t, big, "Authorization: Bearer "+last.Receipt) },
		"entering by a token": func() reply { return v.enters(t, big, "Authorization: Bearer "+token) },
		"asking":              func() reply { return v.place(t, big, last.Receipt).reply },
		"asking for the draw": func() reply { return v.lots(t, big).reply },
		"completing":          func() reply { return v.complete(t, big, token) },
		"leaving": func() reply {
			return ask(t, http.MethodPost, v.enter[0]+"/queue/leave", `{"queue":"`+string(big)+`"}`, asJSON, "Authorization: Bearer "+last.Receipt)
		},
	} {
		r := tries()
		require.Equal(t, http.StatusNotFound, r.status, "%s: %s", what, r.body)
		require.Equal(t, "queue_unknown", r.Code, "%s: %s", what, r.body)
	}
	again := v.tries(t, "delete", string(big), "--yes")
	require.Equal(t, 1, again.code, "%+v", again)
	require.Contains(t, again.errOut, "no queue "+string(big))
	gone(big)
	until(t, 10*time.Second, "three seconds more", func() bool { return time.Since(deleted) > 3*time.Second })
	to := time.Now()

	// A later queue of the name has nothing to do with it.
	v.create(t, big, "--rate=0.001")
	for what, r := range map[string]reply{
		"entering again":      v.enters(t, big, "Authorization: Bearer "+last.Receipt),
		"entering by a token": v.enters(t, big, "Authorization: Bearer "+token),
		"asking":              v.place(t, big, last.Receipt).reply,
	} {
		require.Equal(t, http.StatusUnauthorized, r.status, "%s: %s", what, r.body)
		require.Equal(t, "credential_invalid", r.Code, "%s: %s", what, r.body)
	}
	opens, why = asksTheRoom(t, v, big, token)
	require.False(t, opens, "an admission of the earlier queue is none of this one")
	require.ErrorIs(t, why, gate.ErrEarlier)
	r := v.complete(t, big, token)
	require.Equal(t, http.StatusNotFound, r.status, r.body)
	require.Equal(t, "token_unknown", r.Code, r.body)
	someone, other := v.enters(t, big), v.enters(t, big)
	require.Equal(t, http.StatusAccepted, someone.status, someone.body)
	until(t, 20*time.Second, "the second of the new line has an exact place", func() bool { at = v.place(t, big, other.Receipt); return at.Precision == "exact" })
	require.LessOrEqual(t, *at.Position, int64(2), at.body)
	require.LessOrEqual(t, *at.Total, int64(2), at.body)
	require.NotZero(t, ahead(), "the other queue is to have people all the time; make the test's line longer")
	changes, _ := v.queue(t, "changes", string(big), "--json")
	require.Equal(t, []string{"create by noor", "gone by noor", "delete by noor", "create by noor"}, deeds(t, changes))

	close()
	b := folded(t, v.records(t, small))
	pause, rate := silence(b, from, to), float64(window(b, from, to))/to.Sub(from).Seconds()
	t.Logf("deleting a line of %d took %v; in the other queue nobody was let in for %v at the longest, and %.1f a second were", people, deleted.Sub(from).Round(time.Millisecond), pause, rate)
	require.Less(t, pause, time.Second)
	require.Greater(t, rate, 0.95*passRate)
	require.LessOrEqual(t, b.Fastest(), passRate+(passRate+9)/10)
	for _, rec := range v.records(t, big) {
		require.False(t, strings.HasPrefix(rec.Visitor, "v000"), "ticket %d is of the line that was deleted", rec.Ticket)
	}
	v.audited(t, big)
	v.audited(t, small)
}
