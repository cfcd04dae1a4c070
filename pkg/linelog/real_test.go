package linelog_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap/zaptest"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// realBrokers names a Kafka to test against, host:port with commas between; without it these tests are skipped. It needs
// nothing but to be empty enough: each test makes queues of its own and deletes them.
const realBrokers = "SOONBEON_TEST_BROKERS"

func realLog(t testing.TB) (*linelog.Log, *kadm.Client, queue.ID) {
	t.Helper()
	addrs := os.Getenv(realBrokers)
	if addrs == "" {
		t.Skipf("%s names no brokers", realBrokers)
	}
	brokers := strings.Split(addrs, ",")
	log, err := linelog.Open(linelog.Config{Brokers: brokers}, zaptest.NewLogger(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	admin := kadm.NewClient(client)
	id := queue.ID("t-" + strconv.FormatInt(time.Now().UnixNano(), 36))
	t.Cleanup(func() {
		_, _ = admin.DeleteTopic(context.WithoutCancel(t.Context()), linelog.TopicOf(id))
		client.Close()
		log.Close()
	})
	return log, admin, id
}

func TestRealAppendAndRead(t *testing.T) {
	log, _, id := realLog(t)
	topicID, created, err := log.EnsureQueue(soon(t), id)
	if err != nil || !created {
		t.Fatalf("made: %v, %v", created, err)
	}
	if again, created, err := log.EnsureQueue(soon(t), id); err != nil || created || again != topicID {
		t.Fatalf("again: id %s was %s, made %v, %v", again, topicID, created, err)
	}
	w := writer(t, log)
	fill(t, w, id, 20)
	first, next, err := log.Bounds(soon(t), id)
	if err != nil || first != 1 || next != 21 {
		t.Errorf("bounds %d, %d, %v", first, next, err)
	}
	for i, rec := range linelogtest.ReadAll(t, log, id, 0) {
		if rec.Ticket != queue.Ticket(i+1) || rec.Visitor != fmt.Sprint("v", i) || time.Since(time.UnixMilli(rec.AtMs)).Abs() > time.Minute {
			t.Errorf("number %d is %+v", i, rec)
		}
	}
	_, err = w.Append(soon(t), id+"-none", entered("v"))
	t.Logf("a queue that isn't there: %v", err)
	t.Logf("production: %v", log.CheckProduction(soon(t), id))
}

func TestRealTrouble(t *testing.T) {
	log, admin, id := realLog(t)
	topicID := ensure(t, log, id)
	fill(t, writer(t, log), id, 10)
	trouble := func(r *linelog.Reader, kind linelog.TroubleKind) {
		t.Helper()
		from := time.Now()
		recs, err := r.Next(soon(t))
		if e, ok := err.(*linelog.TroubleError); !ok || e.Kind != kind {
			t.Errorf("got %d records, %v; want %s", len(recs), err, kind)
		}
		t.Logf("%s told after %v", kind, time.Since(from))
		r.Close()
	}
	trouble(log.NewReader(id, 11, topicID), linelog.Short)
	reading := log.NewReader(id, 0, "")
	if _, err := reading.Next(soon(t)); err != nil {
		t.Fatal(err)
	}
	var offsets kadm.Offsets
	offsets.AddOffset(linelog.TopicOf(id), 0, 5, -1)
	if _, err := admin.DeleteRecords(soon(t), offsets); err != nil {
		t.Fatal(err)
	}
	trouble(log.NewReader(id, 4, topicID), linelog.Trimmed)
	if _, err := admin.DeleteTopic(soon(t), linelog.TopicOf(id)); err != nil {
		t.Fatal(err)
	}
	trouble(log.NewReader(id, 7, topicID), linelog.Gone)
	if _, _, err := log.EnsureQueue(soon(t), id); err != nil {
		t.Fatal(err)
	}
	trouble(reading, linelog.Recreated)
	trouble(log.NewReader(id, 7, topicID), linelog.Recreated)
}

func TestRealGroup(t *testing.T) {
	log, _, id := realLog(t)
	ensure(t, log, id)
	group := string(id)
	join := func(log *linelog.Log, l *leads) *linelog.Membership {
		m, err := log.Join(context.WithoutCancel(t.Context()), linelog.GroupConfig{Group: group, Queues: []queue.ID{id}}, l.assigned, l.lost)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		return m
	}
	a, b, c := newLeads(t), newLeads(t), newLeads(t)
	first := join(log, a)
	t.Logf("the first member: %v", a.await(1))
	crashing, link := linelogtest.Through(t, linelog.Config{Brokers: strings.Split(os.Getenv(realBrokers), ",")})
	join(crashing, b)
	<-time.After(3 * time.Second) // until the second member is in
	from := time.Now()
	first.Close()
	t.Logf("closing took %v", time.Since(from))
	t.Logf("after a clean stop: %v more", b.await(1))
	join(log, c)
	<-time.After(3 * time.Second)
	link.Away()
	t.Logf("after a crash: %v", c.await(1))
	t.Logf("the crashed one knows after %v more", b.await(0))
	if n, _ := a.count(); n != 0 {
		t.Error("the first member still leads")
	}
}

func TestRealCatalog(t *testing.T) {
	log, _, id := realLog(t)
	one, other := catalogWriter(t, log), catalogWriter(t, log)
	makeQueue(t, one, id)
	for _, w := range []*linelog.CatalogWriter{one, one, other, other, one} {
		from := time.Now()
		_, err := w.Edit(soon(t), id, func(now *queue.Entry) (*queue.Entry, *queue.Change, error) {
			now.Settings.MaxActive++
			return now, did("set"), nil
		})
		require.NoError(t, err)
		t.Logf("an edit: %v", time.Since(from))
	}
	_, last := catalog(t, log)
	require.Equal(t, int64(5), last[id].Entry.Settings.MaxActive)
	changes, err := log.Changes(soon(t), id, 100)
	require.NoError(t, err)
	require.Len(t, changes, 6)
	_, err = one.Edit(soon(t), id, func(*queue.Entry) (*queue.Entry, *queue.Change, error) { return nil, did("delete"), nil })
	require.NoError(t, err)
	_, last = catalog(t, log)
	require.Nil(t, last[id].Entry)
}

// BenchmarkAppend says what callers that append one record each, all at once, get. On real brokers where there are any.
func BenchmarkAppend(b *testing.B) {
	var log *linelog.Log
	id := main
	if os.Getenv(realBrokers) != "" {
		log, _, id = realLog(b)
	} else {
		log = linelogtest.Start(b).Log(b)
	}
	ensure(b, log, id)
	for _, callers := range []int{1, 16, 256} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			w := writer(b, log)
			b.ReportAllocs()
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			b.ResetTimer()
			for range callers {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if _, err := w.Append(context.WithoutCancel(b.Context()), id, entered("0123456789012345678901")); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
		})
	}
}

