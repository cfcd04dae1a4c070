package linelogtest

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Link is the network between one Log and the broker.
type Link struct {
	mu    sync.Mutex
	cond  *sync.Cond
	state state
	conns map[*conn]struct{}
}

type state int

const (
	up state = iota
	away
	hung
)

func newLink() *Link {
	l := &Link{conns: make(map[*conn]struct{})}
	l.cond = sync.NewCond(&l.mu)
	return l
}

var errAway = errors.New("linelogtest: the brokers are away")

// Away cuts every connection and refuses new ones.
func (l *Link) Away() { l.set(away) }

// Hang lets connections live and be made, but delivers nothing from the broker until Back or Away.
func (l *Link) Hang() { l.set(hung) }

// Back makes the network whole. What hung is delivered.
func (l *Link) Back() { l.set(up) }

// Conns is how many connections there are.
func (l *Link) Conns() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

func (l *Link) set(s state) {
	l.mu.Lock()
	l.state = s
	var cut []*conn
	if s == away {
		for c := range l.conns {
			cut = append(cut, c)
		}
	}
	l.cond.Broadcast()
	l.mu.Unlock()
	for _, c := range cut {
		_ = c.Close()
	}
}

func (l *Link) dial(ctx context.Context, network, address string) (net.Conn, error) {
	l.mu.Lock()
	gone := l.state == away
	l.mu.Unlock()
	if gone {
		return nil, errAway
	}
	var d net.Dialer
	nc, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: nc, link: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == away {
		return nil, errors.Join(errAway, nc.Close())
	}
	l.conns[c] = struct{}{}
	return c, nil
}

// conn holds back what was read while its link hangs.
type conn struct {
	net.Conn
	link   *Link
	closed bool // under link.mu
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	for c.link.state == hung && !c.closed {
		c.link.cond.Wait()
	}
	if c.closed {
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *conn) Close() error {
	c.link.mu.Lock()
	c.closed = true
	delete(c.link.conns, c)
	c.link.cond.Broadcast()
	c.link.mu.Unlock()
	return c.Conn.Close()
}
