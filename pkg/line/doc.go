// Package line is the fold of a queue's log, in memory: who waits, in which order, and who was let in.
//
// A Line is a pure function of the records applied to it, whatever the sizes of the batches and wherever a crash fell
// between them, plus what its own leader popped and has not yet met in the log (pending). It serves the embedded
// default, a leader that goes on without Redis, replay and audit. redisline is the same line as a Redis sorted set; the
// conformance suite linetest runs on both.
//
//	records ──▶ Ledger: seq, served, epoch, rule, grants      decides which admissions are valid; three integers
//	              │
//	              ▼
//	            Line: visitor → ticket, keys                  who waits; index gives rank and head
//	              ▲
//	leader  ──────┘ Admit: pops the head into pending
//
// What it promises: Apply is compare-and-set, so records that do not follow what was applied change nothing. An
// admission is valid only with the epoch of the latest claim before it and a ticket above served, whoever wrote it.
// Asking Admit for the same batch again gives the same people. Rank is exact and costs well under a microsecond with a
// million people in line; a waiting visitor costs about 100 bytes.
//
// Where lots were drawn, a person's number stands in the place of the ticket from then on, in all of this package.
//
// It depends on nothing that can die. It is not safe for concurrent use: the owner locks. It leaves out reading the log
// (linelog), pacing (the issuer) and what people are told (position).
package line
