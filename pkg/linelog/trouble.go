package linelog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

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
	var b bounds
	if r.hub != nil {
		b = r.hub.bounds(ctx, TopicOf(r.id))
	} else {
		answers, err := r.log.askMany(ctx, []string{TopicOf(r.id)})
		if err != nil {
			return nil, err
		}
		b = answers[TopicOf(r.id)]
	}
	if errors.Is(b.err, errNoTopic) {
		return &TroubleError{Queue: r.id, Kind: Gone, After: r.after}, nil
	}
	if b.err != nil {
		return nil, fmt.Errorf("look at the topic: %w", b.err)
	}
	if r.topicID == "" {
		r.topicID = b.topicID // from here on it has to stay the same, whoever asked
	}
	if b.topicID != r.topicID {
		return &TroubleError{Queue: r.id, Kind: Recreated, After: r.after, TopicID: b.topicID, Wanted: r.topicID}, nil
	}
	return misfit(r.id, r.after, b.first, b.next), nil
}

// bounds is what the brokers say of one topic.
type bounds struct {
	topicID     string
	first, next queue.Ticket
	err         error // errNoTopic among others
}

// askMany asks for many topics at once. An error is that of asking; each topic has one of its own.
func (l *Log) askMany(ctx context.Context, topics []string) (map[string]bounds, error) {
	details, err := l.details(ctx, l.client, topics)
	if err != nil {
		return nil, fmt.Errorf("look at the topics: %w", err)
	}
	there := make([]string, 0, len(topics))
	for topic, d := range details {
		if d.err == nil {
			there = append(there, topic)
		}
	}
	var starts, ends kadm.ListedOffsets
	if len(there) > 0 {
		// The start first: it only grows, so the pair can't say that the log starts after its end.
		if starts, err = l.admin.ListStartOffsets(ctx, there...); err == nil {
			ends, err = l.admin.ListEndOffsets(ctx, there...)
		}
		if err != nil && len(starts) == 0 {
			return nil, fmt.Errorf("look for the bounds of the logs: %w", err)
		}
	}
	out := make(map[string]bounds, len(topics))
	for _, topic := range topics {
		d := details[topic]
		b := bounds{topicID: formatID(d.id), err: d.err}
		if b.err == nil {
			first, firstErr := offsetIn(starts, topic)
			next, nextErr := offsetIn(ends, topic)
			b.first, b.next, b.err = ticketOf(first), ticketOf(next), errors.Join(firstErr, nextErr)
		}
		out[topic] = b
	}
	return out, nil
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
