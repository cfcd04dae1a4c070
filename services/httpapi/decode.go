package httpapi

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// MaxBody is the longest body that is read, in bytes.
const MaxBody = 4 << 10

// DecodeJSON reads the body into v, a pointer to a struct. It takes one JSON object, UTF-8, at most MaxBody bytes, whose
// names are exactly those of v, each once; so that no two readers of one body can see two different things. A field
// that would name a visitor is refused by a code of its own. The error is a *Problem.
func DecodeJSON(c echo.Context, v any) error {
	body, err := jsonBody(c.Request(), MaxBody)
	if err != nil {
		return err
	}
	return decode(body, v)
}

// DecodeMembers reads the body as DecodeJSON does, up to limit bytes, and returns its members as they are, by name: for whoever
// tells all mistakes at once. With optional, no body at all is an object without members.
func DecodeMembers(c echo.Context, limit int64, optional bool) (map[string]jsontext.Value, error) {
	r := c.Request()
	if optional && r.ContentLength == 0 {
		return nil, nil
	}
	body, err := jsonBody(r, limit)
	if err != nil {
		return nil, err
	}
	var members map[string]jsontext.Value
	err = decode(body, &members)
	if err == nil && members == nil { // null
		err = Problemf(BodyMalformed, "a JSON object is wanted")
	}
	return members, err
}

// DecodeQueue is DecodeJSON of {"queue": <string>}, which is all that most bodies hold, and returns what the string says.
func DecodeQueue(c echo.Context) (string, error) {
	body, err := jsonBody(c.Request(), MaxBody)
	if err != nil {
		return "", err
	}
	if name, ok := plainQueue(body); ok {
		return name, nil
	}
	var v struct {
		Queue string `json:"queue"`
	}
	err = decode(body, &v)
	return v.Queue, err
}

// plainQueue reads the one spelling that nearly everybody sends, at a tenth of the price: no white space, and nothing but
// the characters of a queue id in the string. Whatever else it is, is for the decoder to say.
func plainQueue(body []byte) (string, bool) {
	rest, ok := bytes.CutPrefix(body, []byte(`{"queue":"`))
	if !ok {
		return "", false
	}
	name, ok := bytes.CutSuffix(rest, []byte(`"}`))
	if !ok {
		return "", false
	}
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return "", false
		}
	}
	return string(name), true
}

// jsonBody is the body of a request that says that it holds JSON; it is not empty.
func jsonBody(r *http.Request, limit int64) ([]byte, error) {
	if err := checkContentType(r.Header); err != nil {
		return nil, err
	}
	body, err := readBody(r, limit)
	if err == nil && len(body) == 0 {
		err = Problemf(BodyMalformed, "the body is empty; a JSON object is wanted")
	}
	return body, err
}

func decode(body []byte, v any) error {
	if err := json.Unmarshal(body, v, json.RejectUnknownMembers(true)); err != nil {
		return malformed(err)
	}
	return nil
}

func checkContentType(h http.Header) error {
	got := h["Content-Type"]
	if len(got) == 1 && got[0] == "application/json" {
		return nil // what nearly everybody sends
	}
	if len(got) != 1 {
		return Problemf(ContentType, "Content-Type: application/json is wanted, once; there are %d", len(got))
	}
	kind, params, err := mime.ParseMediaType(got[0])
	if err != nil || kind != "application/json" {
		return Problemf(ContentType, "Content-Type: application/json is wanted, not %.80q", got[0])
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return Problemf(ContentType, "JSON is UTF-8, not %.80q", charset)
	}
	return nil
}

func readBody(r *http.Request, limit int64) ([]byte, error) {
	if given := r.Header["Content-Encoding"]; len(given) > 0 && given[0] != "" {
		return nil, Problemf(ContentType, "a Content-Encoding is not taken: send the JSON as it is")
	}
	if r.ContentLength > limit {
		return nil, Problemf(BodyTooLarge, "it has %d bytes; %d are the most", r.ContentLength, limit)
	}
	var body []byte
	var err error
	if r.ContentLength >= 0 {
		body = make([]byte, r.ContentLength)
		_, err = io.ReadFull(r.Body, body)
	} else { // sent in chunks, perhaps without end
		body, err = io.ReadAll(io.LimitReader(r.Body, limit+1))
	}
	switch {
	case int64(len(body)) > limit:
		return nil, Problemf(BodyTooLarge, "it has more than %d bytes", limit)
	case err != nil:
		return nil, Problemf(BodyMalformed, "the body did not arrive as a whole")
	}
	return body, nil
}

// malformed says what is wrong in words of HTTP and JSON, not of Go.
func malformed(err error) *Problem {
	var syntactic *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case errors.As(err, &semantic):
		name := semantic.JSONPointer.LastToken()
		switch {
		case !errors.Is(err, json.ErrUnknownName):
			return Problemf(BodyMalformed, "%.80q has the wrong type", string(semantic.JSONPointer))
		case namesVisitor(name):
			return Problemf(IdentityInBody, "%.80q is refused: who enters is said by a receipt or a signed token, as Authorization: Bearer or as the cookie", name)
		default:
			return Problemf(BodyMalformed, "there is no field %.80q", name)
		}
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntactic):
		return Problemf(BodyMalformed, "%.80q is given twice", syntactic.JSONPointer.LastToken())
	case errors.As(err, &syntactic):
		return Problemf(BodyMalformed, "it stops being one JSON object in UTF-8 at byte %d", syntactic.ByteOffset)
	}
	return Problemf(BodyMalformed, "it is not one JSON object in UTF-8")
}

// namesVisitor says whether a field looks like somebody's id, however it is spelled.
func namesVisitor(field string) bool {
	switch strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(field)) {
	case "visitor", "visitorid", "id", "user", "userid", "sub", "subject":
		return true
	}
	return false
}

// QueryQueue is the queue that the query names, exactly once. Other parameters don't matter. The error is a *Problem.
func QueryQueue(r *http.Request) (queue.ID, error) {
	const name = "queue"
	raw := r.URL.RawQuery
	value, ok := strings.CutPrefix(raw, name+"=")
	if !ok || strings.ContainsAny(value, "&;%+") {
		all, err := url.ParseQuery(raw)
		if err != nil {
			return "", Problemf(QueryInvalid, "it can't be read")
		}
		for given := range all {
			if strings.HasPrefix(given, name+"[") {
				return "", Problemf(QueryInvalid, "queue is one value, not a list")
			}
		}
		if n := len(all[name]); n != 1 {
			return "", Problemf(QueryInvalid, "?queue=<id> is wanted, once; there are %d", n)
		}
		value = all[name][0]
	}
	id, err := queue.ParseID(value)
	if err != nil {
		return "", Problemf(QueryInvalid, "%v", err)
	}
	return id, nil
}
