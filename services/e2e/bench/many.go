package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/catalog"
	"github.com/soonbeon/soonbeon/services/e2e/realservers"
	"github.com/soonbeon/soonbeon/services/standalone"
)

// alone takes every queue but id out of the catalogue, so that a side serves what its row is about. Their logs stay.
func (b *bench) alone(ctx context.Context, brokers []string, id queue.ID) error {
	log, err := openLog(brokers)
	if err != nil {
		return err
	}
	defer log.Close()
	if err := log.EnsureCatalog(ctx); err != nil {
		return err
	}
	f, err := catalog.New(catalog.OfLog(log), zap.NewNop(), nil)
	if err != nil {
		return err
	}
	if err := f.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = f.Stop(context.WithoutCancel(ctx)) }()
	if err := f.Ready(ctx); err != nil {
		return err
	}
	w := log.NewCatalogWriter()
	defer w.Close()
	for _, e := range f.AllAny() {
		if e.ID == id {
			continue
		}
		_, err := w.Edit(ctx, e.ID, func(*queue.Entry) (*queue.Entry, *queue.Change, error) {
			return nil, &queue.Change{Who: "bench", AtMs: time.Now().UnixMilli(), Queue: e.ID, Action: "gone"}, nil
		})
		if err != nil {
			return fmt.Errorf("take queue %s out of the catalogue: %w", e.ID, err)
		}
	}
	return nil
}

// The deployment of many queues: how many there are, how many of them people pour into, and how many are asked for their delay.
const (
	manyQueues = 1000
	hotQueues  = 10
	probes     = 300
	hotWaiting = 12_000 // in each hot queue: more than the measurement lets through
	hotArrive  = 300    // a second, into each
)

// many measures how long it takes from an entry into a queue that nobody else is in to the admission, by the log's own times: in a
// deployment of one queue, and in one of a thousand of which ten are hot; with one projector and one issuer, in one process.
func many(ctx context.Context, b *bench) ([]result, error) {
	dir := filepath.Join(b.dir, "kafka-many")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	cluster, err := realservers.StartKafka(ctx, realservers.KafkaConfig{Brokers: 1, Dir: dir})
	if err != nil {
		return nil, err
	}
	defer func() { _ = cluster.Close() }()
	if err := b.redis(ctx); err != nil {
		return nil, err
	}
	m := &manyRun{bench: b, brokers: cluster.Addrs()}
	if m.log, err = openLog(m.brokers); err != nil {
		return nil, err
	}
	defer m.log.Close()
	lone, _, err := m.measure(ctx, 1, 0)
	if err != nil {
		return nil, err
	}
	cold, idle, err := m.measure(ctx, manyQueues, hotQueues)
	if err != nil {
		return nil, err
	}
	return []result{
		{
			what: fmt.Sprintf("p99 from entry to admission in a cold queue among %d, %d of them hot", manyQueues, hotQueues), against: "a lone queue's, turned around: 0.50 is twice as long",
			kind: ratio, need: 0.50, value: lone.p99.Seconds() / cold.p99.Seconds(),
			ours: ms(cold.p99), theirs: ms(lone.p99), spread: fmt.Sprintf("p50 %s : %s; %d entries each", ms(cold.p50), ms(lone.p50), probes),
		},
		{
			what: fmt.Sprintf("CPU of one issuer and one projector for %d idle queues, of a core", manyQueues), kind: printedRatio, value: idle.cpu,
			spread: fmt.Sprintf("Redis did %.0f commands a second for them", idle.commands),
		},
	}, nil
}

type manyRun struct {
	*bench
	brokers []string
	log     *linelog.Log
}

type delays struct{ p50, p99 time.Duration }

type idling struct{ cpu, commands float64 }

func ms(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }

