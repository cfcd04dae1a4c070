package projector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/pkg/redisline"
	"github.com/soonbeon/soonbeon/services/follow"
)

// Loader is a View that can take a whole line at once; *redisline.View is one. Others are only applied to.
type Loader interface {
	Loading(ctx context.Context) (bool, error)
	Load(ctx context.Context, fold redisline.Fold, opts redisline.LoadOptions) (seq queue.Ticket, err error)
}

// DefaultFarBehind is Config.FarBehind where nothing is said: less is applied within a second.
const DefaultFarBehind = 100_000

// maxLoads is how often a load may fail one after another before the view is applied to all the same: one that has no room for
// two lines still has room for one.
const maxLoads = 3

// rebuild folds the log and loads the view with it where that is the faster way, and returns how far the view is then.
func (p *projection) rebuild(ctx context.Context, seq queue.Ticket, topic string) (queue.Ticket, error) {
	view, ok := p.view.(Loader)
	if !ok || p.failedLoads >= maxLoads {
		return seq, nil
	}
	first, next, err := p.log.Bounds(ctx, p.id)
	if err != nil {
		return 0, err
	}
	// Folding takes the whole log, from its first record; it is some times as fast as applying what the view lacks.
	missing := int64(next - 1 - seq)
	if missing <= p.far || missing < int64(next)/4 || first > 1 {
		return seq, nil
	}
	if loading, err := p.loading(ctx, view); err != nil || loading {
		return 0, errors.Join(err, redisline.ErrLoading) // what it loads would be applied in vain
	}
	began := time.Now()
	p.logger.Info("the view is far behind; folding the log to load it at once", zap.Int64("seq", int64(seq)), zap.Int64("missing", missing))
	// A fold whose load failed is kept for the next try: Redis may come and go.
	if p.folded == nil || p.foldedOf != topic {
		if p.folded, p.foldedOf, err = follow.Fold(ctx, p.log, p.id, follow.FoldOptions{}); err != nil {
			p.folded = nil
			return 0, err
		}
		if p.foldedOf != topic {
			return 0, fmt.Errorf("the topic of queue %s was made anew while its log was being folded", p.id)
		}
	} else if err := follow.FoldOn(ctx, p.log, p.id, topic, p.folded, next-1, follow.FoldOptions{}); err != nil {
		return 0, err
	}
	folded, foldedIn := p.folded, time.Since(began)
	seq, err = view.Load(ctx, folded, redisline.LoadOptions{Topic: topic})
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, redisline.ErrLoading) {
			if p.failedLoads++; p.failedLoads == maxLoads {
				p.folded = nil
				p.logger.Warn("the view can't be loaded; applying instead", zap.Error(err))
			}
		}
		return 0, err
	}
	p.folded = nil
	p.metrics.loads.WithLabelValues(string(p.id)).Inc()
	p.metrics.seq.WithLabelValues(string(p.id)).Set(float64(seq))
	p.logger.Info("the view was loaded", zap.Int64("seq", int64(seq)), zap.Int64("waiting", folded.Total()),
		zap.Duration("folded_in", foldedIn.Round(time.Millisecond)), zap.Duration("took", time.Since(began).Round(time.Millisecond)))
	return seq, nil
}

func (p *projection) loading(ctx context.Context, view Loader) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return view.Loading(ctx)
}
