package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/embedded"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/catalog"
	"github.com/soonbeon/soonbeon/services/load"
	"github.com/soonbeon/soonbeon/services/standalone"
)

// soonbeon runs a command line and returns what it printed and its exit code.
func soonbeon(t *testing.T, args ...string) (out string, code int, err error) {
	t.Helper()
	var b bytes.Buffer
	err = run(t.Context(), args, &b, io.Discard)
	var exit exitCode
	switch {
	case err == nil:
		return b.String(), 0, nil
	case errors.As(err, &exit):
		return b.String(), int(exit), nil
	}
	return b.String(), 1, err
}

// serving is a standalone process with a crowd that was let in.
func serving(t *testing.T, data string) *standalone.Process {
	t.Helper()
	cfg := standalone.Config{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Data: data, Queues: []string{"main"}, Rate: 1000, Interval: 100 * time.Millisecond,
		GrantTTL: time.Minute, Reentry: "back", Identity: "anonymous", StartTimeout: time.Minute}
	p, err := standalone.New(t.Context(), cfg, standalone.All, zap.NewNop())
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	return p
}

func stop(t *testing.T, p *standalone.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
	defer cancel()
	require.NoError(t, p.Stop(ctx))
}

func TestAuditOfARealSale(t *testing.T) {
	dir := t.TempDir()
	data, page := filepath.Join(dir, "data"), filepath.Join(dir, "page.html")
	p := serving(t, data)
	crowd, err := load.Run(t.Context(), load.Config{Target: []string{"http://" + p.Public()}, Visitors: 600, Refresh: 0.1, JSON: true}, io.Discard)
	if err == nil {
		require.True(t, crowd.OK(), crowd.Text())
	}

	_, code, auditErr := soonbeon(t, "audit", "--data", data)
	stop(t, p)
	require.NoError(t, err)
	require.ErrorIs(t, auditErr, embedded.ErrInUse, "while the server runs")
	require.ErrorContains(t, auditErr, "stop the server first")
	require.Equal(t, 1, code)

	out, code, err := soonbeon(t, "audit", "--data", data, "--json", "--html", page)
	require.NoError(t, err)
	require.Zero(t, code, out)
	var rep struct {
		OK                                bool
		Admitted, Visitors, Lost, Waiting int64
		OrderKept                         bool
	}
	require.NoError(t, json.Unmarshal([]byte(out), &rep))
	require.True(t, rep.OK && rep.OrderKept, out)
	require.EqualValues(t, 600, rep.Visitors)
	require.GreaterOrEqual(t, rep.Admitted, int64(600))
	require.Zero(t, rep.Lost+rep.Waiting)
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(html), "Everything held.")

	// What the audit opened, the server opens again.
	p = serving(t, data)
	stop(t, p)
}

func TestAuditOfABrokenLog(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(data, "VERSION"), []byte("1\n"), 0o600))
	broker, err := embedded.Start(filepath.Join(data, "log"), embedded.Options{})
	require.NoError(t, err)
	log, err := linelog.Open(linelog.Config{Brokers: broker.Addrs()}, nil, nil)
	require.NoError(t, err)
	_, _, err = log.EnsureQueue(t.Context(), "main")
	require.NoError(t, err)
	w, err := log.NewWriter()
	require.NoError(t, err)
	for _, rec := range []queue.Record{
		{Kind: queue.Claimed, Issuer: "bad", Mode: queue.ModeDirect},
		{Kind: queue.Entered, Visitor: "ann"},
		{Kind: queue.Entered, Visitor: "bob"},
		{Kind: queue.Admitted, Epoch: 1, People: []queue.Person{{Visitor: "bob", Ticket: 3, ExpiresMs: 1}}},
	} {
		_, _, err := w.AppendUntil(t.Context(), "main", rec)
		require.NoError(t, err)
	}
	w.Close()
	log.Close()
	require.NoError(t, broker.Close())

	out, code, err := soonbeon(t, "audit", "--data", data)
	require.NoError(t, err)
	require.Equal(t, 1, code)
	require.Contains(t, out, "record 4 (offset 3)")
	require.Contains(t, out, "BROKEN      people were passed, first at record 4 (offset 3)")

	require.NoError(t, os.WriteFile(filepath.Join(data, "witness.json"), []byte(`{"main":{"topic":"","seq":9,"served":0}}`), 0o600))
	out, code, err = soonbeon(t, "audit", "--data", data)
	require.NoError(t, err)
	require.Equal(t, 1, code)
	require.Contains(t, out, "it ends with ticket 4, and ticket 9 was seen")
}

