package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/catalog"
	"github.com/soonbeon/soonbeon/services/catalog/catalogtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const main queue.ID = "main"

// settings are the defaults, changed.
func settings(change ...func(*queue.Settings)) queue.Settings {
	s := queue.DefaultSettings()
	for _, c := range change {
		c(&s)
	}
	return s
}

func rate(r float64) func(*queue.Settings) {
	return func(s *queue.Settings) { s.Rate, s.ConservativeRate = r, min(r, 120) }
}

func drawn(s *queue.Settings) {
	s.Order, s.OpensAtMs = queue.ByDraw, time.Now().Add(time.Hour).UnixMilli()
}

func text(s string) *string { return &s }

func TestQueuesAreMadeOnce(t *testing.T) {
	w := catalogtest.Start(t)
	made, err := w.Editor.Create(w.Soon(), "anna", main, settings())
	require.NoError(t, err)
	require.Equal(t, made.Version, made.Made)
	require.Empty(t, made.Commitment)
	first, next, err := w.Log.Bounds(w.Soon(), main)
	require.NoError(t, err, "it has a topic")
	require.Equal(t, []queue.Ticket{1, 1}, []queue.Ticket{first, next})

	require.NoError(t, w.Follower.Seen(w.Soon(), made.Version))
	got, ok := w.Follower.Get(main)
	require.True(t, ok)
	require.Equal(t, made, got)

	_, err = w.Editor.Create(w.Soon(), "bob", main, settings(rate(5)))
	require.ErrorIs(t, err, catalog.ErrExists)
	_, err = w.Another().Create(w.Soon(), "bob", main, settings(rate(5)))
	require.ErrorIs(t, err, catalog.ErrExists)
	adopted, err := w.Editor.Adopt(w.Soon(), "start", main, settings(rate(5)))
	require.NoError(t, err)
	require.Equal(t, made, adopted, "what the catalogue says counts")

	changes, err := w.Log.Changes(w.Soon(), main, 10)
	require.NoError(t, err)
	require.Len(t, changes, 1)
	require.Equal(t, "anna", changes[0].Who)
	require.Equal(t, "create", changes[0].Action)
	require.Empty(t, changes[0].From)
	require.Contains(t, changes[0].To, `"rate":175`)
	require.InDelta(t, time.Now().UnixMilli(), changes[0].AtMs, 60_000)
}

func TestATopicWithRecordsIsAdoptedAndNotCreated(t *testing.T) {
	w := catalogtest.Start(t)
	_, _, err := w.Log.EnsureQueue(w.Soon(), main)
	require.NoError(t, err)
	w.Broker.AppendMany(main, 1, func(int) queue.Record { return queue.Record{Kind: queue.Entered, Visitor: "v"} })
	_, err = w.Editor.Create(w.Soon(), "anna", main, settings())
	require.ErrorIs(t, err, catalog.ErrRecords)
	adopted, err := w.Editor.Adopt(w.Soon(), "start", main, settings(rate(5)))
	require.NoError(t, err)
	require.Equal(t, 5.0, adopted.Settings.Rate)

	_, _, err = w.Log.EnsureQueue(w.Soon(), "empty")
	require.NoError(t, err)
	_, err = w.Editor.Create(w.Soon(), "anna", "empty", settings())
	require.NoError(t, err, "what a create that was cut short left behind")

	w.Broker.Create("many", 3, nil)
	_, err = w.Editor.Create(w.Soon(), "anna", "many", settings())
	var misfit *linelog.SettingError
	require.ErrorAs(t, err, &misfit)
	_, ok := w.Follower.GetAny("many")
	require.False(t, ok)
}

