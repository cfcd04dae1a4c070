package standalone

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/lifecycle/lifecycletest"
	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/embedded"
	"github.com/soonbeon/soonbeon/pkg/linelog/linelogtest"
	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
	"github.com/soonbeon/soonbeon/pkg/redisline/redislinetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a slow machine may take for what should happen at once.
const patience = 40 * time.Second

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	t.Cleanup(cancel)
	return ctx
}

// started is a process that runs until the test ends, or is stopped before.
func started(t *testing.T, cfg Config, roles Roles) *Process {
	t.Helper()
	p, err := New(soon(t), cfg, roles, zap.NewNop())
	require.NoError(t, err)
	require.NoError(t, p.Start(soon(t)))
	t.Cleanup(func() { require.NoError(t, p.Stop(soon(t))) })
	return p
}

// answer is what any address answers.
type answer struct {
	http                                                    int
	Status, State, Receipt, Visitor, Token, Code, Precision string
	Ticket, Position                                        int64
}

func send(t *testing.T, method, url, bearer, body string) (a answer, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(soon(t), method, url, bytes.NewBufferString(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Close = true
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	_ = json.Unmarshal(b, &a)
	a.http = res.StatusCode
	return a, string(b)
}

// enterMain takes a place.
func enterMain(t *testing.T, p *Process) answer {
	t.Helper()
	a, text := send(t, "POST", "http://"+p.Public()+"/queue/enter", "", `{"queue":"main"}`)
	require.Equal(t, 202, a.http, text)
	return a
}

// admitted polls until it is that visitor's turn.
func admitted(t *testing.T, p *Process, receipt string) answer {
	t.Helper()
	var a answer
	require.Eventually(t, func() bool {
		a, _ = send(t, "GET", "http://"+p.Public()+"/queue/position?queue=main", receipt, "")
		return a.State == "admitted" || a.State == "over"
	}, patience, 20*time.Millisecond)
	require.Equal(t, "admitted", a.State)
	return a
}

func ready(t *testing.T, p *Process) {
	t.Helper()
	var text string
	require.Eventually(t, func() bool {
		var a answer
		a, text = send(t, "GET", "http://"+p.Private()+"/readyz", "", "")
		return a.http == 200
	}, patience, 20*time.Millisecond, "%s", &text)
}

// From an empty folder to a verified token; and everybody is where they were after a stop.
func TestTheNewcomersProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	cfg := embeddedConfig(dir)
	cfg.Rate = 0.001 // nobody's turn comes while this looks
	p := started(t, cfg, All)
	ready(t, p)
	first, second := enterMain(t, p), enterMain(t, p)
	require.Equal(t, os.FileMode(0o600), mode(t, filepath.Join(dir, "keys")))
	require.NoError(t, p.Follower("main").WaitFor(soon(t), queue.Ticket(second.Ticket)))
	require.NoError(t, p.Stop(soon(t)))

	p = started(t, cfg, All)
	a, text := send(t, "GET", "http://"+p.Public()+"/queue/position?queue=main", second.Receipt, "")
	require.Equal(t, "exact", a.Precision, text)
	require.EqualValues(t, second.Ticket, a.Ticket)
	require.NoError(t, p.Stop(soon(t)))

	cfg.Rate = 1000 // for queues that are made: the catalogue has this one
	p = started(t, cfg, All)
	ready(t, p)
	require.Equal(t, os.FileMode(0o600), mode(t, filepath.Join(dir, OperatorToken)))
	operator, err := os.ReadFile(filepath.Join(dir, OperatorToken))
	require.NoError(t, err)
	require.InDelta(t, 0.001, p.Queues()[0].Settings.Rate, 0)
	put, err := http.NewRequestWithContext(soon(t), "PUT", "http://"+p.Private()+"/admin/queues/main", bytes.NewBufferString(`{"settings":{"rate":1000}}`))
	require.NoError(t, err)
	put.Header.Set("Authorization", "Bearer "+string(bytes.TrimSpace(operator)))
	put.Header.Set("Content-Type", "application/json")
	put.Header.Set("If-Match", fmt.Sprintf("%q", fmt.Sprint(p.Queues()[0].Version)))
	put.Close = true
	res, err := http.DefaultClient.Do(put)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, 200, res.StatusCode)
	keys, err := os.ReadFile(filepath.Join(dir, "keys"))
	require.NoError(t, err)
	verify, err := pass.ParseKeys(string(bytes.TrimSpace(keys)))
	require.NoError(t, err)
	for _, who := range []answer{first, second} {
		e, err := verify.VerifyEntry(admitted(t, p, who.Receipt).Token, "main", time.Now())
		require.NoError(t, err)
		require.Equal(t, who.Visitor, e.Visitor)
		require.EqualValues(t, who.Ticket, e.Ticket)
	}
}

