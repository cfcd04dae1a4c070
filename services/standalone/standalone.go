package standalone

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/embedded"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
	"github.com/soonbeon/soonbeon/services/admin"
	"github.com/soonbeon/soonbeon/services/catalog"
	"github.com/soonbeon/soonbeon/services/dashboard"
	"github.com/soonbeon/soonbeon/services/enter"
	"github.com/soonbeon/soonbeon/services/events"
	"github.com/soonbeon/soonbeon/services/follow"
	"github.com/soonbeon/soonbeon/services/httpapi"
	"github.com/soonbeon/soonbeon/services/issuer"
	"github.com/soonbeon/soonbeon/services/page"
	"github.com/soonbeon/soonbeon/services/position"
	"github.com/soonbeon/soonbeon/services/projector"
	"github.com/soonbeon/soonbeon/services/trace"
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
	lines     *lines
	catalog   *catalog.Follower
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
	proc := &Process{Group: lifecycle.NewGroup(0), readiness: lifecycle.NewReadiness()}
	defer func() {
		if err != nil {
			_ = proc.close()
		}
	}()

	tracer, err := trace.New(ctx, roles.name(), os.Getenv, logger.Named("trace"))
	if err != nil {
		return nil, err
	}
	if tracer != nil {
		proc.Add("traces", tracer) // first, so that it ends last
	}

	// The log, and who signs.
	brokers := cfg.Kafka
	if cfg.Embedded() {
		if brokers, err = proc.openEmbedded(&cfg, p, logger); err != nil {
			return nil, err
		}
	}
	logConfig := cfg.logConfig(brokers)
	logConfig.Traceparent = tracer.Traceparent()
	log, err := linelog.Open(logConfig, logger.Named("log"), reg)
	if err != nil {
		return nil, err
	}
	proc.opened = append(proc.opened, func() error { log.Close(); return nil })
	if err := prepare(ctx, log, cfg, logger); err != nil {
		return nil, err
	}
	// Who answers requests stays ready while Kafka or Redis is away: an approximate position, or a 503 that says when to come
	// again, is better than no process at all behind a balancer.
	if !roles.HTTP() {
		proc.readiness.Check("log", log.Ping)
	}

	// The line: Redis, or in memory.
	redis, err := proc.openRedis(ctx, cfg, logger)
	if err != nil {
		return nil, err
	}

	// The queues there are.
	editor, err := proc.catalogue(cfg, p, log, redis, logger, reg)
	if err != nil {
		return nil, err
	}
	lines := newLines(log, cfg.StartTimeout, logger.Named("queues"))
	proc.lines = lines
	proc.catalog.Watch(lines.watch)
	newFollower, metrics := follow.New, follow.NewMetrics(reg)
	if roles.keepsLine(&cfg) {
		newFollower = follow.NewLine
	}
	hub := log.NewHub()
	proc.opened = append(proc.opened, func() error { hub.Close(); return nil })
	source := logOf{log, hub, !roles.Issuer && !roles.Position} // read for hints and for trouble alone by who only takes people in
	lines.follow = func(id queue.ID) *follow.Follower {
		return newFollower(id, source, logger.Named("follow"), metrics)
	}
	proc.Add("queues", lines)
	proc.readiness.Check("logs", lines.check)
	if cfg.Embedded() {
		proc.Add("the log's witness", newWitness(cfg.Data, log, lines.followers, proc.catalog.Version, logger.Named("witness")))
	}

	if roles.Projector && redis != nil {
		s, err := projector.New(projector.Config{View: func(id queue.ID) projector.View { return redisline.New(redis, id) }, Traced: tracer.Traced()},
			log, logger.Named("projector"), reg)
		if err != nil {
			return nil, err
		}
		lines.told = append(lines.told, s.Set)
		proc.Add("projector", s)
		check := s.Trouble
		if roles.HTTP() {
			check = s.Grave
		}
		proc.readiness.Check("projection", check)
	}
	why := func(queue.ID) string { return queue.SkipNotLeading }
	if roles.Issuer {
		host, _ := os.Hostname()
		c := issuer.Config{Name: fmt.Sprintf("%.40s/%d", host, os.Getpid()), Entry: proc.catalog.Get, Reading: lines.follower, Seed: openSeed(cfg)}
		if redis != nil {
			c.View = func(id queue.ID) issuer.View { return redisline.New(redis, id) }
			c.Ping = func(ctx context.Context) error { return redis.Ping(ctx).Err() }
		}
		s, err := issuer.New(c, log, logger.Named("issuer"), reg)
		if err != nil {
			return nil, err
		}
		lines.told = append(lines.told, s.Set)
		why = s.Why
		proc.Add("issuer", s)
	}

	var waiting *page.Service
	if roles.HTTP() {
		waiting, err = page.New(page.Config{Find: proc.catalog.Get, ReturnOrigins: cfg.ReturnOrigins, Dir: cfg.PageDir})
		if err != nil {
			return nil, err
		}
	}
	screen, err := proc.screen(p, redis, why, logger, reg)
	if err != nil {
		return nil, err
	}
	if err := proc.private(cfg, p, editor, log, why, waiting, screen, logger, reg); err != nil {
		return nil, err
	}
	if !roles.HTTP() {
		return proc, nil
	}
	e, err := httpapi.New(httpapi.Config{TrustedOrigins: cfg.TrustedOrigins}, logger.Named("http"), reg)
	if err != nil {
		return nil, err
	}
	var streams *events.Service
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
		lines.forget = append(lines.forget, writer.Forget)
		s, err := enter.New(enter.Config{Queues: proc.catalog, Identity: p.identity, SiteKeys: p.siteKeys, IDSecret: secret,
			Position: lines.ahead, Trouble: lines.trouble, Grant: lines.grant, Sites: p.sites},
			tracer.Appender(writer), p.keys, logger.Named("enter"), reg)
		if err != nil {
			return nil, err
		}
		s.Register(e)
		waiting.RegisterForm(e)
	}
	if roles.Position {
		contact := follow.NewContact(log)
		proc.Add("contact with the log", contact)
		lines.silent = contact.Silent
		lines.asked = func(id queue.ID, f *follow.Follower) position.View {
			if redis == nil {
				return tracer.View(id, f)
			}
			return tracer.View(id, position.Share(redisline.New(redis, id)))
		}
		s, err := position.New(position.Config{Keys: p.keys, Find: proc.find}, reg)
		if err != nil {
			return nil, err
		}
		s.Register(e)
		streams, err = events.New(events.Config{Answers: answers{s}, Find: proc.reading}, reg)
		if err != nil {
			return nil, err
		}
		streams.Register(e)
		waiting.Register(e)
	}
	proc.public = httpapi.NewServer(httpapi.ServerConfig{Name: "public", Address: cfg.Listen, Setting: "--listen"},
		tracer.Handler(e, "/queue/enter", "/queue/leave", "/queue/complete", "/queue/position"), logger.Named("http"))
	proc.Add("public port", proc.public)
	if streams != nil {
		proc.Add("event streams", streams) // after the port, so that its streams have ended when the port waits for its requests
	}
	return proc, nil
}