func TestSettingsArePutOnTheVersionThatWasSeen(t *testing.T) {
	w := catalogtest.Start(t)
	made, err := w.Editor.Create(w.Soon(), "anna", main, settings())
	require.NoError(t, err)
	put, err := w.Editor.Put(w.Soon(), "anna", main, settings(rate(50)), made.Version)
	require.NoError(t, err)
	require.Greater(t, put.Version, made.Version)
	require.Equal(t, made.Made, put.Made)

	_, err = w.Editor.Put(w.Soon(), "bob", main, settings(rate(60)), made.Version)
	var conflict *catalog.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.ErrorIs(t, err, catalog.ErrConflict)
	require.Equal(t, catalog.ConflictError{Wanted: made.Version, Current: put.Version}, *conflict)

	again, err := w.Editor.Put(w.Soon(), "anna", main, settings(rate(50)), made.Version)
	require.NoError(t, err, "the same twice, with the version of before: the answer to the first was lost")
	require.Equal(t, put, again)

	_, err = w.Editor.Put(w.Soon(), "bob", main, settings(drawn), put.Version)
	require.ErrorIs(t, err, catalog.ErrInvalid)
	require.ErrorContains(t, err, "opening order is arrival since the queue was made")
	_, err = w.Editor.Put(w.Soon(), "bob", main, settings(rate(0)), put.Version)
	require.ErrorIs(t, err, catalog.ErrInvalid)
	_, err = w.Editor.Put(w.Soon(), "bob", "other", settings(), 1)
	require.ErrorIs(t, err, catalog.ErrNotFound)

	changes, err := w.Log.Changes(w.Soon(), main, 10)
	require.NoError(t, err)
	require.Len(t, changes, 2)
	require.Contains(t, changes[0].From, `"rate":175`)
	require.Contains(t, changes[0].To, `"rate":50`)
}

func TestPauseResumeClose(t *testing.T) {
	w := catalogtest.Start(t)
	made, err := w.Editor.Create(w.Soon(), "anna", main, settings())
	require.NoError(t, err)
	do := func(e *queue.Entry, err error) *queue.Entry {
		t.Helper()
		require.NoError(t, err)
		return e
	}
	paused := do(w.Editor.Pause(w.Soon(), "anna", main, text("back soon"), catalog.AnyVersion))
	require.True(t, paused.Paused)
	require.Equal(t, "back soon", paused.Settings.Message)
	require.Equal(t, paused, do(w.Editor.Pause(w.Soon(), "bob", main, text("back soon"), made.Version)), "nothing changes")
	require.Equal(t, paused, do(w.Editor.Pause(w.Soon(), "bob", main, nil, catalog.AnyVersion)), "nothing changes")
	other := do(w.Editor.Pause(w.Soon(), "bob", main, text("later"), catalog.AnyVersion))
	require.Equal(t, "later", other.Settings.Message)

	closed := do(w.Editor.Close(w.Soon(), "bob", main, "", false, catalog.AnyVersion))
	require.Equal(t, []any{true, true, false, "closed"}, []any{closed.Paused, closed.Closed, closed.Ending, closed.Why})
	ended := do(w.Editor.Close(w.Soon(), "bob", main, queue.WhySoldOut, true, closed.Version))
	require.Equal(t, []any{true, true, "sold_out"}, []any{ended.Closed, ended.Ending, ended.Why})
	_, err = w.Editor.Close(w.Soon(), "bob", main, "Sold out!", true, catalog.AnyVersion)
	require.ErrorIs(t, err, catalog.ErrInvalid)
	_, err = w.Editor.Close(w.Soon(), "bob", main, "over", true, closed.Version)
	require.ErrorIs(t, err, catalog.ErrConflict)

	open := do(w.Editor.Resume(w.Soon(), "bob", main, nil, catalog.AnyVersion))
	require.Equal(t, []any{false, false, false, "", "later"}, []any{open.Paused, open.Closed, open.Ending, open.Why, open.Settings.Message})
	require.Equal(t, open, do(w.Editor.Resume(w.Soon(), "bob", main, nil, catalog.AnyVersion)))
	require.Empty(t, do(w.Editor.Resume(w.Soon(), "bob", main, text(""), catalog.AnyVersion)).Settings.Message)

	_, err = w.Editor.Pause(w.Soon(), "bob", main, text(strings.Repeat("x", 501)), catalog.AnyVersion)
	require.ErrorIs(t, err, catalog.ErrInvalid)
	for _, err := range []error{
		second(w.Editor.Pause(w.Soon(), "bob", "other", nil, catalog.AnyVersion)),
		second(w.Editor.Resume(w.Soon(), "bob", "other", nil, catalog.AnyVersion)),
		second(w.Editor.Close(w.Soon(), "bob", "other", "", true, catalog.AnyVersion)),
	} {
		require.ErrorIs(t, err, catalog.ErrNotFound)
	}
	changes, err := w.Log.Changes(w.Soon(), main, 10)
	require.NoError(t, err)
	var actions []string
	for _, c := range changes {
		actions = append(actions, c.Who+" "+c.Action)
	}
	require.Equal(t, []string{"bob resume", "bob resume", "bob close", "bob close", "bob pause", "anna pause", "anna create"}, actions)
	require.NoError(t, testutil.GatherAndCompare(w.Registry, strings.NewReader(`
# HELP soonbeon_catalog_edits_total Changes that operators asked this process for, by action and result.
# TYPE soonbeon_catalog_edits_total counter
soonbeon_catalog_edits_total{action="close",result="ok"} 2
soonbeon_catalog_edits_total{action="close",result="refused"} 3
soonbeon_catalog_edits_total{action="create",result="ok"} 1
soonbeon_catalog_edits_total{action="pause",result="ok"} 4
soonbeon_catalog_edits_total{action="pause",result="refused"} 2
soonbeon_catalog_edits_total{action="resume",result="ok"} 3
soonbeon_catalog_edits_total{action="resume",result="refused"} 1
`), "soonbeon_catalog_edits_total"))
}

