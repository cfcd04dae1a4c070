package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const lockName = "soonbeon.lock"

// lock is a held lock: a bare descriptor, not an *os.File, whose finalizer would let go of the folder when the garbage
// collector finds that nobody asks for the Broker any more, while its broker still runs.
type lock int

// takeLock holds the folder until close; the kernel lets go of it whichever way the process ends. The file names the
// process, for people.
func takeLock(dir string) (lock, error) {
	path := filepath.Join(dir, lockName)
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return -1, fmt.Errorf("lock the data folder %s: %w", dir, err)
	}
	l := lock(fd)
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		held := l.holder()
		_ = l.close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return -1, fmt.Errorf("%w: %s is used by %s", ErrInUse, dir, held)
		}
		return -1, fmt.Errorf("lock the data folder %s: %w", dir, err)
	}
	if err := l.sign(os.Getpid()); err != nil {
		return -1, errors.Join(fmt.Errorf("write %s: %w", path, err), l.close())
	}
	return l, nil
}

func (l lock) close() error { return unix.Close(int(l)) }

func (l lock) sign(pid int) error {
	if err := unix.Ftruncate(int(l), 0); err != nil {
		return err
	}
	_, err := unix.Pwrite(int(l), []byte(strconv.Itoa(pid)+"\n"), 0)
	return err
}

func (l lock) holder() string {
	var b [32]byte
	n, _ := unix.Pread(int(l), b[:], 0)
	if pid, err := strconv.Atoi(strings.TrimSpace(string(b[:max(n, 0)]))); err == nil {
		return fmt.Sprintf("process %d", pid)
	}
	return "another process"
}
