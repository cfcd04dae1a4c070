package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"
)

// Code is the stable name of a kind of problem. Clients branch on it and docs/runbook.md has a heading for each, so a
// code never changes its meaning.
type Code string

// The codes.
const (
	QueueUnknown          Code = "queue_unknown"
	QueueClosed           Code = "queue_closed"
	QueueExists           Code = "queue_exists"
	QueueChanged          Code = "queue_changed"
	QueueDeleting         Code = "queue_deleting"
	QueueHasRecords       Code = "queue_has_records"
	DrawUnknown           Code = "draw_unknown"
	TokenUnknown          Code = "token_unknown"
	SettingsInvalid       Code = "settings_invalid"
	VersionMissing        Code = "version_missing"
	BodyMalformed         Code = "body_malformed"
	BodyTooLarge          Code = "body_too_large"
	ContentType           Code = "content_type"
	CredentialMissing     Code = "credential_missing"
	CredentialInvalid     Code = "credential_invalid"
	CredentialForbidden   Code = "credential_forbidden"
	IdentityInBody        Code = "identity_in_body"
	IdempotencyKeyInvalid Code = "idempotency_key_invalid"
	QueryInvalid          Code = "query_invalid"
	MethodNotAllowed      Code = "method_not_allowed"
	NotFound              Code = "not_found"
	CrossSite             Code = "cross_site"
	LogUnavailable        Code = "log_unavailable"
	LogTrouble            Code = "log_trouble"
	Overloaded            Code = "overloaded"
	ViewUnavailable       Code = "view_unavailable"
	NotNear               Code = "not_near"
	StreamsFull           Code = "streams_full"
	Internal              Code = "internal"
)

// CodeInfo is what never changes from one problem of a code to the next.
type CodeInfo struct {
	Code   Code
	Status int
	Title  string
}

// Codes lists all of them, in the order of the documentation.
func Codes() []CodeInfo {
	return []CodeInfo{
		{QueueUnknown, http.StatusNotFound, "There is no such queue"},
		{QueueClosed, http.StatusGone, "The queue takes nobody in any more"},
		{QueueExists, http.StatusConflict, "There is a queue of that name"},
		{QueueChanged, http.StatusConflict, "The queue is not as it was when it was looked at"},
		{QueueDeleting, http.StatusConflict, "The queue is being deleted"},
		{QueueHasRecords, http.StatusConflict, "There are records of a queue of that name"},
		{DrawUnknown, http.StatusNotFound, "No lots are drawn in this queue"},
		{TokenUnknown, http.StatusNotFound, "There is no such entry token"},
		{SettingsInvalid, http.StatusBadRequest, "The settings can't be taken"},
		{VersionMissing, http.StatusPreconditionRequired, "The version that is to be changed is not said"},
		{BodyMalformed, http.StatusBadRequest, "The body is not what this address takes"},
		{BodyTooLarge, http.StatusRequestEntityTooLarge, "The body is too large"},
		{ContentType, http.StatusUnsupportedMediaType, "The body is not application/json"},
		{CredentialMissing, http.StatusUnauthorized, "A credential is missing"},
		{CredentialInvalid, http.StatusUnauthorized, "The credential is not valid"},
		{CredentialForbidden, http.StatusForbidden, "This credential does not allow that"},
		{IdentityInBody, http.StatusBadRequest, "An id in a body is not a credential"},
		{IdempotencyKeyInvalid, http.StatusBadRequest, "The Idempotency-Key can't be used"},
		{QueryInvalid, http.StatusBadRequest, "The query is not what this address takes"},
		{MethodNotAllowed, http.StatusMethodNotAllowed, "This address does not take that method"},
		{NotFound, http.StatusNotFound, "There is nothing at this address"},
		{CrossSite, http.StatusForbidden, "Another site may not do this in a visitor's name"},
		{LogUnavailable, http.StatusServiceUnavailable, "The log does not answer"},
		{LogTrouble, http.StatusServiceUnavailable, "The log needs an operator"},
		{Overloaded, http.StatusServiceUnavailable, "Too many requests wait already"},
		{ViewUnavailable, http.StatusServiceUnavailable, "The line can't be seen at the moment"},
		{NotNear, http.StatusConflict, "It is too early for a stream"},
		{StreamsFull, http.StatusServiceUnavailable, "There are too many streams"},
		{Internal, http.StatusInternalServerError, "Something that must not happen has happened"},
	}
}

