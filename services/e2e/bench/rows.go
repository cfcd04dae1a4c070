package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/standalone"
)

// group is what one name of -only measures: one row or two.
type group struct {
	name    string
	measure func(context.Context, *bench) ([]result, error)
}

// groups are all of them, in the order of the table.
func groups() []group {
	return []group{
		{"enter-kafka", enterKafka},
		{"enter-embedded", enterEmbedded},
		{"projection", projection},
		{"position-redis", positionRedis},
		{"position-memory", positionMemory},
		{"memory", memory},
		{"admissions", admissions},
		{"rebuild", rebuild},
		{"many-queues", many},
		{"streams", streams},
	}
}

func names() []string {
	var all []string
	for _, g := range groups() {
		all = append(all, g.name)
	}
	return all
}

func enterKafka(ctx context.Context, b *bench) ([]result, error) {
	brokers, err := b.kafka(ctx)
	if err != nil {
		return nil, err
	}
	id, bare := b.id("enter"), b.id("bare")
	for _, q := range []queue.ID{id, bare} {
		log, _, err := makeQueue(ctx, brokers, q)
		if err != nil {
			return nil, err
		}
		log.Close()
	}
	d, err := b.duel(ctx, "enter-kafka", b.enterLoad(id),
		sideSpec{Kind: shipped, Config: shippedConfig(id, b.keyText, brokers, nil, ""), Roles: standalone.Roles{Enter: true}},
		sideSpec{Kind: bareProduce, Kafka: brokers, Queue: bare})
	if err != nil {
		return nil, err
	}
	return []result{d.result("enter, HTTP, one real broker", "the same echo server with a handler that only calls `ProduceSync`", 0.85)}, nil
}

func enterEmbedded(ctx context.Context, b *bench) ([]result, error) {
	id := queue.ID("main")
	d, err := b.duel(ctx, "enter-embedded", b.enterLoad(id),
		sideSpec{Kind: shipped, Config: shippedConfig(id, b.keyText, nil, nil, filepath.Join(b.dir, "embedded")), Roles: standalone.All},
		sideSpec{Kind: bareEcho})
	if err != nil {
		return nil, err
	}
	return []result{d.result("enter, HTTP, embedded", "a bare echo handler", 0.40)}, nil
}

// enterLoad is one newcomer after another.
func (b *bench) enterLoad(id queue.ID) *load {
	return b.load([][]byte{request("POST", "/queue/enter", "localhost", nil, `{"queue":"`+string(id)+`"}`)})
}

func positionRedis(ctx context.Context, b *bench) ([]result, error) {
	id, brokers, err := b.line(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := b.projected(ctx); err != nil {
		return nil, err
	}
	return b.position(ctx, "position-redis", "Redis", 0.40, shippedConfig(id, b.keyText, brokers, []string{b.redisAddr}, ""))
}

func positionMemory(ctx context.Context, b *bench) ([]result, error) {
	id, brokers, err := b.line(ctx)
	if err != nil {
		return nil, err
	}
	return b.position(ctx, "position-memory", "in memory", 0.60, shippedConfig(id, b.keyText, brokers, nil, ""))
}

func (b *bench) position(ctx context.Context, name, where string, need float64, cfg standalone.Config) ([]result, error) {
	requests, err := b.askers(queue.ID(cfg.Queues[0]))
	if err != nil {
		return nil, err
	}
	d, err := b.duel(ctx, name, b.load(requests),
		sideSpec{Kind: shipped, Config: cfg, Roles: standalone.Roles{Position: true}}, sideSpec{Kind: bareEcho})
	if err != nil {
		return nil, err
	}
	return []result{d.result(fmt.Sprintf("position, HTTP, %s, a line of %s", where, thousands(b.o.line)), "a bare echo handler", need)}, nil
}

// askers are requests of people who stand in the long line, drawn at random, each with the receipt of an exact answer.
func (b *bench) askers(id queue.ID) ([][]byte, error) {
	keys, err := pass.ParseKeys(b.keyText)
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(1, 2))
	requests := make([][]byte, min(b.o.line, 1<<16))
	for i := range requests {
		n := r.IntN(b.o.line)
		receipt, err := keys.SignReceipt(pass.Receipt{Queue: id, Visitor: visitorAt(n), Ticket: queue.Ticket(n + 1), Ahead: int64(n), IssuedMs: time.Now().UnixMilli()})
		if err != nil {
			return nil, err
		}
		requests[i] = request("GET", "/queue/position?queue="+string(id), "localhost", []string{"Authorization: Bearer " + receipt}, "")
	}
	return requests, nil
}

