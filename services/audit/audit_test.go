package audit

import (
	"context"
	"encoding/json"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/line/linetest"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

func TestACleanSaleIsClean(t *testing.T) {
	w := sale(2000)
	r := w.audit(t, func(c *Config) { c.Rate = 175 })
	require.True(t, r.OK(), r.Text())
	require.Empty(t, r.Findings, r.Text())
	require.Equal(t, Fates{Admitted: 1960, MovedBack: 40, Retransmitted: 40, Left: 40}, r.Fates)
	require.EqualValues(t, 2080, r.Accepted)
	require.EqualValues(t, 2000, r.Visitors)
	require.EqualValues(t, 1960, r.Admitted)
	require.Zero(t, r.Lost)
	require.Zero(t, r.Twice)
	require.True(t, r.OrderKept)
	require.EqualValues(t, 193, r.Rate.Limit)
	require.EqualValues(t, 175, r.Rate.HighestSecond)
	require.EqualValues(t, 2600, r.LongestPause.Ms)
	require.Len(t, r.Claims, 3)
	require.EqualValues(t, 2, r.ModeChanges)
	require.Len(t, r.Outages, 1)
	require.EqualValues(t, 2600, r.Outages[0].LongestPauseMs)
	require.EqualValues(t, 40*100, r.Outages[0].Took())
	require.EqualValues(t, 700, r.Outages[0].Admitted)
	require.Contains(t, r.Text(), "held        everything: 2,080 accepted · 1,960 admitted · 0 lost · 0 twice · order kept · at most 175 in any second")
}

// TestFaultsAreFound has a log with each fault, written by hand: what is found, at which record, and whether it is wrong.
func TestFaultsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		write func(*written) queue.Ticket // returns the record that is to blame
		want  []Kind
		says  string
		also  func(*testing.T, *Report)
	}{
		"somebody is passed": {
			func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				w.enter("ann")
				bob := w.enter("bob")
				return w.admit(e, in("bob", bob))
			}, []Kind{Passed}, "admits ticket 3 while ticket 2 of visitor " + Hash("ann") + " waits",
			func(t *testing.T, r *Report) { require.EqualValues(t, 1, r.Lost); require.False(t, r.OrderKept) },
		},
		"out of order, in one record": {
			func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				ann, bob := w.enter("ann"), w.enter("bob")
				return w.admit(e, in("bob", bob), in("ann", ann))
			}, []Kind{Passed, OutOfOrder}, "names ticket 2 of visitor " + Hash("ann") + " after ticket 3 had been admitted",
			func(t *testing.T, r *Report) {
				require.EqualValues(t, 1, r.OutOfOrder)
				require.EqualValues(t, 1, r.Waiting)
			},
		},
		"in twice: the entry was absorbed by the admission before": {
			func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				first := w.enter("ann")
				second := w.enter("ann")
				w.admit(e, in("ann", first))
				return w.admit(e, in("ann", second))
			}, []Kind{Twice}, "whose entry the admission in record 4 (ticket 2) had settled",
			func(t *testing.T, r *Report) { require.EqualValues(t, 1, r.Twice) },
		},
		"on another's ticket": {
			func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				ann := w.enter("ann")
				return w.admit(e, in("bob", ann))
			}, []Kind{NotTheirs}, "which is another's entry", nil,
		},
		"on a ticket that is no entry": {
			func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				return w.admit(e, in("bob", e))
			}, []Kind{NotTheirs}, "is nobody's entry", nil,
		},
		"on the ticket of a retransmission": {
			func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				w.enter("ann", "k")
				return w.admit(e, in("ann", w.enter("ann", "k")))
			}, []Kind{Passed, NotTheirs}, "did not count", nil,
		},
		"the rate": {
			func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				var people []queue.Person
				for i := range 23 {
					v := string(rune('a' + i))
					people = append(people, in(v, w.enter(v)))
				}
				w.admit(e, people[:11]...) // 10 a second and a batch of one are allowed
				w.wait(999)
				to := w.admit(e, people[11])
				w.wait(1)
				w.admit(e, people[12:22]...)
				w.wait(999)
				w.admit(e, people[22])
				return to
			}, []Kind{RateExceeded}, "makes it 12 people within the second from 00:00:00.000; at most 11",
			func(t *testing.T, r *Report) {
				require.EqualValues(t, 1, r.Find(RateExceeded).Count)
				require.EqualValues(t, 12, r.Rate.HighestSecond)
			},
		},
		"a checkpoint": {
			func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				w.admit(e, in("ann", w.enter("ann")))
				return w.add(queue.Record{Kind: queue.Checkpoint, Epoch: e, Served: 1})
			}, []Kind{CheckpointDiffers}, "a wrote that ticket 1 was served; by the records before it, it was 2", nil,
		},
		"the log goes back": {
			func(w *written) queue.Ticket {
				w.claim("a", queue.ModeRedis)
				w.enter("ann")
				w.recs = append(w.recs, queue.Record{Ticket: 2, Kind: queue.Entered, Visitor: "bob", AtMs: w.now})
				w.recs = append(w.recs, queue.Record{Ticket: 3, Kind: queue.Entered, Visitor: "cyd", AtMs: w.now})
				return 2
			}, []Kind{Backwards}, "ticket 2 comes after ticket 2",
			func(t *testing.T, r *Report) { require.EqualValues(t, 2, r.Waiting) },
		},

		"a zombie's records are no error": {
			func(w *written) queue.Ticket {
				old := w.claim("zombie", queue.ModeRedis)
				ann := w.enter("ann")
				e := w.claim("a", queue.ModeRedis)
				void := w.admit(old, in("ann", ann))
				w.add(queue.Record{Kind: queue.Checkpoint, Epoch: old, Served: ann})
				w.admit(e, in("ann", ann))
				return void
			}, []Kind{Void}, "admitted by zombie, whose claim 1 was followed by claim 3",
			func(t *testing.T, r *Report) {
				require.Equal(t, map[string]int64{"zombie": 2}, r.VoidBy)
				require.EqualValues(t, 1, r.Admitted)
			},
		},
		"a record written twice is no error": {
			func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				ann := w.enter("ann")
				w.admit(e, in("ann", ann))
				return w.admit(e, in("ann", ann))
			}, []Kind{Repeated}, "again", func(t *testing.T, r *Report) { require.EqualValues(t, 1, r.Admitted) },
		},
		"a gap is no error": {
			func(w *written) queue.Ticket {
				w.claim("a", queue.ModeRedis)
				w.recs = append(w.recs, queue.Record{Ticket: 5, Kind: queue.Entered, Visitor: "ann", AtMs: w.now})
				return 5
			}, []Kind{Gap}, "tickets 2 to 4 before it are in no record",
			func(t *testing.T, r *Report) { require.EqualValues(t, 3, r.Gaps) },
		},
		"what can't be read is told": {
			func(w *written) queue.Ticket {
				w.claim("a", queue.ModeRedis)
				return w.add(queue.Record{Kind: queue.Skipped})
			}, []Kind{Unreadable}, "can't be read", func(t *testing.T, r *Report) { require.EqualValues(t, 1, r.Skipped) },
		},
		"coming again is no error": {
			func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				w.admit(e, in("ann", w.enter("ann")))
				return w.admit(e, in("ann", w.enter("ann")))
			}, []Kind{Again}, "entered after the admission in record 3",
			func(t *testing.T, r *Report) { require.Zero(t, r.Twice); require.EqualValues(t, 1, r.Again) },
		},
		"coming again after the grant was ended is nothing: no error": {
			func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				ann := w.enter("ann")
				w.admit(e, in("ann", ann))
				w.add(queue.Record{Kind: queue.Released, Visitor: "ann", Of: ann})
				w.admit(e, in("ann", w.enter("ann")))
				return 0
			}, nil, "held", func(t *testing.T, r *Report) { require.EqualValues(t, 1, r.Released) },
		},
		"another grant's end ends nothing: no error": {
			func(w *written) queue.Ticket {
				e := w.claim("a", queue.ModeRedis)
				w.admit(e, in("ann", w.enter("ann")))
				w.add(queue.Record{Kind: queue.Released, Visitor: "ann", Of: 77})
				return w.admit(e, in("ann", w.enter("ann")))
			}, []Kind{Again}, "entered after", func(t *testing.T, r *Report) { require.Zero(t, r.Released) },
		},
		"a log trimmed up to a checkpoint is told, and goes on from what it says": {
			func(w *written) queue.Ticket {
				w.recs = append(w.recs, queue.Record{Ticket: 100, Kind: queue.Checkpoint, Epoch: 50, Served: 90, AtMs: w.now})
				w.admit(50, in("zed", 90))
				return 0
			}, []Kind{Trimmed}, "begins at ticket 100",
			func(t *testing.T, r *Report) { require.Zero(t, r.Admitted); require.EqualValues(t, 90, r.Served) },
		},
		"a clock that goes back is told": {
			func(w *written) queue.Ticket {
				w.claim("a", queue.ModeRedis)
				w.wait(-40) // two connections of one broker
				w.enter("ann")
				w.wait(-1400)
				return w.enter("bob")
			}, []Kind{ClockBack}, "written 1.4 s before", nil,
		},
		"a log that was trimmed is told, and its leader is taken as it is": {
			func(w *written) queue.Ticket {
				w.recs = append(w.recs, queue.Record{Ticket: 100, Kind: queue.Entered, Visitor: "ann", AtMs: w.now})
				w.admit(50, in("zed", 90), in("ann", 100))
				return 0
			}, []Kind{Trimmed}, "begins at ticket 100",
			func(t *testing.T, r *Report) { require.EqualValues(t, 2, r.Admitted); require.Zero(t, r.Void) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := write()
			at := c.write(w)
			r := w.audit(t, func(cfg *Config) { cfg.Rate = 10 })
			var kinds []Kind
			wrong := false
			for _, f := range r.Findings {
				kinds = append(kinds, f.Kind)
				wrong = wrong || f.Wrong
				require.NotEmpty(t, f.Means)
				require.NotEmpty(t, f.Do)
				require.Equal(t, at, f.Examples[0].Ticket, r.Text())
				if at > 0 {
					require.EqualValues(t, at-1, *f.Examples[0].Offset)
				}
			}
			require.Equal(t, c.want, kinds, r.Text())
			require.Contains(t, r.Text(), c.says)
			require.Equal(t, strings.Contains(name, "no error") || strings.Contains(name, "told"), r.OK(), r.Text())
			require.Equal(t, map[bool]int{false: ExitOK, true: ExitWrong}[wrong], r.ExitCode())
			require.NotContains(t, r.Text(), "ann", "a raw visitor id")
			if c.also != nil {
				c.also(t, r)
			}
		})
	}
}

