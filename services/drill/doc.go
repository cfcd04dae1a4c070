// Package drill rehearses an outage of Redis in front of people: it puts a crowd before a waiting room, breaks what the
// operator names, mends it again, watches all the while from outside, and then audits the log. It is the engine of
// "soonbeon drill".
//
//	crowd (load) ──────────▶ target ◀────────── pollers: ask once a second; exact or approximate? any error?
//	break, mend (sh -c, or SIGKILL to the drill's own Redis)      │
//	log (read along): who leads, from which view, the pauses ─────┤
//	                                                              ▼
//	                               timeline, line by line ─▶ audit ─▶ page (audit's, with the drill's section)
//
// Without a target it brings up its own: the whole system in this process on an embedded log in a temporary folder, and a
// real redis-server on a loopback port, which it kills with SIGKILL and starts again, empty or with its data.
//
// What it promises: it ends by itself, at the latest after Config.Timeout and the time of one command. What was broken is
// mended before it returns, also when it is interrupted or fails. Only what an outsider can see counts as seen: a position
// is approximate because somebody was told so. What the log says along the way is for the timeline; what is judged is the
// audit's reading of it. Every acknowledged entry must be in the log that is audited, so the wrong log is no proof.
//
// When the target dies, people try again and the errors are in the report; when the log can't be read, there is no audit
// and the drill says so (an error). A break command that fails ends the drill: there would be nothing to see. A mend
// command that fails is told at once, and the drill goes on watching; somebody may mend by hand.
//
// Report.ExitCode is 1 when a promise was broken: the audit's, the crowd's, a poller's, or an error that no document
// names. It is 3 when nothing was broken and the rehearsal was not whole: a command failed, the outage or its end was not
// seen, time was up.
//
// What it leaves out: breaking anything by itself on a system that is not its own; whether an approximate position was
// above the truth at that moment (outsiders can't know; position's own tests do).
//
// Files: config.go, drill.go (the run), own.go and redis.go (the drill's own system), command.go (break and mend),
// poller.go (the watchers), timeline.go (what is seen, in words; pure), along.go (reading the log along), report.go,
// html.go.
package drill
