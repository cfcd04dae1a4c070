package pass_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

var sealSecret = bytes.Repeat([]byte("s"), 32)

func TestSealedSeeds(t *testing.T) {
	s := pass.NewSealer(sealSecret)
	seed := pass.NewSeed()
	require.NotEqual(t, queue.Seed{}, seed)
	sealed := s.Seal("main", seed)
	require.NotContains(t, string(sealed), string(seed[:8]))
	require.NotEqual(t, sealed, s.Seal("main", seed))

	got, err := pass.NewSealer(sealSecret).Open("main", sealed)
	require.NoError(t, err)
	require.Equal(t, seed, got)

	for name, open := range map[string]func() (queue.Seed, error){
		"another queue":  func() (queue.Seed, error) { return s.Open("other", sealed) },
		"another secret": func() (queue.Seed, error) { return pass.NewSealer(bytes.Repeat([]byte("t"), 32)).Open("main", sealed) },
		"nothing":        func() (queue.Seed, error) { return s.Open("main", nil) },
		"cut off":        func() (queue.Seed, error) { return s.Open("main", sealed[:len(sealed)-1]) },
		"another format": func() (queue.Seed, error) { return s.Open("main", append([]byte{2}, sealed[1:]...)) },
	} {
		_, err := open()
		require.ErrorIs(t, err, pass.ErrSealed, name)
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		_, err := s.Open("main", changed)
		require.ErrorIs(t, err, pass.ErrSealed, "byte %d", i)
	}
}

// What was sealed by an earlier version is opened by every later one.
func TestSealedSeedsAreAStoredFormat(t *testing.T) {
	sealed, err := hex.DecodeString(storedSeal)
	require.NoError(t, err)
	seed, err := pass.NewSealer(sealSecret).Open("main", sealed)
	require.NoError(t, err)
	require.Equal(t, queue.Seed(bytes.Repeat([]byte{7}, 32)), seed)
}

func TestSealersAreNotPrinted(t *testing.T) {
	require.Equal(t, "pass.Sealer", fmt.Sprintf("%+v", pass.NewSealer(sealSecret)))
	require.Panics(t, func() { pass.NewSealer([]byte("short")) })
}

// storedSeal was sealed for the queue main by version 0.1.0.
const storedSeal = "01d454dad787d4e67f40d35b5e47b7ade764e9300fbe5c4504ad3fe36b871a9bfd1d2f81ec3b86c13ae1e4154b8fcf477de3aae8887a61f9e90b058989"
