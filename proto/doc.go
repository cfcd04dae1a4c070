// Package proto is the module that holds the stored formats: soonbeon/v1 is the queue's log.
//
// The generated code is checked in, so that a build needs only Go. `make generate` writes it anew with the tools pinned
// in tools.mod, and `make verify` fails where the two differ.
package proto
