// Package e2e holds the acceptance tests: soonbeon's own binary, as separate processes, under a crowd.
//
//	crowd ──HTTP──▶ soonbeon standalone, or enter, projector, issuer, position ──▶ log, Redis
//	  │ what it was told: tickets, receipts, entry tokens                            │
//	  ▼                                                                              ▼
//	witness ───────────────▶ everybody is accounted for ◀─────────────── book (a naive fold), line, redisline
//
// What they hold the system to: whoever was told a ticket has it in the log, and is waiting, admitted, gone by leaving, or
// behind a later ticket of their own, whatever was killed; the crowd (package load) saw nothing broken; and the naive book,
// the line in memory and the view in Redis end with one digest.
//
// Queues are made, changed and deleted by soonbeon's own command (operators_test.go): a day of three of them ends with a clean
// audit, sixty move from one issuer to another, and a long one is deleted beside one that goes on.
//
// The tests that need nothing but Go run in `make test`, on the embedded log. Those named TestReal… start a real Kafka and a
// real Redis by package realservers and run in `make test-real`. A name with FaultNN is the trial of one known way in which
// systems of this kind fail people.
//
// When the binary does not build, nothing here runs. Under the race detector the binary is built with it as well, and a race
// in any process fails its test.
//
// Left out: outages that last for hours and random mixtures of them, and what a single package can show by itself.
package e2e
