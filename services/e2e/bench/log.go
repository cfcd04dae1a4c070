package main

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// visitorAt is the n-th visitor: of the form of queue.NewVisitor, in no order.
func visitorAt(n int) queue.Visitor {
	var b [16]byte
	x := uint64(n) + 1
	for i := range 2 { // SplitMix64
		x += 0x9e3779b97f4a7c15
		z := (x ^ x>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		binary.LittleEndian.PutUint64(b[8*i:], z^z>>31)
	}
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// entryAt is the record of visitorAt(n).
func entryAt(n int) ([]byte, error) {
	return linelog.Encode(queue.Record{Kind: queue.Entered, Visitor: visitorAt(n)})
}

// pour appends the entries of visitors from to from+n-1 in bulk, at most perSecond of them a second where that isn't 0,
// and returns once all are acknowledged.
func pour(ctx context.Context, brokers []string, id queue.ID, from, n, perSecond int) (acknowledged int64, err error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(5*time.Millisecond), kgo.MaxBufferedRecords(200_000))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	var acked atomic.Int64
	var failed atomic.Pointer[error]
	began := time.Now()
	for i := range n {
		if perSecond > 0 && i%500 == 0 {
			_ = lifecycle.Pause(ctx, time.Until(began.Add(time.Duration(i)*time.Second/time.Duration(perSecond))))
		}
		if err := ctx.Err(); err != nil {
			return acked.Load(), err
		}
		value, err := entryAt(from + i)
		if err != nil {
			return acked.Load(), err
		}
		client.Produce(ctx, &kgo.Record{Topic: linelog.TopicOf(id), Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
				return
			}
			acked.Add(1)
		})
	}
	if err := client.Flush(ctx); err != nil {
		return acked.Load(), err
	}
	if err := failed.Load(); err != nil {
		return acked.Load(), *err
	}
	return acked.Load(), nil
}

// makeQueue makes the topic of queue id.
func makeQueue(ctx context.Context, brokers []string, id queue.ID) (*linelog.Log, string, error) {
	log, err := linelog.Open(linelog.Config{Brokers: brokers}, nil, nil)
	if err != nil {
		return nil, "", err
	}
	topic, created, err := log.EnsureQueue(ctx, id)
	if err == nil && !created {
		err = errors.New("the queue is there already")
	}
	if err != nil {
		log.Close()
		return nil, "", fmt.Errorf("make queue %s: %w", id, err)
	}
	return log, topic, nil
}
