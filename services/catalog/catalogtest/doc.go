// Package catalogtest is a catalogue for tests: a broker in memory, an editor and a follower of it, and the switches of their
// network. Nothing of it is meant for a running system.
package catalogtest
