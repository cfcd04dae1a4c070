package e2e

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/soonbeon/soonbeon/services/load"
)

// fingerprint is of every file below dir, with its mode and time of change.
func fingerprint(t testing.TB, dir string) string {
	t.Helper()
	var all strings.Builder
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sum := [32]byte{}
		if !d.IsDir() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum = sha256.Sum256(b)
		}
		_, err = fmt.Fprintf(&all, "%s %v %v %x\n", path, info.Mode(), info.ModTime(), sum)
		return err
	}))
	return all.String()
}

// refused is a start that has to fail, and is not to take long.
func refused(t testing.TB, args ...string) string {
	t.Helper()
	began := time.Now()
	r := run(t, nil, append([]string{"standalone", "--listen=127.0.0.1:0", "--admin=127.0.0.1:0"}, args...)...)
	require.Equal(t, 1, r.code, "%+v", r)
	require.Less(t, time.Since(began), 20*time.Second)
	require.True(t, strings.HasPrefix(r.errOut, "soonbeon: "), r.errOut)
	require.NotContains(t, r.errOut, "goroutine ")
	require.NotContains(t, r.out, "ready")
	return r.errOut
}

func TestFault14_SecondProcessOnTheDataFolderIsRefused(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	room := start(t, "standalone", "standalone", nil, "--data", data, still)
	room.leads(t)
	first := enter(t, room.public)
	said := refused(t, "--data", data)
	require.Contains(t, said, data)
	require.Contains(t, said, "in use")
	require.Equal(t, first.Ticket+1, enter(t, room.public).Ticket, "the first goes on")
	room.stop(t)
}

func TestFault14_FlippedBitIsRefusedAndUntouched(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	room := start(t, "standalone", "standalone", nil, "--data", data, still)
	var last reply
	for range 20 {
		last = enter(t, room.public)
	}
	room.stop(t)
	segments, err := filepath.Glob(data + "/log/log/partitions/soonbeon.queue.main-0/*.dat")
	require.NoError(t, err)
	require.Len(t, segments, 1, fingerprint(t, data))
	whole, err := os.ReadFile(segments[0])
	require.NoError(t, err)
	flipped := append([]byte(nil), whole...)
	flipped[len(flipped)/2] ^= 4
	require.NoError(t, os.WriteFile(segments[0], flipped, 0o600))
	require.Contains(t, refused(t, "--data", data), segments[0])
	now, err := os.ReadFile(segments[0])
	require.NoError(t, err)
	require.Equal(t, flipped, now, "the damaged file is kept as it is")

	require.NoError(t, os.WriteFile(segments[0], whole, 0o600))
	room = start(t, "again", "standalone", nil, "--data", data, still)
	require.EqualValues(t, 20, position(t, room.public, last.Receipt).Position)
	room.stop(t)
}

func TestTakenPortIsToldWithItsFlag(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	for _, flag := range []string{"--listen", "--admin"} {
		data := filepath.Join(t.TempDir(), "data")
		said := refused(t, "--data", data, flag, taken.Addr().String())
		require.Contains(t, said, taken.Addr().String())
		require.Contains(t, said, flag)
		require.Contains(t, said, "in use")
		other := "--admin"
		if flag == other {
			other = "--listen"
		}
		require.NotContains(t, said, other)
		start(t, "free", "standalone", nil, "--data", data).stop(t)
	}
}

func TestNewerDataFolderIsRefusedAndUntouched(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	start(t, "standalone", "standalone", nil, "--data", data).stop(t)
	require.NoError(t, os.WriteFile(data+"/VERSION", []byte("2\n"), 0o600))
	before := fingerprint(t, data)
	said := refused(t, "--data", data)
	require.Contains(t, said, data)
	require.Contains(t, said, "newer program")
	require.Equal(t, before, fingerprint(t, data))

	other := t.TempDir()
	require.NoError(t, os.WriteFile(other+"/thesis.txt", []byte("words"), 0o600))
	before = fingerprint(t, other)
	require.Contains(t, refused(t, "--data", other), "was not made by this program")
	require.Equal(t, before, fingerprint(t, other))
}

