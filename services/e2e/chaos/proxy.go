package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// weather is what a proxy does to what passes through it.
type weather uint8

const (
	fair   weather = iota
	slow           // every piece is held for a while
	silent         // connections stay, nothing passes until the weather changes; then what was held passes after all
	broken         // connections are reset, and so is whoever comes
)

func (w weather) String() string { return [...]string{"fair", "slow", "silent", "broken"}[w] }

// proxy stands between some processes and a server, on loopback.
type proxy struct {
	listener net.Listener
	target   string
	group    sync.WaitGroup

	mu      sync.Mutex
	weather weather
	latency time.Duration
	cuts    int           // replies still to be cut off
	changed chan struct{} // closed when the weather changes
	conns   map[*net.TCPConn]bool
	closed  bool
}

func newProxy(target string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("a proxy for %s: %w", target, err)
	}
	p := &proxy{listener: l, target: target, changed: make(chan struct{}), conns: map[*net.TCPConn]bool{}}
	p.group.Go(p.accept)
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// set changes the weather; latency is for slow.
func (p *proxy) set(w weather, latency time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.weather, p.latency = w, latency
	close(p.changed)
	p.changed = make(chan struct{})
	if w == broken {
		p.reset()
	}
}

// cutReplies lets the server do what the next n requests ask for, and cuts the connection in the middle of its replies.
func (p *proxy) cutReplies(n int) { p.mu.Lock(); p.cuts = n; p.mu.Unlock() }

func (p *proxy) close() error {
	p.mu.Lock()
	p.closed = true
	close(p.changed)
	p.changed = make(chan struct{})
	p.reset()
	p.mu.Unlock()
	err := p.listener.Close()
	p.group.Wait()
	return err
}

// reset wants the lock.
func (p *proxy) reset() {
	for c := range p.conns {
		_ = c.SetLinger(0) // a reset and no orderly end
		_ = c.Close()
	}
}

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		p.group.Go(func() { p.carry(c.(*net.TCPConn)) })
	}
}

// keep notes a connection, unless the weather is such that it ends at once.
func (p *proxy) keep(c *net.TCPConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.weather == broken {
		_ = c.SetLinger(0)
		_ = c.Close()
		return false
	}
	p.conns[c] = true
	return true
}

func (p *proxy) forget(c *net.TCPConn) {
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
	_ = c.Close()
}

func (p *proxy) carry(client *net.TCPConn) {
	if !p.keep(client) {
		return
	}
	defer p.forget(client)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", p.target)
	if err != nil {
		_ = client.SetLinger(0)
		return
	}
	server := conn.(*net.TCPConn)
	if !p.keep(server) {
		return
	}
	defer p.forget(server)
	var both sync.WaitGroup
	both.Go(func() { p.pass(client, server, false); p.forget(server) })
	both.Go(func() { p.pass(server, client, true); p.forget(client) })
	both.Wait()
}

func (p *proxy) pass(from, to *net.TCPConn, replies bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !p.hold() {
				return
			}
			if replies && p.takesCut() {
				_, _ = to.Write(buf[:n/2])
				_ = to.SetLinger(0)
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) takesCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cuts == 0 {
		return false
	}
	p.cuts--
	return true
}

// hold keeps a piece for as long as the weather says; false when the proxy was closed.
func (p *proxy) hold() bool {
	for {
		p.mu.Lock()
		w, latency, changed, closed := p.weather, p.latency, p.changed, p.closed
		p.mu.Unlock()
		switch {
		case closed || w == broken:
			return false
		case w == slow:
			select {
			case <-time.After(latency):
				return true
			case <-changed: // it passes at once where it is fair now
			}
		case w == silent:
			<-changed
		default:
			return true
		}
	}
}
