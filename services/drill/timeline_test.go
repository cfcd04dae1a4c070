package drill

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/plot"
)

// show drives a timeline by a clock of its own: 100 pollers who ask once a second, and a leader with a batch every 100 ms.
type show struct {
	*timeline
	out    bytes.Buffer
	now    time.Time
	exact  bool
	stray  int // of a hundred answers, so many are of the other kind
	leads  bool
	ticket queue.Ticket
	epoch  queue.Ticket
}

func newShow() *show {
	s := &show{now: time.UnixMilli(1_700_000_000_000), exact: true, leads: true}
	s.timeline = newTimeline(&s.out, s.now, 100, time.Second)
	s.claims(queue.ModeRedis)
	return s
}

// runs lets time pass: ten answers and one batch of 10 in each tenth of a second.
func (s *show) runs(d time.Duration) {
	for end := s.now.Add(d); s.now.Before(end); {
		s.now = s.now.Add(100 * time.Millisecond)
		for i := range 10 {
			tenth := int(s.now.UnixMilli() / 100 % 10)
			s.told(s.now.Add(-50*time.Millisecond), s.exact != (tenth*10+i < s.stray), 4321)
		}
		if s.leads {
			s.admitted(s.epoch, 10)
		}
		s.tick(s.now)
	}
}

func (s *show) admitted(epoch queue.Ticket, n int) {
	rec := queue.Record{Kind: queue.Admitted, Epoch: epoch, AtMs: s.now.UnixMilli()}
	for range n {
		s.ticket++
		rec.People = append(rec.People, queue.Person{Ticket: s.ticket})
	}
	s.record(s.now, &rec)
}

func (s *show) claims(m queue.Mode) {
	s.epoch += 1_000_000
	s.record(s.now, &queue.Record{Kind: queue.Claimed, Ticket: s.epoch, Mode: m})
}

func (s *show) lines() []string { return strings.Split(strings.TrimSpace(s.out.String()), "\n") }

func TestTimelineTellsAWholeOutage(t *testing.T) {
	s := newShow()
	s.runs(12 * time.Second)
	require.Empty(t, s.out.String(), "nothing has happened yet")

	s.breaks(s.now)
	s.leads = false
	s.runs(time.Second) // the view lives on for a moment
	s.exact = false
	s.runs(1500 * time.Millisecond)
	s.claims(queue.ModeDirect)
	s.leads = true
	s.runs(30500 * time.Millisecond)
	require.False(t, s.over(s.now))

	s.mends(s.now)
	s.isMended(s.now)
	s.runs(4 * time.Second)
	s.exact = true
	s.runs(7 * time.Second)
	require.False(t, s.over(s.now), "a leader still goes on without Redis")
	s.claims(queue.ModeRedis)
	s.runs(2 * time.Second)
	require.True(t, s.over(s.now))

	require.Equal(t, []string{
		"00:13 positions approximate (1.0 s after the break); 0 of 100 pollers saw an error",
		"00:14 admissions direct (2.5 s after the break); longest pause 2.6 s, no second above 100",
		"00:49 line exact again (4.0 s after mending); 4,321 people in line",
		"00:56 admissions from Redis (11.0 s after mending); longest pause 2.6 s, no second above 100",
	}, s.lines())
	seen, events, failed := s.figures()
	require.Len(t, events, 4)
	require.Zero(t, failed)
	require.Equal(t, []int64{1000, 2500, 4000, 11000, 2600, 100},
		[]int64{*seen.ApproximateAfterMs, *seen.DirectAfterMs, *seen.ExactAfterMs, *seen.BackAfterMs, seen.LongestPauseMs, seen.HighestSecond})
	require.Empty(t, s.unseen())

	s.leads, s.exact = false, false
	s.runs(10 * time.Second)
	s.admitted(s.epoch, 500)
	require.Len(t, s.lines(), 4, "afterwards few answers come, and a stray one would be most of them")
	seen, _, _ = s.figures()
	require.Equal(t, int64(2600), seen.LongestPauseMs, "what comes after the end is not the outage's")
	require.Equal(t, int64(100), seen.HighestSecond)
}

// A newcomer that Redis has not met yet is told an approximate number also when all is well.
func TestTimelineToleratesOneStrayAnswerInAHundred(t *testing.T) {
	for stray, tells := range map[int]bool{1: true, 5: false} {
		s := newShow()
		s.runs(5 * time.Second)
		s.breaks(s.now)
		s.exact, s.stray = false, stray
		s.runs(10 * time.Second)
		require.Equal(t, tells, strings.Contains(s.out.String(), "positions approximate"), "%d of 100 answers were exact: %s", stray, &s.out)
	}
}

