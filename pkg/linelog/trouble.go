package linelog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

const (
	// confirmAfter is how long a trouble has to last before it is believed. A broker that has just started can be behind
	// the others about which topics there are and where they end.
	confirmAfter = 300 * time.Millisecond
	// goneAfter is the same for a topic that is not there: right after it was made, some brokers don't know it yet.
	goneAfter = time.Second
)

// look asks the brokers whether the log still fits what was read: nil, a *TroubleError seen twice, or why they could not
// be asked.
func (r *Reader) look(ctx context.Context) error {
	first, err := r.lookOnce(ctx)
	if err != nil || first == nil {
		r.lastLook = time.Now()
		return err
	}
	wait := confirmAfter
	if first.Kind == Gone {
		wait = goneAfter
	}
	if err := sleep(ctx, wait); err != nil {
		return err
	}
	again, err := r.lookOnce(ctx)
	r.lastLook = time.Now()
	if err != nil || again == nil {
		return err
	}
	return again
}

func (r *Reader) lookOnce(ctx context.Context) (*TroubleError, error) {
	d, err := r.log.detail(ctx, r.id)
	if errors.Is(err, ErrNoQueue) {
		return &TroubleError{Queue: r.id, Kind: Gone, After: r.after}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at the topic: %w", err)
	}
	now := formatID(d.id)
	if r.topicID == "" {
		r.topicID = now // from here on it has to stay the same, whoever asked
	}
	if now != r.topicID {
		return &TroubleError{Queue: r.id, Kind: Recreated, After: r.after, TopicID: now, Wanted: r.topicID}, nil
	}
	first, next, err := r.log.Bounds(ctx, r.id)
	if err != nil {
		return nil, err
	}
	return misfit(r.id, r.after, first, next), nil
}

// misfit compares bounds with the last ticket read; nil if the next record can be read, or will be.
func misfit(id queue.ID, after, first, next queue.Ticket) *TroubleError {
	switch {
	case after+1 < first:
		return &TroubleError{Queue: id, Kind: Trimmed, After: after, First: first, Next: next}
	case after+1 > next:
		return &TroubleError{Queue: id, Kind: Short, After: after, First: first, Next: next}
	}
	return nil
}
