package linelog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

func TestTicketIsTheRecordsPlace(t *testing.T) {
	log := linelogtest.Start(t).Log(t)
	ensure(t, log, main)
	w := writer(t, log)
	var wg sync.WaitGroup
	tickets := make([]queue.Ticket, 200)
	for i := range tickets {
		wg.Go(func() {
			ticket, err := w.Append(soon(t), main, entered(fmt.Sprint("v", i)))
			if err != nil {
				t.Error(err)
			}
			tickets[i] = ticket
		})
	}
	wg.Wait()
	recs := linelogtest.ReadAll(t, log, main, 0)
	if len(recs) != len(tickets) {
		t.Fatalf("%d records in the log, want %d", len(recs), len(tickets))
	}
	for i, ticket := range tickets {
		got := recs[ticket-1]
		if got.Ticket != ticket || got.Visitor != fmt.Sprint("v", i) || got.AtMs == 0 {
			t.Errorf("v%d was told ticket %d, where %+v stands", i, ticket, got)
		}
	}
}

func TestDeadContextPutsNothingIntoTheBuffer(t *testing.T) {
	log := linelogtest.Start(t).Log(t)
	ensure(t, log, main)
	w := writer(t, log)
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Append(dead, main, entered("v1")); !errors.Is(err, context.Canceled) || errors.Is(err, linelog.ErrUnknown) {
		t.Errorf("Append says %v, want that of the context, and not unknown", err)
	}
	if _, _, err := w.AppendUntil(dead, main, entered("v1")); !errors.Is(err, context.Canceled) || errors.Is(err, linelog.ErrUnknown) {
		t.Errorf("AppendUntil says %v, want that of the context, and not unknown", err)
	}
	if ticket, err := w.Append(soon(t), main, entered("v2")); err != nil || ticket != 1 {
		t.Errorf("the next one got ticket %d, %v; want 1: nothing was written before it", ticket, err)
	}
}

// buffered waits until n records wait for the broker.
func buffered(t *testing.T, reg *prometheus.Registry, n float64) {
	t.Helper()
	await(t, fmt.Sprintf("%v records wait", n), func() bool { return gauge(t, reg, "soonbeon_log_buffered_records") == n })
}

// await polls for what no signal tells.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for ctx := soon(t); !ok(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func gauge(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func TestOneCallersCancelDoesNotFailAnothers(t *testing.T) {
	b := linelogtest.Start(t)
	reg := prometheus.NewRegistry()
	log, link := b.Link(t, nil, reg, func(c *linelog.Config) { c.AppendTimeout = 15 * time.Second })
	ensure(t, log, main)
	w := writer(t, log)
	if _, err := w.Append(soon(t), main, entered("first")); err != nil { // the connection is there
		t.Fatal(err)
	}
	link.Hang()
	impatient, cancel := context.WithCancel(t.Context())
	type outcome struct {
		ticket queue.Ticket
		err    error
	}
	appendIt := func(ctx context.Context, v string) <-chan outcome {
		c := make(chan outcome, 1)
		go func() {
			ticket, err := w.Append(ctx, main, entered(v))
			c <- outcome{ticket, err}
		}()
		return c
	}
	// So many requests may be in flight; what comes after them waits in one batch, of which the impatient one is the first.
	const before = 5
	var sent []<-chan outcome
	for i := range before {
		sent = append(sent, appendIt(soon(t), fmt.Sprint("sent", i)))
		b.AwaitNext(main, queue.Ticket(3+i))
	}
	one := appendIt(impatient, "impatient")
	buffered(t, reg, before+1)
	two := appendIt(soon(t), "patient")
	buffered(t, reg, before+2)
	cancel()
	if o := <-one; !errors.Is(o.err, linelog.ErrUnknown) || !errors.Is(o.err, context.Canceled) {
		t.Errorf("the impatient caller was told %v, want unknown and canceled", o.err)
	}
	link.Back()
	for _, c := range append(sent, two) {
		if o := <-c; o.err != nil {
			t.Errorf("a patient caller was told %v", o.err)
		}
	}
}

// Fault 2: a produce that timed out but was written stands in the log once, and its ticket is right.
func TestWrittenButNotAnsweredStandsOnce(t *testing.T) {
	b := linelogtest.Start(t)
	log := b.Log(t)
	ensure(t, log, main)
	w := writer(t, log)
	b.LoseProduceReplies(2)
	ticket, err := w.Append(soon(t), main, entered("v1"))
	if err != nil || ticket != 1 {
		t.Fatalf("got %d, %v; want ticket 1", ticket, err)
	}
	if ticket, err = w.Append(soon(t), main, entered("v2")); err != nil || ticket != 2 {
		t.Fatalf("got %d, %v; want ticket 2", ticket, err)
	}
	if recs := linelogtest.ReadAll(t, log, main, 0); len(recs) != 2 {
		t.Errorf("%d records in the log, want 2: %+v", len(recs), recs)
	}
}

