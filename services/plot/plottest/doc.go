// Package plottest holds a report's page against what all of them promise: it is well-formed, needs nothing else, and is said in the reader's language. It
// is for tests alone, depends on nothing that could die, and leaves out what the page says.
package plottest
