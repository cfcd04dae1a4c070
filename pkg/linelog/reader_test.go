package linelog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

func fill(t testing.TB, w *linelog.Writer, id queue.ID, n int) {
	t.Helper()
	for i := range n {
		if _, err := w.Append(soon(t), id, entered(fmt.Sprint("v", i))); err != nil {
			t.Fatal(err)
		}
	}
}

// next reads until at least n records are here.
func next(t testing.TB, r *linelog.Reader, n int) (out []queue.Record) {
	t.Helper()
	for len(out) < n {
		recs, err := r.Next(soon(t))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, recs...)
	}
	return out
}

// kind makes readers of one kind.
type kind = func(*linelog.Log) interface {
	NewReader(id queue.ID, after queue.Ticket, topicID string) *linelog.Reader
}

// eachKind runs a test with readers that have a connection of their own, and with those of a hub.
func eachKind(t *testing.T, test func(*testing.T, kind)) {
	type makes = interface {
		NewReader(id queue.ID, after queue.Ticket, topicID string) *linelog.Reader
	}
	t.Run("own", func(t *testing.T) { test(t, func(log *linelog.Log) makes { return log }) })
	t.Run("hub", func(t *testing.T) {
		hubs := make(map[*linelog.Log]*linelog.Hub)
		t.Cleanup(func() {
			for _, h := range hubs {
				h.Close()
			}
		})
		test(t, func(log *linelog.Log) makes {
			if hubs[log] == nil {
				hubs[log] = log.NewHub()
			}
			return hubs[log]
		})
	})
}

func wantTrouble(t *testing.T, r *linelog.Reader, kind linelog.TroubleKind) *linelog.TroubleError {
	t.Helper()
	recs, err := r.Next(soon(t))
	var trouble *linelog.TroubleError
	if !errors.As(err, &trouble) || trouble.Kind != kind || trouble.Queue != main {
		t.Fatalf("got %d records, %v; want the log %s", len(recs), err, kind)
	}
	if _, again := r.Next(soon(t)); !errors.Is(again, err) {
		t.Errorf("asked again it says %v, want the same", again)
	}
	return trouble
}

func TestReaderGoesOnFromATicket(t *testing.T) { eachKind(t, testReaderGoesOnFromATicket) }

func testReaderGoesOnFromATicket(t *testing.T, of kind) {
	log := linelogtest.Start(t).Log(t)
	id := ensure(t, log, main)
	w := writer(t, log)
	fill(t, w, main, 10)
	r := of(log).NewReader(main, 7, id)
	defer r.Close()
	recs := next(t, r, 3)
	for i, rec := range recs {
		if rec.Ticket != queue.Ticket(8+i) || rec.Kind != queue.Entered {
			t.Errorf("got %+v as number %d", rec, i)
		}
	}
	// At the end it waits, and delivers as soon as there is something.
	go func() { _, _ = w.Append(context.WithoutCancel(t.Context()), main, entered("late")) }()
	if recs := next(t, r, 1); recs[0].Ticket != 11 || r.After() != 11 {
		t.Errorf("got %+v, after %d", recs, r.After())
	}
}

func TestReaderEndsWithItsContextAndGoesOn(t *testing.T) {
	eachKind(t, testReaderEndsWithItsContextAndGoesOn)
}

