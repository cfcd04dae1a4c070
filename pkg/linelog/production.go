package linelog

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// CheckProduction compares the queues' topics with what a production needs so that an acknowledged record survives the
// loss of a broker: three replicas, two of them in sync for each acknowledgement, and no unclean election. Everything that
// does not fit is returned at once, as joined *SettingError values.
func (l *Log) CheckProduction(ctx context.Context, ids ...queue.ID) error {
	var errs []error
	for _, id := range ids {
		d, err := l.detail(ctx, id)
		if err != nil {
			errs = append(errs, fmt.Errorf("look up queue %s: %w", id, err))
			continue
		}
		if err := l.checkFit(ctx, id, d); err != nil {
			errs = append(errs, err)
		}
		errs = append(errs, l.checkDurable(ctx, d))
	}
	return errors.Join(errs...)
}

// CheckCatalogProduction does the same for the topics of the catalogue, which EnsureCatalog has made.
func (l *Log) CheckCatalogProduction(ctx context.Context) error {
	var errs []error
	for _, topic := range []string{catalogTopic, changesTopic} {
		d, err := l.detailOf(ctx, l.client, topic)
		if err != nil {
			errs = append(errs, fmt.Errorf("look up topic %s: %w", topic, err))
			continue
		}
		errs = append(errs, l.checkDurable(ctx, d))
	}
	return errors.Join(errs...)
}

// checkDurable compares a topic with what survives the loss of a broker.
func (l *Log) checkDurable(ctx context.Context, d topicDetail) error {
	var errs []error
	of := "topic " + d.name
	if len(d.partitions) > 0 && len(d.partitions[0].Replicas) < 3 {
		errs = append(errs, &SettingError{of, "replication factor", strconv.Itoa(len(d.partitions[0].Replicas)), "3 or more",
			"reassign the partition to three brokers with kafka-reassign-partitions"})
	}
	values, err := l.topicConfig(ctx, d.name)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	if n, err := strconv.Atoi(values["min.insync.replicas"]); err != nil || n < 2 {
		errs = append(errs, &SettingError{of, "min.insync.replicas", shown(values["min.insync.replicas"]), "2 or more",
			"set it with kafka-configs --alter: with 1, a record can be acknowledged and stand on one disk only"})
	}
	if v := values["unclean.leader.election.enable"]; v != "false" {
		errs = append(errs, &SettingError{of, "unclean.leader.election.enable", shown(v), "false",
			"set it with kafka-configs --alter: an unclean election forgets acknowledged records"})
	}
	return errors.Join(errs...)
}

func shown(v string) string {
	if v == "" {
		return "not set"
	}
	return v
}
