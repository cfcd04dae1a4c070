package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
	"github.com/soonbeon/soonbeon/services/e2e/realservers"
)

// queueID is the queue that all this is about.
const queueID queue.ID = "chaos"

// process is one of ours.
type process struct {
	*realservers.Server
	public, private string // http://host:port
}

// fleet is the system: three brokers, a Redis, and two processes of each kind, which reach Redis through a proxy of their
// kind. What watches reaches Redis itself.
type fleet struct {
	dir     string
	rate    int
	keys    string
	brokers *realservers.Cluster
	redis   *realservers.Server
	rdb     redisline.Client
	view    *redisline.View
	log     *linelog.Log
	admin   *kadm.Client
	parts   map[part][]*process
	links   map[part]*proxy
	http    *http.Client
	closes  []func() error
}

// build compiles soonbeon to path.
func build(ctx context.Context, path string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/soonbeon/soonbeon/services/cmd/soonbeon")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build soonbeon: %w\n%s", err, out)
	}
	return nil
}

// launch builds and starts everything in dir, and returns once all are ready. Close it in the end.
func launch(ctx context.Context, dir string, rate int) (_ *fleet, err error) {
	f := &fleet{dir: dir, rate: rate, parts: map[part][]*process{}, links: map[part]*proxy{}, http: &http.Client{Timeout: 2 * time.Second}}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	if f.keys, err = pass.GenerateKeys(); err != nil {
		return nil, err
	}
	g, gctx := errgroup.WithContext(ctx)
	binary := filepath.Join(dir, "soonbeon")
	g.Go(func() error { return build(gctx, binary) })
	g.Go(func() (err error) {
		f.brokers, err = realservers.StartKafka(ctx, realservers.KafkaConfig{Brokers: 3, Dir: dir}) // not gctx: it outlives the group
		return err
	})
	g.Go(func() error {
		s, end, err := realservers.StartRedis(ctx, realservers.RedisConfig{Dir: f.redisDir(), Args: []string{"--save", ""}})
		if err == nil {
			f.redis = s
			f.closes = append(f.closes, end)
		}
		return err
	})
	if err := os.MkdirAll(f.redisDir(), 0o755); err != nil {
		return nil, err
	}
	err = g.Wait()
	if f.brokers != nil {
		f.closes = append(f.closes, f.brokers.Close)
	}
	if err != nil {
		return nil, err
	}
	for _, s := range append(f.brokers.Brokers(), f.redis) {
		if !s.Ours() {
			return nil, fmt.Errorf("%s isn't ours to kill: unset KAFKA_BROKERS and REDIS_ADDR", s.Name())
		}
	}
	if err := f.connect(); err != nil {
		return nil, err
	}
	return f, f.startAll(ctx, binary)
}

func (f *fleet) redisDir() string { return filepath.Join(f.dir, "redis") }
func (f *fleet) dump() string     { return filepath.Join(f.redisDir(), "dump.rdb") }

func (f *fleet) connect() (err error) {
	if f.rdb, err = redisline.Dial(redisline.Config{Addrs: []string{f.redis.Addr()}, Timeout: 5 * time.Second}); err != nil {
		return err
	}
	f.closes = append(f.closes, f.rdb.Close)
	f.view = redisline.New(f.rdb, queueID)
	if f.log, err = linelog.Open(linelog.Config{Brokers: f.brokers.Addrs()}, zap.NewNop(), nil); err != nil {
		return err
	}
	f.closes = append(f.closes, func() error { f.log.Close(); return nil })
	client, err := kgo.NewClient(kgo.SeedBrokers(f.brokers.Addrs()...))
	if err != nil {
		return err
	}
	f.admin = kadm.NewClient(client)
	f.closes = append(f.closes, func() error { f.admin.Close(); return nil })
	for _, p := range []part{projectors, issuers, positions, enters} {
		link, err := newProxy(f.redis.Addr())
		if err != nil {
			return err
		}
		f.links[p] = link
		f.closes = append(f.closes, link.close)
	}
	return nil
}

