package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/linelog/embedded"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/standalone"
)

// system is what is drilled.
type system struct {
	what    string // for people
	target  []string
	keys    string // "" where the configuration has them
	reach   standalone.Reach
	hands   hands
	failing <-chan error // its failure, where it runs in this process
	close   func() error
}

// reach returns the operator's system, or brings up the drill's own.
func reach(ctx context.Context, cfg Config, logger *zap.Logger) (*system, error) {
	if cfg.own() {
		return bringUp(ctx, cfg, logger)
	}
	return &system{
		what: cfg.Target[0], target: cfg.Target, hands: commands{cfg.Break, cfg.Mend}, close: func() error { return nil },
		reach: standalone.Reach{Kafka: cfg.Kafka, KafkaFlags: cfg.KafkaFlags, Redis: cfg.Redis, RedisFlags: cfg.RedisFlags},
	}, nil
}

// stopTime is what the drill's own system is given to stop.
const stopTime = 10 * time.Second

// bringUp makes the drill's own: a redis-server, an embedded log, and all services in this process. The log's broker is not
// inside the services' process, so that the log can be read along and audited while they run, as with Kafka.
func bringUp(ctx context.Context, cfg Config, logger *zap.Logger) (_ *system, err error) {
	dir, err := os.MkdirTemp("", "soonbeon-drill-")
	if err != nil {
		return nil, fmt.Errorf("a folder for the drill: %w", err)
	}
	closes := []func() error{func() error { return os.RemoveAll(dir) }}
	closeAll := func() error {
		var errs []error
		for i := len(closes) - 1; i >= 0; i-- {
			errs = append(errs, closes[i]())
		}
		closes = nil
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll())
		}
	}()

	redisDir := filepath.Join(dir, "redis")
	if err := os.Mkdir(redisDir, 0o700); err != nil {
		return nil, fmt.Errorf("a folder for Redis: %w", err)
	}
	redis, err := startRedis(ctx, redisDir, cfg.KeepData)
	if err != nil {
		return nil, err
	}
	closes = append(closes, func() error { redis.kill(); return nil })
	s, closeServices, err := services(ctx, cfg, dir, []string{redis.addr()}, logger)
	if err != nil {
		return nil, err
	}
	closes = append(closes, closeServices)
	s.what = fmt.Sprintf("its own system: embedded log in %s, redis-server at %s, %g people a second", dir, redis.addr(), cfg.ExpectRate)
	s.hands, s.close = redis, closeAll
	return s, nil
}

// services runs an embedded log in dir and all services on it, with the Redis at these addresses or the line in memory.
func services(ctx context.Context, cfg Config, dir string, redis []string, logger *zap.Logger) (*system, func() error, error) {
	broker, err := embedded.Start(filepath.Join(dir, "log"), embedded.Options{Logger: logger.Named("embedded")})
	if err != nil {
		return nil, nil, fmt.Errorf("the embedded log: %w", err)
	}
	keys, err := pass.GenerateKeys()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("making keys: %w", err), broker.Close())
	}
	set := queue.DefaultSettings()
	c := standalone.Config{
		Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Queues: []string{cfg.Queue}, Keys: keys, Identity: "anonymous",
		Rate: cfg.ExpectRate, Interval: set.Interval, GrantTTL: set.GrantTTL, Reentry: set.Reentry.String(),
		Kafka: broker.Addrs(), KafkaFlags: standalone.KafkaFlags{Replication: 1}, Redis: redis, StartTimeout: time.Minute,
	}
	process, err := standalone.New(ctx, c, standalone.All, logger)
	if err == nil {
		err = process.Start(ctx)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("the drill's own system: %w", err), broker.Close())
	}
	closeBoth := func() error {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		return errors.Join(process.Stop(stop), broker.Close())
	}
	return &system{
		target: []string{"http://" + process.Public()}, keys: keys, failing: process.Failed(),
		reach: standalone.Reach{Kafka: broker.Addrs(), KafkaFlags: standalone.KafkaFlags{Replication: 1}, Redis: redis},
	}, closeBoth, nil
}
