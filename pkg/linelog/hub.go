package linelog

import "github.com/soonbeon/soonbeon/pkg/queue"

// Hub makes readers that share what they can.
type Hub struct{ log *Log }

// NewHub makes a Hub.
func (l *Log) NewHub() *Hub { return &Hub{log: l} }

// NewReader is Log.NewReader.
func (h *Hub) NewReader(id queue.ID, after queue.Ticket, topicID string) *Reader {
	return h.log.NewReader(id, after, topicID)
}

// Close closes what is shared; readers are closed by whoever made them.
func (h *Hub) Close() {}
