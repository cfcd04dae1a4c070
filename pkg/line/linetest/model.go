package linetest

import (
	"slices"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Admission is one valid admission as the model keeps it: who, for which ticket, by the record with which ticket.
type Admission struct {
	Visitor   queue.Visitor
	Ticket    queue.Ticket
	By        queue.Ticket
	AtMs      int64
	ExpiresMs int64
}

type popped struct {
	visitor queue.Visitor
	ticket  queue.Ticket
	key     string // "" when it no longer stands
	batch   int64
	stands  bool
}

// Model is the naive line: slices, searched from the front.
type Model struct {
	queue.State
	Line     []queue.Waiting // in ticket order
	Pending  []popped
	Fence    queue.Ticket
	Batch    int64
	Admitted []Admission
}

// Clone copies the model.
func (m *Model) Clone() *Model {
	c := *m
	c.Line, c.Pending, c.Admitted = slices.Clone(m.Line), slices.Clone(m.Pending), slices.Clone(m.Admitted)
	return &c
}

func (m *Model) inLine(v queue.Visitor) int {
	return slices.IndexFunc(m.Line, func(w queue.Waiting) bool { return w.Visitor == v })
}

func (m *Model) inPending(v queue.Visitor) int {
	return slices.IndexFunc(m.Pending, func(p popped) bool { return p.visitor == v })
}

// NewModel is the naive view of an empty log.
func NewModel() *Model { return &Model{} }

// Apply folds recs, or refuses.
func (m *Model) Apply(follows queue.Ticket, recs []queue.Record) bool {
	if follows != m.Seq {
		return false
	}
	for _, rec := range recs {
		m.fold(rec)
	}
	return true
}

func (m *Model) fold(rec queue.Record) {
	m.Seq = rec.Ticket
	v := rec.Visitor
	switch rec.Kind {
	case queue.Claimed:
		m.Epoch = rec.Ticket
	case queue.SettingsSet:
		m.Reentry = rec.Reentry
	case queue.Left:
		m.drop(v)
		m.fallen(v)
	case queue.Drawn:
		if rec.Epoch == m.Epoch && m.Draw.At == 0 {
			m.Draw = queue.Draw{From: m.Served, At: rec.Ticket, Seed: rec.Seed}
			all := m.ByLog()
			for i := range all {
				all[i].Ticket = m.Draw.Number(all[i].Ticket)
			}
			slices.SortFunc(all, func(a, b queue.Waiting) int { return int(a.Ticket - b.Ticket) })
			m.Line, m.Pending, m.Fence, m.Batch = all, nil, 0, 0
		}
	case queue.Ended:
		if rec.Epoch == m.Epoch {
			m.End = queue.End{At: rec.Ticket, Why: rec.Why, Over: true}
			m.Served = rec.Ticket
			m.Line, m.Pending = nil, nil
		}
	case queue.Reopened:
		if rec.Epoch == m.Epoch {
			m.End.Over = false
		}
	case queue.Entered:
		if m.End.Over {
			return
		}
		i := m.inLine(v)
		j := m.inPending(v)
		waits := i >= 0 || j >= 0 && m.Pending[j].stands
		key := ""
		if i >= 0 {
			key = m.Line[i].Key
		} else if j >= 0 {
			key = m.Pending[j].key
		}
		same := rec.Key != "" && key == rec.Key
		if waits && (m.Reentry == queue.Keep || same) {
			return
		}
		m.drop(v)
		m.Line = append(m.Line, queue.Waiting{Visitor: v, Ticket: rec.Ticket, Key: rec.Key})
		m.fallen(v)
	case queue.Admitted:
		for _, p := range rec.People {
			if rec.Epoch != m.Epoch || p.Ticket <= m.Served {
				continue
			}
			m.Served = p.Ticket
			m.Admitted = append(m.Admitted, Admission{p.Visitor, p.Ticket, rec.Ticket, rec.AtMs, p.ExpiresMs})
			m.out(p.Visitor)
		}
		for _, p := range slices.Clone(m.Pending) {
			if p.ticket <= m.Served {
				if p.stands {
					m.out(p.visitor)
				} else {
					m.unpend(p.visitor)
				}
			}
		}
	}
}

func (m *Model) drop(v queue.Visitor) {
	if i := m.inLine(v); i >= 0 {
		m.Line = slices.Delete(m.Line, i, i+1)
	}
}

func (m *Model) unpend(v queue.Visitor) {
	if i := m.inPending(v); i >= 0 {
		m.Pending = slices.Delete(m.Pending, i, i+1)
	}
}

func (m *Model) fallen(v queue.Visitor) {
	if i := m.inPending(v); i >= 0 {
		m.Pending[i].stands, m.Pending[i].key = false, ""
	}
}

func (m *Model) out(v queue.Visitor) {
	m.drop(v)
	m.unpend(v)
}

// Admit hands out as the design's model does.
func (m *Model) Admit(ask queue.Ask) ([]queue.Person, queue.Reason) {
	if ask.Epoch < m.Fence || ask.Epoch < m.Epoch {
		return nil, queue.Fenced
	}
	if ask.Epoch != m.Fence || ask.Batch != m.Batch {
		unbroken := ask.Epoch == m.Fence && ask.Batch == m.Batch+1
		if !unbroken && m.Seq < ask.AtLeast {
			return nil, queue.Behind
		}
		m.Fence, m.Batch = ask.Epoch, ask.Batch
		if !unbroken && len(m.Pending) > 0 {
			for i := range m.Pending {
				m.Pending[i].batch = ask.Batch
			}
		} else {
			for range ask.N {
				if len(m.Line) == 0 || m.inPending(m.Line[0].Visitor) >= 0 {
					break
				}
				w := m.Line[0]
				m.Line = m.Line[1:]
				m.Pending = append(m.Pending, popped{w.Visitor, w.Ticket, w.Key, ask.Batch, true})
			}
		}
	}
	var out []queue.Person
	for _, p := range m.Pending {
		if p.batch == ask.Batch {
			out = append(out, queue.Person{Visitor: p.visitor, Ticket: p.ticket})
		}
	}
	if len(out) == 0 {
		return nil, queue.Empty
	}
	slices.SortFunc(out, func(a, b queue.Person) int { return int(a.Ticket - b.Ticket) })
	return out, queue.Handed
}

// ByLog is everybody who waits by the log, in ticket order.
func (m *Model) ByLog() []queue.Waiting {
	all := slices.Clone(m.Line)
	for _, p := range m.Pending {
		if p.stands {
			all = append(all, queue.Waiting{Visitor: p.visitor, Ticket: p.ticket, Key: p.key})
		}
	}
	slices.SortFunc(all, func(a, b queue.Waiting) int { return int(a.Ticket - b.Ticket) })
	return all
}

// Place finds v by counting.
func (m *Model) Place(v queue.Visitor) (queue.Place, bool) {
	for i, w := range m.ByLog() {
		if w.Visitor == v {
			return queue.Place{Ticket: w.Ticket, Ahead: int64(i)}, true
		}
	}
	return queue.Place{}, false
}

// Digest is the fingerprint by the log.
func (m *Model) Digest() string { return queue.Digest(m.State, slices.Values(m.ByLog())) }
