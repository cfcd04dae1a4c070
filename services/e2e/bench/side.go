package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/httpapi"
	"github.com/soonbeon/soonbeon/services/standalone"
)

// sideArg makes the program one side of a comparison. What it serves is one line of JSON on its standard input; it prints
// its address, answers each further line with the CPU time that it has used and what lives in its memory, and ends with its input.
const sideArg = "-serve-side"

// sideKind is what a side serves.
type sideKind string

const (
	bareEcho    sideKind = "echo"    // a handler that answers two bytes
	bareProduce sideKind = "produce" // the same server as soonbeon's, with a handler that calls ProduceSync
	shipped     sideKind = "shipped" // soonbeon
)

type sideSpec struct {
	Name    string
	Kind    sideKind
	Profile string            // file; "" for none
	Kafka   []string          // bareProduce
	Queue   queue.ID          // bareProduce
	Config  standalone.Config // shipped
	Roles   standalone.Roles  // shipped
}

// side is a running one.
type side struct {
	addr  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Reader
}

// startSide starts spec as a process, and returns once it serves.
func startSide(ctx context.Context, spec sideSpec) (*side, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &side{cmd: exec.CommandContext(ctx, self, sideArg)}
	s.cmd.Stderr = os.Stderr
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.lines = bufio.NewReader(stdout)
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	if err := json.NewEncoder(s.stdin).Encode(spec); err != nil {
		return nil, errors.Join(fmt.Errorf("tell %s what to serve: %w", spec.Name, err), s.close())
	}
	addr, err := s.lines.ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s did not start: %w", spec.Name, err), s.close())
	}
	s.addr = strings.TrimSpace(addr)
	return s, nil
}

// cpu is the CPU time that the process has used so far.
func (s *side) cpu() (time.Duration, error) {
	used, _, err := s.use()
	return used, err
}

// use is the CPU time that the process has used so far, and how many bytes its heap and its stacks held at the last collection.
func (s *side) use() (cpu time.Duration, live int64, err error) {
	if _, err := s.stdin.Write([]byte("\n")); err != nil {
		return 0, 0, err
	}
	line, err := s.lines.ReadString('\n')
	if err != nil {
		return 0, 0, err
	}
	_, err = fmt.Sscan(line, (*int64)(&cpu), &live)
	return cpu, live, err
}

// close ends the process and waits for it.
func (s *side) close() error {
	_ = s.stdin.Close()
	return s.cmd.Wait()
}

// serveSide is the side's own process.
func serveSide(in io.Reader, out io.Writer) (err error) {
	lines := bufio.NewReader(in)
	first, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	var spec sideSpec
	if err := json.Unmarshal(first, &spec); err != nil {
		return err
	}
	if spec.Profile != "" {
		stop, err := startProfile(spec.Profile)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	addr, stop, err := serve(spec)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, addr)
	for {
		if _, err := lines.ReadBytes('\n'); err != nil {
			return stop()
		}
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			return err
		}
		memory := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
		metrics.Read(memory)
		fmt.Fprintln(out, u.Utime.Nano()+u.Stime.Nano(), memory[0].Value.Uint64()+memory[1].Value.Uint64())
	}
}

func startProfile(file string) (stop func() error, err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, err
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, nil
}

func serve(spec sideSpec) (addr string, stop func() error, err error) {
	if spec.Kind == shipped {
		return serveShipped(spec)
	}
	if spec.Kind == bareProduce {
		return serveProduce(spec)
	}
	e := echo.New()
	answer := func(c echo.Context) error { return c.String(http.StatusOK, "ok") }
	e.GET("/queue/position", answer)
	e.POST("/queue/enter", answer)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: e, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	return listener.Addr().String(), server.Close, nil
}

// serveProduce is soonbeon's own echo server, middleware and time-outs included, with a handler that decodes nothing.
func serveProduce(spec sideSpec) (addr string, stop func() error, err error) {
	client, err := kgo.NewClient(writerOpts(spec.Kafka)...)
	if err != nil {
		return "", nil, err
	}
	e, err := httpapi.New(httpapi.Config{}, zap.NewNop(), prometheus.NewRegistry())
	if err != nil {
		return "", nil, err
	}
	topic, value := linelog.TopicOf(spec.Queue), make([]byte, 26) // as long as an entry
	e.POST("/queue/enter", func(c echo.Context) error {
		if err := client.ProduceSync(c.Request().Context(), &kgo.Record{Topic: topic, Value: value}).FirstErr(); err != nil {
			return err
		}
		return c.String(http.StatusAccepted, "ok")
	})
	ctx := context.Background()
	server := httpapi.NewServer(httpapi.ServerConfig{Name: "bare", Address: "127.0.0.1:0"}, e, zap.NewNop())
	if err := server.Start(ctx); err != nil {
		return "", nil, err
	}
	return server.Addr(), func() error { defer client.Close(); return server.Stop(ctx) }, nil
}

// writerOpts are those of linelog's Writer.
func writerOpts(brokers []string) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(brokers...),
		kgo.DisableClientMetrics(),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(2 * time.Millisecond),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(linelog.DefaultMaxBuffered),
		kgo.MaxBufferedBytes(linelog.DefaultMaxBufferedBytes),
		kgo.ProduceRequestTimeout(2 * time.Second),
		kgo.RecordDeliveryTimeout(linelog.DefaultAppendTimeout),
	}
}

func serveShipped(spec sideSpec) (addr string, stop func() error, err error) {
	ctx := context.Background()
	cfg := zap.NewProductionConfig()
	cfg.Level = zap.NewAtomicLevelAt(zap.WarnLevel)
	logger, err := cfg.Build()
	if err != nil {
		return "", nil, err
	}
	debug.SetGCPercent(spec.Config.GCPercent(spec.Roles)) // as the command does
	p, err := standalone.New(ctx, spec.Config, spec.Roles, logger)
	if err != nil {
		return "", nil, err
	}
	if err := p.Start(ctx); err != nil {
		return "", nil, err
	}
	return p.Public(), func() error {
		ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
		defer cancel()
		return p.Stop(ctx)
	}, nil
}

// shippedConfig is the command line's default, on free ports, with what the arguments name.
func shippedConfig(id queue.ID, keys string, kafka, redis []string, data string) standalone.Config {
	c := standalone.Config{
		Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Data: data, Queues: []string{string(id)},
		Rate: 175, Interval: 100 * time.Millisecond, GrantTTL: 300 * time.Second, Reentry: "back", Identity: "anonymous",
		Keys: keys, Kafka: kafka, Redis: redis, StartTimeout: time.Minute,
	}
	c.Replication, c.Retention = 1, linelog.DefaultRetention
	return c
}
