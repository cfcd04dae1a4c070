package load

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/plot"
)

// Config says who comes, where to, and what they expect. A zero field takes the default of its tag, except for the
// fractions, where zero means nobody. The flags that a command may also take from the environment leave out two:
// SOONBEON_RATE is the queue's, and a crowd must not be let loose on other machines by a forgotten variable.
type Config struct {
	Target   []string `help:"Where the waiting room listens; several addresses, separated by commas, are used in turn." default:"http://127.0.0.1:8080" placeholder:"URL"`
	Enter    []string `help:"Where to enter, when that is not the target." placeholder:"URL"`
	Position []string `help:"Where to ask for positions, when that is not the target." placeholder:"URL"`
	Queue    string   `help:"The queue to stand in." default:"main"`

	Visitors int     `help:"How many come; 1 to 1,000,000." default:"1000" short:"n"`
	Rate     float64 `help:"How many arrive in a second; 0 is as fast as the target answers." default:"0" env:"-"`
	Refresh  float64 `help:"The share of visitors who enter a second time while they wait, and so move back; 0 to 1." default:"0"`
	Recheck  float64 `help:"The share of admitted visitors who ask once more, to see that they stay admitted; 0 to 1." default:"0.1"`

	Connections    int           `help:"How many requests are under way at once, each on a kept-alive connection; 1 to 10,000." default:"256"`
	Timeout        time.Duration `help:"The whole run ends after this, whoever still waits; at most 24h." default:"30m"`
	RequestTimeout time.Duration `help:"An answer that takes longer is given up and asked for again." default:"10s"`
	Patience       time.Duration `help:"Who still waits this long after somebody with a later ticket was admitted counts as lost." default:"30s"`

	ExpectRate  float64 `help:"The queue's rate, people a second: a second with more than this and one batch is a failure. 0: not checked." default:"0"`
	ExpectBatch int     `help:"How many one batch may hold; 0: a tenth of the expected rate, rounded up." default:"0"`

	Keys     string `help:"The keys that sign entry tokens (kid:base64, separated by commas), to verify them. Without keys only their form and times are checked. A command line is seen by others on the machine: prefer --keys-file."`
	KeysFile string `help:"A file with such keys, one a line or separated by commas; goes before --keys." placeholder:"FILE"`

	AllowRemote bool   `help:"Allow targets that are not on this machine. Only for sites that are yours." env:"-"`
	HTML        string `help:"Write a report that draws the run, as a page which needs nothing else, to this file." name:"html" placeholder:"FILE" type:"path" env:"-"`
	Lang        string `help:"The language of that report: ${enum}." enum:"en,ko" default:"en" env:"-"`
	JSON        bool   `help:"Print the summary as JSON, and no progress." name:"json"`

	// Progress is where progress goes when JSON is set; nil is nowhere.
	Progress io.Writer `kong:"-" json:"-"`
	// Transport replaces the HTTP client's own; for tests. Nil is a bounded, kept-alive one.
	Transport http.RoundTripper `kong:"-" json:"-"`
}

// The limits of Config.
const (
	MaxVisitors    = 1_000_000
	MaxConnections = 10_000
	MaxTimeout     = 24 * time.Hour
)

func (c Config) withDefaults() Config {
	if len(c.Target) == 0 {
		c.Target = []string{"http://127.0.0.1:8080"}
	}
	if len(c.Enter) == 0 {
		c.Enter = c.Target
	}
	if len(c.Position) == 0 {
		c.Position = c.Target
	}
	if c.Queue == "" {
		c.Queue = "main"
	}
	if c.Lang == "" {
		c.Lang = "en"
	}
	orInt := func(n *int, d int) {
		if *n == 0 {
			*n = d
		}
	}
	orDuration := func(n *time.Duration, d time.Duration) {
		if *n == 0 {
			*n = d
		}
	}
	orInt(&c.Visitors, 1000)
	orInt(&c.Connections, 256)
	orDuration(&c.Timeout, 30*time.Minute)
	orDuration(&c.RequestTimeout, 10*time.Second)
	orDuration(&c.Patience, 30*time.Second)
	if c.ExpectRate > 0 {
		orInt(&c.ExpectBatch, int(math.Ceil(c.ExpectRate/10)))
	}
	return c
}