// An admission that was on its way when its visitor refreshed or left counts: by the log it came after, and it stands.
func TestAdmissionsThatCrossARefreshAreClean(t *testing.T) {
	w := write()
	e := w.claim("a", queue.ModeRedis)
	ann, bob := w.enter("ann"), w.enter("bob")
	w.enter("ann")
	w.add(queue.Record{Kind: queue.Left, Visitor: "bob"})
	w.admit(e, in("ann", ann), in("bob", bob))
	w.enter("bob")
	r := w.audit(t)
	require.Empty(t, r.Findings, r.Text())
	require.Equal(t, Fates{Admitted: 2, Absorbed: 1, Waiting: 1}, r.Fates)
}

// recording keeps what is applied to the memory line, which at the end of a history is the whole log.
type recording struct {
	linetest.Target
	log map[queue.Ticket]queue.Record
}

func (r *recording) Apply(follows queue.Ticket, recs []queue.Record) bool {
	ok := r.Target.Apply(follows, recs)
	for _, rec := range recs {
		if ok {
			r.log[rec.Ticket] = rec
		}
	}
	return ok
}

// TestHistoriesAreClean audits random histories with crashes, zombies, outages, mode switches, gaps and garbage: by the
// fold nobody is lost in them, and by this accounting neither.
func TestHistoriesAreClean(t *testing.T) {
	total, draws := Fates{}, int64(0)
	for seed := range int64(1500) {
		target := &recording{linetest.Memory(), map[queue.Ticket]queue.Record{}}
		_, err := linetest.Play(rand.New(rand.NewSource(seed)), target)
		require.NoError(t, err)
		w := write()
		for ticket := queue.Ticket(1); len(w.recs) < len(target.log); ticket++ {
			if rec, ok := target.log[ticket]; ok {
				w.wait(7)
				rec.AtMs = w.now
				w.recs = append(w.recs, rec)
			}
		}
		r := w.audit(t)
		r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool { return f.Kind == BeforeDraw }) // they draw at any time
		require.True(t, r.OK(), "seed %d\n%s", seed, r.Text())
		require.Equal(t, r.Accepted, r.Fates.Sum())
		require.Zero(t, r.Waiting, "a history ends with everybody let in")
		total.Absorbed += r.Fates.Absorbed
		total.Kept += r.Fates.Kept
		total.MovedBack += r.Fates.MovedBack
		total.Retransmitted += r.Fates.Retransmitted
		total.Left += r.Fates.Left
		total.Ended += r.Fates.Ended
		total.Refused += r.Fates.Refused
		if r.Draw != nil {
			draws++
		}
	}
	for _, n := range []int64{total.Absorbed, total.Kept, total.MovedBack, total.Retransmitted, total.Left, total.Ended, total.Refused, draws} {
		require.Positive(t, n, "%+v", total)
	}
}

