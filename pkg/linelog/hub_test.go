package linelog_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// inOrder reads until ticket last and checks that each comes once.
func inOrder(ctx context.Context, r *linelog.Reader, last queue.Ticket) error {
	for want := r.After() + 1; want <= last; {
		recs, err := r.Next(ctx)
		if err != nil {
			return fmt.Errorf("waiting for ticket %d: %w", want, err)
		}
		for _, rec := range recs {
			if rec.Ticket != want {
				return fmt.Errorf("ticket %d where %d was to come", rec.Ticket, want)
			}
			want++
		}
	}
	return nil
}

func visitors(int) queue.Record { return entered("v") }

// A thousand idle queues share connections, and one record among them comes at once.
func TestHubSharesConnections(t *testing.T) {
	b := linelogtest.Start(t)
	log, link := b.Link(t, nil, nil)
	ids := someQueues(t, log, 1000)
	hub := log.NewHub()
	defer hub.Close()
	var wg sync.WaitGroup
	came := make(chan queue.ID, len(ids))
	for _, id := range ids {
		r := hub.NewReader(id, 0, "")
		defer r.Close()
		wg.Go(func() {
			for {
				recs, err := r.Next(t.Context())
				if err != nil {
					return
				}
				for range recs {
					came <- id
				}
			}
		})
	}
	w := writer(t, log)
	conns := link.Conns()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a thousand new topics are much for a busy machine
	defer cancel()
	come := func() (id queue.ID) {
		select {
		case id = <-came:
		case <-ctx.Done():
			t.Fatal("waited in vain for a record")
		}
		return id
	}
	for _, id := range ids { // so that all have joined
		wg.Go(func() {
			if _, _, err := w.AppendUntil(ctx, id, entered("v")); err != nil {
				t.Error(err)
			}
		})
	}
	for range ids {
		come()
	}
	t.Logf("%d connections for a writer and a thousand readers", link.Conns())
	require.LessOrEqual(t, link.Conns(), conns+3*(1000/64+1))
	for _, i := range []int{0, 500, 999} {
		from := time.Now()
		b.AppendMany(ids[i], 1, visitors)
		require.Equal(t, ids[i], come())
		t.Logf("a record of one idle queue of a thousand came after %v", time.Since(from))
	}
	hub.Close()
	wg.Wait()
}

// One reader has much to read, another doesn't ask for what it has, and one is of a queue that another reads already: a third
// queue's reader doesn't notice.
func TestHubReadersDontHoldEachOtherUp(t *testing.T) {
	b := linelogtest.Start(t)
	log := b.Log(t)
	ids := someQueues(t, log, 3)
	long, stopped, quick := ids[0], ids[1], ids[2]
	const n = 100_000
	b.AppendMany(long, n, visitors)
	hub := log.NewHub()
	defer hub.Close()
	still := hub.NewReader(stopped, 0, "")
	defer still.Close()
	b.AppendMany(stopped, 1, visitors)
	require.NoError(t, inOrder(soon(t), still, 1))
	b.AppendMany(stopped, n, visitors) // and it doesn't ask

	r := hub.NewReader(quick, 0, "")
	defer r.Close()
	b.AppendMany(quick, 1, visitors)
	require.NoError(t, inOrder(soon(t), r, 1))
	var wg sync.WaitGroup
	for range 2 {
		far := hub.NewReader(long, 0, "")
		defer far.Close()
		wg.Go(func() {
			if err := inOrder(context.WithoutCancel(t.Context()), far, n); err != nil {
				t.Error(err)
			}
		})
	}
	most := time.Duration(0)
	for i := range 50 {
		from := time.Now()
		b.AppendMany(quick, 1, visitors)
		require.NoError(t, inOrder(soon(t), r, queue.Ticket(i+2)))
		most = max(most, time.Since(from))
	}
	wg.Wait()
	t.Logf("a record took %v at the most", most)
	require.Less(t, most, time.Second)
	require.NoError(t, inOrder(soon(t), still, n+1), "it goes on where it was")
}

// Bursts and calm, by turns, so that the readers change over both ways while records come: each comes once, in order.
func TestHubReaderChangesOver(t *testing.T) {
	b := linelogtest.Start(t)
	log, link := b.Link(t, nil, nil)
	ids := someQueues(t, log, 4)
	hub := log.NewHub()
	defer hub.Close()
	const rounds, burst, trickle = 2, 2000, 35
	var wg sync.WaitGroup
	for _, id := range ids {
		r := hub.NewReader(id, 0, "")
		defer r.Close()
		wg.Go(func() {
			if err := inOrder(soon(t), r, rounds*(burst+trickle)); err != nil {
				t.Errorf("queue %s: %v", id, err)
			}
		})
	}
	most, least := 0, 1000
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range rounds {
		for _, id := range ids {
			b.AppendMany(id, burst, visitors)
		}
		for range trickle {
			<-tick.C
			for _, id := range ids {
				b.AppendMany(id, 1, visitors)
			}
			most, least = max(most, link.Conns()), min(least, link.Conns())
		}
	}
	wg.Wait()
	t.Logf("%d to %d connections", least, most)
	require.Greater(t, most, least, "nobody has changed over")
}

