package drill

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/load"
	"github.com/soonbeon/soonbeon/services/plot"
	"github.com/soonbeon/soonbeon/services/standalone"
)

// Config of a drill. A zero field takes the default of its tag, or, for Visitors, Rate and ExpectRate, that of its help.
// What reaches other machines, or belongs to the queue, is not taken from the environment.
type Config struct {
	Target   []string `help:"Where the waiting room listens; several addresses, separated by commas, are used in turn. Without: the drill brings up its own, with its own redis-server." placeholder:"URL"`
	Enter    []string `help:"Where to enter, when that is not the target." placeholder:"URL"`
	Position []string `help:"Where to ask for positions, when that is not the target." placeholder:"URL"`
	Queue    string   `help:"The queue to stand in." default:"main"`

	Kafka                 []string `help:"The target's Kafka, host:port: the log is read along, and audited at the end. Needed with --target." placeholder:"HOST:PORT"`
	standalone.KafkaFlags `embed:"" prefix:"kafka-"`
	Redis                 []string `help:"The target's Redis, host:port, to be compared with the log at the end; several are a cluster, or Sentinels with --redis-master." placeholder:"HOST:PORT"`
	standalone.RedisFlags `embed:"" prefix:"redis-"`

	Break          string        `help:"What breaks it: a command for sh -c, such as 'docker kill redis'. Needed with --target." env:"-"`
	Mend           string        `help:"What mends it again, such as 'docker start redis'. Needed with --target." env:"-"`
	BreakAt        time.Duration `help:"When to break." default:"12s"`
	MendAt         time.Duration `help:"When to mend. The leader goes back to Redis 30 s after it left at the earliest, and 10 s after Redis' return." default:"45s"`
	CommandTimeout time.Duration `help:"A command that takes longer is ended, with its children." default:"1m"`
	KeepData       bool          `help:"The drill's own Redis comes back with its data, not empty." env:"-"`

	Visitors   int           `help:"How many come; 0: 50,000, or 10,000 before the drill's own system." default:"0" short:"n"`
	Rate       float64       `help:"How many arrive in a second; 0: as fast as the target answers, or 350 before the drill's own system." default:"0" env:"-"`
	ExpectRate float64       `help:"The queue's rate, people a second: more than this and one batch in a second is a failure. 0: not checked, or 175 for the drill's own system, which runs at it." default:"0"`
	Pollers    int           `help:"How many more stand in line to watch: each asks again and again, and comes again when it was let in, until all is as before; 1 to 10,000." default:"1000"`
	PollEvery  time.Duration `help:"How often each of them asks; 100ms to 1m." default:"1s"`

	Connections int           `help:"How many requests of the crowd are under way at once; 1 to 10,000." default:"256"`
	Timeout     time.Duration `help:"The drill ends after this, whoever still waits; at most 24h." default:"30m"`

	Keys     string `help:"The keys that sign entry tokens (kid:base64, separated by commas), to verify them. A command line is seen by others on the machine: prefer --keys-file."`
	KeysFile string `help:"A file with such keys, one a line or separated by commas; goes before --keys." placeholder:"FILE"`

	AllowRemote bool   `help:"Allow targets that are not on this machine. Only for sites that are yours." env:"-"`
	HTML        string `help:"Write the report to this file. Default: drill-<time>.html in this folder." name:"html" placeholder:"FILE" type:"path"`
	Lang        string `help:"The language of the HTML report: ${enum}." enum:"en,ko" default:"en"`
	JSON        bool   `help:"Print the report as JSON; the timeline goes to the error stream." name:"json"`

	// Progress is where the timeline goes when JSON is set; nil is nowhere.
	Progress io.Writer `kong:"-" json:"-"`
}

// The limits of Config.
const (
	MaxPollers   = 10_000
	MinPollEvery = 100 * time.Millisecond
	MaxPollEvery = time.Minute
)

// own says that the drill brings up its own system.
func (c *Config) own() bool { return len(c.Target) == 0 }