// info finds c among the codes. A few comparisons are only paid by requests that failed.
func (c Code) info() CodeInfo {
	for _, i := range Codes() {
		if i.Code == c {
			return i
		}
	}
	return CodeInfo{Internal, http.StatusInternalServerError, "Something that must not happen has happened"}
}

// Problem is an RFC 9457 problem document. It is an error, so handlers just return it.
type Problem struct {
	Code   Code
	Detail string // for people; no credential, no visitor id

	// RetryAfter, where it isn't 0, is sent in whole seconds, rounded up.
	RetryAfter time.Duration

	// Members are what the document says beside that, by name (RFC 9457, 3.2); nil for nothing.
	Members map[string]any
}

// Problemf makes a Problem. The detail is shown to whoever asked.
func Problemf(code Code, format string, args ...any) *Problem {
	return &Problem{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// After says when it makes sense to ask again.
func (p *Problem) After(d time.Duration) *Problem {
	p.RetryAfter = d
	return p
}

// With adds a member to the document. The name is none of type, title, status, code and detail.
func (p *Problem) With(name string, value any) *Problem {
	if p.Members == nil {
		p.Members = map[string]any{}
	}
	p.Members[name] = value
	return p
}

// Status is the HTTP status of the problem's code.
func (p *Problem) Status() int { return p.Code.info().Status }

func (p *Problem) Error() string { return string(p.Code) + ": " + p.Detail }

// document is a Problem as it is sent. The type is a name and not an address, since nothing stands behind it.
type document struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   Code   `json:"code"`
	Detail string `json:"detail,omitempty"`

	Members map[string]any `json:",embed"`
}

// WriteProblem answers with p.
func WriteProblem(c echo.Context, p *Problem) error {
	info := p.Code.info()
	body, err := json.Marshal(document{
		Type: "urn:soonbeon:problem:" + string(info.Code), Title: info.Title, Status: info.Status, Code: info.Code, Detail: p.Detail,
		Members: p.Members,
	}, json.Deterministic(true))
	if err != nil { // a detail that is not UTF-8: what remains is right all the same
		body = fmt.Appendf(nil, `{"type":"urn:soonbeon:problem:%s","status":%d,"code":"%[1]s"}`, info.Code, info.Status)
	}
	h := c.Response().Header()
	if p.RetryAfter > 0 {
		SetRetryAfter(h, p.RetryAfter)
	}
	switch {
	case info.Status == http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="soonbeon"`)
	case info.Code == BodyTooLarge, info.Code == ContentType:
		// The rest of the body is not read, be it endless: the connection can't be used again.
		h.Set("Connection", "close")
	}
	return write(c, info.Status, problemType, body)
}

// SetRetryAfter sets Retry-After to d in whole seconds, rounded up, and 1 at least.
func SetRetryAfter(h http.Header, d time.Duration) {
	s := max(int64((d+time.Second-1)/time.Second), 1)
	h["Retry-After"] = []string{strconv.FormatInt(s, 10)}
}

// problemOf makes a problem of whatever a handler returned. expected is false for what no handler should return.
func problemOf(err error) (p *Problem, expected bool) {
	if errors.As(err, &p) {
		return p, true
	}
	var he *echo.HTTPError
	if errors.As(err, &he) {
		switch he.Code {
		case http.StatusNotFound:
			return Problemf(NotFound, "see the documentation for the addresses that there are"), true
		case http.StatusMethodNotAllowed:
			return Problemf(MethodNotAllowed, "the Allow header says which methods it takes"), true
		case http.StatusRequestEntityTooLarge:
			return Problemf(BodyTooLarge, "a shorter one is needed"), true
		}
	}
	return Problemf(Internal, "it was noted; trying again may help"), false
}
