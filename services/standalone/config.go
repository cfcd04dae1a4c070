package standalone

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
	"github.com/soonbeon/soonbeon/services/enter"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// Roles says which services a process runs.
type Roles struct{ Enter, Projector, Issuer, Position bool }

// All are the roles of a standalone process.
var All = Roles{true, true, true, true}

// name is what traces call a process of these roles: soonbeon, or soonbeon-enter where it is one service by itself.
func (r Roles) name() string {
	for name, only := range map[string]Roles{"enter": {Enter: true}, "projector": {Projector: true}, "issuer": {Issuer: true}, "position": {Position: true}} {
		if r == only {
			return "soonbeon-" + name
		}
	}
	return "soonbeon"
}

// HTTP says whether the process has a public port.
func (r Roles) HTTP() bool { return r.Enter || r.Position }

// Config of a process. The tags are those of the command line; the environment has each as SOONBEON_<NAME>.
type Config struct {
	Listen string `help:"Address of the waiting room." default:"127.0.0.1:8080"`
	Admin  string `help:"Address of the private port: health, readiness, metrics." default:"127.0.0.1:8081"`
	Data   string `help:"Folder of the embedded log and its secret; not used with Kafka." default:"./data" type:"path"`

	Queues           []string      `help:"Queues to make where the catalogue does not have them, with the settings below; the others are soonbeon queue's. Default: main, where there never was a queue."`
	Rate             float64       `help:"People a second that each queue lets through; fractions are carried." default:"175"`
	Interval         time.Duration `help:"Time between two batches." default:"100ms"`
	ConservativeRate float64       `help:"What waits are reckoned at while only the log is known; at most the rate. 0: the lower of 120 and the rate." default:"0"`
	GrantTTL         time.Duration `help:"How long an admission lasts." default:"300s" name:"grant-ttl"`
	Reentry          string        `help:"What entering again does to who waits: back (to the end of the line) or keep (the place)." default:"back" enum:"back,keep"`

	Keys     string `help:"Keys that sign receipts and entry tokens: kid:base64, separated by commas; the first signs, all verify. Needed with Kafka. Better by the environment than here."`
	IDSecret string `help:"What turns an Idempotency-Key into a visitor id, 32 characters or more, the same on every node. Default: derived from the last of the keys." name:"id-secret"`
	Identity string `help:"Who may enter: anonymous (anybody) or signed (who shows a token that the site signed)." default:"anonymous" enum:"anonymous,signed"`
	SiteKeys string `help:"Keys that the site signs identities with: kid:base64, separated by commas. Needed with --identity=signed."`

	Operators string `help:"Who may change queues: name:secret, separated by commas, 32 characters or more each. Better by the environment than here. On the embedded log one is made, in the data folder."`
	Sites     string `help:"Who may complete admissions: the protected sites, as name:secret, separated by commas. Better by the environment than here."`

	ReturnOrigins []string `help:"Sites that the waiting page may send people back to, as https://host; the first is meant where only a path is told. Default: this host alone."`
	PageDir       string   `help:"Folder of your own look of the waiting page: template.html, style.css. Default: the built-in one." type:"path"`

	TrustedOrigins []string `help:"Origins of other sites whose pages may post here, as https://host."`

	Kafka      []string `help:"Kafka's brokers, host:port. Default: the embedded log." placeholder:"HOST:PORT"`
	Production bool     `help:"Refuse to start unless Kafka is set so that an acknowledged entry survives the loss of a broker."`
	KafkaFlags `embed:"" prefix:"kafka-"`

	Redis      []string `help:"Redis, host:port; several are a cluster, or Sentinels with --redis-master. Default: the line in memory." placeholder:"HOST:PORT"`
	RedisFlags `embed:"" prefix:"redis-"`

	StartTimeout time.Duration `help:"How long to wait for Kafka, and for the log to be read, before giving up." default:"60s"`
	Debug        bool          `help:"Log at debug level."`
}

// KafkaFlags say how to reach the brokers.
type KafkaFlags struct {
	Replication   int16         `help:"Replication of topics that are made." default:"3"`
	Retention     time.Duration `help:"How long topics that are made keep records; 0: for ever. A queue whose log has lost its first records stops, so set it longer than any queue lives." default:"0"`
	TLS           bool          `help:"Speak TLS." name:"tls"`
	CA            string        `help:"File of the certificates to trust (PEM)." name:"ca" type:"path"`
	Cert          string        `help:"File of the client certificate (PEM)." type:"path"`
	Key           string        `help:"File of its key (PEM)." type:"path"`
	SASLMechanism string        `help:"PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; none where empty." name:"sasl-mechanism"`
	SASLUser      string        `help:"User." name:"sasl-user"`
	SASLPassword  string        `help:"Password. Better by the environment." name:"sasl-password"`
}

// RedisFlags say how to reach Redis.
type RedisFlags struct {
	Master   string `help:"Name of the master that the Sentinels watch."`
	User     string `help:"User."`
	Password string `help:"Password. Better by the environment."`
	DB       int    `help:"Number of the database." name:"db"`
	TLS      bool   `help:"Speak TLS." name:"tls"`
	CA       string `help:"File of the certificates to trust (PEM)." name:"ca" type:"path"`
}

// GCPercent is what the garbage collector's GOGC should be in a process of these roles, where nobody has set it. A process that
// does not keep the line lives on a few megabytes and makes much that is short-lived, so with Go's 100 it collects many times a
// second; at 400 it takes some tens of megabytes instead. Who keeps the line stays at 100: there the heap is people.
func (c *Config) GCPercent(roles Roles) int {
	if roles.keepsLine(c) {
		return 100
	}
	return 400
}

