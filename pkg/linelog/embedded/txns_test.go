package embedded_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/embedded"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// editsEnv makes the test binary a broker with a writer of the catalogue, to be killed.
const editsEnv = "SOONBEON_EMBEDDED_TEST_EDITS"

// editsChild changes the catalogue for ever, and prints each edit's number once it is acknowledged.
func editsChild(dir string) error {
	b, err := embedded.Start(dir, embedded.Options{})
	if err != nil {
		return err
	}
	log, err := linelog.Open(linelog.Config{Brokers: b.Addrs()}, nil, nil)
	if err != nil {
		return err
	}
	if err := log.EnsureCatalog(context.Background()); err != nil {
		return err
	}
	w := log.NewCatalogWriter()
	for {
		e, err := w.Edit(context.Background(), main, count)
		if err != nil {
			return err
		}
		fmt.Println(e.Settings.MaxActive)
	}
}

// count is an edit that counts edits, in the entry and in the change.
func count(now *queue.Entry) (*queue.Entry, *queue.Change, error) {
	if now == nil {
		now = &queue.Entry{Settings: queue.DefaultSettings()}
	}
	now.Settings.MaxActive++
	return now, &queue.Change{Action: "set", To: fmt.Sprint(now.Settings.MaxActive)}, nil
}

// counted returns what the catalogue and the changes say: they have to say the same.
func counted(t *testing.T, log *linelog.Log) (n int64) {
	t.Helper()
	end, err := log.CatalogEnd(soon(t))
	require.NoError(t, err)
	r := log.NewCatalogReader()
	defer r.Close()
	for r.Position() < end {
		recs, err := r.Next(soon(t))
		require.NoError(t, err)
		for _, rec := range recs {
			require.NoError(t, rec.Err)
			n++
			require.Equal(t, n, rec.Entry.Settings.MaxActive, "an edit that didn't count, or counted twice, is read")
		}
	}
	changes, err := log.Changes(soon(t), main, 1<<20)
	require.NoError(t, err)
	require.Len(t, changes, int(n), "an edit without its change, or the reverse")
	for i, c := range changes {
		require.Equal(t, fmt.Sprint(n-int64(i)), c.To)
	}
	return n
}

// After a kill -9, again and again, every acknowledged edit counts, and each with its change.
func TestKilledInTheMiddleOfAnEdit(t *testing.T) {
	dir := t.TempDir()
	for round := range 5 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), editsEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines, told := bufio.NewScanner(out), int64(0)
		for n := 0; lines.Scan(); n++ {
			_, err := fmt.Sscan(lines.Text(), &told)
			require.NoError(t, err, "the child says: %s", lines.Text())
			if n == 20+7*round {
				require.NoError(t, cmd.Process.Kill())
			}
		}
		_ = cmd.Wait()
		b := start(t, dir)
		log := open(t, b)
		n := counted(t, log)
		require.True(t, n == told || n == told+1, "told of %d, and %d are there", told, n)
		w := log.NewCatalogWriter()
		_, err = w.Edit(soon(t), main, count)
		require.NoError(t, err)
		w.Close()
		require.Equal(t, n+1, counted(t, log))
		require.NoError(t, b.Close())
	}
}

// batches returns where each batch of a segment begins, and the end.
func batches(t *testing.T, segment string) (at []int64) {
	t.Helper()
	b, err := os.ReadFile(segment)
	require.NoError(t, err)
	pos := int64(0)
	for pos < int64(len(b)) {
		at = append(at, pos)
		pos += 12 + int64(binary.BigEndian.Uint32(b[pos+8:]))
	}
	return append(at, pos)
}

// cut takes the last n batches off a segment, and m entries off its index.
func cut(t *testing.T, segment string, n, m int) {
	t.Helper()
	at := batches(t, segment)
	require.NoError(t, os.Truncate(segment, at[len(at)-1-n]))
	require.NoError(t, os.Truncate(strings.TrimSuffix(segment, ".dat")+".idx", int64(len(at)-1-m)*15))
}

// Wherever in an edit a kill falls: both parts of it count or none, now, after going on, and after one more start.
func TestTransactionUnderWayIsEnded(t *testing.T) {
	for name, c := range map[string]struct {
		catalog, changes [2]int // batches and index entries that were not written yet
		counts           int64  // how many of three edits count
	}{
		"nothing is missing":                   {counts: 3},
		"a mark's index entry":                 {catalog: [2]int{0, 1}, counts: 3},
		"the mark of the catalogue":            {catalog: [2]int{1, 1}, counts: 3},
		"the mark of the changes":              {changes: [2]int{1, 1}, counts: 3},
		"both marks":                           {catalog: [2]int{1, 1}, changes: [2]int{1, 1}, counts: 2},
		"both marks and an index entry":        {catalog: [2]int{1, 2}, changes: [2]int{1, 1}, counts: 2},
		"both marks and the change":            {catalog: [2]int{1, 1}, changes: [2]int{2, 2}, counts: 2},
		"both marks and all of it":             {catalog: [2]int{2, 2}, changes: [2]int{2, 2}, counts: 2},
		"both marks, and the other's entry":    {catalog: [2]int{2, 2}, changes: [2]int{1, 2}, counts: 2},
		"both marks and both of index entries": {catalog: [2]int{1, 2}, changes: [2]int{1, 2}, counts: 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			edit := func(n int) {
				b := start(t, dir)
				log := open(t, b)
				require.NoError(t, log.EnsureCatalog(soon(t)))
				w := log.NewCatalogWriter()
				for range n {
					_, err := w.Edit(soon(t), main, count)
					require.NoError(t, err)
				}
				w.Close()
				require.NoError(t, b.Close())
			}
			edit(3)
			partitions := filepath.Join(dir, "log", "partitions")
			cut(t, filepath.Join(partitions, "soonbeon.catalog-0", "0.dat"), c.catalog[0], c.catalog[1])
			cut(t, filepath.Join(partitions, "soonbeon.changes-0", "0.dat"), c.changes[0], c.changes[1])
			for more := range int64(3) {
				b := start(t, dir)
				require.Equal(t, c.counts+more, counted(t, open(t, b)))
				require.NoError(t, b.Close())
				edit(1)
			}
		})
	}
}
