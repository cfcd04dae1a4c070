package linelog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/queue"
	soonbeonv1 "github.com/soonbeon/soonbeon/proto/soonbeon/v1"
)

func catalogWriter(t testing.TB, log *linelog.Log) *linelog.CatalogWriter {
	t.Helper()
	require.NoError(t, log.EnsureCatalog(soon(t)))
	w := log.NewCatalogWriter()
	t.Cleanup(w.Close)
	return w
}

func anEntry() *queue.Entry {
	s := queue.DefaultSettings()
	s.Rate, s.Message, s.OpensAtMs = 12.5, "soon", 1_700_000_000_000
	s.Rounding = []queue.RoundStep{{Ahead: 100, To: 10}}
	return &queue.Entry{Settings: s, Commitment: "ab", Sealed: []byte{1, 2}}
}

func did(what string) *queue.Change {
	return &queue.Change{Who: "ops", Action: what, AtMs: 1, From: "{}", To: "{}"}
}

// makeQueue makes the queue and returns the entry.
func makeQueue(t testing.TB, w *linelog.CatalogWriter, id queue.ID) *queue.Entry {
	t.Helper()
	e, err := w.Edit(soon(t), id, func(now *queue.Entry) (*queue.Entry, *queue.Change, error) {
		if now != nil {
			return nil, nil, errors.New("exists")
		}
		return anEntry(), did("create"), nil
	})
	require.NoError(t, err)
	return e
}

// rename sets the message.
func rename(message string) func(*queue.Entry) (*queue.Entry, *queue.Change, error) {
	return func(now *queue.Entry) (*queue.Entry, *queue.Change, error) {
		now.Settings.Message = message
		return now, did("set"), nil
	}
}

// catalog reads everything that is there.
func catalog(t testing.TB, log *linelog.Log) (all []linelog.CatalogRecord, last map[queue.ID]linelog.CatalogRecord) {
	t.Helper()
	end, err := log.CatalogEnd(soon(t))
	require.NoError(t, err)
	r := log.NewCatalogReader()
	defer r.Close()
	last = make(map[queue.ID]linelog.CatalogRecord)
	for r.Position() < end {
		recs, err := r.Next(soon(t))
		require.NoError(t, err)
		for _, rec := range recs {
			all, last[rec.ID] = append(all, rec), rec
		}
	}
	return all, last
}

func TestCatalogKeepsAnEntry(t *testing.T) {
	log := linelogtest.Start(t).Log(t)
	w := catalogWriter(t, log)
	made := makeQueue(t, w, "east")
	require.Equal(t, made.Version, made.Made)
	want := anEntry()
	want.ID, want.Version, want.Made = "east", made.Version, made.Version
	require.Equal(t, want, made)

	set, err := w.Edit(soon(t), "east", rename("sold out soon"))
	require.NoError(t, err)
	require.Greater(t, set.Version, made.Version)
	require.Equal(t, made.Made, set.Made)

	same, err := w.Edit(soon(t), "east", func(*queue.Entry) (*queue.Entry, *queue.Change, error) { return nil, nil, nil })
	require.NoError(t, err)
	require.Equal(t, set, same, "nothing was written")

	refusal := errors.New("no")
	_, err = w.Edit(soon(t), "east", func(*queue.Entry) (*queue.Entry, *queue.Change, error) { return nil, nil, refusal })
	require.Equal(t, refusal, err)

	all, last := catalog(t, log)
	require.Len(t, all, 2)
	require.Equal(t, set, last["east"].Entry)

	gone, err := w.Edit(soon(t), "east", func(*queue.Entry) (*queue.Entry, *queue.Change, error) { return nil, did("delete"), nil })
	require.NoError(t, err)
	require.Nil(t, gone)
	_, last = catalog(t, log)
	require.Nil(t, last["east"].Entry)
	require.NoError(t, last["east"].Err)

	again := makeQueue(t, w, "east")
	require.NotEqual(t, made.Made, again.Made, "another queue of the same name")

	changes, err := log.Changes(soon(t), "east", 3)
	require.NoError(t, err)
	require.Equal(t, []string{"create", "delete", "set"}, []string{changes[0].Action, changes[1].Action, changes[2].Action})
	require.Equal(t, queue.Change{Who: "ops", Queue: "east", Action: "set", AtMs: 1, From: "{}", To: "{}"}, changes[2])
}

