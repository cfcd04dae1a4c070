package main

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/soonbeon/soonbeon/pkg/redisline"
	"github.com/soonbeon/soonbeon/services/gate"
	"github.com/soonbeon/soonbeon/services/standalone"
)

type gateCmd struct {
	gate.Config

	Redis                 []string `help:"Redis, host:port, for --single-use; several are a cluster, or Sentinels with --redis-master." placeholder:"HOST:PORT"`
	standalone.RedisFlags `embed:"" prefix:"redis-"`

	Debug bool `help:"Log at debug level."`
}

// Help is shown by --help.
func (gateCmd) Help() string {
	return "Answers the proxy in front of a protected site, request by request: nginx (auth_request), Envoy and Istio (ext_authz over HTTP), Traefik " +
		"(forwardAuth), Caddy (forward_auth), HAProxy (by Lua). docs/gate.md has a configuration for each. A site in Go imports pkg/gate instead."
}

func (c *gateCmd) Run(ctx context.Context, s streams) error {
	level := zapcore.InfoLevel
	if c.Debug {
		level = zapcore.DebugLevel
	}
	logger := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(encoding()), zapcore.Lock(zapcore.AddSync(s.err)), level))
	defer func() { _ = logger.Sync() }()
	var rdb redisline.Client
	if len(c.Redis) > 0 {
		var err error
		if rdb, err = redisline.Dial(redisline.Config{
			Addrs: c.Redis, Master: c.Master, Username: c.User, Password: c.Password, DB: c.DB, TLS: c.TLS, CAFile: c.CA,
		}); err != nil {
			return err
		}
		defer func() { _ = rdb.Close() }()
	}
	p, err := gate.NewProcess(ctx, c.Config, rdb, logger)
	if err != nil {
		return err
	}
	if err := p.Start(ctx); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "soonbeon %s  gate\n\n", version)
	fmt.Fprintf(s.out, "  waiting room   %s\n", c.WaitingRoom)
	for _, id := range c.Queues {
		fmt.Fprintf(s.out, "  queue          %-10s  proxies ask at http://%s/{nginx,forward,envoy}/%s\n", id, p.Public(), id)
	}
	fmt.Fprintf(s.out, "  operators      http://%s   (/healthz, /readyz, /metrics)\n\nready. docs/gate.md has the proxy's side.\n", p.Private())
	select {
	case <-ctx.Done():
	case err = <-p.Failed():
		logger.Error("a part of the process failed; stopping", zap.Error(err))
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if stopErr := p.Stop(stop); err == nil {
		err = stopErr
	}
	return err
}
