// Command mutate breaks each rule of the fold, of handing out and of the leader's numbers in turn, and sees the random
// histories fail: a test that can't fail proves nothing. Nothing in the tree is touched: a broken file is laid over the right
// one for one build (go test -overlay).
//
// It first plays a million histories on the rules as they are, which must hold. It exits with 1 when they don't, or when a
// broken rule was not noticed. Run it by `make mutate`; the table of rules is in table.go and docs/testing.md.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	histories := flags.Int("histories", 1_000_000, "histories in memory, at the most, for each rule")
	onRedis := flags.Int("redis-histories", 5000, "histories on a real Redis, at the most, for each rule; 0 leaves Redis out")
	only := flags.String("only", "", "only rules that contain this")
	baseline := flags.Bool("baseline", true, "play the histories on the rules as they are first")
	seed := flags.Uint64("seed", uint64(time.Now().UnixNano()), "first seed")
	if err := flags.Parse(args); err != nil {
		return err
	}
	pkg, err := filepath.Abs("../pkg") // go run is in services
	if err != nil {
		return err
	}
	if _, err := exec.LookPath("redis-server"); err != nil && *onRedis > 0 {
		fmt.Println("redis-server is not on the PATH: the scripts' rules are left out")
		*onRedis = 0
	}
	m := &mutator{pkg: pkg, seed: *seed}
	suites := []struct {
		name      string
		test      string
		dir       string
		count     string
		histories int
		table     []mutation
	}{
		{"memory", "^TestHistories$", "./line", "SOONBEON_HISTORIES", *histories, inMemory},
		{"Redis", "^TestHistoriesOnRealRedis$", "./redisline", "SOONBEON_REDIS_HISTORIES", *onRedis, inRedis},
	}
	survived := 0
	for _, s := range suites {
		if s.histories == 0 {
			continue
		}
		m.test, m.dir, m.count = s.test, s.dir, s.count
		if *baseline {
			n := s.histories
			fmt.Printf("%-7s the rules as they are: %d histories … ", s.name, n)
			began := time.Now()
			if out, err := m.play(ctx, "", n); err != nil {
				fmt.Println("FAIL")
				return fmt.Errorf("the rules as they are do not hold:\n%s", out)
			}
			fmt.Printf("hold (%s)\n", time.Since(began).Round(time.Second))
		}
		for _, mut := range s.table {
			if !strings.Contains(mut.rule, *only) {
				continue
			}
			fmt.Printf("%-7s without «%s»: ", s.name, mut.rule)
			after, err := m.break1(ctx, mut, s.histories)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.Is(err, errSurvived):
				fmt.Println("NOT NOTICED")
				survived++
			case err != nil:
				fmt.Println("can't be tried:", err)
				survived++
			default:
				fmt.Printf("noticed by history %d\n", after)
			}
		}
	}
	if survived > 0 {
		return fmt.Errorf("%d broken rules were not noticed, or not tried", survived)
	}
	return nil
}

var errSurvived = errors.New("all histories held")

type mutator struct {
	pkg, test, dir, count string
	seed                  uint64
}

var failedAt = regexp.MustCompile(`history (\d+) of`)

// break1 lays the broken file over the right one and plays until a history fails; it returns which.
func (m *mutator) break1(ctx context.Context, mut mutation, histories int) (int, error) {
	path := filepath.Join(m.pkg, mut.file)
	src, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	fresh := src
	for _, change := range [][2]string{{mut.old, mut.fresh}, mut.also} {
		if change[0] == "" {
			continue
		}
		if n := bytes.Count(fresh, []byte(change[0])); n != 1 {
			return 0, fmt.Errorf("%s has the place %d times; the table is out of date", mut.file, n)
		}
		fresh = bytes.Replace(fresh, []byte(change[0]), []byte(change[1]), 1)
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	broken := filepath.Join(dir, filepath.Base(mut.file))
	if err := os.WriteFile(broken, fresh, 0o600); err != nil {
		return 0, err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: broken}})
	if err != nil {
		return 0, err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return 0, err
	}
	out, err := m.play(ctx, file, histories)
	if err == nil {
		return 0, errSurvived
	}
	found := failedAt.FindSubmatch(out)
	if found == nil && !bytes.Contains(out, []byte("panic:")) && !bytes.Contains(out, []byte("--- FAIL")) {
		return 0, fmt.Errorf("it did not come to a history:\n%s", out)
	}
	if found == nil {
		return 1, nil // it broke down at once
	}
	return strconv.Atoi(string(found[1]))
}

func (m *mutator) play(ctx context.Context, overlay string, histories int) ([]byte, error) {
	args := []string{"test", "-count=1", "-vet=off", "-timeout=60m", "-run", m.test}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, m.dir)...)
	cmd.Dir = m.pkg
	cmd.Env = append(os.Environ(), m.count+"="+strconv.Itoa(histories), "SOONBEON_SEED="+strconv.FormatUint(m.seed, 10), "SOONBEON_REAL=1")
	return cmd.CombinedOutput()
}
