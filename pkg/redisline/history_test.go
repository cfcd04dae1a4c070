package redisline

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/soonbeon/soonbeon/pkg/line/linetest"
	"github.com/soonbeon/soonbeon/pkg/redisline/redislinetest"
)

func env(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

func play(t *testing.T, rdb redis.UniversalClient, runs uint64) {
	first := env("SOONBEON_SEED", uint64(time.Now().UnixNano()))
	var sum linetest.Tally
	for i := range runs {
		tally, err := linetest.Play(linetest.NewSeeded(first+i), newTarget(t, rdb, "h"))
		if err != nil {
			t.Fatalf("history %d of %d: %v\nreplay: SOONBEON_REDIS_HISTORIES=1 SOONBEON_SEED=%d go test -run %s ./redisline", i+1, runs, err, first+i, t.Name())
		}
		sum.Add(tally)
	}
	t.Logf("%d histories from seed %d: %+v", runs, first, sum)
	if runs >= 50 && (sum.Loads == 0 || sum.LostLoads == 0) {
		t.Errorf("the histories are too tame: %+v", sum)
	}
}

// TestHistoriesOnRealRedis plays SOONBEON_REDIS_HISTORIES histories (400 where it isn't set) on a redis-server.
func TestHistoriesOnRealRedis(t *testing.T) {
	play(t, redislinetest.Start(t), env("SOONBEON_REDIS_HISTORIES", 400))
}

// TestHistoriesOnMiniredis is for machines without redis-server: the scripts' logic alone.
func TestHistoriesOnMiniredis(t *testing.T) {
	m := miniredis.RunT(t)
	rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{m.Addr()}, MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	play(t, rdb, min(50, env("SOONBEON_REDIS_HISTORIES", 50)))
}
