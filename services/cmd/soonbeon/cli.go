package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/alecthomas/kong"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/services/load"
	"github.com/soonbeon/soonbeon/services/standalone"
)

// version of the program. 0.1.0 is not released yet.
const version = "0.1.0"

// exitCode ends the program without another word: what there is to say was printed.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

type cli struct {
	Standalone  standaloneCmd  `cmd:"" help:"Run everything in one process: embedded log and line in memory, or Kafka and Redis by their addresses."`
	Enter       enterCmd       `cmd:"" help:"Run the enter service: takes everybody's place in line, durably."`
	Projector   projectorCmd   `cmd:"" help:"Run the projector: applies the log to Redis."`
	Issuer      issuerCmd      `cmd:"" help:"Run the issuer: lets people through at the queue's rate."`
	Position    positionCmd    `cmd:"" help:"Run the position service: tells people where they stand, and hands out entry tokens."`
	Gate        gateCmd        `cmd:"" help:"Run the gate for a proxy in front of the site: nginx, Envoy, Traefik, Caddy, HAProxy."`
	Load        loadCmd        `cmd:"" help:"Send a crowd to a waiting room and check what was promised to it."`
	Queue       queueCmd       `cmd:"" help:"Run queues: make, set, pause, resume, close, delete, and see who did what."`
	Audit       auditCmd       `cmd:"" help:"Prove from the log what happened in a queue, and compare Redis with it; exit code 1 when something is wrong."`
	Replay      replayCmd      `cmd:"" help:"Rebuild the line in Redis from the log, compare the two, or show the line as it was."`
	Drill       drillCmd       `cmd:"" help:"Rehearse an outage: break Redis under a crowd, mend it, watch from outside, and prove what happened."`
	Healthcheck healthcheckCmd `cmd:"" help:"Ask a process on this machine whether it is ready; exit code 1 when not. For container health checks."`
	Keys        keysCmd        `cmd:"" help:"Print a fresh key for --keys or --site-keys."`
	Version     versionCmd     `cmd:"" help:"Print the version."`
}

// streams are where commands print.
type streams struct{ out, err io.Writer }

func run(ctx context.Context, args []string, out, errs io.Writer) error {
	exited := -1
	parser, err := kong.New(&cli{}, kong.Name("soonbeon"),
		kong.Description("An open-source virtual waiting room. Each flag can be given by the environment too, as SOONBEON_<FLAG>."),
		kong.DefaultEnvars("SOONBEON"), kong.Writers(out, errs), kong.Exit(func(code int) { exited = code }), kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}))
	if err != nil {
		return fmt.Errorf("building the command line: %w", err)
	}
	k, err := parser.Parse(args)
	if exited >= 0 { // --help
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w (`soonbeon --help` explains)", err)
	}
	k.BindTo(ctx, (*context.Context)(nil))
	return k.Run(streams{out, errs})
}

type standaloneCmd struct{ standalone.Config }

func (c *standaloneCmd) Run(ctx context.Context, s streams) error {
	return serve(ctx, s, c.Config, standalone.All, "standalone")
}

type enterCmd struct{ standalone.Config }

func (c *enterCmd) Run(ctx context.Context, s streams) error {
	return serve(ctx, s, c.Config, standalone.Roles{Enter: true}, "enter")
}

type projectorCmd struct{ standalone.Config }

func (c *projectorCmd) Run(ctx context.Context, s streams) error {
	return serve(ctx, s, c.Config, standalone.Roles{Projector: true}, "projector")
}

type issuerCmd struct{ standalone.Config }

func (c *issuerCmd) Run(ctx context.Context, s streams) error {
	return serve(ctx, s, c.Config, standalone.Roles{Issuer: true}, "issuer")
}

type positionCmd struct{ standalone.Config }

func (c *positionCmd) Run(ctx context.Context, s streams) error {
	return serve(ctx, s, c.Config, standalone.Roles{Position: true}, "position")
}

type loadCmd struct{ load.Config }

func (c *loadCmd) Run(ctx context.Context, s streams) error {
	c.Progress = s.err
	report, err := load.Run(ctx, c.Config, s.out)
	if err != nil {
		return err
	}
	if code := report.ExitCode(); code != 0 {
		return exitCode(code)
	}
	return nil
}

type healthcheckCmd struct {
	Admin string `help:"Address of the private port." default:"127.0.0.1:8081"`
	Alive bool   `help:"Ask only whether it is alive, not whether it is ready."`
}

func (c *healthcheckCmd) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	path := "/readyz"
	if c.Alive {
		path = "/healthz"
	}
	host, port, err := net.SplitHostPort(c.Admin)
	if err != nil {
		return fmt.Errorf("--admin: %w", err)
	}
	if host == "" || host == "0.0.0.0" || host == "::" { // what it listens on is not where to ask
		host = "127.0.0.1"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+path, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(res.Body, 4096))
		return fmt.Errorf("%s answers %s: %s", path, res.Status, body)
	}
	return nil
}

type keysCmd struct{}

func (keysCmd) Run(s streams) error {
	key, err := pass.GenerateKeys()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.out, key)
	return err
}

type versionCmd struct{}

func (versionCmd) Run(s streams) error {
	_, err := fmt.Fprintln(s.out, "soonbeon "+version)
	return err
}
