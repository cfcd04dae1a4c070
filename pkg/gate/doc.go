// Package gate lets admitted visitors through to the site behind the waiting room, and sends everybody else to the line.
// The protected site imports it as net/http middleware:
//
//	keys, err := pass.ParseKeys(os.Getenv("SOONBEON_KEYS"))
//	…
//	g, err := gate.New(gate.Config{Queue: "main", Keys: keys, WaitingRoom: "https://wait.example/"})
//	…
//	http.Handle("/checkout/", g.Wrap(checkout))
//
// With echo it is e.Use(echo.WrapMiddleware(g.Wrap)) or the same for a group; with chi and others that take
// func(http.Handler) http.Handler it is g.Wrap itself. The entry is then in c.Request().Context(). A framework with
// handlers of another kind calls Check.
//
// # What a request goes through
//
//	has a valid entry token ─────────────────────▶ the site, with the entry in the request's context
//	GET or HEAD, and would rather have HTML ─────▶ 303 to the waiting room, with queue= and return=
//	anything else ───────────────────────────────▶ 401, problem details (RFC 9457) with a code and the enterUrl
//
// A token is looked for in "Authorization: Bearer", in the header "Soonbeon-Token" and in the cookie that CookieName
// names, each as often as it comes; any valid one will do, so that a stale cookie does not hide a fresh one, and a site
// may keep Authorization for itself. The codes are those of CodeRequired and CodeExpired.
//
// # What it promises
//
// Nobody gets through without a token that was signed for this queue and has not expired, and no request, however
// broken, makes it fail with a 5xx. The target of the redirect is the configured waiting room and nothing else; the
// address to return to is made of the request's path and query, never of its Host or any other header.
//
// # When what it depends on dies
//
// It asks nobody: tokens are checked by their signature, and it needs no network. When every part of the waiting room is
// down, who was admitted still gets in. It depends on the host's clock: one that is more than pass.Leeway slow finds
// tokens "not valid yet" and turns away fresh visitors, which Config.Refused makes visible.
//
// # What it leaves out
//
// An entry token opens the gate as often as it is shown until it expires: single use by jti, sessions that outlive the
// token, and lists of allowed return addresses are not here yet; the waiting room must not send people to a return
// address that it does not know. It sets no cookies. It does not tell caches anything about the site's own answers: a
// shared cache in front of the gate must not keep protected pages.
package gate