func TestEmptyLog(t *testing.T) {
	r := write().audit(t)
	require.True(t, r.OK())
	require.Contains(t, r.Text(), "holds no record")
}

func TestJSON(t *testing.T) {
	b, err := json.Marshal(sale(300).audit(t))
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal(b, &got))
	require.Equal(t, true, got["ok"])
	require.EqualValues(t, 294, got["admitted"])
	require.NotContains(t, string(b), "visitor-")
}

func TestConfigIsChecked(t *testing.T) {
	_, err := Run(context.Background(), Config{Queue: "Main", Rate: -1, Interval: 1, Examples: -1}, OfRecords(nil))
	for _, want := range []string{"queue id", "expected rate", "interval", "examples"} {
		require.ErrorContains(t, err, want)
	}
}

// What comes after the end that the log had is left for the next audit.
func TestRecordsAfterTheEndAreLeft(t *testing.T) {
	w := sale(100)
	r, err := Run(context.Background(), Config{Queue: "main"}, &grown{OfRecords(w.recs), 50})
	require.NoError(t, err)
	require.EqualValues(t, 50, r.End)
	require.EqualValues(t, 50, r.Records)
	require.True(t, r.OK(), r.Text())
}

type grown struct {
	Source
	end queue.Ticket
}

func (g *grown) Bounds(context.Context) (first, next queue.Ticket, err error) {
	return 1, g.end + 1, nil
}