// measure makes n queues, the first hot of them full and arriving, and tells how long somebody who enters one of the others waits.
func (m *manyRun) measure(ctx context.Context, n, hot int) (d delays, idle idling, err error) {
	ids := make([]queue.ID, n)
	for i := range ids {
		ids[i] = m.id(fmt.Sprintf("many%d-%d", n, i))
	}
	if err := m.alone(ctx, m.brokers, ids[0]); err != nil {
		return d, idle, err
	}
	if err := m.make(ctx, ids); err != nil {
		return d, idle, err
	}
	spec := sideSpec{Name: "many", Kind: shipped, Config: shippedConfig(ids[0], m.keyText, m.brokers, []string{m.redisAddr}, ""),
		Roles: standalone.Roles{Projector: true, Issuer: true}}
	if m.o.profile != "" {
		spec.Profile = fmt.Sprintf("%s/many%d.pprof", m.o.profile, n)
	}
	s, err := startSide(ctx, spec)
	if err != nil {
		return d, idle, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	w, err := m.log.NewWriter()
	if err != nil {
		return d, idle, err
	}
	defer w.Close()
	for _, id := range ids { // everybody leads: somebody who enters is let in
		if err := m.enter(ctx, w, id, "first"); err != nil {
			return d, idle, err
		}
	}
	if err := m.allIn(ctx, ids, 1); err != nil {
		return d, idle, err
	}
	if idle, err = m.idle(ctx, s); err != nil {
		return d, idle, err
	}

	var pouring errgroup.Group
	pours, stop := context.WithCancel(ctx)
	defer stop()
	for i, id := range ids[:hot] {
		if _, err := pour(ctx, m.brokers, id, i*1_000_000, hotWaiting, 0); err != nil {
			return d, idle, err
		}
		pouring.Go(func() error {
			_, err := pour(pours, m.brokers, id, i*1_000_000+hotWaiting, hotArrive*600, hotArrive)
			if pours.Err() != nil {
				return nil
			}
			return err
		})
	}
	cold := ids[hot:]
	asked := map[queue.ID]int{}
	for i := range probes {
		id := cold[i%len(cold)]
		asked[id]++
		if err := m.enter(ctx, w, id, fmt.Sprint("probe", i)); err != nil {
			return d, idle, err
		}
		_ = lifecycle.Pause(ctx, 20*time.Millisecond+rand.N(60*time.Millisecond))
	}
	stop()
	if err := pouring.Wait(); err != nil {
		return d, idle, err
	}
	var took []time.Duration
	for id, k := range asked {
		got, err := m.delays(ctx, id, 1+k)
		if err != nil {
			return d, idle, err
		}
		took = append(took, got...)
	}
	slices.Sort(took)
	return delays{took[len(took)/2], took[len(took)*99/100]}, idle, nil
}

// make makes the queues, several at once.
func (m *manyRun) make(ctx context.Context, ids []queue.ID) error {
	w := m.log.NewCatalogWriter()
	defer w.Close()
	e, err := catalog.NewEditor(catalog.EditorConfig{}, w, m.log, zap.NewNop(), nil)
	if err != nil {
		return err
	}
	var topics errgroup.Group
	topics.SetLimit(8)
	for _, id := range ids {
		topics.Go(func() error { _, _, err := m.log.EnsureQueue(ctx, id); return err })
	}
	if err := topics.Wait(); err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := e.Adopt(ctx, "bench", id, queue.DefaultSettings()); err != nil {
			return err
		}
	}
	return nil
}

func (m *manyRun) enter(ctx context.Context, w *linelog.Writer, id queue.ID, visitor string) error {
	_, _, err := w.AppendUntil(ctx, id, queue.Record{Kind: queue.Entered, Visitor: visitor})
	return err
}

// allIn waits until people of each queue were admitted.
func (m *manyRun) allIn(ctx context.Context, ids []queue.ID, people int) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(8)
	for _, id := range ids {
		g.Go(func() error { _, err := m.delays(ctx, id, people); return err })
	}
	return g.Wait()
}

// delays reads a queue's log until so many were admitted, and says how long each of them waited, the first left out.
func (m *manyRun) delays(ctx context.Context, id queue.ID, people int) ([]time.Duration, error) {
	r := m.log.NewReader(id, 0, "")
	defer r.Close()
	entered := map[queue.Visitor]int64{}
	var took []time.Duration
	for n := 0; n < people; {
		recs, err := r.Next(ctx)
		if err != nil {
			return nil, fmt.Errorf("queue %s, after %d of %d admissions: %w", id, n, people, err)
		}
		for _, rec := range recs {
			switch rec.Kind {
			case queue.Entered:
				entered[rec.Visitor] = rec.AtMs
			case queue.Admitted:
				for _, p := range rec.People {
					if n++; p.Visitor != "first" {
						took = append(took, time.Duration(rec.AtMs-entered[p.Visitor])*time.Millisecond)
					}
				}
			}
		}
	}
	return took, nil
}

// idle looks at what the process and Redis do while nobody waits anywhere.
func (m *manyRun) idle(ctx context.Context, s *side) (idle idling, err error) {
	const long = 10 * time.Second
	_ = lifecycle.Pause(ctx, 3*time.Second)
	used, err := s.cpu()
	if err != nil {
		return idle, err
	}
	done, err := m.commands(ctx)
	if err != nil {
		return idle, err
	}
	_ = lifecycle.Pause(ctx, long)
	usedThen, err := s.cpu()
	if err != nil {
		return idle, err
	}
	doneThen, err := m.commands(ctx)
	return idling{(usedThen - used).Seconds() / long.Seconds(), float64(doneThen-done) / long.Seconds()}, err
}

// commands is how many Redis has done so far, the question included.
func (m *manyRun) commands(ctx context.Context) (int64, error) {
	return m.info(ctx, "stats", "total_commands_processed")
}
