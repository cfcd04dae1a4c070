// Package dashboard is the operators' screen: one page on the private port that shows all queues live, one of them closely, and has the
// controls that `soonbeon queue` has.
//
//	catalogue, readings, leaders ──once a second while somebody looks──▶ rows, details ──▶ GET /dashboard/events ──▶ page
//	                             ──once in 5 s, always────────────────▶ history: the last hour of each queue, in memory
//	page ──PUT, POST──▶ /admin/queues…                                  nothing is changed but there, so each change leaves its record
//
//	GET /dashboard/            the page; its files are beside it. They hold nothing that is not in this repository
//	GET /dashboard/events      server-sent events; an operator's credential is needed. ?queue=id for one queue's details and its last hour
//	      event: rows          {"queues": those that changed, "ids": all there are, where that changed}
//	      event: queue         details of the one
//	      event: history       its last hour, one column for each figure; null where nothing is known
//	      event: sample        what has come since, in the same form
//
// What it promises: the page loads nothing from elsewhere and runs nothing but its own files (Content-Security-Policy). The credential is
// typed by a person, kept by that tab alone (sessionStorage) and sent as Authorization: Bearer, so that no other site can act for its
// owner. What is not known is shown as not known, never as 0. All that is said is said in every language of lang/.
//
// What it costs: a queue that nobody waits in costs one look in 5 s, and no memory; one that people come to costs 23 KB. Streams are at most MaxStreams; a
// client that does not read for WriteTimeout is dropped. One goroutine keeps time for all.
//
// A process shows what it knows itself. Where it doesn't keep a queue's line, it says so; where another process leads, it doesn't know why nobody is
// let in, and says that and no reason. When the brokers are away it shows what is known, which stands still; when Redis is away the projection's lag isn't known. After a restart the
// last hour begins anew: what is older is in the log (`soonbeon audit`) and in Prometheus.
//
// It leaves out making and deleting queues, settings other than the rate, alarms, and more than an hour.
package dashboard
