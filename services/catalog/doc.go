// Package catalog is a process's own reading of the catalogue, which says what queues there are, how they are set and how they
// stand; and how operators change it.
//
//	operator ──▶ admin ──▶ Editor ──one transaction──▶ soonbeon.catalog   what the queues are
//	                                               └─▶ soonbeon.changes   who did what, and when
//	                       soonbeon.catalog ──▶ Follower ──▶ Get, All      asked for each request
//	                                                    └─▶ Watch         who has something to begin or to end
//
// What it promises: a Follower knows a prefix of the catalogue and only moves forward; Get neither locks nor waits. Watchers are told
// each change once, in order, never two at a time, and an earlier queue of a name is told to be gone before the next one of
// that name is there. An Editor's change is compare-and-set: it is made on what it was shown and on nothing else, or it is refused; a
// change of nothing writes nothing; each change is written together with the record of who made it. A deletion that was
// cut short, wherever, is finished by the next one.
//
// When the brokers are away a Follower stands still with what it knows, and an Editor's changes fail with what is known of them;
// both go on by themselves. An entry that can't be read leaves its queue as it was known before.
//
// The document (document.go) is how a queue is shown and told as JSON: by the HTTP API, in the record of changes, and by the
// command line.
//
// It leaves out what the settings do (issuer, enter, position), HTTP (admin), and who may change what: every operator may
// change everything.
package catalog