// Fault 2: the connection dies between the write and its answer. The record is sent again with its sequence number.
func TestCutBetweenWriteAndAnswerStandsOnce(t *testing.T) {
	b := linelogtest.Start(t)
	log, link := b.Link(t, nil, nil, func(c *linelog.Config) { c.AppendTimeout = 15 * time.Second })
	ensure(t, log, main)
	w := writer(t, log)
	if _, err := w.Append(soon(t), main, entered("first")); err != nil {
		t.Fatal(err)
	}
	link.Hang()
	done := make(chan error, 1)
	go func() {
		ticket, err := w.Append(soon(t), main, entered("v1"))
		if err == nil && ticket != 2 {
			err = fmt.Errorf("ticket %d, want 2", ticket)
		}
		done <- err
	}()
	b.AwaitNext(main, 3) // written
	link.Away()
	link.Back()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if recs := linelogtest.ReadAll(t, log, main, 0); len(recs) != 2 {
		t.Errorf("%d records in the log, want 2: %+v", len(recs), recs)
	}
}

func TestNoAnswerIsUnknown(t *testing.T) {
	b := linelogtest.Start(t)
	log, link := b.Link(t, nil, nil, func(c *linelog.Config) { c.AppendTimeout = 200 * time.Millisecond })
	ensure(t, log, main)
	w := writer(t, log)
	if _, err := w.Append(soon(t), main, entered("first")); err != nil {
		t.Fatal(err)
	}
	link.Hang()
	if _, err := w.Append(soon(t), main, entered("v1")); !errors.Is(err, linelog.ErrUnknown) {
		t.Fatalf("got %v, want unknown", err)
	}
	link.Back()
	if err := w.Flush(soon(t)); err != nil {
		t.Fatal(err)
	}
	if recs := linelogtest.ReadAll(t, log, main, 1); len(recs) != 1 || recs[0].Visitor != "v1" {
		t.Errorf("got %+v; it was written after all, once", recs)
	}
}

// Fault 25: Kafka away. An answer in time, bounded memory, nothing acknowledged, and back to work within 5 s.
func TestBrokersAway(t *testing.T) {
	const most = 50
	b := linelogtest.Start(t)
	reg := prometheus.NewRegistry()
	log, link := b.Link(t, nil, reg, func(c *linelog.Config) { c.MaxBuffered = most })
	ensure(t, log, main)
	w := writer(t, log)
	if _, err := w.Append(soon(t), main, entered("first")); err != nil {
		t.Fatal(err)
	}
	link.Away()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var busy, unknown int
	for i := range 2 * most {
		wg.Go(func() {
			start := time.Now()
			_, err := w.Append(context.WithoutCancel(t.Context()), main, entered(fmt.Sprint("lost", i)))
			if took := time.Since(start); took > 3*time.Second {
				t.Errorf("an answer took %v", took)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, linelog.ErrBusy):
				busy++
			case errors.Is(err, linelog.ErrUnknown):
				unknown++
			default:
				t.Errorf("got %v", err)
			}
		})
	}
	wg.Wait()
	if busy != most || unknown != most {
		t.Errorf("%d were told busy and %d unknown, want %d each", busy, unknown, most)
	}
	if n := gauge(t, reg, "soonbeon_log_buffered_records"); n > most {
		t.Errorf("%v records wait, at most %d may", n, most)
	}
	link.Back()
	back := time.Now()
	await(t, "it works again", func() bool {
		_, err := w.Append(soon(t), main, entered("again"))
		return err == nil
	})
	if took := time.Since(back); took > 5*time.Second {
		t.Errorf("back to work %v after the brokers' return", took)
	}
	if n := gauge(t, reg, "soonbeon_log_buffered_records"); n != 0 {
		t.Errorf("%v records still wait", n)
	}
}

// An outage leaves behind what arrived at its start, and nothing of what came later: it can't appear in the log when its
// caller has long entered elsewhere.
func TestStalledQueueTakesNoMore(t *testing.T) {
	b := linelogtest.Start(t)
	log, link := b.Link(t, nil, nil, func(c *linelog.Config) { c.AppendTimeout = time.Second })
	ensure(t, log, main)
	w := writer(t, log)
	if _, err := w.Append(soon(t), main, entered("first")); err != nil {
		t.Fatal(err)
	}
	link.Hang()
	for when, want := range []error{linelog.ErrUnknown, linelog.ErrBusy} {
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				if _, err := w.Append(soon(t), main, entered(fmt.Sprint(when, i))); !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
			})
		}
		wg.Wait()
	}
	// Another queue isn't held responsible; that it gets no answer either is for itself to find out.
	if _, err := w.Append(soon(t), "other", entered("v")); !errors.Is(err, linelog.ErrUnknown) {
		t.Errorf("another queue: got %v, want unknown", err)
	}
	link.Back()
	if err := w.Flush(soon(t)); err != nil {
		t.Fatal(err)
	}
	recs := linelogtest.ReadAll(t, log, main, 1)
	for _, rec := range recs {
		if rec.Visitor[0] != '0' {
			t.Errorf("was told that nothing is written, and stands in the log: %+v", rec)
		}
	}
	if _, err := w.Append(soon(t), main, entered("fresh")); err != nil {
		t.Error(err)
	}
}

