package httpapi

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"
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
