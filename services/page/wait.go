package page

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"github.com/soonbeon/soonbeon/pkg/gate"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// visit is what a request for the page says.
type visit struct {
	queue   queue.ID
	back    string // return=, as it was given
	lang    string // lang=, as it was given; "" for the header's
	plain   bool
	action  string // where the entry token is handed over, and where it goes on; "" where the queue's settings say it
	to      string
	words   *words
	resume  bool // a receipt came as a cookie
	preview bool
	state   string // of a preview
}

// url is the page's own address with some of the query changed.
func (v visit) url(lang string, plain bool, back string) string {
	q := url.Values{"queue": {string(v.queue)}}
	at := "/queue/wait?"
	if v.preview {
		q, at = url.Values{"state": {v.state}}, "/queue/preview?"
	}
	if lang != "" {
		q.Set("lang", lang)
	}
	if plain && !v.preview {
		q.Set("plain", "1")
	}
	if back != "" {
		q.Set("return", back)
	}
	return at + q.Encode()
}

// wait serves GET /queue/wait. Whoever opens it gets a page, whatever is wrong.
func (s *Service) wait(c echo.Context) error {
	r := c.Request()
	q := c.QueryParams()
	v := visit{back: q.Get("return"), lang: q.Get("lang"), plain: q.Get("plain") != ""}
	var ok bool
	if v.words, ok = s.words.pick(v.lang, r.Header.Get("Accept-Language")); ok && v.lang != "" {
		v.lang = v.words.Tag.String() // by which it goes on, whatever it was called
	} else if !ok {
		v.words, _ = s.words.pick("", r.Header.Get("Accept-Language"))
		v.lang = ""
		v.queue, _ = queue.ParseID(q.Get("queue"))
		return s.write(c, http.StatusBadRequest, s.failure(v, s.look, badLang))
	}
	id, err := httpapi.QueryQueue(r)
	if err != nil {
		return s.write(c, http.StatusBadRequest, s.failure(v, s.look, unknown))
	}
	v.queue = id
	e, ok := s.cfg.Find(id)
	if !ok || e.Deleting {
		return s.write(c, http.StatusNotFound, s.failure(v, s.look, unknown))
	}
	if v.action, v.to, err = s.arrival(v.queue, q["return"]); err != nil {
		return s.write(c, http.StatusBadRequest, s.failure(v, s.look, badReturn))
	}
	v.resume = len(httpapi.CookieTokens(r, id)) > 0
	if !v.plain {
		return s.writeScripted(c, v, e)
	}
	a, set := s.ask(r, v)
	for _, cookie := range set {
		c.Response().Header().Add("Set-Cookie", cookie)
	}
	if a.State == "entering" && a.Code == "" {
		if takes, why := e.TakesEntries(s.cfg.Now().UnixMilli()); !takes {
			a.State, a.Reason, a.Message = "closed", why, e.Settings.Message
		}
	}
	p := s.plain(v, s.look, a, e)
	if after := renews(a, s.cfg.Now()); after > 0 {
		c.Response().Header().Set("Refresh", strconv.Itoa(after)+"; url="+v.url(v.lang, true, v.back))
	}
	return s.write(c, http.StatusOK, p)
}

// renews is after how many seconds a page without scripts renews itself; 0: not. It tells of a turn that it is over, and not
// before: a button is to stay where the finger is.
func renews(a answer, now time.Time) int {
	switch {
	case a.State == "waiting" && a.Code != "":
		return int(max((a.RetryAfterMs+999)/1000, 5))
	case a.State == "waiting":
		return int(max((a.RetryAfterMs+999)/1000, 1))
	case a.State == "admitted":
		if t, err := time.Parse(time.RFC3339, a.ExpiresAt); err == nil {
			return int(max(math.Ceil(t.Sub(now).Seconds()), 0)) + 1
		}
	}
	return 0
}

var errReturn = errors.New("return is given once")

// nowhere stands for the waiting room's own host, which it does not know by name.
const nowhere = "https://own.invalid"

