// Package position tells people where they stand, and hands them their entry token when it is their turn.
//
//	GET /queue/position ──receipt──▶ the log's own reading: admitted?  ──yes──▶ entry token
//	                                        │ no
//	                                        ▼
//	                                 the view (Redis, many questions in one call; or a line in memory)
//	                                  exact: it answers, has applied this ticket, and is not behind
//	                                  else approximate: ticket − 1 − served, and never above the last exact answer
//	GET /queue/draw ──▶ the commitment; after the opening the seed, by which anybody can check the lots
//
// A node follows the log itself (package follow) and answers from it who was admitted, so a token is shown only once its
// record is in the log and valid, and Redis is not asked for it. What operators say of a queue is looked up for each answer,
// so that a change is told with the next one.
//
// What it promises: an exact number is the truth of one moment of the log; an approximate one is never below the truth; a
// number does not rise while its holder only polls with the newest receipt; position is at least 1 and at most total.
// Who was admitted is told so at once and is never limited or delayed here.
//
// # Tickets and numbers
//
// Where lots are drawn, what counts is the number drawn and not the ticket. Receipts, and Seq, stay with tickets; places,
// grants and served are numbers (lot.go). Before the draw nobody is told a place, since there is none. After it a number
// known by the log alone needs a receipt that is sure: one that an exact answer renewed, so that no earlier ticket of the
// same visitor may be the one that counts. For others the only honest bound is that of the last number drawn. A receipt
// remembers that it knew of the draw, so that a node that has not read it yet does not tell a place by ticket.
//
// # When something is away
//
// When Redis is away, slow or behind, answers are approximate and say so, and the wait is reckoned at the conservative rate.
// After a question that failed, Redis is left alone for a moment and then asked by one request only, so that a Redis that
// hangs costs one request its time-out and not all. When this node can't read the log, what it knows stands still. What can't
// be told honestly (a place that was moved by another entry while Redis is away) is a 503, not an invented number. That a line
// was ended is told by the log alone.
//
// It leaves out pushing (package events does that, by Tell), pages, and going on counting served while the log can't be read. Of somebody
// whose grant was forgotten, or who left, before the line was ended it says that the line was ended.
package position
