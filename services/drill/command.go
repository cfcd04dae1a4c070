package drill

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Step is what the operator did: broke it, or mended it.
type Step struct {
	What    string `json:"what"`    // the command, or what was done to the drill's own Redis
	AfterMs int64  `json:"afterMs"` // since the drill began
	TookMs  int64  `json:"tookMs"`
	Exit    int    `json:"exit"`             // of the command; -1 where it did not end by itself
	Output  string `json:"output,omitempty"` // the end of what it printed
	Error   string `json:"error,omitempty"`  // "" when it did what it should
}

// action breaks or mends. It is called once; when ctx ends it is to end, too. Exit is -1 where nothing ended by itself.
type action = func(ctx context.Context) (output string, exit int, err error)

// hands break what is drilled, and mend it.
type hands interface {
	breaks() (what string, do action)
	mends() (what string, do action)
}

// commands are the operator's own.
type commands struct{ breakIt, mendIt string }

func (c commands) breaks() (string, action) { return c.breakIt, shell(c.breakIt) }
func (c commands) mends() (string, action)  { return c.mendIt, shell(c.mendIt) }

// maxOutput is how much of what a command printed is kept, in bytes: its end.
const maxOutput = 16 << 10

// shell runs command by sh -c in a process group of its own, so that a terminal's Ctrl-C does not end it halfway, and so
// that its children end with it when ctx does.
func shell(command string) action {
	return func(ctx context.Context) (string, int, error) {
		var out tail
		cmd := exec.CommandContext(ctx, "sh", "-c", command)
		cmd.Stdout, cmd.Stderr = &out, &out
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		cmd.WaitDelay = time.Second // a child that went to the background may hold the pipe
		err := cmd.Run()
		exit := -1
		if cmd.ProcessState != nil {
			exit = cmd.ProcessState.ExitCode()
		}
		switch {
		case ctx.Err() != nil && exit != 0:
			err = fmt.Errorf("ended by the drill: %w", context.Cause(ctx))
		case errors.Is(err, exec.ErrWaitDelay):
			err = nil // what it left in the background may print later
		}
		return out.String(), exit, err
	}
}

// tail keeps the end of what is written.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if n := len(t.kept) - maxOutput; n > 0 {
		t.kept = append(t.kept[:0], t.kept[n:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}
