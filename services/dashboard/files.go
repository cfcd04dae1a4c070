package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/soonbeon/soonbeon/services/httpapi"
)

//go:embed static lang
var builtin embed.FS

// policy lets the page run and load its own files, ask its own origin, and nothing else. data: is for a favicon of nothing, so that no browser asks
// for one.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

type file struct {
	kind, etag string
	body       []byte
}

// words.json holds every language; it is made of lang/*.json.
const words = "words.json"

func readFiles() (map[string]file, error) {
	files := map[string]file{}
	kinds := map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".json": "application/json"}
	keep := func(name string, body []byte) {
		sum := sha256.Sum256(body)
		files[name] = file{kinds[path.Ext(name)], `"` + hex.EncodeToString(sum[:8]) + `"`, body}
	}
	names, err := fs.Glob(builtin, "static/*")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		b, err := builtin.ReadFile(name)
		if err != nil {
			return nil, err
		}
		keep(path.Base(name), b)
	}
	if names, err = fs.Glob(builtin, "lang/*.json"); err != nil {
		return nil, err
	}
	all := map[string]jsontext.Value{}
	for _, name := range names {
		b, err := builtin.ReadFile(name)
		if err != nil {
			return nil, err
		}
		v := jsontext.Value(b)
		if err := v.Compact(); err != nil {
			return nil, fmt.Errorf("dashboard: %s: %w", name, err)
		}
		all[strings.TrimSuffix(path.Base(name), ".json")] = v
	}
	b, err := json.Marshal(all, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	keep(words, b)
	return files, nil
}

// Register adds the dashboard to e, the echo instance of the private port, at / and /dashboard/.
func (s *Service) Register(e *echo.Echo) {
	there := func(c echo.Context) error { return c.Redirect(http.StatusFound, "/dashboard/") }
	e.GET("/", there)
	e.GET("/dashboard", there)
	e.GET("/dashboard/", func(c echo.Context) error { return s.serve(c, "index.html") })
	e.GET("/dashboard/events", s.events)
	e.GET("/dashboard/:name", func(c echo.Context) error { return s.serve(c, c.Param("name")) })
}

func (s *Service) serve(c echo.Context, name string) error {
	f, ok := s.files[name]
	if !ok {
		return httpapi.Problemf(httpapi.NotFound, "the dashboard has no such file")
	}
	h := c.Response().Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", f.etag)
	if c.Request().Header.Get("If-None-Match") == f.etag {
		return c.NoContent(http.StatusNotModified)
	}
	return c.Blob(http.StatusOK, f.kind, f.body)
}
