package standalone

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// A log that lost its end at a whole record, a log file or the whole log folder, or that was made anew, is good in itself:
// only the witness can tell.
func TestFault14_ALogThatLostItsEndIsRefused(t *testing.T) {
	// copied is a data folder that was saved when two had entered, and put back when four had.
	dir := filepath.Join(t.TempDir(), "data")
	cfg := embeddedConfig(dir)
	cfg.Rate = 0.001
	enterTwo := func() queue.Ticket {
		p := started(t, cfg, All)
		enterMain(t, p)
		last := queue.Ticket(enterMain(t, p).Ticket)
		require.NoError(t, p.Follower("main").WaitFor(soon(t), last))
		require.NoError(t, p.Stop(soon(t)))
		return last
	}
	older := filepath.Join(t.TempDir(), "older")
	enterTwo()
	require.NoError(t, os.CopyFS(older, os.DirFS(filepath.Join(dir, "log"))))
	last := enterTwo()

	var saw map[queue.ID]seen
	b, err := os.ReadFile(witnessFile(dir))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &saw))
	require.GreaterOrEqual(t, saw["main"].Seq, last)

	refused := func(lost, says string) {
		t.Helper()
		before, err := os.ReadFile(witnessFile(dir))
		require.NoError(t, err)
		p, err := New(soon(t), cfg, All, zap.NewNop())
		require.NoError(t, err)
		err = p.Start(soon(t))
		require.ErrorContains(t, err, says, lost)
		require.ErrorContains(t, err, "runbook.md#witness", "what to do")
		after, err := os.ReadFile(witnessFile(dir))
		require.NoError(t, err)
		require.Equal(t, string(before), string(after), "the witness goes on saying what it saw")
	}
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "log")))
	require.NoError(t, os.CopyFS(filepath.Join(dir, "log"), os.DirFS(older)))
	refused("the log's end", "are gone, and everybody who entered by one of them")

	require.NoError(t, os.RemoveAll(filepath.Join(dir, "log")))
	refused("the whole log", "the log was made anew")

	require.NoError(t, os.Remove(witnessFile(dir))) // as the message says: go on with what is left
	ready(t, started(t, cfg, All))
}

func TestAWitnessThatCannotBeReadIsTold(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	cfg := embeddedConfig(dir)
	require.NoError(t, started(t, cfg, All).Stop(soon(t)))
	require.NoError(t, os.WriteFile(witnessFile(dir), []byte("{"), 0o600))
	p, err := New(soon(t), cfg, All, zap.NewNop())
	require.NoError(t, err)
	require.ErrorContains(t, p.Start(soon(t)), "remove "+witnessFile(dir))
}

// The background parts keep the contract of a service, as the whole process does.
func TestTheWatchIsAService(t *testing.T) {
	w := &settingsWatch{logger: zap.NewNop()}
	require.NoError(t, w.Stop(soon(t)), "before it was started")
	require.ErrorIs(t, w.Start(soon(t)), lifecycle.ErrStopped)
	w = &settingsWatch{logger: zap.NewNop()}
	require.NoError(t, w.Start(soon(t)))
	require.ErrorIs(t, w.Start(soon(t)), lifecycle.ErrStarted)
	require.NoError(t, w.Stop(soon(t)))
}