// arrival says where whoever is admitted goes by return=; "" where there is none. A path, where no origins are configured, is one
// of this host.
func (s *Service) arrival(id queue.ID, given []string) (action, to string, err error) {
	if len(given) == 0 || len(given) == 1 && given[0] == "" {
		return "", "", nil
	}
	if len(given) > 1 {
		return "", "", errReturn
	}
	allowed := s.origins
	if len(allowed) == 0 {
		allowed = []string{nowhere}
	}
	address, err := gate.ReturnAddress(given[0], allowed)
	if err != nil {
		return "", "", err
	}
	if action, to, err = gate.Arrival(id, address); err != nil {
		return "", "", err
	}
	return strings.TrimPrefix(action, nowhere), to, nil
}

// admitTo is the same by the queue's settings.
func admitTo(id queue.ID, address string) (action, to string) {
	switch {
	case address == "":
		return "", ""
	case strings.HasPrefix(address, "/"):
		return gate.ArrivePath(id), "/" + strings.TrimLeft(address, "/")
	}
	action, to, err := gate.Arrival(id, address)
	if err != nil { // of settings that were checked by another rule
		return "", ""
	}
	return action, to
}

// ask asks the position service of this process, as the browser would, with the browser's cookies. It also returns the cookies that
// were set.
func (s *Service) ask(r *http.Request, v visit) (answer, []string) {
	a := answer{State: "entering"}
	if !v.resume || s.asked == nil {
		return a, nil
	}
	out := dispatch(s.asked, r, http.MethodGet, "/queue/position?queue="+string(v.queue), http.Header{"Cookie": r.Header["Cookie"]}, nil)
	var got answer
	if err := json.Unmarshal(out.body.Bytes(), &got); err != nil {
		return a, nil
	}
	got.RetryAfterMs = max(got.RetryAfterMs, retryAfter(out.header))
	switch {
	case out.status == http.StatusOK:
		return got, out.header["Set-Cookie"]
	case out.status == http.StatusUnauthorized: // a receipt that counts for nothing: it is given up by entering
		return a, nil
	}
	// A cookie of ours that is not refused: there is a place, and nobody can tell where.
	return answer{State: "waiting", Code: got.Code, RetryAfterMs: got.RetryAfterMs}, nil
}

func retryAfter(h http.Header) int64 {
	s, _ := strconv.ParseInt(h.Get("Retry-After"), 10, 32)
	return s * 1000
}

// scripted is the page that its script goes on with.
func (s *Service) scripted(v visit, l *look, e *queue.Entry, ex *example) *shown {
	p := s.show(v, l, entering, map[string]string{})
	p.Script, p.OldScript = s.files.url("page.js"), s.files.url("old.js")
	p.PlainURL = v.url(v.lang, true, v.back)
	p.Data = data{
		Queue: v.queue, Lang: v.words.Tag.String(), Text: v.words.Text, Reentry: e.Settings.Reentry.String(), Action: v.action, To: v.to,
		Plain: p.PlainURL, Resume: v.resume, Preview: ex,
	}
	return p
}

// writeScripted answers with that page, from the shelf where it is there.
func (s *Service) writeScripted(c echo.Context, v visit, e *queue.Entry) error {
	k := shelved{
		queue: string(v.queue), back: v.back, lang: v.lang, tag: v.words.Tag.String(), action: v.action, to: v.to, reentry: e.Settings.Reentry.String(), resume: v.resume,
	}
	p := s.shelf.get(k)
	if p == nil {
		body, err := s.look.render(s.scripted(v, s.look, e, nil))
		if err != nil {
			return err // every state was rendered at the start
		}
		p = &rendered{body, compress(body)}
		s.shelf.put(k, p)
	}
	s.headers(c.Response().Header(), k.tag, false, true)
	return write(c, http.StatusOK, htmlType, p.body, p.compressed)
}

// data is for the script: page.ts has the same.
type data struct {
	Queue   queue.ID          `json:"queue"`
	Lang    string            `json:"lang"`
	Text    map[string]string `json:"text"`
	Reentry string            `json:"reentry"`
	Action  string            `json:"action"`
	To      string            `json:"to"`
	Plain   string            `json:"plain"`
	Resume  bool              `json:"resume"`
	Preview *example          `json:"preview,omitempty"`
}

