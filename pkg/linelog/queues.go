package linelog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// Queues lists the queues that have a topic, in order of their ids.
func (l *Log) Queues(ctx context.Context) ([]queue.ID, error) {
	topics, err := l.admin.ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the queues: %w", err)
	}
	var ids []queue.ID
	for _, d := range topics {
		name, ours := strings.CutPrefix(d.Topic, topicPrefix)
		if id, err := queue.ParseID(name); ours && err == nil && d.Err == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// DeleteQueue deletes the queue's topic with everything in it, and returns when the brokers don't know it any more. That
// there is none is no error. A Writer that lives on has to Forget the queue before another of its name can be appended to.
func (l *Log) DeleteQueue(ctx context.Context, id queue.ID) error {
	_, err := l.admin.DeleteTopic(ctx, TopicOf(id))
	switch {
	case err == nil:
		l.logger.Info("deleted a queue's topic", zap.String("queue", string(id)))
	case !errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("delete queue %s: %w", id, err)
	}
	for fails := 1; ; fails++ {
		_, err := l.detail(ctx, id)
		if errors.Is(err, ErrNoQueue) {
			return nil
		}
		if slept := sleep(ctx, backoff(fails)); slept != nil {
			return fmt.Errorf("wait until queue %s is deleted: %w", id, errors.Join(slept, err))
		}
	}
}
