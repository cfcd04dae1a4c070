package audit

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// written is a log that a test writes by hand, a record after another.
type written struct {
	recs []queue.Record
	now  int64
}

const day = 1_767_225_600_000 // 2026-01-01 00:00:00 UTC

func write() *written { return &written{now: day} }

func (w *written) add(rec queue.Record) queue.Ticket {
	rec.Ticket, rec.AtMs = queue.Ticket(len(w.recs)+1), w.now
	if n := len(w.recs); n > 0 {
		rec.Ticket = w.recs[n-1].Ticket + 1
	}
	w.recs = append(w.recs, rec)
	return rec.Ticket
}

func (w *written) wait(ms int64) { w.now += ms }

func (w *written) claim(issuer string, mode queue.Mode) queue.Ticket {
	return w.add(queue.Record{Kind: queue.Claimed, Issuer: issuer, Mode: mode})
}

func (w *written) enter(v queue.Visitor, key ...string) queue.Ticket {
	rec := queue.Record{Kind: queue.Entered, Visitor: v}
	if len(key) > 0 {
		rec.Key = key[0]
	}
	return w.add(rec)
}

func in(v queue.Visitor, t queue.Ticket) queue.Person {
	return queue.Person{Visitor: v, Ticket: t, ExpiresMs: day + 3_600_000}
}

func (w *written) admit(epoch queue.Ticket, people ...queue.Person) queue.Ticket {
	return w.add(queue.Record{Kind: queue.Admitted, Epoch: epoch, People: people})
}

// audit audits what was written, as queue main.
func (w *written) audit(t testing.TB, change ...func(*Config)) *Report {
	t.Helper()
	cfg := Config{Queue: "main"}
	for _, c := range change {
		c(&cfg)
	}
	r, err := Run(context.Background(), cfg, OfRecords(w.recs))
	require.NoError(t, err)
	return r
}

// sale is a whole small sale: n people at the default rate, some of whom refresh, repeat themselves or leave, and an outage.
func sale(n int) *written {
	w := write()
	w.add(queue.Record{Kind: queue.SettingsSet})
	epoch := w.claim("issuer-a", queue.ModeRedis)
	type place struct {
		v queue.Visitor
		t queue.Ticket
	}
	var line []place
	for i := range n {
		v := fmt.Sprintf("visitor-%d", i)
		t := w.enter(v, "key")
		switch i % 50 {
		case 7:
			w.enter(v, "key") // the same request
		case 11:
			t = w.enter(v, "another") // moves back
		case 13:
			w.add(queue.Record{Kind: queue.Left, Visitor: v})
			continue
		}
		line = append(line, place{v, t})
		if i%20 == 0 {
			w.wait(1)
		}
	}
	carry := 0.0
	for tick := 0; len(line) > 0; tick++ {
		w.wait(100)
		switch tick {
		case 20:
			w.wait(2500) // Redis is dead, and nobody knows it yet
			epoch = w.claim("issuer-a", queue.ModeDirect)
		case 60:
			epoch = w.claim("issuer-a", queue.ModeRedis)
		}
		carry += 17.5
		take := min(int(carry), len(line))
		carry -= float64(take)
		var people []queue.Person
		for _, p := range line[:take] {
			people = append(people, in(p.v, p.t))
		}
		line = line[take:]
		w.admit(epoch, people...)
	}
	w.add(queue.Record{Kind: queue.Checkpoint, Epoch: epoch, Served: w.recs[len(w.recs)-1].People[0].Ticket})
	served := queue.Ticket(0)
	for _, rec := range w.recs {
		for _, p := range rec.People {
			served = max(served, p.Ticket)
		}
	}
	w.recs[len(w.recs)-1].Served = served
	return w
}
