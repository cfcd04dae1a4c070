package e2e

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/e2e/realservers"
)

// A day of three queues: gala opens by draw, hall holds so many at one time, sale is slowed, paused, and sold out. Some people do
// as they are told, some are never seen again.
func TestADay(t *testing.T) {
	t.Parallel()
	v, room := embeddedVenue(t)
	playADay(t, v, day{hallVisitors: 36, grantTTL: 300 * time.Second, close: func() { room.stop(t) }})
}

// The same by services of their own, on real servers; Redis dies before the draw, and is back, empty, after the sale.
func TestRealADay(t *testing.T) {
	redis := realservers.Redis(t)
	realservers.NeedOurs(t, redis)
	d := deploy(t, realservers.Kafka(t, 1), redis, 10, 1, credentials...)
	v := venueOf(d)
	playADay(t, v, day{
		hallVisitors: 60, grantTTL: 8 * time.Second, // more than complete: some get in when the grants of others end
		breaks: func() { require.NoError(t, redis.Kill()) },
		mends:  func() { require.NoError(t, redis.Restart(t.Context())) },
		close: func() {
			for _, name := range []string{"gala", "hall", "sale"} {
				_, view := viewOf(t, redis, v.id(name))
				agree(t, d.kafka.Addrs(), view, v.id(name))
			}
		},
	})
}

// day is what differs from one day to another.
type day struct {
	hallVisitors  int
	grantTTL      time.Duration // in the hall
	breaks, mends func()        // something dies in the middle, and comes back; may be nil
	close         func()        // after which the logs may be read
}

const (
	hallHolds = 20
	lastSeats = "The last seats are being counted; please wait."
)

