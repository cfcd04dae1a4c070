// Package issuer lets people through, at exactly the rate that the site behind can bear.
//
//	Kafka group ──assigned──▶ claim ──▶ read the log up to the claim ──▶ every interval:
//	                            ▲             ask the view for as many as the pacer allows   (Redis, or a line in memory)
//	                            │             append one Admitted record, acks=all, until acknowledged
//	                            └─ fenced ◀── a newer claim was read, or the view met one
//
// The log elects. A Kafka consumer group says who should lead a queue, and that is only a hint: whoever is assigned appends
// Claimed, and the ticket of that record is the epoch. An Admitted record with another epoch than that of the latest claim
// before it is void for every reader, so a leader that was paused, cut off or declared dead too early can do no harm, with
// no lock service and without Redis. line.Leader keeps the numbers by which the view hands out the same people again when a
// reply was lost, and what was popped in vain to the successor.
//
// What it promises: people are admitted in ticket order, nobody twice; in any second, by the broker's clock, no more than
// the rate and one batch, whatever leaders come and go (Pacer); idle time earns nothing and stalled time no more than one batch. While a
// record waits for its acknowledgement nothing more is popped.
//
// When Redis is away, slow, or behind for 2 s, the leader claims anew and goes on from the line that it keeps by reading the
// log itself: direct mode, at the same rate and in the same order. When Redis has answered for 10 s again, has met the
// leader's own last record, and the last switch is 30 s ago, it claims anew and pops from Redis again (health). When Kafka is
// away it waits with the batch in hand. When it dies, another leads within 6 s, and its popped people are handed out again.
// When it is stopped, it hands over at once. Its own clock may be wrong: times in records are the broker's, by the difference
// seen at the claim.
//
//	        failing for 2 s: claim, mode direct
//	redis ─────────────────────────────────────▶ direct
//	      ◀─────────────────────────────────────
//	        answering for 10 s, caught up, 30 s since the last switch: claim, mode redis
//
// What operators set is in the catalogue, and obeyed at the next tick; what of it the fold depends on (the rule, the draw at the opening,
// the end of the line) the leader writes into the queue's log, by comparing the two. With a capacity it admits no more than there is
// room for by its own reading of the log: nobody else's admissions are valid after its claim, and it waits until it has read its own.
// Where nobody may be let in, or nobody waits, it has no ticks and asks nobody.
//
// It leaves out reading the logs (follow) and the catalogue (catalog), whose owners start and stop them.
package issuer
