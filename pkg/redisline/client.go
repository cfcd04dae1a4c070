package redisline

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// Config of the connection. One address is a single server; several are a cluster; with Master they are Sentinels.
type Config struct {
	Addrs    []string
	Master   string // name of the master that the Sentinels watch
	Username string
	Password string
	DB       int
	TLS      bool
	CAFile   string        // certificates to trust instead of the system's
	Timeout  time.Duration // of one call, dialling included; default 1 s
	PoolSize int           // connections at most; 0: ten a core
}

// Client is a connection to Redis, of whichever kind: a single server, Sentinels or a cluster.
type Client = redis.UniversalClient

// Dial makes the client. It reaches for nobody yet, and it never repeats a command by itself: who pops decides whether to
// ask again.
func Dial(cfg Config) (Client, error) {
	if len(cfg.Addrs) == 0 {
		return nil, errors.New("redis: no address is given")
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = time.Second
	}
	o := &redis.UniversalOptions{
		Addrs: cfg.Addrs, MasterName: cfg.Master, Username: cfg.Username, Password: cfg.Password, DB: cfg.DB,
		MaxRetries: -1, DialTimeout: cfg.Timeout, ReadTimeout: cfg.Timeout, WriteTimeout: cfg.Timeout,
		PoolTimeout: cfg.Timeout, ContextTimeoutEnabled: true, PoolSize: cfg.PoolSize,
		DialerRetries: 1,
	}
	if cfg.TLS || cfg.CAFile != "" {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		if cfg.CAFile != "" {
			pem, err := os.ReadFile(cfg.CAFile)
			if err != nil {
				return nil, fmt.Errorf("redis: reading the CA file: %w", err)
			}
			o.TLSConfig.RootCAs = x509.NewCertPool()
			if !o.TLSConfig.RootCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("redis: %s holds no certificate", cfg.CAFile)
			}
		}
	}
	// go-redis prints failed dials to the process's error stream, one line each, whoever owns that. It has one logger for all
	// clients and none for each; what it prints is in the errors that its callers get.
	logging.Disable()
	return redis.NewUniversalClient(o), nil
}

// ErrAway says that the view can't be had: Redis is dead, loading, read-only, full, busy, or did not answer. What was asked
// may or may not have been done; every script is safe to run again.
var ErrAway = errors.New("redis is away")

// ErrOtherTopic says that the view was built from another topic than the one that is applied: the topic was deleted and
// made anew. Nothing was changed.
var ErrOtherTopic = errors.New("the Redis view was built from another topic")

// ErrEviction says that Redis may delete the line without a word.
var ErrEviction = errors.New("maxmemory-policy is not noeviction")

func away(doing string, err error) error {
	return fmt.Errorf("%s: %w: %w", doing, ErrAway, err)
}

// CheckSettings refuses a Redis that may evict keys (ErrEviction). A server that does not let CONFIG be asked is taken as it
// is: known is false then.
func CheckSettings(ctx context.Context, rdb Client) (known bool, err error) {
	// INFO, since CONFIG is closed on most managed servers.
	info, err := rdb.Info(ctx, "memory").Result()
	if err != nil {
		return false, away("asking Redis for its maxmemory-policy", err)
	}
	for line := range strings.Lines(info) {
		if policy, ok := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:"); ok {
			if policy != "noeviction" {
				return true, fmt.Errorf("redis has maxmemory-policy %s: it may delete the line without a word; set it to noeviction (redis-cli config set maxmemory-policy noeviction): %w", policy, ErrEviction)
			}
			return true, nil
		}
	}
	return false, nil
}
