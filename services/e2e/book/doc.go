// Package book is the naive fold of a queue's log, by maps and in the words of the design, and what was promised to people
// held against it. It shares nothing with the implementations that it judges.
//
//	log ──▶ Read ──▶ Of: every ticket's fate ──▶ Accounts: whoever was told something finds it so
//	                  └── Wrong: what no log of ours may hold
//
// It promises that a Book that was returned without an error has the digest of package line's fold of the same records. A
// log that can't be read is an error, and never a shorter log.
//
// It leaves out Redis, the rate's limit and reports for people: those are package audit's, which counts differently again.
package book