func TestNoQueue(t *testing.T) {
	log := linelogtest.Start(t).Log(t, func(c *linelog.Config) { c.AppendTimeout = 15 * time.Second })
	w := writer(t, log)
	start := time.Now()
	if _, err := w.Append(soon(t), "nowhere", entered("v")); !errors.Is(err, linelog.ErrNoQueue) {
		t.Errorf("got %v, want ErrNoQueue", err)
	}
	t.Logf("answered after %v", time.Since(start))
	if _, err := log.Topic(soon(t), "nowhere"); !errors.Is(err, linelog.ErrNoQueue) {
		t.Errorf("got %v, want ErrNoQueue: appending must not make topics", err)
	}
	if _, _, err := log.Bounds(soon(t), "nowhere"); !errors.Is(err, linelog.ErrNoQueue) {
		t.Errorf("got %v, want ErrNoQueue", err)
	}
	ensure(t, log, "nowhere")
	if ticket, err := w.Append(soon(t), "nowhere", entered("v")); err != nil || ticket != 1 {
		t.Errorf("got %d, %v; want ticket 1 once the queue was made", ticket, err)
	}
}

func TestAppendUntilOutlastsFailures(t *testing.T) {
	b := linelogtest.Start(t)
	log, link := b.Link(t, nil, nil, func(c *linelog.Config) { c.AppendTimeout = time.Second })
	ensure(t, log, main)
	w := writer(t, log)
	b.RefuseProduces(3)
	claim := queue.Record{Kind: queue.Claimed, Issuer: "i", Mode: queue.ModeRedis}
	ticket, at, err := w.AppendUntil(soon(t), main, claim)
	if err != nil || ticket != 1 || at == 0 {
		t.Fatalf("got %d at %d, %v; want ticket 1", ticket, at, err)
	}
	link.Away()
	done := make(chan error, 1)
	go func() {
		_, _, err := w.AppendUntil(soon(t), main, claim)
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("returned %v while the brokers were away", err)
	case <-time.After(1500 * time.Millisecond): // longer than AppendTimeout
	}
	link.Back()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	link.Away()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := w.AppendUntil(ctx, main, claim); !errors.Is(err, linelog.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want unknown and the context's", err)
	}
}

// An error that says nothing of the record's fate is never told as "nothing was written".
func TestRefusedForNoReasonIsUnknown(t *testing.T) {
	b := linelogtest.Start(t)
	log := b.Log(t)
	ensure(t, log, main)
	w := writer(t, log)
	b.RefuseProduces(1)
	if _, err := w.Append(soon(t), main, entered("v")); !errors.Is(err, linelog.ErrUnknown) {
		t.Errorf("got %v, want unknown", err)
	}
	if _, err := w.Append(soon(t), main, entered("v")); err != nil {
		t.Errorf("the next one fails too: %v", err)
	}
}

func TestClosedWriter(t *testing.T) {
	log := linelogtest.Start(t).Log(t)
	w := writer(t, log)
	w.Close()
	w.Close()
	if _, err := w.Append(soon(t), main, entered("v")); !errors.Is(err, linelog.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

func TestAppendsAreCounted(t *testing.T) {
	b := linelogtest.Start(t)
	reg := prometheus.NewRegistry()
	log, _ := b.Link(t, nil, reg)
	ensure(t, log, main)
	w := writer(t, log)
	if _, err := w.Append(soon(t), main, entered("v")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Append(soon(t), main, entered("")); err == nil {
		t.Error("a visitor without a name got in")
	}
	want := `
# HELP soonbeon_log_appends_total Records handed over to be appended, by result.
# TYPE soonbeon_log_appends_total counter
soonbeon_log_appends_total{result="busy"} 0
soonbeon_log_appends_total{result="no_queue"} 0
soonbeon_log_appends_total{result="ok"} 1
soonbeon_log_appends_total{result="refused"} 1
soonbeon_log_appends_total{result="unknown"} 0
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "soonbeon_log_appends_total"); err != nil {
		t.Error(err)
	}
	second, err := linelog.Open(b.Config(), nil, reg)
	if err != nil {
		t.Fatalf("a second Log on the same registerer: %v", err)
	}
	second.Close()
}