func playADay(t *testing.T, v *venue, d day) {
	gala, hall, sale := v.id("gala"), v.id("hall"), v.id("sale")
	v.create(t, gala, "--order=draw", "--opens-at="+time.Now().Add(time.Hour).Format(time.RFC3339), "--rate=120")
	v.create(t, hall, "--rate=50", fmt.Sprintf("--max-active=%d", hallHolds), "--grant-ttl="+d.grantTTL.String())
	v.create(t, sale, "--rate=60")
	require.Equal(t, 1, v.tries(t, "create", string(sale)).code, "it is there already")

	// Everybody comes.
	committed := v.lots(t, gala)
	require.Equal(t, http.StatusOK, committed.status, committed.body)
	require.Len(t, committed.Commitment, 64)
	require.Empty(t, committed.Seed)
	early := send(t, v.crowd(gala, 300))
	var vanished []reply
	for range 12 {
		vanished = append(vanished, v.enters(t, gala))
	}
	heard := &hearsay{}
	w := newWitness()
	w.heard = heard.note
	buyers := sendWith(t, v.crowd(sale, 600), w)
	guests := send(t, v.crowd(hall, d.hallVisitors))
	site := openSite(t, v, hall, guests)
	until(t, 30*time.Second, "all are in line", func() bool {
		return early.arrived() == 300 && buyers.arrived() == 600 && guests.arrived() == d.hallVisitors
	})

	ownBuyer := v.enters(t, sale) // behind the crowd

	before := v.place(t, gala, vanished[0].Receipt)
	require.Equal(t, "waiting", before.State, before.body)
	require.Nil(t, before.Position, "nobody has a position before lots are drawn: %s", before.body)
	require.NotNil(t, before.OpensIn, before.body)
	require.InDelta(t, 3600, *before.OpensIn, 60, before.body)
	require.Equal(t, committed.Commitment, before.Commitment, before.body)

	if d.breaks != nil {
		d.breaks()
	}
	opens := time.Now().Add(3 * time.Second)
	v.queue(t, "set", string(gala), "--opens-at="+opens.UTC().Format(time.RFC3339Nano))

	// The sale is slowed, paused, and sold out.
	until(t, 30*time.Second, "the sale goes on", func() bool { return buyers.admitted() >= 60 })
	_, slowed := v.queue(t, "set", string(sale), "--rate=10")
	some := buyers.admitted()
	until(t, 60*time.Second, "and slowly", func() bool { return buyers.admitted() >= some+30 && time.Since(slowed) > obeyed+3*time.Second })
	_, paused := v.queue(t, "pause", string(sale), "--message="+lastSeats)
	var told told
	until(t, obeyed, "the pause shows", func() bool { told = v.place(t, sale, ownBuyer.Receipt); return told.Paused })
	require.Equal(t, lastSeats, told.Message, told.body)
	require.Nil(t, told.ETA, "how long it takes is not known: %s", told.body)
	until(t, 20*time.Second, "everybody asked again", func() bool { return heard.since(paused.Add(obeyed), "waiting") >= 600-buyers.admitted() })
	_, closed := v.queue(t, "close", string(sale), "--reason=sold_out", "--ending")
	until(t, obeyed, "entries are refused", func() bool { return v.enters(t, sale).status == http.StatusGone })
	late := v.enters(t, sale)
	require.Equal(t, "queue_closed", late.Code, late.body)
	require.Contains(t, late.body, "sold_out")
	until(t, 5*time.Second, "who waits is told", func() bool { told = v.place(t, sale, ownBuyer.Receipt); return told.State == "over" })
	require.Equal(t, "sold_out", told.Reason, told.body)
	select {
	case <-buyers.done:
	case <-time.After(20 * time.Second):
		require.Fail(t, "the buyers are not all told", "%d answers that say over", heard.since(closed, "over"))
	}
	sold := buyers.called(t)
	require.NotZero(t, sold.Ended)
	require.Equal(t, sold.Ended, sold.EndedBy["sold_out"])
	require.EqualValues(t, 600, sold.Admitted+sold.Ended)
	heard.judge(t, paused.Add(obeyed), closed, closed.Add(obeyed))

	// The draw, and who comes late.
	var draw queue.Draw
	until(t, 20*time.Second, "lots are drawn", func() bool { draw = drawOf(v.lots(t, gala)); return draw.At > 0 })
	require.False(t, time.Now().Before(opens))
	tardy := send(t, v.crowd(gala, 80))
	drew := early.held(t, time.Minute).Draw
	require.NotNil(t, drew)
	require.True(t, drew.Committed)
	require.EqualValues(t, 0, drew.Differs)
	tardy.held(t, time.Minute)
	require.Equal(t, committed.Commitment, queue.Commitment(gala, draw.Seed), "the seed is the one that was committed to")
	if d.mends != nil {
		d.mends()
	}
	guests.held(t, 2*time.Minute)
	site.shut(t)
	require.Equal(t, http.StatusOK, v.complete(t, hall, site.last).status, "completed twice is completed")
	require.Equal(t, "token_unknown", v.complete(t, hall, site.last+"x").Code)
	until(t, 20*time.Second, "who vanished was let in too", func() bool {
		return !slices.ContainsFunc(vanished, func(r reply) bool { return v.place(t, gala, r.Receipt).State != "admitted" })
	})

	changes, _ := v.queue(t, "changes", string(sale), "--json")
	require.Equal(t, []string{"close by noor", "pause by noor", "set by noor", "create by noor"}, deeds(t, changes))
	d.close()
	judgeDraw(t, v.records(t, gala), draw, early, tardy, vanished)
	capacity := holding(v.records(t, hall))
	require.Equal(t, hallHolds, capacity, "the most at one time: it was full, and never more than that")
	b := folded(t, v.records(t, sale))
	require.LessOrEqual(t, window(b, slowed.Add(obeyed), slowed.Add(obeyed+3*time.Second)), 3*10+2, "people in three seconds once it was slowed")
	require.Zero(t, window(b, paused.Add(obeyed), time.Now()), "people while it was paused and after it was closed")

	p := v.audited(t, gala)
	drawn := p.Draw.People
	require.EqualValues(t, 312, drawn)
	require.True(t, *p.Draw.CommitmentOK)
	require.Equal(t, draw.Seed.String(), p.Draw.Seed)
	require.EqualValues(t, 392, p.Admitted)
	p = v.audited(t, hall)
	require.EqualValues(t, hallHolds, p.Active.Highest)
	require.EqualValues(t, hallHolds, p.Active.Limit)
	p = v.audited(t, sale)
	require.Len(t, p.Ends, 1)
	require.Equal(t, "sold_out", p.Ends[0].Why)
	t.Logf("gala: %d drew lots, 80 came late; hall: %d guests, at most %d at one time, %d completed; sale: %d got in, %d were told that it is sold out",
		drawn, d.hallVisitors, capacity, site.completed, sold.Admitted, sold.Ended)
}

// deeds are a record of changes, in short.
func deeds(t testing.TB, body string) (all []string) {
	t.Helper()
	var said struct {
		Changes []struct{ Action, Who string }
	}
	require.NoError(t, json.Unmarshal([]byte(body), &said), body)
	for _, c := range said.Changes {
		all = append(all, c.Action+" by "+c.Who)
	}
	return all
}

// drawOf is the draw that a queue shows; the zero value before it was.
func drawOf(x told) (d queue.Draw) {
	seed, err := hex.DecodeString(x.Seed)
	if err != nil || len(seed) != queue.SeedBytes {
		return d
	}
	copy(d.Seed[:], seed)
	d.From, d.At = x.First-1, x.Last
	return d
}

