package linelogtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// patience bounds what the broker does for a test.
const patience = 10 * time.Second

// Broker is a broker in memory.
type Broker struct {
	t       testing.TB
	cluster *kfake.Cluster
	raw     *kgo.Client
	addrs   []string

	mu    sync.Mutex
	links []*Link
}

// Start runs a broker until the test ends. Sessions of groups may be as short as 300 ms.
func Start(t testing.TB) *Broker {
	t.Helper()
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.DefaultNumPartitions(1),
		kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "300"}),
	)
	if err != nil {
		t.Fatalf("start a broker: %v", err)
	}
	b := &Broker{t: t, cluster: cluster, addrs: cluster.ListenAddrs()}
	t.Cleanup(cluster.Close)
	b.raw, err = kgo.NewClient(kgo.SeedBrokers(b.addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableClientMetrics(), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatalf("connect to the broker: %v", err)
	}
	t.Cleanup(b.raw.Close)
	return b
}

// At is brokers that run elsewhere, real ones for instance: AppendBytes and AppendMany work on them, and no switch does.
func At(t testing.TB, addrs []string) *Broker {
	t.Helper()
	b := &Broker{t: t, addrs: addrs}
	var err error
	b.raw, err = kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableClientMetrics(), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatalf("connect to the brokers: %v", err)
	}
	t.Cleanup(b.raw.Close)
	return b
}

// Addrs returns the broker's host:port, past every switch.
func (b *Broker) Addrs() []string { return b.addrs }

// Config is a linelog.Config for this broker.
func (b *Broker) Config() linelog.Config { return linelog.Config{Brokers: b.addrs} }

// Log opens a Log that the switches of Broker rule. change may alter its Config. It is closed when the test ends.
func (b *Broker) Log(t testing.TB, change ...func(*linelog.Config)) *linelog.Log {
	t.Helper()
	log, _ := b.Link(t, nil, nil, change...)
	return log
}

// Link opens a Log like Broker.Log, with a logger and a registerer (both may be nil), and returns the switches of its own
// network too.
func (b *Broker) Link(t testing.TB, logger *zap.Logger, reg prometheus.Registerer, change ...func(*linelog.Config)) (*linelog.Log, *Link) {
	t.Helper()
	cfg := b.Config()
	for _, c := range change {
		c(&cfg)
	}
	link := newLink()
	log, err := linelog.Open(cfg, logger, reg, linelog.WithDialer(link.dial))
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	t.Cleanup(log.Close)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.links = append(b.links, link)
	return log, link
}

// Through opens a Log to brokers that run elsewhere, real ones for instance, with the switches of its network. It is
// closed when the test ends.
func Through(t testing.TB, cfg linelog.Config) (*linelog.Log, *Link) {
	t.Helper()
	link := newLink()
	log, err := linelog.Open(cfg, nil, nil, linelog.WithDialer(link.dial))
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	t.Cleanup(log.Close)
	return log, link
}

func (b *Broker) all(do func(*Link)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.links {
		do(l)
	}
}

// Away is Link.Away for every Log.
func (b *Broker) Away() { b.all((*Link).Away) }

// Hang is Link.Hang for every Log.
func (b *Broker) Hang() { b.all((*Link).Hang) }

// Back is Link.Back for every Log.
func (b *Broker) Back() { b.all((*Link).Back) }

// LoseProduceReplies makes the next n produces be written and answered with a time-out, so that the client cannot know.
func (b *Broker) LoseProduceReplies(n int) {
	b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.RequestTimedOut, Count: n})
}

// RefuseProduces makes the next n produces fail, unwritten, with an error that franz-go does not retry.
func (b *Broker) RefuseProduces(n int) {
	b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.UnknownServerError, Count: n})
}

// Produces counts the produce requests that arrive from now on.
func (b *Broker) Produces() (count func() int) {
	h := b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Observe: true, Count: -1})
	return h.Hits
}

// Delete deletes the queue's topic.
func (b *Broker) Delete(id queue.ID) {
	b.t.Helper()
	b.DeleteTopic(linelog.TopicOf(id))
}

// DeleteTopic deletes any topic.
func (b *Broker) DeleteTopic(topic string) {
	b.t.Helper()
	b.must("delete the topic", b.cluster.DeleteTopic(topic))
}

// CreateTopic makes any topic.
func (b *Broker) CreateTopic(topic string, partitions int32, configs map[string]string) {
	b.t.Helper()
	b.must("make the topic", b.cluster.CreateTopic(topic, partitions, configs))
}

