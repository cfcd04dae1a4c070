package drill

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/audit"
	"github.com/soonbeon/soonbeon/services/plot/plottest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small is a drill of a few seconds.
// small is a drill at a rate below that at which people come, so that pollers are told where they stand, however slow the machine is.
func small(t testing.TB) Config {
	return Config{
		Queue: "main", Target: []string{"set by the test"}, Visitors: 150, Rate: 100, ExpectRate: 50, Pollers: 20, PollEvery: 200 * time.Millisecond,
		BreakAt: 2 * time.Second, MendAt: 3 * time.Second, Timeout: 2 * time.Minute, CommandTimeout: 10 * time.Second,
		Connections: 16, HTML: filepath.Join(t.TempDir(), "drill.html"),
	}
}

// inMemory is all services on an embedded log, with the line in memory: nothing that a command can break.
func inMemory(t testing.TB, cfg Config, breakIt, mendIt string) *system {
	t.Helper()
	sys, stop, err := services(t.Context(), cfg, t.TempDir(), nil, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stop()) })
	sys.what, sys.hands = "a system in memory", commands{breakIt, mendIt}
	return sys
}

// lines is what was printed; it signals when something was.
type lines struct {
	mu   sync.Mutex
	b    bytes.Buffer
	want string
	seen chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.b.Write(p)
	if l.want != "" && strings.Contains(l.b.String(), l.want) {
		l.want = ""
		close(l.seen)
	}
	return n, err
}

func (l *lines) String() string { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

func start(t testing.TB, ctx context.Context, cfg Config, sys *system, out *lines, judge auditing) *Report {
	t.Helper()
	rep, err := play(ctx, cfg.withDefaults(), sys, out, zap.NewNop(), judge)
	require.NoError(t, err)
	return rep
}

func TestADrillThatShowsNothingIsNotWhole(t *testing.T) {
	t.Parallel()
	cfg, out := small(t), &lines{}
	sys := inMemory(t, cfg, "echo broken", "echo whole again")
	rep := start(t, t.Context(), cfg, sys, out, audit.Run)

	require.Empty(t, rep.Wrong, out)
	require.Len(t, rep.Incomplete, 1, out)
	require.Contains(t, rep.Incomplete[0], "never became approximate")
	require.Equal(t, ExitIncomplete, rep.ExitCode())
	require.Equal(t, int64(150), rep.Crowd.Admitted)
	require.Equal(t, rep.Audit.Accepted, rep.Crowd.Accepted+rep.Pollers.Came)
	require.Equal(t, rep.Audit.Admitted, rep.Audit.Accepted, "the pollers, too, stay until they are in")
	require.Equal(t, "broken\n", rep.Break.Output)
	require.Equal(t, "whole again\n", rep.Mend.Output)
	for _, want := range []string{"00:00 150 visitors entering, 100 a second; 20 pollers ask every 200ms", "00:02 break: echo broken", "exit 0",
		"00:03 mend: echo whole again", "all in", "0 lost · 0 twice · order kept", "incomplete  positions never became", "report      "} {
		require.Contains(t, out.String(), want)
	}
	page, err := os.ReadFile(cfg.HTML)
	require.NoError(t, err)
	for _, want := range []string{"Drill of queue main", "echo whole again", ">break</text>", ">mend</text>", "Not a whole rehearsal", "Admissions a second"} {
		require.Contains(t, string(page), want)
	}
	plottest.WellFormed(t, string(page))
	var korean strings.Builder
	require.NoError(t, rep.WriteHTML(&korean, "ko"))
	text := plottest.Korean(t, korean.String(), "echo broken", "echo whole again", rep.Audit.Claims[0].Issuer, sys.what)
	for _, want := range []string{"대기열 main 장애 훈련", "온전한 훈련이 아닙니다.", "순번이 근사로 바뀐 적이 없습니다", "외부에서 본 모습", "장애: echo broken"} {
		require.Contains(t, text, want)
	}
}

// The audit's word is final: whatever the crowd saw.
func TestAFailedAuditFailsTheDrill(t *testing.T) {
	t.Parallel()
	cfg, out := small(t), &bytes.Buffer{}
	cfg.JSON = true
	sys := inMemory(t, cfg, "true", "true")
	rep, err := play(t.Context(), cfg.withDefaults(), sys, out, zap.NewNop(), func(ctx context.Context, cfg audit.Config, log audit.Source) (*audit.Report, error) {
		rep, err := audit.Run(ctx, cfg, log)
		if err == nil {
			rep.Findings = append([]audit.Finding{{Kind: audit.Passed, Wrong: true, Title: "people were passed", Count: 3, Examples: []audit.Example{}}}, rep.Findings...)
		}
		return rep, err
	})
	require.NoError(t, err)
	require.Equal(t, ExitWrong, rep.ExitCode())
	require.Equal(t, []string{"the audit: people were passed (3)"}, rep.Wrong)
	var told struct {
		OK       bool `json:"ok"`
		ExitCode int  `json:"exitCode"`
		Audit    struct {
			OK bool `json:"ok"`
		} `json:"audit"`
		Crowd  struct{ Admitted int64 } `json:"crowd"`
		Events []Event                  `json:"events"`
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &told), "JSON and nothing else: %s", out)
	require.False(t, told.OK)
	require.Equal(t, ExitWrong, told.ExitCode)
	require.False(t, told.Audit.OK)
	require.Equal(t, int64(150), told.Crowd.Admitted)
	require.NotEmpty(t, told.Events)
	page, err := os.ReadFile(cfg.HTML)
	require.NoError(t, err)
	require.Contains(t, string(page), "A promise was broken.")
}

