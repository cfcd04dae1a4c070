package standalone

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/services/enter"
)

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	all, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range all {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		require.NoError(t, err)
		out[f.Name()] = string(b)
	}
	return out
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	i, err := os.Stat(path)
	require.NoError(t, err)
	return i.Mode().Perm()
}

func TestDataFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "on", "the way")
	require.NoError(t, openData(dir))
	require.Equal(t, os.FileMode(0o700), mode(t, dir))
	require.Equal(t, map[string]string{"VERSION": "1\n"}, files(t, dir))
	require.NoError(t, openData(dir), "and again")
	require.NoError(t, openData(t.TempDir()), "one that was made empty")

	for name, content := range map[string]map[string]string{
		"somebody else's":      {"thesis.txt": "x"},
		"of a newer program":   {"VERSION": "2\n", "keys": "x"},
		"of a program cut off": {"VERSION": "", "log.txt": "x"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range content {
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			}
			require.ErrorContains(t, openData(dir), "--data")
			require.Equal(t, content, files(t, dir), "nothing is touched")
		})
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Error(t, openData(file))
}

func TestKeysAreMadeOnce(t *testing.T) {
	dir := t.TempDir()
	// The process that was to make them was killed while it wrote.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "keys.new"), []byte("k1:"+strings.Repeat("half of a k", 50)), 0o600))
	first, err := ownKeys(dir)
	require.NoError(t, err)
	_, err = pass.ParseKeys(first)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), mode(t, filepath.Join(dir, "keys")))
	require.Equal(t, map[string]string{"keys": first + "\n"}, files(t, dir))
	again, err := ownKeys(dir)
	require.NoError(t, err)
	require.Equal(t, first, again)
	other, err := ownKeys(t.TempDir())
	require.NoError(t, err)
	require.NotEqual(t, first, other)

	_, err = ownKeys(filepath.Join(dir, "keys")) // a file in place of the folder
	require.Error(t, err)
}

// The secret outlives the rotation of keys: a new key is put in front, and the last of the list is the oldest.
func TestIDSecretComesFromTheLastKey(t *testing.T) {
	a, b := testKey("a", "x"), testKey("b", "y")
	secret := func(given, keys string) string {
		s, err := idSecret(given, keys)
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(s), enter.MinIDSecret)
		return string(s)
	}
	of := secret("", a)
	require.Equal(t, of, secret("", a))
	require.Equal(t, of, secret("", b+","+a), "a new key in front")
	require.Equal(t, of, secret("", b+" , "+a+"\n"), "white space is none of it")
	require.NotEqual(t, of, secret("", b), "when the old one is taken away, it is another")
	require.NotEqual(t, of, secret("", a+","+b))
	require.NotContains(t, a, of)
	given := "0123456789abcdef0123456789abcdef"
	require.Equal(t, given, secret(given, a))
}