// Each service in a process of its own, two of each, on one log and one Redis.
func TestEachServiceByItself(t *testing.T) {
	redis := redislinetest.NewLink(t, redislinetest.Start(t))
	cfg := kafkaConfig(linelogtest.Start(t).Addrs()[0], redis.Addr())
	var enters, positions []*Process
	for range 2 {
		enters = append(enters, started(t, cfg, Roles{Enter: true}))
		positions = append(positions, started(t, cfg, Roles{Position: true}))
		ready(t, started(t, cfg, Roles{Projector: true}))
		ready(t, started(t, cfg, Roles{Issuer: true}))
	}
	keys, err := pass.ParseKeys(cfg.Keys)
	require.NoError(t, err)
	for i := range 6 {
		who := enterMain(t, enters[i%2])
		a := admitted(t, positions[i/2%2], who.Receipt)
		e, err := keys.VerifyEntry(a.Token, "main", time.Now())
		require.NoError(t, err)
		require.EqualValues(t, who.Ticket, e.Ticket)
	}
	// Each has its own addresses only.
	for url, want := range map[string]int{enters[0].Public() + "/queue/position?queue=main": 404, positions[0].Public() + "/queue/enter": 404,
		enters[0].Private() + "/metrics": 200, enters[0].Public() + "/metrics": 404} {
		a, text := send(t, "GET", "http://"+url, "", "")
		require.Equal(t, want, a.http, "%s: %s", url, text)
	}
}

func TestKeepsTheContractOfAService(t *testing.T) {
	lifecycletest.Stress(t, func(t *testing.T) lifecycle.Service {
		p, err := New(soon(t), embeddedConfig(t.TempDir()), All, zap.NewNop())
		require.NoError(t, err)
		return p
	})
}

// What runs does not notice.
func TestASecondStartClosesNothing(t *testing.T) {
	p := started(t, embeddedConfig(t.TempDir()), All)
	require.ErrorIs(t, p.Start(soon(t)), lifecycle.ErrStarted)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, p.Start(over))
	admitted(t, p, enterMain(t, p).Receipt)
}

// Whatever a start fails by, nothing is left behind: the folder, the ports and what was opened are free again at once.
func TestAFailedStartLeavesNothingBehind(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	for name, tc := range map[string]struct {
		breaks func(t *testing.T, c *Config)
		says   string
		mends  func(t *testing.T, c *Config)
	}{
		"the public port is taken": {
			func(_ *testing.T, c *Config) { c.Listen = taken.Addr().String() }, "--listen",
			func(_ *testing.T, c *Config) { c.Listen = "127.0.0.1:0" },
		},
		"the private port is taken": {
			func(_ *testing.T, c *Config) { c.Admin = taken.Addr().String() }, "--admin",
			func(_ *testing.T, c *Config) { c.Admin = "127.0.0.1:0" },
		},
		"the keys can't be read": {
			func(t *testing.T, c *Config) {
				require.NoError(t, openData(c.Data))
				require.NoError(t, os.WriteFile(filepath.Join(c.Data, "keys"), []byte("k1:short\n"), 0o600))
			}, "the keys in the data folder",
			func(t *testing.T, c *Config) { require.NoError(t, os.Remove(filepath.Join(c.Data, "keys"))) },
		},
		"Redis may evict": {
			func(t *testing.T, c *Config) {
				c.Redis = []string{redislinetest.NewLink(t, redislinetest.Start(t, "--maxmemory-policy", "allkeys-lru")).Addr()}
			}, redisline.ErrEviction.Error(),
			func(_ *testing.T, c *Config) { c.Redis = nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := embeddedConfig(t.TempDir())
			tc.breaks(t, &cfg)
			before := goleak.IgnoreCurrent()
			p, err := New(soon(t), cfg, All, zap.NewNop())
			if err == nil {
				err = p.Start(soon(t))
			}
			require.ErrorContains(t, err, tc.says)
			goleak.VerifyNone(t, before)
			tc.mends(t, &cfg)
			p = started(t, cfg, All)
			enterMain(t, p)
		})
	}
}

func TestFault14_TheSecondProcessOnAFolderIsRefused(t *testing.T) {
	cfg := embeddedConfig(t.TempDir())
	p := started(t, cfg, All)
	_, err := New(soon(t), cfg, All, zap.NewNop())
	require.ErrorIs(t, err, embedded.ErrInUse)
	enterMain(t, p)
}

