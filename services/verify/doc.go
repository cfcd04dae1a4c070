// Package verify holds no code of the product: its tests read the whole tree, and fail where it has left the rules that
// the compiler can't check. They run in `make verify` and in `make test`.
//
//   - imports_test.go: who may import whom (services → pkg → proto, and the finer rules);
//   - licences_test.go: no dependency's licence binds whoever uses this one;
//   - habits_test.go: a doc.go for each package, no init, no sleeping tests, no process-wide registry;
//   - metrics_test.go: every metric has a row in docs/, every metric that docs/ names exists;
//   - codes_test.go: every problem code has a heading in docs/runbook.md, and the reverse;
//   - docs_test.go: links, tests, make targets and environment variables that the documents name exist;
//   - deploy_test.go, compose_test.go: docs/deploy and docker-compose.yml fit the binary and themselves.
//
// Each check is a function over what was read, so that a test beside it shows it failing on an example.
//
// Go's test cache doesn't see what these tests read outside of this module: run them with -count=1, as make does.
package verify