// judgeDraw holds the log against the lots that were shown: who entered before the opening is let in by number, and whoever came
// late after them.
func judgeDraw(t testing.TB, recs []queue.Record, draw queue.Draw, early, tardy *crowd, vanished []reply) {
	t.Helper()
	b := folded(t, recs)
	require.Empty(t, b.Line, "people who still wait")
	var numbers, tickets []queue.Ticket
	for _, rec := range recs {
		for _, p := range rec.People {
			numbers, tickets = append(numbers, p.Ticket), append(tickets, draw.Ticket(p.Ticket))
		}
	}
	require.True(t, slices.IsSorted(numbers), "people are let in by number")
	require.False(t, slices.IsSorted(tickets), "lots that change nothing prove nothing")
	require.Len(t, slices.Compact(slices.Clone(numbers)), len(numbers), "a number that was let in twice")
	acks, _ := early.promised()
	for _, r := range vanished {
		acks = append(acks, ack{Visitor: r.Visitor, Ticket: r.Ticket})
	}
	for _, a := range acks {
		require.True(t, draw.Drawn(a.Ticket))
		require.Equal(t, a.Visitor, b.Admitted[draw.Number(a.Ticket)], "ticket %d", a.Ticket)
	}
	acks, _ = tardy.promised()
	for _, a := range acks {
		require.Greater(t, a.Ticket, draw.At)
		require.Equal(t, a.Visitor, b.Admitted[a.Ticket], "ticket %d, which came late", a.Ticket)
	}
}

// holding is the most admissions that held at one time, by a log: each until it was released, or until gates let nobody in by it
// any more.
func holding(recs []queue.Record) (most int) {
	type admission struct {
		visitor queue.Visitor
		endsMs  int64
	}
	held := map[queue.Ticket]admission{}
	var epoch, served queue.Ticket
	for _, rec := range recs {
		switch {
		case rec.Kind == queue.Claimed:
			epoch = rec.Ticket
		case rec.Kind == queue.Released && held[rec.Of].visitor == rec.Visitor:
			delete(held, rec.Of)
		case rec.Kind == queue.Admitted && rec.Epoch == epoch:
			for n, a := range held {
				if a.endsMs+pass.Leeway.Milliseconds() <= rec.AtMs {
					delete(held, n)
				}
			}
			for _, p := range rec.People {
				if p.Ticket > served {
					served, held[p.Ticket] = p.Ticket, admission{p.Visitor, p.ExpiresMs}
				}
			}
			most = max(most, len(held))
		}
	}
	return most
}

// hearsay is every answer about a place that a crowd got.
type hearsay struct {
	mu   sync.Mutex
	said []answered
}

type answered struct {
	sent time.Time // when it was asked
	told
}

func (h *hearsay) note(req *http.Request, sent time.Time, body []byte) {
	if !strings.HasSuffix(req.URL.Path, "/position") {
		return
	}
	a := answered{sent: sent}
	if json.Unmarshal(body, &a.told) != nil {
		return // the crowd says so itself
	}
	a.body = string(body)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said = append(h.said, a)
}

// since counts the answers of a state to who asked after a moment.
func (h *hearsay) since(at time.Time, state string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.said {
		if a.sent.After(at) && a.State == state {
			n++
		}
	}
	return n
}

// judge requires that whoever asked between paused and closed was told of the pause, and after ended that it is over.
func (h *hearsay) judge(t testing.TB, paused, closed, ended time.Time) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	pauses, ends := 0, 0
	for _, a := range h.said {
		switch {
		case a.State == "admitted":
		case a.sent.After(paused) && a.sent.Before(closed.Add(-time.Second)): // the close was under way
			require.True(t, a.Paused, a.body)
			require.Equal(t, lastSeats, a.Message, a.body)
			require.Nil(t, a.ETA, a.body)
			pauses++
		case a.sent.After(ended):
			require.Equal(t, "over", a.State, a.body)
			require.Equal(t, "sold_out", a.Reason, a.body)
			ends++
		}
	}
	require.NotZero(t, pauses)
	t.Logf("%d answers during the pause; %d to who asked %v or more after the end", pauses, ends, ended.Sub(closed).Round(time.Millisecond))
}

// site completes every other admission of a crowd: the others are of people who vanish.
type site struct {
	cancel    context.CancelFunc
	done      chan struct{}
	completed int
	failed    string
	last      string // token
}

func openSite(t testing.TB, v *venue, id queue.ID, c *crowd) *site {
	ctx, cancel := context.WithCancel(t.Context())
	s := &site{cancel: cancel, done: make(chan struct{})}
	t.Cleanup(func() { cancel(); <-s.done })
	go func() {
		defer close(s.done)
		seen := map[string]bool{}
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			_, tokens := c.promised()
			for _, token := range tokens {
				if seen[token] {
					continue
				}
				seen[token] = true
				if len(seen)%2 == 0 {
					continue
				}
				if err := s.complete(ctx, v.enter[0], id, token); err != nil {
					s.failed = err.Error()
					return
				}
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}()
	return s
}

func (s *site) complete(ctx context.Context, at string, id queue.ID, token string) error {
	body, err := json.Marshal(map[string]string{"queue": string(id), "token": token})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at+"/queue/complete", strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+siteSecret)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer res.Body.Close()
	if said, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK {
		return fmt.Errorf("completing is answered %d: %s", res.StatusCode, said)
	}
	s.completed++
	s.last = token
	return nil
}

// shut ends the site's work, and requires that all of it was taken.
func (s *site) shut(t testing.TB) {
	t.Helper()
	s.cancel()
	<-s.done
	require.Empty(t, s.failed)
	require.NotZero(t, s.completed)
}
