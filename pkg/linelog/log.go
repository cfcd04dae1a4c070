package linelog

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// The defaults of Config.
const (
	DefaultMaxBuffered      = 100_000
	DefaultMaxBufferedBytes = 64 << 20
	DefaultAppendTimeout    = 2500 * time.Millisecond
	DefaultRetention        = -1 // for ever
)

// Config of a Log. Brokers is all that must be given.
type Config struct {
	Brokers  []string // host:port of at least one
	ClientID string   // in the brokers' logs and quotas; default "soonbeon"
	TLS      *TLSConfig
	SASL     *SASLConfig

	// Replication of the topics that EnsureQueue makes; default 1. In production 3, see CheckProduction.
	Replication int16
	// Retention of the topics that EnsureQueue makes; default for ever (negative). Every reader begins with
	// the first record, so a limit has to be longer than the queue lives:
	// a log that is trimmed past what was served stops its queue.
	Retention time.Duration

	MaxBuffered      int           // records of a Writer that wait for the broker; beyond, Append says ErrBusy. Default 100,000
	MaxBufferedBytes int           // the same in bytes; default 64 MiB
	AppendTimeout    time.Duration // how long Append waits for the acknowledgement; default 2.5 s, at least 50 ms

	// Traceparent is the trace that a record of a Writer belongs to, in the form of the W3C's header of that name; "" for none. It
	// travels in the record's header, which no fold looks at. nil: records have no headers.
	Traceparent func(context.Context) string
}

// traceHeader is the name of the header that says which trace a record belongs to.
const traceHeader = "traceparent"

func (c Config) withDefaults() Config {
	if c.ClientID == "" {
		c.ClientID = "soonbeon"
	}
	if c.Replication == 0 {
		c.Replication = 1
	}
	if c.Retention == 0 {
		c.Retention = DefaultRetention
	}
	if c.MaxBuffered == 0 {
		c.MaxBuffered = DefaultMaxBuffered
	}
	if c.MaxBufferedBytes == 0 {
		c.MaxBufferedBytes = DefaultMaxBufferedBytes
	}
	if c.AppendTimeout == 0 {
		c.AppendTimeout = DefaultAppendTimeout
	}
	return c
}

// validate returns every mistake at once.
func (c Config) validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if len(c.Brokers) == 0 {
		bad("brokers: give at least one host:port")
	}
	for _, b := range c.Brokers {
		if b == "" {
			bad("brokers: one of them is empty")
		}
	}
	if c.Replication < 1 {
		bad("replication is at least 1, not %d", c.Replication)
	}
	if c.Retention > 0 && c.Retention < time.Hour {
		bad("retention is at least an hour, or negative for ever, not %v", c.Retention)
	}
	if c.MaxBuffered < 1 {
		bad("max buffered is at least 1 record, not %d", c.MaxBuffered)
	}
	if c.MaxBufferedBytes < 1<<20 {
		bad("max buffered bytes is at least 1 MiB, not %d", c.MaxBufferedBytes)
	}
	if c.AppendTimeout < 50*time.Millisecond {
		bad("append timeout is at least 50ms, not %v", c.AppendTimeout)
	}
	return errors.Join(errs...)
}

// Log is a connection to the brokers that hold the queues' logs. It is safe for concurrent use.
type Log struct {
	cfg     Config
	base    []kgo.Opt
	logger  *zap.Logger
	metrics *metrics
	client  *kgo.Client // for questions; writers, readers and memberships have their own
	admin   *kadm.Client
}

// Open validates cfg and returns a Log. It does not wait for a broker. A nil registerer leaves the metrics unregistered;
// two Logs on one registerer share them.
func Open(cfg Config, logger *zap.Logger, reg prometheus.Registerer, opts ...Option) (*Log, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if logger == nil {
		logger = zap.NewNop()
	}
	logger = logger.Named("log")
	base, err := baseOpts(cfg, o, logger)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	m, err := newMetrics(reg)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(base...)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	admin := kadm.NewClient(client)
	admin.SetTimeoutMillis(int32(answerTimeout.Milliseconds()))
	return &Log{cfg: cfg, base: base, logger: logger, metrics: m, client: client, admin: admin}, nil
}

