package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// options of a run.
type options struct {
	only    []string
	quick   bool
	write   bool
	profile string

	conns  int           // connections of the generator
	rounds int           // of each side
	round  time.Duration // length of one
	line   int           // people in the long line
	apply  int           // records of one round of projection
	flood  time.Duration // how long entries pour in
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == sideArg {
		return serveSide(os.Stdin, os.Stdout)
	}
	o := options{}
	var only string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&only, "only", "", "rows to measure, separated by commas: "+strings.Join(names(), ", "))
	flags.BoolVar(&o.quick, "quick", false, "a smoke run: short rounds and a short line; its numbers mean nothing")
	flags.BoolVar(&o.write, "write", false, "write docs/benchmarks.md (needs all rows)")
	flags.StringVar(&o.profile, "profile", "", "folder for the CPU profile of every server process")
	flags.IntVar(&o.conns, "conns", 256, "connections of the generator")
	flags.IntVar(&o.rounds, "rounds", 7, "rounds of each side")
	flags.DurationVar(&o.round, "round", 2*time.Second, "length of a round")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	o.line, o.apply, o.flood = 1_000_000, 250_000, 10*time.Second
	if o.quick {
		o.rounds, o.round, o.line, o.apply, o.flood = 2, 300*time.Millisecond, 50_000, 20_000, 2*time.Second
	}
	if only != "" {
		o.only = strings.Split(only, ",")
	}
	for _, name := range o.only {
		if !slices.Contains(names(), name) {
			return fmt.Errorf("-only: there is no row %.40q; there are %s", name, strings.Join(names(), ", "))
		}
	}
	if o.write && (o.quick || len(o.only) > 0) {
		return errors.New("-write: the document takes whole runs only, without -only and -quick")
	}
	return measure(ctx, o)
}

// measure runs the chosen rows, one after another, and reports what came of them.
func measure(ctx context.Context, o options) (err error) {
	busy := busyness()
	b, err := newBench(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	var results []result
	var failed []error
	for _, g := range groups() {
		if len(o.only) > 0 && !slices.Contains(o.only, g.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "measuring %s\n", g.name)
		got, err := g.measure(ctx, b)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", g.name, err))
			fmt.Fprintf(os.Stderr, "  failed: %v\n", err)
		}
		for _, r := range got {
			fmt.Fprintf(os.Stderr, "  %s\n", r)
		}
		results = append(results, got...)
	}
	fmt.Print(table(results))
	if err := errors.Join(failed...); err != nil {
		return err
	}
	if o.write {
		return writeDocument(results, busy)
	}
	return nil
}
