package standalone

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/enter"
)

// testKey is kid:base64 of 32 times c.
func testKey(kid, c string) string {
	return kid + ":" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(c, 32)))
}

// embeddedConfig is the newcomer's, on free ports.
func embeddedConfig(dir string) Config {
	return Config{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Data: dir, Queues: []string{"main"}, Rate: 1000, Interval: 100 * time.Millisecond,
		GrantTTL: time.Minute, Reentry: "back", Identity: "anonymous", StartTimeout: time.Minute}
}

// kafkaConfig is production's: the addresses need not answer.
func kafkaConfig(kafka string, redis ...string) Config {
	c := embeddedConfig("")
	c.Kafka, c.Redis, c.Keys, c.Replication = []string{kafka}, redis, testKey("a", "k"), 1
	return c
}

// settingsOf are the settings that an error names, in order.
func settingsOf(err error) []string {
	var out []string
	for line := range strings.Lines(err.Error()) {
		if setting, _, ok := strings.Cut(line, ": "); ok && (strings.HasPrefix(setting, "--") || setting == "queue settings") {
			out = append(out, setting)
		}
	}
	return out
}

func TestMistakesAreToldAllAtOnce(t *testing.T) {
	noCert := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(noCert, []byte("none"), 0o600))
	secret := base64.StdEncoding.EncodeToString([]byte("a secret that is far too short"))
	c := Config{Listen: "8080", Admin: "127.0.0.1:99999", Queues: []string{"main", "Main", "main"}, Rate: -1, Interval: time.Hour, ConservativeRate: -2,
		GrantTTL: time.Millisecond, Reentry: "sideways", Keys: "a:" + secret, IDSecret: "hunter2", Identity: "signed", SiteKeys: "s:" + secret,
		TrustedOrigins: []string{"shop.example", "https://ok.example"}, Kafka: []string{"127.0.0.1:1", ""}, Redis: []string{"127.0.0.1:1"}, StartTimeout: -1,
		KafkaFlags: KafkaFlags{Replication: -1, SASLUser: "u", SASLPassword: "swordfish"}, RedisFlags: RedisFlags{CA: noCert, Password: "swordfish"}}
	_, err := c.parse(All)
	require.Error(t, err)
	require.Equal(t, []string{"queue settings", "--queues", "--queues", "--keys", "--id-secret", "--site-keys", "--listen", "--admin", "--trusted-origins",
		"--kafka-sasl-mechanism", "--kafka", "--redis", "--start-timeout"}, settingsOf(err), "%v", err)
	for _, s := range []string{secret, "hunter2", "swordfish"} {
		require.NotContains(t, err.Error(), s)
	}

	c = embeddedConfig(t.TempDir())
	c.Production, c.Operators, c.Identity = true, "short:secret", "everybody"
	_, err = c.parse(Roles{Enter: true})
	require.Equal(t, []string{"--operators", "--identity", "--kafka", "--production"}, settingsOf(err), "%v", err)
}

func TestEachRoleNeedsItsOwn(t *testing.T) {
	only := map[string]Roles{"enter": {Enter: true}, "projector": {Projector: true}, "issuer": {Issuer: true}, "position": {Position: true}, "all": All}
	for name, tc := range map[string]struct {
		change func(*Config)
		wrong  map[string][]string // role: what is wrong with it; the others are right
	}{
		"everything there": {func(*Config) {}, nil},
		"no keys": {func(c *Config) { c.Keys = "" },
			map[string][]string{"enter": {"--keys"}, "position": {"--keys"}, "all": {"--keys"}}},
		"no Redis": {func(c *Config) { c.Redis = nil }, map[string][]string{"projector": {"--redis"}}},
		"no Kafka": {func(c *Config) { c.Kafka = nil },
			map[string][]string{"enter": {"--kafka"}, "projector": {"--kafka"}, "issuer": {"--kafka"}, "position": {"--kafka"}}},
		"no public address": {func(c *Config) { c.Listen = "" }, map[string][]string{"enter": {"--listen"}, "position": {"--listen"}, "all": {"--listen"}}},
		"a client certificate without its key": {func(c *Config) { c.Cert = "x.pem" }, map[string][]string{"enter": {"--kafka"}, "projector": {"--kafka"},
			"issuer": {"--kafka"}, "position": {"--kafka"}, "all": {"--kafka"}}},
		"a key without its certificate": {func(c *Config) { c.Key = "x.pem" }, map[string][]string{"enter": {"--kafka"}, "projector": {"--kafka"},
			"issuer": {"--kafka"}, "position": {"--kafka"}, "all": {"--kafka"}}},
		"an unknown SASL mechanism": {func(c *Config) { c.SASLMechanism, c.SASLUser, c.SASLPassword = "GUESS", "u", "p" }, map[string][]string{"enter": {"--kafka"},
			"projector": {"--kafka"}, "issuer": {"--kafka"}, "position": {"--kafka"}, "all": {"--kafka"}}},
	} {
		for role, roles := range only {
			t.Run(name+"/"+role, func(t *testing.T) {
				c := kafkaConfig("127.0.0.1:1", "127.0.0.1:1")
				tc.change(&c)
				_, err := c.parse(roles)
				if tc.wrong[role] == nil {
					require.NoError(t, err)
					return
				}
				require.Error(t, err)
				require.Equal(t, tc.wrong[role], settingsOf(err), "%v", err)
			})
		}
	}
}

func TestWhatIsParsed(t *testing.T) {
	c := embeddedConfig("")
	c.Queues, c.Reentry, c.Identity, c.SiteKeys = []string{"a", "b-2"}, "keep", "signed", testKey("s", "s")
	p, err := c.parse(All)
	require.NoError(t, err)
	want := queue.DefaultSettings()
	want.Rate, want.GrantTTL, want.Reentry = 1000, time.Minute, queue.Keep
	require.Equal(t, []queue.ID{"a", "b-2"}, p.ids)
	require.Equal(t, want, p.settings)
	require.Equal(t, enter.Signed, p.identity)
	require.Nil(t, p.keys, "made in the data folder")
	c.Rate = 50
	p, err = c.parse(All)
	require.NoError(t, err)
	require.InDelta(t, 50, p.settings.ConservativeRate, 0, "not above the rate")
}
