package standalone

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/embedded"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
	"github.com/soonbeon/soonbeon/services/enter"
	"github.com/soonbeon/soonbeon/services/follow"
	"github.com/soonbeon/soonbeon/services/httpapi"
	"github.com/soonbeon/soonbeon/services/issuer"
	"github.com/soonbeon/soonbeon/services/position"
	"github.com/soonbeon/soonbeon/services/projector"
)

// Process is the services of one process, assembled. It is a lifecycle.Service.
type Process struct {
	*lifecycle.Group
	opened    []func() error // what New opened, closed last-in-first-out when everything has stopped
	started   atomic.Bool
	closed    sync.Once
	closeErr  error
	readiness *lifecycle.Readiness
	public    *httpapi.Server
	admin     *httpapi.Server
	followers map[queue.ID]*follow.Follower
}

// New checks cfg, opens what the services stand on, and assembles those of roles. What it opened is closed by Stop, and
// at once when it fails. The error tells every mistake in cfg.
func New(ctx context.Context, cfg Config, roles Roles, logger *zap.Logger) (_ *Process, err error) {
	p, err := cfg.parse(roles)
	if err != nil {
		return nil, err
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	proc := &Process{Group: lifecycle.NewGroup(0), readiness: lifecycle.NewReadiness(), followers: map[queue.ID]*follow.Follower{}}
	defer func() {
		if err != nil {
			_ = proc.close()
		}
	}()

	// The log, and who signs.
	brokers := cfg.Kafka
	if cfg.Embedded() {
		if err := openData(cfg.Data); err != nil {
			return nil, err
		}
		broker, err := embedded.Start(cfg.Data+"/log", embedded.Options{Logger: logger.Named("embedded")})
		if err != nil {
			return nil, fmt.Errorf("the embedded log: %w", err)
		}
		brokers = broker.Addrs()
		proc.opened = append(proc.opened, broker.Close)
		if p.keys == nil && cfg.Keys == "" {
			if cfg.Keys, err = ownKeys(cfg.Data); err != nil {
				return nil, err
			}
			if p.keys, err = pass.ParseKeys(cfg.Keys); err != nil {
				return nil, fmt.Errorf("the keys in the data folder: %w", err)
			}
		}
	}
	log, err := linelog.Open(cfg.logConfig(brokers), logger.Named("log"), reg)
	if err != nil {
		return nil, err
	}
	proc.opened = append(proc.opened, func() error { log.Close(); return nil })
	if err := prepare(ctx, log, cfg, p.ids, logger); err != nil {
		return nil, err
	}
	// Who answers requests stays ready while Kafka or Redis is away: an approximate position, or a 503 that says when to come
	// again, is better than no process at all behind a balancer.
	if !roles.HTTP() {
		proc.readiness.Check("log", log.Ping)
	}

	// The line: Redis, or in memory.
	views, err := proc.views(ctx, cfg, roles, p, log, logger, reg)
	if err != nil {
		return nil, err
	}

	if cfg.Embedded() {
		proc.Add("the log's witness", newWitness(cfg.Data, log, proc.followers, logger.Named("witness")))
	}

	if roles.Projector && views.redis != nil {
		s, err := projector.New(projector.Config{Queues: p.ids, View: views.projected}, log, logger.Named("projector"), reg)
		if err != nil {
			return nil, err
		}
		proc.Add("projector", s)
		check := s.Trouble
		if roles.HTTP() {
			check = s.Grave
		}
		proc.readiness.Check("projection", check)
	}
	if roles.Issuer {
		host, _ := os.Hostname()
		s, err := issuer.New(issuer.Config{Name: fmt.Sprintf("%.40s/%d", host, os.Getpid()), Queues: p.queues, View: views.popped,
			Reading: func(id queue.ID) *follow.Follower { return proc.followers[id] }},
			log, logger.Named("issuer"), reg)
		if err != nil {
			return nil, err
		}
		proc.Add("issuer", s)
	}

	proc.admin = httpapi.NewServer(httpapi.ServerConfig{Name: "private", Address: cfg.Admin, Setting: "--admin"},
		httpapi.NewAdmin(proc.readiness, reg), logger.Named("admin"))
	proc.Add("private port", proc.admin)
	if !roles.HTTP() {
		return proc, nil
	}
	e, err := httpapi.New(httpapi.Config{TrustedOrigins: cfg.TrustedOrigins}, logger.Named("http"), reg)
	if err != nil {
		return nil, err
	}
	entries := enter.Fixed{}
	for id, set := range p.queues {
		entries[id] = &queue.Entry{ID: id, Settings: set}
	}
	if roles.Enter {
		secret, err := idSecret(cfg.IDSecret, cfg.Keys)
		if err != nil {
			return nil, err
		}
		writer, err := log.NewWriter()
		if err != nil {
			return nil, err
		}
		proc.opened = append(proc.opened, func() error { writer.Close(); return nil })
		s, err := enter.New(enter.Config{Queues: entries, Identity: p.identity, SiteKeys: p.siteKeys, IDSecret: secret,
			Position: func(id queue.ID, t queue.Ticket) int64 { return int64(t - proc.followers[id].State().Served) },
			Trouble:  func(id queue.ID) error { return trouble(proc.followers[id]) },
			Grant: func(id queue.ID, v queue.Visitor, now time.Time) (queue.Grant, line.GrantState) {
				return proc.followers[id].Grant(v, now)
			}},
			writer, p.keys, logger.Named("enter"), reg)
		if err != nil {
			return nil, err
		}
		s.Register(e)
	}
	if roles.Position {
		contact := follow.NewContact(log)
		proc.Add("contact with the log", contact)
		queues := map[queue.ID]*position.Queue{}
		for id := range entries {
			queues[id] = &position.Queue{View: views.asked(id), Reading: proc.followers[id], Silent: contact.Silent}
		}
		s, err := position.New(position.Config{Keys: p.keys,
			Find: func(id queue.ID) (*position.Queue, *queue.Entry, bool) {
				q, ok := queues[id]
				return q, entries[id], ok
			}}, reg)
		if err != nil {
			return nil, err
		}
		s.Register(e)
	}
	proc.public = httpapi.NewServer(httpapi.ServerConfig{Name: "public", Address: cfg.Listen, Setting: "--listen"}, e, logger.Named("http"))
	proc.Add("public port", proc.public)
	return proc, nil
}

// views is where the line is, for each who needs it.
type views struct {
	redis     redisline.Client // nil: in memory
	projected func(queue.ID) projector.View
	popped    func(queue.ID) issuer.View // nil: there is none but the followers'
	asked     func(queue.ID) position.View
}

// views opens Redis where its address is given, and makes a follower for each queue: of the ledger alone, or, without
// Redis, of the line where somebody asks for it.
func (proc *Process) views(ctx context.Context, cfg Config, roles Roles, p *parsed, log *linelog.Log, logger *zap.Logger, reg prometheus.Registerer) (*views, error) {
	metrics := follow.NewMetrics(reg)
	newFollower := follow.New
	if roles.keepsLine(&cfg) {
		newFollower = follow.NewLine
	}
	v := &views{}
	if len(cfg.Redis) > 0 {
		rdb, err := redisline.Dial(cfg.redisConfig())
		if err != nil {
			return nil, err
		}
		proc.opened = append(proc.opened, rdb.Close)
		watch := &settingsWatch{rdb: rdb, logger: logger.Named("redis")}
		if err := watch.first(ctx); err != nil {
			return nil, err
		}
		proc.Add("redis settings", watch)
		proc.readiness.Check("redis_settings", watch.check)
		v.redis = rdb
		v.projected = func(id queue.ID) projector.View { return redisline.New(rdb, id) }
		v.popped = func(id queue.ID) issuer.View { return redisline.New(rdb, id) }
		v.asked = func(id queue.ID) position.View { return position.Share(redisline.New(rdb, id)) }
	} else {
		v.asked = func(id queue.ID) position.View { return proc.followers[id] }
	}
	var source follow.Log = log
	if !roles.Issuer && !roles.Position {
		source = unhurried{log} // it is read for hints and for trouble alone
	}
	for _, id := range p.ids {
		f := newFollower(id, source, logger.Named("follow"), metrics)
		proc.followers[id] = f
		proc.Add("follower of "+string(id), f)
		proc.Add("reading of "+string(id), &caughtUp{id: id, log: log, f: f, timeout: cfg.StartTimeout})
		proc.readiness.Check("log_"+string(id), func(context.Context) error { return f.Trouble() })
	}
	return v, nil
}

// prepare waits for the brokers, makes the queues' topics where there are none, and checks them.
func prepare(ctx context.Context, log *linelog.Log, cfg Config, ids []queue.ID, logger *zap.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, cfg.StartTimeout)
	defer cancel()
	var last error
	for _, id := range ids {
		for {
			try, stop := context.WithTimeout(ctx, 5*time.Second)
			_, created, err := log.EnsureQueue(try, id)
			stop()
			if err == nil {
				if created {
					logger.Info("made a queue", zap.String("queue", string(id)))
				}
				break
			}
			var setting *linelog.SettingError
			if errors.As(err, &setting) {
				return err
			}
			if ctx.Err() != nil {
				return fmt.Errorf("the log of queue %s can't be had within %v: %w", id, cfg.StartTimeout, errors.Join(last, err))
			}
			if last == nil {
				logger.Warn("the log does not answer yet; trying again", zap.String("queue", string(id)), zap.Error(err))
			}
			last = err
			select {
			case <-ctx.Done():
			case <-time.After(500 * time.Millisecond):
			}
		}
	}
	if cfg.Production {
		return log.CheckProduction(ctx, ids...)
	}
	return nil
}

