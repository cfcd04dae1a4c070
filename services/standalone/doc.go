// Package standalone assembles the services into a process: all of them, which is the newcomer's default, or one, which
// is what production runs. It is the only place where they meet, and all their parts come together in New, on one screen.
//
//	embedded log ─▶ log ─▶ catalogue ─▶ lines: a follower a queue ─▶ projector, issuer ─▶ private port ─▶ public port (enter, position)
//
// Without Kafka's address the log is embedded, in the data folder. Without Redis' address every process that needs the line
// folds it from the log into its own memory. Either part is swapped for the real one by its address alone.
//
// What it promises: Start returns when everything listens and the log has been read to where it ended; Stop takes no more
// requests, lets those under way end, hands over leadership and flushes the log, within ten seconds, also when Kafka is
// away. Settings are checked before anything starts, every mistake at once. On the embedded log it makes its own secret on
// first start, in the data folder, readable by its owner only; everywhere else there is no default secret.
//
// Queues are those of the catalogue, and come and go with it while the process runs (lines). --queues makes the ones that are not
// there yet.
//
// It leaves out signals, exit codes and what is printed (cmd).
package standalone
