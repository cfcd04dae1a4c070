package verify

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	testNamed  = regexp.MustCompile(`\b((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9_]*)([…*]?)`)
	makeNamed  = regexp.MustCompile("`make ([a-z-]+)")
	envNamed   = regexp.MustCompile(`\bSOONBEON_[A-Z_]*[A-Z]\b`)
	makeTarget = regexp.MustCompile(`(?m)^([a-z-]+):`)
)

// TestDocumentsNameWhatExists: a guarantee whose test was renamed is no longer proven by what it names.
func TestDocumentsNameWhatExists(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	known := known{targets: map[string]bool{}, tests: map[string]bool{}, variables: map[string]bool{}}
	for _, m := range makeTarget.FindAllStringSubmatch(string(makefile), -1) {
		known.targets[m[1]] = true
	}
	for _, name := range envNamed.FindAllString(help(t), -1) {
		known.variables[name] = true
	}
	for _, f := range goFiles(t, "proto", "pkg", "services") {
		ast.Inspect(f.ast, func(n ast.Node) bool { // strings and tags only: a comment reads no variable
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				for _, name := range envNamed.FindAllString(lit.Value, -1) {
					known.variables[name] = true
				}
			}
			return true
		})
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				known.tests[fn.Name.Name] = true
			}
		}
	}
	known.exists = func(path string) bool { _, err := os.Stat(filepath.Join(root, path)); return err == nil }
	docs := documents(t)
	compose, err := os.ReadFile(filepath.Join(root, "docker-compose.yml"))
	require.NoError(t, err)
	docs["docker-compose.yml"] = string(compose)
	report(t, documentProblems(docs, known))
}

// help is what each sub-command of the binary says of itself: the names of its variables are made from its flags, and are
// written nowhere in the code.
func help(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "soonbeon")
	build := exec.Command("go", "build", "-o", binary, "./services/cmd/soonbeon")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	var all strings.Builder
	for _, command := range []string{"standalone", "enter", "projector", "issuer", "position", "load", "audit", "gate", "queue"} {
		out, err := exec.Command(binary, command, "--help").CombinedOutput()
		require.NoError(t, err, "soonbeon %s --help: %s", command, out)
		all.Write(out)
	}
	return all.String()
}

type known struct {
	targets, tests, variables map[string]bool
	exists                    func(path string) bool
}

func documentProblems(docs map[string]string, known known) []string {
	var problems []string
	for _, doc := range slices.Sorted(maps.Keys(docs)) {
		for _, m := range link.FindAllStringSubmatch(docs[doc], -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, ":") { // within the document, or on the web
				continue
			}
			if !known.exists(path.Join(path.Dir(doc), target)) {
				problems = append(problems, fmt.Sprintf("%s links to %s, which doesn't exist", doc, m[1]))
			}
		}
		for _, m := range testNamed.FindAllStringSubmatch(docs[doc], -1) {
			if m[2] == "" && !known.tests[m[1]] { // with … or * it stands for several
				problems = append(problems, fmt.Sprintf("%s names %s, and no such function exists", doc, m[1]))
			}
		}
		for _, m := range makeNamed.FindAllStringSubmatch(docs[doc], -1) {
			if !known.targets[m[1]] {
				problems = append(problems, fmt.Sprintf("%s names `make %s`, and the Makefile has no such target", doc, m[1]))
			}
		}
		variables := envNamed.FindAllString(docs[doc], -1)
		slices.Sort(variables)
		for _, name := range slices.Compact(variables) {
			if !known.variables[name] {
				problems = append(problems, fmt.Sprintf("%s sets or names %s, which no code reads", doc, name))
			}
		}
	}
	return problems
}

func TestDocumentProblemsAreFound(t *testing.T) {
	known := known{
		targets: map[string]bool{"test": true}, tests: map[string]bool{"TestThere": true}, variables: map[string]bool{"SOONBEON_THERE": true},
		exists: func(path string) bool { return path == "docs/there.md" || path == "Makefile" },
	}
	for text, want := range map[string]string{
		"[a](there.md) [b](there.md#part) [c](../Makefile) [d](#part) [e](https://x.org/y)": "",
		"[a](gone.md)":                       "links to gone.md",
		"`TestThere`, `TestReal…`, TestGo*":  "",
		"proven by `TestGone`":               "names TestGone",
		"run `make test` or `make test` ARG": "",
		"`SOONBEON_THERE=1` and SOONBEON_…":  "",
		"SOONBEON_GONE=1 or SOONBEON_GONE":   "SOONBEON_GONE",
		"run `make gone`":                    "`make gone`",
	} {
		got := documentProblems(map[string]string{"docs/a.md": text}, known)
		if want == "" {
			require.Empty(t, got, text)
		} else {
			require.Len(t, got, 1, text)
			require.Contains(t, got[0], want)
		}
	}
}
