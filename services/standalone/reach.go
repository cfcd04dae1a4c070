package standalone

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/embedded"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
)

// Reach is how a command that only looks (audit, replay) gets at the log and at Redis: by the flags of the services, and
// without starting any. On the embedded log it needs the data folder for itself, so the server must be stopped.
type Reach struct {
	Data string `help:"Folder of the embedded log; not used with Kafka." default:"./data" type:"path"`

	Kafka      []string `help:"Kafka's brokers, host:port. Default: the embedded log." placeholder:"HOST:PORT"`
	KafkaFlags `embed:"" prefix:"kafka-"`

	Redis      []string `help:"Redis, host:port; several are a cluster, or Sentinels with --redis-master." placeholder:"HOST:PORT"`
	RedisFlags `embed:"" prefix:"redis-"`
}

func (r Reach) config() Config {
	c := Config{Data: r.Data, Kafka: r.Kafka, KafkaFlags: r.KafkaFlags, Redis: r.Redis, RedisFlags: r.RedisFlags}
	c.Replication = max(c.Replication, 1)
	return c
}

// OpenLog opens the log; call closed when done. A data folder that does not exist is not made. Errors say what to do.
func (r Reach) OpenLog(ctx context.Context, logger *zap.Logger) (log *linelog.Log, closed func() error, err error) {
	cfg := r.config()
	brokers := cfg.Kafka
	closed = func() error { return nil }
	if cfg.Embedded() {
		if err := checkData(cfg.Data); err != nil {
			return nil, nil, err
		}
		broker, err := embedded.Start(filepath.Join(cfg.Data, "log"), embedded.Options{Logger: logger.Named("embedded")})
		if errors.Is(err, embedded.ErrInUse) {
			return nil, nil, fmt.Errorf("the embedded log belongs to one process at a time: stop the server first (what was accepted is kept), or give --kafka where the log is in Kafka: %w", err)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("the embedded log: %w", err)
		}
		brokers, closed = broker.Addrs(), broker.Close
	}
	log, err = linelog.Open(cfg.logConfig(brokers), logger.Named("log"), nil)
	if err != nil {
		return nil, nil, errors.Join(err, closed())
	}
	end := closed
	closed = func() error { log.Close(); return end() }
	if err := log.Ping(ctx); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("no broker answers: %w", err), closed())
	}
	return log, closed, nil
}

// Seen is how far a queue's log had come, and which topic it was, by the witness in the data folder; zero where there is
// none, as with Kafka.
func (r Reach) Seen(id queue.ID) (topic string, seq queue.Ticket, err error) {
	if len(r.Kafka) > 0 {
		return "", 0, nil
	}
	all, err := readWitness(witnessFile(r.Data))
	return all[id].Topic, all[id].Seq, err
}

// NoQueue makes linelog.ErrNoQueue into what a person can act on.
func (r Reach) NoQueue(id queue.ID) error {
	where := "Kafka at " + strings.Join(r.Kafka, ", ")
	if len(r.Kafka) == 0 {
		where = "the embedded log in " + r.Data
	}
	return fmt.Errorf("%s has no queue %s: name another with --queue: %w", where, id, linelog.ErrNoQueue)
}

// DialRedis makes a client where an address is given, and returns nil otherwise. It reaches for nobody yet.
func (r Reach) DialRedis() (redisline.Client, error) {
	if len(r.Redis) == 0 {
		return nil, nil
	}
	c := r.config()
	return redisline.Dial(c.redisConfig())
}

// checkData refuses a folder that is not one of ours, without touching anything.
func checkData(dir string) error {
	err := checkVersion(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no log in %s: give the server's data folder with --data, or --kafka", dir)
	}
	return err
}
