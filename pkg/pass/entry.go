package pass

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Entry is an admission as the gate sees it: who may go in, and until when.
type Entry struct {
	Queue      queue.ID
	Visitor    queue.Visitor
	Ticket     queue.Ticket // 1 or more, the number that was drawn where lots were; queue and ticket together are the token's jti
	AdmittedMs int64        // Unix milliseconds, 0 or more
	ExpiresMs  int64        // Unix milliseconds, after AdmittedMs, at most the end of the year 9999
	Made       int64        // queue.Entry.Made of the queue that admitted; 0 where that is not known: tokens of older versions
}

// SignEntry makes the token of e, less than half of MaxToken long. The same Entry gives the same token, so that a
// visitor who asks twice holds one. It fails only for a field out of its range.
func (k *Keys) SignEntry(e Entry) (string, error) { return k.entry.signEntry(e) }

func (r *ring) signEntry(e Entry) (string, error) {
	err := checkFields(e.Queue, e.Visitor, e.Ticket)
	if err == nil && (e.AdmittedMs < 0 || e.ExpiresMs <= e.AdmittedMs || e.ExpiresMs > maxMs) {
		err = fmt.Errorf("admitted from %d to %d ms", e.AdmittedMs, e.ExpiresMs)
	}
	if err == nil && e.Made < 0 {
		err = fmt.Errorf("made %d", e.Made)
	}
	if err != nil {
		return "", fmt.Errorf("sign an admission as a token (%s): %w", r.kind, err)
	}
	return r.first.sign(func(b []byte) []byte {
		b = appendWho(b, r.kind, e.Queue, e.Visitor)
		b = append(append(append(b, `,"jti":"`...), e.Queue...), '/')
		b = strconv.AppendInt(b, int64(e.Ticket), 10)
		b = appendDate(append(b, `","iat":`...), e.AdmittedMs)
		b = appendDate(append(b, `,"exp":`...), e.ExpiresMs)
		if e.Made != 0 {
			b = strconv.AppendInt(append(b, `,"made":`...), e.Made, 10)
		}
		return append(b, '}')
	}), nil
}

// VerifyEntry checks an entry token for queue q at the time now, give or take Leeway. It fails with ErrInvalid,
// ErrOtherQueue, ErrNotYet or ErrExpired, in this order where several are true.
func (k *Keys) VerifyEntry(token string, q queue.ID, now time.Time) (Entry, error) {
	return k.entry.readEntry(token, func(c *claims) (Entry, error) { return entryOf(c, entryKind, q, now) })
}

// ReadEntry checks an entry token for queue q as VerifyEntry does, whatever the time: it tells who was let in, and not that
// they may go in. It fails with ErrInvalid or ErrOtherQueue.
func (k *Keys) ReadEntry(token string, q queue.ID) (Entry, error) {
	return k.entry.readEntry(token, func(c *claims) (Entry, error) { return entryFor(c, entryKind, q) })
}

func (r *ring) readEntry(token string, judge func(*claims) (Entry, error)) (Entry, error) {
	var c claims
	if err := r.verify(token, &c); err != nil {
		return Entry{}, fmt.Errorf("%s token: %w", r.kind, err)
	}
	e, err := judge(&c)
	if err != nil {
		return Entry{}, fmt.Errorf("%s token: %w", r.kind, err)
	}
	return e, nil
}

// entryOf judges claims at the time now.
func entryOf(c *claims, kind kind, q queue.ID, now time.Time) (Entry, error) {
	e, err := entryFor(c, kind, q)
	if err == nil {
		err = c.at(now)
	}
	if err != nil {
		return Entry{}, err
	}
	return e, nil
}

// entryFor judges claims for queue q, whatever the time.
func entryFor(c *claims, kind kind, q queue.ID) (Entry, error) {
	id, err := queueOf(c, kind)
	if err != nil {
		return Entry{}, err
	}
	if queue.CheckVisitor(c.Subject) != nil {
		return Entry{}, errSubject
	}
	digits, ok := strings.CutPrefix(c.ID, string(id)+"/")
	if !ok {
		return Entry{}, errClaims
	}
	// One spelling for a ticket, since whoever lets a jti in once compares it as text.
	ticket, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || ticket < 1 || strconv.FormatInt(ticket, 10) != digits || !c.IssuedAt.set || c.Made < 0 {
		return Entry{}, errClaims
	}
	if err := c.lifetime(); err != nil {
		return Entry{}, err
	}
	if id != q {
		return Entry{}, ErrOtherQueue
	}
	return Entry{
		Queue: id, Visitor: c.Subject, Ticket: queue.Ticket(ticket), AdmittedMs: c.IssuedAt.ms, ExpiresMs: c.ExpiresAt.ms,
		Made: c.Made,
	}, nil
}
