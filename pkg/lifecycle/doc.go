// Package lifecycle starts what runs, stops it again, and says whether it is ready.
//
// A Service starts and stops. A Group starts its services in order, each after the one it stands on, and stops them the
// other way round under one deadline, so that a process is gone in ten seconds whatever one of them does:
//
//	Start:  log ─▶ line ─▶ HTTP          Stop:  HTTP ─▶ line ─▶ log
//	        ───────────────────                 ────────────────────┬──────────┐
//	        one fails: stop the others          4/5: a clean stop    1/5: cut off, then give up
//
// What it promises: stopping twice, before starting, at once from several sides, and while still starting is fine, for a
// Group and for every Service that passes lifecycletest. A service that fails later on ends the whole run. A readiness
// check that hangs is reported, takes up one goroutine, and holds nobody else up.
//
// What it leaves out: signals and exit codes (cmd), restarting what failed (whoever runs the process), logs (the errors
// that it returns name the service).
package lifecycle
