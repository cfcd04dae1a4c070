package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
)

// load is what one side is asked.
type load struct {
	conns    int
	requests [][]byte // whole requests, used in turn; each connection begins elsewhere
	warmUp   time.Duration
	measure  time.Duration
}

// measured is what came of it.
type measured struct {
	perSecond float64
	p50, p99  time.Duration
	cpu       time.Duration // of the server, for each request
}

// phase of a load; workers count while measuring.
const (
	warming int32 = iota
	measuring
	done
)

// drive asks the server for a while over l.conns connections, each with one request under way at a time, and counts the
// answers. Any status but 2xx is an error.
func (l *load) drive(ctx context.Context, s *side) (measured, error) {
	var phase atomic.Int32
	conns := make([]net.Conn, l.conns)
	for i := range conns {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", s.addr)
		if err != nil {
			return measured{}, err
		}
		defer c.Close()
		conns[i] = c
	}
	counts := make([]histogram, l.conns)
	errs := make([]error, l.conns)
	var wg sync.WaitGroup
	for i, c := range conns {
		wg.Go(func() { errs[i] = l.worker(c, i, &phase, &counts[i]) })
	}
	_ = lifecycle.Pause(ctx, l.warmUp)
	cpu, err := s.cpu()
	began := time.Now()
	phase.Store(measuring)
	_ = lifecycle.Pause(ctx, l.measure)
	phase.Store(done)
	took := time.Since(began)
	cpuAfter, err2 := s.cpu()
	for _, c := range conns {
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	}
	wg.Wait()
	if err := errors.Join(append(errs, err, err2, ctx.Err())...); err != nil {
		return measured{}, err
	}
	var all histogram
	for i := range counts {
		all.merge(&counts[i])
	}
	if all.n == 0 {
		return measured{}, errors.New("nothing was answered")
	}
	return measured{
		perSecond: float64(all.n) / took.Seconds(), p50: all.quantile(0.5), p99: all.quantile(0.99),
		cpu: (cpuAfter - cpu) / time.Duration(all.n),
	}, nil
}

func (l *load) worker(c net.Conn, n int, phase *atomic.Int32, h *histogram) error {
	at := n * len(l.requests) / l.conns
	r := reader{conn: c, buf: make([]byte, 8<<10)}
	for {
		began := time.Now()
		if _, err := c.Write(l.requests[at]); err != nil {
			return fmt.Errorf("write a request: %w", err)
		}
		if err := r.answer(); err != nil {
			return err
		}
		switch phase.Load() {
		case measuring:
			h.add(time.Since(began))
		case done:
			return nil
		}
		if at++; at == len(l.requests) {
			at = 0
		}
	}
}

// reader reads answers that carry a Content-Length, one at a time.
type reader struct {
	conn net.Conn
	buf  []byte
}

var (
	endOfHeader   = []byte("\r\n\r\n")
	contentLength = []byte("\r\nContent-Length: ")
)

func (r *reader) answer() error {
	have := 0
	for {
		if have == len(r.buf) {
			return errors.New("an answer is longer than 8 KiB")
		}
		n, err := r.conn.Read(r.buf[have:])
		if n == 0 && err != nil {
			return fmt.Errorf("read an answer: %w", err)
		}
		have += n
		end := bytes.Index(r.buf[:have], endOfHeader)
		if end < 0 {
			continue
		}
		if have < 12 || r.buf[9] != '2' {
			return fmt.Errorf("the answer is %.300q", r.buf[:have])
		}
		at := bytes.Index(r.buf[:end], contentLength)
		if at < 0 {
			return fmt.Errorf("no Content-Length in %.300q", r.buf[:have])
		}
		length := 0
		for _, d := range r.buf[at+len(contentLength) : end] {
			if d < '0' || d > '9' {
				break
			}
			length = 10*length + int(d-'0')
		}
		want := end + len(endOfHeader) + length
		if want > len(r.buf) || have > want {
			return fmt.Errorf("an answer of %d bytes, wanted %d", have, want)
		}
		if have < want {
			if _, err := io.ReadFull(r.conn, r.buf[have:want]); err != nil {
				return fmt.Errorf("read an answer: %w", err)
			}
		}
		return nil
	}
}

// histogram counts durations in steps of an eighth.
type histogram struct {
	n     int64
	count [64 * 8]int64
}

func (h *histogram) add(d time.Duration) {
	h.n++
	h.count[bucket(uint64(max(d, 8)))]++
}

// bucket is 8 for each power of two.
func bucket(n uint64) int {
	top := bits.Len64(n) - 1 // 3 or more
	return top*8 + int(n>>(top-3)&7)
}

func (h *histogram) merge(o *histogram) {
	h.n += o.n
	for i, c := range o.count {
		h.count[i] += c
	}
}

// quantile is the upper end of the bucket that it falls into.
func (h *histogram) quantile(q float64) time.Duration {
	left := int64(q * float64(h.n))
	for i, c := range h.count {
		if left -= c; left < 0 {
			return time.Duration((uint64(i%8) + 9) << (i/8 - 3))
		}
	}
	return 0
}

func request(method, path, host string, header []string, body string) []byte {
	b := append([]byte(nil), method+" "+path+" HTTP/1.1\r\nHost: "+host+"\r\n"...)
	for _, h := range header {
		b = append(b, h+"\r\n"...)
	}
	if body != "" {
		b = append(b, "Content-Type: application/json\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n"...)
	}
	return append(append(b, "\r\n"...), body...)
}

// duel drives two sides by turns.
type duel struct {
	ours, theirs []float64 // a second, round by round
	ratios       []float64
	cpuOurs      []float64 // of the server, microseconds for each request
	cpuTheirs    []float64
	lastOurs     measured
	lastTheirs   measured
}

func (l *load) duel(ctx context.Context, rounds int, ours, theirs *side) (*duel, error) {
	d := &duel{}
	for i := range rounds {
		var a, b measured
		first := func() (err error) { a, err = l.drive(ctx, ours); return err }
		second := func() (err error) { b, err = l.drive(ctx, theirs); return err }
		if i%2 == 1 {
			first, second = second, first
		}
		if err := first(); err != nil {
			return nil, err
		}
		if err := second(); err != nil {
			return nil, err
		}
		d.ours, d.theirs = append(d.ours, a.perSecond), append(d.theirs, b.perSecond)
		d.ratios = append(d.ratios, a.perSecond/b.perSecond)
		d.cpuOurs = append(d.cpuOurs, float64(a.cpu)/1e3)
		d.cpuTheirs = append(d.cpuTheirs, float64(b.cpu)/1e3)
		d.lastOurs, d.lastTheirs = a, b
	}
	return d, nil
}

func median(of []float64) float64 {
	s := slices.Sorted(slices.Values(of))
	if len(s) == 0 {
		return 0
	}
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
