package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/zap"
)

// The errors of Start. Use errors.Is.
var (
	// ErrInUse: another process has the folder.
	ErrInUse = errors.New("the data folder is in use")
	// ErrDamaged: a file is not as it was written.
	ErrDamaged = errors.New("the log's files are damaged")
)

// Options of a Broker. The zero value is right.
type Options struct {
	Logger *zap.Logger // nil: silent
	Port   int         // 0: a free one
}

// Broker is a running broker.
type Broker struct {
	cluster *kfake.Cluster
	lock    lock
	addrs   []string
	close   func() error
}

// minSession lets memberships notice a dead process as fast as they like.
const minSession = "500"

// never keeps the broker from compacting: it would delete a topic's files before it writes them anew, and a kill in between
// would take the catalogue with it. What compaction saves is little: a few hundred bytes for each change of a queue.
const never = "3153600000000" // a hundred years, in milliseconds

// Start runs a broker on 127.0.0.1 with its files under dir, which is made if there is none (mode 0700). Errors: ErrInUse,
// ErrDamaged, and those of the file system.
func Start(dir string, opts Options) (*Broker, error) {
	if opts.Logger == nil {
		opts.Logger = zap.NewNop()
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	held, err := takeLock(dir)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "log")
	cluster, err := start(data, opts)
	if err != nil {
		return nil, errors.Join(err, held.close())
	}
	b := &Broker{cluster: cluster, lock: held, addrs: cluster.ListenAddrs()}
	b.close = sync.OnceValue(func() error {
		b.cluster.Close()
		return b.lock.close()
	})
	return b, nil
}

func start(data string, opts Options) (*kfake.Cluster, error) {
	if err := completeDeletions(data); err != nil {
		return nil, err
	}
	if err := check(data); err != nil {
		return nil, err
	}
	if err := forgetMembers(data); err != nil {
		return nil, err
	}
	cluster, err := kfake.NewCluster(
		kfake.Ports(opts.Port),
		kfake.ClusterID("soonbeon-embedded"),
		kfake.DataDir(data),
		kfake.SyncWrites(),
		kfake.DefaultNumPartitions(1),
		kfake.BrokerConfigs(map[string]string{
			"group.min.session.timeout.ms": minSession,
			"log.cleaner.backoff.ms":       never,
		}),
		kfake.WithLogger(brokerLogger{opts.Logger.Named("broker").Sugar()}),
	)
	if err != nil {
		return nil, fmt.Errorf("start the embedded log: %w", err)
	}
	noteDeletions(cluster, data)
	return cluster, nil
}

// forgetMembers deletes what the broker keeps of groups and of a clean stop. No group commits anything here, and members
// of the last run would be waited for until their sessions end. The snapshots of partitions repeat what the segments
// say, without a checksum: a wrong end in one of them would hide acknowledged records.
func forgetMembers(data string) error {
	paths := []string{filepath.Join(data, "groups.log"), filepath.Join(data, "session_state.json")}
	snapshots, err := filepath.Glob(filepath.Join(escapeGlob(data), "partitions", "*", "snapshot.json"))
	if err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	for _, p := range append(paths, snapshots...) {
		if err := os.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("forget the last run's members: %w", err)
		}
	}
	return nil
}

// Addrs returns host:port of the broker.
func (b *Broker) Addrs() []string { return b.addrs }

// Close stops the broker and lets go of the folder. Closing twice is fine.
func (b *Broker) Close() error { return b.close() }

// brokerLogger passes the broker's warnings on.
type brokerLogger struct{ logger *zap.SugaredLogger }

func (l brokerLogger) Logf(level kfake.LogLevel, format string, args ...any) {
	switch level {
	case kfake.LogLevelError:
		l.logger.Errorf(format, args...)
	case kfake.LogLevelWarn:
		if strings.HasPrefix(format, "txn: EndTxn slow") {
			return // a few milliseconds: that is what a disk takes
		}
		l.logger.Warnf(format, args...)
	}
}
