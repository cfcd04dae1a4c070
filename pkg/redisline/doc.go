// Package redisline is a queue's line as a Redis sorted set: the same fold as package line, by scripts that each do one
// atomic step. It is a view that anybody may throw away; the log is the truth.
//
//	records ──▶ Apply  (lua/apply.lua)    compare-and-set on seq; INCR score = ticket
//	leader  ──▶ Admit  (lua/admit.lua)    pops the head into pending, the same people for the same batch
//	pollers ──▶ Places (lua/places.lua)   many visitors' exact places of one moment in one call
//	rebuild ──▶ Load   (lua/load.lua)     a folded line, put beside the view, takes its place in one step
//
// Once is apart from all that: it remembers for gates which entry tokens were used.
//
// What it promises: two projectors can't hurt each other, since records that do not follow seq change nothing and the
// answer says where to read on; a script that ran and whose reply was lost can be run again; a script validates before
// its first write, and its first write is one that a full Redis refuses, so a refused script has changed nothing. All
// keys of a queue share the hash tag {queue}, so the view works on a single server, behind Sentinel and in a cluster.
//
// When Redis dies, comes back empty or older, or answers LOADING, READONLY, MISCONF, OOM, BUSY, CLUSTERDOWN or nothing at
// all, every method returns an error that is ErrAway: the view is absent, and that is never read as "nobody waits". The
// client never retries by itself. An older dataset shows by its seq.
//
// It leaves out reading the log, deciding how many may go in (the caller's pacing; the bucket here is the last guard
// against two pacers), and what people are told.
package redisline
