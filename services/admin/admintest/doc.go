// Package admintest holds what is served against the description of it. It is for tests: what answers is wrapped, and each answer that the
// description does not allow fails the test, whatever the test itself looks at.
package admintest
