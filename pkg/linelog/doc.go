// Package linelog is a queue's log in Kafka: append, read, bounds, checks, and who leads. It is the only importer of
// franz-go.
//
// One queue is one topic of one partition, soonbeon.queue.<id>, and a ticket is a record's offset + 1. One record's way:
//
//	Encode ─▶ Writer.Append ─▶ broker (acks=all, idempotent) ─▶ ticket ─▶ … ─▶ Reader.Next ─▶ Decode ─▶ the fold
//
// What it promises:
//
//   - Append returns a ticket only after the broker's acknowledgement. ErrBusy and ErrNoQueue say that nothing was
//     written; ErrUnknown says that nobody knows: it may stand in the log now, or never.
//   - One caller's cancelled context does not fail another's record that shares its batch, and a context that is already
//     done puts nothing into the buffer.
//   - Waiting records are bounded in number and bytes, and in age: a queue of which the brokers have acknowledged nothing
//     for Config.AppendTimeout is given no more (ErrBusy). So an outage, however long, leaves at most what arrived in its
//     first AppendTimeout to appear in the log after it, behind the back of callers who were told ErrUnknown.
//   - Reader delivers every record in order, each once, and never skips in silence: a log whose start has moved past the
//     reader, that is shorter than what was read, that was deleted or made anew ends it with a *TroubleError.
//   - A Hub's readers promise the same, and share connections as long as little comes: a thousand idle queues cost a few
//     hundredths of a core, broker included. A reader that doesn't ask, or has much to read, holds up none of the others, and at most a
//     few hundred records are held for it.
//   - A record that cannot be read is delivered as queue.Skipped. It uses up its ticket and stays in the log for inspection.
//   - A Membership has lost called for everything that it had assigned, and takes in what Set adds and removes while it lives.
//   - CatalogWriter.Edit is compare-and-set over the whole catalogue, and writes an entry and its change both or not at all.
//     Whether an edit whose answer was lost counts, it finds out by itself, as long as its context lasts.
//   - A CatalogReader and Changes tell only what was committed; what cannot be read is told and kept, and an edit keeps what a
//     newer version has written.
//
// When the brokers are away: Append answers ErrUnknown after AppendTimeout, and then ErrBusy at once;
// AppendUntil, Next and Edit wait; Bounds, Topic, EnsureQueue, CatalogEnd, Changes and CheckProduction return the error; a
// Membership loses its queues after its session and gets them back by itself. All go on within a few seconds of the brokers'
// return.
//
// What it leaves out: what records mean (line, redisline), who may write them (the services), and transactions in a queue's
// log. A membership is not a lock: two members can believe for a moment that they lead the same queue. The log decides between
// them by epoch.
//
// Files: codec.go and wire.go (bytes), log.go and queues.go (topics), production.go (broker settings), client.go (connections),
// writer.go, lanes.go and limits.go, reader.go, source.go and trouble.go, hub.go and shared.go, group.go, metrics.go; of the
// catalogue, catalog.go (topics, reading), catalogwriter.go, catalogcodec.go, and committed.go (reading what is written in
// transactions).
//
// What isn't obvious:
//
//   - All writers of the catalogue share one transactional id. Who begins with it shuts out all others and has whatever they had
//     begun ended, so that what is read then is everything; and as long as a writer is not shut out itself, nobody else has
//     written, so it need not read again. In the broker's log an aborted record and the marks that end transactions use up
//     positions, so versions of entries have gaps.
//   - A queue that joins a shared connection waits for the fetch that is under way there, up to half a second. A queue that shares
//     already doesn't: what comes to it ends the fetch.
//   - The topics of a shared connection join and leave between two polls, and one that left is forgotten by the client before it
//     joins again, so no record reaches a reader that was not asked for from where it stands.
//   - A group's members need not know of the same queues at the same time: each is given only of those that it knows of.
//   - franz-go drops a record for its age (RecordDeliveryTimeout) only where it is the first of its queue and was never
//     sent, and everything that waits behind it with it, younger ones too. Whatever was sent without an answer is kept,
//     and sent again under the same sequence number: that is why it stands in the log once.
//   - The broker's append time is not part of an acknowledgement in franz-go. What AppendUntil returns is the time that
//     this process stamped the record with; readers see the broker's.
//   - A queue that is deleted and made anew while a Writer lives answers ErrNoQueue until Writer.Forget. Writers do not adopt
//     the new one quietly; checking ids (Topic) is the services' duty.
package linelog