// find is a queue as the position service asks for it.
func (proc *Process) find(id queue.ID) (*position.Queue, *queue.Entry, bool) {
	e, ok := proc.catalog.Get(id)
	if !ok {
		return nil, nil, false
	}
	if one := proc.lines.get(id); one != nil && one.made == e.Made {
		return &one.queue, e, true
	}
	return nil, e, true
}

// reading is a queue's reading and the version of its entry, as event streams ask for it.
func (proc *Process) reading(id queue.ID) (events.Reading, int64, bool) {
	q, e, ok := proc.find(id)
	if !ok || q == nil {
		return nil, 0, false
	}
	return q.Reading, e.Version, true
}

// answers are those of the position service, as event streams take them.
type answers struct{ *position.Service }

func (a answers) Tell(ctx context.Context, r pass.Receipt, body []byte) (events.Told, error) {
	t, err := a.Service.Tell(ctx, r, body)
	return events.Told{State: string(t.State), Position: t.Position, Exact: t.Exact, RetryAfter: t.RetryAfter, Body: t.Body,
		Lasting: t.Lasting, Receipt: t.Receipt, Signed: t.Signed}, err
}

// openEmbedded opens the log in the data folder, and the secrets beside it where none are given.
func (proc *Process) openEmbedded(cfg *Config, p *parsed, logger *zap.Logger) (brokers []string, err error) {
	if err := openData(cfg.Data); err != nil {
		return nil, err
	}
	broker, err := embedded.Start(cfg.Data+"/log", embedded.Options{Logger: logger.Named("embedded")})
	if err != nil {
		return nil, fmt.Errorf("the embedded log: %w", err)
	}
	proc.opened = append(proc.opened, broker.Close)
	if cfg.Keys == "" {
		if cfg.Keys, err = ownKeys(cfg.Data); err != nil {
			return nil, err
		}
		if p.keys, err = pass.ParseKeys(cfg.Keys); err != nil {
			return nil, fmt.Errorf("the keys in the data folder: %w", err)
		}
	}
	if !p.operators.Any() {
		own, err := ownOperator(cfg.Data)
		if err != nil {
			return nil, err
		}
		if p.operators, err = httpapi.ParseCredentials(own); err != nil {
			return nil, fmt.Errorf("the operator's secret in the data folder: %w", err)
		}
	}
	return broker.Addrs(), nil
}

// openRedis makes the client where an address is given, and watches that Redis evicts nothing; nil where the line is in memory.
func (proc *Process) openRedis(ctx context.Context, cfg Config, logger *zap.Logger) (redisline.Client, error) {
	if len(cfg.Redis) == 0 {
		return nil, nil
	}
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
	return rdb, nil
}