func TestCatalogRefusesWhatItCannotKeep(t *testing.T) {
	log := linelogtest.Start(t).Log(t)
	w := catalogWriter(t, log)
	for what, change := range map[string]func(*queue.Entry) (*queue.Entry, *queue.Change, error){
		"no record of the change": func(*queue.Entry) (*queue.Entry, *queue.Change, error) { return anEntry(), nil, nil },
		"half a millisecond": func(*queue.Entry) (*queue.Entry, *queue.Change, error) {
			e := anEntry()
			e.Settings.Interval += time.Microsecond
			return e, did("create"), nil
		},
	} {
		_, err := w.Edit(soon(t), "east", change)
		require.Error(t, err, what)
	}
	_, err := w.Edit(soon(t), "No", rename(""))
	require.Error(t, err)
	all, _ := catalog(t, log)
	require.Empty(t, all)
	changes, err := log.Changes(soon(t), "", 10)
	require.NoError(t, err)
	require.Empty(t, changes)
}

// What a newer version has written survives an edit by this one: unknown fields of the entry and of its settings, and values
// that this version would refuse.
func TestCatalogKeepsWhatIsNewer(t *testing.T) {
	b := linelogtest.Start(t)
	log := b.Log(t)
	w := catalogWriter(t, log)
	extra := func(v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), v)
	}
	set := &soonbeonv1.QueueSettings{Rate: 1e9, IntervalMs: 100, GrantTtlMs: 1, Order: 7, Reentry: 5, Polling: []*soonbeonv1.PollStep{{IntervalMs: 1}}}
	set.ProtoReflect().SetUnknown(extra(1))
	m := &soonbeonv1.CatalogEntry{Id: "east", Settings: set}
	m.ProtoReflect().SetUnknown(extra(2))
	value, err := proto.Marshal(m)
	require.NoError(t, err)
	version := b.AppendCatalog("east", value)

	e, err := w.Edit(soon(t), "east", func(now *queue.Entry) (*queue.Entry, *queue.Change, error) {
		require.Equal(t, version, now.Version)
		require.Equal(t, queue.LastPosition, now.Settings.Polling[0].Position)
		now.Paused = true
		return now, did("pause"), nil
	})
	require.NoError(t, err)
	require.Equal(t, version, e.Made)

	raw := b.CatalogBytes(e.Version)
	var got soonbeonv1.CatalogEntry
	require.NoError(t, proto.Unmarshal(raw, &got))
	m.Paused, m.Made = true, version
	require.True(t, proto.Equal(m, &got), "wrote %v", &got)
}

func TestCatalogTellsWhatItCannotRead(t *testing.T) {
	b := linelogtest.Start(t)
	log := b.Log(t)
	w := catalogWriter(t, log)
	other, err := proto.Marshal(&soonbeonv1.CatalogEntry{Id: "west"})
	require.NoError(t, err)
	endless, err := proto.Marshal(&soonbeonv1.CatalogEntry{Id: "long", Settings: &soonbeonv1.QueueSettings{GrantTtlMs: 1 << 62}})
	require.NoError(t, err)
	b.AppendCatalog("east", []byte("\xff\xff"))
	b.AppendCatalog("other", other)
	b.AppendCatalog("long", endless)
	b.AppendCatalog("Not An Id", other)
	all, _ := catalog(t, log)
	require.Len(t, all, 4)
	for _, rec := range all {
		require.Error(t, rec.Err, rec.ID)
		require.Nil(t, rec.Entry)
	}
	_, err = w.Edit(soon(t), "east", func(*queue.Entry) (*queue.Entry, *queue.Change, error) {
		t.Error("asked about an entry that can't be read")
		return anEntry(), did("create"), nil
	})
	require.ErrorContains(t, err, "left as it is")
	makeQueue(t, w, "west")
}

// A reader tells once when there is nothing more, waits for what comes, and outlasts the brokers' absence.
func TestCatalogReaderFollows(t *testing.T) {
	b := linelogtest.Start(t)
	log, link := b.Link(t, nil, nil)
	r := log.NewCatalogReader()
	defer r.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := r.Next(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded, "there is no catalogue yet")
	w := catalogWriter(t, b.Log(t))
	recs, err := r.Next(soon(t))
	require.NoError(t, err)
	require.Empty(t, recs)
	makeQueue(t, w, "east")
	recs, err = r.Next(soon(t))
	require.NoError(t, err)
	require.Len(t, recs, 1)
	link.Away()
	makeQueue(t, w, "west")
	link.Back()
	recs, err = r.Next(soon(t))
	require.NoError(t, err)
	require.Equal(t, queue.ID("west"), recs[0].ID)
	done := make(chan error, 1)
	go func() {
		_, err := r.Next(context.WithoutCancel(t.Context()))
		done <- err
	}()
	r.Close()
	require.ErrorIs(t, <-done, linelog.ErrClosed)
}