func TestABreakCommandThatFailsEndsTheDrill(t *testing.T) {
	t.Parallel()
	cfg, out := small(t), &lines{}
	cfg.MendAt = time.Minute
	mended := filepath.Join(t.TempDir(), "mended")
	began := time.Now()
	rep := start(t, t.Context(), cfg, inMemory(t, cfg, "echo no such container >&2; exit 3", "touch "+mended), out, audit.Run)
	require.Less(t, time.Since(began), 50*time.Second, "nobody waits for a mending that has nothing to mend")
	require.Equal(t, ExitIncomplete, rep.ExitCode())
	require.Contains(t, rep.Incomplete[0], "the break command failed")
	require.Equal(t, 3, rep.Break.Exit)
	require.Contains(t, out.String(), "exit 3\n      no such container\n")
	require.Nil(t, rep.Audit)
	require.FileExists(t, mended, "something may be half broken")
	require.NoFileExists(t, cfg.HTML)
}

func TestAMendCommandThatFailsIsToldAndTheDrillGoesOn(t *testing.T) {
	t.Parallel()
	cfg, out := small(t), &lines{}
	cfg.CommandTimeout = 500 * time.Millisecond
	rep := start(t, t.Context(), cfg, inMemory(t, cfg, "true", "sleep 600"), out, audit.Run)
	require.Equal(t, ExitIncomplete, rep.ExitCode())
	require.Contains(t, rep.Incomplete[0], "the mend command failed: ended by the drill: it took more than the --command-timeout of 500ms")
	require.Contains(t, out.String(), "mend: sleep 600")
	require.Equal(t, int64(150), rep.Crowd.Admitted)
	require.NotNil(t, rep.Audit)
}

func TestAnInterruptedDrillMends(t *testing.T) {
	t.Parallel()
	cfg, out := small(t), &lines{want: "break: ", seen: make(chan struct{})}
	cfg.MendAt = time.Minute
	mended := filepath.Join(t.TempDir(), "mended")
	sys := inMemory(t, cfg, "true", "sleep 1; touch "+mended)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	go func() {
		<-out.seen
		interrupt()
	}()
	began := time.Now()
	rep := start(t, ctx, cfg, sys, out, audit.Run)
	require.Less(t, time.Since(began), 50*time.Second)
	require.FileExists(t, mended, "the mending is given its time")
	require.Equal(t, "interrupted", rep.Cut)
	require.Equal(t, ExitIncomplete, rep.ExitCode())
	require.Nil(t, rep.Audit)
	require.Contains(t, out.String(), "incomplete  interrupted")
}

