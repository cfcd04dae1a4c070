package linelog_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// leads records what one member was told.
type leads struct {
	t       *testing.T
	mu      sync.Mutex
	inside  bool
	ours    map[queue.ID]bool
	changed chan struct{} // closed and made anew with each change
}

func newLeads(t *testing.T) *leads {
	return &leads{t: t, ours: make(map[queue.ID]bool), changed: make(chan struct{})}
}

func (l *leads) set(id queue.ID, ours bool) {
	l.mu.Lock()
	if l.inside {
		l.t.Error("two calls at once")
	}
	l.inside = true
	l.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inside = false
	if l.ours[id] == ours {
		l.t.Errorf("told twice that %s ours: %v", id, ours)
	}
	l.ours[id] = ours
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *leads) assigned(id queue.ID) { l.set(id, true) }
func (l *leads) lost(id queue.ID)     { l.set(id, false) }

func (l *leads) count() (n int, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ours := range l.ours {
		if ours {
			n++
		}
	}
	return n, l.changed
}

// await waits until the member has n queues and says how long it took.
func (l *leads) await(n int) time.Duration {
	l.t.Helper()
	start := time.Now()
	for ctx := soon(l.t); ; {
		have, changed := l.count()
		if have == n {
			return time.Since(start)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			l.t.Fatalf("has %d queues, waited in vain for %d", have, n)
		}
	}
}

func (l *leads) has() int {
	n, _ := l.count()
	return n
}

func (l *leads) names() (ids []queue.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, ours := range l.ours {
		if ours {
			ids = append(ids, id)
		}
	}
	return ids
}

// awaitSum waits until both members have n queues, and no other change comes for a moment.
func (l *leads) awaitSum(n int, o *leads) time.Duration {
	l.t.Helper()
	start := time.Now()
	quiet := start
	for ctx := soon(l.t); ; {
		mine, changed := l.count()
		theirs, also := o.count()
		wait := time.NewTimer(700 * time.Millisecond)
		select {
		case <-changed:
			quiet = time.Now()
		case <-also:
			quiet = time.Now()
		case <-wait.C:
			if mine+theirs == n {
				return quiet.Sub(start)
			}
		case <-ctx.Done():
			l.t.Fatalf("have %d and %d queues, waited in vain for %d", mine, theirs, n)
		}
		wait.Stop()
	}
}

