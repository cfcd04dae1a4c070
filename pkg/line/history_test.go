package line_test

import (
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/soonbeon/soonbeon/pkg/line/linetest"
)

// env reads a number from the environment: how `make mutate` and CI ask for more histories, and how a seed is replayed.
func env(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// TestHistories plays SOONBEON_HISTORIES random histories (30,000 where it isn't set) from SOONBEON_SEED on. A failing
// seed is printed and replays alone with SOONBEON_HISTORIES=1 SOONBEON_SEED=<seed>.
func TestHistories(t *testing.T) {
	runs := env("SOONBEON_HISTORIES", 30_000)
	first := env("SOONBEON_SEED", uint64(time.Now().UnixNano()))
	var mu sync.Mutex
	var sum linetest.Tally
	var next atomic.Uint64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < runs && !t.Failed(); i = next.Add(1) - 1 {
				tally, err := linetest.Play(linetest.NewSeeded(first+i), linetest.Memory())
				if err != nil {
					t.Errorf("history %d of %d: %v\nreplay: SOONBEON_HISTORIES=1 SOONBEON_SEED=%d go test -run TestHistories ./line", i+1, runs, err, first+i)
				}
				mu.Lock()
				sum.Add(tally)
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	t.Logf("%d histories from seed %d: %+v", runs, first, sum)
	if runs >= 1000 && (sum.Void == 0 || sum.Rehanded == 0 || sum.Refused == 0 || sum.Switches == 0) {
		t.Errorf("the histories are too tame: %+v", sum)
	}
}

type drawn struct{ t *rapid.T }

func (d drawn) Intn(n int) int { return rapid.IntRange(0, n-1).Draw(d.t, "") }

// TestHistoriesShrink plays the same histories by rapid, which makes a failing one small.
func TestHistoriesShrink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if _, err := linetest.Play(drawn{t}, linetest.Memory()); err != nil {
			t.Fatal(err)
		}
	})
}