func second[T any](_ T, err error) error { return err }

func TestEditsAtOnceAllHappen(t *testing.T) {
	w := catalogtest.Start(t)
	editors := []*catalog.Editor{w.Editor, w.Another()}
	_, err := w.Editor.Create(w.Soon(), "anna", main, settings())
	require.NoError(t, err)
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			for {
				_, err := editors[i%2].Pause(w.Soon(), fmt.Sprintf("op%d", i), main, text(fmt.Sprint(i)), catalog.AnyVersion)
				if !errors.Is(err, linelog.ErrBusy) { // others came in between too often: said, and nothing written
					require.NoError(t, err)
					return
				}
			}
		})
	}
	all.Wait()
	changes, err := w.Log.Changes(w.Soon(), main, 100)
	require.NoError(t, err)
	require.Len(t, changes, 11)
	for i, c := range changes[:9] { // each was made on what the one before it had left
		before := changes[i+1].To
		require.Equal(t, message(t, before), message(t, c.From))
	}
}

func message(t *testing.T, document string) string {
	_, rest, found := strings.Cut(document, `"message":"`)
	require.True(t, found, document)
	m, _, _ := strings.Cut(rest, `"`)
	return m
}

func TestDraws(t *testing.T) {
	w := catalogtest.Start(t)
	made, err := w.Editor.Create(w.Soon(), "anna", main, settings(drawn))
	require.NoError(t, err)
	seed, err := pass.NewSealer(catalogtest.Secret).Open(main, made.Sealed)
	require.NoError(t, err)
	require.Equal(t, queue.Commitment(main, seed), made.Commitment)
	other, err := w.Editor.Create(w.Soon(), "anna", "other", settings(drawn))
	require.NoError(t, err)
	require.NotEqual(t, made.Commitment, other.Commitment)

	put, err := w.Editor.Put(w.Soon(), "anna", main, settings(drawn, rate(10)), made.Version)
	require.NoError(t, err)
	require.Equal(t, made.Sealed, put.Sealed, "the seed stays")
	changes, err := w.Log.Changes(w.Soon(), main, 10)
	require.NoError(t, err)
	require.Contains(t, changes[1].To, made.Commitment)
	for _, c := range changes {
		require.NotContains(t, strings.ToLower(c.From+c.To), "seal")
		require.NotContains(t, c.From+c.To, seed.String())
	}

	cfg := w.Config()
	cfg.Sealer = nil
	without, err := catalog.NewEditor(cfg, w.Writer, w.Topics, zap.NewNop(), nil)
	require.NoError(t, err)
	_, err = without.Create(w.Soon(), "anna", "third", settings(drawn))
	require.ErrorContains(t, err, "no secret to seal the seed with")
}

func TestCreateTellsAllMistakes(t *testing.T) {
	w := catalogtest.Start(t)
	_, err := w.Editor.Create(w.Soon(), "anna", "a/b", settings(rate(-1), func(s *queue.Settings) { s.GrantTTL = 0 }))
	var invalid *catalog.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Len(t, invalid.Mistakes, 4)
	require.Contains(t, invalid.Mistakes[0], "a queue id is 1 to 64")
}

