package realservers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	kafkaImage = "apache/kafka:" + KafkaVersion
	redisImage = "redis:7"
)

// engineAnswers tells whether a Docker engine runs and has compose.
func engineAnswers(ctx context.Context) bool {
	if _, err := exec.LookPath("docker"); err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	// `docker info` exits 0 without an engine in some versions, but prints no server version then.
	out, err := exec.CommandContext(ctx, "docker", "info", "--format", "{{.ServerVersion}}").Output()
	if err != nil || len(bytes.TrimSpace(out)) == 0 {
		return false
	}
	return exec.CommandContext(ctx, "docker", "compose", "version").Run() == nil
}

// project is one compose project: all that was started together, and is removed together.
type project struct {
	name string
	file string
}

func newProject(dir, compose string) (*project, error) {
	p := &project{
		name: "soonbeon-real-" + strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(clusterID())),
		file: filepath.Join(dir, "compose.yml"),
	}
	if err := os.WriteFile(p.file, []byte(compose), 0o644); err != nil {
		return nil, fmt.Errorf("write the compose file: %w", err)
	}
	return p, nil
}

func (p *project) run(ctx context.Context, args ...string) (string, error) {
	args = append([]string{"compose", "-p", p.name, "-f", p.file}, args...)
	out, err := exec.CommandContext(ctx, "docker", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("docker %s: %w\n%s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return strings.TrimSpace(string(out)), nil
}

func (p *project) down() error {
	_, err := p.run(context.Background(), "down", "--volumes", "--timeout", "0")
	return err
}

// container is the control of one service of a project.
type container struct {
	project *project
	service string

	mu     sync.Mutex
	frozen bool // the engine refuses to kill a paused container in some versions
}

func (c *container) start(ctx context.Context) error {
	// `up` creates the container, or starts the one that is there, data and all.
	_, err := c.project.run(ctx, "up", "--detach", "--no-deps", "--no-recreate", c.service)
	return err
}

func (c *container) kill() error {
	if err := c.cont(); err != nil {
		return err
	}
	if !c.alive() {
		return nil
	}
	if _, err := c.project.run(context.Background(), "kill", "--signal", "SIGKILL", c.service); err != nil {
		return err
	}
	// `kill` returns once the signal is sent; `wait` prints the exit code, and fails, once the container has ended.
	_, _ = c.project.run(context.Background(), "wait", c.service)
	if c.alive() {
		return errors.New("the container goes on after SIGKILL")
	}
	return nil
}

func (c *container) stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frozen {
		return nil
	}
	_, err := c.project.run(context.Background(), "pause", c.service)
	c.frozen = err == nil
	return err
}

func (c *container) cont() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.frozen {
		return nil
	}
	_, err := c.project.run(context.Background(), "unpause", c.service)
	c.frozen = err != nil
	return err
}

func (c *container) alive() bool {
	c.mu.Lock()
	frozen := c.frozen
	c.mu.Unlock()
	if frozen {
		return true
	}
	id, err := c.project.run(context.Background(), "ps", "--quiet", "--status", "running", c.service)
	return err == nil && id != ""
}

func (c *container) log() string {
	out, err := c.project.run(context.Background(), "logs", "--no-color", "--tail", "80", c.service)
	if err != nil {
		return "(no log: " + err.Error() + ")"
	}
	return out
}

func composeKafka(ctx context.Context, cfg KafkaConfig) (*Cluster, error) {
	held := &ports{}
	hostPorts := make([]int, cfg.Brokers)
	for i := range hostPorts {
		var err error
		if hostPorts[i], err = held.take(); err != nil {
			held.release()
			return nil, err
		}
	}
	p, err := newProject(cfg.Dir, kafkaCompose(clusterID(), hostPorts))
	if err != nil {
		held.release()
		return nil, err
	}
	c := &Cluster{close: func() error { defer held.release(); return p.down() }}
	for i, port := range hostPorts {
		name := fmt.Sprintf("kafka%d", i+1)
		c.brokers = append(c.brokers, &Server{
			name: name, addr: loopback(port), ctl: &container{project: p, service: name},
		})
	}
	for _, b := range c.brokers {
		if err := b.Start(ctx); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

func composeRedis(ctx context.Context, cfg RedisConfig) (*Server, func() error, error) {
	held := &ports{}
	port, err := held.take()
	if err != nil {
		return nil, nil, err
	}
	p, err := newProject(cfg.Dir, redisCompose(port, redisArgs(cfg)))
	if err != nil {
		held.release()
		return nil, nil, err
	}
	end := func() error { defer held.release(); return p.down() }
	s := &Server{name: "redis", addr: loopback(port), ctl: &container{project: p, service: "redis"}}
	if err := s.Start(ctx); err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return s, end, nil
}

// kafkaCompose is the compose file of a cluster whose brokers are reached at these ports of 127.0.0.1.
func kafkaCompose(id string, hostPorts []int) string {
	voters := make([]string, len(hostPorts))
	for i := range hostPorts {
		voters[i] = fmt.Sprintf("%d@kafka%d:9093", i+1, i+1)
	}
	var b strings.Builder
	b.WriteString("services:\n")
	for i, port := range hostPorts {
		fmt.Fprintf(&b, "  kafka%d:\n    image: %s\n    hostname: kafka%d\n", i+1, kafkaImage, i+1)
		fmt.Fprintf(&b, "    ports: [%q]\n    environment:\n", fmt.Sprintf("127.0.0.1:%d:9094", port))
		fmt.Fprintf(&b, "      CLUSTER_ID: %q\n      KAFKA_HEAP_OPTS: \"-Xmx512m\"\n", id)
		for _, line := range append(settings(len(hostPorts)),
			"process.roles=broker,controller",
			fmt.Sprintf("node.id=%d", i+1),
			"controller.quorum.voters="+strings.Join(voters, ","),
			"listeners=INSIDE://:9092,CONTROLLER://:9093,OUTSIDE://:9094",
			fmt.Sprintf("advertised.listeners=INSIDE://kafka%d:9092,OUTSIDE://127.0.0.1:%d", i+1, port),
			"inter.broker.listener.name=INSIDE",
			"controller.listener.names=CONTROLLER",
			"listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
			"log.dirs=/var/lib/kafka/data",
		) {
			key, value, _ := strings.Cut(line, "=")
			key = "KAFKA_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
			fmt.Fprintf(&b, "      %s: %q\n", key, value)
		}
	}
	return b.String()
}

func redisCompose(port int, args []string) string {
	command := []string{strconv.Quote("redis-server")}
	for _, arg := range args {
		command = append(command, strconv.Quote(arg))
	}
	return fmt.Sprintf("services:\n  redis:\n    image: %s\n    ports: [%q]\n    command: [%s]\n",
		redisImage, fmt.Sprintf("127.0.0.1:%d:6379", port), strings.Join(command, ", "))
}