func (f *fleet) startAll(ctx context.Context, binary string) error {
	ports := &realservers.Ports{}
	f.closes = append(f.closes, func() error { ports.Release(); return nil })
	var addrs []string
	for range 16 {
		port, err := ports.Take()
		if err != nil {
			return err
		}
		addrs = append(addrs, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}
	for _, kind := range []part{enters, projectors, issuers, positions} {
		for i := range 2 {
			listen, admin := addrs[0], addrs[1]
			addrs = addrs[2:]
			p := &process{public: "http://" + listen, private: "http://" + admin}
			args := []string{string(kind), "--admin", admin, "--kafka", strings.Join(f.brokers.Addrs(), ","), "--kafka-replication=3", "--production",
				"--redis", f.links[kind].addr(), "--queues", string(queueID), fmt.Sprintf("--rate=%d", f.rate), "--grant-ttl=10m"}
			if kind == enters || kind == positions {
				args = append(args, "--listen", listen)
			}
			s, err := realservers.StartProcess(ctx, realservers.ProcessConfig{Name: fmt.Sprintf("%s-%d", kind, i+1), Path: binary, Args: args,
				Env: []string{"SOONBEON_KEYS=" + f.keys}, Addr: listen, Dir: f.dir, Ready: func(ctx context.Context) error { return f.ready(ctx, p) }})
			if err != nil {
				return err
			}
			p.Server = s
			f.parts[kind] = append(f.parts[kind], p)
			f.closes = append(f.closes, s.Kill)
		}
	}
	return nil
}

func (f *fleet) close() error {
	var errs []error
	for i := len(f.closes) - 1; i >= 0; i-- {
		errs = append(errs, f.closes[i]())
	}
	f.closes = nil
	return errors.Join(errs...)
}

func (f *fleet) get(ctx context.Context, url string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	res, err := f.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return res.StatusCode, string(body), err
}

func (f *fleet) ready(ctx context.Context, p *process) error {
	status, body, err := f.get(ctx, p.private+"/readyz")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("not ready: %s", body)
	}
	return err
}

// metric is the sum of a metric's series; 0 where there is none, or nobody answers.
func (f *fleet) metric(ctx context.Context, p *process, name string) float64 {
	_, body, err := f.get(ctx, p.private+"/metrics")
	if err != nil {
		return 0
	}
	sum := 0.0
	for line := range strings.Lines(body) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if base, _, _ := strings.Cut(series, "{"); base == name {
			v, _ := strconv.ParseFloat(value, 64)
			sum += v
		}
	}
	return sum
}

// leader is the issuer that leads, or, where none does for a second, the first.
func (f *fleet) leader(ctx context.Context) *process {
	for range 20 {
		for _, p := range f.parts[issuers] {
			if f.metric(ctx, p, "soonbeon_issuer_leading") > 0 {
				return p
			}
		}
		if lifecycle.Pause(ctx, 50*time.Millisecond) != nil {
			break
		}
	}
	return f.parts[issuers][0]
}

// served is the highest ticket admitted, as far as any position node has read.
func (f *fleet) served(ctx context.Context) float64 {
	most := 0.0
	for _, p := range f.parts[positions] {
		most = max(most, f.metric(ctx, p, "soonbeon_follow_served_ticket"))
	}
	return most
}

// whole returns nil once every process is ready and every broker has caught up with every partition's leader.
func (f *fleet) whole(ctx context.Context) error {
	for _, list := range f.parts {
		for _, p := range list {
			if err := p.WaitReady(ctx); err != nil {
				return err
			}
		}
	}
	if err := f.redis.WaitReady(ctx); err != nil {
		return err
	}
	return until(ctx, 90*time.Second, "every broker is in sync", func() error { return f.inSync(ctx) })
}

func (f *fleet) inSync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	meta, err := f.admin.Metadata(ctx)
	if err != nil {
		return err
	}
	if len(meta.Brokers) < 3 {
		return fmt.Errorf("there are %d brokers", len(meta.Brokers))
	}
	for _, topic := range meta.Topics {
		for _, p := range topic.Partitions {
			if p.Err != nil || len(p.ISR) < len(p.Replicas) {
				return fmt.Errorf("%s/%d has %d of %d replicas in sync (%w)", topic.Topic, p.Partition, len(p.ISR), len(p.Replicas), p.Err)
			}
		}
	}
	return nil
}

// until asks every 50 ms, since these conditions give no other sign.
func until(ctx context.Context, within time.Duration, what string, holds func() error) error {
	deadline := time.Now().Add(within)
	for {
		err := holds()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not within %v: %w", what, within, err)
		}
		if err := lifecycle.Pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}
