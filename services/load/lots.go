package load

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// lots is what the target says of its draw, and whether it keeps to it: the seed is the one that it had committed to, and every
// number is what the seed gives. Safe for concurrent use.
type lots struct {
	ask    func(ctx context.Context) answer
	breach func(invariant, format string, a ...any)
	queue  queue.ID

	mu         sync.Mutex
	byDraw     bool // else numbers are tickets, for ever: a queue's order is fixed when it is made
	known      bool // whether byDraw is
	asked      time.Time
	commitment string // as it was published before the draw; "" where the run came too late for that
	draw       queue.Draw
	checked    int64 // numbers
	differs    int64
}

// lotsAgain is how long a target that has not drawn yet is left alone.
const lotsAgain = 500 * time.Millisecond

// lotsAnswer is the target's answer. What comes with the draw is empty before.
type lotsAnswer struct {
	Order      string `json:"order"`
	Commitment string `json:"commitment"`
	Seed       string `json:"seed"`
	First      int64  `json:"first"`
	Last       int64  `json:"last"`
}

// peek is the draw as far as it is known, the zero value where there is none. settled says that it is so for good.
func (l *lots) peek() (d queue.Draw, settled bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.draw, l.settled()
}

func (l *lots) settled() bool { return l.draw.At > 0 || l.known && !l.byDraw }

// promised says that lots are drawn, or are to be.
func (l *lots) promised() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.byDraw }

// drawn is the same, and asks the target first where that is not settled.
func (l *lots) drawn(ctx context.Context) (d queue.Draw, settled bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settled() {
		return l.draw, true
	}
	if now := time.Now(); l.asked.IsZero() || now.Sub(l.asked) >= lotsAgain {
		l.asked = now
		l.take(l.ask(ctx))
	}
	return l.draw, l.settled()
}

func (l *lots) take(a answer) {
	var said lotsAnswer
	switch {
	case a.status == http.StatusOK && json.Unmarshal(a.body, &said) == nil && said.Order == queue.ByDraw.String():
	case a.again(), a.status == http.StatusOK && said.Order == "":
		return
	default: // it knows of none: the code of a queue without, or a target that is older than draws
		l.known = true
		return
	}
	l.known, l.byDraw = true, true
	if said.Seed == "" {
		if l.commitment != "" && said.Commitment != l.commitment {
			l.wrong("the commitment was %.64q, and is %.64q now", l.commitment, said.Commitment)
		}
		l.commitment = said.Commitment
		return
	}
	d := queue.Draw{From: queue.Ticket(said.First - 1), At: queue.Ticket(said.Last)}
	seed, err := hex.DecodeString(said.Seed)
	if err != nil || len(seed) != queue.SeedBytes || said.First < 1 || said.Last < said.First {
		l.wrong("the draw cannot be checked: a seed of %d digits, tickets %d to %d", len(said.Seed), said.First, said.Last)
		return
	}
	copy(d.Seed[:], seed)
	for _, commitment := range []string{l.commitment, said.Commitment} {
		if commitment != "" && commitment != queue.Commitment(l.queue, d.Seed) {
			l.wrong("the seed is not the one that was committed to")
			break
		}
	}
	l.draw = d
}

func (l *lots) wrong(format string, a ...any) {
	l.differs++
	l.breach(brokenDraw, format, a...)
}

// check holds a number that was told against the draw.
func (l *lots) check(d queue.Draw, visitor int, ticket, number int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checked++
	if want := int64(d.Number(queue.Ticket(ticket))); number != want {
		l.wrong("visitor %d, ticket %d: number %d was told, and the seed gives %d", visitor, ticket, number, want)
	}
}

// report is nil where no lots were drawn.
func (l *lots) report() *Draw {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.draw.At == 0 {
		return nil
	}
	return &Draw{Seed: l.draw.Seed.String(), First: int64(l.draw.From + 1), Last: int64(l.draw.At), Committed: l.commitment != "", Checked: l.checked, Differs: l.differs}
}