// Close ends the connection for questions. Writers, readers and memberships are closed by whoever opened them.
func (l *Log) Close() { l.client.Close() }

// newClient makes a client of its own with what all have in common, and more.
func (l *Log) newClient(more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(append([]kgo.Opt(nil), l.base...), more...)...)
}

// Ping asks for a sign of life from any broker.
func (l *Log) Ping(ctx context.Context) error {
	if err := l.client.Ping(ctx); err != nil {
		return fmt.Errorf("ping the log: %w", err)
	}
	return nil
}

// topicPrefix is a stored name: it never changes.
const topicPrefix = "soonbeon.queue."

// TopicOf names the topic that holds a queue's log.
func TopicOf(id queue.ID) string { return topicPrefix + string(id) }

// ticketOf returns the ticket of the record at an offset.
func ticketOf(offset int64) queue.Ticket { return queue.Ticket(offset) + 1 }

func formatID(id kadm.TopicID) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// Topic returns the id of the queue's topic, ErrNoQueue where there is none. A topic that was deleted and made anew under
// the same name has another id.
func (l *Log) Topic(ctx context.Context, id queue.ID) (topicID string, err error) {
	d, err := l.detail(ctx, id)
	if err != nil {
		return "", fmt.Errorf("look up queue %s: %w", id, err)
	}
	return formatID(d.id), nil
}

// topicDetail is what the brokers say of a topic.
type topicDetail struct {
	name       string
	id         kadm.TopicID
	partitions []kmsg.MetadataResponseTopicPartition
	err        error
}

// detail asks a broker. kadm's Metadata would answer from a cache, in which a topic that was made anew is the old one
// for a while.
func (l *Log) detail(ctx context.Context, id queue.ID) (topicDetail, error) {
	d, err := l.detailOf(ctx, l.client, TopicOf(id))
	if errors.Is(err, errNoTopic) {
		return topicDetail{}, ErrNoQueue
	}
	return d, err
}

var errNoTopic = errors.New("there is no such topic")

func (l *Log) detailOf(ctx context.Context, client *kgo.Client, name string) (topicDetail, error) {
	details, err := l.details(ctx, client, []string{name})
	if err != nil {
		return topicDetail{}, err
	}
	return details[name], details[name].err
}

// details asks for many topics at once. Each has an error of its own, errNoTopic where there is none of the name.
func (l *Log) details(ctx context.Context, client *kgo.Client, names []string) (map[string]topicDetail, error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = &name
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	out := make(map[string]topicDetail, len(names))
	for _, name := range names {
		out[name] = topicDetail{name: name, err: errors.New("the brokers tell nothing of it")}
	}
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		d := topicDetail{name: *t.Topic, id: t.TopicID, partitions: t.Partitions, err: kerr.ErrorForCode(t.ErrorCode)}
		if errors.Is(d.err, kerr.UnknownTopicOrPartition) {
			d.err = errNoTopic
		}
		out[d.name] = d
	}
	return out, nil
}

// EnsureQueue makes the queue's topic if there is none, and otherwise checks that it is fit: exactly one partition,
// LogAppendTime, not compacted. What does not fit is returned as *SettingError values, joined. Safe to call at once from
// many processes.
func (l *Log) EnsureQueue(ctx context.Context, id queue.ID) (topicID string, created bool, err error) {
	if _, err := queue.ParseID(string(id)); err != nil {
		return "", false, err
	}
	retention := int64(-1)
	if l.cfg.Retention > 0 {
		retention = l.cfg.Retention.Milliseconds()
	}
	d, created, err := l.createTopic(ctx, TopicOf(id), map[string]string{
		"cleanup.policy":         "delete",
		"message.timestamp.type": "LogAppendTime",
		"retention.ms":           strconv.FormatInt(retention, 10),
		"retention.bytes":        "-1",
	})
	if err != nil {
		return "", created, fmt.Errorf("make queue %s: %w", id, err)
	}
	topicID = formatID(d.id)
	if created {
		l.logger.Info("made a queue's topic", zap.String("queue", string(id)), zap.String("topic_id", topicID))
		return topicID, true, nil
	}
	if err := l.checkFit(ctx, id, d); err != nil {
		return "", false, fmt.Errorf("queue %s: %w", id, err)
	}
	return topicID, false, nil
}