func TestAllMistakesAreToldInOneGo(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	const secret = "c2VjcmV0IHRoYXQgbm9ib2R5IG1heSBzZWU="
	said := refused(t, "--data", data, "--rate=-1", "--grant-ttl=1ms", "--queues=A B,main,main", "--identity=signed", "--id-secret=short",
		"--keys=k1:"+secret+",../k2:"+secret, "--production", "--start-timeout=0s")
	for _, mistake := range []string{"rate", "grant", "--queues", "main is given twice", "--site-keys", "--id-secret", "--keys", "--production", "--start-timeout"} {
		require.Contains(t, said, mistake)
	}
	require.NotContains(t, said, secret)
	require.NoDirExists(t, data)

	const nobody = "127.0.0.1:1"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"enter"}, "--kafka"},
		{[]string{"projector", "--kafka=" + nobody}, "--redis"},
		{[]string{"position", "--kafka=" + nobody}, "--keys"},
		{[]string{"issuer", "--kafka=" + nobody, "--start-timeout=300ms", "--admin=127.0.0.1:0"}, nobody},
		{[]string{"standalone", "--bogus"}, "--bogus"},
		{[]string{"standalone", "--rate=fast"}, "--rate"},
	} {
		r := run(t, nil, c.args...)
		require.Equal(t, 1, r.code, "%v: %+v", c.args, r)
		require.Contains(t, r.errOut, c.want, "%v", c.args)
		require.Less(t, strings.Count(r.errOut, "\n"), 6, "a sentence, not a page: %s", r.errOut)
	}
}

func TestFault28_TerminatedUnderLoad(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	room := start(t, "standalone", "standalone", nil, "--data", data, "--rate=100")
	crowd := send(t, load.Config{Target: []string{room.public}, Visitors: 50_000, Rate: 1000, Keys: keysOf(t, data), Connections: 64})
	until(t, 30*time.Second, "the crowd is in full swing", func() bool { return crowd.accepted() >= 500 && crowd.admitted() >= 50 })
	took := room.stop(t)
	report := crowd.called(t)
	t.Logf("%d entered and %d were admitted; stopped in %v", crowd.accepted(), crowd.admitted(), took.Round(time.Millisecond))
	for _, e := range report.Errors {
		// Lost: sent on an idle connection at the moment when it was closed. As below, such a request was not looked at.
		require.Contains(t, []string{"connection refused", "connection lost"}, e.Kind, "%+v", report.Errors)
	}
	acks, _ := crowd.promised()
	book := offline(t, data, "main")
	book.accounts(t, acks, crowd.entries(t, keysOf(t, data), "main"))
	require.Equal(t, len(acks), len(book.visitor), "each entry in the log was acknowledged: what was under way was flushed and answered")
}

// TestFault28_TerminatedWithKafkaAway: nothing that Kafka owes an answer for may keep the process.
func TestFault28_TerminatedWithKafkaAway(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"gone", "silent"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			kafka, err := kfake.NewCluster(kfake.NumBrokers(1))
			require.NoError(t, err)
			t.Cleanup(kafka.Close)
			keys := strings.TrimSpace(run(t, nil, "keys").out)
			room := start(t, "standalone", "standalone", []string{"SOONBEON_KEYS=" + keys},
				"--kafka", kafka.ListenAddrs()[0], "--kafka-replication=1", "--rate=50")
			crowd := send(t, load.Config{Target: []string{room.public}, Visitors: 50_000, Rate: 300, Keys: keys, Connections: 64})
			until(t, 30*time.Second, "the crowd is in full swing", func() bool { return crowd.accepted() >= 200 && crowd.admitted() >= 20 })
			if how == "gone" {
				kafka.Close()
			} else {
				silent := make(chan struct{})
				t.Cleanup(func() { close(silent) }) // before the cluster is closed
				kafka.Control(func(kmsg.Request) (kmsg.Response, error, bool) {
					<-silent
					return nil, nil, false
				})
			}
			before := crowd.accepted()
			until(t, 15*time.Second, "enter says 503", func() bool {
				r := enter(t, room.public)
				require.Contains(t, []int{202, 503}, r.status, r.body)
				return r.status == 503 && r.header.Get("Retry-After") != ""
			})
			code, took := room.stopWith(t)
			t.Logf("exit code %d after %v with Kafka %s; %d acknowledged before, %d after", code, took.Round(time.Millisecond), how, before, crowd.accepted())
			crowd.called(t)
		})
	}
}