func testReaderEndsWithItsContextAndGoesOn(t *testing.T, of kind) {
	log := linelogtest.Start(t).Log(t)
	ensure(t, log, main)
	w := writer(t, log)
	r := of(log).NewReader(main, 0, "")
	defer r.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want the context's error", err)
	}
	fill(t, w, main, 1)
	next(t, r, 1)
	done := make(chan error, 1)
	go func() {
		_, err := r.Next(context.WithoutCancel(t.Context()))
		done <- err
	}()
	r.Close()
	r.Close()
	if err := <-done; !errors.Is(err, linelog.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

// Fault 12: the log's start has moved past what was read.
func TestTrimmedIsTold(t *testing.T) { eachKind(t, testTrimmedIsTold) }

func testTrimmedIsTold(t *testing.T, of kind) {
	b := linelogtest.Start(t)
	log := b.Log(t)
	id := ensure(t, log, main)
	fill(t, writer(t, log), main, 10)
	b.Trim(main, 6)
	for after, trimmed := range map[queue.Ticket]bool{0: true, 4: true, 5: false, 10: false} {
		r := of(log).NewReader(main, after, id)
		if trimmed {
			if e := wantTrouble(t, r, linelog.Trimmed); e.First != 6 || e.Next != 11 || e.After != after {
				t.Errorf("after %d: told %+v", after, e)
			}
		} else if after < 10 {
			if recs := next(t, r, 5); recs[0].Ticket != 6 {
				t.Errorf("after %d: began with ticket %d", after, recs[0].Ticket)
			}
		}
		r.Close()
	}
}

// Fault 12, while reading: trimmed before the reader's eyes, and made anew behind its back.
func TestTroubleWhileReading(t *testing.T) { eachKind(t, testTroubleWhileReading) }

func testTroubleWhileReading(t *testing.T, of kind) {
	t.Run("trimmed", func(t *testing.T) {
		b := linelogtest.Start(t)
		log, link := b.Link(t, nil, nil)
		ensure(t, log, main)
		fill(t, writer(t, log), main, 1)
		r := of(log).NewReader(main, 0, "")
		defer r.Close()
		next(t, r, 1)
		link.Away() // so that it can't read on before the trim
		for i := range 9 {
			b.AppendBytes(main, fmt.Append([]byte{0x12, 0x04, 0x0a, 0x02}, "v", i))
		}
		b.Trim(main, 6)
		link.Back()
		wantTrouble(t, r, linelog.Trimmed)
	})
	t.Run("recreated", func(t *testing.T) {
		b := linelogtest.Start(t)
		log := b.Log(t)
		was := ensure(t, log, main)
		fill(t, writer(t, log), main, 3)
		r := of(log).NewReader(main, 0, "") // the id is pinned by reading
		defer r.Close()
		next(t, r, 3)
		b.Recreate(main)
		now, err := log.Topic(soon(t), main)
		if err != nil {
			t.Fatal(err)
		}
		if e := wantTrouble(t, r, linelog.Recreated); e.Wanted != was || e.TopicID != now {
			t.Errorf("told %+v, it was %s and is %s", e, was, now)
		}
	})
	t.Run("gone", func(t *testing.T) {
		b := linelogtest.Start(t)
		log := b.Log(t)
		ensure(t, log, main)
		fill(t, writer(t, log), main, 3)
		r := of(log).NewReader(main, 0, "")
		defer r.Close()
		next(t, r, 3)
		b.Delete(main)
		wantTrouble(t, r, linelog.Gone)
	})
}

func TestTroubleAtTheStart(t *testing.T) { eachKind(t, testTroubleAtTheStart) }

func testTroubleAtTheStart(t *testing.T, of kind) {
	b := linelogtest.Start(t)
	log := b.Log(t)
	id := ensure(t, log, main)
	fill(t, writer(t, log), main, 3)
	short := of(log).NewReader(main, 4, id)
	defer short.Close()
	if e := wantTrouble(t, short, linelog.Short); e.Next != 4 || e.After != 4 {
		t.Errorf("told %+v", e)
	}
	b.Recreate(main)
	for range 5 { // longer than before: only the id tells
		b.AppendBytes(main, []byte{0x12, 0x03, 0x0a, 0x01, 'w'})
	}
	other := of(log).NewReader(main, 3, id)
	defer other.Close()
	wantTrouble(t, other, linelog.Recreated)
	b.Delete(main)
	gone := of(log).NewReader(main, 3, id)
	defer gone.Close()
	wantTrouble(t, gone, linelog.Gone)
}

// Fault 13: skipped, kept, everybody behind it unaffected; counted each time, logged once.
func TestReaderSkipsWhatItCannotRead(t *testing.T) {
	b := linelogtest.Start(t)
	core, logs := observer.New(zapcore.WarnLevel)
	reg := prometheus.NewRegistry()
	log, _ := b.Link(t, zap.New(core), reg)
	ensure(t, log, main)
	w := writer(t, log)
	fill(t, w, main, 1)
	b.AppendBytes(main, []byte("\xff\xff\xff"))
	b.AppendBytes(main, nil)
	fill(t, w, main, 1)
	recs := linelogtest.ReadAll(t, log, main, 0)
	kinds := ""
	for i, rec := range recs {
		if rec.Ticket != queue.Ticket(i+1) {
			t.Errorf("number %d has ticket %d", i, rec.Ticket)
		}
		kinds += rec.Kind.String() + " "
	}
	if kinds != "entered skipped skipped entered " {
		t.Errorf("read %s", kinds)
	}
	if n := logs.FilterMessageSnippet("skipped a record").Len(); n != 1 {
		t.Errorf("logged %d times, want once: %+v", n, logs.All())
	}
}

func TestReaderOutlastsTheBrokersAbsence(t *testing.T) {
	eachKind(t, testReaderOutlastsTheBrokersAbsence)
}

func testReaderOutlastsTheBrokersAbsence(t *testing.T, of kind) {
	b := linelogtest.Start(t)
	log, link := b.Link(t, nil, nil)
	id := ensure(t, log, main)
	fill(t, writer(t, log), main, 2)
	link.Away()
	r := of(log).NewReader(main, 0, id)
	defer r.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if recs, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, %v; want it to wait", recs, err)
	}
	link.Back()
	next(t, r, 2)
	link.Away()
	b.AppendBytes(main, []byte{0x12, 0x03, 0x0a, 0x01, 'w'})
	back := make(chan struct{})
	go func() {
		defer close(back)
		<-time.After(700 * time.Millisecond)
		link.Back()
	}()
	if recs := next(t, r, 1); recs[0].Ticket != 3 {
		t.Errorf("got %+v", recs)
	}
	<-back
}

