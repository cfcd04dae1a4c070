package drill

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestACommandTellsHowItEnded(t *testing.T) {
	out, exit, err := shell("echo out; echo err >&2")(t.Context())
	require.NoError(t, err)
	require.Equal(t, 0, exit)
	require.Equal(t, "out\nerr\n", out)

	_, exit, err = shell("exit 7")(t.Context())
	require.Error(t, err)
	require.Equal(t, 7, exit)

	_, exit, err = shell("no-such-command-anywhere")(t.Context())
	require.Error(t, err)
	require.Equal(t, 127, exit)

	out, _, err = shell("for i in $(seq 10000); do echo line $i; done")(t.Context())
	require.NoError(t, err)
	require.LessOrEqual(t, len(out), maxOutput)
	require.True(t, strings.HasSuffix(out, "line 10000\n"))
}

// A command that hangs is ended with what it started, or the drill would leave a process on the operator's machine.
func TestACommandEndsWithItsTimeAndItsChildrenToo(t *testing.T) {
	tooLong := errors.New("too long")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 500*time.Millisecond, tooLong)
	defer cancel()
	began := time.Now()
	out, exit, err := shell("sleep 600 & echo $!; wait")(ctx)
	require.ErrorIs(t, err, tooLong)
	require.Equal(t, -1, exit)
	require.Less(t, time.Since(began), 30*time.Second)
	pid, err := strconv.Atoi(strings.TrimSpace(out))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return gone(pid) }, 10*time.Second, 10*time.Millisecond)
}

// What a command leaves in the background on purpose is not waited for.
func TestACommandMayLeaveAServerBehind(t *testing.T) {
	began := time.Now()
	out, exit, err := shell("sleep 600 & echo $!")(t.Context())
	require.NoError(t, err)
	require.Equal(t, 0, exit)
	require.Less(t, time.Since(began), 30*time.Second)
	pid, err := strconv.Atoi(strings.TrimSpace(out))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL), "it still runs")
}

// gone also counts a dead child that nobody has waited for yet, where this is what reaps orphans.
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	out, _, _ := shell("ps -o stat= -p " + strconv.Itoa(pid))(context.Background())
	return strings.HasPrefix(strings.TrimSpace(out), "Z")
}
