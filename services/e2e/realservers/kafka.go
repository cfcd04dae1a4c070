package realservers

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"
)

// KafkaConfig says which Kafka is wanted.
type KafkaConfig struct {
	// Brokers is how many, 1 or 3, each with a part in the controller quorum. With 3, new topics have replication
	// factor 3 and min.insync.replicas 2, as production has.
	Brokers int
	// Dir keeps configuration, data and logs of local brokers; it must exist, and is the caller's to remove.
	Dir string
}

// Cluster is a running Kafka.
type Cluster struct {
	brokers []*Server
	wanted  int
	close   func() error
}

// StartKafka finds or starts a Kafka as the package says, and returns once every broker knows of all the others. Close
// it in the end.
func StartKafka(ctx context.Context, cfg KafkaConfig) (*Cluster, error) {
	if cfg.Brokers != 1 && cfg.Brokers != 3 {
		return nil, fmt.Errorf("start Kafka: 1 or 3 brokers, not %d", cfg.Brokers)
	}
	var (
		c   *Cluster
		err error
	)
	switch {
	case os.Getenv("KAFKA_BROKERS") != "":
		c = &Cluster{close: func() error { return nil }}
		for addr := range strings.SplitSeq(os.Getenv("KAFKA_BROKERS"), ",") {
			addr = strings.TrimSpace(addr)
			c.brokers = append(c.brokers, &Server{name: "kafka " + addr, addr: addr, ctl: foreign{}})
		}
	case engineAnswers(ctx):
		c, err = composeKafka(ctx, cfg)
	default:
		missing := javaMissing()
		if missing != nil {
			return nil, fmt.Errorf("no real Kafka to be had: set KAFKA_BROKERS, or start a Docker engine with compose, "+
				"or install Java 17 and Maven (Debian: apt-get install default-jre-headless maven): %w", missing)
		}
		c, err = localKafka(ctx, cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("start Kafka: %w", err)
	}
	c.wanted = cfg.Brokers
	for _, b := range c.brokers {
		b.ready = func(ctx context.Context) error { return brokerReady(ctx, b.addr, b.Ours(), 1) }
	}
	if err := c.waitReady(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start Kafka: %w", err), c.Close())
	}
	return c, nil
}

// Addrs are the brokers' host:port.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.brokers))
	for i, b := range c.brokers {
		addrs[i] = b.addr
	}
	return addrs
}

// Brokers are the servers, in the order of Addrs. Broker i has the node id i+1, unless it isn't ours.
func (c *Cluster) Brokers() []*Server { return c.brokers }

// Kill kills every broker.
func (c *Cluster) Kill() error {
	var errs []error
	for _, b := range c.brokers {
		errs = append(errs, b.Kill())
	}
	return errors.Join(errs...)
}

// Restart kills the brokers that run, starts all, and waits until each knows of all the others.
func (c *Cluster) Restart(ctx context.Context) error {
	if err := c.Kill(); err != nil {
		return err
	}
	for _, b := range c.brokers {
		if err := b.Start(ctx); err != nil {
			return err
		}
	}
	return c.waitReady(ctx)
}

// Close ends the brokers that were started here, and gives their ports back.
func (c *Cluster) Close() error { return c.close() }

func (c *Cluster) waitReady(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, b := range c.brokers {
		g.Go(func() error {
			return b.waitUntil(ctx, func(ctx context.Context) error { return brokerReady(ctx, b.addr, b.Ours(), c.wanted) })
		})
	}
	return g.Wait()
}

// brokerReady asks one broker, and no other, for the cluster: it must list itself (a broker does once it isn't fenced; one
// behind a load balancer may have another name, so only ours are held to it) and at least so many brokers.
func brokerReady(ctx context.Context, addr string, itself bool, atLeast int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DialTimeout(time.Second), kgo.RequestRetries(0))
	if err != nil {
		return fmt.Errorf("ask %s: %w", addr, err)
	}
	defer client.Close()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	res, err := client.SeedBrokers()[0].Request(ctx, req)
	if err != nil {
		return fmt.Errorf("ask %s for its cluster: %w", addr, err)
	}
	listed := res.(*kmsg.MetadataResponse).Brokers
	if len(listed) < atLeast {
		return fmt.Errorf("%s knows of %d brokers, not %d", addr, len(listed), atLeast)
	}
	for _, b := range listed {
		if !itself || fmt.Sprintf("%s:%d", b.Host, b.Port) == addr {
			return nil
		}
	}
	return fmt.Errorf("%s doesn't list itself yet", addr)
}

