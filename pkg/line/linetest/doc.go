// Package linetest is the conformance suite of every view of a line, and the property test of the protocol around it.
//
// Model is the fold and the hand-out once more, written for reading: a sorted slice and no cleverness. A History plays
// random events against a Target (the memory line, or Redis): visitors enter, refresh, retransmit and leave; leaders lead,
// pause, wake as zombies, go direct and come back; two projectors stop anywhere; replies and processes are lost; the
// target's dataset goes back in time or is gone. The target and a Model receive the same calls and must answer alike; at
// the end everything drains and the invariants are checked. It is the Go twin of the design's executable model, with
// grants, capacity, draws, ends of the line, gaps in the ticket numbers and records that can't be read added.
//
// A history draws everything from a Source, so one seed replays it. It draws its own mix of events first, since
// rare faults need lopsided mixes.
package linetest
