package realservers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// tailBytes is how much of a log is shown.
const tailBytes = 8 << 10

// local is a server as a child process.
type local struct {
	path    string
	args    []string
	env     []string // nil for this process's own
	dir     string
	logPath string

	mu    sync.Mutex
	child *child
}

type child struct {
	process *os.Process
	gone    chan struct{}    // closed once it was waited for
	state   *os.ProcessState // set before gone is closed
}

func (l *local) start(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running() {
		return nil
	}
	out, err := os.OpenFile(l.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer out.Close() // the child has its own descriptor
	cmd := exec.Command(l.path, l.args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = l.dir, l.env, out, out
	cmd.SysProcAttr = tied()

	c := &child{gone: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The kernel ties a child to the thread that started it, not to the process: this thread must live as long
		// as the child, and no other goroutine may end it.
		runtime.LockOSThread()
		err := cmd.Start()
		c.process = cmd.Process
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
			c.state = cmd.ProcessState
			close(c.gone)
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	l.child = c
	return nil
}

func (l *local) kill() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running() {
		return nil
	}
	if err := l.child.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-l.child.gone
	return nil
}

func (l *local) stop() error { return l.signal(syscall.SIGSTOP) }
func (l *local) cont() error { return l.signal(syscall.SIGCONT) }

func (l *local) signal(sig syscall.Signal) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running() {
		return os.ErrProcessDone
	}
	return l.child.process.Signal(sig)
}

func (l *local) alive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running()
}

// running wants the lock.
func (l *local) running() bool {
	if l.child == nil {
		return false
	}
	select {
	case <-l.child.gone:
		return false
	default:
		return true
	}
}

func (l *local) log() string {
	f, err := os.Open(l.logPath)
	if err != nil {
		return "(no log: " + err.Error() + ")"
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		_, _ = f.Seek(-tailBytes, io.SeekEnd)
	}
	b, _ := io.ReadAll(f)
	return string(b)
}
