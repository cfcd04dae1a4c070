package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/services/catalog"
	"github.com/soonbeon/soonbeon/services/catalog/catalogtest"
)

// What another process has changed meanwhile counts, also where nothing would have to be written but for that.
func TestTwoProcessesEdit(t *testing.T) {
	w := catalogtest.Start(t)
	other := w.Another()
	_, err := w.Editor.Create(w.Soon(), "anna", main, settings())
	require.NoError(t, err)
	_, err = w.Editor.Pause(w.Soon(), "anna", main, nil, catalog.AnyVersion)
	require.NoError(t, err)
	_, err = other.Resume(w.Soon(), "bob", main, nil, catalog.AnyVersion)
	require.NoError(t, err)
	paused, err := w.Editor.Pause(w.Soon(), "anna", main, nil, catalog.AnyVersion)
	require.NoError(t, err)
	require.NoError(t, w.Follower.Seen(w.Soon(), paused.Version))
	got, _ := w.Follower.Get(main)
	require.True(t, got.Paused, "it was resumed by the other process since")
	require.NoError(t, other.Delete(w.Soon(), "bob", main, catalog.AnyVersion))
	_, err = w.Editor.Create(w.Soon(), "anna", main, settings())
	require.NoError(t, err, "the other process has deleted it since")
}
