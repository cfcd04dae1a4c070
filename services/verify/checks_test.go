package verify

import (
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

// TestReadinessChecksAreDocumented compares the names of the checks in the code with the runbook's table of them: whoever finds one in /readyz looks
// for what it means.
func TestReadinessChecksAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, runbook))
	require.NoError(t, err)
	report(t, checkProblems(goFiles(t, "pkg", "services"), string(text)))
}

var checkRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

func checkProblems(files []goFile, text string) []string {
	_, table, ok := strings.Cut(text, "The checks of `/readyz`:")
	if !ok {
		return []string{runbook + " has no table of the checks of /readyz"}
	}
	table, _, _ = strings.Cut(strings.TrimLeft(table, "\n"), "\n\n")
	rows := map[string]bool{}
	for _, m := range checkRow.FindAllStringSubmatch(table, -1) {
		rows[m[1]] = true
	}
	var problems []string
	checks := checksIn(files)
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		if !rows[name] {
			problems = append(problems, fmt.Sprintf("%s: the check %q of /readyz has no row in %s", checks[name], name, runbook))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if checks[name] == "" {
			problems = append(problems, fmt.Sprintf("%s explains the check %q of /readyz, and no code has it", runbook, name))
		}
	}
	return problems
}

// checksIn finds the calls of lifecycle.Readiness.Check, which is the only Check whose first argument is a text.
func checksIn(files []goFile) map[string]string {
	checks := map[string]string{}
	for _, f := range files {
		if f.isTest() {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 2 {
				return true
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); !ok || sel.Sel.Name != "Check" {
				return true
			}
			if name, ok := call.Args[0].(*ast.BasicLit); ok && name.Kind == token.STRING {
				if text, err := strconv.Unquote(name.Value); err == nil {
					checks[text] = f.at(name)
				}
			}
			return true
		})
	}
	return checks
}

func TestCheckProblemsAreFound(t *testing.T) {
	files := []goFile{parse(t, "services/x/x.go", "package x\nfunc f() { r.Check(\"a\", g); o.Check(q); r.Check(\"b\", g) }\n")}
	const head = "The checks of `/readyz`:\n\n| check | fails when |\n|---|---|\n"
	require.Empty(t, checkProblems(files, head+"| `a` | x |\n| `b` | y |\n\n| `c` | of another table |\n"))
	for text, want := range map[string]string{
		head + "| `a` | x |\n":                               `"b" of /readyz has no row`,
		head + "| `a` | x |\n| `b` | x |\n| `log_q` | x |\n": `"log_q" of /readyz, and no code`,
		"nothing": "has no table",
	} {
		got := checkProblems(files, text)
		require.Len(t, got, 1, text)
		require.Contains(t, got[0], want)
	}
}
