package main

import (
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/standalone"
)

// serve runs a process until ctx ends, and says where it is and what to try.
func serve(ctx context.Context, s streams, cfg standalone.Config, roles standalone.Roles, name string) error {
	began := time.Now()
	logger := newLogger(s, cfg)
	defer func() { _ = logger.Sync() }()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(cfg.GCPercent(roles))
	}
	p, err := standalone.New(ctx, cfg, roles, logger)
	if err != nil {
		return err
	}
	if err := p.Start(ctx); err != nil {
		return err
	}
	fmt.Fprint(s.out, banner(cfg, roles, name, p, time.Since(began)))
	select {
	case <-ctx.Done():
	case err = <-p.Failed():
		logger.Error("a part of the process failed; stopping", zap.Error(err))
	}
	fmt.Fprintln(s.out, "stopping …")
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if stopErr := p.Stop(stop); err == nil {
		err = stopErr
	}
	if err == nil {
		fmt.Fprintln(s.out, "stopped.")
	}
	return err
}

// newLogger writes to the error stream: for people where the process is the newcomer's, else as JSON.
func newLogger(s streams, cfg standalone.Config) *zap.Logger {
	level := zapcore.InfoLevel
	switch {
	case cfg.Debug:
		level = zapcore.DebugLevel
	case cfg.Embedded():
		level = zapcore.WarnLevel
	}
	if cfg.Embedded() {
		return forPeople(s, level)
	}
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(encoding()), zapcore.Lock(zapcore.AddSync(s.err)), level))
}

// forPeople is a logger of lines that a person reads.
func forPeople(s streams, level zapcore.Level) *zap.Logger {
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(encoding()), zapcore.Lock(zapcore.AddSync(s.err)), level))
}

func encoding() zapcore.EncoderConfig {
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.ISO8601TimeEncoder
	return enc
}

// shown is how many queues are listed at the start.
const shown = 5

func banner(cfg standalone.Config, roles standalone.Roles, name string, proc *standalone.Process, took time.Duration) string {
	public, private, queues := proc.Public(), proc.Private(), proc.Queues()
	var b strings.Builder
	p := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	log, line := "Kafka at "+strings.Join(cfg.Kafka, ", "), "Redis at "+strings.Join(cfg.Redis, ", ")
	if cfg.Embedded() {
		log = "embedded log in " + cfg.Data
	}
	if len(cfg.Redis) == 0 {
		line = "line in memory"
	}
	p("soonbeon %s  %s: %s, %s", version, name, log, line)
	p("")
	switch {
	case public != "" && roles.Position && len(queues) > 0:
		p("  waiting room   http://%s/queue/wait?queue=%s", public, queues[0].ID)
	case public != "":
		p("  waiting room   http://%s", public)
	}
	p("  operators      http://%s   (dashboard; /admin/queues, /healthz, /readyz, /metrics)", private)
	for i, e := range queues {
		if i == shown {
			p("                 … and %d more: soonbeon queue list", len(queues)-shown)
			break
		}
		p("  queue          %s   %s", e.ID, speed(e.Settings))
	}
	if roles == standalone.All && len(queues) > 0 {
		id := queues[0].ID
		_, port, _ := net.SplitHostPort(public)
		p("")
		p("  take a place   curl -s -XPOST http://%s/queue/enter -H 'Content-Type: application/json' -d '{\"queue\":\"%s\"}'", public, id)
		p("                 keep the receipt of the answer: RECEIPT=…")
		p("  where am I     curl -s 'http://%s/queue/position?queue=%s' -H \"Authorization: Bearer $RECEIPT\"", public, id)
		target := ""
		if port != "8080" {
			target = " --target http://" + public
		}
		if cfg.Embedded() {
			p("  a crowd        soonbeon load --visitors 20000%s --keys-file %s/keys", target, cfg.Data)
		} else {
			p("  a crowd        soonbeon load --visitors 20000%s", target)
		}
	}
	p("")
	p("ready in %.1f s. Ctrl-C stops; what was accepted is kept.", took.Seconds())
	return b.String()
}

// speed says the rate as it will be seen: "175 people a second, 17 and 18 every 100ms".
func speed(set queue.Settings) string {
	low, high := math.Floor(set.PerBatch()), math.Ceil(set.PerBatch())
	if low == high {
		return fmt.Sprintf("%g people a second, %g every %v", set.Rate, low, set.Interval)
	}
	return fmt.Sprintf("%g people a second, %g and %g every %v", set.Rate, low, high, set.Interval)
}