// Readers come and go on one queue, while records come.
// Who is in no hurry waits at the end of a log, and not on the way there: a process that starts reads all of it first.
func TestHubReadsALongLogWithoutPauses(t *testing.T) {
	b := linelogtest.Start(t)
	log := b.Log(t)
	id := someQueues(t, log, 1)[0]
	w := writer(t, log)
	const n = 2000
	for range n { // one at a time, and long, so that a fetch brings few
		_, err := w.Append(t.Context(), id, entered(strings.Repeat("v", 120)))
		require.NoError(t, err)
	}
	hub := log.NewHub()
	defer hub.Close()
	r := hub.NewReader(id, 0, "").Unhurried()
	defer r.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // with pauses it was more than 10
	defer cancel()
	require.NoError(t, inOrder(ctx, r, n))
}

func TestHubReadersComeAndGo(t *testing.T) {
	b := linelogtest.Start(t)
	log, link := b.Link(t, nil, nil)
	ids := someQueues(t, log, 8)
	hub := log.NewHub()
	defer hub.Close()
	const n = 200
	go func() {
		for i := range n {
			for _, id := range ids {
				b.AppendBytes(id, fmt.Append([]byte{0x12, 0x05, 0x0a, 0x03}, 100+i))
			}
		}
	}()
	var wg sync.WaitGroup
	for _, id := range ids {
		wg.Go(func() {
			for at := queue.Ticket(0); at < n; {
				r := hub.NewReader(id, at, "")
				if err := inOrder(soon(t), r, min(n, at+40)); err != nil {
					t.Errorf("queue %s: %v", id, err)
				}
				at = r.After()
				r.Close()
			}
		})
	}
	wg.Wait()
	conns := link.Conns()
	for _, id := range ids { // whoever comes after them shares again
		r := hub.NewReader(id, n-1, "")
		defer r.Close()
		require.NoError(t, inOrder(soon(t), r, n))
	}
	require.LessOrEqual(t, link.Conns(), conns+3)
}

func TestHubOutlastsTheBrokersAbsence(t *testing.T) {
	b := linelogtest.Start(t)
	log, link := b.Link(t, nil, nil)
	ids := someQueues(t, log, 20)
	hub := log.NewHub()
	defer hub.Close()
	w := writer(t, b.Log(t))
	var readers []*linelog.Reader
	for _, id := range ids {
		fill(t, w, id, 1)
		r := hub.NewReader(id, 0, "")
		defer r.Close()
		require.NoError(t, inOrder(soon(t), r, 1))
		readers = append(readers, r)
	}
	link.Away()
	for _, id := range ids {
		fill(t, w, id, 5)
	}
	gone := readers[0] // leaves while nobody answers, and another comes
	gone.Close()
	readers[0] = hub.NewReader(ids[0], 1, "")
	defer readers[0].Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := readers[1].Next(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	link.Back()
	from := time.Now()
	for _, r := range readers {
		require.NoError(t, inOrder(soon(t), r, 6))
	}
	t.Logf("all went on %v after the brokers' return", time.Since(from))
}

// The hub's end is that of its readers.
func TestClosedHub(t *testing.T) {
	log := linelogtest.Start(t).Log(t)
	ensure(t, log, main)
	hub := log.NewHub()
	r := hub.NewReader(main, 0, "")
	defer r.Close()
	done := make(chan error, 1)
	go func() {
		_, err := r.Next(context.WithoutCancel(t.Context()))
		done <- err
	}()
	hub.Close()
	require.ErrorIs(t, <-done, linelog.ErrClosed)
	late := hub.NewReader(main, 0, "")
	defer late.Close()
	_, err := late.Next(soon(t))
	require.ErrorIs(t, err, linelog.ErrClosed)
	hub.Close()
	log.NewHub().Close()
}

// BenchmarkIdleQueues says what a thousand queues cost in which nothing happens, broker included, unless it is a real one.
func BenchmarkIdleQueues(b *testing.B) {
	var log *linelog.Log
	var ids []queue.ID
	if os.Getenv(realBrokers) != "" {
		l, _, id := realLog(b)
		log = l
		for i := range 1000 {
			ids = append(ids, queue.ID(fmt.Sprint(id, "-", i)))
		}
	} else {
		log = linelogtest.Start(b).Log(b)
		for i := range 1000 {
			ids = append(ids, queue.ID(fmt.Sprint("q", i)))
		}
	}
	for _, id := range ids {
		ensure(b, log, id)
	}
	b.Cleanup(func() {
		for _, id := range ids {
			_ = log.DeleteQueue(context.WithoutCancel(b.Context()), id)
		}
	})
	for _, of := range strings.Fields("hub own") {
		b.Run(of, func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			hub := log.NewHub()
			var wg sync.WaitGroup
			for _, id := range ids {
				r := hub.NewReader(id, 0, "")
				if of == "own" {
					r = log.NewReader(id, 0, "")
				}
				wg.Go(func() {
					defer r.Close()
					_, _ = r.Next(ctx)
				})
			}
			<-time.After(5 * time.Second) // all have begun
			runtime.GC()
			var before, after syscall.Rusage
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
			from := time.Now()
			<-time.After(20 * time.Second)
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
			used := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
			b.ReportMetric(100*used.Seconds()/time.Since(from).Seconds(), "%cpu")
			cancel()
			wg.Wait()
			hub.Close()
		})
	}
}
