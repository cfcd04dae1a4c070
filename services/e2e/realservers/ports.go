package realservers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Ports are drawn from here: below the range from which Linux and macOS take ports for outgoing connections (32768 and
// 49152 up). A port from that range, free while its server is dead, would soon be some client's.
const (
	firstPort = 18_000
	lastPort  = 30_000
)

// ports holds ports for one cluster or Redis.
type ports struct {
	locks []*os.File
}

// take draws a port that nothing listens on, and locks it against other processes that use this package until release.
// (Listening to hold it would be simpler, and keep the server from it.)
func (p *ports) take() (int, error) {
	dir := filepath.Join(os.TempDir(), "soonbeon-ports")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return 0, fmt.Errorf("make the folder of port locks: %w", err)
	}
	for range 1_000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		lock, err := tryLock(filepath.Join(dir, strconv.Itoa(port)))
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			_ = lock.Close()
			continue
		}
		_ = l.Close()
		p.locks = append(p.locks, lock)
		return port, nil
	}
	return 0, errors.New("no free loopback port after 1,000 draws")
}

func (p *ports) release() {
	for _, lock := range p.locks {
		_ = lock.Close()
	}
	p.locks = nil
}

// Ports are loopback ports that stay free for this process while nothing listens on them, for processes of ours that are
// killed and come back. The zero value holds none. It is for one goroutine at a time.
type Ports struct{ held ports }

// Take draws one. It fails only where a thousand draws find none.
func (p *Ports) Take() (int, error) { return p.held.take() }

// Release gives all of them back.
func (p *Ports) Release() { p.held.release() }

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// tryLock takes the exclusive lock of a file, or fails at once. Closing the file, or this process's death, gives it back.
// The file stays: removing it would let two processes lock two files of one name.
func tryLock(path string) (*os.File, error) { return lock(path, syscall.LOCK_EX|syscall.LOCK_NB) }

func lock(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), how); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}
