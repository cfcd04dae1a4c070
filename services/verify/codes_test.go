package verify

import (
	"fmt"
	"go/ast"
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

const runbook = "docs/runbook.md"

// codeHeading is a heading of one lower-case word, as in "### log_unavailable"; no other heading looks so.
var codeHeading = regexp.MustCompile("(?m)^### +`?([a-z][a-z0-9_]*)`? *$")

// TestProblemCodesAreDocumented compares the constants of type Code with the headings of the runbook. A code is in the
// hands of clients for ever, so each says what it means, what a client does about it, and what an operator does.
func TestProblemCodesAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, runbook))
	if err != nil {
		t.Errorf("%s can't be read, so no problem code is documented: %v", runbook, err)
	}
	report(t, codeProblems(goFiles(t, "pkg/gate", "services"), string(text)))
}

func codeProblems(files []goFile, text string) []string {
	codes := codesIn(files)
	if len(codes) == 0 {
		return []string{`no problem code was found: constants of services/httpapi with a string and the type Code`}
	}
	var problems []string
	headings := map[string]bool{}
	for _, m := range codeHeading.FindAllStringSubmatch(text, -1) {
		if headings[m[1]] {
			problems = append(problems, fmt.Sprintf("%s has the heading %q twice", runbook, "### "+m[1]))
		}
		headings[m[1]] = true
		if codes[m[1]] == "" {
			problems = append(problems, fmt.Sprintf("%s has the heading %q, and no such problem code exists", runbook, "### "+m[1]))
		}
	}
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		if !headings[code] {
			problems = append(problems, fmt.Sprintf("the problem code %s (%s) has no heading %q in %s", code, codes[code], "### "+code, runbook))
		}
	}
	return problems
}

// codesIn finds the codes, and where each is: constants of type Code in httpapi, of type httpapi.Code elsewhere, and those of
// the gate, which has no type for them since it imports nothing of the services: its constants named Code….
func codesIn(files []goFile) map[string]string {
	codes := map[string]string{}
	for _, f := range files {
		if f.isTest() {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			switch kind := spec.Type.(type) {
			case nil:
				if f.ast.Name.Name != "gate" || !strings.HasPrefix(spec.Names[0].Name, "Code") {
					return true
				}
			case *ast.Ident:
				if kind.Name != "Code" || f.ast.Name.Name != "httpapi" {
					return true
				}
			case *ast.SelectorExpr:
				if pkg, ok := kind.X.(*ast.Ident); !ok || pkg.Name != "httpapi" || kind.Sel.Name != "Code" {
					return true
				}
			default:
				return true
			}
			for _, v := range spec.Values {
				if lit, ok := v.(*ast.BasicLit); ok {
					if text, err := strconv.Unquote(lit.Value); err == nil {
						codes[text] = f.at(lit)
					}
				}
			}
			return true
		})
	}
	return codes
}

func TestCodeProblemsAreFound(t *testing.T) {
	files := []goFile{
		parse(t, "services/httpapi/p.go", "package httpapi\nconst (\n\tA Code = \"a_b\"\n\tother string = \"no\"\n)\n"),
		parse(t, "services/enter/p.go", "package enter\nconst C httpapi.Code = \"c\"\n"),
		parse(t, "pkg/gate/p.go", "package gate\nconst (\n\tCodeD = \"d\"\n\tTokenHeader = \"no\"\n)\n"),
	}
	require.Empty(t, codeProblems(files, "## Problem codes\n\n### a_b\n\ntext\n\n### `c`\n\n### d\n\n### When Kafka is away\n"))
	for _, c := range []struct{ text, want string }{
		{"### a_b\n### d\n", "c (services/enter/p.go:2:24) has no heading"},
		{"### a_b\n### c\n", "d (pkg/gate/p.go:3:10) has no heading"},
		{"### a_b\n### c\n### d\n### gone\n", `"### gone", and no such`},
		{"### a_b\n### c\n### d\n### c\n", "twice"},
	} {
		got := codeProblems(files, c.text)
		require.Len(t, got, 1, c)
		require.Contains(t, got[0], c.want)
	}
	require.Len(t, codeProblems(files[:0], ""), 1)
}
