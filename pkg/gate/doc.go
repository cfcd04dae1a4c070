// Package gate lets admitted visitors through to the site behind the waiting room, and sends everybody else to the line.
// The protected site imports it as net/http middleware:
//
//	keys, err := pass.ParseKeys(os.Getenv("SOONBEON_KEYS"))
//	…
//	g, err := gate.New(gate.Config{Queue: "main", Keys: keys, WaitingRoom: "https://wait.example", Site: "https://shop.example"})
//	…
//	http.Handle("/checkout/", g.Wrap(checkout))
//	http.Handle(gate.ArrivePath("main"), g.Arrive())
//
// With echo it is e.Use(echo.WrapMiddleware(g.Wrap)) or the same for a group; with chi and others that take
// func(http.Handler) http.Handler it is g.Wrap itself. The entry is then in c.Request().Context(). A framework with
// handlers of another kind calls Admit and TurnAway. A site that isn't written in Go has `soonbeon gate` (docs/gate.md).
//
// # What a request goes through
//
//	for a path that isn't protected ─────────────▶ the site
//	has a session or a valid entry token ────────▶ the site, with the entry in the request's context
//	GET or HEAD, and would rather have HTML ─────▶ 303 to the waiting room, with queue= and return=
//	another method, and would rather have HTML ──▶ 401, a page with a link to the waiting room
//	anything else ───────────────────────────────▶ 401, problem details (RFC 9457) with a code and the enterUrl
//
// A token is looked for in "Authorization: Bearer", in the header "Soonbeon-Token" and in the cookie that CookieName
// names, each as often as it comes; any valid one will do, so that a stale cookie does not hide a fresh one, and a site
// may keep Authorization for itself. The codes are the constants Code….
//
// # How a token gets from the line to the site
//
// The waiting page is on another origin, so it can't set a cookie for the site. It goes to the arrive path of the site with the
// token in the fragment, which no server, proxy or Referer sees; a page of the gate posts it from there. Without scripts the
// waiting page posts the token itself. In exchange the browser gets a session: a cookie that is signed like the token, by a key
// and with a type of its own, and that ends when the grant ends.
//
//	waiting page ──▶ GET  /.well-known/soonbeon/arrive/main#token=…&to=/checkout/7
//	                 POST /.well-known/soonbeon/arrive/main   token=…&to=/checkout/7     ──▶ session, 303
//	                 GET  /.well-known/soonbeon/arrive/main?to=/checkout/7               ──▶ is the session there? 303
//	                 GET  /checkout/7
//
// The third step is there for browsers that keep no cookie: without it they would go from the site to the line, which sends them
// to the site, for ever. For the same reason the arrive path never redirects into the line; it shows a page with a link.
//
// That another site can post a token here ("login CSRF") is wanted, and does no harm: it can only give away an admission of its
// own. It can't shorten anybody's: a session that lasts longer stays. But it means that an entry says who was admitted, and not
// who is logged in. A site must not take EntryFrom's visitor for its user; one that signs identities compares the two.
//
// # Where people may be sent
//
// The target of the redirect is the configured waiting room and nothing else; the address to return to is made of the request's
// path and query, never of its Host or any other header. The waiting page checks it by ReturnAddress against a list of
// origins, and the arrive path takes paths of its own site alone.
//
// # What it promises
//
// Nobody gets through without a token or session that was signed for this queue and has not expired. No request, however broken,
// makes it fail with a 5xx; only a Once that is away does, as a 503.
//
// # When what it depends on dies
//
// It asks nobody, unless Config.Once or Config.Made does: tokens are checked by their signature, and it needs no network. When every part of the waiting room is
// down, who was admitted still gets in. It depends on the host's clock: one that is more than pass.Leeway slow finds
// tokens "not valid yet" and turns away fresh visitors, which Config.Refused makes visible.
//
// With Config.Once it depends on that. While Once is away, those with a session go on; those with a fresh token are asked to try
// again (closed, the default), or are let in unchecked for a limited time (Config.FailOpen): then a token opens more than once,
// and still nobody gets in without one. It is asked twice a second meanwhile, so nobody waits for it.
//
// # What it leaves out
//
// Revocation: whoever was let in stays until the grant ends. A token or session of a queue that was deleted and made again opens
// its successor's gate until then too, unless Config.Made says which queue is the present one; a Room learns that from the waiting
// room, within seconds, and while it is away nothing that is valid is refused. With Once, a browser that used its token up and lost the answer has to wait in line again.
// It does not tell caches anything about the site's own answers: a shared cache in front of the gate must not keep protected
// pages.
package gate
