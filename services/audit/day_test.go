package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/catalog"
)

// naiveNumber is the draw once more, from its description alone: a network of eight rounds on (x mod a, x div a), whose
// function is the first eight bytes of SHA-256(seed ‖ round ‖ half), walked until it falls into the range.
func naiveNumber(seed queue.Seed, from, at, t queue.Ticket) queue.Ticket {
	if t <= from || t > at {
		return t
	}
	n := big.NewInt(int64(at - from))
	a := new(big.Int).Sqrt(n)
	if new(big.Int).Mul(a, a).Cmp(n) < 0 {
		a.Add(a, big.NewInt(1))
	}
	b := new(big.Int).Div(new(big.Int).Sub(new(big.Int).Add(n, a), big.NewInt(1)), a)
	f := func(round byte, half *big.Int) *big.Int {
		text := append(seed[:len(seed):len(seed)], round)
		sum := sha256.Sum256(binary.BigEndian.AppendUint64(text, half.Uint64()))
		return new(big.Int).SetBytes(sum[:8])
	}
	x := big.NewInt(int64(t - from - 1))
	for {
		left, right := new(big.Int).Mod(x, a), new(big.Int).Div(x, a)
		for round := range byte(8) {
			if round%2 == 0 {
				left.Mod(left.Add(left, f(round, right)), a)
			} else {
				right.Mod(right.Add(right, f(round, left)), b)
			}
		}
		x = new(big.Int).Add(new(big.Int).Mul(right, a), left)
		if x.Cmp(n) < 0 {
			return from + 1 + queue.Ticket(x.Int64())
		}
	}
}

func seedOf(n byte) (s queue.Seed) {
	for i := range s {
		s[i] = n + byte(i)
	}
	return s
}

// What the audit orders people by is what the description of the draw says, and a permutation.
func TestTheDrawIsAsDescribed(t *testing.T) {
	rnd := rand.New(rand.NewSource(1))
	for i := range 60 {
		n := queue.Ticket(i + 1)
		if i > 40 {
			n = queue.Ticket(1 + rnd.Intn(3000))
		}
		from := queue.Ticket(rnd.Intn(1000))
		d := queue.Draw{From: from, At: from + n, Seed: seedOf(byte(i))}
		seen := map[queue.Ticket]bool{}
		for ticket := from - 1; ticket <= from+n+2; ticket++ {
			want := naiveNumber(d.Seed, d.From, d.At, ticket)
			require.Equal(t, want, d.Number(ticket), "ticket %d of %d to %d", ticket, from+1, from+n)
			require.Equal(t, ticket, d.Ticket(want))
			require.False(t, seen[want])
			seen[want] = true
		}
	}
}

// lottery is a queue in which n people entered before the opening and others after it, all let in in the order that the naive
// draw gives.
func lottery(n int, seed queue.Seed) (w *written, epoch queue.Ticket) {
	w = write()
	epoch = w.claim("issuer-a", queue.ModeRedis)
	tickets := map[queue.Ticket]queue.Visitor{}
	for i := range n {
		v := fmt.Sprintf("early-%d", i)
		tickets[w.enter(v)] = v
	}
	w.wait(60_000)
	at := w.add(queue.Record{Kind: queue.Drawn, Epoch: epoch, Seed: seed})
	var people []queue.Person
	for ticket, v := range tickets {
		people = append(people, in(v, naiveNumber(seed, 0, at, ticket)))
	}
	for i := range n / 2 {
		v := fmt.Sprintf("late-%d", i)
		people = append(people, in(v, w.enter(v)))
	}
	slices.SortFunc(people, func(a, b queue.Person) int { return int(a.Ticket - b.Ticket) })
	for batch := range slices.Chunk(people, 17) {
		w.wait(100)
		w.admit(epoch, batch...)
	}
	return w, epoch
}

