package load

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/soonbeon/soonbeon/services/plot"
)

func TestFlags(t *testing.T) {
	var cli struct {
		Load Config `cmd:""`
	}
	t.Setenv("SOONBEON_RATE", "175") // of the queue
	t.Setenv("SOONBEON_ALLOW_REMOTE", "true")
	parser, err := kong.New(&cli, kong.Exit(func(int) {}), kong.DefaultEnvars("SOONBEON"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{"load", "--visitors", "20000", "--target", "http://127.0.0.1:8080,http://localhost:9090", "--json"}); err != nil {
		t.Fatal(err)
	}
	c := cli.Load
	if c.Visitors != 20000 || len(c.Target) != 2 || c.Queue != "main" || c.Connections != 256 || c.Recheck != 0.1 || c.Rate != 0 || c.AllowRemote || !c.JSON || c.Timeout != 30*time.Minute {
		t.Errorf("%+v", c)
	}
	// What the tags say and what a zero field means are the same.
	if _, err := parser.Parse([]string{"load"}); err != nil {
		t.Fatal(err)
	}
	d := Config{Recheck: 0.1}.withDefaults()
	cli.Load.Enter, cli.Load.Position = d.Enter, d.Position
	if fmt.Sprint(cli.Load) != fmt.Sprint(d) {
		t.Errorf("tags say\n%+v\nzero means\n%+v", cli.Load, d)
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	err := Config{
		Target: []string{"http://shop.example.com", "nonsense", "http://127.0.0.1:1/path"}, Queue: "Main", Visitors: -1, Rate: -1,
		Refresh: 2, Recheck: -1, Connections: 99999, Timeout: 25 * time.Hour, ExpectBatch: 3,
	}.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"shop.example.com is not this machine", "--allow-remote", `"nonsense" is not an address`, "nothing after the port",
		"--queue", "--visitors is 1 to 1,000,000, not -1", "--rate", "--refresh", "--recheck", "--connections is 1 to 10,000", "--timeout", "--expect-batch"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("lacks %q:\n%v", want, err)
		}
	}
	if _, err := Run(t.Context(), Config{Visitors: -1}, io.Discard); err == nil {
		t.Error("Run does not validate")
	}
}

func TestOnlyThisMachineUnlessAllowed(t *testing.T) {
	for _, ok := range []string{"http://127.0.0.1:8080", "http://127.9.9.9", "http://localhost:80/", "https://[::1]:443"} {
		if err := (Config{Target: []string{ok}}).Validate(); err != nil {
			t.Error(err)
		}
	}
	for _, no := range []string{"http://10.0.0.1", "http://0.0.0.0:80", "http://localhost.example.com", "http://[2001:db8::1]", "http://127.0.0.1.nip.io"} {
		if err := (Config{Target: []string{no}}).Validate(); err == nil {
			t.Errorf("%s was let in", no)
		}
		if err := (Config{Target: []string{no}, AllowRemote: true}).Validate(); err != nil {
			t.Error(err)
		}
	}
	// Whatever a name resolves to: the connection itself is refused too.
	if err := dialer(false).Control("tcp", "192.0.2.1:80", nil); err == nil {
		t.Error("the dialer leaves the machine")
	}
	if err := dialer(false).Control("tcp", "[::1]:80", nil); err != nil {
		t.Error(err)
	}
}

func TestKeysFile(t *testing.T) {
	room := newRoom(t, 1)
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(room.keyText+"\nold:QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Config{KeysFile: path, Keys: "else"}.keyText()
	if err != nil || got != room.keyText+",old:QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY=" {
		t.Error(got, err)
	}
	if _, err := Run(t.Context(), Config{KeysFile: path + "x"}, io.Discard); err == nil || !strings.Contains(err.Error(), "keys-file") {
		t.Error(err)
	}
	if _, err := Run(t.Context(), Config{Keys: "secret"}, io.Discard); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for s, want := range map[string]time.Duration{
		"": 0, "0": 0, "3": 3 * time.Second, "-3": 0, "junk": 0, "99999999": time.Hour,
		now.Add(7 * time.Second).Format(http.TimeFormat): 7 * time.Second, now.Add(-time.Hour).Format(http.TimeFormat): 0,
	} {
		if got := retryAfter(s, now); got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
}

func TestKindsOfFailure(t *testing.T) {
	for want, err := range map[string]error{
		"connection refused": &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
		"connection lost":    fmt.Errorf("read: %w", io.ErrUnexpectedEOF),
		"timeout":            fmt.Errorf("read: %w", os.ErrDeadlineExceeded),
		"no answer":          errors.New("else"),
	} {
		if got := failureOf(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
	// What a target puts where a code belongs doesn't become a line of the summary.
	for _, body := range []string{`{"code":"A line\nbreak"}`, `{"code":"` + strings.Repeat("a", 99) + `"}`, `<html>`, ``} {
		if got := (answer{status: 500, body: []byte(body)}).kind(); got != "500" {
			t.Errorf("%q gives %q", body, got)
		}
	}
	tally := newTally(1)
	for i := range 1000 {
		tally.failed("enter", fmt.Sprint(i))
	}
	if len(tally.errors) > maxKinds+1 {
		t.Errorf("%d kinds", len(tally.errors))
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -999: "-999"} {
		if got := plot.Thousands(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
	for d, want := range map[time.Duration]string{4200 * time.Millisecond: "4.2 s", 42 * time.Second: "42 s", 72 * time.Second: "1m12s", 65 * time.Minute: "1h05m"} {
		if got := duration(d); got != want {
			t.Errorf("%v: %s", d, got)
		}
	}
	for v, want := range map[float64]string{0.61: "0.6 ms", 19.4: "19 ms", 12345: "12.3 s"} {
		if got := ms(v); got != want {
			t.Errorf("%v: %s", v, got)
		}
	}
}

func TestTwoLinesOfProgress(t *testing.T) {
	v := view{visitors: 20000, elapsed: 72 * time.Second, entering: 31204, latency: Latency{P50: 4, P99: 19}, admitting: 175,
		glance: glance{accepted: 20000, admitted: 12588}}
	a, b := v.lines()
	if a != "entering   20,000/20,000  ████████████████████    31,204/s   p50 4.0 ms  p99 19 ms" ||
		b != "waiting     7,412  admitted 12,588       175/s   1m12s elapsed, 42 s left" {
		t.Errorf("\n%s\n%s", a, b)
	}
	// Nothing jumps: with fewer people, the columns are where they were.
	v.accepted, v.admitted = 7, 1
	c, d := v.lines()
	if strings.Index(c, "/s") != strings.Index(a, "/s") || strings.Index(d, "/s") != strings.Index(b, "/s") {
		t.Errorf("\n%s\n%s\n%s\n%s", a, c, b, d)
	}
	v.errors, v.broken = 3, 1
	if _, d := v.lines(); !strings.HasSuffix(d, "errors 3  BROKEN 1") {
		t.Error(d)
	}
}

func TestProgressIsDrawnOverOnATerminal(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, &run{cfg: Config{Visitors: 10}, tally: newTally(10), start: time.Now()})
	p.terminal = true
	stop := make(chan struct{})
	close(stop)
	p.run(stop)
	if got := out.String(); strings.Count(got, "\x1b[2A") != 1 || strings.Count(got, "\n") != 5 {
		t.Errorf("%q", got)
	}
	if isTerminal(&out) {
		t.Error("a buffer is a terminal")
	}
}
