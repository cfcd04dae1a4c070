package linelog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

const (
	// fetchWait is how long a broker holds a fetch that has nothing to give. Long is cheap; it delays nothing.
	fetchWait = 2 * time.Second
	// Of a reader in no hurry: a fetch waits for so much, or so long.
	unhurriedBytes = 256 << 10
	unhurriedWait  = 500 * time.Millisecond
)

// own is a reader's own connection.
type own struct {
	client  *kgo.Client
	release func() // called once, when it is closed
}

func (l *Log) newOwn(id queue.ID, after queue.Ticket, unhurried bool, release func()) (*own, error) {
	wait, least := fetchWait, int32(1)
	if unhurried {
		wait, least = unhurriedWait, unhurriedBytes
	}
	client, err := l.newClient(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{TopicOf(id): {0: kgo.NewOffset().At(int64(after))}}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.KeepRetryableFetchErrors(),
		kgo.FetchMaxWait(wait),
		kgo.FetchMinBytes(least),
		kgo.FetchMaxBytes(16<<20),
		kgo.FetchMaxPartitionBytes(4<<20),
	)
	if err != nil {
		release()
		return nil, fmt.Errorf("make a reader: %w", err)
	}
	return &own{client: client, release: sync.OnceFunc(release)}, nil
}

func (o *own) poll(ctx context.Context) ([]*kgo.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, idleCheck)
	defer cancel()
	fetches := o.client.PollRecords(ctx, queue.MaxBatch)
	var err error
	fetches.EachError(func(_ string, _ int32, e error) {
		if !errors.Is(e, context.DeadlineExceeded) && !errors.Is(e, context.Canceled) {
			err = e
		}
	})
	return fetches.Records(), err
}

func (o *own) close() {
	o.client.Close()
	o.release()
}
