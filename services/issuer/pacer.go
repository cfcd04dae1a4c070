package issuer

import (
	"math"
	"time"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Pacer says how many may go now. Two rules hold at once:
//
//   - credit: time earns rate × time, the fraction is carried (17.5 a batch goes out as 17 and 18). Beside the batch that is due,
//     a stall leaves no more than one batch, however long it was; so a tick that is merely late, by up to an interval, loses
//     nothing. Time without anybody to let in leaves nothing but the fraction.
//   - window: whatever the credit, any second has at most the rate and one batch. When a record was appended is only known
//     to lie between asking and acknowledgement, so it counts for as long as it might.
//
// A new leader knows from the log what its predecessor did in the last second (Seed), so a hand-over is no exception.
type Pacer struct {
	rate, perBatch float64
	credit         float64
	last           time.Time // up to when time was turned into credit
	spent          []spending
}

type spending struct {
	until  time.Time // when the record was in the log at the latest
	people int
}

// almost is so close to one person that a cap of whole people plus it never rounds up.
const almost = 1 - 1e-6

// NewPacer starts with no credit at now.
func NewPacer(s queue.Settings, now time.Time) *Pacer {
	p := &Pacer{last: now}
	p.Set(s)
	return p
}

// Set changes the rate from now on. Credit beyond two of the new batches is lost.
func (p *Pacer) Set(s queue.Settings) {
	p.rate, p.perBatch = s.Rate, s.PerBatch()
	p.credit = math.Min(p.credit, p.most())
}

// most is the batch that is due and one that a stall leaves.
func (p *Pacer) most() float64 { return 2*p.perBatch + almost }

// Seed notes that people were let in by a record that was in the log at at.
func (p *Pacer) Seed(at time.Time, people int) { p.spent = append(p.spent, spending{at, people}) }

// Allow is how many may go at now, 0 for nobody. It does not spend.
func (p *Pacer) Allow(now time.Time) int {
	if d := now.Sub(p.last); d > 0 {
		p.credit = math.Min(p.credit+p.rate*d.Seconds(), p.most())
		p.last = now
	}
	n := 0
	for n < len(p.spent) && !p.spent[n].until.After(now.Add(-time.Second)) {
		n++
	}
	p.spent = p.spent[n:]
	window := p.rate + p.perBatch + almost
	for _, s := range p.spent {
		window -= float64(s.people)
	}
	return max(0, min(int(math.Floor(math.Min(p.credit, window)+1e-9)), queue.MaxBatch))
}

// Full is a whole batch, rounded up: as many as one interval can ever bring by itself.
func (p *Pacer) Full() int { return int(math.Ceil(p.perBatch - 1e-9)) }

// Spend takes people who were let in by a record that was acknowledged at now.
func (p *Pacer) Spend(now time.Time, people int) {
	p.credit -= float64(people)
	p.spent = append(p.spent, spending{now, people})
}

// Idle says that nobody else waits: what is left of the credit is lost, but for the fraction.
func (p *Pacer) Idle() { p.credit = math.Min(p.credit, almost) }

// Rest says that nobody could go up to at: the time until then earns nothing, as with Idle.
func (p *Pacer) Rest(at time.Time) {
	if at.After(p.last) {
		p.last = at
	}
	p.Idle()
}

// Next is the next point of the grid of intervals that began at start, after now.
func Next(start, now time.Time, interval time.Duration) time.Time {
	return start.Add(now.Sub(start)/interval*interval + interval)
}