// close closes what New opened, once.
func (p *Process) close() error {
	p.closed.Do(func() {
		for _, c := range slices.Backward(p.opened) {
			p.closeErr = errors.Join(p.closeErr, c())
		}
	})
	return p.closeErr
}

// Start starts everything in order. When something fails, all is stopped and closed again.
func (p *Process) Start(ctx context.Context) error {
	if p.started.Swap(true) {
		return lifecycle.ErrStarted // and what runs goes on: nothing is closed under it
	}
	if err := p.Group.Start(ctx); err != nil {
		return errors.Join(err, p.close())
	}
	return nil
}

// Stop stops what runs, then closes what was opened.
func (p *Process) Stop(ctx context.Context) error {
	p.readiness.Drain()
	err := p.Group.Stop(ctx)
	done := make(chan error, 1)
	go func() { done <- p.close() }()
	select {
	case closeErr := <-done:
		return errors.Join(err, closeErr)
	case <-ctx.Done():
		return errors.Join(err, ctx.Err())
	}
}

// Run starts, waits until ctx ends or a part fails, and stops.
func (p *Process) Run(ctx context.Context) error { return lifecycle.Run(ctx, p) }

// Public is the waiting room's address, "" before Start or where there is none.
func (p *Process) Public() string {
	if p.public == nil {
		return ""
	}
	return p.public.Addr()
}

// Private is the private port's address, "" before Start.
func (p *Process) Private() string { return p.admin.Addr() }

// Follower is the process's reading of a queue's log.
func (p *Process) Follower(id queue.ID) *follow.Follower { return p.followers[id] }
