package redisline

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Once remembers in Redis which entry tokens of a queue were used; it is a gate.Once. It is safe for concurrent use.
//
// Beside the line it is the one thing here that can't be rebuilt from the log: a Redis that loses or evicts it lets the tokens
// that are still valid open once more. Nothing else depends on it.
type Once struct {
	rdb Client
	id  queue.ID

	mu     sync.Mutex
	unsure map[string]string // id → the mark that may or may not stand in Redis
}

// maxUnsure bounds what is remembered of calls that failed; beyond, all of it is forgotten, and those tokens may be taken for used.
const maxUnsure = 10_000

// NewOnce returns the Once of queue id. Nothing is asked of Redis.
func NewOnce(rdb Client, id queue.ID) *Once {
	return &Once{rdb: rdb, id: id, unsure: map[string]string{}}
}

// onceKey is a stored format; a test pins it.
func (o *Once) onceKey(id string) string { return "soonbeon:{" + string(o.id) + "}:once:" + id }

// Use marks id as used until the time until, by Redis' clock; first is false where it was marked before. Error: ErrAway; then
// it may be marked or not, and calling again through the same Once tells it all the same: what a call marks is known by a
// random value, which the next call for the id goes on with.
func (o *Once) Use(ctx context.Context, id string, until time.Time) (first bool, err error) {
	mark := o.take(id)
	for try := 0; ; try++ {
		if first, err = o.use(ctx, id, mark, until); err == nil {
			return first, nil
		}
		if try == 1 || ctx.Err() != nil {
			o.keep(id, mark)
			return false, away("marking an entry token of "+string(o.id)+" as used", err)
		}
	}
}

func (o *Once) use(ctx context.Context, id, mark string, until time.Time) (bool, error) {
	err := o.rdb.SetArgs(ctx, o.onceKey(id), mark, redis.SetArgs{Mode: "NX", ExpireAt: until}).Err()
	if err == nil {
		return true, nil
	}
	if err != redis.Nil {
		return false, err
	}
	stands, err := o.rdb.Get(ctx, o.onceKey(id)).Result()
	if err == redis.Nil { // it ended between the two
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return stands == mark, nil
}

// take is the mark of a call that failed, which then belongs to this call alone, or a new one.
func (o *Once) take(id string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	mark, ok := o.unsure[id]
	if !ok {
		return rand.Text()
	}
	delete(o.unsure, id)
	return mark
}

func (o *Once) keep(id, mark string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.unsure) >= maxUnsure {
		clear(o.unsure)
	}
	o.unsure[id] = mark
}