func TestTimelineSeesAFailoverBeforeTheMending(t *testing.T) {
	s := newShow()
	s.runs(5 * time.Second)
	s.breaks(s.now)
	s.exact = false
	s.runs(3 * time.Second)
	s.exact = true
	s.runs(3 * time.Second)
	s.exact = false
	s.runs(3 * time.Second)
	s.exact = true
	s.runs(3 * time.Second)
	require.Equal(t, []string{
		"00:05 positions approximate (0.0 s after the break); 0 of 100 pollers saw an error",
		"00:08 line exact again (3.0 s after the break); 4,321 people in line",
		"00:11 positions approximate again (6.0 s after the break); 0 of 100 pollers saw an error",
		"00:14 line exact again (9.0 s after the break); 4,321 people in line",
	}, s.lines())
}

func TestTimelineSaysWhatWasNotSeen(t *testing.T) {
	s := newShow()
	s.runs(5 * time.Second)
	require.Empty(t, s.unseen(), "nothing was broken")
	s.breaks(s.now)
	s.runs(5 * time.Second)
	require.Len(t, s.unseen(), 1)
	require.Contains(t, s.unseen()[0], "never became approximate")

	s.exact = false
	s.claims(queue.ModeDirect)
	s.mends(s.now)
	s.isMended(s.now)
	s.runs(patience - time.Second)
	require.False(t, s.over(s.now))
	s.runs(2 * time.Second)
	require.True(t, s.over(s.now), "not everything comes back, and a drill ends")
	require.Len(t, s.unseen(), 2)
	require.Contains(t, s.unseen()[0], "still approximate")
	require.Contains(t, s.unseen()[1], "had not gone back to Redis")

	s = newShow()
	s.exact = false
	s.runs(5 * time.Second)
	s.breaks(s.now)
	s.runs(5 * time.Second)
	require.Contains(t, s.unseen()[0], "before the break")
}

// An outage that the leader never noticed needs no return.
func TestTimelineEndsSoonWhenTheLeaderNeverLeft(t *testing.T) {
	s := newShow()
	s.runs(5 * time.Second)
	s.breaks(s.now)
	s.mends(s.now)
	s.isMended(s.now)
	s.runs(settle - time.Second)
	require.False(t, s.over(s.now))
	s.runs(time.Second)
	require.True(t, s.over(s.now))
}

func TestTimelineSaysWhenNobodyIsLetIn(t *testing.T) {
	s := newShow()
	s.runs(5 * time.Second)
	s.breaks(s.now)
	s.leads, s.exact = false, false
	s.claims(queue.ModeDirect)
	s.runs(givesUp)
	require.Contains(t, s.out.String(), "00:05 admissions direct (0.0 s after the break); nobody was let in since")
}

func TestTimelineCountsOnlyWhoWasLetIn(t *testing.T) {
	s := newShow()
	s.runs(2 * time.Second)
	s.breaks(s.now)
	old := s.epoch
	s.claims(queue.ModeDirect)
	s.leads = false
	s.now = s.now.Add(100 * time.Millisecond)
	s.admitted(old, 500) // a leader that does not lead any more
	seen, _, _ := s.figures()
	require.Zero(t, seen.HighestSecond)
	s.admitted(s.epoch, 7)
	s.ticket -= 7
	s.admitted(s.epoch, 9) // seven of them once more
	seen, _, _ = s.figures()
	require.Equal(t, int64(100-10+9), seen.HighestSecond, "with those of the second before")
	s.record(s.now, &queue.Record{Kind: queue.Ended, Ticket: s.ticket + 100, Epoch: old, Why: "sold_out"}) // void
	s.admitted(s.epoch, 5)
	seen, _, _ = s.figures()
	require.Equal(t, int64(100-10+9+5), seen.HighestSecond)
	s.record(s.now, &queue.Record{Kind: queue.Ended, Ticket: s.ticket + 100, Epoch: s.epoch, Why: "sold_out"})
	s.admitted(s.epoch, 5) // who waited waits no more
	seen, _, _ = s.figures()
	require.Equal(t, int64(100-10+9+5), seen.HighestSecond)
	s.claims(queue.ModeDirect)
	require.Contains(t, s.out.String(), "another leader")
}

func TestTimelineTellsErrorsOfEachKindOnce(t *testing.T) {
	s := newShow()
	s.runs(2 * time.Second)
	s.error(s.now, 7, "position: timeout", true)
	s.error(s.now, 7, "position: timeout", false)
	s.error(s.now, 8, "enter: 503 log_unavailable", true)
	s.breaks(s.now)
	s.exact = false
	s.runs(3 * time.Second)
	require.Equal(t, []string{
		"00:02 a poller saw an error: position: timeout",
		"00:02 a poller saw an error: enter: 503 log_unavailable",
		"00:02 positions approximate (0.0 s after the break); 2 of 100 pollers saw an error",
	}, s.lines())
}

func TestStampsAndNumbers(t *testing.T) {
	require.Equal(t, "00:00 05:02 1:05:02", fmt.Sprint(stamp(999), " ", stamp(302_000), " ", stamp(3_902_000)))
	require.Equal(t, "0 999 1,000 1,234,567", fmt.Sprint(plot.Thousands(0), " ", plot.Thousands(999), " ", plot.Thousands(1000), " ", plot.Thousands(1_234_567)))
}
