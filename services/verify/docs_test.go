package verify

import (
	"fmt"
	"go/ast"
	"maps"
	"os"
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
	testNamed  = regexp.MustCompile("\\b((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*)([…*]?)")
	makeNamed  = regexp.MustCompile("`make ([a-z-]+)")
	makeTarget = regexp.MustCompile(`(?m)^([a-z-]+):`)
)

// TestDocumentsNameWhatExists: a guarantee whose test was renamed is no longer proven by what it names.
func TestDocumentsNameWhatExists(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	known := known{targets: map[string]bool{}, tests: map[string]bool{}}
	for _, m := range makeTarget.FindAllStringSubmatch(string(makefile), -1) {
		known.targets[m[1]] = true
	}
	for _, f := range goFiles(t, "proto", "pkg", "services") {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				known.tests[fn.Name.Name] = true
			}
		}
	}
	known.exists = func(path string) bool { _, err := os.Stat(filepath.Join(root, path)); return err == nil }
	report(t, documentProblems(documents(t), known))
}

type known struct {
	targets, tests map[string]bool
	exists         func(path string) bool
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
	}
	return problems
}

func TestDocumentProblemsAreFound(t *testing.T) {
	known := known{
		targets: map[string]bool{"test": true}, tests: map[string]bool{"TestThere": true},
		exists: func(path string) bool { return path == "docs/there.md" || path == "Makefile" },
	}
	for text, want := range map[string]string{
		"[a](there.md) [b](there.md#part) [c](../Makefile) [d](#part) [e](https://x.org/y)": "",
		"[a](gone.md)":                       "links to gone.md",
		"`TestThere`, `TestReal…`, TestGo*":  "",
		"proven by `TestGone`":               "names TestGone",
		"run `make test` or `make test` ARG": "",
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
