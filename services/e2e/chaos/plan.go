package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// deed is a kind of thing that is done to a part.
type deed string

const (
	kill     deed = "kill -9"
	pause    deed = "pause"
	slowLink deed = "slow link"
	hangLink deed = "hung link"
	cutLink  deed = "reset link"
	cutReply deed = "cut replies"
	rollBack deed = "roll back"
	wipe     deed = "wipe"
	fill     deed = "fill"
	silence  deed = "silence all"
)

// part is what it is done to.
type part string

const (
	enters     part = "enter"
	projectors part = "projector"
	issuers    part = "issuer" // the one who leads then
	positions  part = "position"
	redis      part = "redis"
	kafka      part = "kafka"
)

// step is one deed of a round.
type step struct {
	deed    deed
	part    part
	which   int           // of its kind, from 0; an issuer's is whoever leads
	all     bool          // of a link: every process's, and not only the part's
	at      time.Duration // after the round began
	lasts   time.Duration
	latency time.Duration // slow link
	replies int           // cut replies
}

func (s step) String() string {
	what := string(s.part)
	switch {
	case s.part == issuers && (s.deed == kill || s.deed == pause):
		what = "the leading issuer"
	case s.link() && s.all:
		what = "between all and redis"
	case s.link():
		what = fmt.Sprintf("between the %ss and redis", s.part)
	case s.part != redis && s.deed != silence:
		what = fmt.Sprintf("%s-%d", s.part, s.which+1)
	}
	extra := ""
	switch s.deed {
	case slowLink:
		extra = fmt.Sprintf(" (%v each way)", s.latency)
	case cutReply:
		extra = fmt.Sprintf(" (%d)", s.replies)
	}
	return fmt.Sprintf("%s %s%s at %v for %v", s.deed, what, extra, s.at, s.lasts)
}

func (s step) link() bool {
	return s.deed == slowLink || s.deed == hangLink || s.deed == cutLink || s.deed == cutReply
}

// claims are the parts that no other step of the round may touch: one process of a kind, one broker of three and one
// thing about Redis at a time. Links are claimed for each kind of process.
func (s step) claims() []string {
	if !s.link() {
		return []string{string(s.part)}
	}
	if s.all {
		return []string{"link issuer", "link projector", "link position"}
	}
	return []string{"link " + string(s.part)}
}

// leases is how long a pause lasts: three sessions of 4 s, and a little.
const leases = 3 * 4 * time.Second

// plan draws rounds from a seed, and from nothing else. Every deed comes up once before any comes up twice.
type plan struct {
	rnd  *rand.Rand
	deck []step
}

func newPlan(seed uint64) *plan { return &plan{rnd: rand.New(rand.NewPCG(seed, 0x736f6f6e62656f6e))} }

// cards are the deeds there are.
func cards() []step {
	all := []step{
		{deed: rollBack, part: redis}, {deed: wipe, part: redis}, {deed: fill, part: redis}, {deed: silence, part: kafka},
	}
	for _, p := range []part{enters, projectors, issuers, positions, redis, kafka} {
		all = append(all, step{deed: kill, part: p}, step{deed: pause, part: p})
	}
	for _, d := range []deed{slowLink, hangLink, cutLink, cutReply} {
		all = append(all, step{deed: d, part: issuers}, step{deed: d, part: projectors, all: true})
	}
	return append(all, step{deed: hangLink, part: projectors}, step{deed: slowLink, part: positions}, step{deed: cutReply, part: projectors})
}

// round draws the next one, of n deeds at the most, in the order of their times.
func (p *plan) round(n int) []step {
	if len(p.deck) < n {
		more := cards()
		p.rnd.Shuffle(len(more), func(i, j int) { more[i], more[j] = more[j], more[i] })
		p.deck = append(p.deck, more...)
	}
	var steps []step
	taken := map[string]bool{}
	rest := p.deck[:0]
	for _, s := range p.deck {
		free := !slices.ContainsFunc(s.claims(), func(c string) bool { return taken[c] })
		if len(steps) == n || !free {
			rest = append(rest, s)
			continue
		}
		for _, c := range s.claims() {
			taken[c] = true
		}
		steps = append(steps, p.detail(s))
	}
	p.deck = rest
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	return steps
}

func (p *plan) between(from, to time.Duration) time.Duration {
	return (from + time.Duration(p.rnd.Int64N(int64(to-from)))).Round(10 * time.Millisecond)
}

func (p *plan) detail(s step) step {
	s.which = p.rnd.IntN(2)
	if s.part == kafka {
		s.which = p.rnd.IntN(3)
	}
	s.at = p.between(300*time.Millisecond, 7*time.Second)
	switch s.deed {
	case kill:
		s.lasts = p.between(0, 5*time.Second)
	case pause:
		s.lasts = p.between(leases, leases+2*time.Second)
	case slowLink:
		s.latency = p.between(20*time.Millisecond, 2*time.Second)
		s.lasts = p.between(3*time.Second, 10*time.Second)
	case cutReply:
		s.replies = 1 + p.rnd.IntN(5)
		s.lasts = p.between(2*time.Second, 6*time.Second)
	case silence:
		s.lasts = p.between(2*time.Second, 6*time.Second)
	case wipe:
		s.lasts = 0
	default:
		s.lasts = p.between(time.Second, 8*time.Second)
	}
	return s
}

func describe(steps []step) string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "    %v\n", s)
	}
	return b.String()
}
