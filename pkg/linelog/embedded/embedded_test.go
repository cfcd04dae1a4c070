package embedded_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/embedded"
	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// childEnv makes the test binary a broker with a writer, to be killed.
const childEnv = "SOONBEON_EMBEDDED_TEST_CHILD"

// fullEnv makes it one whose files cannot grow.
const fullEnv = "SOONBEON_EMBEDDED_TEST_FULL"

const main queue.ID = "main"

func TestMain(m *testing.M) {
	if dir := os.Getenv(fullEnv); dir != "" {
		fmt.Println(fullChild(dir))
		os.Exit(0)
	}
	if dir := os.Getenv(childEnv); dir != "" {
		fmt.Println(child(dir)) // only reached when something fails
		os.Exit(1)
	}
	if dir := os.Getenv(editsEnv); dir != "" {
		fmt.Println(editsChild(dir))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// child joins a group, appends for ever, and prints each ticket once it is acknowledged.
func child(dir string) error {
	b, err := embedded.Start(dir, embedded.Options{})
	if err != nil {
		return err
	}
	log, err := linelog.Open(linelog.Config{Brokers: b.Addrs()}, nil, nil)
	if err != nil {
		return err
	}
	ctx := context.Background()
	if _, _, err := log.EnsureQueue(ctx, main); err != nil {
		return err
	}
	assigned := make(chan queue.ID, 1)
	if _, err := log.Join(ctx, linelog.GroupConfig{Group: "issuers", Queues: []queue.ID{main}}, func(id queue.ID) { assigned <- id }, func(queue.ID) {}); err != nil {
		return err
	}
	<-assigned
	for range 3 {
		runtime.GC() // nobody refers to the Broker any more; its lock has to stay
	}
	w, err := log.NewWriter()
	if err != nil {
		return err
	}
	failed := make(chan error)
	for range 8 {
		go func() {
			for {
				v := queue.NewVisitor()
				ticket, err := w.Append(ctx, main, queue.Record{Kind: queue.Entered, Visitor: v})
				if err != nil {
					failed <- err
					return
				}
				fmt.Println(int64(ticket), v)
			}
		}()
	}
	return <-failed
}

// fullChild appends until a file reaches its limit, then lifts the limit and appends once more. It prints each ticket once
// it is acknowledged, and how it ended.
func fullChild(dir string) string {
	signal.Ignore(unix.SIGXFSZ) // a write beyond the limit fails, as on a full disk
	b, err := embedded.Start(dir, embedded.Options{})
	if err != nil {
		return err.Error()
	}
	log, err := linelog.Open(linelog.Config{Brokers: b.Addrs()}, nil, nil)
	if err != nil {
		return err.Error()
	}
	ctx := context.Background()
	if _, _, err := log.EnsureQueue(ctx, main); err != nil {
		return err.Error()
	}
	w, err := log.NewWriter()
	if err != nil {
		return err.Error()
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err.Error()
	}
	small := unix.Rlimit{Cur: 20_000, Max: limit.Max}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &small); err != nil {
		return err.Error()
	}
	appendOne := func() error {
		v := queue.NewVisitor()
		ticket, err := w.Append(ctx, main, queue.Record{Kind: queue.Entered, Visitor: v})
		if err == nil {
			fmt.Println(int64(ticket), v)
		}
		return err
	}
	for err = appendOne(); err == nil; err = appendOne() {
	}
	for range 3 { // it stays so
		if err := appendOne(); !errors.Is(err, linelog.ErrUnknown) {
			return fmt.Sprintf("with a full disk: %v", err)
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err.Error()
	}
	if err := appendOne(); err != nil {
		return fmt.Sprintf("with room again: %v", err)
	}
	return "done"
}

// Fault 14: the disk is full. Nothing is acknowledged, nothing that was is lost, and it goes on once there is room.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fullEnv+"="+dir)
	out, err := cmd.Output() // it ends without closing anything
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if last := lines[len(lines)-1]; last != "done" {
		t.Fatalf("the child says: %s", last)
	}
	there := map[string]string{}
	for _, rec := range linelogtest.ReadAll(t, open(t, start(t, dir)), main, 0) {
		there[fmt.Sprint(int64(rec.Ticket))] = rec.Visitor
	}
	lines = lines[:len(lines)-1]
	for _, line := range lines {
		ticket, visitor, _ := strings.Cut(line, " ")
		if there[ticket] != visitor {
			t.Errorf("ticket %s is acknowledged to %s, and the log has %q", ticket, visitor, there[ticket])
		}
	}
	if len(lines) < 50 {
		t.Errorf("only %d were acknowledged before the disk was full", len(lines))
	}
}

func open(t testing.TB, b *embedded.Broker) *linelog.Log {
	t.Helper()
	log, err := linelog.Open(linelog.Config{Brokers: b.Addrs()}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	return log
}

func start(t testing.TB, dir string) *embedded.Broker {
	t.Helper()
	b, err := embedded.Start(dir, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// Fault 8, for the log: after a kill -9, again and again, every acknowledged record is there, and the group works at once.
func TestKilledBrokerKeepsWhatItAcknowledged(t *testing.T) {
	dir := t.TempDir()
	told := map[queue.Ticket]string{}
	for round := range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			num, visitor, ok := strings.Cut(lines.Text(), " ")
			ticket, err := strconv.ParseInt(num, 10, 64)
			if !ok || err != nil {
				t.Fatalf("the child says: %s", lines.Text())
			}
			told[queue.Ticket(ticket)] = visitor
			if n == 300 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait()
		b := start(t, dir)
		log := open(t, b)
		there := map[queue.Ticket]string{}
		for _, rec := range linelogtest.ReadAll(t, log, main, 0) {
			there[rec.Ticket] = rec.Visitor
		}
		for ticket, visitor := range told {
			if there[ticket] != visitor {
				t.Errorf("round %d: ticket %d is acknowledged to %s, and the log has %q", round, ticket, visitor, there[ticket])
			}
		}
		assigned := make(chan queue.ID, 1)
		from := time.Now()
		m, err := log.Join(t.Context(), linelog.GroupConfig{Group: "issuers", Queues: []queue.ID{main}}, func(id queue.ID) { assigned <- id }, func(queue.ID) {})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-assigned:
			if took := time.Since(from); took > 2*time.Second {
				t.Errorf("round %d: assigned after %v; it waited for the dead", round, took)
			}
		case <-soon(t).Done():
			t.Fatalf("round %d: nothing was assigned", round)
		}
		m.Close()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(told) < 900 {
		t.Errorf("only %d records were acknowledged", len(told))
	}
}

// Fault 14: two processes on one folder.
func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	lines := bufio.NewScanner(out)
	lines.Scan() // it appends, so it has the folder
	var ticket int64
	if _, err := fmt.Sscan(lines.Text(), &ticket); err != nil {
		t.Fatalf("the child says: %s", lines.Text())
	}
	_, err = embedded.Start(dir, embedded.Options{})
	if !errors.Is(err, embedded.ErrInUse) {
		t.Fatalf("got %v, want ErrInUse", err)
	}
	for _, word := range []string{dir, fmt.Sprintf("process %d", cmd.Process.Pid)} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not in: %v", word, err)
		}
	}
}