func (c Config) withDefaults() Config {
	first := func(n *int, d int) {
		if *n == 0 {
			*n = d
		}
	}
	lasts := func(n *time.Duration, d time.Duration) {
		if *n == 0 {
			*n = d
		}
	}
	if c.Queue == "" {
		c.Queue = "main"
	}
	if c.own() {
		first(&c.Visitors, 10_000)
		if c.Rate == 0 {
			c.Rate = 350
		}
		if c.ExpectRate == 0 {
			c.ExpectRate = queue.DefaultSettings().Rate
		}
	}
	first(&c.Visitors, 50_000)
	first(&c.Pollers, 1000)
	first(&c.Connections, 256)
	lasts(&c.BreakAt, 12*time.Second)
	lasts(&c.MendAt, 45*time.Second)
	lasts(&c.CommandTimeout, time.Minute)
	lasts(&c.PollEvery, time.Second)
	lasts(&c.Timeout, 30*time.Minute)
	return c
}

// Validate returns every mistake at once, each naming its flag.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if c.own() {
		for _, f := range []struct {
			flag  string
			given bool
		}{{"--kafka", len(c.Kafka) > 0}, {"--redis", len(c.Redis) > 0}, {"--enter", len(c.Enter) > 0}, {"--position", len(c.Position) > 0},
			{"--break", c.Break != ""}, {"--mend", c.Mend != ""}, {"--keys", c.Keys != ""}, {"--keys-file", c.KeysFile != ""}} {
			if f.given {
				bad("%s goes with --target: without one the drill brings up its own system, and kills its own Redis", f.flag)
			}
		}
		if c.ExpectRate > queue.MaxRate {
			bad("--expect-rate is at most %v people a second, not %v", queue.MaxRate, c.ExpectRate)
		}
	} else {
		if c.Break == "" || c.Mend == "" {
			bad("--break and --mend are needed with --target: what breaks the system, and what mends it again")
		}
		if len(c.Kafka) == 0 {
			bad("--kafka is needed with --target, since the log is what proves the drill (the embedded log is its own process's alone: without --target the drill brings one up)")
		}
		if c.KeepData {
			bad("--keep-data is for the drill's own Redis, without --target; with one, --mend decides")
		}
	}
	if err := c.crowd(nil, "").Validate(); err != nil {
		errs = append(errs, err)
	}
	if c.BreakAt < 0 || c.MendAt <= c.BreakAt {
		bad("--break-at is before --mend-at, not %v and %v", c.BreakAt, c.MendAt)
	}
	if c.CommandTimeout < 0 {
		bad("--command-timeout is more than 0, not %v", c.CommandTimeout)
	}
	if c.Timeout > 0 && c.MendAt >= c.Timeout {
		bad("--mend-at is before the --timeout of %v, not %v", c.Timeout, c.MendAt)
	}
	if c.Pollers < 1 || c.Pollers > MaxPollers {
		bad("--pollers is 1 to %s, not %d", plot.Thousands(MaxPollers), c.Pollers)
	}
	if c.PollEvery < MinPollEvery || c.PollEvery > MaxPollEvery {
		bad("--poll-every is %v to %v, not %v", MinPollEvery, MaxPollEvery, c.PollEvery)
	}
	return errors.Join(errs...)
}

// crowd is the load that the drill puts on: at target where that is not nil, signed by keys where they are given.
func (c Config) crowd(target []string, keys string) load.Config {
	l := load.Config{Target: c.Target, Enter: c.Enter, Position: c.Position, Queue: c.Queue, Visitors: c.Visitors, Rate: c.Rate, Recheck: 0.1,
		Connections: c.Connections, Timeout: c.Timeout, ExpectRate: c.ExpectRate, Keys: c.Keys, KeysFile: c.KeysFile,
		AllowRemote: c.AllowRemote, JSON: true}
	if target != nil {
		l.Target, l.Keys = target, keys
	}
	return l
}
