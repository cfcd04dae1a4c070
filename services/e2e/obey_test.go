package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Each service in a process of its own does what an operator says within two seconds of the answer, and nothing is started anew.
// The operator's word goes to another process than the one that has to obey.
func TestSettingsAreObeyedWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	kafka := linelogtest.Start(t)
	keys := strings.TrimSpace(run(t, nil, "keys").out)
	args := append([]string{"--kafka", kafka.Addrs()[0], "--kafka-replication=1"}, credentials...)
	env := []string{"SOONBEON_KEYS=" + keys}
	issuer := start(t, "issuer", "issuer", env, args...)
	enter := start(t, "enter", "enter", env, args...)
	position := start(t, "position", "position", env, args...)
	v := &venue{enter: []string{enter.public}, position: []string{position.public}, admin: strings.TrimPrefix(enter.private, "http://"), keys: keys,
		brokers: func() ([]string, func()) { return kafka.Addrs(), func() {} }}
	const id = queue.ID("gates")
	v.create(t, id, "--rate=10")
	until(t, 20*time.Second, "an issuer leads", func() bool { return metricOf("soonbeon_issuer_leading", id, issuer) == 1 })
	kafka.AppendMany(id, 5000, func(i int) queue.Record { return queue.Record{Kind: queue.Entered, Visitor: queue.NewVisitor()} })
	last := v.enters(t, id)
	require.Equal(t, http.StatusAccepted, last.status, last.body)
	look := func() told { return v.place(t, id, last.Receipt) }
	admitted := func() float64 { return metricOf("soonbeon_issuer_admitted_total", id, issuer) }
	passed := func(what string, n float64) { // so many more are let in
		t.Helper()
		before := admitted()
		until(t, 30*time.Second, what, func() bool { return admitted() >= before+n })
	}
	passed("people are let in", 10)

	_, faster := v.queue(t, "set", string(id), "--rate=100")
	until(t, 10*time.Second, "two seconds and one more", func() bool { return time.Since(faster) > obeyed+1500*time.Millisecond })
	_, slower := v.queue(t, "set", string(id), "--rate=10", "--message=Please be patient.")
	var seen told
	until(t, obeyed, "the message shows", func() bool { seen = look(); return seen.Message == "Please be patient." })
	require.NotNil(t, seen.ETA, seen.body)
	until(t, 10*time.Second, "two seconds and one more", func() bool { return time.Since(slower) > obeyed+1500*time.Millisecond })

	_, paused := v.queue(t, "pause", string(id))
	until(t, obeyed, "the pause shows", func() bool { seen = look(); return seen.Paused })
	require.Nil(t, seen.ETA, seen.body)
	until(t, 10*time.Second, "two seconds and one more", func() bool { return time.Since(paused) > obeyed+1500*time.Millisecond })
	held := time.Now()
	_, resumed := v.queue(t, "resume", string(id))
	before := admitted()
	until(t, obeyed, "people are let in again", func() bool { return admitted() > before })
	until(t, obeyed, "the pause does not show", func() bool { return !look().Paused })

	v.queue(t, "close", string(id), "--reason=full_house")
	until(t, obeyed, "entries are refused", func() bool { return v.enters(t, id).status == http.StatusGone })
	passed("who waits is let through", 10)
	_, ended := v.queue(t, "close", string(id), "--reason=sold_out", "--ending")
	until(t, obeyed, "who waits is told that it is over", func() bool { seen = look(); return seen.State == "over" })
	require.Equal(t, "sold_out", seen.Reason, seen.body)
	v.queue(t, "resume", string(id))
	until(t, obeyed, "entries are taken again", func() bool { return v.enters(t, id).status == http.StatusAccepted })

	recs := v.records(t, id)
	b := folded(t, recs)
	require.GreaterOrEqual(t, window(b, faster.Add(obeyed), faster.Add(obeyed+time.Second)), 85, "people in a second at 100 a second")
	require.LessOrEqual(t, window(b, slower.Add(obeyed), slower.Add(obeyed+time.Second)), 11, "people in a second at 10 a second")
	require.Zero(t, window(b, paused.Add(obeyed), held), "people while it was paused")
	require.NotZero(t, window(b, resumed, resumed.Add(obeyed)))
	require.NotZero(t, b.State.End.At)
	for _, rec := range recs {
		if rec.Kind == queue.Ended {
			require.Less(t, time.UnixMilli(rec.AtMs).Sub(ended), obeyed)
		}
	}
	require.Len(t, b.Claims, 1, "nobody was started anew")
}