func projection(ctx context.Context, b *bench) ([]result, error) {
	if err := b.redis(ctx); err != nil {
		return nil, err
	}
	recs, err := b.records(b.o.apply)
	if err != nil {
		return nil, err
	}
	var ours, theirs, ratios []float64
	for i := range b.o.rounds {
		var x, y float64
		first := func() (err error) { x, err = b.applyAll(ctx, recs); return err }
		second := func() (err error) { y, err = b.zadd(ctx, len(recs)); return err }
		if i%2 == 1 {
			first, second = second, first
		}
		if err := first(); err != nil {
			return nil, err
		}
		if err := second(); err != nil {
			return nil, err
		}
		ours, theirs, ratios = append(ours, x), append(theirs, y), append(ratios, x/y)
	}
	rows := []result{{
		what: "projection into Redis", against: "`redis-benchmark` pipelined `ZADD`", need: 0.60, kind: ratio,
		value: median(ratios), ours: rate(median(ours)), theirs: rate(median(theirs)), spread: spread(ratios),
	}}
	p, err := b.projected(ctx)
	if err != nil {
		return rows, err
	}
	return append(rows, result{
		what: "the projector, from Kafka into an empty Redis", against: "the same", kind: printedRatio,
		value: p.perSecond / median(theirs), ours: rate(p.perSecond), theirs: rate(median(theirs)),
	}), nil
}

func memory(ctx context.Context, b *bench) ([]result, error) {
	_, per, err := b.folded(ctx)
	rows := []result{{what: "memory a waiting visitor, in memory", need: 120, kind: bytesEach, value: per}}
	if err != nil {
		return nil, err
	}
	p, err := b.projected(ctx)
	if err != nil {
		return rows, err
	}
	return append(rows, result{what: "memory a waiting visitor, in Redis", need: 160, kind: bytesEach, value: p.bytesEach}), nil
}

func rebuild(ctx context.Context, b *bench) ([]result, error) {
	took, _, err := b.folded(ctx)
	if err != nil {
		return nil, err
	}
	rows := []result{{what: "rebuild of " + thousands(b.o.line) + " entries into memory", kind: seconds, value: took.Seconds()}}
	p, err := b.projected(ctx)
	if err != nil {
		return rows, err
	}
	return append(rows, result{what: "rebuild of " + thousands(b.o.line) + " entries into Redis", kind: seconds, value: p.took.Seconds()}), nil
}

// folded reads the long line's log into memory, and says how long it took and what a visitor takes.
func (b *bench) folded(ctx context.Context) (time.Duration, float64, error) {
	id, brokers, err := b.line(ctx)
	if err != nil {
		return 0, 0, err
	}
	log, err := openLog(brokers)
	if err != nil {
		return 0, 0, err
	}
	defer log.Close()
	before := heap()
	began := time.Now()
	r := log.NewReader(id, 0, "")
	defer r.Close()
	l := line.New()
	for l.State().Seq < queue.Ticket(b.o.line) {
		recs, err := r.Next(ctx)
		if err != nil {
			return 0, 0, err
		}
		if !l.Apply(l.State().Seq, recs) {
			return 0, 0, errors.New("records do not follow each other")
		}
	}
	took := time.Since(began)
	r.Close()
	per := float64(heap()-before) / float64(b.o.line)
	if total := l.Total(); total != int64(b.o.line) {
		return 0, 0, fmt.Errorf("%d wait, wanted %d", total, b.o.line)
	}
	return took, per, nil
}

// heap is what lives.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func (b *bench) load(requests [][]byte) *load {
	return &load{conns: b.o.conns, requests: requests, warmUp: b.o.round / 4, measure: b.o.round}
}

// duel starts both sides, drives them by turns, and ends them.
func (b *bench) duel(ctx context.Context, name string, l *load, ours, theirs sideSpec) (_ *duel, err error) {
	ours.Name, theirs.Name = name+"-ours", name+"-bare"
	var sides [2]*side
	for i, spec := range []sideSpec{ours, theirs} {
		if b.o.profile != "" {
			if spec.Profile, err = filepath.Abs(filepath.Join(b.o.profile, spec.Name+".pprof")); err != nil {
				return nil, err
			}
		}
		if spec.Kind == shipped && len(spec.Config.Kafka) > 0 {
			if err := b.alone(ctx, spec.Config.Kafka, queue.ID(spec.Config.Queues[0])); err != nil {
				return nil, err
			}
		}
		s, err := startSide(ctx, spec)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, s.close()) }()
		sides[i] = s
	}
	d, err := l.duel(ctx, b.o.rounds, sides[0], sides[1])
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "  in the last round: ours p50 %v p99 %v, bare p50 %v p99 %v\n",
		d.lastOurs.p50, d.lastOurs.p99, d.lastTheirs.p50, d.lastTheirs.p99)
	return d, nil
}

func (d *duel) result(what, against string, need float64) result {
	return result{what: what, against: against, need: need, kind: ratio, value: median(d.ratios),
		spread: fmt.Sprintf("%s; server CPU %.0f : %.0f µs a request", spread(d.ratios), median(d.cpuOurs), median(d.cpuTheirs)),
		ours:   rate(median(d.ours)), theirs: rate(median(d.theirs))}
}

func (b *bench) id(name string) queue.ID {
	return queue.ID(strings.ToLower(fmt.Sprintf("bench-%s-%s", b.run, name)))
}
