package main

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echoes starts a server that answers each line with the line, and tells each on the channel.
func echoes(t *testing.T) (string, <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	got := make(chan string, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for {
					line, err := r.ReadString('\n')
					if err != nil {
						return
					}
					got <- line
					if _, err := io.WriteString(c, line); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String(), got
}

type caller struct {
	net.Conn
	r *bufio.Reader
}

func call(t *testing.T, addr string) caller {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return caller{c, bufio.NewReader(c)}
}

func (c caller) say(t *testing.T, line string) {
	t.Helper()
	_, err := io.WriteString(c, line)
	require.NoError(t, err)
}

func (c caller) hears(t *testing.T, within time.Duration) (string, error) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(within)))
	return c.r.ReadString('\n')
}

func through(t *testing.T) (*proxy, <-chan string) {
	t.Helper()
	target, got := echoes(t)
	p, err := newProxy(target)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.close()) })
	return p, got
}

func TestFairWeatherPasses(t *testing.T) {
	p, _ := through(t)
	c := call(t, p.addr())
	c.say(t, "one\n")
	line, err := c.hears(t, 5*time.Second)
	require.NoError(t, err)
	require.Equal(t, "one\n", line)
}

func TestASlowLinkHoldsEachPiece(t *testing.T) {
	p, _ := through(t)
	p.set(slow, 50*time.Millisecond)
	c := call(t, p.addr())
	began := time.Now()
	c.say(t, "one\n")
	_, err := c.hears(t, 5*time.Second)
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond, "once there and once back")
}

func TestAHungLinkPassesWhatItHeldWhenItMends(t *testing.T) {
	p, got := through(t)
	c := call(t, p.addr())
	p.set(silent, 0)
	c.say(t, "one\n")
	_, err := c.hears(t, 100*time.Millisecond)
	require.ErrorIs(t, err, errTimeout(err))
	require.Empty(t, got)
	p.set(fair, 0)
	line, err := c.hears(t, 5*time.Second)
	require.NoError(t, err)
	require.Equal(t, "one\n", line)
}

// errTimeout is err where it is a time-out, so that it can be required.
func errTimeout(err error) error {
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		return err
	}
	return io.ErrNoProgress
}

func TestAResetLinkEndsWhatIsThereAndWhatComes(t *testing.T) {
	p, _ := through(t)
	c := call(t, p.addr())
	c.say(t, "one\n")
	_, err := c.hears(t, 5*time.Second)
	require.NoError(t, err)
	p.set(broken, 0)
	_, err = c.hears(t, 5*time.Second)
	require.Error(t, err)
	require.NotErrorIs(t, err, errTimeout(err))
	late, err := net.Dial("tcp", p.addr()) // the reset may come while it still connects
	if err == nil {
		defer late.Close()
		_, err = caller{late, bufio.NewReader(late)}.hears(t, 5*time.Second)
	}
	require.Error(t, err)
	require.NotErrorIs(t, err, errTimeout(err))
}

func TestACutReplyWasCarriedOut(t *testing.T) {
	p, got := through(t)
	p.cutReplies(1)
	c := call(t, p.addr())
	c.say(t, "a request\n")
	line, err := c.hears(t, 5*time.Second)
	require.Error(t, err)
	require.NotErrorIs(t, err, errTimeout(err))
	require.Less(t, len(line), len("a request\n"), "the reply came whole")
	require.Equal(t, "a request\n", <-got)

	c = call(t, p.addr())
	c.say(t, "another\n")
	line, err = c.hears(t, 5*time.Second)
	require.NoError(t, err)
	require.Equal(t, "another\n", line)
}