func TestCatalogReaderEndsWithItsTopic(t *testing.T) {
	b := linelogtest.Start(t)
	log := b.Log(t)
	w := catalogWriter(t, log)
	makeQueue(t, w, "east")
	r := log.NewCatalogReader()
	defer r.Close()
	recs, err := r.Next(soon(t))
	require.NoError(t, err)
	require.Len(t, recs, 1)
	b.DeleteTopic("soonbeon.catalog")
	require.NoError(t, log.EnsureCatalog(soon(t)))
	for {
		if _, err = r.Next(soon(t)); err != nil {
			break
		}
	}
	var trouble *linelog.TroubleError
	require.ErrorAs(t, err, &trouble)
	require.Equal(t, linelog.Recreated, trouble.Kind)
	require.ErrorContains(t, err, "the catalogue")
	// The writer finds out, and forgets what was there.
	e := makeQueue(t, w, "east")
	require.Equal(t, e.Version, e.Made)
}

func TestEnsureCatalogChecks(t *testing.T) {
	b := linelogtest.Start(t)
	log := b.Log(t)
	require.Error(t, log.CheckCatalogProduction(soon(t)))
	require.NoError(t, log.EnsureCatalog(soon(t)))
	require.NoError(t, log.EnsureCatalog(soon(t)))
	require.ErrorContains(t, log.CheckCatalogProduction(soon(t)), "topic soonbeon.changes: replication factor is 1, wanted 3")
	for _, topic := range []string{"soonbeon.catalog", "soonbeon.changes"} {
		b.DeleteTopic(topic)
		b.CreateTopic(topic, 2, map[string]string{"retention.ms": "3600000"})
	}
	err := log.EnsureCatalog(soon(t))
	for _, want := range []string{
		"topic soonbeon.catalog: partitions is 2", "topic soonbeon.catalog: cleanup.policy is delete, wanted compact",
		"topic soonbeon.changes: partitions is 2", "topic soonbeon.changes: retention.ms is 3600000, wanted -1",
	} {
		require.ErrorContains(t, err, want)
	}
	var setting *linelog.SettingError
	require.ErrorAs(t, err, &setting)
}

