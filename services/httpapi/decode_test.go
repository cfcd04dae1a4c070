package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/services/httpapi"
)

func decoding(t testing.TB) *fixture {
	f := newFixture(t, httpapi.Config{})
	f.e.POST("/decode", func(c echo.Context) error {
		var body struct {
			Queue string `json:"queue"`
		}
		if err := httpapi.DecodeJSON(c, &body); err != nil {
			return err
		}
		return httpapi.WriteJSON(c, 200, body)
	})
	f.e.GET("/query", func(c echo.Context) error {
		id, err := httpapi.QueryQueue(c.Request())
		if err != nil {
			return err
		}
		return httpapi.WriteJSON(c, 200, map[string]string{"queue": string(id)})
	})
	return f
}

func post(body, contentType string) *http.Request {
	r := httptest.NewRequest("POST", "/decode", strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	return r
}

func TestFault22_Bodies(t *testing.T) {
	f := decoding(t)
	pad := func(n int) string { return `{"queue":"` + strings.Repeat("a", n-len(`{"queue":""}`)) + `"}` }
	for name, tc := range map[string]struct {
		body   string
		code   httpapi.Code
		detail string
	}{
		"empty":            {"", httpapi.BodyMalformed, "empty"},
		"white space":      {" \r\n\t ", httpapi.BodyMalformed, ""},
		"4 KiB and one":    {pad(httpapi.MaxBody + 1), httpapi.BodyTooLarge, "4097"},
		"a megabyte":       {pad(1 << 20), httpapi.BodyTooLarge, ""},
		"array":            {`[]`, httpapi.BodyMalformed, "wrong type"},
		"string":           {`"main"`, httpapi.BodyMalformed, "wrong type"},
		"wrong type":       {`{"queue":7}`, httpapi.BodyMalformed, `/queue`},
		"object inside":    {`{"queue":{"queue":"main"}}`, httpapi.BodyMalformed, `/queue`},
		"deep":             {`{"queue":` + strings.Repeat("[", 4000), httpapi.BodyMalformed, ""},
		"deep and unknown": {`{"a":` + strings.Repeat(`{"a":`, 600) + `1` + strings.Repeat("}", 601), httpapi.BodyMalformed, `\"a\"`},
		"invalid UTF-8":    {"{\"queue\":\"ma\xffin\"}", httpapi.BodyMalformed, "byte"},
		"lone surrogate":   {`{"queue":"\ud800"}`, httpapi.BodyMalformed, "byte"},
		"NUL":              {"{\"queue\":\"ma\x00in\"}", httpapi.BodyMalformed, "byte"},
		"CRLF":             {"{\"queue\":\"ma\r\nin\"}", httpapi.BodyMalformed, "byte"},
		"cut":              {`{"queue":"main"`, httpapi.BodyMalformed, "byte"},
		"more behind":      {`{"queue":"main"}{"queue":"other"}`, httpapi.BodyMalformed, "byte 16"},
		"given twice":      {`{"queue":"main","queue":"other"}`, httpapi.BodyMalformed, `\"queue\" is given twice`},
		"twice, escaped":   {`{"queue":"main","\u0071ueue":"other"}`, httpapi.BodyMalformed, "twice"},
		"unknown field":    {`{"queue":"main","priority":1}`, httpapi.BodyMalformed, "priority"},
		"other case":       {`{"Queue":"main"}`, httpapi.BodyMalformed, "Queue"},
		"byte order mark":  {"\ufeff{}", httpapi.BodyMalformed, "byte 0"},
		"form":             {"queue=main", httpapi.BodyMalformed, ""},
		"visitor":          {`{"queue":"main","visitor":"v"}`, httpapi.IdentityInBody, "visitor"},
		"visitorId":        {`{"queue":"main","visitorId":"v"}`, httpapi.IdentityInBody, "visitorId"},
		"visitor_id":       {`{"visitor_id":"v"}`, httpapi.IdentityInBody, ""},
		"id":               {`{"id":null}`, httpapi.IdentityInBody, ""},
		"user":             {`{"user":{"name":"v"}}`, httpapi.IdentityInBody, ""},
		"USERID":           {`{"USERID":7}`, httpapi.IdentityInBody, ""},
		"sub":              {`{"sub":"v"}`, httpapi.IdentityInBody, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := f.do(post(tc.body, "application/json"))
			status := map[httpapi.Code]int{httpapi.BodyTooLarge: 413}[tc.code]
			if status == 0 {
				status = 400
			}
			requireProblem(t, w, status, tc.code)
			require.Contains(t, w.Body.String(), tc.detail)
			require.Less(t, w.Body.Len(), 600, "the body is not sent back")
		})
	}
	require.Equal(t, 200, f.do(post(pad(httpapi.MaxBody), "application/json")).Code, "4 KiB are fine")
}

