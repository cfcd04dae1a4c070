package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/services/e2e/realservers"
	"github.com/soonbeon/soonbeon/services/load"
)

// Several of each service at once, and the command that a user would run.
func TestRealServicesAsProcesses(t *testing.T) {
	d := deploy(t, realservers.Kafka(t, 1), realservers.Redis(t), 400, 2)
	s, r := loadCommand(t, "--queue", string(d.id), "--visitors=3000", "--keys", d.keys, "--refresh=0.03", "--expect-rate=400",
		"--target", d.position[0].public, "--enter", strings.Join(addresses(d.enter), ","), "--position", strings.Join(addresses(d.position), ","))
	require.Zero(t, r.code, "%+v", r)
	require.True(t, s.OK && s.Verified && s.Order.Kept, "%+v", s)
	require.Equal(t, 3000, s.Admitted)
	require.Empty(t, s.Broken)
	for _, nodes := range [][]*soonbeon{d.enter, d.position} {
		for _, node := range nodes {
			require.NotZero(t, node.metric("soonbeon_http_requests_total"), "%s was passed over", node.Name())
		}
	}
	b := agree(t, d.kafka.Addrs(), d.view, d.id)
	require.Zero(t, len(b.line), "people who still wait")
	require.GreaterOrEqual(t, len(b.admitted), 3000) // who refreshes while being admitted is admitted again
	require.LessOrEqual(t, b.fastest(), 440)

	// Stopped one after another, each well and in time; the one who leads hands over at once.
	leader := d.leader(t)
	began := time.Now()
	leader.stop(t)
	d.leader(t)
	claims := readBook(t, d.kafka.Addrs(), d.id).claims
	handed := time.UnixMilli(claims[len(claims)-1].AtMs).Sub(began)
	t.Logf("from the leader's SIGTERM to another's claim: %v", handed)
	require.Less(t, handed, 3*time.Second, "a session would last 4 s: the leader has not left by itself")
	require.Positive(t, handed)
	for _, nodes := range [][]*soonbeon{d.enter, d.projector, d.issuer, d.position} {
		for _, node := range nodes {
			if node.Alive() {
				node.stop(t)
			}
		}
	}
}

// takeover is how soon a dead leader is replaced, as promised; slack is for a machine that is busy with other things.
const takeover, slack = 6 * time.Second, 3 * time.Second

// kill -9 of each process in turn, under a crowd that never stops coming.
func TestRealFault08_EachProcessKilledInTurn(t *testing.T) {
	d := deploy(t, realservers.Kafka(t, 1), realservers.Redis(t), 120, 2)
	c := send(t, d.crowd(7000, 140)) // for 50 s, which is what twelve waits take on a slow day
	// on waits until the system has moved on from where it is now.
	on := func(what string) {
		t.Helper()
		began, entered, served := time.Now(), c.accepted(), d.served()
		until(t, 40*time.Second, what, func() bool { return c.accepted() >= entered+80 && d.served() >= served+80 })
		t.Logf("%v until %s", time.Since(began).Round(10*time.Millisecond), what)
	}
	on("the crowd is in full swing")
	d.leader(t)
	kills := map[string]time.Time{}
	for _, turn := range []struct {
		what   string
		choose func() *soonbeon
	}{
		{"enter", func() *soonbeon { return d.enter[0] }},
		{"the projector", func() *soonbeon { return d.applier(t) }},
		{"the leading issuer", func() *soonbeon { return d.leader(t) }},
		{"position", func() *soonbeon { return d.position[0] }},
		{"the other projector", func() *soonbeon { return d.applier(t) }},
		{"the other leading issuer", func() *soonbeon { return d.leader(t) }},
	} {
		victim := turn.choose()
		require.NoError(t, victim.Kill())
		kills[turn.what] = time.Now()
		on("all goes on without " + turn.what)
		require.NoError(t, victim.Restart(t.Context()))
		on("all goes on with " + turn.what + " started again")
		require.True(t, c.underWay(), "the crowd is too small for this machine")
	}
	c.held(t, 2*time.Minute)
	b := d.judged(t, c)
	require.Zero(t, len(b.line), "people who still wait")
	for what, at := range kills {
		pause := b.pausedAt(at)
		t.Logf("kill -9 of %s: nobody was admitted for %v", what, pause)
		if strings.Contains(what, "issuer") {
			require.Less(t, pause, takeover+slack)
		}
	}
}

// The killed issuer's batch that is in Redis and in no log, and Redis in trouble of its own at the same time, are the
// property tests' business (pkg/redisline); here the whole is put together.
func TestRealFault10_RedisWipedAndOlder(t *testing.T) {
	redis := realservers.Redis(t)
	realservers.NeedOurs(t, redis)
	d := deploy(t, realservers.Kafka(t, 1), redis, 100, 1)
	const visitors = 2400
	cfg := d.crowd(visitors, 180)
	cfg.Refresh = 0 // so that there is a moment when everybody has entered
	c := send(t, cfg)
	until(t, 30*time.Second, "the crowd is in full swing", func() bool { return c.accepted() >= 300 && c.admitted() >= 100 })

	// goesOn waits until people are admitted again, and tells after how long.
	goesOn := func(after string) {
		t.Helper()
		began, served := time.Now(), d.served()
		until(t, 30*time.Second, "people are admitted after "+after, func() bool { return d.served() >= served+60 })
		t.Logf("60 tickets on %v after %s", time.Since(began).Round(100*time.Millisecond), after)
	}
	d.flush(t)
	goesOn("a wipe while people enter")

	d.save(t) // an older moment, which comes back later
	entered := c.accepted()
	until(t, 30*time.Second, "many enter after the dump", func() bool { return c.accepted() >= entered+300 })
	require.NoError(t, d.redis.Restart(t.Context())) // kill -9, and a start on the older dataset
	goesOn("the start on an older dataset")

	// When nobody enters any more, nothing in the log tells that Redis was wiped.
	until(t, 60*time.Second, "all have entered", func() bool { return c.arrived() >= visitors })
	for range 2 { // the second time the leader goes on from the log already
		d.flush(t)
		goesOn("a wipe when nobody enters")
	}
	c.held(t, 2*time.Minute)
	d.judged(t, c)
}

