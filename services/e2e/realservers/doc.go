// Package realservers gives tests and benchmarks a real Kafka and a real Redis, and lets them kill, freeze and restart
// each server.
//
// Where they come from, the first that applies, for Kafka and for Redis separately:
//
//  1. the servers named by KAFKA_BROKERS (host:port, comma separated) and REDIS_ADDR (host:port). They are somebody
//     else's: every attempt to kill or freeze one returns ErrNotOurs;
//  2. docker compose, where an engine answers `docker info`;
//  3. Apache Kafka 4.2 from Maven Central on the local Java (17 or newer), fetched once by mvn into a cache folder
//     ($SOONBEON_CACHE, else the user's cache folder) under a file lock, and the local redis-server;
//  4. otherwise an error that says what to install.
//
// Servers of kinds 2 and 3 listen on loopback only, on free ports below the range from which the kernel takes ports for
// outgoing connections, so that a killed server finds its port free when it comes back; a file lock for each port
// keeps other test processes off it. Their data is a folder of the test (kind 3) or the container's own (kind 2), and is
// kept from Kill to Restart.
//
// Everything that was started is ended by Close, by process id. If the test binary itself dies, the kernel kills the
// local servers with it (on Linux). Containers have no such tie: after a killed run, `docker compose ls` shows
// projects named soonbeon-real-…, and `docker compose -p NAME down -v` ends them.
//
// A server that dies while it starts, or isn't ready in time, is an error that carries the end of its log; a test
// that fails prints the end of each server's log.
//
// Tests that need this package are named TestReal… and are skipped, with a sentence, unless SOONBEON_REAL=1, as `make
// test-real` sets it; so `make test` needs nothing but Go. With SOONBEON_REAL=1 nothing is skipped for want of a server:
// a missing server is a failure.
//
// Process starts soonbeon's own binary under the same hand: Kill, Stop, Cont, Restart, and Terminate for a clean stop.
//
// Left out: TLS, SASL, Redis Sentinel and Redis Cluster.
package realservers