func localKafka(ctx context.Context, cfg KafkaConfig) (_ *Cluster, err error) {
	if strings.Contains(cfg.Dir, ",") {
		// log.dirs is a list: the broker would write beside the folder.
		return nil, fmt.Errorf("the folder %q has a comma in its name; a test's folder has it from the test's name", cfg.Dir)
	}
	jars, err := FetchKafka(ctx)
	if err != nil {
		return nil, err
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, err
	}
	held := &ports{}
	c := &Cluster{}
	c.close = func() error {
		defer held.release()
		return c.Kill()
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()

	nodes := make([]node, cfg.Brokers)
	voters := make([]string, cfg.Brokers)
	for i := range nodes {
		nodes[i] = node{id: i + 1, dir: filepath.Join(cfg.Dir, fmt.Sprintf("kafka%d", i+1))}
		if nodes[i].port, err = held.take(); err != nil {
			return nil, err
		}
		if nodes[i].controllerPort, err = held.take(); err != nil {
			return nil, err
		}
		voters[i] = fmt.Sprintf("%d@%s", i+1, loopback(nodes[i].controllerPort))
	}
	id := clusterID()
	jvm := []string{"-Xmx512m", "-XX:-UsePerfData", "-XX:+ExitOnOutOfMemoryError",
		"-Dorg.slf4j.simpleLogger.showDateTime=true", "-cp", filepath.Join(jars, "*")}
	format, fctx := errgroup.WithContext(ctx)
	for _, n := range nodes {
		if err := os.MkdirAll(n.dir, 0o755); err != nil {
			return nil, fmt.Errorf("make the broker's folder: %w", err)
		}
		properties := filepath.Join(n.dir, "server.properties")
		if err := os.WriteFile(properties, []byte(n.properties(voters)), 0o644); err != nil {
			return nil, fmt.Errorf("write the broker's configuration: %w", err)
		}
		format.Go(func() error {
			args := append(jvm[:len(jvm):len(jvm)], "kafka.tools.StorageTool", "format", "-t", id, "-c", properties)
			if out, err := exec.CommandContext(fctx, java, args...).CombinedOutput(); err != nil {
				return fmt.Errorf("format the storage of broker %d: %w\n%s", n.id, err, out)
			}
			return nil
		})
		c.brokers = append(c.brokers, &Server{
			name: fmt.Sprintf("kafka%d", n.id),
			addr: loopback(n.port),
			ctl: &local{
				path: java, args: append(jvm[:len(jvm):len(jvm)], "kafka.Kafka", properties),
				dir: n.dir, logPath: filepath.Join(n.dir, "broker.log"),
			},
		})
	}
	if err := format.Wait(); err != nil {
		return nil, err
	}
	for _, b := range c.brokers {
		if err := b.Start(ctx); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// node is one local broker.
type node struct {
	id                   int
	port, controllerPort int
	dir                  string
}

func (n node) properties(voters []string) string {
	lines := append(settings(len(voters)),
		"process.roles=broker,controller",
		fmt.Sprintf("node.id=%d", n.id),
		"controller.quorum.voters="+strings.Join(voters, ","),
		fmt.Sprintf("listeners=PLAINTEXT://%s,CONTROLLER://%s", loopback(n.port), loopback(n.controllerPort)),
		"advertised.listeners=PLAINTEXT://"+loopback(n.port),
		"controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"log.dirs="+filepath.Join(n.dir, "data"),
	)
	return strings.Join(lines, "\n") + "\n"
}

// settings are those that local brokers and containers share.
func settings(brokers int) []string {
	insync := 1
	if brokers > 1 {
		insync = 2
	}
	return []string{
		fmt.Sprintf("default.replication.factor=%d", brokers),
		fmt.Sprintf("min.insync.replicas=%d", insync),
		"unclean.leader.election.enable=false",
		"auto.create.topics.enable=false",
		fmt.Sprintf("offsets.topic.replication.factor=%d", brokers),
		"offsets.topic.num.partitions=3", // 50 by default, which a test would wait for
		fmt.Sprintf("transaction.state.log.replication.factor=%d", brokers),
		fmt.Sprintf("transaction.state.log.min.isr=%d", insync),
		"group.min.session.timeout.ms=1000",
		"group.initial.rebalance.delay.ms=0",
		// A killed broker's partitions get another leader after this long; 9 s by default.
		"broker.session.timeout.ms=4000",
		"broker.heartbeat.interval.ms=500",
	}
}

// clusterID is what `StorageTool random-uuid` prints: 16 random bytes in URL base64, not starting with a dash.
func clusterID() string {
	for {
		var b [16]byte
		_, _ = rand.Read(b[:]) // never fails
		if id := base64.RawURLEncoding.EncodeToString(b[:]); id[0] != '-' {
			return id
		}
	}
}