func join(t *testing.T, log *linelog.Log, l *leads, queues ...queue.ID) *linelog.Membership {
	t.Helper()
	m, err := log.Join(context.WithoutCancel(t.Context()), linelog.GroupConfig{
		Group: "issuers", Queues: queues, Session: time.Second, Heartbeat: 50 * time.Millisecond,
	}, l.assigned, l.lost)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func someQueues(t *testing.T, log *linelog.Log, n int) (ids []queue.ID) {
	t.Helper()
	for i := range n {
		id := queue.ID(fmt.Sprint("q", i))
		ensure(t, log, id)
		ids = append(ids, id)
	}
	return ids
}

func TestMembersShareTheQueues(t *testing.T) {
	b := linelogtest.Start(t)
	one := b.Log(t)
	ids := someQueues(t, one, 4)
	a, c := newLeads(t), newLeads(t)
	first := join(t, one, a, ids...)
	a.await(4)
	second := join(t, b.Log(t), c, ids...)
	c.await(2)
	a.await(2)
	first.Close()
	if n, _ := a.count(); n != 0 {
		t.Errorf("closed, and still has %d queues", n)
	}
	took := c.await(4)
	t.Logf("handed over %v after a clean stop", took)
	if took > 900*time.Millisecond { // below the session: nobody waited for it to end
		t.Errorf("a clean stop handed over after %v", took)
	}
	second.Close()
	second.Close()
	if n, _ := c.count(); n != 0 {
		t.Errorf("closed, and still has %d queues", n)
	}
}

func TestCrashedMemberIsReplaced(t *testing.T) {
	b := linelogtest.Start(t)
	log, link := b.Link(t, nil, nil)
	ids := someQueues(t, log, 2)
	dead, heir := newLeads(t), newLeads(t)
	join(t, log, dead, ids...)
	dead.await(2)
	join(t, b.Log(t), heir, ids...)
	b.AwaitMembers("issuers", 2)
	heir.await(1)
	link.Away() // no goodbye
	took := heir.await(2)
	t.Logf("replaced %v after the crash, with a session of 1s", took)
	if took > 3*time.Second {
		t.Errorf("replaced after %v", took)
	}
	// The one that was cut off learns by itself that it leads nothing, and gets its share when it is back.
	dead.await(0)
	link.Back()
	dead.await(1)
	heir.await(1)
}

func TestMembershipOutlastsTheBrokersAbsence(t *testing.T) {
	b := linelogtest.Start(t)
	log, link := b.Link(t, nil, nil)
	ids := someQueues(t, log, 2)
	link.Away()
	l := newLeads(t)
	m := join(t, log, l, ids...)
	link.Back()
	l.await(2)
	link.Hang()
	start := time.Now()
	m.Close()
	took := time.Since(start)
	t.Logf("closed in %v while the brokers didn't answer", took)
	if took > 5*time.Second {
		t.Errorf("closing took %v while the brokers didn't answer", took)
	}
	link.Back()
	if n, _ := l.count(); n != 0 {
		t.Errorf("closed, and still has %d queues", n)
	}
}

func TestMembershipIsToldOfOtherQueues(t *testing.T) {
	b := linelogtest.Start(t)
	log := b.Log(t)
	a, c := newLeads(t), newLeads(t)
	first, second := join(t, log, a), join(t, b.Log(t), c) // of none
	ids := someQueues(t, log, 6)
	first.Set(ids)
	a.await(6)
	second.Set(ids)
	c.await(3)
	a.await(3)

	// Removed: lost at once, whoever had it, with its topic gone already.
	require.NoError(t, log.DeleteQueue(soon(t), ids[0]))
	first.Set(ids[1:])
	second.Set(ids[1:])
	t.Logf("shared anew after %v, %v", a.awaitSum(5, c), c.await(len(ids)-1-a.has()))
	require.NotContains(t, append(a.names(), c.names()...), ids[0])

	// Made anew under the same name, and back.
	ensure(t, log, ids[0])
	first.Set(ids)
	second.Set(ids)
	a.awaitSum(6, c)

	// Taken away and given back at once.
	first.Set(nil)
	a.await(0)
	first.Set(ids)
	a.awaitSum(6, c)

	second.Set(nil)
	c.await(0)
	a.await(6)
	first.Set(nil)
	a.await(0)
	first.Close()
	first.Set(ids)
	if n := a.has(); n != 0 {
		t.Errorf("closed, and has %d queues", n)
	}
}

// While the brokers don't answer, what is no longer wanted is lost all the same, long before the session ends.
func TestSetDoesNotWaitForBrokers(t *testing.T) {
	b := linelogtest.Start(t)
	log, link := b.Link(t, nil, nil)
	ids := someQueues(t, log, 4)
	l := newLeads(t)
	m, err := log.Join(context.WithoutCancel(t.Context()), linelog.GroupConfig{
		Group: "issuers", Queues: ids, Session: time.Minute, Heartbeat: 50 * time.Millisecond,
	}, l.assigned, l.lost)
	require.NoError(t, err)
	defer m.Close()
	l.await(4)
	link.Hang()
	m.Set(ids[:1])
	require.Less(t, l.await(1), 2*time.Second)
	link.Back()
	m.Set(ids)
	l.await(4)
}

// manyQueues: a thousand queues in one Set are assigned within seconds, and two members share them about evenly; a killed
// one's share goes to the other.
func manyQueues(t *testing.T, log, killed *linelog.Log, kill func(), group string, ids []queue.ID) {
	t.Helper()
	cfg := linelog.GroupConfig{Group: group}
	a, c := newLeads(t), newLeads(t)
	member := func(log *linelog.Log, l *leads) {
		m, err := log.Join(context.WithoutCancel(t.Context()), cfg, l.assigned, l.lost)
		require.NoError(t, err)
		t.Cleanup(m.Close)
		m.Set(ids)
	}
	member(log, a)
	took := a.await(len(ids))
	t.Logf("%d queues assigned in %v", len(ids), took)
	require.Less(t, took, 10*time.Second)
	member(killed, c)
	took = a.awaitSum(len(ids), c)
	for c.has() < len(ids)*2/5 {
		took += a.awaitSum(len(ids), c)
	}
	t.Logf("shared in %v: %d and %d", took, a.has(), c.has())
	require.InDelta(t, len(ids)/2, c.has(), float64(len(ids))/10)
	kill()
	took = a.await(len(ids))
	t.Logf("a killed one's share moved in %v", took)
	require.Less(t, took, 8*time.Second)
}

func TestManyQueuesAreShared(t *testing.T) {
	b := linelogtest.Start(t)
	log := b.Log(t)
	other, link := b.Link(t, nil, nil)
	manyQueues(t, log, other, link.Away, "issuers", someQueues(t, log, 1000))
}

func TestClosingBeforeJoining(t *testing.T) {
	log := linelogtest.Start(t).Log(t)
	l := newLeads(t)
	join(t, log, l, "nowhere").Close()
	ctx, cancel := context.WithCancel(t.Context())
	m, err := log.Join(ctx, linelog.GroupConfig{Group: "g", Queues: []queue.ID{"nowhere"}}, l.assigned, l.lost)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	m.Close()
	if _, err := log.Join(t.Context(), linelog.GroupConfig{Queues: []queue.ID{"A B"}, Session: time.Millisecond}, l.assigned, l.lost); err == nil {
		t.Error("a group without a name, with a bad queue and no session, was taken")
	}
}