type example struct {
	Update map[string]any `json:"update"`
	Flags  []string       `json:"flags"`
}

// plain is the page that needs no script.
func (s *Service) plain(v visit, l *look, a answer, e *queue.Entry) *shown {
	view := viewOf(a)
	if view == entering { // which a script does by itself
		view = notIn
	}
	p := s.show(v, l, view, v.words.values(a, s.cfg.Now()))
	p.flags = []string{"plain"}
	if renews(a, s.cfg.Now()) > 0 {
		p.flags = append(p.flags, "renews")
	}
	if a.Precision == "approximate" {
		p.flags = append(p.flags, "approximate")
	}
	switch {
	case a.Code != "" && a.State == "waiting":
		p.flags = append(p.flags, "unavailable")
	case a.Code == string(httpapi.CredentialMissing): // the form can't carry what the site signed
		p.flags = append(p.flags, "identity")
	}
	f := &form{Queue: string(v.queue), Return: v.back, Lang: v.lang, Label: "plain.enter"}
	switch view {
	case notIn, failed:
		p.Form = f
	case expired, left, released:
		f.Label = "enter"
		if takes, _ := e.TakesEntries(s.cfg.Now().UnixMilli()); takes {
			p.Form = f
		}
	case turn:
		action, to := v.action, v.to
		if action == "" {
			action, to = admitTo(v.queue, a.AdmitTo)
		}
		if action == "" {
			p.flags = append(p.flags, "nowhere")
		} else {
			p.GoTo = &handover{Action: action, Token: a.Token, To: to}
		}
	}
	if p.Form != nil {
		var key [16]byte
		_, _ = rand.Read(key[:]) // never fails: it ends the process instead
		p.Form.Key = hex.EncodeToString(key[:])
	}
	return p
}

// failure is a page that says what is wrong with its address.
func (s *Service) failure(v visit, l *look, view string) *shown {
	p := s.show(v, l, view, map[string]string{})
	if view == badReturn {
		p.Stay = v.url(v.lang, v.plain, "")
	}
	return p
}

func (s *Service) show(v visit, l *look, view string, values map[string]string) *shown {
	p := &shown{
		Lang: v.words.Tag.String(), Queue: v.queue, View: view, Styles: l.styles, words: v.words, values: values, files: s.files,
	}
	p.Title = p.T("@.title")
	back := v.back
	if view == badReturn {
		back = ""
	}
	for _, w := range s.words.all {
		p.Languages = append(p.Languages, choice{
			URL: v.url(w.Tag.String(), v.plain, back), Tag: w.Tag.String(), Name: w.Text["name"], Current: w == v.words && view != badLang,
		})
	}
	return p
}

// write answers with the page.
func (s *Service) write(c echo.Context, status int, p *shown) error {
	body, err := s.look.render(p)
	if err != nil {
		return err // every state was rendered at the start
	}
	s.headers(c.Response().Header(), p.Lang, p.GoTo != nil, p.Script != "")
	return write(c, status, htmlType, body, compressFast(c, body))
}

const htmlType = "text/html; charset=utf-8"

// headers are those of every page. Nothing on the way keeps one: it says how things stand for one person. That is no reason for a
// browser to load it anew when somebody comes back to it, where a script brings it up to date.
func (s *Service) headers(h http.Header, lang string, handsOver, scripted bool) {
	s.secure(h, handsOver)
	h.Set("Content-Language", lang)
	h.Add("Vary", "Accept-Language")
	h.Set("Cache-Control", "no-store")
	if scripted {
		h.Set("Cache-Control", "private, no-cache")
	}
}

// secure sets what keeps a page to itself. One that hands a token over says nothing of forms: browsers hold that against every
// redirect that follows, and where a site sends people on, to a login elsewhere perhaps, is the site's.
func (s *Service) secure(h http.Header, handsOver bool) {
	forms := "; form-action 'self'"
	if handsOver {
		forms = ""
	}
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "+
		"base-uri 'none'; frame-ancestors 'none'"+forms)
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // none at all would make the form's own Origin "null", and that is refused
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
}
