package redislinetest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Link is the network in front of a Redis, with switches that make it fail. Clients connect to Addr.
type Link struct {
	listener net.Listener
	upstream func() (net.Conn, error)
	running  sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and replaced with each switch
	mode    mode
	answer  string
	conns   map[net.Conn]struct{}
	closed  bool
}

type mode int

const (
	up      mode = iota
	answers      // every command gets one error
	scripts      // only those that may write get it
	hung         // commands are taken and nothing happens
	loses        // commands are done, and the connection ends before the answer
	away         // nobody listens
)

// NewLink puts a Link in front of the server that rdb, a client of one server, is connected to. It ends with the test.
func NewLink(t testing.TB, rdb redis.UniversalClient) *Link {
	t.Helper()
	one, ok := rdb.(*redis.Client)
	if !ok {
		t.Fatal("redislinetest: a link leads to one server")
	}
	o := one.Options()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Link{listener: listener, changed: make(chan struct{}), conns: map[net.Conn]struct{}{},
		upstream: func() (net.Conn, error) { return net.Dial(o.Network, o.Addr) }}
	l.running.Go(l.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
		l.set(away, "")
		l.running.Wait()
	})
	return l
}

// Addr is host:port of the Link.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Answer makes every command fail with this error, such as "LOADING Redis is loading the dataset in memory".
func (l *Link) Answer(err string) { l.set(answers, err) }

// AnswerScripts makes scripts alone fail: what a replica, a full Redis or one that can't save does with writes.
func (l *Link) AnswerScripts(err string) { l.set(scripts, err) }

// Hang takes commands and leaves them unanswered and undone.
func (l *Link) Hang() { l.set(hung, "") }

// LoseReplies does what is asked and cuts the connection instead of answering.
func (l *Link) LoseReplies() { l.set(loses, "") }

// Away cuts every connection, and new ones as soon as they are made.
func (l *Link) Away() { l.set(away, "") }

// Back makes the network whole. What hung was lost with its connection.
func (l *Link) Back() { l.set(up, "") }

func (l *Link) set(m mode, answer string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.mode
	l.mode, l.answer = m, answer
	close(l.changed)
	l.changed = make(chan struct{})
	if m == away || before == hung {
		for c := range l.conns {
			_ = c.Close()
		}
	}
}

func (l *Link) now() (mode, string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mode, l.answer, l.changed
}

func (l *Link) accept() {
	for {
		c, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.mu.Lock()
		refused := l.closed || l.mode == away
		if !refused {
			l.conns[c] = struct{}{}
		}
		l.mu.Unlock()
		if refused {
			_ = c.Close()
			continue
		}
		l.running.Go(func() {
			_ = l.serve(c)
			l.mu.Lock()
			delete(l.conns, c)
			l.mu.Unlock()
			_ = c.Close()
		})
	}
}

// serve passes one command after another.
func (l *Link) serve(c net.Conn) error {
	server, err := l.upstream()
	if err != nil {
		return err
	}
	defer server.Close()
	client, replies := bufio.NewReader(c), bufio.NewReader(server)
	for {
		command, err := value(client)
		if err != nil {
			return err
		}
		m, answer, changed := l.now()
		switch {
		case m == hung:
			<-changed
			return errors.New("hung")
		case greeting(command):
		case m == answers, m == scripts && isScript(command):
			if _, err := fmt.Fprintf(c, "-%s\r\n", answer); err != nil {
				return err
			}
			continue
		}
		if _, err := io.WriteString(server, command); err != nil {
			return err
		}
		reply, err := value(replies)
		if err != nil {
			return err
		}
		if m == loses && !greeting(command) {
			return errors.New("lost")
		}
		if _, err := io.WriteString(c, reply); err != nil {
			return err
		}
	}
}

func verb(command string) string {
	lines := strings.SplitN(command, "\r\n", 4)
	if len(lines) < 3 {
		return ""
	}
	return strings.ToUpper(lines[2])
}

// greeting is what a client says first; a Redis that loads or is a replica takes it.
func greeting(command string) bool {
	v := verb(command)
	return v == "HELLO" || v == "CLIENT" || v == "AUTH" || v == "SELECT"
}

func isScript(command string) bool {
	v := verb(command)
	return v == "EVAL" || v == "EVALSHA"
}

// value reads one RESP value and returns its bytes.
func value(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil || len(line) < 3 {
		return "", errors.Join(err, io.ErrUnexpectedEOF)
	}
	n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	switch line[0] {
	case '$', '=', '!':
		if n < 0 {
			return line, nil
		}
		b := make([]byte, n+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return "", err
		}
		return line + string(b), nil
	case '%':
		n *= 2
	case '*', '~', '>':
	default:
		return line, nil
	}
	var all strings.Builder
	all.WriteString(line)
	for range n {
		v, err := value(r)
		if err != nil {
			return "", err
		}
		all.WriteString(v)
	}
	return all.String(), nil
}