func TestADrillInterruptedBeforeItsBreakBreaksNothing(t *testing.T) {
	t.Parallel()
	cfg, out := small(t), &lines{want: "visitors entering", seen: make(chan struct{})}
	cfg.BreakAt, cfg.MendAt = 50*time.Second, 60*time.Second
	touched := filepath.Join(t.TempDir(), "touched")
	sys := inMemory(t, cfg, "touch "+touched, "touch "+touched)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	go func() {
		<-out.seen
		interrupt()
	}()
	rep := start(t, ctx, cfg, sys, out, audit.Run)
	require.NoFileExists(t, touched)
	require.Nil(t, rep.Break)
	require.Nil(t, rep.Mend)
}

func TestADrillEndsWhenItsTimeIsUp(t *testing.T) {
	t.Parallel()
	cfg, out := small(t), &lines{}
	cfg.ExpectRate, cfg.Timeout = 1, 4*time.Second // 170 people, one a second
	rep := start(t, t.Context(), cfg, inMemory(t, cfg, "true", "true"), out, audit.Run)
	require.Equal(t, "timeout", rep.Cut)
	require.Equal(t, ExitIncomplete, rep.ExitCode())
	require.NotNil(t, rep.Audit, "what is known by then is proved")
	require.Contains(t, rep.Incomplete, "the time was up")
}

// A proof from another log than the target's proves nothing.
func TestAnotherLogThanTheTargetsIsNoProof(t *testing.T) {
	t.Parallel()
	cfg, out := small(t), &lines{}
	sys, other := inMemory(t, cfg, "true", "true"), inMemory(t, cfg, "true", "true")
	sys.reach = other.reach
	rep := start(t, t.Context(), cfg, sys, out, audit.Run)
	require.Equal(t, ExitWrong, rep.ExitCode())
	require.Contains(t, rep.Wrong[0], "is it the target's log?")
}

func TestATargetThatIsNotThereIsToldBeforeAnythingIsBroken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := l.Addr().String()
	require.NoError(t, l.Close())
	broken := filepath.Join(t.TempDir(), "broken")
	cfg := small(t)
	there := inMemory(t, cfg, "", "")
	for _, c := range []struct{ target, kafka, queue, want string }{
		{"http://" + nobody, there.reach.Kafka[0], "main", "nothing answers at http://" + nobody + " (connection refused): start it first"},
		{there.target[0], nobody, "main", "no broker answers"},
		{there.target[0], there.reach.Kafka[0], "other", "has no queue other"},
	} {
		cfg.Target, cfg.Kafka, cfg.Queue = []string{c.target}, []string{c.kafka}, c.queue
		cfg.Break, cfg.Mend = "touch "+broken, "touch "+broken
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := Run(ctx, cfg, &lines{}, zap.NewNop())
		cancel()
		require.ErrorContains(t, err, c.want)
		require.NoFileExists(t, broken)
	}
}

func TestConfigTellsEveryMistake(t *testing.T) {
	err := Config{Target: []string{"http://192.0.2.1"}, BreakAt: time.Minute, MendAt: time.Second, Pollers: -1, PollEvery: time.Millisecond, Visitors: -2, KeepData: true}.Validate()
	for _, want := range []string{"--break and --mend are needed", "--kafka is needed", "192.0.2.1", "--break-at is before --mend-at", "--pollers is 1 to 10,000",
		"--poll-every is 100ms to 1m0s", "--visitors is 1 to", "--keep-data"} {
		require.ErrorContains(t, err, want)
	}
	err = Config{Kafka: []string{"x:1"}, Break: "x"}.Validate()
	require.ErrorContains(t, err, "--kafka goes with --target")
	require.ErrorContains(t, err, "--break goes with --target")
	require.NoError(t, Config{}.Validate(), "without a flag it drills its own system")
	require.NoError(t, Config{Target: []string{"http://127.0.0.1:1"}, Kafka: []string{"x:1"}, Break: "a", Mend: "b"}.Validate())
}

