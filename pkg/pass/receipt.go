package pass

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Receipt is what a visitor holds while waiting: the only way to act for a place in line.
type Receipt struct {
	Queue    queue.ID
	Visitor  queue.Visitor
	Ticket   queue.Ticket // that was entered with, 1 or more; never a number drawn in its place
	Ahead    int64        // how many were told to be ahead at the most, last; queue.NoAhead where nothing was told
	IssuedMs int64        // Unix milliseconds, 0 to the end of the year 9999

	Made  int64        // queue.Entry.Made of the queue that it was issued by; 0 where that is not known: receipts of older versions
	Sure  bool         // an exact answer has found that Ticket is the one that counts, and no earlier one of the same visitor
	Drawn queue.Ticket // queue.Draw.At as it was known when Ahead was told; 0 where lots had not been drawn
}

// SignReceipt makes the token of r, less than half of MaxToken long. It fails only for a field out of its range.
func (k *Keys) SignReceipt(r Receipt) (string, error) {
	err := checkFields(r.Queue, r.Visitor, r.Ticket)
	switch {
	case err != nil:
	case r.Ahead < 0 && r.Ahead != queue.NoAhead:
		err = fmt.Errorf("ahead is %d", r.Ahead)
	case r.IssuedMs < 0 || r.IssuedMs > maxMs:
		err = fmt.Errorf("issued at %d ms", r.IssuedMs)
	case r.Made < 0 || r.Drawn < 0:
		err = fmt.Errorf("made %d, drawn %d", r.Made, r.Drawn)
	}
	if err != nil {
		return "", fmt.Errorf("sign a receipt: %w", err)
	}
	return k.receipt.first.sign(func(b []byte) []byte {
		b = appendWho(b, receiptKind, r.Queue, r.Visitor)
		b = appendDate(append(b, `,"iat":`...), r.IssuedMs)
		b = strconv.AppendInt(append(b, `,"ticket":`...), int64(r.Ticket), 10)
		if r.Ahead != queue.NoAhead {
			b = strconv.AppendInt(append(b, `,"ahead":`...), r.Ahead, 10)
		}
		if r.Made != 0 {
			b = strconv.AppendInt(append(b, `,"made":`...), r.Made, 10)
		}
		if r.Sure {
			b = append(b, `,"sure":true`...)
		}
		if r.Drawn != 0 {
			b = strconv.AppendInt(append(b, `,"drawn":`...), int64(r.Drawn), 10)
		}
		return append(b, '}')
	}), nil
}

// VerifyReceipt checks a receipt for queue q. Receipts do not expire. It fails with ErrInvalid or ErrOtherQueue.
func (k *Keys) VerifyReceipt(token string, q queue.ID) (Receipt, error) {
	var c claims
	if err := k.receipt.verify(token, &c); err != nil {
		return Receipt{}, fmt.Errorf("receipt: %w", err)
	}
	r, err := receiptOf(&c, q)
	if err != nil {
		return Receipt{}, fmt.Errorf("receipt: %w", err)
	}
	return r, nil
}

func receiptOf(c *claims, q queue.ID) (Receipt, error) {
	id, err := queueOf(c, receiptKind)
	if err != nil {
		return Receipt{}, err
	}
	r := Receipt{Queue: id, Visitor: c.Subject, Ticket: queue.Ticket(c.Ticket), Ahead: queue.NoAhead, IssuedMs: c.IssuedAt.ms,
		Made: c.Made, Sure: c.Sure, Drawn: queue.Ticket(c.Drawn)}
	if c.Ahead != nil {
		r.Ahead = *c.Ahead
	}
	switch {
	case queue.CheckVisitor(r.Visitor) != nil:
		return Receipt{}, errSubject
	case r.Ticket < 1 || !c.IssuedAt.set || c.Ahead != nil && r.Ahead < 0 || r.Made < 0 || r.Drawn < 0:
		return Receipt{}, errClaims
	case id != q:
		return Receipt{}, ErrOtherQueue
	}
	return r, nil
}

func checkFields(id queue.ID, v queue.Visitor, t queue.Ticket) error {
	if _, err := queue.ParseID(string(id)); err != nil {
		return err
	}
	if err := queue.CheckVisitor(v); err != nil {
		return err
	}
	if t < 1 {
		return fmt.Errorf("a ticket is 1 or more, not %d", t)
	}
	return nil
}

// appendWho begins a payload. The visitor was checked, so that it is UTF-8 and quoting cannot fail.
func appendWho(b []byte, k kind, id queue.ID, v queue.Visitor) []byte {
	b = append(b, `{"aud":"`...)
	b = append(b, k.audience()...)
	b = append(b, id...)
	b = append(b, `","sub":`...)
	b, _ = jsontext.AppendQuote(b, v)
	return b
}

// queueOf reads the queue from the audience.
func queueOf(c *claims, k kind) (queue.ID, error) {
	s, ok := strings.CutPrefix(c.Audience, k.audience())
	if !ok {
		return "", errAudience
	}
	id, err := queue.ParseID(s)
	if err != nil {
		return "", errAudience
	}
	return id, nil
}
