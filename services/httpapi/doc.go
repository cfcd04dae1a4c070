// Package httpapi is what the services that speak HTTP share: problem documents, credentials, strict decoding, answers,
// and the servers that they run on.
//
// How a request goes:
//
//	Server ─▶ New's middleware: count, recover, refuse cross-site posts
//	            └─▶ router ─▶ handler: DecodeJSON / QueryQueue ─▶ Authenticate ─▶ … ─▶ WriteJSON
//	            ◀─ error: a *Problem as it is; anything else becomes one
//
// What it promises: every answer of 400 and above is an RFC 9457 document with one of the codes that Codes lists; a
// panic is one too, is counted, and ends nothing else. Whatever arrives from outside grows neither memory (bodies and
// headers are bounded) nor the number of metric series (routes are told apart by their pattern). X-Forwarded-For is not
// looked at: the peer is whoever holds the other end of the connection. Nothing of a credential is logged or returned.
//
// It depends on nothing that can die. A second process on the same port is refused with a sentence that says so.
//
// What it leaves out: TLS (a proxy's), CORS (a site that posts from another origin names it in Config.TrustedOrigins and
// lets its proxy add the headers), what credentials mean (enter, position), and rate limits.
package httpapi