// What was set when, and what the draw was committed to, come from the record of changes.
func TestAuditByTheRecordOfChanges(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(data, "VERSION"), []byte("1\n"), 0o600))
	broker, err := embedded.Start(filepath.Join(data, "log"), embedded.Options{})
	require.NoError(t, err)
	log, err := linelog.Open(linelog.Config{Brokers: broker.Addrs()}, nil, nil)
	require.NoError(t, err)
	_, _, err = log.EnsureQueue(t.Context(), "main")
	require.NoError(t, err)
	require.NoError(t, log.EnsureCatalog(t.Context()))
	seed := queue.Seed{1, 2, 3}
	set := queue.DefaultSettings()
	set.MaxActive, set.Order, set.OpensAtMs = 2, queue.ByDraw, 1
	entry := &queue.Entry{ID: "main", Settings: set, Commitment: queue.Commitment("main", seed)}
	to, err := json.Marshal(catalog.Show(entry, time.Now()))
	require.NoError(t, err)
	catalogue := log.NewCatalogWriter()
	_, err = catalogue.Edit(t.Context(), "main", func(*queue.Entry) (*queue.Entry, *queue.Change, error) {
		return entry, &queue.Change{Who: "ann", AtMs: time.Now().UnixMilli(), Queue: "main", Action: "create", To: string(to)}, nil
	})
	require.NoError(t, err)
	catalogue.Close()
	w, err := log.NewWriter()
	require.NoError(t, err)
	write := func(rec queue.Record) {
		_, _, err := w.AppendUntil(t.Context(), "main", rec)
		require.NoError(t, err)
	}
	write(queue.Record{Kind: queue.Claimed, Issuer: "one", Mode: queue.ModeDirect})
	d := queue.Draw{At: 6, Seed: seed}
	people := []queue.Person{}
	for i, v := range []string{"ann", "bob", "cyd", "dan"} {
		write(queue.Record{Kind: queue.Entered, Visitor: v})
		people = append(people, queue.Person{Visitor: v, Ticket: d.Number(queue.Ticket(i + 2)), ExpiresMs: time.Now().Add(time.Minute).UnixMilli()})
	}
	slices.SortFunc(people, func(a, b queue.Person) int { return int(a.Ticket - b.Ticket) })
	write(queue.Record{Kind: queue.Drawn, Epoch: 1, Seed: seed})
	write(queue.Record{Kind: queue.Admitted, Epoch: 1, People: people[:2]})
	audit := func(args ...string) (string, int) {
		log.Close()
		require.NoError(t, broker.Close())
		out, code, err := soonbeon(t, append([]string{"audit", "--data", data}, args...)...)
		require.NoError(t, err)
		return out, code
	}
	out, code := audit("--ticket", "3")
	require.Zero(t, code, out)
	require.Contains(t, out, "it is the one that was committed to")
	require.Contains(t, out, "(at most 2 are to)")
	require.Contains(t, out, "(at most 193 are let in at 175/s)")
	require.Contains(t, out, fmt.Sprintf("ticket      3           drew number %d; its entry: ", d.Number(3)))

	out, code, err = soonbeon(t, "audit", "--data", data, "--commitment", "abc", "--max-active", "1")
	require.NoError(t, err)
	require.Equal(t, 1, code)
	require.Contains(t, out, "it is NOT the one that was committed to")
	require.Contains(t, out, "makes it 2 admissions that hold at one time; at most 1 are to")
}

func TestAuditWithoutALog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	_, code, err := soonbeon(t, "audit", "--data", dir)
	require.Equal(t, 1, code)
	require.ErrorContains(t, err, "there is no log in "+dir)
	require.NoDirExists(t, dir)
}
