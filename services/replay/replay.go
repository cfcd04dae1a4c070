package replay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
	"github.com/soonbeon/soonbeon/services/follow"
)

// View is a queue's line in Redis; *redisline.View has it.
type View interface {
	Snapshot(ctx context.Context) (*redisline.Snapshot, error)
	Load(ctx context.Context, fold redisline.Fold, opts redisline.LoadOptions) (queue.Ticket, error)
	Apply(ctx context.Context, follows queue.Ticket, recs []queue.Record, topicID string) (seq queue.Ticket, fits bool, err error)
	Seq(ctx context.Context) (queue.Ticket, error)
}

// Step is what is under way.
type Step string

// The steps, as people are shown them.
const (
	Reading    Step = "reading the log"
	Loading    Step = "loading Redis"
	Waiting    Step = "waiting for another load to end"
	CatchingUp Step = "catching up"
)

// Progress is told how far a step is; total is 0 where that is not known. It is called often.
type Progress func(step Step, done, total int64)

func (p Progress) tell(step Step) func(done, total int64) {
	return func(done, total int64) {
		if p != nil {
			p(step, done, total)
		}
	}
}

// ErrKnowsMore says that a view knows of what the log does not; nothing was changed.
var ErrKnowsMore = errors.New("the view in Redis knows more than the log")

// Rebuilt says what a Rebuild did.
type Rebuilt struct {
	Seq              queue.Ticket // where the view is
	Waiting          int64        // as of the load
	Records          int64        // folded
	Folding, Loading time.Duration
}

// The patience of a Rebuild.
const (
	loadTries = 5
	retryWait = 250 * time.Millisecond
)

// Rebuild makes view the line of the log. anyway lets it take the place of a view that knows more than the log: one that was
// built from another topic, or that is further than the log's end.
//
// Errors: ErrKnowsMore; redisline.ErrAway and ErrLost, after some tries; *linelog.TroubleError; linelog.ErrNoQueue.
func Rebuild(ctx context.Context, log follow.Log, view View, id queue.ID, anyway bool, progress Progress) (*Rebuilt, error) {
	seq, err := view.Seq(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	folded, topic, err := follow.Fold(ctx, log, id, follow.FoldOptions{Progress: progress.tell(Reading)})
	if err != nil {
		return nil, err
	}
	if seq > folded.State().Seq && !anyway {
		if _, next, err := log.Bounds(ctx, id); err != nil || seq >= next {
			return nil, errors.Join(err, fmt.Errorf("%w: it has applied ticket %d of queue %s, and the log ends at %d", ErrKnowsMore, seq, id, folded.State().Seq))
		}
	}
	r := &Rebuilt{Waiting: folded.Total(), Records: folded.Counts().Records, Folding: time.Since(began)}
	began = time.Now()
	tell := progress.tell(Loading)
	opts := redisline.LoadOptions{Topic: topic, Back: true, Anyway: anyway, Progress: func(done int64) { tell(done, r.Waiting) }}
	for lost := 0; ; {
		r.Seq, err = view.Load(ctx, folded, opts)
		if err == nil {
			break
		}
		switch {
		case errors.Is(err, redisline.ErrOtherTopic):
			return nil, fmt.Errorf("%w: %w", ErrKnowsMore, err)
		case errors.Is(err, redisline.ErrLoading):
			progress.tell(Waiting)(0, 0)
		default:
			if lost++; lost == loadTries {
				return nil, err
			}
		}
		if err := lifecycle.Pause(ctx, retryWait); err != nil {
			return nil, err
		}
	}
	r.Loading = time.Since(began)
	return r, r.catchUp(ctx, log, view, id, topic, progress.tell(CatchingUp))
}

// catchUp applies what the log has beyond the fold. A projector may do the same at the same time.
func (r *Rebuilt) catchUp(ctx context.Context, log follow.Log, view View, id queue.ID, topic string, tell func(done, total int64)) error {
	_, next, err := log.Bounds(ctx, id)
	if err != nil {
		return err
	}
	for r.Seq+1 < next {
		reader := log.NewReader(id, r.Seq, topic)
		for fits := true; fits && r.Seq+1 < next; {
			recs, err := reader.Next(ctx)
			if err == nil {
				r.Seq, fits, err = view.Apply(ctx, r.Seq, recs, topic)
			}
			if err != nil {
				reader.Close()
				return fmt.Errorf("the view was loaded, and lacks what came meanwhile, which a projector applies: %w", err)
			}
			tell(int64(r.Seq), int64(next-1))
		}
		reader.Close()
	}
	return nil
}

// Hash stands for a visitor where ids must not be shown.
func Hash(v queue.Visitor) string {
	sum := sha256.Sum256([]byte(v))
	return hex.EncodeToString(sum[:4])
}
