package linelog

import (
	"context"
	"fmt"
	"slices"
	"strings"

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
