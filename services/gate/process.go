package gate

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/redisline"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// Process is the service with its two ports.
type Process struct {
	*lifecycle.Group
	public, private *httpapi.Server
	ready           *lifecycle.Readiness
}

// NewProcess assembles it; nothing runs before Start. rdb is the caller's to close, nil where tokens may be used again.
func NewProcess(ctx context.Context, cfg Config, rdb redisline.Client, logger *zap.Logger) (*Process, error) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	service, err := New(cfg, rdb, logger.Named("gate"), reg)
	if err != nil {
		return nil, err
	}
	if cfg.SingleUse {
		if err := CheckRedis(ctx, rdb, logger); err != nil {
			return nil, err
		}
	}
	p := &Process{Group: lifecycle.NewGroup(0), ready: lifecycle.NewReadiness()}
	p.private = httpapi.NewServer(httpapi.ServerConfig{Name: "private", Address: cfg.Admin, Setting: "--admin"},
		httpapi.NewAdmin(p.ready, reg), logger)
	p.public = httpapi.NewServer(httpapi.ServerConfig{Name: "gate", Address: cfg.Listen, Setting: "--listen"}, service, logger)
	p.Add("private port", p.private)
	p.Add("questions to the waiting room", service)
	p.Add("gate", p.public)
	return p, nil
}

// Public is the address that proxies ask at, host:port, once it was started.
func (p *Process) Public() string { return p.public.Addr() }

// Private is the address of the private port.
func (p *Process) Private() string { return p.private.Addr() }

// Stop says first that it is not ready, so that it is asked no more.
func (p *Process) Stop(ctx context.Context) error {
	p.ready.Drain()
	return p.Group.Stop(ctx)
}