// written makes a folder with n records in several batches, stopped cleanly or not, and says where the segment is.
func written(t *testing.T, n int) (dir, segment string) {
	t.Helper()
	dir = t.TempDir()
	b := start(t, dir)
	log := open(t, b)
	if _, _, err := log.EnsureQueue(soon(t), main); err != nil {
		t.Fatal(err)
	}
	w, err := log.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i := range n {
		if _, err := w.Append(soon(t), main, queue.Record{Kind: queue.Entered, Visitor: fmt.Sprint("v", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, filepath.Join(dir, "log", "partitions", linelog.TopicOf(main)+"-0", "0.dat")
}

// intact says whether all n records can be read.
func intact(t *testing.T, dir string, n int) bool {
	t.Helper()
	b := start(t, dir)
	defer b.Close()
	log := open(t, b)
	defer log.Close()
	if _, next, err := log.Bounds(soon(t), main); err != nil || next != queue.Ticket(n+1) {
		t.Logf("the next ticket is %d, %v", next, err)
		return false
	}
	recs := linelogtest.ReadAll(t, log, main, 0)
	for i, rec := range recs {
		if rec.Visitor != fmt.Sprint("v", i) {
			return false
		}
	}
	return len(recs) == n
}

func alter(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Fault 14: one bad flip, wherever it is: refused, or without any effect. Never a shorter log.
func TestFlippedByteIsRefused(t *testing.T) {
	const n = 3
	dir, segment := written(t, n)
	size := 0
	alter(t, segment, func(b []byte) []byte { size = len(b); return b })
	harmless := 0
	for at := range size {
		alter(t, segment, func(b []byte) []byte { b[at] ^= 0x41; return b })
		b, err := embedded.Start(dir, embedded.Options{})
		switch {
		case errors.Is(err, embedded.ErrDamaged):
		case err != nil:
			t.Fatalf("byte %d: %v", at, err)
		default:
			_ = b.Close()
			harmless++
			if !intact(t, dir, n) {
				t.Errorf("byte %d was flipped, and the log is another", at)
			}
		}
		alter(t, segment, func(b []byte) []byte { b[at] ^= 0x41; return b })
	}
	if harmless > 4*n { // the leader's epoch, which stands before the checksum
		t.Errorf("%d of %d flips went unseen", harmless, size)
	}
	if !intact(t, dir, n) {
		t.Error("without a flip the log is not there")
	}
}

func TestDamageIsRefused(t *testing.T) {
	const n = 5
	for name, damage := range map[string]func(t *testing.T, log, segment string){
		"the last acknowledged batch is cut short": func(t *testing.T, _, segment string) {
			alter(t, segment, func(b []byte) []byte { return b[:len(b)-3] })
		},
		"the last acknowledged batch is missing": func(t *testing.T, _, segment string) {
			alter(t, segment, func(b []byte) []byte { return b[:len(b)/n*(n-1)] })
		},
		"a segment is missing": func(t *testing.T, _, segment string) {
			if err := os.Remove(segment); err != nil {
				t.Fatal(err)
			}
		},
		"the first segment is missing": func(t *testing.T, _, segment string) {
			if err := os.Rename(segment, filepath.Join(filepath.Dir(segment), "7.dat")); err != nil {
				t.Fatal(err)
			}
		},
		"topics.json is missing": func(t *testing.T, log, _ string) {
			if err := os.Remove(filepath.Join(log, "topics.json")); err != nil {
				t.Fatal(err)
			}
		},
		"meta.json is missing": func(t *testing.T, log, _ string) {
			if err := os.Remove(filepath.Join(log, "meta.json")); err != nil {
				t.Fatal(err)
			}
		},
		"the topic's name is another": func(t *testing.T, log, _ string) {
			alter(t, filepath.Join(log, "topics.json"), func(b []byte) []byte {
				return []byte(strings.ReplaceAll(string(b), linelog.TopicOf(main), linelog.TopicOf("mann")))
			})
		},
		"topics.json is cut short": func(t *testing.T, log, _ string) {
			alter(t, filepath.Join(log, "topics.json"), func(b []byte) []byte { return b[:len(b)-1] })
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, segment := written(t, n)
			damage(t, filepath.Join(dir, "log"), segment)
			b, err := embedded.Start(dir, embedded.Options{})
			if err == nil {
				_ = b.Close()
			}
			if !errors.Is(err, embedded.ErrDamaged) {
				t.Errorf("got %v, want ErrDamaged", err)
			}
		})
	}
}

// What a kill in the middle of a write leaves behind was told to nobody; it is cut off, and the log goes on.
func TestUnfinishedWriteIsCutOff(t *testing.T) {
	const n = 4
	for name, leave := range map[string]func(dat, idx []byte) ([]byte, []byte){
		"a part of a batch":         func(dat, idx []byte) ([]byte, []byte) { return append(dat, dat[:40]...), idx },
		"less than a length":        func(dat, idx []byte) ([]byte, []byte) { return append(dat, 0, 0, 0), idx },
		"a batch and no index":      func(dat, idx []byte) ([]byte, []byte) { return dat, idx[:len(idx)-15] },
		"a batch and half an index": func(dat, idx []byte) ([]byte, []byte) { return dat, idx[:len(idx)-5] },
	} {
		t.Run(name, func(t *testing.T) {
			dir, segment := written(t, n)
			index := strings.TrimSuffix(segment, ".dat") + ".idx"
			dat, err := os.ReadFile(segment)
			if err != nil {
				t.Fatal(err)
			}
			alter(t, index, func(idx []byte) []byte {
				dat, idx = leave(dat, idx)
				return idx
			})
			alter(t, segment, func([]byte) []byte { return dat })
			for range 2 { // the second time, with what the first made of it
				if !intact(t, dir, n) {
					t.Error("the log is another")
				}
			}
			b := start(t, dir)
			w, err := open(t, b).NewWriter()
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			if ticket, err := w.Append(soon(t), main, queue.Record{Kind: queue.Entered, Visitor: fmt.Sprint("v", n)}); err != nil || ticket != n+1 {
				t.Errorf("the next ticket is %d, %v; want %d", ticket, err, n+1)
			}
			_ = b.Close()
			if !intact(t, dir, n+1) {
				t.Error("the log is another after going on")
			}
			// And what was acknowledged since is guarded like everything else.
			alter(t, segment, func(b []byte) []byte { return b[:len(b)-3] })
			if _, err := embedded.Start(dir, embedded.Options{}); !errors.Is(err, embedded.ErrDamaged) {
				t.Errorf("got %v, want ErrDamaged", err)
			}
		})
	}
}

// A wrong end in a snapshot of the partition would hide what follows it.
// Killed while it deletes the files of a topic, in whatever order it does: the topic is gone, all others are there.
func TestADeletionIsCompleted(t *testing.T) {
	const doomed queue.ID = "doomed"
	fill := func(b *embedded.Broker) {
		t.Helper()
		log := open(t, b)
		w, err := log.NewWriter()
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		for _, id := range []queue.ID{main, doomed} {
			if _, _, err := log.EnsureQueue(soon(t), id); err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				if _, err := w.Append(soon(t), id, queue.Record{Kind: queue.Entered, Visitor: fmt.Sprint("v", i)}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	dir := t.TempDir()
	b := start(t, dir)
	fill(b)
	before := t.TempDir() // as it is on disk before the deletion
	if err := os.CopyFS(before, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := open(t, b).DeleteQueue(soon(t), doomed); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	note, err := os.ReadFile(filepath.Join(dir, "log", "deleting.json"))
	if err != nil {
		t.Fatal("nothing was written down before the deletion:", err)
	}
	for _, removed := range [][]string{{}, {"0.dat"}, {"0.idx"}, {"0.dat", "0.idx"}} {
		killed := func(noted bool) string {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(before)); err != nil {
				t.Fatal(err)
			}
			for _, name := range removed {
				if err := os.Remove(filepath.Join(dir, "log", "partitions", linelog.TopicOf(doomed)+"-0", name)); err != nil {
					t.Fatal(err)
				}
			}
			if noted {
				if err := os.WriteFile(filepath.Join(dir, "log", "deleting.json"), note, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			return dir
		}
		dir := killed(true)
		for range 2 { // what completes it may be killed as well
			b := start(t, dir)
			if _, _, err := open(t, b).Bounds(soon(t), doomed); !errors.Is(err, linelog.ErrNoQueue) {
				t.Errorf("without %v: the deleted queue is there: %v", removed, err)
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if !intact(t, dir, 3) {
			t.Errorf("without %v: another queue has suffered", removed)
		}
		if len(removed) == 1 && removed[0] == "0.dat" {
			if _, err := embedded.Start(killed(false), embedded.Options{}); !errors.Is(err, embedded.ErrDamaged) {
				t.Errorf("files that nobody wanted deleted are missing, and it says: %v", err)
			}
		}
	}
	// A queue of the same name that was made afterwards is another.
	b = start(t, dir)
	fill(b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = start(t, dir)
	if _, next, err := open(t, b).Bounds(soon(t), doomed); err != nil || next != 4 {
		t.Errorf("the queue that was made anew has next ticket %d, %v", next, err)
	}
}

func TestSnapshotIsNotTrusted(t *testing.T) {
	dir, segment := written(t, 3)
	alter(t, filepath.Join(filepath.Dir(segment), "snapshot.json"), func(b []byte) []byte {
		return []byte(strings.Replace(string(b), `"high_watermark":3`, `"high_watermark":1`, 1))
	})
	if !intact(t, dir, 3) {
		t.Error("records are hidden")
	}
}

// A member that was alive when the broker stopped is not waited for after its start.
func TestMembersOfTheLastRunAreForgotten(t *testing.T) {
	dir := t.TempDir()
	for round := range 2 {
		b := start(t, dir)
		log := open(t, b)
		if _, _, err := log.EnsureQueue(soon(t), main); err != nil {
			t.Fatal(err)
		}
		assigned := make(chan queue.ID, 1)
		from := time.Now()
		m, err := log.Join(t.Context(), linelog.GroupConfig{Group: "issuers", Queues: []queue.ID{main}, Session: 20 * time.Second}, func(id queue.ID) { assigned <- id }, func(queue.ID) {})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		select {
		case <-assigned:
			if took := time.Since(from); took > 2*time.Second {
				t.Errorf("round %d: assigned after %v", round, took)
			}
		case <-soon(t).Done():
			t.Fatalf("round %d: nothing was assigned", round)
		}
		if err := b.Close(); err != nil { // the member does not get to say goodbye
			t.Fatal(err)
		}
	}
}

func TestFolderIsPrivateAndLoopbackOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	b := start(t, dir)
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder's mode is %v, %v", info.Mode(), err)
	}
	for _, a := range b.Addrs() {
		if !strings.HasPrefix(a, "127.0.0.1:") {
			t.Errorf("listens on %s", a)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	start(t, dir) // the folder is free again
}
