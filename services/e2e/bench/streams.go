package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/standalone"
)

// A hundred are near in each queue, so ten thousand streams take a hundred queues.
const nearEach = 100

// streams opens an event stream for everybody in a hundred queues of a hundred people, and looks how tokens are pushed, what memory
// that takes, and how long it takes to open all of them again when all are lost at once.
func streams(ctx context.Context, b *bench) (_ []result, err error) {
	queues, watch := 100, time.Minute
	if b.o.quick {
		queues, watch = 5, 5*time.Second
	}
	brokers, err := b.kafka(ctx)
	if err != nil {
		return nil, err
	}
	cfg := shippedConfig("", b.keyText, brokers, nil, "")
	cfg.Rate, cfg.Queues = 0.5, nil
	for i := range queues {
		cfg.Queues = append(cfg.Queues, string(b.id("near"+strconv.Itoa(i))))
	}
	if cfg.Admin, err = freeAddr(); err != nil {
		return nil, err
	}
	keys, err := pass.ParseKeys(b.keyText)
	if err != nil {
		return nil, err
	}
	s, err := startSide(ctx, sideSpec{Name: "streams", Kind: shipped, Config: cfg, Roles: standalone.All, Profile: b.profileOf("streams")})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	f := &fleet{addr: s.addr, keys: keys}
	if err := f.enter(ctx, cfg.Queues); err != nil {
		return nil, err
	}
	_, none, err := s.use()
	if err != nil {
		return nil, err
	}
	if err := f.open(ctx); err != nil {
		return nil, err
	}
	n := int(f.opened.Load())
	gone := f.calm()
	before, _, err := s.use()
	if err != nil {
		return nil, err
	}
	// The same records by a bare consumer, at the same time: what the broker and the machine take by themselves.
	bare, err := watchBare(ctx, brokers, cfg.Queues)
	if err != nil {
		return nil, err
	}
	var live [4]int64 // four times, at equal distances
	var after time.Duration
	for i := range live {
		_ = lifecycle.Pause(ctx, watch/time.Duration(len(live)))
		if after, live[i], err = s.use(); err != nil {
			return nil, err
		}
	}
	open := n - gone - len(f.late())
	floor, err := bare()
	if err != nil {
		return nil, err
	}
	own, err := pushed99(ctx, cfg.Admin)
	if err != nil {
		return nil, err
	}
	later := rss(s.cmd.Process.Pid)
	late := f.late()
	if len(late) == 0 {
		return nil, errors.New("no token was pushed")
	}
	rows := []result{
		{what: thousands(n) + " event streams: from a token's record in the log to its stream, p99", kind: millisAtMost, need: 100,
			value: float64(at(late, 0.99).Microseconds()) / 1000,
			spread: fmt.Sprintf("%s tokens, p50 %v, slowest %v; a bare consumer had the same queues' records after: p50 %v, p99 %v, slowest %v; within the process, from reading the record to having written the token, p99 at most %v; %s events a second; %.0f %% of one core", thousands(len(late)), at(late, 0.5).Round(time.Millisecond), late[len(late)-1].Round(time.Millisecond),
				at(floor, 0.5).Round(time.Millisecond), at(floor, 0.99).Round(time.Millisecond), floor[len(floor)-1].Round(time.Millisecond), own,
				thousands(int(float64(f.events.Load())/watch.Seconds())), 100*(after-before).Seconds()/watch.Seconds())},
		{what: "memory an event stream", kind: bytesEach, need: 64 << 10, value: float64(live[0]-none) / float64(n),
			spread: fmt.Sprintf("what lives, with goroutines' stacks: %d MiB without streams, %d, %d, %d, %d MiB in the course of %v (%s are left); resident at the end: %d MiB",
				none>>20, live[0]>>20, live[1]>>20, live[2]>>20, live[3]>>20, watch, thousands(open), later>>20)},
	}
	f.lose()
	began := time.Now()
	f.opened.Store(0)
	if err := f.open(ctx); err != nil {
		return rows, err
	}
	took := time.Since(began)
	rows = append(rows, result{what: thousands(int(f.opened.Load())) + " event streams lost at once and opened again at once", kind: seconds, value: took.Seconds(),
		spread: fmt.Sprintf("%d MiB; clients that obey `retry` come back within 1 to 4 s, and not all at once", rss(s.cmd.Process.Pid)>>20)})
	f.lose()
	return rows, nil
}

func (b *bench) profileOf(name string) string {
	if b.o.profile == "" {
		return ""
	}
	return filepath.Join(b.o.profile, name+".pprof")
}

// freeAddr is one that nothing listens on at the moment.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// watchBare reads queues with nothing but a client of Kafka, from now on. The function that it returns ends that, and returns how
// long after the broker's time of each record it was there, in order.
func watchBare(ctx context.Context, brokers, queues []string) (end func() ([]time.Duration, error), err error) {
	ends := make(map[string]map[int32]kgo.Offset, len(queues))
	for _, q := range queues {
		ends[linelog.TopicOf(queue.ID(q))] = map[int32]kgo.Offset{0: kgo.NewOffset().AtEnd()}
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumePartitions(ends), kgo.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var times []time.Duration
	var failed error
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			fetches := client.PollFetches(ctx)
			if ctx.Err() != nil {
				return
			}
			now := time.Now()
			failed = errors.Join(failed, fetches.Err())
			fetches.EachRecord(func(r *kgo.Record) { times = append(times, now.Sub(r.Timestamp)) })
		}
	})
	return func() ([]time.Duration, error) {
		cancel()
		reading.Wait()
		client.Close()
		if failed == nil && len(times) == 0 {
			failed = errors.New("a bare consumer read nothing")
		}
		slices.Sort(times)
		return times, failed
	}, nil
}