// Validate returns every mistake at once, each naming the flag and its limit.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }

	seen := map[string]bool{}
	for _, list := range [][]string{c.Target, c.Enter, c.Position} {
		for _, s := range list {
			if seen[s] {
				continue
			}
			seen[s] = true
			if err := checkTarget(s, c.AllowRemote); err != nil {
				errs = append(errs, err)
			}
		}
	}
	if _, err := queue.ParseID(c.Queue); err != nil {
		bad("--queue: %w", err)
	}
	if c.Visitors < 1 || c.Visitors > MaxVisitors {
		bad("--visitors is 1 to %s, not %d", plot.Thousands(MaxVisitors), c.Visitors)
	}
	if !(c.Rate >= 0) || math.IsInf(c.Rate, 0) {
		bad("--rate is 0 or more people a second, not %v", c.Rate)
	} else if c.Rate > 0 && float64(c.Visitors)/c.Rate > c.Timeout.Seconds() {
		bad("--rate %v brings %s visitors in more than the --timeout of %v", c.Rate, plot.Thousands(int64(c.Visitors)), c.Timeout)
	}
	for _, f := range []struct {
		name string
		v    float64
	}{{"--refresh", c.Refresh}, {"--recheck", c.Recheck}} {
		if !(f.v >= 0 && f.v <= 1) {
			bad("%s is a share from 0 to 1, not %v", f.name, f.v)
		}
	}
	if c.Connections < 1 || c.Connections > MaxConnections {
		bad("--connections is 1 to %s, not %d", plot.Thousands(MaxConnections), c.Connections)
	}
	if c.Timeout < 0 || c.Timeout > MaxTimeout {
		bad("--timeout is more than 0 and at most %v, not %v", MaxTimeout, c.Timeout)
	}
	if c.RequestTimeout < 0 {
		bad("--request-timeout is more than 0, not %v", c.RequestTimeout)
	}
	if c.Patience < 0 {
		bad("--patience is more than 0, not %v", c.Patience)
	}
	if !(c.ExpectRate >= 0) || math.IsInf(c.ExpectRate, 0) {
		bad("--expect-rate is 0 or more people a second, not %v", c.ExpectRate)
	}
	if c.ExpectBatch < 0 {
		bad("--expect-batch is 0 or more people, not %d", c.ExpectBatch)
	} else if c.ExpectBatch > 0 && c.ExpectRate == 0 {
		bad("--expect-batch says nothing without --expect-rate")
	}
	return errors.Join(errs...)
}

// checkTarget lets in http and https addresses without a path, and other machines only on request: a crowd sent to
// somebody else's site is an attack.
func checkTarget(s string, allowRemote bool) error {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return fmt.Errorf("%.80q is not an address like http://127.0.0.1:8080", s)
	}
	if u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("the address of %s has nothing after the port and no user name", u.Host)
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) && !allowRemote {
		return fmt.Errorf("%s is not this machine. A crowd may be sent only to a site of your own; "+
			"if it is, say --allow-remote", u.Host)
	}
	return nil
}

// keyText is the keys as text, "" where none are given.
func (c Config) keyText() (string, error) {
	if c.KeysFile == "" {
		return c.Keys, nil
	}
	b, err := os.ReadFile(c.KeysFile)
	if err != nil {
		return "", fmt.Errorf("read --keys-file: %w", err)
	}
	fields := strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' || r == '\r' || r == ',' || r == ' ' })
	if len(fields) == 0 {
		return "", fmt.Errorf("--keys-file %s holds no keys", c.KeysFile)
	}
	return strings.Join(fields, ","), nil
}