func TestALotteryIsClean(t *testing.T) {
	seed := seedOf(9)
	w, _ := lottery(1000, seed)
	r := w.audit(t, func(c *Config) { c.Rate, c.Commitment, c.Ticket = 175, queue.Commitment("main", seed), 500 })
	require.Empty(t, r.Findings, r.Text())
	require.Equal(t, Fates{Admitted: 1500}, r.Fates)
	require.EqualValues(t, 1002, r.Draw.Record)
	require.EqualValues(t, 1, r.Draw.First)
	require.EqualValues(t, 1002, r.Draw.Last)
	require.EqualValues(t, 1000, r.Draw.People)
	require.Equal(t, seed.String(), r.Draw.Seed)
	require.True(t, *r.Draw.CommitmentOK)
	require.EqualValues(t, 100, r.LongestPause.Ms, "the time before the opening is none")
	number := naiveNumber(seed, 0, 1002, 500)
	require.Equal(t, &Asked{Ticket: 500, Entry: true, Drew: true, Number: number, Fate: "admitted"}, r.Asked)
	require.Contains(t, r.Text(), fmt.Sprintf("ticket      500         drew number %d; its entry: admitted", number))
	require.Contains(t, r.Text(), "it is the one that was committed to")

	r = w.audit(t, func(c *Config) { c.Commitment = queue.Commitment("other", seed) })
	require.Equal(t, ExitWrong, r.ExitCode())
	require.EqualValues(t, 1002, r.Find(SeedDiffers).Examples[0].Ticket)
	require.Contains(t, r.Text(), "it is NOT the one that was committed to")
	require.Contains(t, w.audit(t).Text(), "give --commitment")

	var page bytes.Buffer
	require.NoError(t, r.WriteHTML(&page, "en"))
	text := wellFormed(t, page.Bytes())
	require.Contains(t, text, "lots drawn")
	require.Contains(t, text, seed.String())
	inKorean(t, Page{Report: r}, seed.String(), queue.Commitment("other", seed), queue.Commitment("main", seed))
	b, err := json.Marshal(r)
	require.NoError(t, err)
	require.Contains(t, string(b), `"commitmentOk":false`)
}

// Where the first entries are cut off, those who drew with them are let in on numbers that no entry in the log has.
func TestATrimmedLotteryCriesNoWolf(t *testing.T) {
	w, _ := lottery(1000, seedOf(9))
	w.recs = w.recs[700:]
	r := w.audit(t)
	require.True(t, r.OK(), r.Text())
	require.EqualValues(t, 1500, r.Admitted)
	require.Len(t, r.Findings, 1, r.Text())
	require.NotNil(t, r.Find(Trimmed))
}

// Who goes by tickets after a draw passes people.
func TestAdmissionsByTicketAfterADrawAreFound(t *testing.T) {
	seed := seedOf(9)
	w, epoch := lottery(0, seed)
	w.recs = w.recs[:1]
	var first queue.Ticket
	for i := range 20 {
		first = w.enter(fmt.Sprint("v", i))
	}
	at := w.add(queue.Record{Kind: queue.Drawn, Epoch: epoch, Seed: seed})
	number := naiveNumber(seed, 0, at, first)
	w.admit(epoch, in("v19", number))
	ahead := int64(0)
	for ticket := queue.Ticket(2); ticket < first; ticket++ {
		if naiveNumber(seed, 0, at, ticket) < number {
			ahead++
		}
	}
	require.Positive(t, ahead)
	r := w.audit(t)
	require.Equal(t, ahead, r.Find(Passed).Count, r.Text())
	require.Contains(t, r.Text(), fmt.Sprintf("admits number %d (ticket %d) while number ", number, first))

	w.recs = w.recs[:len(w.recs)-1]
	w.admit(epoch, in("v19", first)) // by the ticket
	r = w.audit(t)
	require.NotNil(t, r.Find(NotTheirs), r.Text())
}

