package linelog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// committed reads a topic of one partition that is written in transactions: only what was committed. It fetches by itself,
// because franz-go's consumer doesn't tell how far it is where the last records are aborted ones or the marks that end
// transactions, and so nobody could say that everything was read.
type committed struct {
	log    *Log
	client *kgo.Client
	topic  string
	id     kadm.TopicID // zero until known
	leader int32        // -1 while not known
	next   int64        // the offset to be read next; -1: from the first record on
	atEnd  bool         // nothing committed was left behind by the last fetch
	empty  int64        // the last stable offset of a fetch before it of which nothing was brought; -1: none
}

func (l *Log) newCommitted(client *kgo.Client, topic string) *committed {
	return &committed{log: l, client: client, topic: topic, leader: -1, next: -1, empty: -1}
}

// fetch returns the next records. It waits up to wait for some. Errors: *TroubleError, without Queue, of what it saw once;
// errNoTopic while the topic was never there; and whatever passes by itself.
func (c *committed) fetch(ctx context.Context, wait time.Duration) ([]*kgo.Record, error) {
	c.atEnd = false
	if c.leader < 0 {
		if err := c.lookUp(ctx); err != nil {
			return nil, err
		}
	}
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.SessionEpoch = -1, -1
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(wait.Milliseconds()), 1, 4<<20
	req.IsolationLevel = 1 // read_committed
	rt, rp := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	rt.Topic, rt.TopicID = c.topic, c.id
	rp.FetchOffset, rp.PartitionMaxBytes = c.next, 1<<20
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	kresp, err := c.client.Broker(int(c.leader)).RetriableRequest(ctx, req)
	if err != nil {
		c.leader = -1
		return nil, fmt.Errorf("fetch from topic %s: %w", c.topic, err)
	}
	resp, ok := kresp.(*kmsg.FetchResponse)
	if !ok {
		return nil, fmt.Errorf("fetch from topic %s: the broker answers something else", c.topic)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		c.leader = -1
		return nil, fmt.Errorf("fetch from topic %s: %w", c.topic, err)
	}
	if len(resp.Topics) == 0 || len(resp.Topics[0].Partitions) == 0 {
		return nil, nil // a broker that holds us back by a quota says nothing
	}
	part := &resp.Topics[0].Partitions[0]
	if errors.Is(kerr.ErrorForCode(part.ErrorCode), kerr.OffsetOutOfRange) {
		return nil, c.outOfRange(ctx)
	}
	fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: c.next, IsolationLevel: kgo.ReadCommitted(), Topic: c.topic,
	}, part, kgo.DefaultDecompressor(), nil)
	if fp.Err != nil && len(fp.Records) == 0 {
		c.leader = -1 // moved, deleted, made anew: the next look tells
		return nil, fmt.Errorf("fetch from topic %s: %w", c.topic, fp.Err)
	}
	if len(part.RecordBatches) == 0 && part.LastStableOffset > next {
		// Nothing is there up to the last stable offset: what stood there was compacted away. Or the broker looked for records just
		// before a transaction was committed, and at the last stable offset just after: so only the second look counts.
		if c.empty != part.LastStableOffset {
			c.empty = part.LastStableOffset
			return nil, nil
		}
		next = part.LastStableOffset
	}
	c.empty = -1
	c.next = next
	c.atEnd = next >= part.LastStableOffset
	return fp.Records, nil
}

// lookUp finds the leader, and where to begin.
func (c *committed) lookUp(ctx context.Context) error {
	d, err := c.log.detailOf(ctx, c.client, c.topic)
	known := c.id != kadm.TopicID{}
	switch {
	case errors.Is(err, errNoTopic) && known:
		return &TroubleError{Kind: Gone, After: ticketOf(c.next - 1)}
	case err != nil:
		return fmt.Errorf("look up topic %s: %w", c.topic, err)
	case known && d.id != c.id:
		return &TroubleError{Kind: Recreated, After: ticketOf(c.next - 1), TopicID: formatID(d.id), Wanted: formatID(c.id)}
	case len(d.partitions) != 1:
		return fmt.Errorf("topic %s has %d partitions, wanted 1", c.topic, len(d.partitions))
	}
	if err := kerr.ErrorForCode(d.partitions[0].ErrorCode); err != nil {
		return fmt.Errorf("look up topic %s: %w", c.topic, err)
	}
	if c.next < 0 {
		first, err := offsetOf(ctx, c.topic, c.log.admin.ListStartOffsets)
		if err != nil {
			return fmt.Errorf("look for the start of topic %s: %w", c.topic, err)
		}
		c.next = first
	}
	c.id, c.leader = d.id, d.partitions[0].Leader
	return nil
}

// outOfRange says why an offset cannot be read.
func (c *committed) outOfRange(ctx context.Context) error {
	c.leader = -1
	first, err := offsetOf(ctx, c.topic, c.log.admin.ListStartOffsets)
	if err != nil {
		return fmt.Errorf("look for the start of topic %s: %w", c.topic, err)
	}
	end, err := offsetOf(ctx, c.topic, c.log.admin.ListEndOffsets)
	if err != nil {
		return fmt.Errorf("look for the end of topic %s: %w", c.topic, err)
	}
	if t := misfit("", ticketOf(c.next-1), ticketOf(first), ticketOf(end)); t != nil {
		return t
	}
	return fmt.Errorf("fetch from topic %s: %w", c.topic, kerr.OffsetOutOfRange)
}

// offsetOf asks for one offset of a topic's only partition.
func offsetOf(ctx context.Context, topic string, list func(context.Context, ...string) (kadm.ListedOffsets, error)) (int64, error) {
	listed, err := list(ctx, topic)
	if err != nil {
		return 0, err
	}
	return offsetIn(listed, topic)
}

func offsetIn(listed kadm.ListedOffsets, topic string) (int64, error) {
	o, ok := listed.Lookup(topic, 0)
	switch {
	case !ok, errors.Is(o.Err, kerr.UnknownTopicOrPartition):
		return 0, errNoTopic
	case o.Err != nil:
		return 0, o.Err
	}
	return o.Offset, nil
}
