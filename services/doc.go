// Package services is the module of the processes: enter, projector, issuer and position, standalone which is all of
// them in one, and the one binary that starts each.
package services
