package httpapi_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/soonbeon/soonbeon/services/httpapi"
)

// DecodeQueue has a short way for the usual body. It must not let anything through, or refuse anything, that the decoder
// would not, or read another name.
func FuzzDecodeQueue(f *testing.F) {
	for _, body := range []string{
		`{"queue":"main"}`, `{"queue":""}`, `{"queue":"a","queue":"b"}`, `{"queue":"a\"}`, `{"queue":"a"} `, ` {"queue":"a"}`,
		`{"queue":"\u0061"}`, `{"queue":"a"}}`, `{"queue":"A b_"}`, `{"queue":"a\nb"}`, `{"queue":"a","visitor":"b"}`, `{"queue":"é"}`,
		`{"queue":"a"`, `{"queue":"`, `"}`, `{"queue":"}`, `{"queue":null}`, `{"queue":1}`, `{}`, `[]`, ``, "{\"queue\":\"\xff\"}",
	} {
		f.Add(body)
	}
	e := echo.New()
	f.Fuzz(func(t *testing.T, body string) {
		context := func() echo.Context {
			r := httptest.NewRequest("POST", "/", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			return e.NewContext(r, httptest.NewRecorder())
		}
		var v struct {
			Queue string `json:"queue"`
		}
		wantErr := httpapi.DecodeJSON(context(), &v)
		got, err := httpapi.DecodeQueue(context())
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Fatalf("%q: %v, and the decoder says %v", body, err, wantErr)
		}
		if err == nil && got != v.Queue {
			t.Fatalf("%q: %q, and the decoder says %q", body, got, v.Queue)
		}
	})
}