// Writers that come in between shut each other out; each edit is made on what stands, and none is lost.
func TestCatalogWritersShutEachOtherOut(t *testing.T) {
	b := linelogtest.Start(t)
	const writers, each = 3, 8
	makeQueue(t, catalogWriter(t, b.Log(t)), "count")
	var wg sync.WaitGroup
	var busy atomic.Int64
	for range writers {
		w := catalogWriter(t, b.Log(t))
		wg.Go(func() {
			for done := 0; done < each; {
				_, err := w.Edit(soon(t), "count", func(now *queue.Entry) (*queue.Entry, *queue.Change, error) {
					now.Settings.MaxActive++
					return now, did("set"), nil
				})
				switch {
				case err == nil:
					done++
				case errors.Is(err, linelog.ErrBusy):
					busy.Add(1)
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d times busy", busy.Load())
	all, last := catalog(t, b.Log(t))
	require.Equal(t, int64(writers*each), last["count"].Entry.Settings.MaxActive)
	require.Len(t, all, 1+writers*each, "nothing that was rolled back is read")
	changes, err := b.Log(t).Changes(soon(t), "count", 1000)
	require.NoError(t, err)
	require.Len(t, changes, 1+writers*each, "an entry and its change are written both or none")
}

// In the middle of one writer's edit, another writes: change is called again with what stands then.
func TestCatalogEditIsCompareAndSet(t *testing.T) {
	b := linelogtest.Start(t)
	one, other := catalogWriter(t, b.Log(t)), catalogWriter(t, b.Log(t))
	makeQueue(t, one, "east")
	var saw []string
	e, err := one.Edit(soon(t), "east", func(now *queue.Entry) (*queue.Entry, *queue.Change, error) {
		saw = append(saw, now.Settings.Message)
		if len(saw) == 1 {
			_, err := other.Edit(soon(t), "east", rename("other"))
			require.NoError(t, err)
		}
		now.Settings.Message += "+one"
		return now, did("set"), nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"soon", "other"}, saw)
	require.Equal(t, "other+one", e.Settings.Message)
	// Always in between: after a few times it says so.
	n := 0
	_, err = one.Edit(soon(t), "east", func(now *queue.Entry) (*queue.Entry, *queue.Change, error) {
		n++
		_, err := other.Edit(soon(t), "east", rename(fmt.Sprint(n)))
		require.NoError(t, err)
		return now, did("set"), nil
	})
	require.ErrorIs(t, err, linelog.ErrBusy)
}

// The answer to a commit is lost: the writer finds out by itself what became of it.
func TestCatalogCommitWithoutAnAnswer(t *testing.T) {
	t.Run("committed", func(t *testing.T) {
		b := linelogtest.Start(t)
		log, link := b.Link(t, nil, nil)
		w := catalogWriter(t, log)
		makeQueue(t, w, "east")
		b.AtCommit(func() {
			link.Hang()
			time.AfterFunc(200*time.Millisecond, func() { link.Away(); link.Back() })
		})
		e, err := w.Edit(soon(t), "east", rename("once"))
		require.NoError(t, err)
		require.Equal(t, "once", e.Settings.Message)
		all, _ := catalog(t, b.Log(t))
		require.Len(t, all, 2)
	})
	t.Run("removed", func(t *testing.T) {
		b := linelogtest.Start(t)
		log, link := b.Link(t, nil, nil)
		w := catalogWriter(t, log)
		makeQueue(t, w, "east")
		b.AtCommit(func() {
			link.Hang()
			time.AfterFunc(200*time.Millisecond, func() { link.Away(); link.Back() })
		})
		_, err := w.Edit(soon(t), "east", func(now *queue.Entry) (*queue.Entry, *queue.Change, error) {
			if now == nil {
				return nil, nil, errors.New("asked again")
			}
			return nil, did("delete"), nil
		})
		require.NoError(t, err)
	})
	t.Run("rolled back", func(t *testing.T) {
		b := linelogtest.Start(t)
		log := b.Log(t)
		w := catalogWriter(t, log)
		makeQueue(t, w, "east")
		b.RefuseCommits(1)
		e, err := w.Edit(soon(t), "east", rename("twice"))
		require.NoError(t, err)
		require.Equal(t, "twice", e.Settings.Message)
		all, _ := catalog(t, log)
		require.Len(t, all, 2, "what was rolled back is not read")
		changes, err := log.Changes(soon(t), "east", 10)
		require.NoError(t, err)
		require.Len(t, changes, 2)
	})
	t.Run("never told", func(t *testing.T) {
		b := linelogtest.Start(t)
		log, link := b.Link(t, nil, nil)
		w := catalogWriter(t, log)
		makeQueue(t, w, "east")
		b.AtCommit(link.Hang)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := w.Edit(ctx, "east", rename("perhaps"))
		require.ErrorIs(t, err, linelog.ErrUnknown)
		link.Back()
		_, err = w.Edit(soon(t), "east", func(now *queue.Entry) (*queue.Entry, *queue.Change, error) {
			require.Equal(t, "perhaps", now.Settings.Message)
			return nil, nil, nil
		})
		require.NoError(t, err)
	})
}

func TestCatalogWriterWithoutBrokers(t *testing.T) {
	b := linelogtest.Start(t)
	log, link := b.Link(t, nil, nil)
	w := catalogWriter(t, log)
	makeQueue(t, w, "east")
	link.Away()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := w.Edit(ctx, "east", rename("never"))
	require.ErrorIs(t, err, linelog.ErrBusy)
	link.Back()
	_, err = w.Edit(soon(t), "east", rename("at last"))
	require.NoError(t, err)
	w.Close()
	w.Close()
	_, err = w.Edit(soon(t), "east", rename("after"))
	require.ErrorIs(t, err, linelog.ErrClosed)
}

// BenchmarkCatalogEdit says what one change takes. On real brokers where there are any.
func BenchmarkCatalogEdit(b *testing.B) {
	log := linelogtest.Start(b).Log(b)
	w := catalogWriter(b, log)
	for b.Loop() {
		_, err := w.Edit(b.Context(), "east", func(*queue.Entry) (*queue.Entry, *queue.Change, error) { return anEntry(), did("set"), nil })
		require.NoError(b, err)
	}
}
