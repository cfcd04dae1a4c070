// Command chaos breaks a whole system of real processes under a crowd, as a seed says, and proves after each round that
// everything that was promised is so (`make chaos`).
//
//	seed ──▶ plan ──▶ deeds: kill -9, SIGSTOP for three leases, slow, hung and reset links, cut replies, Redis rolled back, wiped, full
//	                    │
//	crowd ──HTTP──▶ enter×2, position×2, projector×2, issuer×2 ──▶ three brokers; a proxy for each kind ──▶ Redis
//	  │ tickets, places, tokens                                         │                                     │
//	  └────────────────────────▶ verdict ◀── book (a naive fold), audit ┴─────────────── digest ──────────────┘
//
// A verdict is: the audit is clean; Redis has the digest of the log's fold; each acknowledged ticket and each acknowledged
// departure is in the log and has a fate; each entry token is of an admission, and they are in ticket order; everybody who
// was admitted is told so; no second has more people than the rate and one batch; no place rose for who only polls with the
// newest receipt, and none was below the truth, which is what the log says for the moment at which the answer came.
//
// The seed draws what is done, to whom, when and for how long, so it replays the same plan; what the system makes of it
// depends on the machine. With -kills it counts cycles of kill -9 instead: in each, an enter, a projector, the leading issuer,
// Redis and a broker die once.
//
// When the servers can't be had or a deed can't be done, that is an error of its own, and no verdict. Processes and data are
// gone at the end; with -keep the folder stays, with every process's log.
//
// Left out: a proxy in front of Kafka (a broker is killed, paused, or all three are), clocks that jump, full disks, and a log
// in trouble: those are tests of their own packages.
package main