func needsRedis(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("SOONBEON_REAL") != "" {
			t.Fatal("redis-server is not on the PATH: install Redis 7 or later")
		}
		t.Skip("redis-server is not on the PATH")
	}
}

// The outage is too short for the leader to leave Redis, so this takes some ten seconds; on a slow machine it leaves, and it
// takes forty.
func TestADrillOfItsOwnRedis(t *testing.T) {
	needsRedis(t)
	t.Parallel()
	for _, keep := range []bool{false, true} {
		t.Run(map[bool]string{false: "empty", true: "with its data"}[keep], func(t *testing.T) {
			t.Parallel()
			cfg, out := small(t), &lines{}
			cfg.Target, cfg.KeepData = nil, keep
			cfg.Visitors, cfg.Rate, cfg.BreakAt, cfg.MendAt = 600, 300, 2*time.Second, 3300*time.Millisecond
			rep, err := Run(t.Context(), cfg, out, zap.NewNop())
			require.NoError(t, err)
			require.Empty(t, rep.Wrong, out)
			require.Equal(t, int64(600), rep.Crowd.Admitted)
			require.Equal(t, rep.Audit.Accepted, rep.Audit.Admitted)
			require.Zero(t, rep.Audit.Redis.Differences)
			require.Contains(t, out.String(), "positions approximate (")
			require.Contains(t, out.String(), "line exact again (")
			require.Empty(t, rep.Incomplete, out)
			require.Equal(t, ExitOK, rep.ExitCode())
			require.Contains(t, out.String(), "held        everything, in ")
		})
	}
}

func TestTheOwnRedisIsKilledAndComesBack(t *testing.T) {
	needsRedis(t)
	r, err := startRedis(t.Context(), t.TempDir(), false)
	require.NoError(t, err)
	t.Cleanup(r.kill)
	pid := r.child.process.Pid
	_, do := r.breaks()
	_, exit, err := do(t.Context())
	require.NoError(t, err)
	require.Zero(t, exit)
	require.True(t, gone(pid))
	_, err = net.Dial("tcp", r.addr())
	require.Error(t, err)
	_, do = r.mends()
	_, _, err = do(t.Context())
	require.NoError(t, err)
	c, err := net.Dial("tcp", r.addr())
	require.NoError(t, err)
	require.NoError(t, c.Close())
	r.kill()
	r.kill()

	r.path = "/bin/false"
	_, _, err = do(t.Context())
	require.ErrorContains(t, err, "it ended at once")
}

func TestWithoutRedisServerTheDrillSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Run(t.Context(), Config{}, &lines{}, zap.NewNop())
	require.ErrorContains(t, err, "apt-get install redis-server")
	require.ErrorContains(t, err, "--target")
}

// The whole of it, as `make drill` shows it in more time: the leader leaves Redis and goes back.
func TestRealDrillThroughDirectAdmission(t *testing.T) {
	if os.Getenv("SOONBEON_REAL") == "" {
		t.Skip("takes 50 s: runs with SOONBEON_REAL=1, as make test-real does")
	}
	needsRedis(t)
	cfg, out := small(t), &lines{}
	cfg.Target = nil
	cfg.Visitors, cfg.Rate, cfg.ExpectRate, cfg.Pollers = 6000, 500, 175, 200
	cfg.BreakAt, cfg.MendAt = 5*time.Second, 20*time.Second
	rep, err := Run(t.Context(), cfg, out, zap.NewNop())
	t.Log(out)
	require.NoError(t, err)
	require.Equal(t, ExitOK, rep.ExitCode(), out)
	require.Len(t, rep.Audit.Outages, 1)
	require.Equal(t, queue.ModeRedis.String(), rep.Audit.Claims[len(rep.Audit.Claims)-1].Mode)
	require.NotNil(t, rep.Seen.DirectAfterMs)
	require.NotNil(t, rep.Seen.BackAfterMs)
	require.Less(t, rep.Seen.LongestPauseMs, int64(10_000))
	require.LessOrEqual(t, rep.Seen.HighestSecond, int64(193))
	require.Zero(t, rep.Pollers.Unexpected)
}
