package audit

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

func TestALogInKafkaIsAudited(t *testing.T) {
	b := linelogtest.Start(t)
	log := b.Log(t)
	_, _, err := log.EnsureQueue(t.Context(), "main")
	require.NoError(t, err)
	w := sale(2000)
	b.AppendMany("main", len(w.recs), func(i int) queue.Record { return w.recs[i] })
	garbage := b.AppendBytes("main", []byte("not ours"))
	run := func() (*Report, error) {
		s := OfLog(log, "main")
		defer s.Close()
		return Run(t.Context(), Config{Queue: "main"}, s)
	}
	r, err := run()
	require.NoError(t, err)
	require.True(t, r.OK(), r.Text())
	require.EqualValues(t, 1960, r.Admitted)
	require.EqualValues(t, len(w.recs)+1, r.Records)
	require.Equal(t, garbage, r.Find(Unreadable).Examples[0].Ticket)

	b.Trim("main", 1000)
	r, err = run()
	require.NoError(t, err)
	require.True(t, r.Trimmed)
	require.True(t, r.OK(), r.Text())
	require.EqualValues(t, 1000, r.First)

	b.Delete("main")
	_, err = run()
	require.ErrorIs(t, err, linelog.ErrNoQueue)
}

// million is a log of n records in which everybody comes twice as fast as they are let in.
func million(n int) []queue.Record {
	recs := make([]queue.Record, 0, n)
	add := func(rec queue.Record) queue.Ticket {
		rec.Ticket, rec.AtMs = queue.Ticket(len(recs)+1), day+int64(len(recs))/3
		recs = append(recs, rec)
		return rec.Ticket
	}
	epoch := add(queue.Record{Kind: queue.Claimed, Mode: queue.ModeRedis})
	head := 1
	for len(recs) < n {
		for range 100 {
			add(queue.Record{Kind: queue.Entered, Visitor: fmt.Sprintf("visitor-%016d", len(recs)), Key: "0123456789abcdef"})
		}
		var people []queue.Person
		for ; len(people) < 50; head++ {
			if rec := &recs[head]; rec.Kind == queue.Entered {
				people = append(people, in(rec.Visitor, rec.Ticket))
			}
		}
		add(queue.Record{Kind: queue.Admitted, Epoch: epoch, People: people})
	}
	return recs
}

// BenchmarkTwoMillionRecords measures the engine alone: a million people wait at the end.
func BenchmarkTwoMillionRecords(b *testing.B) {
	recs := million(2_000_000)
	for b.Loop() {
		r, err := Run(b.Context(), Config{Queue: "main"}, OfRecords(recs))
		if err != nil || !r.OK() {
			b.Fatal(err, r.Text())
		}
	}
	b.ReportMetric(float64(len(recs))*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
