// Package admin is the operators' HTTP API: /admin/queues, on the private port.
//
//	GET    /admin/queues              all of them                POST   /admin/queues/:id/pause    {"message"?}
//	POST   /admin/queues              make one                   POST   /admin/queues/:id/resume   {"message"?}
//	GET    /admin/queues/:id          one, with its ETag         POST   /admin/queues/:id/close    {"reason"?, "ending"?}
//	PUT    /admin/queues/:id          its settings, If-Match     GET    /admin/queues/:id/changes  who did what
//	DELETE /admin/queues/:id          it and everything of it    GET    /admin/openapi.json        all of this, for programs
//
// What it promises: an operator's credential is needed for all but the description, and nothing that visitors or sites hold is one; what
// is refused has changed nothing, and is told with all its mistakes at once; a version that was looked at and has changed since gets 409;
// the same request twice changes nothing the second time. An answer to a change comes when this process obeys it, or 2 s after it
// was written; other processes obey it within those 2 s too.
//
// GET /docs shows the description to people (reference.go): a page of its own, without scripts.
//
// The description (openapi.json) also covers the waiting room's own addresses; a test compares it with what is served.
//
// When the brokers are away it shows what it knows, and a change is answered by 503, which says whether it may have been written. A
// change that has begun goes on when the client hangs up, 12 s at the most.
//
// It leaves out the changing itself (catalog), pages for people, and TLS: the private port is not to be published.
package admin
