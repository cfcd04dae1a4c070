package page

import (
	"fmt"
	"html"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/soonbeon/soonbeon/pkg/gate"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// state is one state that the page may be in, with what is told there.
type state struct {
	name  string
	told  map[string]any // as the client tells the page; nil for what the server alone shows
	flags []string
	rule  queue.Reentry
	plain bool
	view  string // of a page that the server alone makes; "" where told says it
}

// states are all that there are, in the order in which people meet them. The times are long enough to be looked at.
func states() []state {
	in := func(more map[string]any) map[string]any {
		told := map[string]any{
			"state": "waiting", "position": 1234, "ahead": 1233, "behind": 8642, "total": 9876, "ticket": 48214, "nowServing": 46980, "etaSeconds": 480,
			"precision": "exact",
		}
		for k, v := range more {
			if v == nil {
				delete(told, k)
			} else {
				told[k] = v
			}
		}
		return told
	}
	opens := time.Date(2030, 1, 2, 1, 0, 0, 0, time.UTC).Format(time.RFC3339)
	over := func(reason string) map[string]any { return map[string]any{"state": "over", "reason": reason} }
	admitted := map[string]any{
		"state": "admitted", "token": "preview", "expiresAt": opens, "expiresInMs": 290_000, "admitTo": "https://shop.example/checkout",
	}
	notYet := in(map[string]any{"opensAt": opens, "opensInSeconds": 93_784, "etaSeconds": nil, "nowServing": 0})
	drawing := in(map[string]any{"order": "draw", "opensAt": opens, "opensInSeconds": 3784, "position": nil, "ahead": nil, "behind": nil, "etaSeconds": nil, "nowServing": 0,
		"commitment": "1d65284a12f4c9cbb9ae44b17d3c2ec1b9b7ee5a1bf0a8b09e44aef1a9b7cb0e"})
	stopped := in(map[string]any{"paused": true, "etaSeconds": nil, "message": "The site is being looked after for a few minutes."})
	return []state{
		{name: "entering", told: map[string]any{"state": "entering"}},
		{name: "entering_offline", told: map[string]any{"state": "entering", "trouble": "offline"}},
		{name: "not_entered", told: map[string]any{"state": "entering", "trouble": "unavailable"}},
		{name: "entered", told: map[string]any{"state": "waiting", "ticket": 48214}},
		{name: "entered_about", told: map[string]any{"state": "waiting", "ticket": 48214, "position": 1234, "ahead": 1233, "precision": "approximate"}},
		{name: "not_open", told: notYet},
		{name: "draw", told: drawing},
		{name: "drawn", told: in(map[string]any{"number": 48_213})},
		{name: "waiting", told: in(nil)},
		{name: "message", told: in(map[string]any{"message": "Doors open at seven.\nTickets are good for both days."})},
		{name: "waiting_keep", told: in(nil), rule: queue.Keep},
		{name: "no_wait", told: in(map[string]any{"etaSeconds": nil})},
		{name: "first", told: in(map[string]any{"position": 1, "ahead": 0, "etaSeconds": 1})},
		{name: "long", told: in(map[string]any{"position": 1_234_567, "ahead": 1_234_566, "total": 2_345_678, "behind": 1_111_111, "etaSeconds": 9000})},
		{name: "moved", told: in(map[string]any{"movedFrom": 321})},
		{name: "approximate", told: in(map[string]any{"precision": "approximate", "behind": nil, "total": nil, "position": 1201, "ahead": 1200})},
		{name: "ask_reload", told: in(nil), flags: []string{"ask-reload"}},
		{name: "ask_leave", told: in(nil), flags: []string{"ask-leave"}},
		{name: "paused", told: stopped},
		{name: "offline", told: in(map[string]any{"trouble": "offline"})},
		{name: "unavailable", told: in(map[string]any{"trouble": "unavailable"})},
		{name: "turn", told: admitted},
		{name: "turn_again", told: admitted, flags: []string{"stuck"}},
		{name: "turn_elsewhere", told: with(admitted, "elsewhere", true)},
		{name: "turn_nowhere", told: with(admitted, "admitTo", "")},
		{name: "expired", told: over("expired")},
		{name: "left", told: over("left")},
		{name: "released", told: over("released")},
		{name: "sold_out", told: with(over("sold_out"), "message", "A second date will be announced on Monday.")},
		{name: "ended", told: over("closed")},
		{name: "closed", told: map[string]any{"state": "closed", "reason": "closed"}},
		{name: "sold_out_late", told: map[string]any{"state": "closed", "reason": "sold_out", "message": "A second date will be announced on Monday."}},
		{name: "refused", told: map[string]any{"state": "refused", "code": "credential_missing"}},
		{name: "unknown", view: unknown},
		{name: "bad_return", view: badReturn},
		{name: "bad_language", view: badLang},
		{name: "plain_enter", plain: true, told: map[string]any{"state": "entering"}},
		{name: "plain_failed", plain: true, told: map[string]any{"state": failed}},
		{name: "plain_waiting", plain: true, told: in(nil)},
		{name: "plain_approximate", plain: true, told: in(map[string]any{"precision": "approximate", "position": 1201, "ahead": 1200})},
		{name: "plain_unavailable", plain: true, told: map[string]any{"state": "waiting", "code": "view_unavailable"}},
		{name: "plain_not_open", plain: true, told: notYet},
		{name: "plain_draw", plain: true, told: drawing},
		{name: "plain_paused", plain: true, told: stopped},
		{name: "plain_turn", plain: true, told: admitted},
		{name: "plain_turn_nowhere", plain: true, told: with(admitted, "admitTo", "")},
		{name: "plain_expired", plain: true, told: over("expired")},
		{name: "plain_sold_out", plain: true, told: with(over("sold_out"), "message", "A second date will be announced on Monday.")},
		{name: "plain_closed", plain: true, told: map[string]any{"state": "closed", "reason": "closed"}},
		{name: "plain_refused", plain: true, told: map[string]any{"state": "refused", "code": "credential_missing"}},
	}
}

func with(told map[string]any, name string, value any) map[string]any {
	out := map[string]any{name: value}
	for k, v := range told {
		if k != name {
			out[k] = v
		}
	}
	return out
}

// example makes the page of a state.
func (s *Service) example(st state, w *words, l *look) *shown {
	r := visit{queue: "preview", words: w, lang: w.Tag.String(), preview: true, state: st.name}
	if st.view != "" {
		return s.failure(r, l, st.view)
	}
	if st.plain {
		var a answer
		a.from(st.told)
		if st.told["state"] == "admitted" { // for as long as scripts are told
			a.ExpiresAt = s.cfg.Now().Add(290 * time.Second).UTC().Format(time.RFC3339)
		}
		p := s.plain(r, l, a, &queue.Entry{ID: r.queue})
		if p.GoTo != nil {
			p.GoTo.Action = gate.ArrivePath(r.queue)
		}
		return p
	}
	e := &queue.Entry{ID: r.queue}
	e.Settings.Reentry = st.rule
	return s.scripted(r, l, e, &example{Update: st.told, Flags: st.flags})
}

// preview shows one state of the page, or the list of them.
func (s *Service) preview(c echo.Context) error {
	q := c.QueryParams()
	w, ok := s.words.pick(q.Get("lang"), c.Request().Header.Get("Accept-Language"))
	if !ok {
		return httpapi.Problemf(httpapi.QueryInvalid, "lang is one of %s, not %.40q", s.words.tags(), q.Get("lang"))
	}
	name := q.Get("state")
	if name == "" {
		return s.list(c)
	}
	for _, st := range states() {
		if st.name == name {
			return s.write(c, http.StatusOK, s.example(st, w, s.look))
		}
	}
	var names []string
	for _, st := range states() {
		names = append(names, st.name)
	}
	return httpapi.Problemf(httpapi.QueryInvalid, "state is one of %s, not %.40q", strings.Join(names, ", "), name)
}

// list links to every state in every language.
func (s *Service) list(c echo.Context) error {
	var b strings.Builder
	b.WriteString("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>Waiting page: every state</title>" +
		"<link rel=\"stylesheet\" href=\"" + html.EscapeString(s.files.url("page.css")) + "\"><main id=\"soonbeon\"><h1>Waiting page: every state</h1><ul>")
	for _, st := range states() {
		fmt.Fprintf(&b, "<li>%s", html.EscapeString(st.name))
		for _, w := range s.words.all {
			fmt.Fprintf(&b, " <a href=\"?state=%s&amp;lang=%s\" hreflang=\"%[2]s\">%s</a>", st.name, w.Tag, html.EscapeString(w.Text["name"]))
		}
		b.WriteString("</li>")
	}
	b.WriteString("</ul></main></html>")
	h := c.Response().Header()
	s.secure(h, false)
	h.Set("Cache-Control", "no-store")
	return write(c, http.StatusOK, htmlType, []byte(b.String()), nil)
}
