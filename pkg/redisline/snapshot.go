package redisline

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Snapshot is everybody who waits by the log, in ticket order, and what the view knew before and after they were read.
//
// Where the two moments have the same seq it is exact. On a view that moves it is not of one moment: who waited with the same
// ticket at both is in it, and who is in it waited at some moment between them.
type Snapshot struct {
	Before, After queue.Moment
	Topic         string // the id of the topic that the view was built from, "" where that is not known
	People        []queue.Waiting
}

// Quiet says that nothing was applied while the snapshot was read.
func (s *Snapshot) Quiet() bool { return s.Before.Seq == s.After.Seq }

// snapshotTries is how often a view that moves is read again.
const snapshotTries = 3

// Snapshot reads everybody, page by page, so that a long line holds nobody up. It tries three times for a quiet one. Error:
// ErrAway.
func (v *View) Snapshot(ctx context.Context) (*Snapshot, error) {
	for try := 1; ; try++ {
		s, err := v.snapshot(ctx)
		if err != nil || s.Quiet() || try == snapshotTries {
			return s, err
		}
	}
}

func (v *View) snapshot(ctx context.Context) (*Snapshot, error) {
	var s Snapshot
	var err error
	if s.Before, _, err = v.Places(ctx, nil); err != nil {
		return nil, err
	}
	// The line before those popped from it, and by score: nobody goes the other way, and pops do not shift the pages.
	for from := "-inf"; ; {
		page, err := v.rdb.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{Key: v.k.line, ByScore: true, Start: from, Stop: "+inf", Count: queue.MaxBatch}).Result()
		if err != nil {
			return nil, away("reading the line of "+string(v.id), err)
		}
		for _, z := range page {
			s.People = append(s.People, queue.Waiting{Visitor: z.Member.(string), Ticket: queue.Ticket(z.Score)})
		}
		if len(page) < queue.MaxBatch {
			break
		}
		from = "(" + ticketArg(queue.Ticket(page[len(page)-1].Score))
	}
	err = v.scan(ctx, v.k.pending, func(who, p string) error {
		f := strings.Split(p, ":")
		if len(f) != 3 || f[2] != "1" {
			return nil
		}
		t, err := parseTicket(f[0])
		s.People = append(s.People, queue.Waiting{Visitor: who, Ticket: t})
		return err
	})
	if err != nil {
		return nil, err
	}
	digests := map[queue.Visitor]string{}
	if err := v.scan(ctx, v.k.keys, func(who, digest string) error { digests[who] = digest; return nil }); err != nil {
		return nil, err
	}
	slices.SortFunc(s.People, func(a, b queue.Waiting) int { return int(a.Ticket - b.Ticket) })
	s.People = slices.CompactFunc(s.People, func(a, b queue.Waiting) bool { return a == b }) // popped while being read
	for i := range s.People {
		s.People[i].Key = digests[s.People[i].Visitor]
	}
	s.Topic, err = v.rdb.HGet(ctx, v.k.state, "topic").Result()
	if err != nil && err != redis.Nil {
		return nil, away("reading the topic of "+string(v.id), err)
	}
	if s.After, _, err = v.Places(ctx, nil); err != nil {
		return nil, err
	}
	return &s, nil
}

// scan reads a hash page by page. A field that is there throughout is met once at least.
func (v *View) scan(ctx context.Context, key string, each func(field, value string) error) error {
	for cursor := uint64(0); ; {
		page, next, err := v.rdb.HScan(ctx, key, cursor, "", queue.MaxBatch).Result()
		if err != nil {
			return away("reading "+key, err)
		}
		for i := 0; i+1 < len(page); i += 2 {
			if err := each(page[i], page[i+1]); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
