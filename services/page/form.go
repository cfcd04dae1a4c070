package page

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// form takes a place for a page without scripts: it asks POST /queue/enter on e, as a script would, and sends the browser back to the
// page, so that loading that again sends nothing again. Cross-site posts were refused before.
func (s *Service) form(c echo.Context, e *echo.Echo) error {
	r := c.Request()
	r.Body = http.MaxBytesReader(c.Response(), r.Body, httpapi.MaxBody)
	if err := r.ParseForm(); err != nil {
		return httpapi.Problemf(httpapi.BodyMalformed, "it is not the form of the waiting page")
	}
	for _, name := range []string{"queue", "key", "return", "lang"} {
		if len(r.PostForm[name]) > 1 {
			return httpapi.Problemf(httpapi.BodyMalformed, "%s is given %d times", name, len(r.PostForm[name]))
		}
	}
	v := visit{back: r.PostForm.Get("return"), lang: r.PostForm.Get("lang"), plain: true}
	var ok bool
	if v.words, ok = s.words.pick(v.lang, r.Header.Get("Accept-Language")); !ok {
		return httpapi.Problemf(httpapi.BodyMalformed, "lang is one of %s, not %.40q", s.words.tags(), v.lang)
	}
	id, err := queue.ParseID(r.PostForm.Get("queue"))
	if err != nil {
		return httpapi.Problemf(httpapi.BodyMalformed, "%v", err)
	}
	v.queue = id
	entry, ok := s.cfg.Find(id)
	if !ok || entry.Deleting {
		return s.write(c, http.StatusNotFound, s.failure(v, s.look, unknown))
	}
	if _, _, err := s.arrival(id, r.PostForm["return"]); err != nil {
		return s.write(c, http.StatusBadRequest, s.failure(v, s.look, badReturn))
	}

	out := s.enter(r, e, id, r.PostForm.Get("key"), true)
	if out.status == http.StatusUnauthorized && len(httpapi.CookieTokens(r, id)) > 0 {
		out = s.enter(r, e, id, r.PostForm.Get("key"), false) // the cookie counts for nothing, and is replaced
	}
	for _, cookie := range out.header["Set-Cookie"] {
		c.Response().Header().Add("Set-Cookie", cookie)
	}
	if out.status < 300 {
		c.Response().Header().Set("Cache-Control", "no-store")
		return c.Redirect(http.StatusSeeOther, v.url(v.lang, true, v.back))
	}
	a := answer{}
	_ = json.Unmarshal(out.body.Bytes(), &a) // a problem document, or nothing that says more
	switch {
	case out.status == http.StatusGone:
		a.State = "closed"
	case out.status < 500 && out.status != http.StatusTooManyRequests:
		a.State = "refused"
	default:
		a.State, a.Code = failed, "" // with the button, and the same key
	}
	p := s.plain(v, s.look, a, entry)
	if p.Form != nil {
		p.Form.Key = r.PostForm.Get("key")
	}
	if wait := retryAfter(out.header); wait > 0 {
		c.Response().Header().Set("Retry-After", strconv.FormatInt(wait/1000, 10))
	}
	return s.write(c, out.status, p)
}

// enter asks for a place, with the cookies of r or without.
func (s *Service) enter(r *http.Request, e *echo.Echo, id queue.ID, key string, cookies bool) *recorded {
	h := http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {key}}
	if cookies {
		h["Cookie"] = r.Header["Cookie"]
	}
	return dispatch(e, r, http.MethodPost, "/queue/enter", h, []byte(`{"queue":"`+string(id)+`"}`))
}