func TestRealHub(t *testing.T) {
	log, admin, id := realLog(t)
	var ids []queue.ID
	for i := range 100 {
		ids = append(ids, queue.ID(fmt.Sprint(id, "-", i)))
		ensure(t, log, ids[i])
	}
	t.Cleanup(func() {
		for _, id := range ids {
			_ = log.DeleteQueue(context.WithoutCancel(t.Context()), id)
		}
	})
	hub := log.NewHub()
	defer hub.Close()
	w := writer(t, log)
	var wg sync.WaitGroup
	hot := ids[7]
	for _, id := range ids {
		wg.Go(func() {
			r := hub.NewReader(id, 0, "")
			defer r.Close()
			last := queue.Ticket(5)
			if id == hot {
				last = 5000
			}
			if err := inOrder(soon(t), r, last); err != nil {
				t.Errorf("queue %s: %v", id, err)
			}
		})
		if id != hot {
			wg.Go(func() { fill(t, w, id, 5) })
		}
	}
	linelogtest.At(t, strings.Split(os.Getenv(realBrokers), ",")).AppendMany(hot, 5000, visitors)
	wg.Wait()

	r := hub.NewReader(ids[0], 5, "")
	defer r.Close()
	fill(t, w, ids[0], 1)
	require.NoError(t, inOrder(soon(t), r, 6))
	_, err := admin.DeleteTopic(soon(t), linelog.TopicOf(ids[0]))
	require.NoError(t, err)
	from := time.Now()
	_, err = r.Next(soon(t))
	var trouble *linelog.TroubleError
	require.ErrorAs(t, err, &trouble)
	require.Equal(t, linelog.Gone, trouble.Kind)
	t.Logf("told after %v", time.Since(from))
	ensure(t, log, ids[0])
	w.Forget(ids[0])
	fill(t, w, ids[0], 1)
	anew := hub.NewReader(ids[0], 0, "")
	defer anew.Close()
	require.NoError(t, inOrder(soon(t), anew, 1))
}

// The last: the brokers are busy for a while with deleting its thousand topics.
func TestRealManyQueuesAreShared(t *testing.T) {
	log, admin, id := realLog(t)
	other, link := linelogtest.Through(t, linelog.Config{Brokers: strings.Split(os.Getenv(realBrokers), ",")})
	var ids []queue.ID
	var topics []string
	for i := range 1000 {
		ids = append(ids, queue.ID(fmt.Sprint(id, "-", i)))
		topics = append(topics, linelog.TopicOf(ids[i]))
	}
	t.Cleanup(func() { _, _ = admin.DeleteTopics(context.WithoutCancel(t.Context()), topics...) })
	_, err := admin.CreateTopics(soon(t), 1, 1, nil, topics...)
	require.NoError(t, err)
	manyQueues(t, log, other, link.Away, string(id), ids)
}
