package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		stop()
		os.Exit(1)
	}
}

// options of a run.
type options struct {
	seed     uint64
	rounds   int           // 0: as many as fit
	lasts    time.Duration // no round begins after this
	deeds    int           // of a round
	kills    int           // cycles of kill -9 instead of rounds
	entries  int           // with kills: go on until so many were acknowledged
	rate     int
	arrivals float64
	others   float64
	keep     bool
	plan     bool // print the plan and do nothing
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o := options{}
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.Uint64Var(&o.seed, "seed", 0, "what the plan is drawn from; 0: the time")
	flags.IntVar(&o.rounds, "rounds", 0, "rounds; 0: as many as begin within -for")
	flags.DurationVar(&o.lasts, "for", 10*time.Minute, "no round begins after this")
	flags.IntVar(&o.deeds, "deeds", 4, "things done in a round")
	flags.IntVar(&o.kills, "kills", 0, "instead of rounds: so many cycles of kill -9 for each of enter, projector, issuer, Redis and a broker")
	flags.IntVar(&o.entries, "entries", 100_000, "with -kills: more cycles until so many entries were acknowledged")
	flags.IntVar(&o.rate, "rate", 175, "people a second that are let in")
	flags.Float64Var(&o.arrivals, "arrivals", 190, "new visitors a second")
	flags.Float64Var(&o.others, "others", 150, "polls, refreshes and departures a second, beside those of who was admitted")
	flags.BoolVar(&o.keep, "keep", false, "keep the folder with data and logs, and print where it is")
	flags.BoolVar(&o.plan, "plan", false, "print the plan and do nothing")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano())
	}
	if o.deeds < 1 || o.rounds < 0 || o.kills < 0 || o.rate < 1 {
		return errors.New("-deeds and -rate are 1 or more, -rounds and -kills are not negative")
	}
	if o.plan {
		p := newPlan(o.seed)
		for i := range max(o.rounds, 10) {
			fmt.Fprintf(out, "round %d\n%s", i+1, describe(p.round(o.deeds)))
		}
		return nil
	}
	dir, err := os.MkdirTemp("", "soonbeon-chaos-")
	if err != nil {
		return fmt.Errorf("a folder for the servers: %w", err)
	}
	if o.keep {
		fmt.Fprintf(out, "folder: %s\n", dir)
	} else {
		defer func() { _ = os.RemoveAll(dir) }()
	}
	return unleash(ctx, o, dir, out)
}

// unleash launches the system in dir, plays rounds or cycles before it, and ends it.
func unleash(ctx context.Context, o options, dir string, out io.Writer) (err error) {
	fmt.Fprintf(out, "seed %d: %d people a second, %g arrivals and %g other acts a second\n", o.seed, o.rate, o.arrivals, o.others)
	f, err := launch(ctx, dir, o.rate)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	c, err := newCrowd(f, o.seed, o.arrivals, o.others)
	if err != nil {
		return err
	}
	going, recall := context.WithCancel(ctx)
	gone := make(chan struct{})
	go func() { defer close(gone); c.run(going) }()
	defer func() { recall(); <-gone }()
	s := &show{options: o, f: f, c: c, judge: &judge{f: f, c: c, truth: newTruth()}, out: out}
	if err := s.goesOn(ctx, 100); err != nil {
		return fmt.Errorf("before anything was done: %w", err)
	}
	if o.kills > 0 {
		return s.kill(ctx)
	}
	return s.play(ctx)
}
