package catalog_test

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/catalog"
)

func TestADocumentIsAStoredFormat(t *testing.T) {
	e := entry(main, 3, 9, func(e *queue.Entry) {
		e.Settings.OpensAtMs, e.Settings.ClosesAtMs, e.Settings.Order = 1_800_000_000_000, 1_800_000_000_500, queue.ByDraw
		e.Settings.Polling = []queue.PollStep{{Position: 100, Interval: time.Second}, {Position: queue.LastPosition, Interval: 30 * time.Second, Jitter: 4 * time.Second}}
		e.Settings.Rounding = []queue.RoundStep{{Ahead: 1000, To: 10}}
		e.Closed, e.Ending, e.Why, e.Commitment, e.Sealed = true, true, "sold_out", "ab", []byte("secret")
	})
	got, err := json.Marshal(catalog.Show(e, time.UnixMilli(0)))
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"main","version":9,"made":3,"state":"ended","settings":{"rate":175,"interval":"100ms","conservativeRate":120,"maxActive":0,
		"grantTtl":"5m0s","reentry":"back","opensAt":"2027-01-15T08:00:00Z","closesAt":"2027-01-15T08:00:00.5Z","order":"draw","admitTo":"","message":"",
		"polling":[{"position":100,"intervalMs":1000,"jitterMs":0},{"position":null,"intervalMs":30000,"jitterMs":4000}],
		"approximateSizes":[{"ahead":1000,"roundTo":10}]},"paused":false,"closed":true,"ending":true,"reason":"sold_out","commitment":"ab"}`, string(got))
}

func TestStates(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	for want, change := range map[catalog.State]func(*queue.Entry){
		catalog.Open:     func(e *queue.Entry) { e.Settings.OpensAtMs, e.Settings.ClosesAtMs = 1_000_000, 1_000_001 },
		catalog.NotOpen:  func(e *queue.Entry) { e.Settings.OpensAtMs = 1_000_001 },
		catalog.Paused:   func(e *queue.Entry) { e.Paused, e.Settings.OpensAtMs = true, 1_000_001 },
		catalog.Closed:   func(e *queue.Entry) { e.Settings.ClosesAtMs, e.Paused = 1_000_000, true },
		catalog.Ended:    func(e *queue.Entry) { e.Closed, e.Ending, e.Paused = true, true, true },
		catalog.Deleting: func(e *queue.Entry) { e.Deleting, e.Closed, e.Ending = true, true, true },
	} {
		require.Equal(t, want, catalog.StateOf(entry(main, 1, 1, change), now))
		require.Contains(t, catalog.States(), want)
	}
	require.Equal(t, catalog.Closed, catalog.StateOf(entry(main, 1, 1, func(e *queue.Entry) { e.Closed = true }), now))
}

// What is shown of settings, told again, is the same settings.
func TestSettingsAreReadAsTheyAreShown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := queue.Settings{
			Rate:      rapid.Float64Range(1, 99).Draw(t, "rate"),
			Interval:  time.Duration(rapid.IntRange(10, 10_000).Draw(t, "interval")) * time.Millisecond,
			GrantTTL:  time.Duration(rapid.IntRange(1000, 86_400_000).Draw(t, "ttl")) * time.Millisecond,
			MaxActive: rapid.Int64Range(0, queue.MaxMaxActive).Draw(t, "active"),
			Reentry:   queue.Reentry(rapid.IntRange(0, 1).Draw(t, "reentry")), Order: queue.Order(rapid.IntRange(0, 1).Draw(t, "order")),
			OpensAtMs: rapid.Int64Range(1, 4_000_000_000_000).Draw(t, "opens"),
			AdmitTo:   rapid.SampledFrom([]string{"", "/a?b=c", "https://x.example/ü"}).Draw(t, "to"),
			Message:   rapid.SampledFrom([]string{"", "줄을 서\nplease", `"<&>"`}).Draw(t, "message"),
			Polling:   queue.DefaultPolling(),
		}
		s.ConservativeRate = rapid.Float64Range(0.5, s.Rate).Draw(t, "conservative")
		if rapid.Bool().Draw(t, "closes") {
			s.ClosesAtMs = s.OpensAtMs + rapid.Int64Range(1, 1e9).Draw(t, "after")
		}
		if rapid.Bool().Draw(t, "sizes") {
			s.Rounding = []queue.RoundStep{{Ahead: 100, To: 5}, {Ahead: 1 << 50, To: 1000}}
		}
		require.NoError(t, s.Validate())
		raw, err := json.Marshal(catalog.ShowSettings(s))
		require.NoError(t, err)
		got, mistakes := catalog.ReadSettings(raw, queue.Arrival)
		require.Empty(t, mistakes)
		require.True(t, s.Equal(got), "%s", raw)
	})
}

func TestSettingsThatAreLeftOut(t *testing.T) {
	for _, raw := range []string{"", "{}"} {
		s, mistakes := catalog.ReadSettings(jsontext.Value(raw), queue.Arrival)
		if raw == "" {
			s, mistakes = catalog.ReadSettings(nil, queue.Arrival)
		}
		require.Empty(t, mistakes)
		require.True(t, queue.DefaultSettings().Equal(s))
	}
	s, mistakes := catalog.ReadSettings(jsontext.Value(`{"rate":50,"opensAt":null}`), queue.Arrival)
	require.Empty(t, mistakes)
	require.Equal(t, 50.0, s.ConservativeRate, "nobody is told less than the wait")
}

func TestMistakesInSettings(t *testing.T) {
	for raw, want := range map[string][]string{
		`[]`:                                    {"settings is an object"},
		`null`:                                  {"settings is an object"},
		`{"rate":0}`:                            {"rate is 0.001 to 10000 people a second, not 0"},
		`{"rate":-1}`:                           {"rate is 0.001 to 10000 people a second, not -1"},
		`{"rate":1e12}`:                         {"rate is 0.001 to 10000 people a second, not 1e+12"},
		`{"rate":"NaN"}`:                        {`rate is a number of people a second, not "NaN"`},
		`{"rate":null}`:                         {`rate is a number of people a second, not null`},
		`{"rate":1e999}`:                        {`rate is a number of people a second, not 1e999`},
		`{"maxActive":1.5}`:                     {"maxActive is a whole number, not 1.5"},
		`{"maxActive":-1}`:                      {"max active is 1 to 10000000 admissions, or 0 for no limit, not -1"},
		`{"interval":100}`:                      {`interval is a duration as "100ms" or "5m", not 100`},
		`{"interval":"1h"}`:                     {"interval is 10ms to 10s, not 1h0m0s"},
		`{"interval":"10.5ms"}`:                 {`interval is a whole number of milliseconds, not "10.5ms"`},
		`{"grantTtl":"-5m"}`:                    {"grant TTL is 1s to 24h0m0s, not -5m0s"},
		`{"reentry":"forward"}`:                 {`reentry: the re-entry rule is back or keep, not "forward"`},
		`{"order":"draw"}`:                      {"opening order draw needs a time of opening: lots are drawn among those who entered before it"},
		`{"order":"draw","opensAt":"tomorrow"}`: {`opensAt is a time as "2026-11-30T10:00:00Z", or null, not "tomorrow"`},
		`{"opensAt":"2027-01-02T00:00:00Z","closesAt":"2027-01-01T00:00:00Z"}`: {"closes at (2027-01-01T00:00:00Z) is after opens at (2027-01-02T00:00:00Z)"},
		`{"opensAt":"1960-01-01T00:00:00Z"}`:                                   {`opensAt is a time as "2026-11-30T10:00:00Z", or null, not "1960-01-01T00:00:00Z"`},
		`{"admitTo":"javascript:alert(1)"}`:                                    {`admit to is a URL with http or https, or a path that begins with one /, not "javascript:alert(1)"`},
		`{"message":7}`:                                                        {"message is a string, not 7"},
		`{"polling":[]}`:                                                       {"polling has 1 to 16 steps, not 0"},
		`{"polling":[{"position":5,"intervalMs":1000,"jitterMs":0}]}`:          {"polling: the last step is for everybody behind, so it has no position"},
		`{"polling":[{"position":null,"intervalMs":9223372036854775807}]}`:     {"polling: the interval of step 1 is 500ms to 10m0s, not 2562047h47m16.854s"},
		`{"polling":[{"positon":5}]}`:                                          {`polling is a list of {"position": a whole number or null, "intervalMs", "jitterMs"}, not [{"positon":5}]`},
		`{"approximateSizes":[{"ahead":5,"roundTo":0}]}`:                       {"sizes of the approximate mode: size 1 rounds up to a multiple of 1 to 100000, not 0"},
		`{"Rate":5,"rates":5}`:                                                 {`there is no setting "Rate"`, `there is no setting "rates"`},
		`{"rate":"x","interval":"y","maxActive":-1,"bogus":1,"message":"\u0007"}`: {
			`rate is a number of people a second, not "x"`, `interval is a duration as "100ms" or "5m", not "y"`, `there is no setting "bogus"`,
			"max active is 1 to 10000000 admissions, or 0 for no limit, not -1", "message has no control characters but line breaks"},
	} {
		_, got := catalog.ReadSettings(jsontext.Value(raw), queue.Arrival)
		require.Equal(t, want, got, raw)
	}
}
