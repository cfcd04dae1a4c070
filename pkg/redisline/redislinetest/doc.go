// Package redislinetest starts a real redis-server for tests of what stands on a Redis view.
//
// A test that calls Start on a machine without redis-server is skipped, unless SOONBEON_REAL is set: then it fails. The
// server listens on a Unix socket in the test's folder and dies with the test.
package redislinetest
