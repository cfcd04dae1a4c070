// Package enter takes people into a queue, and out of it: POST /queue/enter and POST /queue/leave, and lets the site say that
// somebody whom it let in is done: POST /queue/complete.
//
// It decides who asks and what is written; the log decides the rest. It keeps nothing between two requests, so any number
// of nodes may run, and a visitor may be served by another one each time.
//
//	who asks                                            visitor
//	a receipt, as Bearer or cookie                      the receipt's
//	a token that the site signed (mode signed)          its subject
//	nobody, but an Idempotency-Key (mode anonymous)     made from queue and key, so that a retry is the same visitor
//	nobody at all (mode anonymous)                      a fresh one
//	a live entry token of this queue, as Bearer         nothing is written: 200 admitted
//
// Completing is the site's: it shows a credential of its own, and the entry token that it was shown. The record names the
// admission, so asking again, or late, or for an admission that was followed by another, can free no other slot.
//
// The 202 says how the queue stands and a bound of the place, by the names of GET /queue/position, so that there is something to be
// read before the first poll; the bound rides in the receipt. Before a draw there is none.
//
// A queue that takes nobody in is 410 with the reason and what its operators say, for retransmissions too. A token of an earlier queue of the same name is
// refused as if it were forged.
//
// What it promises: a 2xx that accepts is sent only after the broker's acknowledgement, and nothing is written for a
// request that is answered by a 4xx. An id in a body or in a URL is never a credential. The raw Idempotency-Key is neither
// stored nor logged: records carry a digest of it, by which the fold tells a retransmission from a refresh.
//
// When the log dies: 503 with Retry-After within 3 seconds. log_unavailable means that the entry may have been written
// all the same, so a client retries with the same Idempotency-Key and has one place whatever happened; overloaded means
// that nothing was written. Redis plays no part.
//
// A cookie that no longer holds is answered by 401 and not forgotten: a node that lacks a key must not make browsers
// throw their places away. POST /queue/leave is the way to be rid of it.
//
// What it leaves out: whether the queue is open yet (people may enter before), limits for each address (a proxy's), and what a
// queue's settings may change about identity. Entries that race with the closing of a queue may still be written, and then
// wait like others, or take no place where the line was ended. docs/decisions/0002-idempotent-first-entry.md tells why visitors are made from keys.
package enter
