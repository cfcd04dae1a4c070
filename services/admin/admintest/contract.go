package admintest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/services/admin"
)

// Contract is the description, ready to be held against answers.
type Contract struct {
	t        testing.TB
	document map[string]any
	compiler *jsonschema.Compiler
	mu       sync.Mutex
	schemas  map[string]*jsonschema.Schema
	answered map[string]bool // "GET /admin/queues 200"
}

const where = "https://soonbeon.invalid/openapi.json"

// Load reads the description.
func Load(t testing.TB) *Contract {
	t.Helper()
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(admin.Description()))
	require.NoError(t, err)
	c := &Contract{t: t, document: parsed.(map[string]any), compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}, answered: map[string]bool{}}
	c.compiler.AssertFormat()
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	require.NoError(t, c.compiler.AddResource(where, parsed))
	return c
}

// Operations are all there are, as "GET /admin/queues/{id}", sorted.
func (c *Contract) Operations() []string {
	var all []string
	for path, item := range c.object("paths") {
		for method := range item.(map[string]any) {
			if method != "parameters" {
				all = append(all, strings.ToUpper(method)+" "+path)
			}
		}
	}
	slices.Sort(all)
	return all
}

// Compile compiles every schema there is, and fails the test where one is none.
func (c *Contract) Compile() {
	c.t.Helper()
	for name := range c.object("components", "schemas") {
		c.schema("components", "schemas", name)
	}
}

// Enum are the values of a property of a schema.
func (c *Contract) Enum(schema, property string) []string {
	c.t.Helper()
	var all []string
	for _, v := range c.object("components", "schemas", schema, "properties", property)["enum"].([]any) {
		all = append(all, v.(string))
	}
	return all
}

// Properties are the names of a schema's properties, sorted.
func (c *Contract) Properties(schema string) []string {
	return slices.Sorted(maps.Keys(c.object("components", "schemas", schema, "properties")))
}

// Validate says what of a body is not as a schema of components wants it.
func (c *Contract) Validate(schema string, body []byte) error {
	return c.validate(c.schema("components", "schemas", schema), body)
}

// Answered are the operations and statuses that were answered by what was wrapped, as "GET /admin/queues 200", sorted.
func (c *Contract) Answered() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.answered))
}

// Wrap is h, held against the description.
func (c *Contract) Wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := httptest.NewRecorder()
		h.ServeHTTP(got, r)
		if err := c.check(r, got); err != nil {
			c.t.Errorf("%s %s answers %d %s: %v", r.Method, r.URL.Path, got.Code, got.Body, err)
		}
		maps.Copy(w.Header(), got.Header())
		w.WriteHeader(got.Code)
		_, _ = w.Write(got.Body.Bytes())
	})
}

// check compares one answer with what its operation may answer. What has no operation is a problem document with 404 or 405.
func (c *Contract) check(r *http.Request, got *httptest.ResponseRecorder) error {
	path, operation := c.operation(r)
	if operation == nil {
		if got.Code != http.StatusNotFound && got.Code != http.StatusMethodNotAllowed && got.Code != http.StatusForbidden {
			return fmt.Errorf("no such operation is described")
		}
		return c.Validate("Problem", got.Body.Bytes())
	}
	status := strconv.Itoa(got.Code)
	at := []string{"paths", path, strings.ToLower(r.Method), "responses", status}
	response, ok := operation["responses"].(map[string]any)[status].(map[string]any)
	if !ok {
		return fmt.Errorf("this status is not described")
	}
	c.mu.Lock()
	c.answered[r.Method+" "+path+" "+status] = true
	c.mu.Unlock()
	if ref, ok := response["$ref"].(string); ok {
		at = strings.Split(strings.TrimPrefix(ref, "#/"), "/")
		response = c.object(at...)
	}
	headers, _ := response["headers"].(map[string]any)
	for name, h := range headers {
		at := append(slices.Clone(at), "headers", name)
		header := h.(map[string]any)
		if ref, ok := header["$ref"].(string); ok {
			at = strings.Split(strings.TrimPrefix(ref, "#/"), "/")
			header = c.object(at...)
		}
		value := got.Header().Get(name)
		if value == "" {
			if header["required"] == true {
				return fmt.Errorf("the header %s is missing", name)
			}
			continue
		}
		if err := c.schema(append(at, "schema")...).Validate(value); err != nil {
			return fmt.Errorf("the header %s is %q: %w", name, value, err)
		}
	}
	content, _ := response["content"].(map[string]any)
	if content == nil {
		if got.Body.Len() > 0 {
			return fmt.Errorf("no body is described")
		}
		return nil
	}
	kind := got.Header().Get("Content-Type")
	if content[kind] == nil {
		return fmt.Errorf("the content type %q is not described", kind)
	}
	return c.validate(c.schema(append(at, "content", kind, "schema")...), got.Body.Bytes())
}

// operation finds the template that a path matches, the one without parameters first.
func (c *Contract) operation(r *http.Request) (path string, operation map[string]any) {
	paths := c.object("paths")
	names := slices.SortedFunc(maps.Keys(paths), func(a, b string) int { return strings.Count(a, "{") - strings.Count(b, "{") })
	for _, name := range names {
		if matches(strings.Split(name, "/"), strings.Split(r.URL.EscapedPath(), "/")) {
			operation, _ := paths[name].(map[string]any)[strings.ToLower(r.Method)].(map[string]any)
			return name, operation
		}
	}
	return "", nil
}

func matches(template, path []string) bool {
	return slices.EqualFunc(template, path, func(t, p string) bool { return t == p || strings.HasPrefix(t, "{") && p != "" })
}

func (c *Contract) validate(schema *jsonschema.Schema, body []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return schema.Validate(v)
}

func (c *Contract) schema(at ...string) *jsonschema.Schema {
	c.t.Helper()
	var pointer strings.Builder
	for _, step := range at {
		pointer.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(step))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := pointer.String()
	if c.schemas[key] == nil {
		s, err := c.compiler.Compile(where + "#" + key)
		require.NoError(c.t, err, key)
		c.schemas[key] = s
	}
	return c.schemas[key]
}

func (c *Contract) object(at ...string) map[string]any {
	var v any = c.document
	for _, step := range at {
		v = v.(map[string]any)[step]
	}
	found, ok := v.(map[string]any)
	if !ok {
		shown, _ := json.Marshal(v)
		c.t.Fatalf("openapi.json: %v is no object: %s", at, shown)
	}
	return found
}