// catalogue is the process's reading of the catalogue, and what changes it.
func (proc *Process) catalogue(cfg Config, p *parsed, log *linelog.Log, redis redisline.Client, logger *zap.Logger, reg prometheus.Registerer) (*catalog.Editor, error) {
	logger = logger.Named("catalogue")
	var err error
	if proc.catalog, err = catalog.New(catalog.OfLog(log), logger, reg); err != nil {
		return nil, err
	}
	writer := log.NewCatalogWriter()
	proc.opened = append(proc.opened, func() error { writer.Close(); return nil })
	c := catalog.EditorConfig{Sealer: sealer(cfg.IDSecret, cfg.Keys)}
	if redis != nil {
		c.Drop = func(ctx context.Context, id queue.ID) error { return redisline.New(redis, id).Drop(ctx) }
	}
	editor, err := catalog.NewEditor(c, writer, log, logger, reg)
	if err != nil {
		return nil, err
	}
	proc.Add("catalogue", proc.catalog)
	proc.readiness.Check("catalogue", func(context.Context) error { return proc.catalog.Trouble() })
	proc.Add("opening", &opening{catalog: proc.catalog, editor: editor, log: log, named: p.ids, settings: p.settings, production: cfg.Production,
		timeout: cfg.StartTimeout, logger: logger})
	return editor, nil
}

// openSeed opens the seeds of draws, where the process has the secret.
func openSeed(cfg Config) func(queue.ID, []byte) (queue.Seed, error) {
	if s := sealer(cfg.IDSecret, cfg.Keys); s != nil {
		return s.Open
	}
	return func(queue.ID, []byte) (queue.Seed, error) {
		return queue.Seed{}, errors.New("this process has neither --keys nor --id-secret")
	}
}

// private makes the port of operators: health, metrics, the API that changes queues, and the dashboard.
func (proc *Process) private(cfg Config, p *parsed, editor *catalog.Editor, log *linelog.Log, why func(queue.ID) string, waiting *page.Service, screen *dashboard.Service, logger *zap.Logger, reg *prometheus.Registry) error {
	e, err := httpapi.New(httpapi.Config{}, logger.Named("admin"), reg)
	if err != nil {
		return err
	}
	s, err := admin.New(admin.Config{Known: proc.catalog, Editor: editor, Operators: p.operators, Changes: log.Changes,
		Live: func(id queue.ID) *catalog.Live { return proc.live(id, why) }})
	if err != nil {
		return err
	}
	s.Register(e)
	mux := http.NewServeMux()
	s.RegisterReference(e)
	mux.Handle("/admin/", e)
	mux.Handle("/docs", e)
	if waiting != nil {
		waiting.RegisterPreview(e)
		mux.Handle("/queue/", e)
	}
	screen.Register(e)
	mux.Handle("/dashboard/", e)
	mux.Handle("GET /{$}", e)
	mux.Handle("/", httpapi.NewAdmin(proc.readiness, reg))
	proc.admin = httpapi.NewServer(httpapi.ServerConfig{Name: "private", Address: cfg.Admin, Setting: "--admin"}, mux, logger.Named("admin"))
	proc.Add("private port", proc.admin)
	proc.Add("dashboard", screen) // after the port, so that its streams have ended when the port waits for its requests
	return nil
}

// live is how a queue's line goes, as far as this process knows: one that does not keep the line can't say who waits.
func (proc *Process) live(id queue.ID, why func(queue.ID) string) *catalog.Live {
	f := proc.lines.follower(id)
	if f == nil || !f.KeepsLine() {
		return nil
	}
	l, skip := f.Live(time.Now()), why(id)
	if skip == queue.SkipNotLeading { // another process leads it, if any: that says nothing of who is let in
		skip = ""
	}
	return &catalog.Live{Waiting: l.Waiting, Active: l.Active, Served: int64(l.State.Served), Rate: l.Rate, Skip: skip}
}

// logOf is the log as followers read it: all of them through one connection.
type logOf struct {
	*linelog.Log
	hub       *linelog.Hub
	unhurried bool
}

func (l logOf) NewReader(id queue.ID, after queue.Ticket, topicID string) *linelog.Reader {
	r := l.hub.NewReader(id, after, topicID)
	if l.unhurried {
		return r.Unhurried()
	}
	return r
}

// prepare waits for the brokers, makes the catalogue's topics where there are none, and checks them.
func prepare(ctx context.Context, log *linelog.Log, cfg Config, logger *zap.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, cfg.StartTimeout)
	defer cancel()
	var last error
	for {
		try, stop := context.WithTimeout(ctx, 5*time.Second)
		err := log.EnsureCatalog(try)
		stop()
		if err == nil {
			return nil
		}
		var setting *linelog.SettingError
		if errors.As(err, &setting) {
			return err
		}
		if ctx.Err() != nil {
			if last != nil { // which says more than that there was no time for another attempt
				err = last
			}
			return fmt.Errorf("the catalogue of queues can't be had within %v: %w", cfg.StartTimeout, err)
		}
		if last == nil {
			logger.Warn("the log does not answer yet; trying again", zap.Error(err))
		}
		last = err
		_ = lifecycle.Pause(ctx, 500*time.Millisecond)
	}
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
func (p *Process) Follower(id queue.ID) *follow.Follower { return p.lines.follower(id) }

// Queues are the entries of the catalogue as the process knows them.
func (p *Process) Queues() []*queue.Entry { return p.catalog.All() }
