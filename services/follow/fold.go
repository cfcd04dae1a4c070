package follow

import (
	"context"

	"github.com/soonbeon/soonbeon/pkg/line"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// FoldOptions of Fold. The zero value folds everything.
type FoldOptions struct {
	// To says whether the fold goes as far as rec; with the first record of which it is false the fold ends. nil: to the end.
	To func(rec *queue.Record) bool
	// Progress is called after each batch with how many tickets were read, and of how many.
	Progress func(done, total int64)
}

// Fold reads a queue's log from its first record to where it ended when Fold was called, into a line in memory: about 100
// bytes for each who waits. topic is the id of the topic that was read. While the brokers are away it waits. Errors:
// *linelog.TroubleError, also where the log does not begin with its first record any more; linelog.ErrNoQueue; those of ctx.
func Fold(ctx context.Context, log Log, id queue.ID, opts FoldOptions) (folded *line.Line, topic string, err error) {
	if topic, err = log.Topic(ctx, id); err != nil {
		return nil, "", err
	}
	_, next, err := log.Bounds(ctx, id)
	if err != nil {
		return nil, "", err
	}
	folded = line.New()
	return folded, topic, FoldOn(ctx, log, id, topic, folded, next-1, opts)
}

// FoldOn goes on with folded, which is of the topic with this id, until it has folded all up to ticket to, which is in the
// log.
func FoldOn(ctx context.Context, log Log, id queue.ID, topic string, folded *line.Line, to queue.Ticket, opts FoldOptions) error {
	if folded.State().Seq >= to {
		return nil
	}
	r := log.NewReader(id, folded.State().Seq, topic)
	defer r.Close()
	for folded.State().Seq < to {
		recs, err := r.Next(ctx)
		if err != nil {
			return err
		}
		n := 0
		for n < len(recs) && recs[n].Ticket <= to && (opts.To == nil || opts.To(&recs[n])) {
			n++
		}
		folded.Apply(folded.State().Seq, recs[:n])
		if n < len(recs) {
			return nil
		}
		if opts.Progress != nil {
			opts.Progress(int64(folded.State().Seq), int64(to))
		}
	}
	return nil
}
