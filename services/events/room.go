package events

import (
	"context"
	"sync"
	"time"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// turns is how many turns the streams of a room take, one at each tick: many, so that few are woken together, and a token does not
// wait behind the positions of others.
const turns = 50

// room is the streams of one queue.
type room struct {
	id      queue.ID
	reading Reading
	ctx     context.Context // ends with the room
	close   context.CancelFunc

	mu       sync.Mutex
	streams  [turns]map[*stream]struct{}
	visitors map[queue.Visitor]int // how many streams each has
	changes  uint64                // counts what was read of the log
	before   queue.State           // what was read of it when it was looked at last
}

// stream is one that is open. What is below mu of its room is the room's.
type stream struct {
	room    *room
	visitor queue.Visitor
	turn    int
	wake    chan struct{} // holds one token while there is something to look at

	// guarded by room.mu
	seen    uint64    // changes when it was woken last
	again   bool      // once more: the view may not have had by then what the log had
	version int64     // of what operators say
	looked  time.Time // when it was woken last
	letIn   time.Time // when this process read that its visitor was let in; zero: not
}

func newRoom(id queue.ID, reading Reading) *room {
	r := &room{id: id, reading: reading, visitors: map[queue.Visitor]int{}, before: reading.State()}
	r.ctx, r.close = context.WithCancel(context.Background())
	for i := range r.streams {
		r.streams[i] = map[*stream]struct{}{}
	}
	return r
}

// join adds a stream; nil where the visitor has as many as one may have.
func (r *room) join(v queue.Visitor, most int, version int64, turn int) *stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.visitors[v] >= most {
		return nil
	}
	r.visitors[v]++
	st := &stream{room: r, visitor: v, turn: turn, wake: make(chan struct{}, 1), seen: r.changes, again: true, version: version}
	r.streams[turn][st] = struct{}{}
	return st
}

// leave takes a stream away and says whether it was the last one.
func (r *room) leave(st *stream) (last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.streams[st.turn], st)
	if r.visitors[st.visitor]--; r.visitors[st.visitor] == 0 {
		delete(r.visitors, st.visitor)
	}
	return len(r.visitors) == 0
}

// watch wakes whom it concerns as soon as the log was read further.
func (r *room) watch(now func() time.Time) {
	for r.reading.WaitFor(r.ctx, r.before.Seq+1) == nil {
		s := r.reading.State()
		r.mu.Lock()
		r.changes++
		everybody := s.Draw.At != r.before.Draw.At || s.End != r.before.End
		if s.Served != r.before.Served || everybody {
			r.letIn(everybody, now())
		}
		r.before = s
		r.mu.Unlock()
	}
}

// letIn wakes those who were let in, or everybody.
func (r *room) letIn(everybody bool, now time.Time) {
	for _, streams := range r.streams {
		for st := range streams {
			if !st.letIn.IsZero() {
				continue
			}
			if _, is := r.reading.Grant(st.visitor, now); is == line.Live {
				st.letIn = now
			} else if !everybody {
				continue
			}
			st.rouse()
		}
	}
}

// turn wakes those whose turn it is, if there may be something to tell: the log was read further, once more after that, or
// operators have changed something. It wakes them in any case once in a while, for the sign of life.
func (r *room) turn(turn int, version int64, now time.Time, idle time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for st := range r.streams[turn] {
		changed := st.seen != r.changes || st.version != version
		if changed || st.again || now.Sub(st.looked) >= idle {
			st.seen, st.version, st.again, st.looked = r.changes, version, changed, now
			st.rouse()
		}
	}
}

func (st *stream) rouse() {
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

// since is when the visitor was let in, as far as this process has read; zero: not.
func (st *stream) since() time.Time {
	st.room.mu.Lock()
	defer st.room.mu.Unlock()
	return st.letIn
}