func TestMistakesTouchNothing(t *testing.T) {
	cfg := embeddedConfig(filepath.Join(t.TempDir(), "data"))
	cfg.Rate, cfg.Listen = 0, "nowhere"
	_, err := New(soon(t), cfg, All, zap.NewNop())
	require.Equal(t, []string{"queue settings", "--listen"}, settingsOf(err))
	require.NoDirExists(t, cfg.Data)
}

func TestProductionRefusesWhatLosesRecords(t *testing.T) {
	cfg := kafkaConfig(linelogtest.Start(t).Addrs()[0])
	cfg.Production = true
	p, err := New(soon(t), cfg, Roles{Enter: true}, zap.NewNop())
	require.NoError(t, err)
	err = p.Start(soon(t))
	var setting *linelog.SettingError
	require.ErrorAs(t, err, &setting)
	for _, s := range []string{"replication factor", "min.insync.replicas"} {
		require.ErrorContains(t, err, s, "all of them in one go")
	}
	cfg.Production = false
	started(t, cfg, Roles{Enter: true})
}

// A topic that is not fit is told at once, and not after the patience for brokers that don't answer yet.
func TestATopicThatIsNotFitIsRefusedAtOnce(t *testing.T) {
	broker := linelogtest.Start(t)
	broker.Create("main", 2, map[string]string{"message.timestamp.type": "CreateTime"})
	began := time.Now()
	p, err := New(soon(t), kafkaConfig(broker.Addrs()[0]), Roles{Enter: true}, zap.NewNop())
	require.NoError(t, err)
	err = p.Start(soon(t))
	require.Less(t, time.Since(began), patience/2)
	require.ErrorContains(t, err, "partitions is 2")
	require.ErrorContains(t, err, "message.timestamp.type")
}

func TestFault12_ALogInTroubleIsToldAtOnce(t *testing.T) {
	broker := linelogtest.Start(t)
	cfg := kafkaConfig(broker.Addrs()[0])
	cfg.StartTimeout = time.Hour
	require.NoError(t, started(t, cfg, Roles{Enter: true}).Stop(soon(t)))
	broker.AppendMany("main", 10, func(int) queue.Record { return queue.Record{Kind: queue.Entered, Visitor: "v"} })
	broker.Trim("main", 5)
	p, err := New(soon(t), cfg, Roles{Enter: true}, zap.NewNop())
	require.NoError(t, err)
	began := time.Now()
	var trouble *linelog.TroubleError
	require.ErrorAs(t, p.Start(soon(t)), &trouble)
	require.Less(t, time.Since(began), patience/2)
	require.Equal(t, linelog.Trimmed, trouble.Kind)
}

func TestKafkaAwayIsToldWithinTheStartTimeout(t *testing.T) {
	cfg := kafkaConfig("127.0.0.1:1")
	cfg.StartTimeout = 300 * time.Millisecond
	_, err := New(soon(t), cfg, Roles{Enter: true}, zap.NewNop())
	require.ErrorContains(t, err, "can't be had within 300ms")
}

// Whoever answers requests stays ready while Redis is away, also where it projects as well: else a balancer would take all
// processes away at the moment when they are wanted most.
func TestFault26_ReadyWithoutRedis(t *testing.T) {
	broker := linelogtest.Start(t)
	p := started(t, kafkaConfig(broker.Addrs()[0], "127.0.0.1:1"), All)
	enterMain(t, p)
	away := `soonbeon_projector_failures_total{queue="main"} `
	require.Eventually(t, func() bool { // the projector has found out
		_, text := send(t, "GET", "http://"+p.Private()+"/metrics", "", "")
		return strings.Contains(text, away)
	}, patience, 20*time.Millisecond)
	a, text := send(t, "GET", "http://"+p.Private()+"/readyz", "", "")
	require.Equal(t, 200, a.http, text)
	broker.Away() // and without Kafka: positions are told as far as they are known
	a, text = send(t, "GET", "http://"+p.Private()+"/readyz", "", "")
	require.Equal(t, 200, a.http, text)
	broker.Back()
}

// Redis is only a view: a process starts without it, takes people in, and tells them what it can.
func TestFault26_StartsWithoutRedis(t *testing.T) {
	cfg := kafkaConfig(linelogtest.Start(t).Addrs()[0], "127.0.0.1:1")
	cfg.Rate = 0.001
	p := started(t, cfg, Roles{Enter: true, Position: true})
	enterMain(t, p)
	a, text := send(t, "GET", "http://"+p.Public()+"/queue/position?queue=main", enterMain(t, p).Receipt, "")
	require.Equal(t, "approximate", a.Precision, text)
	require.EqualValues(t, 2, a.Position)
}