// keepsLine says whether the process folds the line into its own memory. An issuer does so even with Redis, since it goes on
// from there when Redis dies; who only takes people in has no use for it.
func (r Roles) keepsLine(c *Config) bool { return r.Issuer || r.Position && len(c.Redis) == 0 }

// Embedded says that there is no Kafka: the log is in the data folder.
func (c *Config) Embedded() bool { return len(c.Kafka) == 0 }

// parsed is what a Config says, checked.
type parsed struct {
	ids       []queue.ID // named
	settings  queue.Settings
	keys      *pass.Keys // nil on the embedded log, where none are given
	identity  enter.Identity
	siteKeys  *pass.SiteKeys
	operators *httpapi.Credentials
	sites     *httpapi.Credentials
}

// Settings are those of queues that are made.
func (c *Config) Settings() (queue.Settings, error) {
	s := queue.DefaultSettings()
	s.Rate, s.Interval, s.ConservativeRate, s.GrantTTL = c.Rate, c.Interval, c.ConservativeRate, c.GrantTTL
	if s.ConservativeRate == 0 {
		s.ConservativeRate = min(queue.DefaultSettings().ConservativeRate, s.Rate)
	}
	var err error
	if s.Reentry, err = queue.ParseReentry(c.Reentry); err != nil {
		return s, err
	}
	return s, s.Validate()
}

// parse returns every mistake at once, each beginning with the setting that it is in.
func (c *Config) parse(roles Roles) (*parsed, error) {
	p := &parsed{}
	var errs []error
	bad := func(setting string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", setting, err))
		}
	}
	var err error
	p.settings, err = c.Settings()
	bad("queue settings", err)
	for _, s := range c.Queues {
		id, err := queue.ParseID(s)
		if err == nil && slices.Contains(p.ids, id) {
			err = fmt.Errorf("%s is given twice", id)
		}
		bad("--queues", err)
		if err == nil {
			p.ids = append(p.ids, id)
		}
	}
	p.operators, err = httpapi.ParseCredentials(c.Operators)
	bad("--operators", err)
	p.sites, err = httpapi.ParseCredentials(c.Sites)
	bad("--sites", err)
	if c.Keys != "" {
		p.keys, err = pass.ParseKeys(c.Keys)
		bad("--keys", err)
	} else if roles.HTTP() && !c.Embedded() {
		bad("--keys", errors.New("needed with Kafka: the same on every node, by the environment variable SOONBEON_KEYS; `soonbeon keys` makes one"))
	}
	if c.IDSecret != "" && len(c.IDSecret) < enter.MinIDSecret {
		bad("--id-secret", fmt.Errorf("%d characters or more, not %d", enter.MinIDSecret, len(c.IDSecret)))
	}
	p.identity, err = enter.ParseIdentity(c.Identity)
	bad("--identity", err)
	if p.identity == enter.Signed {
		p.siteKeys, err = pass.ParseSiteKeys(c.SiteKeys)
		bad("--site-keys", err)
	}
	if c.Embedded() && roles != All {
		bad("--kafka", errors.New("needed: a process that runs only some of the services shares the log with others"))
	}
	if c.Embedded() && c.Production {
		bad("--production", errors.New("needs Kafka: the embedded log has one copy"))
	}
	if roles == (Roles{Projector: true}) && len(c.Redis) == 0 {
		bad("--redis", errors.New("needed: a projector applies the log to Redis"))
	}
	if roles.HTTP() {
		bad("--listen", checkAddress(c.Listen))
	}
	bad("--admin", checkAddress(c.Admin))
	for _, o := range c.TrustedOrigins {
		bad("--trusted-origins", http.NewCrossOriginProtection().AddTrustedOrigin(o))
	}
	if c.SASLMechanism == "" && c.SASLUser+c.SASLPassword != "" {
		bad("--kafka-sasl-mechanism", errors.New("needed with a user or a password"))
	}
	// Opened and closed again: nobody is reached for yet, and they know best what is wrong.
	if !c.Embedded() {
		if log, err := linelog.Open(c.logConfig(c.Kafka), nil, nil); err != nil {
			bad("--kafka", err)
		} else {
			log.Close()
		}
	}
	if len(c.Redis) > 0 {
		if rdb, err := redisline.Dial(c.redisConfig()); err != nil {
			bad("--redis", err)
		} else {
			bad("--redis", rdb.Close())
		}
	}
	if c.StartTimeout <= 0 {
		bad("--start-timeout", errors.New("more than 0"))
	}
	return p, errors.Join(errs...)
}

// checkAddress takes host:port, where the host may be left out.
func checkAddress(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("host:port is wanted, not %.80q", s)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("a port is 0 to 65535, not %.20q", port)
	}
	return nil
}

func (c *Config) logConfig(brokers []string) linelog.Config {
	l := linelog.Config{Brokers: brokers, ClientID: "soonbeon", Replication: c.Replication, Retention: c.Retention}
	if c.Embedded() {
		l.Replication, l.Retention = 1, -1
		return l
	}
	if c.KafkaFlags.TLS || c.KafkaFlags.CA != "" || c.Cert != "" || c.Key != "" {
		l.TLS = &linelog.TLSConfig{CAFile: c.KafkaFlags.CA, CertFile: c.Cert, KeyFile: c.Key}
	}
	if c.SASLMechanism != "" {
		l.SASL = &linelog.SASLConfig{Mechanism: c.SASLMechanism, User: c.SASLUser, Password: c.SASLPassword}
	}
	return l
}

func (c *Config) redisConfig() redisline.Config {
	return redisline.Config{Addrs: c.Redis, Master: c.Master, Username: c.User, Password: c.RedisFlags.Password, DB: c.DB,
		TLS: c.RedisFlags.TLS, CAFile: c.RedisFlags.CA}
}