// One broker of three dies: the one that leads the queue, and with it perhaps the one that keeps the groups.
func TestRealFault08_OneBrokerOfThreeKilled(t *testing.T) {
	kafka := realservers.Kafka(t, 3)
	realservers.NeedOurs(t, kafka.Brokers()...)
	d := deploy(t, kafka, realservers.Redis(t), 100, 1, "--production")
	c := send(t, d.crowd(1200, 140))
	until(t, 30*time.Second, "the crowd is in full swing", func() bool { return c.accepted() >= 200 && c.admitted() >= 100 })
	victim := leadingBroker(t, kafka, d.id)
	killed := time.Now()
	require.NoError(t, victim.Kill())
	entered, served := c.accepted(), d.served()
	until(t, 60*time.Second, "all goes on with two brokers", func() bool { return c.accepted() >= entered+200 && d.served() >= served+200 })
	require.NoError(t, victim.Restart(t.Context()))
	report := c.held(t, 2*time.Minute)
	b := d.judged(t, c)
	require.Zero(t, len(b.line), "people who still wait")
	paused, silent := b.pausedAt(killed), c.silentAfter(killed)
	t.Logf("kill -9 of %s: nobody was admitted for %v, nobody was acknowledged for %v at the longest; errors that the crowd met: %+v",
		victim.Name(), paused, silent.Round(time.Millisecond), report.Errors)
	// Its session ends after 4 s here, and another broker leads then.
	require.Less(t, max(paused, silent), 4*time.Second+10*time.Second)
}

// The parts that are swapped one by one.
func TestRealStandalone(t *testing.T) {
	t.Run("on Kafka", func(t *testing.T) {
		kafka := realservers.Kafka(t, 1)
		id, keys := newQueue(), strings.TrimSpace(run(t, nil, "keys").out)
		room := start(t, "standalone", "standalone", []string{"SOONBEON_KEYS=" + keys}, "--kafka", strings.Join(kafka.Addrs(), ","),
			"--kafka-replication=1", "--queues", string(id), "--rate=400")
		c := send(t, load.Config{Target: []string{room.public}, Queue: string(id), Visitors: 1000, Refresh: 0.05, Keys: keys, ExpectRate: 400})
		until(t, 30*time.Second, "some are admitted", func() bool { return c.admitted() >= 100 })
		require.NoError(t, room.Restart(t.Context()))
		c.held(t, time.Minute)
		b := readBook(t, kafka.Addrs(), id)
		judge(t, b, c, keys, id, 400)
		require.Zero(t, len(b.line), "people who still wait")
		room.stop(t)
	})
	t.Run("on Redis", func(t *testing.T) {
		redis := realservers.Redis(t)
		id, data := newQueue(), filepath.Join(t.TempDir(), "data")
		_, view := viewOf(t, redis, id)
		room := start(t, "standalone", "standalone", nil, "--redis", redis.Addr(), "--data", data, "--queues", string(id), "--rate=400")
		c := send(t, load.Config{Target: []string{room.public}, Queue: string(id), Visitors: 1000, Refresh: 0.05, Keys: keysOf(t, data), ExpectRate: 400})
		until(t, 30*time.Second, "some are admitted", func() bool { return c.admitted() >= 100 })
		require.NoError(t, room.Restart(t.Context()))
		c.held(t, time.Minute)
		room.stop(t)
		b := offline(t, data, id)
		judge(t, b, c, keysOf(t, data), id, 400)
		digest, err := view.Digest(t.Context())
		require.NoError(t, err)
		// The view may lack the last records, of the stop itself; whoever is started next applies them.
		seq, err := view.Seq(t.Context())
		require.NoError(t, err)
		require.Equal(t, b.state.Seq, seq)
		require.Equal(t, b.digest(), digest)
	})
}

// A Kafka that takes requests and never answers must keep no process from ending.
func TestRealFault28_TerminatedWithKafkaSilent(t *testing.T) {
	kafka := realservers.Kafka(t, 1)
	realservers.NeedOurs(t, kafka.Brokers()...)
	d := deploy(t, kafka, realservers.Redis(t), 100, 1)
	c := send(t, d.crowd(20_000, 200))
	until(t, 30*time.Second, "the crowd is in full swing", func() bool { return c.accepted() >= 200 && c.admitted() >= 100 })
	require.NoError(t, kafka.Brokers()[0].Stop())
	processes := []*soonbeon{d.enter[0], d.projector[0], d.issuer[0], d.position[0]}
	took := make([]string, len(processes))
	var all sync.WaitGroup
	for i, p := range processes {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 3*stopBound)
			defer cancel()
			began := time.Now()
			code, err := p.Terminate(ctx)
			assert.NoError(t, err)
			assert.Less(t, time.Since(began), stopBound+time.Second, "from SIGTERM to the end of %s", p.Name())
			took[i] = fmt.Sprintf("%s %v (exit code %d)", p.Name(), time.Since(began).Round(100*time.Millisecond), code)
		})
	}
	all.Wait()
	t.Logf("from SIGTERM to the end: %s", strings.Join(took, ", "))
	c.called(t)
	require.NoError(t, kafka.Brokers()[0].Cont())
	b := readBook(t, kafka.Addrs(), d.id)
	judge(t, b, c, d.keys, d.id, d.rate)
}
