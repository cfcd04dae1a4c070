package drill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// along reads the log while it is written.
type along struct {
	log    *linelog.Log
	id     queue.ID
	after  queue.Ticket // read so far, up to and with it
	reader *linelog.Reader
	line   *timeline
}

// readAlong begins at the log's present end.
func readAlong(ctx context.Context, log *linelog.Log, id queue.ID, line *timeline) (*along, error) {
	_, next, err := log.Bounds(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("where the log ends: %w", err)
	}
	return &along{log: log, id: id, after: next - 1, reader: log.NewReader(id, next-1, ""), line: line}, nil
}

// run reads until ctx ends. The error is that of a log in trouble.
func (a *along) run(ctx context.Context) error {
	for {
		recs, err := a.reader.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the log along: %w", err)
		}
		a.take(recs)
	}
}

func (a *along) take(recs []queue.Record) {
	now := time.Now()
	for i := range recs {
		a.line.record(now, &recs[i])
		a.after = recs[i].Ticket
	}
}

// finish reads on to where the log ends now, after run has ended.
func (a *along) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, finishTime, errors.New("the log gives no more records"))
	defer cancel()
	_, next, err := a.log.Bounds(ctx, a.id)
	for err == nil && a.after < next-1 {
		var recs []queue.Record
		recs, err = a.reader.Next(ctx)
		a.take(recs)
	}
	if err != nil {
		return fmt.Errorf("reading the log to its end: %w", err)
	}
	return nil
}

const finishTime = 20 * time.Second