// Recreate deletes the queue's topic and makes it anew, empty.
func (b *Broker) Recreate(id queue.ID) {
	b.t.Helper()
	b.Delete(id)
	b.Create(id, 1, map[string]string{"message.timestamp.type": "LogAppendTime"})
}

// Create makes the queue's topic as the test wants it.
func (b *Broker) Create(id queue.ID, partitions int32, configs map[string]string) {
	b.t.Helper()
	b.CreateTopic(linelog.TopicOf(id), partitions, configs)
}

// AppendMany appends n records without waiting for each.
func (b *Broker) AppendMany(id queue.ID, n int, rec func(i int) queue.Record) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for from := 0; from < n; from += 1000 {
		recs := make([]*kgo.Record, 0, 1000)
		for i := from; i < min(n, from+1000); i++ {
			value, err := linelog.Encode(rec(i))
			b.must("encode", err)
			recs = append(recs, &kgo.Record{Topic: linelog.TopicOf(id), Value: value})
		}
		b.must("append many", b.raw.ProduceSync(ctx, recs...).FirstErr())
	}
}

// AwaitNext waits until the ticket to be written next is next, as the broker sees it, past every switch.
func (b *Broker) AwaitNext(id queue.ID, next queue.Ticket) {
	b.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		info := b.cluster.PartitionInfo(linelog.TopicOf(id), 0)
		if info != nil && queue.Ticket(info.HighWatermark)+1 >= next {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("linelogtest: waited in vain for ticket %d of queue %s to be next", next, id)
		}
	}
}

// Trim removes the records before ticket first.
func (b *Broker) Trim(id queue.ID, first queue.Ticket) {
	b.t.Helper()
	b.must("trim the topic", b.cluster.DeleteRecords(linelog.TopicOf(id), 0, int64(first)-1))
}

// AppendBytes appends what no Writer would, and returns its ticket.
func (b *Broker) AppendBytes(id queue.ID, value []byte) queue.Ticket {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rec := &kgo.Record{Topic: linelog.TopicOf(id), Value: value}
	b.must("append bytes", b.raw.ProduceSync(ctx, rec).FirstErr())
	return queue.Ticket(rec.Offset) + 1
}

// AppendCatalog appends what no CatalogWriter would to the catalogue, nil for a removal, and returns its version.
func (b *Broker) AppendCatalog(key string, value []byte) int64 {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rec := &kgo.Record{Topic: "soonbeon.catalog", Key: []byte(key), Value: value}
	b.must("append to the catalogue", b.raw.ProduceSync(ctx, rec).FirstErr())
	return rec.Offset + 1
}

// CatalogBytes returns the record of the catalogue with a version, as it is stored.
func (b *Broker) CatalogBytes(version int64) []byte {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.addrs...), kgo.DisableClientMetrics(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"soonbeon.catalog": {0: kgo.NewOffset().At(version - 1)}}))
	b.must("connect to the broker", err)
	defer client.Close()
	fetches := client.PollRecords(ctx, 1)
	b.must("read the catalogue", fetches.Err())
	return fetches.Records()[0].Value
}

// AtCommit calls do when the next commit of a transaction has arrived and before it is dealt with. do must not wait.
func (b *Broker) AtCommit(do func()) {
	once := sync.OnceFunc(do) // a control that answers nothing itself stays for the next request
	b.cluster.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
		once()
		return nil, nil, false
	})
}

// RefuseCommits makes the next n commits fail, with an error that says nothing.
func (b *Broker) RefuseCommits(n int) {
	b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.UnknownServerError, Count: n})
}

// AwaitMembers waits until the group is stable with n members.
func (b *Broker) AwaitMembers(group string, n int) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := b.cluster.WaitGroupStable(ctx, group, n)
	b.must("wait for the group", err)
}

func (b *Broker) must(what string, err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("linelogtest: %s: %v", what, err)
	}
}

// ReadAll reads the queue's log from ticket after to its present end.
func ReadAll(t testing.TB, log *linelog.Log, id queue.ID, after queue.Ticket) []queue.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, next, err := log.Bounds(ctx, id)
	if err != nil {
		t.Fatalf("linelogtest: %v", err)
	}
	r := log.NewReader(id, after, "")
	defer r.Close()
	var out []queue.Record
	for r.After()+1 < next {
		recs, err := r.Next(ctx)
		if err != nil {
			t.Fatalf("linelogtest: %v", err)
		}
		out = append(out, recs...)
	}
	return out
}
