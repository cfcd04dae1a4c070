package line_test

import (
	"testing"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// scene is a line with the records given to it one after another.
type scene struct {
	t *testing.T
	*line.Line
}

func (s scene) then(recs ...queue.Record) {
	s.t.Helper()
	for _, r := range recs {
		seq := s.State().Seq
		r.Ticket = seq + 1
		if !s.Apply(seq, []queue.Record{r}) {
			s.t.Fatalf("record %d is refused", r.Ticket)
		}
	}
}

func (s scene) ahead(v queue.Visitor) int64 {
	s.t.Helper()
	p, ok := s.Place(v)
	if !ok {
		s.t.Fatalf("%s does not wait", v)
	}
	return p.Ahead
}

func entered(v queue.Visitor) queue.Record { return queue.Record{Kind: queue.Entered, Visitor: v} }

// Two tabs or two devices of one identity: one place, whichever rule holds, and one admission, which both see.
func TestFault04_TwoDevicesAreOnePlaceAndOneAdmission(t *testing.T) {
	for _, rule := range []queue.Reentry{queue.Back, queue.Keep} {
		t.Run(rule.String(), func(t *testing.T) {
			s := scene{t, line.New()}
			s.then(queue.Record{Kind: queue.SettingsSet, Reentry: rule}, queue.Record{Kind: queue.Claimed},
				entered("account"), entered("other"), entered("account")) // tickets 3, 4, 5
			if n := s.Total(); n != 2 {
				t.Errorf("%d wait, want 2", n)
			}
			want := map[queue.Reentry]int64{queue.Back: 1, queue.Keep: 0}[rule]
			if got := s.ahead("account"); got != want {
				t.Errorf("%d ahead of the account, want %d", got, want)
			}
			people, _ := s.Admit(queue.Ask{Epoch: 2, Batch: 1, AtLeast: 2, N: 10})
			if len(people) != 2 {
				t.Fatalf("%d handed out for two identities", len(people))
			}
			for i := range people {
				people[i].ExpiresMs = 1000
			}
			s.then(queue.Record{Kind: queue.Admitted, Epoch: 2, People: people})
			if g, state := s.Grant("account", 0); state != line.Live || g.Ticket != map[queue.Reentry]queue.Ticket{queue.Back: 5, queue.Keep: 3}[rule] {
				t.Errorf("grant %+v, state %d", g, state)
			}
			if people, why := s.Admit(queue.Ask{Epoch: 2, Batch: 2, AtLeast: 2, N: 10}); why != queue.Empty {
				t.Errorf("a second admission: %v", people)
			}
		})
	}
}

// Who was admitted and refreshes or leaves moves nobody who waits, and keeps the grant.
func TestFault05_AnAdmittedVisitorDisturbsNobody(t *testing.T) {
	s := scene{t, line.New()}
	s.then(queue.Record{Kind: queue.Claimed}, entered("in"), entered("a"), entered("b"))
	s.then(queue.Record{Kind: queue.Admitted, Epoch: 1, People: []queue.Person{{Visitor: "in", Ticket: 2, ExpiresMs: 1000}}})
	check := func(after string) {
		t.Helper()
		if a, b := s.ahead("a"), s.ahead("b"); a != 0 || b != 1 {
			t.Errorf("after %s %d are ahead of a and %d of b, want 0 and 1", after, a, b)
		}
		if _, state := s.Grant("in", 0); state != line.Live {
			t.Errorf("after %s the grant is in state %d", after, state)
		}
	}
	check("the admission")
	s.then(entered("in"))
	check("a refresh")
	if got := s.ahead("in"); got != 2 {
		t.Errorf("who was admitted and entered anew has %d ahead, want 2", got)
	}
	s.then(queue.Record{Kind: queue.Left, Visitor: "in"})
	check("leaving")
}
