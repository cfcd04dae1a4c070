// Package replay rebuilds a queue's line from its log: into Redis, into memory as it was at some moment, or beside Redis to
// find where the two differ. It is the engine of `soonbeon replay`.
//
//	log ──▶ follow.Fold ──▶ line.Line ──┬──▶ Rebuild: load Redis at once, then apply what came meanwhile
//	                                    ├──▶ Compare: fold to exactly where Redis is, and find what differs
//	                                    └──▶ Then:    the line at a time or a ticket
//
// What it promises: Rebuild is safe while leaders, projectors and pollers run, and beside another Rebuild: the view that is
// there serves until the new one takes its place in one step, and then has gone back in time by as long as the load took, which
// everybody already knows how to meet. It refuses a view that knows of people whom the log does not (another topic, or further
// than the log's end), unless told otherwise. Compare and Then change nothing.
//
// When Redis or the brokers go away: Rebuild begins anew a few times and then returns the error, with the view as it was;
// reading the log waits for the brokers. A log whose beginning is gone can't be replayed: that is an error.
//
// It leaves out who may be told raw visitor ids: what it returns for people has short hashes (Hash).
package replay
