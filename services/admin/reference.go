package admin

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

//go:embed reference.html.tmpl
var referenceText string

// reference is the API's description as people read it: a page of plain HTML, made once, that loads nothing.
func reference() ([]byte, error) {
	var d described
	if err := json.Unmarshal(description, &d); err != nil {
		return nil, fmt.Errorf("reading the description of the API: %w", err)
	}
	shown := shownAPI{Title: d.Info.Title, Version: d.Info.Version, Description: d.Info.Description}
	paths := make([]string, 0, len(d.Paths))
	for path := range d.Paths {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		for _, method := range []string{"get", "post", "put", "delete"} {
			raw, ok := d.Paths[path][method]
			if !ok {
				continue
			}
			var o operation
			if err := json.Unmarshal(raw, &o); err != nil {
				return nil, fmt.Errorf("reading the description of %s %s: %w", method, path, err)
			}
			s := shownOperation{Method: strings.ToUpper(method), Path: path, ID: method + strings.NewReplacer("/", "-", "{", "", "}", "").Replace(path),
				Summary: o.Summary, Description: o.Description}
			for _, p := range o.Parameters {
				if name, ok := strings.CutPrefix(p.Ref, "#/components/parameters/"); ok {
					p = d.Components.Parameters[name]
				}
				s.Parameters = append(s.Parameters, p)
			}
			for _, media := range o.RequestBody.Content {
				s.Body = pretty(media.Schema)
			}
			for code, r := range o.Responses {
				if name, ok := strings.CutPrefix(r.Ref, "#/components/responses/"); ok {
					r = d.Components.Responses[name]
				}
				s.Responses = append(s.Responses, shownResponse{code, r.Description})
			}
			slices.SortFunc(s.Responses, func(a, b shownResponse) int { return strings.Compare(a.Code, b.Code) })
			shown.Operations = append(shown.Operations, s)
		}
	}
	for name, schema := range d.Components.Schemas {
		shown.Schemas = append(shown.Schemas, shownSchema{name, pretty(schema)})
	}
	slices.SortFunc(shown.Schemas, func(a, b shownSchema) int { return strings.Compare(a.Name, b.Name) })
	t, err := template.New("reference").Parse(referenceText)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, shown)
	return b.Bytes(), err
}

func pretty(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// described is what of an OpenAPI document the page shows.
type described struct {
	Info       struct{ Title, Version, Description string }
	Paths      map[string]map[string]json.RawMessage
	Components struct {
		Parameters map[string]parameter
		Responses  map[string]response
		Schemas    map[string]json.RawMessage
	}
}

type operation struct {
	Summary, Description string
	Parameters           []parameter
	RequestBody          struct {
		Content map[string]struct{ Schema json.RawMessage }
	}
	Responses map[string]response
}

type parameter struct {
	Ref         string `json:"$ref"`
	Name        string
	In          string
	Required    bool
	Description string
}

type response struct {
	Ref         string `json:"$ref"`
	Description string
}

type shownAPI struct {
	Title, Version, Description string
	Operations                  []shownOperation
	Schemas                     []shownSchema
}

type shownOperation struct {
	Method, Path, ID, Summary, Description, Body string
	Parameters                                   []parameter
	Responses                                    []shownResponse
}

type shownResponse struct{ Code, Description string }

type shownSchema struct{ Name, JSON string }

// reference serves the page.
func (s *Service) reference(c echo.Context) error {
	h := c.Response().Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	return c.HTMLBlob(http.StatusOK, s.page)
}
