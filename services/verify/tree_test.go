package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	root   = "../.."
	module = "github.com/soonbeon/soonbeon/"
)

// goPackage is what `go list -json` tells of a package.
type goPackage struct {
	ImportPath   string
	Dir          string
	Name         string
	Doc          string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
	Module       *struct{ Path, Version, Dir string }
}

// list runs go list at the root of the tree.
func list(t *testing.T, args ...string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "go list %s: %s", strings.Join(args, " "), stderr.String())
	var pkgs []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		pkgs = append(pkgs, p)
	}
	require.NotEmpty(t, pkgs)
	return pkgs
}

// goFile is a parsed file of the tree.
type goFile struct {
	path  string // from the root
	lines int
	ast   *ast.File
	fset  *token.FileSet
}

func (f goFile) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

func (f goFile) at(n ast.Node) string {
	return f.path + ":" + strings.TrimPrefix(f.fset.Position(n.Pos()).String(), f.path+":")
}

// goFiles parses every Go file below the given folders of the root.
func goFiles(t *testing.T, dirs ...string) []goFile {
	t.Helper()
	var files []goFile
	for _, dir := range dirs {
		for _, path := range paths(t, dir, ".go") {
			src, err := os.ReadFile(filepath.Join(root, path))
			require.NoError(t, err)
			files = append(files, parse(t, path, string(src)))
		}
	}
	require.NotEmpty(t, files)
	return files
}

func parse(t *testing.T, path, src string) goFile {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, src, parser.ParseComments)
	require.NoError(t, err)
	return goFile{path: path, lines: strings.Count(src, "\n"), ast: f, fset: fset}
}

// documents are README.md and all of docs/, by their path from the root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	docs := map[string]string{}
	for _, path := range append(paths(t, "docs", ".md"), "README.md") {
		text, err := os.ReadFile(filepath.Join(root, path))
		if errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s doesn't exist", path)
			continue
		}
		require.NoError(t, err)
		docs[path] = string(text)
	}
	return docs
}

// paths are the files below dir with this ending, from the root.
func paths(t *testing.T, dir, ext string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "testdata" {
			return fs.SkipDir
		}
		if !d.IsDir() && filepath.Ext(path) == ext {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			found = append(found, filepath.ToSlash(rel))
		}
		return nil
	})
	require.NoError(t, err)
	return found
}

// report fails the test with one line for each problem.
func report(t *testing.T, problems []string) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
}
