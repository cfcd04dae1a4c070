package verify

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const longestFile = 800

func TestHabits(t *testing.T) {
	report(t, habitProblems(goFiles(t, "proto", "pkg", "services")))
}

func habitProblems(files []goFile) []string {
	var problems []string
	documented := map[string]bool{}
	for _, f := range files {
		if f.ast.Doc != nil && !f.isTest() && (path.Base(f.path) == "doc.go" || f.ast.Name.Name == "main") {
			documented[path.Dir(f.path)] = true
		}
	}
	for _, f := range files {
		if ast.IsGenerated(f.ast) {
			continue
		}
		if dir := path.Dir(f.path); !f.isTest() && !documented[dir] {
			documented[dir] = true // one line for each package
			problems = append(problems, fmt.Sprintf("%s has no doc.go with a package comment: what it promises, what happens "+
				"when what it depends on dies, what it leaves out", dir))
		}
		if f.lines > longestFile {
			problems = append(problems, fmt.Sprintf("%s has %d lines: split what isn't always changed together", f.path, f.lines))
		}
		problems = append(problems, f.habits()...)
	}
	return problems
}

func (f goFile) habits() []string {
	var problems []string
	add := func(n ast.Node, format string, args ...any) {
		problems = append(problems, f.at(n)+": "+fmt.Sprintf(format, args...))
	}
	fakeClock := slices.ContainsFunc(f.ast.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` })
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Name.Name == "init" && n.Recv == nil {
				add(n, "init: two instances in one process must work")
			}
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			if !ok || pkg.Obj != nil { // a variable of that name
				return true
			}
			switch name := pkg.Name + "." + n.Sel.Name; name {
			case "time.Sleep":
				if f.isTest() && !fakeClock {
					add(n, "a test that sleeps: wait for a signal, or use testing/synctest")
				}
			case "prometheus.DefaultRegisterer", "prometheus.MustRegister", "prometheus.Register", "prometheus.DefaultGatherer":
				add(n, "%s is process-wide: take a prometheus.Registerer", name)
			case "zap.L", "zap.S", "zap.ReplaceGlobals", "slog.Default":
				add(n, "%s is process-wide: take a logger", name)
			case "os.Exit", "log.Fatal", "log.Fatalf":
				if !f.isTest() && f.ast.Name.Name != "main" {
					add(n, "%s: only main exits", name)
				}
			}
		}
		return true
	})
	return problems
}

func TestHabitProblemsAreFound(t *testing.T) {
	doc := parse(t, "pkg/x/doc.go", "// Package x promises.\npackage x\n")
	for _, c := range []struct {
		path, src, want string
	}{
		{"pkg/x/x.go", "package x\n", ""},
		{"pkg/y/y.go", "// Package y promises.\npackage y\n", "no doc.go"},
		{"services/cmd/z/main.go", "// Command z runs.\npackage main\n", ""},
		{"pkg/x/x.go", "package x\n" + strings.Repeat("\n", longestFile), "801 lines"},
		{"pkg/x/x.go", "package x\nfunc init() {}\n", "pkg/x/x.go:2:1: init"},
		{"pkg/x/x_test.go", "package x\nimport \"time\"\nfunc f() { time.Sleep(1) }\n", "sleeps"},
		{"pkg/x/x_test.go", "package x\nimport (\"testing/synctest\"; \"time\")\nfunc f() { time.Sleep(1) }\n", ""},
		{"pkg/x/x.go", "package x\nfunc f() { prometheus.MustRegister(nil) }\n", "process-wide"},
		{"pkg/x/x.go", "package x\nfunc f() { os.Exit(1) }\n", "only main exits"},
		{"pkg/x/x_test.go", "package x\nfunc TestMain() { os.Exit(1) }\n", ""},
	} {
		got := habitProblems([]goFile{doc, parse(t, c.path, c.src)})
		if c.want == "" {
			require.Empty(t, got, c.src)
		} else {
			require.Len(t, got, 1, c.src)
			require.Contains(t, got[0], c.want)
		}
	}
}