func TestThePauseAtTheEnd(t *testing.T) {
	w := write()
	e := w.claim("a", queue.ModeDirect)
	w.admit(e, in("ann", w.enter("ann")))
	w.wait(60_000) // nobody waits: no pause
	bob := w.enter("bob")
	w.wait(1_000)
	first := w.admit(e, in("bob", bob))
	w.enter("cyd")
	w.wait(3_000)
	w.enter("dan")
	r := w.audit(t)
	require.Equal(t, Pause{Ms: 3000, FromMs: day + 61_000, After: first}, r.LongestPause)
	require.Contains(t, r.Text(), "it lasts to the end of the log")
	require.Empty(t, r.Outages, "without Redis there is none to miss")
	require.Contains(t, r.Text(), "no leader ever popped from Redis")
}

// Where a new broker's clock is behind, seconds still go by time.
func TestTheRateGoesByTime(t *testing.T) {
	w := write()
	e := w.claim("a", queue.ModeDirect)
	for i, ms := range []int64{5000, -4900, 100, 4300} { // at 5000, 100, 200, 4500
		w.wait(ms)
		v := string(rune('a' + i))
		w.admit(e, in(v, w.enter(v)))
	}
	r := w.audit(t)
	require.EqualValues(t, 2, r.Rate.HighestSecond)
}

