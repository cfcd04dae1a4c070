package catalogtest

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/catalog"
)

// Patience is how long a slow machine may take for what should happen at once.
const Patience = 30 * time.Second

// Secret is what the seeds of the draws are sealed with.
var Secret = bytes.Repeat([]byte("catalog"), 5)

// World is a catalogue with all that belongs to it.
type World struct {
	t        testing.TB
	Broker   *linelogtest.Broker
	Log      *linelog.Log
	Topics   *Topics
	Writer   *linelog.CatalogWriter
	Editor   *catalog.Editor
	Follower *catalog.Follower // started, and ready
	Registry *prometheus.Registry
	Logs     *observer.ObservedLogs
}

// Start makes a World; it ends with the test.
func Start(t testing.TB) *World {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	w := &World{t: t, Broker: linelogtest.Start(t), Registry: prometheus.NewRegistry(), Logs: logs}
	w.Log = w.Broker.Log(t)
	require.NoError(t, w.Log.EnsureCatalog(w.Soon()))
	w.Topics = &Topics{Log: w.Log}
	w.Writer = w.Log.NewCatalogWriter()
	t.Cleanup(w.Writer.Close)
	var err error
	w.Editor, err = catalog.NewEditor(w.Config(), w.Writer, w.Topics, zap.New(core), w.Registry)
	require.NoError(t, err)
	w.Follower, err = catalog.New(catalog.OfLog(w.Log), zap.New(core), w.Registry)
	require.NoError(t, err)
	require.NoError(t, w.Follower.Start(w.Soon()))
	t.Cleanup(func() { require.NoError(t, w.Follower.Stop(context.Background())) })
	require.NoError(t, w.Follower.Ready(w.Soon()))
	return w
}

// Config is that of the World's editor.
func (w *World) Config() catalog.EditorConfig {
	return catalog.EditorConfig{Sealer: pass.NewSealer(Secret), Drop: w.Topics.Drop, LetGo: -1}
}

// Another is another process's editor.
func (w *World) Another() *catalog.Editor {
	w.t.Helper()
	writer := w.Broker.Log(w.t).NewCatalogWriter()
	w.t.Cleanup(writer.Close)
	e, err := catalog.NewEditor(w.Config(), writer, w.Topics, zap.NewNop(), nil)
	require.NoError(w.t, err)
	return e
}

// Soon is a context for what should not take long.
func (w *World) Soon() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	w.t.Cleanup(cancel)
	return ctx
}

// Topics are the log's, with lines that can be dropped and steps that can be made to fail.
type Topics struct {
	*linelog.Log
	mu      sync.Mutex
	failing map[string]bool
	dropped []queue.ID
}

// ErrStep is what a step that fails says.
var ErrStep = errors.New("this step fails")

// Fail makes a step fail, "topic" or "line", until it is told to work again.
func (s *Topics) Fail(step string, fails bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing == nil {
		s.failing = map[string]bool{}
	}
	s.failing[step] = fails
}

// DeleteQueue deletes a queue's topic.
func (s *Topics) DeleteQueue(ctx context.Context, id queue.ID) error {
	s.mu.Lock()
	fails := s.failing["topic"]
	s.mu.Unlock()
	if fails {
		return ErrStep
	}
	return s.Log.DeleteQueue(ctx, id)
}

// Drop notes that a queue's line was dropped.
func (s *Topics) Drop(_ context.Context, id queue.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing["line"] {
		return ErrStep
	}
	s.dropped = append(s.dropped, id)
	return nil
}

// Dropped are the queues whose line was dropped, each as often as it was.
func (s *Topics) Dropped() []queue.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]queue.ID(nil), s.dropped...)
}
