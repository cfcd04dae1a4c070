// Package redislinetest starts a real redis-server for tests of what stands on a Redis view, and makes it fail.
//
// A test that calls Start on a machine without redis-server is skipped, unless SOONBEON_REAL is set: then it fails. The
// server listens on a Unix socket in the test's folder and dies with the test.
//
//	rdb := redislinetest.Start(t)         // past every switch
//	link := redislinetest.NewLink(t, rdb) // what is tested connects to link.Addr()
//	link.Answer("LOADING …"); …; link.Back()
//	link.Hang(); link.LoseReplies(); link.Away(); link.Back()
package redislinetest
