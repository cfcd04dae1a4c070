// Package follow is a process's own reading of a queue's log: what the issuer decides by and what position nodes answer
// from, whatever becomes of Redis.
//
//	linelog.Reader ──records──▶ Follower ──▶ line.Ledger        served, epoch, rule, grants
//	                                    └──▶ line.Line          also who waits, where asked for (the view without Redis)
//
// What it promises: what it knows is a prefix of the log, folded in order; it only moves forward. WaitFor returns once a
// ticket has been folded, so that a leader acts only after it has read its own claim. Readers do not wait for each other.
//
// When the brokers are away it keeps what it knows and goes on by itself when they return; Fresh says how far it was a
// moment ago, so that a view can be told to be behind. When the log itself is in trouble (trimmed, shorter than what was
// read, another topic) it stops where it is, says so once in the log and by Trouble, and never skips.
//
// It leaves out writing, and deciding what people are told.
package follow