func TestReaderDeliversInBatches(t *testing.T) { eachKind(t, testReaderDeliversInBatches) }

func testReaderDeliversInBatches(t *testing.T, of kind) {
	b := linelogtest.Start(t)
	log := b.Log(t)
	ensure(t, log, main)
	const n = 2*queue.MaxBatch + 10
	b.AppendMany(main, n, func(i int) queue.Record { return entered(fmt.Sprint("v", i)) })
	r := of(log).NewReader(main, 0, "")
	defer r.Close()
	seen := queue.Ticket(0)
	for seen < n {
		recs, err := r.Next(soon(t))
		if err != nil {
			t.Fatal(err)
		}
		if len(recs) == 0 || len(recs) > queue.MaxBatch {
			t.Fatalf("%d records at once, 1 to %d may come", len(recs), queue.MaxBatch)
		}
		for _, rec := range recs {
			if seen++; rec.Ticket != seen {
				t.Fatalf("ticket %d where %d was to come", rec.Ticket, seen)
			}
		}
	}
}

// BenchmarkRead says how fast a log of entries is read and decoded. On real brokers where there are any.
func BenchmarkRead(b *testing.B) {
	const n = 500_000
	var log *linelog.Log
	id := main
	broker := linelogtest.Start(b)
	many := broker.AppendMany
	if os.Getenv(realBrokers) != "" {
		log, _, id = realLog(b)
		many = linelogtest.At(b, strings.Split(os.Getenv(realBrokers), ",")).AppendMany
	} else {
		log = broker.Log(b)
	}
	ensure(b, log, id)
	many(id, n, func(int) queue.Record { return entered(queue.NewVisitor()) })
	for b.Loop() {
		r := log.NewReader(id, 0, "")
		for r.After() < n {
			if _, err := r.Next(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		r.Close()
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// A reader in no hurry gets what came meanwhile together, half a second later at the most, and everything.
func TestUnhurriedReaderWaitsForMore(t *testing.T) { eachKind(t, testUnhurriedReaderWaitsForMore) }

func testUnhurriedReaderWaitsForMore(t *testing.T, of kind) {
	b := linelogtest.Start(t)
	log := b.Log(t)
	ensure(t, log, "main")
	r := of(log).NewReader("main", 0, "").Unhurried()
	defer r.Close()
	began := time.Now()
	for _, n := range []int{5, 1} {
		b.AppendMany("main", n, func(int) queue.Record { return queue.Record{Kind: queue.Entered, Visitor: "v"} })
		for n > 0 {
			recs, err := r.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			n -= len(recs)
		}
		if n != 0 {
			t.Fatalf("%d records more than were written", -n)
		}
	}
	if d := time.Since(began); d < 400*time.Millisecond {
		t.Errorf("two single fetches took %v: neither waited for more", d)
	}
}
