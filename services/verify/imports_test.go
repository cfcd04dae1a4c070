package verify

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// processes are the services that may be taken out of a deployment one by one; none may lean on another's code.
var processes = []string{"services/enter", "services/projector", "services/issuer", "services/position", "services/events"}

// composing are the packages that put others together, each for a reason of its own: standalone the services into a process, a
// drill a system, a crowd and an audit into a rehearsal. What they put together must not lean on them.
var composing = []string{"services/standalone", "services/drill"}

// watching are those that look at a system from outside. Only who composes or runs them may import them: a service that
// leaned on what judges it would be judged by itself.
var watching = []string{"services/load", "services/audit"}

// onlyIn says who may import a thing. Tests are free to: they look at a server from outside.
var onlyIn = []struct {
	what    string
	imports []string
	allowed []string
}{
	{"the Kafka client (wrap it in pkg/linelog)",
		[]string{"github.com/twmb/franz-go"}, []string{"pkg/linelog", "services/e2e"}},
	{"the Redis client (wrap it in pkg/redisline)",
		[]string{"github.com/redis/go-redis"}, []string{"pkg/redisline", "services/e2e"}},
	{"echo (HTTP is served by the services)",
		[]string{"github.com/labstack/echo"},
		[]string{"services/httpapi", "services/enter", "services/position", "services/events", "services/page", "services/admin", "services/dashboard", "services/standalone", "services/e2e"}},
}

// apart are the packages that meet only in the services.
var apart = []string{"pkg/line", "pkg/linelog", "pkg/redisline"}

// light are the packages that the protected site imports: what must not come with them.
var light = []string{"pkg/gate", "pkg/pass"}
var heavy = []string{"github.com/twmb/franz-go", "github.com/redis/go-redis", "github.com/labstack/echo", "google.golang.org/protobuf"}

func TestImports(t *testing.T) {
	report(t, importProblems(list(t, "-json=ImportPath,Name,Imports,TestImports,XTestImports,Deps", "work")))
}

func importProblems(pkgs []goPackage) []string {
	var problems []string
	for _, p := range pkgs {
		name := strings.TrimPrefix(p.ImportPath, module)
		add := func(format string, args ...any) {
			problems = append(problems, p.ImportPath+" "+fmt.Sprintf(format, args...))
		}
		for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			ours, isOurs := strings.CutPrefix(imp, module)
			if isOurs && layer(ours) > layer(name) {
				add("imports %s: imports go services → pkg → proto, and never back", imp)
			}
			for _, service := range processes {
				if isOurs && under(ours, service) && !underAny(name, service, "services/standalone", "services/cmd", "services/e2e") {
					add("imports %s: only standalone, cmd and e2e may put services together", imp)
				}
			}
		}
		for _, imp := range p.Imports {
			ours := strings.TrimPrefix(imp, module)
			for _, dir := range slices.Concat(composing, watching) {
				if imp != ours && under(ours, dir) && !under(name, dir) && !underAny(name, "services/drill", "services/cmd", "services/e2e") {
					add("imports %s: only drill, cmd and e2e put it together with others", imp)
				}
			}
			if under(name, "pkg/queue") && strings.Contains(strings.Split(imp, "/")[0], ".") && !strings.HasPrefix(imp, module+"pkg/queue") {
				add("imports %s: pkg/queue knows only the standard library", imp)
			}
			for _, a := range apart {
				for _, b := range apart {
					if a != b && under(name, a) && under(strings.TrimPrefix(imp, module), b) {
						add("imports %s: line, linelog and redisline meet only in the services", imp)
					}
				}
			}
			for _, rule := range onlyIn {
				if underAny(imp, rule.imports...) && !underAny(name, rule.allowed...) {
					add("imports %s: only %s may import %s", imp, strings.Join(rule.allowed, ", "), rule.what)
				}
			}
		}
		if underAny(name, light...) {
			for _, dep := range p.Deps {
				if underAny(dep, heavy...) {
					add("brings %s to every site that has a gate", dep)
				}
			}
		}
		last := name[strings.LastIndexByte(name, '/')+1:]
		if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "base", "misc"}, last) {
			add("is named for nothing: say what it is about")
		}
	}
	slices.Sort(problems)
	return slices.Compact(problems)
}

// layer: 0 may be imported by all, 2 only by itself.
func layer(name string) int {
	return slices.Index([]string{"proto", "pkg", "services"}, strings.Split(name, "/")[0])
}

func under(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

func underAny(path string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return under(path, dir) })
}

func TestImportProblemsAreFound(t *testing.T) {
	imports := func(path string, imports ...string) goPackage {
		return goPackage{ImportPath: module + path, Imports: imports}
	}
	for _, c := range []struct {
		pkg  goPackage
		want string // "" for none
	}{
		{imports("proto/x", module+"pkg/queue"), "never back"},
		{imports("pkg/x", module+"services/httpapi"), "never back"},
		{goPackage{ImportPath: module + "pkg/x", XTestImports: []string{module + "services/httpapi"}}, "never back"},
		{imports("pkg/linelog", module+"proto/soonbeon/v1"), ""},
		{imports("services/enter", module+"services/issuer"), "only standalone"},
		{imports("services/load", module+"services/enter/sub"), "only standalone"},
		{imports("services/enter", module+"services/enter/sub", module+"services/httpapi"), ""},
		{imports("services/cmd/soonbeon", module+"services/issuer"), ""},
		{imports("services/e2e", module+"services/issuer"), ""},
		{imports("services/drill", module+"services/standalone", module+"services/load", module+"services/audit"), ""},
		{imports("services/drill", module+"services/issuer"), "only standalone"},
		{imports("services/issuer", module+"services/audit"), "only drill"},
		{imports("services/audit", module+"services/standalone"), "only drill"},
		{imports("pkg/queue", "context", "encoding/json"), ""},
		{imports("pkg/queue", "go.uber.org/zap"), "standard library"},
		{imports("pkg/queue", module+"proto/soonbeon/v1"), "standard library"},
		{imports("pkg/redisline", module+"pkg/line"), "meet only"},
		{imports("pkg/linelog/linelogtest", module+"pkg/linelog"), ""},
		{imports("pkg/line/linetest", module+"pkg/line"), ""},
		{goPackage{ImportPath: module + "pkg/redisline", XTestImports: []string{module + "pkg/line/linetest"}}, ""},
		{imports("services/issuer", "github.com/twmb/franz-go/pkg/kgo"), "Kafka client"},
		{imports("pkg/linelog/embedded", "github.com/twmb/franz-go/pkg/kfake"), ""},
		{imports("services/standalone", "github.com/redis/go-redis/v9"), "Redis client"},
		{goPackage{ImportPath: module + "services/standalone", TestImports: []string{"github.com/redis/go-redis/v9"}}, ""},
		{imports("pkg/gate", "github.com/labstack/echo/v4"), "echo"},
		{imports("services/httpapi", "github.com/labstack/echo/v4/middleware"), ""},
		{goPackage{ImportPath: module + "pkg/gate", Deps: []string{"google.golang.org/protobuf/proto"}}, "brings"},
		{imports("pkg/common"), "named for nothing"},
	} {
		got := importProblems([]goPackage{c.pkg})
		if c.want == "" {
			require.Empty(t, got, c.pkg)
		} else {
			require.Len(t, got, 1, c.pkg)
			require.Contains(t, got[0], c.want)
		}
	}
}
