package verify

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryRouteIsDescribedOrLeftOut compares the routes in the code with the OpenAPI document: each is an operation of it, or its info.description says
// that it is left out. So a new one can't be forgotten.
func TestEveryRouteIsDescribedOrLeftOut(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "services/admin/openapi.json"))
	require.NoError(t, err)
	report(t, routeProblems(t, goFiles(t, "services"), text))
}

var routeInText = regexp.MustCompile(`\b(GET|POST|PUT|DELETE|PATCH|HEAD) (/[^\s,;)]*[^\s,;).]|/)`)

func routeProblems(t *testing.T, files []goFile, description []byte) []string {
	t.Helper()
	var doc struct {
		Info struct {
			Description string
		}
		Paths map[string]map[string]any
	}
	require.NoError(t, json.Unmarshal(description, &doc))
	described, leftOut := map[string]bool{}, map[string]bool{}
	for path, item := range doc.Paths {
		for method := range item {
			if method != "parameters" {
				described[strings.ToUpper(method)+" "+path] = true
			}
		}
	}
	for _, m := range routeInText.FindAllString(doc.Info.Description, -1) {
		leftOut[m] = true
	}
	served, problems := routesIn(files)
	for _, r := range slices.Sorted(maps.Keys(served)) {
		switch {
		case described[r] && leftOut[r]:
			problems = append(problems, fmt.Sprintf("%s is described, and said to be left out", r))
		case !described[r] && !leftOut[r]:
			problems = append(problems, fmt.Sprintf("%s: %s is neither an operation of services/admin/openapi.json nor among what its info.description leaves out", served[r], r))
		}
	}
	for _, all := range []map[string]bool{described, leftOut} {
		for _, r := range slices.Sorted(maps.Keys(all)) {
			if served[r] == "" {
				problems = append(problems, fmt.Sprintf("services/admin/openapi.json has %s, and no code serves it", r))
			}
		}
	}
	return problems
}

var routeParam = regexp.MustCompile(`:(\w+)`)

// routesIn finds the routes, and where each is: what is given to echo's GET, POST and so on, and patterns with a method of http.ServeMux.
func routesIn(files []goFile) (routes map[string]string, problems []string) {
	routes = map[string]string{}
	for _, f := range files {
		if f.isTest() || under(f.path, "services/e2e") || under(f.path, "services/verify") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 2 {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch verb := sel.Sel.Name; verb {
			case "GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "Any", "Match", "Add":
				if x, ok := sel.X.(*ast.Ident); !ok || x.Name != "e" {
					return true // of another thing than an echo.Echo, which is called e everywhere
				}
				path, ok := textOf(files, f, call.Args[0])
				if !ok || verb == "Any" || verb == "Match" || verb == "Add" {
					problems = append(problems, fmt.Sprintf("%s: which route is this? Say it by e.GET and so on, as a text", f.at(call)))
					return true
				}
				routes[verb+" "+routeParam.ReplaceAllString(path, "{$1}")] = f.at(call)
			case "Handle", "HandleFunc":
				if pattern, ok := textOf(files, f, call.Args[0]); ok && strings.Contains(pattern, " ") {
					routes[strings.TrimSuffix(pattern, "{$}")] = f.at(call)
				}
			}
			return true
		})
	}
	return routes, problems
}

// textOf is what a text in code comes to: literals, constants of the same package, and sums of them.
func textOf(files []goFile, f goFile, e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, e.Kind == token.STRING && err == nil
	case *ast.BinaryExpr:
		a, ok := textOf(files, f, e.X)
		b, also := textOf(files, f, e.Y)
		return a + b, ok && also
	case *ast.Ident:
		for _, other := range files {
			if filepath.Dir(other.path) != filepath.Dir(f.path) {
				continue
			}
			for _, d := range other.ast.Decls {
				g, ok := d.(*ast.GenDecl)
				if !ok || g.Tok != token.CONST {
					continue
				}
				for _, s := range g.Specs {
					for i, name := range s.(*ast.ValueSpec).Names {
						if v := s.(*ast.ValueSpec).Values; name.Name == e.Name && i < len(v) {
							return textOf(files, other, v[i])
						}
					}
				}
			}
		}
	}
	return "", false
}

func TestRouteProblemsAreFound(t *testing.T) {
	files := []goFile{
		parse(t, "services/x/x.go", "package x\nconst at = \"/a/\"\nfunc f() { e.GET(at+\":id\", h); e.POST(\"/b\", h) }\n"),
		parse(t, "services/y/y.go", "package y\nfunc f() { mux.HandleFunc(\"GET /c\", h); mux.Handle(\"/all/\", e); mux.Handle(\"GET /{$}\", e) }\n"),
	}
	const paths = `"paths":{"/a/{id}":{"parameters":[],"get":{}},"/b":{"post":{}}}`
	doc := func(text, paths string) []byte {
		return []byte(`{"info":{"description":"Left out: ` + text + `"},` + paths + `}`)
	}
	require.Empty(t, routeProblems(t, files, doc("GET /c (x), GET /.", paths)))
	for _, c := range []struct {
		doc  []byte
		want string
	}{
		{doc("GET /.", paths), "GET /c is neither"},
		{doc("GET /c, GET /, GET /d.", paths), "GET /d, and no code"},
		{doc("GET /c, GET /, POST /b", paths), "POST /b is described, and"},
		{doc("GET /c, GET /", `"paths":{"/a/{id}":{"get":{}}}`), "POST /b is neither"},
		{doc("GET /c, GET /", `"paths":{"/a/{id}":{"get":{},"put":{}},"/b":{"post":{}}}`), "PUT /a/{id}, and no code"},
	} {
		got := routeProblems(t, files, c.doc)
		require.Len(t, got, 1, string(c.doc))
		require.Contains(t, got[0], c.want)
	}
	_, problems := routesIn([]goFile{parse(t, "services/x/x.go", "package x\nfunc f() { e.GET(v, h) }\n")})
	require.Len(t, problems, 1)
}
