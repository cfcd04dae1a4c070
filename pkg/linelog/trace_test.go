package linelog_test

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

type traceKey struct{}

// The trace of whoever appends travels with the record, past a hub too, and changes nothing of what is read.
func TestTheTraceTravelsWithTheRecord(t *testing.T) {
	b := linelogtest.Start(t)
	log, err := linelog.Open(linelog.Config{Brokers: b.Addrs(), Traceparent: func(ctx context.Context) string {
		trace, _ := ctx.Value(traceKey{}).(string)
		return trace
	}}, zap.NewNop(), prometheus.NewRegistry())
	require.NoError(t, err)
	t.Cleanup(log.Close)
	_, _, err = log.EnsureQueue(t.Context(), "main")
	require.NoError(t, err)
	w, err := log.NewWriter()
	require.NoError(t, err)
	t.Cleanup(w.Close)
	want := []queue.Record{
		{Ticket: 1, Kind: queue.Entered, Visitor: "a"}, {Ticket: 2, Kind: queue.Entered, Visitor: "b"}, {Ticket: 3, Kind: queue.Entered, Visitor: "c"},
	}
	for i, trace := range []string{"00-aa-bb-01", "", "00-cc-dd-00"} {
		_, err := w.Append(context.WithValue(t.Context(), traceKey{}, trace), "main", want[i])
		require.NoError(t, err)
	}
	hub := log.NewHub()
	t.Cleanup(hub.Close)
	for name, r := range map[string]*linelog.Reader{"its own": log.NewReader("main", 0, ""), "a hub's": hub.NewReader("main", 0, "")} {
		traces := map[queue.Ticket]string{}
		r.Traced(func(t queue.Ticket, traceparent string) { traces[t] = traceparent })
		var got []queue.Record
		for len(got) < 3 {
			recs, err := r.Next(t.Context())
			require.NoError(t, err)
			got = append(got, recs...)
		}
		r.Close()
		for i := range got {
			got[i].AtMs = 0
		}
		require.Equal(t, want, got, name)
		require.Equal(t, map[queue.Ticket]string{1: "00-aa-bb-01", 3: "00-cc-dd-00"}, traces, name)
	}
}