func TestTheDayIsHeldAgainstWhatWasSet(t *testing.T) {
	release := func(v queue.Visitor, of queue.Ticket) queue.Record {
		return queue.Record{Kind: queue.Released, Visitor: v, Of: of}
	}
	short := func(v queue.Visitor, at queue.Ticket, w *written) queue.Person {
		return queue.Person{Visitor: v, Ticket: at, ExpiresMs: w.now + 1000}
	}
	for name, c := range map[string]struct {
		write func(*written) queue.Ticket // returns the record that is to blame; 0: nothing is found
		cfg   func(*Config)
		want  Kind
		count int64
		says  string
		note  bool
		also  func(*testing.T, *Report)
	}{
		"a line that was ended: nobody is lost": {
			write: func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				w.admit(e, in("ann", w.enter("ann")))
				w.enter("bob", "k")
				w.enter("cyd")
				w.wait(1000)
				w.add(queue.Record{Kind: queue.Ended, Epoch: e, Why: "sold_out"})
				w.enter("bob", "k") // a retransmission after the end holds no place either
				w.enter("dan")
				w.add(queue.Record{Kind: queue.Reopened, Epoch: e})
				w.admit(e, in("dan", w.enter("dan")))
				w.enter("eve")
				return 0
			},
			says: "line ended  2           sent away at 00:00:01.000, record 6 (offset 5), because of sold_out; 2 entries after it took no place, until it was reopened at 00:00:01.000",
			also: func(t *testing.T, r *Report) {
				require.Equal(t, Fates{Admitted: 2, Ended: 2, Refused: 2, Waiting: 1}, r.Fates)
				require.Zero(t, r.Lost)
				require.Equal(t, []End{{Record: 6, AtMs: day + 1000, Why: "sold_out", InLine: 2, Refused: 2, Reopened: 9, ReopenedMs: day + 1000}}, r.Ends)
			},
		},
		"let in who was sent away": {
			write: func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				ann := w.enter("ann")
				w.add(queue.Record{Kind: queue.Ended, Epoch: e, Why: "sold_out"})
				return w.admit(e, in("ann", ann))
			},
			want: AfterEnd, count: 1, says: "names ticket 2 of visitor " + Hash("ann") + ", who waited when record 3 ended the line",
			also: func(t *testing.T, r *Report) { require.Zero(t, r.Admitted); require.EqualValues(t, 1, r.Fates.Ended) },
		},
		"let in on an entry that took no place": {
			write: func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				w.add(queue.Record{Kind: queue.Ended, Epoch: e, Why: "sold_out"})
				return w.admit(e, in("ann", w.enter("ann")))
			},
			want: AfterEnd, count: 1, says: "on ticket 3, which took no place: record 2 had ended the line",
		},
		"a zombie draws, ends and reopens nothing": {
			write: func(w *written) queue.Ticket {
				old := w.claim("zombie", queue.ModeRedis)
				ann := w.enter("ann")
				e := w.claim("a", queue.ModeRedis)
				at := w.add(queue.Record{Kind: queue.Drawn, Epoch: old, Seed: seedOf(1)})
				w.add(queue.Record{Kind: queue.Ended, Epoch: old, Why: "sold_out"})
				w.add(queue.Record{Kind: queue.Reopened, Epoch: old})
				w.admit(e, in("ann", ann))
				return at
			},
			want: Void, count: 3, note: true, says: "drawn by zombie",
			also: func(t *testing.T, r *Report) {
				require.Nil(t, r.Draw)
				require.Empty(t, r.Ends)
				require.EqualValues(t, 3, r.VoidBy["zombie"])
			},
		},
		"let in before the lots were drawn": {
			write: func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				w.admit(e, in("ann", w.enter("ann")))
				w.enter("bob")
				return w.add(queue.Record{Kind: queue.Drawn, Epoch: e, Seed: seedOf(1)})
			},
			want: BeforeDraw, count: 1, says: "1 had been let in by their tickets",
			also: func(t *testing.T, r *Report) { require.EqualValues(t, 3, r.Draw.First, "ann's ticket 2 is done with") },
		},
		"a second draw": {
			write: func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				w.enter("ann")
				w.add(queue.Record{Kind: queue.Drawn, Epoch: e, Seed: seedOf(1)})
				return w.add(queue.Record{Kind: queue.Drawn, Epoch: e, Seed: seedOf(2)})
			},
			want: SecondDraw, count: 1, note: true, says: "after record 3 had",
			also: func(t *testing.T, r *Report) { require.Equal(t, seedOf(1).String(), r.Draw.Seed) },
		},
		"a draw that was written twice": {
			write: func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				w.add(queue.Record{Kind: queue.Drawn, Epoch: e, Seed: seedOf(1)})
				return w.add(queue.Record{Kind: queue.Drawn, Epoch: e, Seed: seedOf(1)})
			},
			want: Repeated, count: 1, note: true, says: "draws the lots again that record 2 had drawn",
		},
		"more than the capacity": {
			write: func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				w.admit(e, in("ann", w.enter("ann")), in("bob", w.enter("bob")))
				return w.admit(e, in("cyd", w.enter("cyd")))
			},
			cfg:  func(c *Config) { c.MaxActive = 2 },
			want: CapacityExceeded, count: 1, says: "makes it 3 admissions that hold at one time; at most 2 are to",
			also: func(t *testing.T, r *Report) {
				require.Equal(t, Active{Highest: 3, AtMs: day, Record: 6, Limit: 2}, r.Active)
				require.Contains(t, r.Text(), "active      3 ")
			},
		},
		"who was released gives room at once": {
			write: func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				ann := w.enter("ann")
				w.admit(e, in("ann", ann), in("bob", w.enter("bob")))
				w.add(release("ann", ann))
				w.add(release("ann", ann))
				w.admit(e, in("cyd", w.enter("cyd")))
				return 0
			},
			cfg:  func(c *Config) { c.MaxActive = 2 },
			says: "(at most 2 are to)",
		},
		"another's release gives no room": {
			write: func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				ann := w.enter("ann")
				bob := w.enter("bob")
				w.admit(e, in("ann", ann), in("bob", bob))
				w.add(release("ann", bob))
				return w.admit(e, in("cyd", w.enter("cyd")))
			},
			cfg:  func(c *Config) { c.MaxActive = 2 },
			want: CapacityExceeded, count: 1, says: "makes it 3",
		},
		"an end gives room once no gate lets anybody in by it": {
			write: func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				w.admit(e, short("ann", w.enter("ann"), w))
				w.wait(30_999)
				at := w.admit(e, short("bob", w.enter("bob"), w))
				w.wait(31_000)
				w.admit(e, short("cyd", w.enter("cyd"), w))
				return at
			},
			cfg:  func(c *Config) { c.MaxActive = 1 },
			want: CapacityExceeded, count: 1, says: "makes it 2 admissions",
		},
		"a capacity that was lowered later sends nobody out": {
			write: func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				w.admit(e, in("ann", w.enter("ann")), in("bob", w.enter("bob")))
				w.wait(20_000) // lowered to 1 after ten seconds
				return w.admit(e, in("dan", w.enter("dan")))
			},
			cfg: func(c *Config) {
				c.Periods = []Period{{FromMs: day, Rate: 10, Interval: 100 * time.Millisecond, MaxActive: 2},
					{FromMs: day + 10_000, Rate: 10, Interval: 100 * time.Millisecond, MaxActive: 1}}
			},
			want: CapacityExceeded, count: 1, says: "makes it 3 admissions that hold at one time; at most 1 are to",
		},
		"a rate that was changed": {
			write: func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				twenty := func() queue.Ticket {
					var people []queue.Person
					for range 20 {
						v := fmt.Sprint(len(w.recs))
						people = append(people, in(v, w.enter(v)))
					}
					return w.admit(e, people...)
				}
				twenty() // 100 a second are set
				w.wait(13_000)
				twenty() // lowered three seconds ago: not obeyed yet
				w.wait(10_000)
				return twenty()
			},
			cfg: func(c *Config) {
				c.Periods = []Period{{FromMs: day, Rate: 100, Interval: 100 * time.Millisecond}, {FromMs: day + 10_000, Rate: 10, Interval: 100 * time.Millisecond}}
			},
			want: RateExceeded, count: 1, says: "makes it 20 people within the second from 00:00:23.000; at most 11 are let in (10 a second and one batch)",
			also: func(t *testing.T, r *Report) {
				require.EqualValues(t, 110, r.Rate.Limit)
				require.InDelta(t, 100, r.Rate.Expected, 0)
			},
		},
		"a rate that was raised by somebody whose clock is ahead": {
			write: func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				var people []queue.Person
				for i := range 20 {
					v := fmt.Sprint(i)
					people = append(people, in(v, w.enter(v)))
				}
				w.admit(e, people...)
				return 0
			},
			cfg: func(c *Config) {
				c.Periods = []Period{{FromMs: day - 60_000, Rate: 10, Interval: 100 * time.Millisecond}, {FromMs: day + 3000, Rate: 100, Interval: 100 * time.Millisecond}}
			},
			says: "(at most 110 are let in at 100/s)",
		},
		"let in while it was paused": {
			write: func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				w.admit(e, in("ann", w.enter("ann")))
				w.wait(20_000)
				return w.admit(e, in("bob", w.enter("bob")))
			},
			cfg: func(c *Config) {
				c.Periods = []Period{{Rate: 10, Interval: 100 * time.Millisecond}, {FromMs: day + 10_000, Rate: 10, Interval: 100 * time.Millisecond, Paused: true}}
			},
			want: NotOpen, count: 1, says: "lets in 1 visitor",
		},
		"let in before it opened": {
			write: func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				at := w.admit(e, in("ann", w.enter("ann")))
				w.wait(60_000)
				w.admit(e, in("bob", w.enter("bob")))
				return at
			},
			cfg:  func(c *Config) { c.Periods = []Period{{OpensAtMs: day + 60_000}} },
			want: NotOpen, count: 1, says: "lets in 1 visitor",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := write()
			at := c.write(w)
			r := w.audit(t, func(cfg *Config) {
				if c.cfg != nil {
					c.cfg(cfg)
				}
			})
			require.Contains(t, r.Text(), c.says)
			if at == 0 {
				require.Empty(t, r.Findings, r.Text())
			} else {
				require.Len(t, r.Findings, 1, r.Text())
				f := r.Find(c.want)
				require.NotNil(t, f, r.Text())
				require.Equal(t, c.count, f.Count, r.Text())
				require.Equal(t, at, f.Examples[0].Ticket, r.Text())
				require.Equal(t, c.note, r.OK())
				require.NotEmpty(t, f.Means)
				require.NotEmpty(t, f.Do)
			}
			if c.also != nil {
				c.also(t, r)
			}
		})
	}
}