func TestContentTypes(t *testing.T) {
	f := decoding(t)
	for contentType, ok := range map[string]bool{
		"application/json":                   true,
		"application/json; charset=utf-8":    true,
		"Application/JSON;charset=\"UTF-8\"": true,
		"":                                   false,
		"text/plain":                         false,
		"application/json, text/plain":       false,
		"application/json; charset=latin1":   false,
		"application/x-www-form-urlencoded":  false,
		"application/jsonx":                  false,
		"\x00":                               false,
	} {
		w := f.do(post(`{"queue":"main"}`, contentType))
		if ok {
			require.Equal(t, 200, w.Code, contentType)
		} else {
			requireProblem(t, w, 415, httpapi.ContentType)
		}
	}
	r := post(`{"queue":"main"}`, "application/json")
	r.Header.Add("Content-Type", "text/plain")
	requireProblem(t, f.do(r), 415, httpapi.ContentType)
	r = post(`{"queue":"main"}`, "application/json")
	r.Header.Set("Content-Encoding", "gzip")
	requireProblem(t, f.do(r), 415, httpapi.ContentType)
}

// Over a real connection: a body without end is answered at once, and not read on.
func TestFault22_EndlessBody(t *testing.T) {
	f := decoding(t)
	s := httpapi.NewServer(httpapi.ServerConfig{Name: "test", Address: "127.0.0.1:0"}, f.e, zap.NewNop())
	require.NoError(t, s.Start(t.Context()))
	defer func() { require.NoError(t, s.Stop(t.Context())) }()
	for name, header := range map[string]string{
		"in chunks":        "Transfer-Encoding: chunked\r\nContent-Type: application/json",
		"announced":        "Content-Length: 1099511627776\r\nContent-Type: application/json",
		"of another type":  "Transfer-Encoding: chunked\r\nContent-Type: text/plain",
		"that never comes": "Content-Length: 4097\r\nContent-Type: application/json",
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", s.Addr())
			require.NoError(t, err)
			defer conn.Close()
			require.NoError(t, conn.SetDeadline(time.Now().Add(5*time.Second)))
			fmt.Fprintf(conn, "POST /decode HTTP/1.1\r\nHost: example.com\r\n%s\r\n\r\n", header)
			stop := make(chan struct{})
			done := make(chan struct{})
			go func() {
				defer close(done)
				chunk := "400\r\n" + strings.Repeat(" ", 0x400) + "\r\n"
				for name != "that never comes" {
					if _, err := io.WriteString(conn, chunk); err != nil {
						return
					}
					select {
					case <-stop:
						return
					default:
					}
				}
			}()
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			close(stop)
			require.NoError(t, err)
			defer res.Body.Close()
			require.Contains(t, []int{413, 415}, res.StatusCode)
			require.True(t, res.Close)
			conn.Close()
			<-done
		})
	}
}

func TestFault21_QueryParameters(t *testing.T) {
	f := decoding(t)
	for query, want := range map[string]string{
		"queue=main":                "main",
		"queue=m%61in":              "main",
		"utm_source=x&queue=main":   "main",
		"queue=main&":               "main",
		"":                          "",
		"queue":                     "",
		"queue=":                    "",
		"queue=a&queue=b":           "",
		"queue=main&queue=main":     "",
		"queue[]=main":              "",
		"queue[0]=main":             "",
		"queue=main&queue[]=b":      "",
		"queue=main;queue=b":        "",
		"queue=%zz":                 "",
		"queue=ma%00in":             "",
		"queue=%ff":                 "",
		"queue=MAIN":                "",
		"queue=main%0d%0aX-Evil:1":  "",
		"Queue=main":                "",
		"queue=" + long(65):         "",
		"queue=../main":             "",
		"queue=main+":               "",
		"visitor=v&queue[main]=yes": "",
	} {
		r := httptest.NewRequest("GET", "/query", nil)
		r.URL.RawQuery = query
		w := f.do(r)
		if want == "" {
			requireProblem(t, w, 400, httpapi.QueryInvalid)
		} else {
			require.JSONEq(t, `{"queue":"`+want+`"}`, w.Body.String(), query)
		}
	}
}

func long(n int) string { return strings.Repeat("a", n) }

func TestDecodeMembers(t *testing.T) {
	decode := func(body string, optional bool) (map[string]jsontext.Value, error) {
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		return httpapi.DecodeMembers(echo.New().NewContext(r, httptest.NewRecorder()), 100, optional)
	}
	got, err := decode(`{"a":1,"b":{"c":[null]}}`, false)
	require.NoError(t, err)
	require.Equal(t, map[string]jsontext.Value{"a": jsontext.Value("1"), "b": jsontext.Value(`{"c":[null]}`)}, got)
	got, err = decode("", true)
	require.NoError(t, err)
	require.Empty(t, got)
	for body, code := range map[string]httpapi.Code{
		"":                    httpapi.BodyMalformed,
		"null":                httpapi.BodyMalformed,
		"[]":                  httpapi.BodyMalformed,
		`{"a":NaN}`:           httpapi.BodyMalformed,
		`{"a":1,"a":2}`:       httpapi.BodyMalformed,
		`{"a":{"b":1,"b":2}}`: httpapi.BodyMalformed,
		`{"a":1} {}`:          httpapi.BodyMalformed,
		`{"a":"` + strings.Repeat("x", 100) + `"}`: httpapi.BodyTooLarge,
	} {
		_, err := decode(body, false)
		var p *httpapi.Problem
		require.ErrorAs(t, err, &p, body)
		require.Equal(t, code, p.Code, body)
	}
}
