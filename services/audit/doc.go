// Package audit reads one queue's log and proves from it alone what happened to the people in it.
//
//	log ──records──▶ book   every entry has one fate: admitted, waiting, moved back, kept, retransmitted, absorbed, left, ended, refused
//	         │         │     who was passed, who got in twice, in which order; rate, capacity, pauses, waits, leaders, outages
//	         │         ▼
//	         └─────▶ fold   line.Line, beside it: states, counts and digests of the two must agree
//	                   │
//	Redis ──snapshot──▶ compared, visitor by visitor, with the fold at exactly the record that Redis has applied
//
// What it promises: the book shares no code with the fold but the draw's permutation, which a test holds against its
// description, so a mistake in one shows as a difference between them. Whoever was passed, left out or let in twice is found,
// with the record where it happened. What is only remarkable (gaps that Kafka leaves out, records of a leader that did not lead
// any more, records that can't be read) is told and is not an error. Nothing is written anywhere: not to the log, not to Redis.
// Visitors are named by a short hash.
//
// Where lots were drawn, the order is that of the numbers, and the seed is held against the commitment that was published.
// What operators set over time (Periods) says how many may go in within a second, how many may hold an admission at one time,
// and when nobody may. A change counts from five seconds before to five seconds after its time, since leaders obey it within
// two and clocks differ. Without Periods, and without Rate or MaxActive, all that is told and not judged.
//
// When the log is away or in trouble, Run returns the error and no report: half a proof is none. When Redis is away, the
// report on the log is whole, and says that Redis could not be compared.
//
// What it leaves out: what a log that was trimmed held before its first record; why something happened; what people were
// told (load and drill look from outside). It needs about 200 bytes a record.
//
// Files: audit.go (Run), source.go (where records come from), book.go (the accounting), lots.go and ends.go (the draw and the
// ends of the line in it), fold.go (the fold beside it), pace.go (rate, pauses, outages), active.go (capacity), periods.go (what
// was set), series.go (over time), redis.go, report.go (what was found), text.go, html.go, plot.go.
package audit
