package verify

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// binding are licences that would bind whoever runs or links this Apache-2.0 product, by the words at their head.
var binding = []string{
	"GNU AFFERO GENERAL PUBLIC LICENSE", "GNU GENERAL PUBLIC LICENSE", "GNU LESSER GENERAL PUBLIC LICENSE",
	"SERVER SIDE PUBLIC LICENSE", "BUSINESS SOURCE LICENSE",
}

// TestLicences reads the licence of each module that a package or a test of ours is linked with.
func TestLicences(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range list(t, "-deps", "-test", "-json=ImportPath,Module", "work") {
		if p.Module == nil || strings.HasPrefix(p.Module.Path+"/", module) || seen[p.Module.Path] {
			continue
		}
		seen[p.Module.Path] = true
		files, err := filepath.Glob(filepath.Join(p.Module.Dir, "[LlCc][IiOo][CcPp]*"))
		require.NoError(t, err)
		var text []string
		for _, file := range files {
			if info, err := os.Stat(file); err != nil || info.IsDir() || strings.HasSuffix(file, ".go") {
				continue
			}
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			text = append(text, string(b))
		}
		report(t, licenceProblems(p.Module.Path, text))
	}
	require.NotEmpty(t, seen)
}

func licenceProblems(name string, texts []string) []string {
	if len(texts) == 0 {
		return []string{name + " has no licence file"}
	}
	var problems []string
	for _, text := range texts {
		// Only the head: other licences mention these names further down.
		head := strings.ToUpper(strings.Join(strings.Fields(text[:min(len(text), 400)]), " "))
		if i := slices.IndexFunc(binding, func(b string) bool { return strings.Contains(head, b) }); i >= 0 {
			problems = append(problems, fmt.Sprintf("%s is under the %s", name, binding[i]))
		}
	}
	return problems
}

func TestLicenceProblemsAreFound(t *testing.T) {
	require.Empty(t, licenceProblems("m", []string{"MIT License\n\nCopyright"}))
	require.Len(t, licenceProblems("m", nil), 1)
	require.Len(t, licenceProblems("m", []string{"MIT License", "      GNU Affero General\n   Public License\n Version 3"}), 1)
}
