// Command bench measures soonbeon beside the bare parts that it is made of, on this machine and in one run (`make bench`),
// and prints the ratios as a Markdown table. An absolute number says more about a machine than about a program; a ratio
// whose two sides took turns says what the program costs.
//
//	bench ──requests──▶ side A, a process of its own: soonbeon, assembled as it is shipped
//	      ──requests──▶ side B, a process of its own: the bare part
//
// How it measures: the same generator, over as many connections, with the same bytes, asks one side and then the other, in
// several short rounds whose order alternates; a row is the median of the rounds' ratios. The generator shares the
// machine, so it is lean (one write, one read, no parsing beyond the status line and Content-Length). Each side runs in a
// process of its own, so that neither pays for the other's memory.
//
// It needs a real Kafka and a real Redis, from where package realservers takes them, and redis-benchmark; when one of them
// is missing, the rows that need it fail and say what to install, and the others are measured all the same.
//
// What it leaves out: networks, replication (one broker), TLS, and judging: a row below its threshold is marked, and the
// exit code is 0; it is 1 when a row could not be measured.
//
// Files: main.go (flags), rows.go (what is measured), streams.go (event streams), side.go (the processes), traffic.go (the generator), log.go (filling
// logs), redis.go (redis-benchmark, memory), report.go (the table and docs/benchmarks.md).
package main
