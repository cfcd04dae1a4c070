package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
	"github.com/soonbeon/soonbeon/services/e2e/realservers"
	"github.com/soonbeon/soonbeon/services/projector"
)

// bench is one run: what its rows share, made when the first of them asks for it.
type bench struct {
	o       options
	dir     string
	run     string // part of the names of queues, so that a second run on the same servers meets none of them
	keyText string
	closers []func() error

	brokers   []string
	redisAddr string
	rdb       redisline.Client
	lineID    queue.ID
	filled    bool
	shown     *projected
}

func newBench(o options) (*bench, error) {
	keys, err := pass.GenerateKeys()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "soonbeon-bench-*")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the servers: %w", err)
	}
	b := &bench{o: o, dir: dir, keyText: keys, run: fmt.Sprintf("%06x", rand.IntN(1<<24))}
	b.closers = append(b.closers, func() error { return os.RemoveAll(dir) })
	return b, nil
}

func (b *bench) close() error {
	var errs []error
	for _, c := range slices.Backward(b.closers) {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// kafka is one real broker.
func (b *bench) kafka(ctx context.Context) ([]string, error) {
	if b.brokers != nil {
		return b.brokers, nil
	}
	dir := filepath.Join(b.dir, "kafka")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	cluster, err := realservers.StartKafka(ctx, realservers.KafkaConfig{Brokers: 1, Dir: dir})
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, cluster.Close)
	b.brokers = cluster.Addrs()
	return b.brokers, nil
}

// redis is one real Redis.
func (b *bench) redis(ctx context.Context) error {
	if b.rdb != nil {
		return nil
	}
	dir := filepath.Join(b.dir, "redis")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	server, stop, err := realservers.StartRedis(ctx, realservers.RedisConfig{Dir: dir})
	if err != nil {
		return err
	}
	b.closers = append(b.closers, stop)
	rdb, err := redisline.Dial(redisline.Config{Addrs: []string{server.Addr()}, Timeout: 10 * time.Second})
	if err != nil {
		return err
	}
	b.closers = append(b.closers, rdb.Close)
	b.rdb, b.redisAddr = rdb, server.Addr()
	return nil
}

// line is the queue of the long line, filled.
func (b *bench) line(ctx context.Context) (queue.ID, []string, error) {
	brokers, err := b.kafka(ctx)
	if err != nil || b.filled {
		return b.lineID, brokers, err
	}
	b.lineID = b.id("line")
	log, _, err := makeQueue(ctx, brokers, b.lineID)
	if err != nil {
		return "", nil, err
	}
	log.Close()
	if _, err := pour(ctx, brokers, b.lineID, 0, b.o.line, 0); err != nil {
		return "", nil, fmt.Errorf("fill the line: %w", err)
	}
	b.filled = true
	return b.lineID, brokers, nil
}

// projected is what came of projecting the long line into Redis.
type projected struct {
	took      time.Duration // from the projector's start
	perSecond float64
	bytesEach float64
}

// projected lets the projector put the long line into Redis, from nothing.
func (b *bench) projected(ctx context.Context) (*projected, error) {
	if b.shown != nil {
		return b.shown, nil
	}
	id, brokers, err := b.line(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.redis(ctx); err != nil {
		return nil, err
	}
	log, err := openLog(brokers)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	before, err := b.usedMemory(ctx)
	if err != nil {
		return nil, err
	}
	view := redisline.New(b.rdb, id)
	p, err := projector.New(projector.Config{View: func(queue.ID) projector.View { return view }}, log, zap.NewNop(), nil)
	if err != nil {
		return nil, err
	}
	p.Set([]queue.ID{id})
	began := time.Now()
	if err := p.Start(ctx); err != nil {
		return nil, err
	}
	defer func() { _ = p.Stop(context.WithoutCancel(ctx)) }()
	for {
		seq, err := view.Seq(ctx)
		if err != nil {
			return nil, err
		}
		if seq >= queue.Ticket(b.o.line) {
			break
		}
		_ = lifecycle.Pause(ctx, 5*time.Millisecond)
	}
	took := time.Since(began)
	got := &projected{took: took, perSecond: float64(b.o.line) / took.Seconds()}
	after, err := b.usedMemory(ctx)
	if err != nil {
		return nil, err
	}
	got.bytesEach = float64(after-before) / float64(b.o.line)
	b.shown = got
	return got, nil
}

func openLog(brokers []string) (*linelog.Log, error) {
	return linelog.Open(linelog.Config{Brokers: brokers}, nil, nil)
}

func splitAddr(addr string) (host, port string, err error) { return net.SplitHostPort(addr) }
