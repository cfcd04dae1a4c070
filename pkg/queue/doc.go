// Package queue holds the words of the domain and its pure rules. Read it first: every other package speaks in it.
//
// A queue is one line for one thing. Its log is one Kafka partition, and everything follows from three identities:
//
//   - a ticket is a record's offset + 1, so a visitor knows it as soon as the broker acknowledged the entry;
//   - seq, the last ticket applied, counts the log; a view of the line that is at seq has folded exactly that much;
//   - served is the highest ticket admitted. People are admitted in ticket order, so nobody at or below it waits.
//
// What a visitor goes through:
//
//	          enter                 admit                    grant ends
//	(nobody) ───────▶ waiting ──────────────────▶ admitted ──────────────▶ over
//	                 ▲   │  │ enter: moves back      │ released
//	                 └───┘  └──▶ over (left)         └──────────▶ over
//
// The package does no I/O, starts nothing, keeps no state and imports only the standard library. It promises that what
// it computes for people is on the safe side: a bound on a position is never below the truth, a wait is reckoned at a
// rate that is not above the real one. It leaves out how records are stored (linelog), folded (line, redisline), and
// signed (pass).
package queue
