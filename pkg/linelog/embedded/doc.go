// Package embedded is a Kafka broker inside this process, with its log in a folder: what soonbeon runs on where no Kafka
// is configured. It speaks Kafka's protocol on a loopback port, so that linelog doesn't know the difference.
//
// What it promises:
//
//   - An acknowledged record was synced to disk: it is there after a kill -9.
//   - One process at a time has the folder; a second one is refused, and told which process holds it.
//   - Files that were altered since they were written are refused, with the file and the place, rather than repaired by
//     forgetting what follows. Only an unfinished last write, which nobody was told of, is cut off.
//   - A transaction counts in all of its topics or in none, after a kill -9 in the middle of it too: at the next start it is
//     committed where a part of it was, and otherwise rolled back.
//   - A topic whose deletion was asked for before a kill -9 is whole or gone at the next start, and no other suffers from it.
//   - Groups begin empty: every member of the last run is dead, so nobody waits for them.
//
// When the disk is full, records are refused and not acknowledged; appending works again once there is room.
//
// What it leaves out: replication, access control, retention and compaction (the log grows until somebody deletes the folder), and any
// other machine's access. It is for trials and for small sites; a disk that dies takes the queue with it.
//
// Files: embedded.go (start, stop), lock.go (one process a folder), check.go (are the files as they were written?),
// deletions.go (topics that were being deleted), txns.go (transactions that were under way).
package embedded
