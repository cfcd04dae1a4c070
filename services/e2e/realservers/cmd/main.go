// Command cmd fetches Kafka, or runs a real Kafka and a real Redis for whoever wants to try soonbeon on them by hand
// (`make servers`), or a Kafka for as long as another command runs: a test of pkg, which can't import realservers. What it runs is for trying and testing: small heaps, no passwords, data gone at the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/soonbeon/soonbeon/services/e2e/realservers"
)

const usage = `usage:
  cmd fetch            fetch Kafka's jars into the cache folder and print where they are
  cmd run [-brokers N] start Kafka (1 or 3 brokers) and Redis, print their addresses, and end them on Ctrl-C
  cmd with [-brokers N] NAME COMMAND…
                       start Kafka, run the command with its addresses in the environment variable NAME, and end it`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	if len(args) == 0 {
		return errors.New(usage)
	}
	switch args[0] {
	case "fetch":
		jars, err := realservers.FetchKafka(ctx)
		if err != nil {
			return err
		}
		fmt.Println("Kafka", realservers.KafkaVersion, "is in", jars)
		return nil
	case "run":
		flags := flag.NewFlagSet("run", flag.ContinueOnError)
		brokers := flags.Int("brokers", 1, "how many brokers: 1 or 3")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return serve(ctx, *brokers)
	case "with":
		flags := flag.NewFlagSet("with", flag.ContinueOnError)
		brokers := flags.Int("brokers", 1, "how many brokers: 1 or 3")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if flags.NArg() < 2 {
			return errors.New(usage)
		}
		return with(ctx, *brokers, flags.Arg(0), flags.Args()[1:])
	default:
		return fmt.Errorf("no command %q\n%s", args[0], usage)
	}
}

// kafka starts Kafka for as long as use runs. What needs a folder may have that of Kafka.
func kafka(ctx context.Context, brokers int, use func(dir, addrs string) error) (err error) {
	dir, err := os.MkdirTemp("", "soonbeon-servers-*")
	if err != nil {
		return fmt.Errorf("make a folder for the servers: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	k, err := realservers.StartKafka(ctx, realservers.KafkaConfig{Brokers: brokers, Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	return use(dir, strings.Join(k.Addrs(), ","))
}

func serve(ctx context.Context, brokers int) error {
	return kafka(ctx, brokers, func(dir, addrs string) error {
		redis, end, err := realservers.StartRedis(ctx, realservers.RedisConfig{Dir: dir})
		if err != nil {
			return err
		}
		fmt.Printf("KAFKA_BROKERS=%s REDIS_ADDR=%s\n", addrs, redis.Addr())
		fmt.Printf("soonbeon standalone --kafka %s --redis %s\n", addrs, redis.Addr())
		fmt.Println("Ctrl-C ends both and removes their data.")
		<-ctx.Done()
		return end()
	})
}

func with(ctx context.Context, brokers int, name string, command []string) error {
	return kafka(ctx, brokers, func(_, addrs string) error {
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.Env = append(os.Environ(), name+"="+addrs)
		return cmd.Run()
	})
}
