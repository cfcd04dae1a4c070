package standalone

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
	"github.com/soonbeon/soonbeon/services/dashboard"
)

// screen makes the operators' dashboard of what this process knows.
func (proc *Process) screen(p *parsed, redis redisline.Client, why func(queue.ID) string, logger *zap.Logger, reg prometheus.Registerer) (*dashboard.Service, error) {
	c := dashboard.Config{Queues: proc.catalog.AllAny, Operators: p.operators, Why: why,
		Reading: func(id queue.ID) (dashboard.Reading, bool) {
			f := proc.lines.follower(id)
			return f, f != nil
		}}
	if redis != nil {
		c.Applied = func(ctx context.Context, id queue.ID) (queue.Ticket, error) { return redisline.New(redis, id).Seq(ctx) }
	}
	return dashboard.New(c, logger.Named("dashboard"), reg)
}
