package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Source is one queue's log, read once from its first record.
type Source interface {
	// Bounds returns the ticket of the first record that is still there and that of the next one to be written.
	Bounds(ctx context.Context) (first, next queue.Ticket, err error)
	// Next returns the records that follow those before, one at least, and waits for them.
	Next(ctx context.Context) ([]queue.Record, error)
}

// silence is how long a log may be silent before an end that it promised is given up.
const silence = 20 * time.Second

// LogSource reads a queue's log by linelog. Close it.
type LogSource struct {
	log    *linelog.Log
	id     queue.ID
	reader *linelog.Reader
}

// OfLog is the log of queue id.
func OfLog(log *linelog.Log, id queue.ID) *LogSource { return &LogSource{log: log, id: id} }

// Bounds asks the brokers.
func (s *LogSource) Bounds(ctx context.Context) (first, next queue.Ticket, err error) {
	return s.log.Bounds(ctx, s.id)
}

// Next reads on. A log that says that it goes on and stays silent for 20 s is an error.
func (s *LogSource) Next(ctx context.Context) ([]queue.Record, error) {
	if s.reader == nil {
		first, _, err := s.Bounds(ctx)
		if err != nil {
			return nil, err
		}
		s.reader = s.log.NewReader(s.id, first-1, "")
	}
	wait, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	recs, err := s.reader.Next(wait)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("the log of queue %s was read up to ticket %d, and nothing more came within %v", s.id, s.reader.After(), silence)
	}
	return recs, err
}

// Close ends the connection.
func (s *LogSource) Close() {
	if s.reader != nil {
		s.reader.Close()
	}
}

// OfRecords is a log that is at hand.
func OfRecords(recs []queue.Record) Source { return &records{recs} }

type records struct{ rest []queue.Record }

func (r *records) Bounds(context.Context) (first, next queue.Ticket, err error) {
	if len(r.rest) == 0 {
		return 1, 1, nil
	}
	first, last := r.rest[0].Ticket, r.rest[0].Ticket
	for _, rec := range r.rest {
		last = max(last, rec.Ticket)
	}
	return first, last + 1, nil
}

func (r *records) Next(context.Context) ([]queue.Record, error) {
	n := min(len(r.rest), queue.MaxBatch)
	if n == 0 {
		return nil, errors.New("the records are at their end")
	}
	recs := r.rest[:n]
	r.rest = r.rest[n:]
	return recs, nil
}
