package gate

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// maxTokens bounds how many tokens of one request are looked at, so that a header full of them is not worth sending.
const maxTokens = 16

// tokens are all that r carries: headers first, since whoever sets them means them.
func (g *Gate) tokens(r *http.Request) []string {
	var all []string
	for _, v := range r.Header.Values("Authorization") {
		scheme, token, found := strings.Cut(strings.TrimSpace(v), " ")
		if found && strings.EqualFold(scheme, "Bearer") {
			all = append(all, strings.TrimSpace(token))
		}
	}
	for _, v := range r.Header.Values(TokenHeader) {
		all = append(all, strings.TrimSpace(v))
	}
	for _, c := range r.CookiesNamed(g.cookie) {
		all = append(all, c.Value)
	}
	return all[:min(len(all), maxTokens)]
}

// maxSessions bounds the same of sessions; browsers send two where an old one lingers.
const maxSessions = 8

// sessions are the values of the session cookie.
func (g *Gate) sessions(r *http.Request) []string {
	cookies := r.CookiesNamed(g.session.Name)
	var all []string
	for _, c := range cookies[:min(len(cookies), maxSessions)] {
		all = append(all, c.Value)
	}
	return all
}

// prefersHTML reads Accept: is HTML welcome, and at least as much as JSON? Browsers name text/html when they navigate
// and only then; programs say */* or nothing, and are better served with a problem they can read than with a redirect. So */*
// speaks for JSON alone.
func prefersHTML(accept []string) bool {
	html := quality(accept, "text/html", "text/*")
	json := max(
		quality(accept, "application/problem+json", "application/*", "*/*"),
		quality(accept, "application/json", "application/*", "*/*"),
	)
	return html > 0 && html >= json
}

// isPreflight tells what a browser asks before a call of another origin.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// prefersKorean reads Accept-Language for the two languages that there are. Whoever names neither gets English.
func prefersKorean(accept []string) bool {
	var ko, en float64
	for _, line := range accept {
		for item := range strings.SplitSeq(line, ",") {
			tag, params, _ := strings.Cut(item, ";")
			primary, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(tag)), "-")
			switch primary {
			case "ko":
				ko = max(ko, weight(params))
			case "en":
				en = max(en, weight(params))
			}
		}
	}
	return ko > 0 && ko >= en
}

// quality is the weight of the first of names, a media type and its ranges, that is there, in 0 to 1; 0 if none is. A weight
// that cannot be read counts as 0.
func quality(accept []string, names ...string) float64 {
	weights := make(map[string]float64, len(names))
	for _, line := range accept {
		for item := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(item, ";")
			name = strings.ToLower(strings.TrimSpace(name))
			if slices.Contains(names, name) {
				weights[name] = weight(params)
			}
		}
	}
	for _, name := range names {
		if q, named := weights[name]; named {
			return q
		}
	}
	return 0
}

func weight(params string) float64 {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(param, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || !(q >= 0 && q <= 1) {
			return 0
		}
		return q
	}
	return 1
}
