// Package projector applies each queue's log to its Redis view, in order, each record once.
//
//	Kafka group ──assigned──▶ seq of the view ──▶ read the log from there ──▶ apply, compare-and-set on seq ─┐
//	                              ▲                                                                          │
//	                              └──── the batch did not follow: read on from the seq that Redis says ◀─────┘
//
// The view itself says how far it is, so nothing is committed to Kafka and a crash anywhere loses and repeats nothing: not
// between the script and whatever comes after it, not with a second projector on the same queue, not when Redis comes back
// empty or with an older dataset. The group only saves work.
//
// A view that lacks more than Config.FarBehind records, which is most of the log, is not applied to: the log is folded in memory
// and the view loaded with it at once (redisline.View.Load). Whatever view there is serves until then.
//
// When Redis is away it asks again, every half second, and changes nothing; when it returns, the view catches up from its own
// seq. When the log is in trouble (trimmed past what was applied, shorter than what was applied, another topic) it
// refuses, says so in the log and in readiness, and leaves the view as it is: skipping would lose people without a word.
//
// It leaves out deciding anything, and a view that is wrong though it says that it is up to date: `soonbeon replay` looks for
// that and mends it.
package projector