// The record of changes is what the catalogue writes it: its own documents are read here.
func TestHistoryIsReadFromTheChanges(t *testing.T) {
	e := queue.Entry{ID: "main", Settings: queue.DefaultSettings(), Commitment: "abc"}
	show := func() string {
		b, err := json.Marshal(catalog.Show(&e, time.UnixMilli(day)))
		require.NoError(t, err)
		return string(b)
	}
	change := func(atMs int64, from, to string) queue.Change {
		return queue.Change{Who: "ann", AtMs: atMs, Queue: "main", Action: "set", From: from, To: to}
	}
	var changes []queue.Change
	add := func(c queue.Change) { changes = append([]queue.Change{c}, changes...) }
	add(change(1, "", `{"settings":{"rate":9,"interval":"1s"}}`)) // an earlier queue of the name
	add(change(2, `{}`, ""))
	made := show()
	add(change(day, "", made))
	e.Settings.Rate, e.Settings.Interval, e.Settings.MaxActive, e.Settings.OpensAtMs = 0.5, 250*time.Millisecond, 40, day+7
	set := show()
	add(change(day+1, made, set))
	e.Paused = true
	add(change(day+2, set, show()))

	want := []Period{{FromMs: day, Rate: 175, Interval: 100 * time.Millisecond},
		{FromMs: day + 1, Rate: 0.5, Interval: 250 * time.Millisecond, MaxActive: 40, OpensAtMs: day + 7},
		{FromMs: day + 2, Rate: 0.5, Interval: 250 * time.Millisecond, MaxActive: 40, OpensAtMs: day + 7, Paused: true}}
	periods, commitment, err := History(changes)
	require.NoError(t, err)
	require.Equal(t, want, periods)
	require.Equal(t, "abc", commitment)
	periods, _, err = History(changes[:4]) // what made it can't be seen any more
	require.NoError(t, err)
	require.Equal(t, want, periods)
	periods, commitment, err = History(nil)
	require.NoError(t, err)
	require.Empty(t, periods)
	require.Empty(t, commitment)

	for _, bad := range []string{`{`, `{}`, `{"settings":{"rate":1,"interval":"soon"}}`} {
		_, _, err = History([]queue.Change{change(day, made, bad)})
		require.ErrorContains(t, err, "the change set by ann, 00:00:00.000", bad)
	}
}