// pushed99 is the first limit of soonbeon_events_push_seconds that 99 of 100 tokens kept.
func pushed99(ctx context.Context, admin string) (time.Duration, error) {
	r, err := http.NewRequestWithContext(ctx, "GET", "http://"+admin+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	r.Close = true
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	var limits, counts []float64
	for line := range strings.Lines(string(body)) {
		bucket, ok := strings.CutPrefix(line, `soonbeon_events_push_seconds_bucket{le="`)
		if !ok {
			continue
		}
		limit, count, _ := strings.Cut(bucket, `"} `)
		l, err1 := strconv.ParseFloat(limit, 64)
		n, err2 := strconv.ParseFloat(strings.TrimSpace(count), 64)
		if err := errors.Join(err1, err2); err != nil {
			return 0, err
		}
		limits, counts = append(limits, l), append(counts, n)
	}
	for i, n := range counts {
		if n >= 0.99*counts[len(counts)-1] {
			return time.Duration(limits[i] * float64(time.Second)), nil
		}
	}
	return 0, errors.New("there is no histogram of pushes")
}

// rss is what a process holds of the memory, in bytes.
func rss(pid int) int64 {
	kib, _ := strconv.ParseInt(strings.TrimSuffix(lineOf(fmt.Sprintf("/proc/%d/status", pid), "VmRSS"), " kB"), 10, 64)
	return kib << 10
}

// at is a quantile of what is sorted.
func at(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// fleet is everybody with their streams.
type fleet struct {
	addr   string
	keys   *pass.Keys
	people []person

	opened, events atomic.Int64
	mu             sync.Mutex
	conns          []net.Conn
	pushed         []time.Duration // from records to tokens, of those who held a stream by then
	reading        sync.WaitGroup
}

type person struct {
	queue   string
	receipt string
}

// enter takes a hundred places in each queue.
func (f *fleet) enter(ctx context.Context, queues []string) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(32)
	for _, q := range queues {
		for range nearEach {
			g.Go(func() error {
				r, err := http.NewRequestWithContext(ctx, "POST", "http://"+f.addr+"/queue/enter", strings.NewReader(`{"queue":"`+q+`"}`))
				if err != nil {
					return err
				}
				r.Header.Set("Content-Type", "application/json")
				res, err := client.Do(r)
				if err != nil {
					return err
				}
				defer res.Body.Close()
				body, err := io.ReadAll(res.Body)
				if err != nil {
					return err
				}
				var a struct{ Receipt string }
				if err := json.Unmarshal(body, &a); err != nil || a.Receipt == "" {
					return fmt.Errorf("entering: %d: %s", res.StatusCode, body)
				}
				mu.Lock()
				defer mu.Unlock()
				f.people = append(f.people, person{q, a.Receipt})
				return nil
			})
		}
	}
	return g.Wait()
}

// open opens a stream for everybody and returns when each has had its first event.
func (f *fleet) open(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(256) // connections that are being opened at one time, as many as the listener's backlog takes
	for _, p := range f.people {
		g.Go(func() error {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", f.addr)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(c, "GET /queue/events?queue=%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", p.queue, p.receipt); err != nil {
				return errors.Join(err, c.Close())
			}
			f.mu.Lock()
			f.conns = append(f.conns, c)
			f.mu.Unlock()
			first := make(chan error, 1)
			f.reading.Go(func() { f.read(c, p, first) })
			return <-first
		})
	}
	return g.Wait()
}

var dataPrefix = []byte("data: ")

// read reads one stream to its end.
func (f *fleet) read(c net.Conn, p person, first chan error) {
	lines := bufio.NewReaderSize(c, 2048)
	begun := false
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			if !begun {
				first <- fmt.Errorf("a stream ended before its first event: %w", err)
			}
			return
		}
		if bytes.HasPrefix(line, []byte("HTTP/1.1 ")) && !bytes.Contains(line, []byte(" 200 ")) {
			first <- fmt.Errorf("a stream was refused: %s", line)
			begun = true
		}
		data, ok := bytes.CutPrefix(line, dataPrefix)
		if !ok {
			continue
		}
		arrived := time.Now()
		f.events.Add(1)
		if bytes.HasPrefix(data, []byte(`{"state":"admitted"`)) {
			if begun {
				f.token(p, data, arrived)
			}
			f.begin(begun, first)
			_ = c.Close() // as browsers do that have what they waited for
			return
		}
		begun = f.begin(begun, first)
	}
}

func (f *fleet) begin(begun bool, first chan error) bool {
	if !begun {
		f.opened.Add(1)
		first <- nil
	}
	return true
}

// token takes the time of one that was pushed.
func (f *fleet) token(p person, data []byte, arrived time.Time) {
	var a struct{ Token string }
	if json.Unmarshal(data, &a) != nil {
		return
	}
	e, err := f.keys.VerifyEntry(a.Token, queue.ID(p.queue), arrived)
	if err != nil {
		fmt.Fprintln(os.Stderr, "  a token that doesn't hold:", err)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pushed = append(f.pushed, arrived.Sub(time.UnixMilli(e.AdmittedMs)))
}

// calm begins to count anew when all streams are open, and says to how many tokens were pushed by then.
func (f *fleet) calm() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.pushed)
	f.pushed = nil
	f.events.Store(0)
	return n
}

// late are the times of the tokens that were pushed, in order.
func (f *fleet) late() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(slices.Values(f.pushed))
}

// lose cuts all streams.
func (f *fleet) lose() {
	f.mu.Lock()
	conns := f.conns
	f.conns = nil
	f.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
	f.reading.Wait()
}