// createTopic makes a topic of one partition if there is none, and otherwise says what it is like.
func (l *Log) createTopic(ctx context.Context, topic string, configs map[string]string) (d topicDetail, created bool, err error) {
	values := make(map[string]*string, len(configs))
	for k, v := range configs {
		values[k] = &v
	}
	for fails := 1; ; fails++ {
		resp, err := l.admin.CreateTopic(ctx, 1, l.cfg.Replication, values, topic)
		if err == nil {
			// The new topic may be unknown to the next broker asked for an instant; wait until it is there.
			return topicDetail{name: topic, id: resp.ID}, true, l.awaitTopic(ctx, topic)
		}
		if !errors.Is(err, kerr.TopicAlreadyExists) {
			return topicDetail{}, false, err
		}
		// Another process may have made it in this instant, or be deleting it, and the next broker asked does not know it.
		if d, err = l.detailOf(ctx, l.client, topic); !errors.Is(err, errNoTopic) {
			return d, false, err
		}
		if err := sleep(ctx, backoff(fails)); err != nil {
			return topicDetail{}, false, err
		}
	}
}

func (l *Log) awaitTopic(ctx context.Context, topic string) error {
	for fails := 1; ; fails++ {
		d, err := l.detailOf(ctx, l.client, topic)
		if err == nil && len(d.partitions) > 0 && d.partitions[0].ErrorCode == 0 {
			return nil
		}
		if err := sleep(ctx, backoff(fails)); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// checkFit compares a topic that exists with what a queue's log has to be.
func (l *Log) checkFit(ctx context.Context, id queue.ID, d topicDetail) error {
	var errs []error
	of := "topic " + d.name
	if n := len(d.partitions); n != 1 {
		errs = append(errs, &SettingError{of, "partitions", strconv.Itoa(n), "1",
			"a queue's order is that of one partition; partitions cannot be taken away, so delete the topic if it is empty, or name the queue differently"})
	}
	values, err := l.topicConfig(ctx, d.name)
	if err != nil {
		return err
	}
	if v := values["message.timestamp.type"]; v != "LogAppendTime" {
		errs = append(errs, &SettingError{of, "message.timestamp.type", v, "LogAppendTime",
			"set it with kafka-configs --alter: waits and rates are reckoned from the broker's clock"})
	}
	if v := values["cleanup.policy"]; v != "delete" {
		errs = append(errs, &SettingError{of, "cleanup.policy", v, "delete",
			"set it with kafka-configs --alter: compaction removes people from the middle of the line"})
	}
	return errors.Join(errs...)
}

func (l *Log) topicConfig(ctx context.Context, topic string) (map[string]string, error) {
	rcs, err := l.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("describe topic %s: %w", topic, err)
	}
	rc, err := rcs.On(topic, nil)
	if err == nil {
		err = rc.Err
	}
	if err != nil {
		return nil, fmt.Errorf("describe topic %s: %w", topic, err)
	}
	return configValues(rc), nil
}

func configValues(rc kadm.ResourceConfig) map[string]string {
	values := make(map[string]string, len(rc.Configs))
	for _, c := range rc.Configs {
		values[c.Key] = c.MaybeValue()
	}
	return values
}

// Bounds returns the ticket of the first record that is still there and the ticket of the next one to be written; they
// are equal when the log holds nothing. ErrNoQueue where there is no such queue.
func (l *Log) Bounds(ctx context.Context, id queue.ID) (first, next queue.Ticket, err error) {
	offset := func(list func(context.Context, ...string) (kadm.ListedOffsets, error)) (queue.Ticket, error) {
		o, err := offsetOf(ctx, TopicOf(id), list)
		if errors.Is(err, errNoTopic) {
			err = ErrNoQueue
		}
		return ticketOf(o), err
	}
	// The start first: it only grows, so the pair can't say that the log starts after its end.
	if first, err = offset(l.admin.ListStartOffsets); err == nil {
		next, err = offset(l.admin.ListEndOffsets)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("bounds of queue %s: %w", id, err)
	}
	return first, next, nil
}
