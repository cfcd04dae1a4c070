package linetest

import "github.com/soonbeon/soonbeon/pkg/queue"

func (h *history) caps() { h.most = []int64{0, 1, 2, 3, 5}[h.src.Intn(5)] }

func (h *history) pauses() { h.paused = !h.paused && h.chance(50) }

func (h *history) closes() { h.closed = !h.closed && h.chance(30) }

// draws opens by lot; a zombie's, and whatever follows the first, is void.
func (h *history) draws() {
	is := h.leading()
	if is == nil || is.held || len(is.lead.Held()) > 0 {
		return
	}
	rec := queue.Record{Kind: queue.Drawn, Epoch: is.lead.Epoch()}
	for i := range rec.Seed {
		rec.Seed[i] = byte(h.src.Intn(256))
	}
	is.lead.Changed(h.append(rec))
	h.tally.Draws++
}

// ends ends the line, or reopens it.
func (h *history) ends() {
	is := h.leading()
	if is == nil || is.held || len(is.lead.Held()) > 0 {
		return
	}
	if h.chance(60) {
		is.lead.Changed(h.append(queue.Record{Kind: queue.Reopened, Epoch: is.lead.Epoch()}))
		return
	}
	is.lead.Changed(h.append(queue.Record{Kind: queue.Ended, Epoch: is.lead.Epoch(), Why: []string{queue.WhySoldOut, queue.WhyClosed}[h.src.Intn(2)]}))
	h.tally.Ends++
	if h.chance(70) { // else most of a history would play before a closed door
		is.lead.Changed(h.append(queue.Record{Kind: queue.Reopened, Epoch: is.lead.Epoch()}))
	}
}

// leading is the leader, or now and then one that only believes so; nil where that one never claimed.
func (h *history) leading() *issuer {
	i := h.leader
	if h.chance(20) {
		i = h.src.Intn(3)
	}
	if h.issuers[i].lead == nil {
		return nil
	}
	return &h.issuers[i]
}
