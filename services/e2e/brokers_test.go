package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/soonbeon/soonbeon/pkg/linelog"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/e2e/realservers"
)

// leadingBroker is the one that leads the queue's partition. Broker i of ours has the node id i+1.
func leadingBroker(t testing.TB, kafka *realservers.Cluster, id queue.ID) *realservers.Server {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(kafka.Addrs()...))
	require.NoError(t, err)
	defer client.Close()
	req := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr(linelog.TopicOf(id))
	req.Topics = append(req.Topics, topic)
	res, err := req.RequestWith(t.Context(), client)
	require.NoError(t, err)
	require.Len(t, res.Topics, 1)
	require.Len(t, res.Topics[0].Partitions, 1)
	require.Len(t, res.Topics[0].Partitions[0].Replicas, 3)
	return kafka.Brokers()[res.Topics[0].Partitions[0].Leader-1]
}