func TestDeletionsAreFinished(t *testing.T) {
	w := catalogtest.Start(t)
	require.ErrorIs(t, w.Editor.Delete(w.Soon(), "anna", main, catalog.AnyVersion), catalog.ErrNotFound)
	made, err := w.Editor.Create(w.Soon(), "anna", main, settings())
	require.NoError(t, err)
	require.NoError(t, w.Follower.Seen(w.Soon(), made.Version))
	w.Broker.AppendMany(main, 3, func(int) queue.Record { return queue.Record{Kind: queue.Entered, Visitor: "v"} })
	require.ErrorIs(t, w.Editor.Delete(w.Soon(), "anna", main, made.Version+7), catalog.ErrConflict)

	for _, step := range []string{"topic", "line"} {
		w.Topics.Fail(step, true)
		err = w.Editor.Delete(w.Soon(), "anna", main, catalog.AnyVersion)
		require.ErrorIs(t, err, catalog.ErrUnfinished, step)
		require.ErrorIs(t, err, catalogtest.ErrStep, step)
		// Nobody sees it any more, and nobody can do anything with it but delete it.
		require.Eventually(t, func() bool { _, ok := w.Follower.Get(main); return !ok }, catalogtest.Patience, time.Millisecond)
		marked, ok := w.Follower.GetAny(main)
		require.True(t, ok)
		require.True(t, marked.Deleting)
		for _, err := range []error{
			second(w.Editor.Create(w.Soon(), "bob", main, settings())),
			second(w.Editor.Adopt(w.Soon(), "start", main, settings())),
			second(w.Editor.Put(w.Soon(), "bob", main, settings(rate(9)), marked.Version)),
			second(w.Editor.Pause(w.Soon(), "bob", main, nil, catalog.AnyVersion)),
			second(w.Editor.Close(w.Soon(), "bob", main, "", true, catalog.AnyVersion)),
		} {
			require.ErrorIs(t, err, catalog.ErrDeleting)
		}
		w.Topics.Fail(step, false)
	}
	// Cut off while the services let go.
	cfg := w.Config()
	cfg.LetGo = time.Hour
	slow, err := catalog.NewEditor(cfg, w.Writer, w.Topics, zap.NewNop(), nil)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, slow.Delete(ctx, "anna", main, catalog.AnyVersion), catalog.ErrUnfinished)
	require.Empty(t, w.Topics.Dropped())

	require.NoError(t, w.Editor.Delete(w.Soon(), "bob", main, catalog.AnyVersion))
	require.Equal(t, []queue.ID{main}, w.Topics.Dropped())
	_, err = w.Log.Topic(w.Soon(), main)
	require.ErrorIs(t, err, linelog.ErrNoQueue)
	require.NoError(t, w.Follower.Gone(w.Soon(), main))
	require.ErrorIs(t, w.Editor.Delete(w.Soon(), "anna", main, catalog.AnyVersion), catalog.ErrNotFound)

	anew, err := w.Editor.Create(w.Soon(), "anna", main, settings())
	require.NoError(t, err)
	require.Greater(t, anew.Made, made.Made)
	changes, err := w.Log.Changes(w.Soon(), main, 10)
	require.NoError(t, err)
	require.Len(t, changes, 4)
	require.Equal(t, []string{"create", "gone", "delete", "create"},
		[]string{changes[0].Action, changes[1].Action, changes[2].Action, changes[3].Action})
	require.Empty(t, changes[1].To)
}

func TestEditsWhileTheBrokersAreAway(t *testing.T) {
	w := catalogtest.Start(t)
	made, err := w.Editor.Create(w.Soon(), "anna", main, settings())
	require.NoError(t, err)
	require.NoError(t, w.Follower.Seen(w.Soon(), made.Version))
	w.Broker.Away()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = w.Editor.Put(ctx, "anna", main, settings(rate(5)), made.Version)
	require.True(t, errors.Is(err, linelog.ErrBusy) || errors.Is(err, linelog.ErrUnknown), "%v", err)
	_, ok := w.Follower.Get(main)
	require.True(t, ok, "what is known stays known")
	w.Broker.Back()
	put, err := w.Editor.Put(w.Soon(), "anna", main, settings(rate(5)), made.Version)
	require.NoError(t, err)
	require.NoError(t, w.Follower.Seen(w.Soon(), put.Version))
}
