package httpapi

import (
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// WriteJSON answers with v. Like every answer it is not to be stored by anybody on the way.
func WriteJSON(c echo.Context, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	return write(c, status, jsonType, body)
}

// WriteRawJSON answers with body, which is JSON already: for answers that are worth appending by hand. body may be used
// again as soon as it returns.
func WriteRawJSON(c echo.Context, status int, body []byte) error {
	return write(c, status, jsonType, body)
}

// What is the same in every answer is set as it is: Header.Set would look at its name and copy it each time.
var (
	jsonType    = []string{"application/json"}
	problemType = []string{"application/problem+json"}
	noStore     = []string{"no-store"}
)

func write(c echo.Context, status int, contentType []string, body []byte) error {
	res := c.Response()
	h := res.Header()
	h["Content-Type"] = contentType
	h["Cache-Control"] = noStore
	res.WriteHeader(status)
	_, _ = res.Write(body) // fails only when nobody is there to be told
	return nil
}

// AppendStanding appends to an answer that is written by hand, after another member, how the queue stands: when it opens, that lots
// will be drawn, that it is paused, and what its operators say. lots: its reader has no place yet, since they will be drawn.
func AppendStanding(b []byte, e *queue.Entry, lots bool, now time.Time) []byte {
	if lots || !e.Settings.Opened(now.UnixMilli()) {
		b = append(b, `,"opensAt":"`...)
		b = time.UnixMilli(e.Settings.OpensAtMs).UTC().AppendFormat(b, time.RFC3339Nano)
		b = append(b, `","opensInSeconds":`...)
		b = strconv.AppendInt(b, max(e.Settings.OpensAtMs-now.UnixMilli()+999, 0)/1000, 10)
	}
	if lots {
		b = append(b, `,"order":"draw","commitment":"`...)
		b = append(append(b, e.Commitment...), '"') // hexadecimal
	}
	if e.Paused {
		b = append(b, `,"paused":true`...)
	}
	return AppendText(b, `,"message":`, e.Settings.Message)
}

// AppendText appends a member whose value is text of an operator's, which is UTF-8; nothing where there is none.
func AppendText(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	b, _ = jsontext.AppendQuote(append(b, name...), text)
	return b
}