// A difference between the two ways of counting is an error, whichever number it is in.
func TestDifferencesToTheFoldAreFound(t *testing.T) {
	w := half()
	for name, change := range map[string]func(*keptLine){
		"none":                    func(*keptLine) {},
		"last ticket":             func(k *keptLine) { k.state.Seq++ },
		"served":                  func(k *keptLine) { k.state.Served++ },
		"epoch":                   func(k *keptLine) { k.state.Epoch++ },
		"draw":                    func(k *keptLine) { k.state.Draw.At++ },
		"end":                     func(k *keptLine) { k.state.End.Over = true },
		"re-entry rule":           func(k *keptLine) { k.state.Reentry = queue.Keep },
		"waiting":                 func(k *keptLine) { k.total-- },
		"admitted":                func(k *keptLine) { k.counts.Admitted-- },
		"void":                    func(k *keptLine) { k.counts.Void++ },
		"unreadable":              func(k *keptLine) { k.counts.Skipped++ },
		"checkpoints that differ": func(k *keptLine) { k.counts.Differs++ },
		"records":                 func(k *keptLine) { k.counts.Records++ },
		"digest":                  func(k *keptLine) { k.digest = "other" },
	} {
		f, r, m := newFindings(10), &Report{}, mark{ticket: w.recs[len(w.recs)-1].Ticket}
		b, fold := newBook(1, f), startFold([]mark{m})
		for i := range w.recs {
			b.step(&w.recs[i])
		}
		fold.send(w.recs)
		k := fold.end()[m]
		change(k)
		b.report(r)
		b.compare(k, r, f)
		r.Findings = f.list()
		if name == "none" {
			require.True(t, r.OK(), r.Wrongs())
			continue
		}
		require.Equal(t, ExitWrong, r.ExitCode(), name)
		require.Contains(t, r.Find(FoldDiffers).Examples[0].What, name+": ")
	}
}

// A step in which nobody was let in still ends a second in which some were.
func TestStepsBetweenBatchesAreNotEmpty(t *testing.T) {
	w := write()
	e := w.claim("a", queue.ModeDirect)
	w.admit(e, in("ann", w.enter("ann")))
	w.wait(250)
	w.admit(e, in("bob", w.enter("bob")))
	w.wait(1200)
	w.enter("cyd")
	var got []int64
	for _, s := range w.audit(t).Series.Steps {
		got = append(got, s.HighestSecond)
	}
	require.Equal(t, []int64{1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 0, 0, 0}, got)
}

// A log that lost its end is good in itself: only who saw more of it can tell.
func TestALogCutShortIsFound(t *testing.T) {
	w := sale(100)
	end := w.recs[len(w.recs)-1].Ticket
	r := w.audit(t, func(c *Config) { c.AtLeast, c.TopicID, c.WasTopic = end, "one", "one" })
	require.Empty(t, r.Findings, r.Text())
	r = w.audit(t, func(c *Config) { c.AtLeast, c.TopicID, c.WasTopic = end+7, "two", "one" })
	require.Equal(t, ExitWrong, r.ExitCode())
	require.EqualValues(t, 7, r.Find(LogShort).Count)
	require.Contains(t, r.Text(), "it is topic two now, and was topic one")
}
