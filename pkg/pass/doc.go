// Package pass makes and checks the tokens that people carry: the receipt of who waits, and the entry token of who may
// go in. It also checks the identity tokens that a protected site signs for its own users.
//
// Receipts and entry tokens are JWTs (RFC 7519), HS256, with nothing in them but what their reader needs:
//
//	          receipt                          entry token
//	header    alg, kid, typ                    alg, kid, typ
//	typ       soonbeon-receipt+jwt             soonbeon-entry+jwt
//	aud       soonbeon:receipt:<queue>         soonbeon:gate:<queue>
//	sub       the visitor                      the visitor
//	iat       when the answer was given        when the visitor was admitted
//	exp       –                                when the grant ends
//	others    ticket, ahead, made, sure,       jti: <queue>/<ticket>, made
//	          drawn
//
// A session is what a gate gives in exchange for an entry token, for a browser to keep: the same claims under a typ
// (soonbeon-session+jwt), an audience (soonbeon:session:<queue>) and a key of its own, so that an entry token that may be used
// once is not opened again as a session, nor the reverse.
//
// Dates are seconds with three decimals, so that milliseconds survive. Claims that a later version adds are ignored.
// Made tells the queue from an earlier one of the same name; a token without it, which an older version signed, says nothing
// about that.
//
// # What it promises
//
// A token is accepted only as what it was signed for. Typ, audience and key each keep the kinds apart: every kind signs
// with a key of its own, derived from the master key by HKDF-SHA256, so that a receipt is no entry token even for a
// reader that forgets to look at the other two. Whatever is not exactly a token of ours is ErrInvalid: another alg or
// none, a kid that is unknown, missing or like a path, a "crit" header, a name given twice, base64 that has a second
// spelling, anything before, behind or in between. Nothing longer than MaxToken is even looked into.
//
// Errors say what is wrong with a token and never quote it; Keys and SiteKeys print their ids and never their keys.
//
// Keys are rotated without anybody losing a place: the first key of the list signs and all verify. Put the new key
// second everywhere, then first everywhere, and drop the old one when no receipt that it signed can be waiting any more.
//
// # Two ways to one answer
//
// A position node checks and signs a receipt for each poll, some ten thousand a second, so tokens whose header is byte
// for byte one that we write take a short path with recycled buffers and hash states. All others go through the parser
// of golang-jwt. Both share the reading and the judging of claims, and the fuzz tests hold them to the same answers. The
// claims of a receipt as we write it are read without a JSON decoder, and another fuzz test holds that to the decoder.
//
// # When what it depends on dies
//
// It depends on nothing but the clock that its caller passes in. Clocks may be off by Leeway; further off, entry tokens
// are refused as ErrNotYet or ErrExpired. Receipts do not expire, so no clock can cost a place in line.
//
// # What it leaves out
//
// Revocation, single use, and how tokens travel: cookies and headers are the business of the services and of package
// gate. HMAC is symmetric: who can check a token can make one, so a gate's host is trusted with the keys.
package pass
