package httpapi

import (
	"errors"
	"net/http"
	"strings"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// maxCookies is how many cookies of our name are tried. Browsers send two where an old one lingers.
const maxCookies = 8

// Source says where a credential was found.
type Source uint8

// The sources.
const (
	FromNowhere Source = iota
	FromHeader
	FromCookie
)

// CookieName is the name of the cookie that holds a visitor's receipt for q. The prefix makes browsers refuse it from
// another host, without Secure, or with a narrower path.
func CookieName(q queue.ID) string { return cookiePrefix + string(q) }

const cookiePrefix = "__Host-soonbeon-"

// ReceiptCookie is the Set-Cookie that hands a receipt to a browser, for as long as the browser runs. Scripts don't see
// it, and another site's requests don't carry it.
func ReceiptCookie(q queue.ID, receipt string) string {
	return cookiePrefix + string(q) + "=" + receipt + "; Path=/; Secure; HttpOnly; SameSite=Lax"
}

// ForgetCookie is the Set-Cookie that takes it away again.
func ForgetCookie(q queue.ID) string { return ReceiptCookie(q, "") + "; Max-Age=0" }

// Bearer is the token in Authorization, or "" where there is no such header. The error is a *Problem: the header given
// twice, another scheme, or no token in it. Those are not read as "no credential", since then the visitor would silently
// be taken for somebody new.
func Bearer(r *http.Request) (string, error) {
	given := r.Header["Authorization"]
	switch len(given) {
	case 0:
		return "", nil
	case 1:
	default:
		return "", Problemf(CredentialInvalid, "Authorization is given %d times", len(given))
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", Problemf(CredentialInvalid, "Authorization is Bearer and a token here")
	}
	return token, nil
}

// CookieTokens are the values of q's cookies, in the order in which they were sent, at most 8 of them.
func CookieTokens(r *http.Request, q queue.ID) []string {
	if len(r.Header["Cookie"]) == 0 {
		return nil
	}
	cookies := r.CookiesNamed(CookieName(q))
	var tokens []string
	for _, c := range cookies[:min(len(cookies), maxCookies)] {
		if c.Value != "" {
			tokens = append(tokens, c.Value)
		}
	}
	return tokens
}

// Authenticate finds the request's credential for q: the Bearer token where there is one, and then the cookies don't
// count; else the first cookie that verify accepts.
//
// The error is a *Problem: credential_missing (and FromNowhere) where there is none at all; where none was accepted, the
// one that verify returned for the first, if that is a *Problem itself, and else credential_invalid. Nothing of the
// token is in it.
func Authenticate[T any](r *http.Request, q queue.ID, verify func(token string) (T, error)) (T, Source, error) {
	var none T
	token, err := Bearer(r)
	if err != nil {
		return none, FromHeader, err
	}
	if token != "" {
		v, err := verify(token)
		if err != nil {
			return none, FromHeader, refusal(err)
		}
		return v, FromHeader, nil
	}
	var first error
	for _, token := range CookieTokens(r, q) {
		v, err := verify(token)
		if err == nil {
			return v, FromCookie, nil
		}
		if first == nil {
			first = err
		}
	}
	if first != nil {
		return none, FromCookie, refusal(first)
	}
	// Every newcomer comes by here, and for them it is no error: not formatted, since that costs more than the rest.
	return none, FromNowhere, &Problem{Code: CredentialMissing, Detail: "a receipt is wanted, as Authorization: Bearer or as the cookie " + cookiePrefix + string(q)}
}

func refusal(err error) error {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	return Problemf(CredentialInvalid, "it is not one that was issued here for this queue, or it holds no more")
}
