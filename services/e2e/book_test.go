package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/embedded"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/catalog"
	fold "github.com/soonbeon/soonbeon/services/e2e/book"
)

type fate = fold.Fate

const (
	waits       = fold.Waits
	wasAdmitted = fold.Admitted
	movedBack   = fold.MovedBack
	absorbed    = fold.Absorbed
	repeated    = fold.Repeated
)

// book is a log that was read and folded for a test.
type book struct {
	*fold.Book
	state    queue.State
	line     map[queue.Visitor]queue.Waiting
	admitted map[queue.Ticket]queue.Visitor
	batches  []fold.Batch
	claims   []queue.Record
	wrong    []string
	visitor  map[queue.Ticket]queue.Visitor
}

func readBook(t testing.TB, brokers []string, id queue.ID) *book {
	t.Helper()
	log, err := linelog.Open(linelog.Config{Brokers: brokers}, zap.NewNop(), nil)
	require.NoError(t, err)
	defer log.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
	defer cancel()
	recs, err := fold.Read(ctx, log, id)
	require.NoError(t, err)
	b, err := fold.Of(recs)
	require.NoError(t, err)
	return &book{Book: b, state: b.State, line: b.Line, admitted: b.Admitted, batches: b.Batches, claims: b.Claims, wrong: b.Wrong, visitor: b.Visitor}
}

// offline reads the log of a data folder that no process has.
func offline(t testing.TB, data string, id queue.ID) *book {
	t.Helper()
	broker, err := embedded.Start(data+"/log", embedded.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, broker.Close()) }()
	return readBook(t, broker.Addrs(), id)
}

// operate changes the catalogue in a data folder that no process has.
func operate(t testing.TB, data string, change func(*catalog.Editor) error) {
	t.Helper()
	broker, err := embedded.Start(data+"/log", embedded.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, broker.Close()) }()
	log, err := linelog.Open(linelog.Config{Brokers: broker.Addrs()}, zap.NewNop(), nil)
	require.NoError(t, err)
	defer log.Close()
	w := log.NewCatalogWriter()
	defer w.Close()
	e, err := catalog.NewEditor(catalog.EditorConfig{}, w, log, zap.NewNop(), nil)
	require.NoError(t, err)
	require.NoError(t, change(e))
}

func (b *book) waiting() []queue.Waiting            { return b.Waiting() }
func (b *book) digest() string                      { return b.Digest() }
func (b *book) fastest() int                        { return b.Fastest() }
func (b *book) pausedAt(at time.Time) time.Duration { return b.PausedAt(at) }

// accounts requires that everybody who was told something finds it so in the log: the ticket is theirs and has a fate, and
// the entry token is of an admission.
func (b *book) accounts(t testing.TB, acks []ack, entries []pass.Entry) map[fate]int {
	t.Helper()
	told := make([]fold.Ack, len(acks))
	for i, a := range acks {
		told[i] = fold.Ack{Visitor: a.Visitor, Ticket: a.Ticket}
	}
	fates, err := b.Accounts(told, entries)
	require.NoError(t, err)
	return fates
}
