// Package gate is the gate of pkg/gate for sites that aren't written in Go: a small service that the proxy in front of a site
// asks about each request.
//
//	browser ──▶ proxy ──▶ /nginx/<queue>     nginx auth_request: 204, or 401 with the header Soonbeon-Code
//	                      /forward/<queue>   Traefik forwardAuth, Caddy forward_auth, HAProxy by Lua: 200, or the answer for the client
//	                      /envoy/<queue>/…   Envoy and Istio ext_authz over HTTP: the same
//	            proxy ──▶ /nginx/<queue>/turn-away            what nginx shows to whom it may not let in
//	            proxy ──▶ /.well-known/soonbeon/arrive/…      where people hand over their entry tokens, see pkg/gate
//
// docs/gate.md has a configuration for each.
//
// # What it promises
//
// The decision is that of pkg/gate, and so is the answer to those who are not let in. What a request was for is read from where
// the proxy's own configuration writes it, by the path that it asks at, and only from a peer in Config.TrustedProxies:
// X-Forwarded-Uri says nothing at /nginx/…, and X-Original-URI nothing at /forward/…. A request that doesn't say what it is for
// is refused, so that a proxy which is set up halfway lets nobody in.
//
// An answer that lets somebody in carries Soonbeon-Visitor (escaped as in a URL) and Soonbeon-Ticket for the site. They
// are there and empty for paths that aren't protected, so that a proxy which copies them overwrites what a client made up.
//
// # When what it depends on dies
//
// It asks the waiting room which queue of each name there is, and while that is away it goes on by what it knows. Beside that, without
// single use, it depends on nothing but its clock. With it, see pkg/gate: closed, or open for a limited time, which is a
// metric (soonbeon_gate_open) and a line in the log. It stays ready while Redis is away, since whoever has a session goes on. When
// the service itself is down, each of the proxies answers 5xx: closed. Run two.
//
// # What it leaves out
//
// It is no proxy: it never sees the site's answers.
package gate
