package events

import (
	"syscall"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// smallBuffer makes a connection that takes little before it is read.
func smallBuffer(_, _ string, c syscall.RawConn) error {
	var err error
	if e := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) }); e != nil {
		return e
	}
	return err
}

// httpRecord is one that the fold skips.
func httpRecord() queue.Record { return queue.Record{Kind: queue.Skipped} }
