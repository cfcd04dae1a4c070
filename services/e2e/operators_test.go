package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/linelog/embedded"
	"github.com/soonbeon/soonbeon/pkg/queue"
	fold "github.com/soonbeon/soonbeon/services/e2e/book"
	"github.com/soonbeon/soonbeon/services/load"
)

// The credentials of these tests' rooms.
const (
	operatorSecret = "an-operator-of-the-acceptance-tests"
	siteSecret     = "the-site-of-the-acceptance-tests-01"
)

// obeyed is how soon every process does what an operator was told is done.
const obeyed = 2 * time.Second

// venue is a waiting room with operators and a site, wherever its parts run.
type venue struct {
	enter, position []string // http://host:port
	admin           string   // host:port of a private port
	keys            string
	mark            string // what the names of its queues end with: the servers may be somebody's
	brokers         func() (addrs []string, done func())
	reach           []string // flags of the commands that look at the log
}

// embeddedVenue is one process with its log in a folder; its log is read once it was stopped.
func embeddedVenue(t testing.TB, args ...string) (*venue, *soonbeon) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	room := start(t, "standalone", "standalone", nil, append([]string{"--data", data,
		"--operators", "noor:" + operatorSecret, "--sites", "shop:" + siteSecret}, args...)...)
	return &venue{
		enter: []string{room.public}, position: []string{room.public}, admin: strings.TrimPrefix(room.private, "http://"), keys: keysOf(t, data),
		reach: []string{"--data", data},
		brokers: func() ([]string, func()) {
			broker, err := embedded.Start(data+"/log", embedded.Options{})
			require.NoError(t, err)
			return broker.Addrs(), func() { require.NoError(t, broker.Close()) }
		},
	}, room
}

// venueOf is a deployment on real servers, which was started with credentials.
func venueOf(d *deployment) *venue {
	return &venue{
		enter: addresses(d.enter), position: addresses(d.position), admin: strings.TrimPrefix(d.enter[0].private, "http://"), keys: d.keys,
		mark:    strings.TrimPrefix(string(d.id), "e2e"),
		reach:   []string{"--kafka", strings.Join(d.kafka.Addrs(), ","), "--redis", d.redis.Addr()},
		brokers: func() ([]string, func()) { return d.kafka.Addrs(), func() {} },
	}
}

// credentials are the flags of processes whose venue it is.
var credentials = []string{"--operators", "noor:" + operatorSecret, "--sites", "shop:" + siteSecret}

func (v *venue) id(name string) queue.ID { return queue.ID(name + v.mark) }

// tries runs `soonbeon queue args…`.
func (v *venue) tries(t testing.TB, args ...string) result {
	t.Helper()
	return run(t, []string{"SOONBEON_OPERATOR_TOKEN=" + operatorSecret}, append(append([]string{"queue"}, args...), "--admin", v.admin)...)
}

// queue runs `soonbeon queue args…`, which has to succeed, and returns what it prints and the moment when it said so.
func (v *venue) queue(t testing.TB, args ...string) (out string, answered time.Time) {
	t.Helper()
	r := v.tries(t, args...)
	require.Zero(t, r.code, "soonbeon queue %v: %+v", args, r)
	return r.out, time.Now()
}

// create makes a queue and waits until every node knows of it.
func (v *venue) create(t testing.TB, id queue.ID, args ...string) {
	t.Helper()
	_, answered := v.queue(t, append([]string{"create", string(id)}, args...)...)
	for _, at := range v.enter {
		until(t, 5*time.Second, at+" takes people into "+string(id), func() bool {
			return ask(t, http.MethodPost, at+"/queue/leave", `{"queue":"`+string(id)+`"}`, asJSON).status == http.StatusUnauthorized
		})
	}
	for _, at := range v.position {
		until(t, 5*time.Second, at+" tells places in "+string(id), func() bool {
			return ask(t, http.MethodGet, at+"/queue/position?queue="+string(id), "").status == http.StatusUnauthorized
		})
	}
	require.Less(t, time.Since(answered), 2*obeyed, "until every node knows of %s", id)
}

// told is an answer about a place or a draw, with whatever a queue's settings add to it. What may be left out is a pointer.
type told struct {
	reply
	State      string       `json:"state"`
	Reason     string       `json:"reason"`
	Position   *int64       `json:"position"`
	Total      *int64       `json:"total"`
	Number     queue.Ticket `json:"number"`
	ETA        *int64       `json:"etaSeconds"`
	OpensIn    *int64       `json:"opensInSeconds"`
	Paused     bool         `json:"paused"`
	Message    string       `json:"message"`
	Order      string       `json:"order"`
	Commitment string       `json:"commitment"`
	Seed       string       `json:"seed"`
	First      queue.Ticket `json:"first"`
	Last       queue.Ticket `json:"last"`
}

