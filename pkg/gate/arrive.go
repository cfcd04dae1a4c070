package gate

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"

	"github.com/soonbeon/soonbeon/pkg/pass"
)

// Why somebody who arrives is not let in, beside what is wrong with tokens.
var (
	ErrArrival  = errors.New("not how to arrive")
	ErrNoCookie = errors.New("the browser did not keep the session")
)

var errMethod = fmt.Errorf("%w: another method", ErrArrival)

// maxArrival is the longest form that is taken, in bytes: a token, and a path of which every byte is escaped.
const maxArrival = 16 << 10

// Arrive serves the arrive path, ArrivePath, for a site that has the gate in front of a part of it only:
//
//	mux.Handle(gate.ArrivePath("main"), g.Arrive())
//	mux.Handle("/checkout/", g.Wrap(checkout))
func (g *Gate) Arrive() http.Handler { return http.HandlerFunc(g.arrive) }

func (g *Gate) arrive(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		if q := r.URL.Query(); q.Has("to") {
			g.arrived(w, r, q.Get("to"))
			return
		}
		g.page.write(w, r, http.StatusOK, view{Text: arriving, Script: true, Link: g.enterURL("")})
	case http.MethodPost:
		g.takeIn(w, r)
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		g.notIn(w, r, "", "", errMethod)
	}
}

// takeIn gives a session for the token that was posted.
func (g *Gate) takeIn(w http.ResponseWriter, r *http.Request) {
	token, to, err := readArrival(w, r)
	if err != nil {
		g.notIn(w, r, "", "", err)
		return
	}
	now := g.now()
	e, err := g.verify(g.keys.VerifyEntry(token, g.queue, now))
	if err != nil {
		g.notIn(w, r, "", to, err)
		return
	}
	// A session that lasts as long stays: a form that was sent twice does not use the token twice, and another site that posts
	// a token of its own does not shorten anybody's stay.
	if !g.hasSession(r, e.ExpiresMs) {
		a, err := g.begin(r.Context(), e, now)
		if err != nil {
			g.notIn(w, r, token, to, err)
			return
		}
		http.SetCookie(w, a.Cookie)
	}
	// By way of here, since whoever comes to the site without the cookie is sent into the line, and from there back to here.
	goTo(w, g.arrival+"?to="+url.QueryEscape(to))
}

// arrived looks whether the browser kept the session.
func (g *Gate) arrived(w http.ResponseWriter, r *http.Request, to string) {
	to, err := localPath(to)
	if err != nil {
		g.notIn(w, r, "", "", ErrArrival)
		return
	}
	if !g.hasSession(r, 0) {
		g.notIn(w, r, "", to, ErrNoCookie)
		return
	}
	goTo(w, to)
}

func (g *Gate) hasSession(r *http.Request, untilMs int64) bool {
	for _, s := range g.sessions(r) {
		if e, err := g.verify(g.keys.VerifySession(s, g.queue, g.now())); err == nil && e.ExpiresMs >= untilMs {
			return true
		}
	}
	return false
}

// notIn says why somebody who arrived is not let in. It never leads back into the line by itself: where two clocks or two
// lists of keys disagree, that would be a circle.
func (g *Gate) notIn(w http.ResponseWriter, r *http.Request, token, to string, why error) {
	g.refused(r, why)
	if !prefersHTML(r.Header.Values("Accept")) {
		g.refuse(w, why)
		return
	}
	v := view{Text: invalid, Link: g.enterURL("")}
	if to != "" {
		v.Link = g.enterURL(g.site + to)
	}
	status := http.StatusUnauthorized
	switch {
	case errors.Is(why, ErrCantTell):
		status, v = http.StatusServiceUnavailable, view{Text: cantTell, Token: token, To: to}
		w.Header().Set("Retry-After", retryAfter)
	case errors.Is(why, errMethod):
		status, v.Text = http.StatusMethodNotAllowed, malformed
	case errors.Is(why, ErrArrival):
		status, v.Text = http.StatusBadRequest, malformed
	case errors.Is(why, ErrNoCookie):
		v.Text = noCookie
	case errors.Is(why, ErrUsed):
		v.Text = used
	case errors.Is(why, pass.ErrExpired):
		v.Text = expired
	case errors.Is(why, pass.ErrNotYet):
		v.Text = notYet
	case errors.Is(why, ErrEarlier):
		v.Text = earlier
	}
	g.page.write(w, r, status, v)
}

func goTo(w http.ResponseWriter, to string) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// readArrival reads the form. The error is ErrArrival.
func readArrival(w http.ResponseWriter, r *http.Request) (token, to string, err error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return "", "", ErrArrival
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxArrival))
	if err != nil {
		return "", "", ErrArrival
	}
	form, err := url.ParseQuery(string(body))
	if err != nil || len(form["token"]) != 1 || form["token"][0] == "" || len(form["to"]) > 1 {
		return "", "", ErrArrival
	}
	if to, err = localPath(form.Get("to")); err != nil {
		return "", "", ErrArrival
	}
	return form["token"][0], to, nil
}
