// Package events pushes to those who are next: GET /queue/events, server-sent events for the first hundred of a queue.
//
// Where one stands concerns everybody, and everybody polls for it. The entry token concerns one person, and is brought to that
// person as soon as its record is in the log.
//
//	log ──▶ this process's reading ──somebody was let in──▶ room ──wakes whom it concerns──▶ stream ──▶ event: admitted
//	                                                         │ fifty times a second, one in fifty
//	                                                         └──who was told something that may have changed──▶ event: position
//
//	GET /queue/events ── further back than Near ──▶ 409 not_near, which says when to ask again
//	                  ── too many streams ────────▶ 503 streams_full
//	                  ── else ────────────────────▶ retry, position … position, then admitted or over, and the stream ends
//
// Each event's data is what GET /queue/position would answer, and is asked for in the same way (Answers), with the receipt of the
// event before, so that a number never rises in a stream. The id is the last ticket of the log that was read when the answer was
// made. Who comes back with a Last-Event-ID is told everything anew, by a process that has read as far. There is nothing to make up
// for: an event says all that there is.
//
// What it promises: a token is on its way as soon as this process has read its record; Redis is not asked for it. A position that
// changed is told within a second, and at most once a second. Something is sent every Heartbeat at least. A stream is not a
// place: opening or losing one changes nothing in the line.
//
// # What a stream costs, and what ends it
//
// A stream has the goroutine that net/http gives to its request, and no timer: one goroutine in the process keeps time for all. There
// are at most MaxStreams in the process and PerVisitor for one visitor. A client that does not read is dropped: the kernel
// keeps little for it, and a write that does not end within WriteTimeout ends the stream. Every stream ends after Lasts (clients
// come back by themselves), and all of them at once when the service stops. So that those who lose their streams together don't
// come back together, each is told another time to come back after (retry).
//
// When Redis is away, answers are approximate and go on. When this process can't read the log, streams stay open and stand still.
// While nothing honest can be said, only heartbeats are sent. When the queue is deleted, its streams end.
//
// It leaves out people further back, what operators look at, and events that were missed.
package events