func readTold(t testing.TB, r reply) told {
	t.Helper()
	x := told{}
	require.NoError(t, json.Unmarshal([]byte(r.body), &x), r.body)
	x.reply = r
	return x
}

func (v *venue) enters(t testing.TB, id queue.ID, header ...string) reply {
	t.Helper()
	return ask(t, http.MethodPost, v.enter[0]+"/queue/enter", `{"queue":"`+string(id)+`"}`, append(header, asJSON)...)
}

func (v *venue) place(t testing.TB, id queue.ID, receipt string) told {
	t.Helper()
	return readTold(t, ask(t, http.MethodGet, v.position[0]+"/queue/position?queue="+string(id), "", "Authorization: Bearer "+receipt))
}

func (v *venue) lots(t testing.TB, id queue.ID) told {
	t.Helper()
	return readTold(t, ask(t, http.MethodGet, v.position[0]+"/queue/draw?queue="+string(id), ""))
}

// complete is the site's word that a person is done.
func (v *venue) complete(t testing.TB, id queue.ID, token string) reply {
	t.Helper()
	body, err := json.Marshal(map[string]string{"queue": string(id), "token": token})
	require.NoError(t, err)
	return ask(t, http.MethodPost, v.enter[0]+"/queue/complete", string(body), asJSON, "Authorization: Bearer "+siteSecret)
}

// crowd is one for a queue of the venue.
func (v *venue) crowd(id queue.ID, visitors int) load.Config {
	return load.Config{Enter: v.enter, Position: v.position, Target: v.position, Queue: string(id), Visitors: visitors, Keys: v.keys, Timeout: 3 * time.Minute}
}

// records reads a queue's log to its end.
func (v *venue) records(t testing.TB, id queue.ID) []queue.Record {
	t.Helper()
	addrs, done := v.brokers()
	defer done()
	log, err := linelog.Open(linelog.Config{Brokers: addrs}, zap.NewNop(), nil)
	require.NoError(t, err)
	defer log.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	recs, err := fold.Read(ctx, log, id)
	require.NoError(t, err)
	return recs
}

// proof is the part of `soonbeon audit --json` that is looked at here.
type proof struct {
	OK       bool `json:"ok"`
	Lost     int64
	Twice    int64
	Admitted int64
	Draw     *struct {
		Seed         string
		People       int64
		CommitmentOK *bool `json:"commitmentOk"`
	}
	Ends     []struct{ Why string }
	Active   struct{ Highest, Limit int64 }
	Redis    *struct{ Compared, Differences int64 }
	Findings []struct {
		Kind  string
		Wrong bool
	}
}

// audited runs `soonbeon audit` on a queue, which has to find nothing wrong.
func (v *venue) audited(t testing.TB, id queue.ID, args ...string) proof {
	t.Helper()
	r := run(t, nil, append(append([]string{"audit", "--json", "--queue", string(id)}, v.reach...), args...)...)
	require.Zero(t, r.code, "the audit of %s: %+v", id, r)
	require.NotContains(t, r.errOut, "what was set when is not known")
	var p proof
	require.NoError(t, json.Unmarshal([]byte(r.out), &p), r.out)
	require.True(t, p.OK, r.out)
	for _, f := range p.Findings {
		require.False(t, f.Wrong, "%s: %s", id, f.Kind)
	}
	require.Zero(t, p.Lost+p.Twice)
	return p
}

// metricOf is one queue's series of a metric, summed over processes.
func metricOf(name string, id queue.ID, processes ...*soonbeon) float64 {
	sum := 0.0
	for _, p := range processes {
		sum += p.series(name, `queue="`+string(id)+`"`)
	}
	return sum
}

// window is how many people were let in from one moment to another, by the log.
func window(b *fold.Book, from, to time.Time) (people int) {
	for _, x := range b.Batches {
		if x.AtMs >= from.UnixMilli() && x.AtMs < to.UnixMilli() {
			people += x.People
		}
	}
	return people
}

// silence is the longest time without an admission between two moments, by the log, the edges included.
func silence(b *fold.Book, from, to time.Time) time.Duration {
	last, longest := from.UnixMilli(), int64(0)
	for _, x := range b.Batches {
		if x.AtMs < from.UnixMilli() {
			continue
		}
		if x.AtMs > to.UnixMilli() {
			break
		}
		longest, last = max(longest, x.AtMs-last), x.AtMs
	}
	return time.Duration(max(longest, to.UnixMilli()-last)) * time.Millisecond
}

// folded is a queue's log as a book; it fails the test where the log holds what none may.
func folded(t testing.TB, recs []queue.Record) *fold.Book {
	t.Helper()
	b, err := fold.Of(recs)
	require.NoError(t, err)
	return b
}
