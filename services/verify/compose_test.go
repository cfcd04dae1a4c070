package verify

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
)

const composeFile = "docker-compose.yml"

// parseCompose loads the text as compose would: by the specification's own schema, with variables put in. dir is where it stands.
func parseCompose(t *testing.T, text string) (*types.Project, error) {
	t.Helper()
	dir, err := filepath.Abs(root)
	require.NoError(t, err)
	return loader.LoadWithContext(t.Context(), types.ConfigDetails{WorkingDir: dir,
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(dir, composeFile), Content: []byte(text)}},
		Environment: types.Mapping{"SOONBEON_KEYS": "k1:a"}}, func(o *loader.Options) { o.SetProjectName("soonbeon", true) })
}

// upstream is how nginx.conf names a service of the composed network.
var upstream = regexp.MustCompile(`(?m)^\s*set \$\w+\s+([a-z]+):(\d+);`)

// composeProblems are what compose would take and would not work. conf is the mounted nginx.conf.
func composeProblems(p *types.Project, conf string, commands, variables map[string]bool) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	listens := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(p.Services)) {
		s := p.Services[name]
		if s.HealthCheck == nil || len(s.HealthCheck.Test) == 0 {
			add("%s has no health check", name)
		}
		if s.Restart != "unless-stopped" {
			add("%s does not come back by itself", name)
		}
		if _, tag, found := strings.Cut(s.Image, ":"); !found || tag == "latest" {
			add("%s has an image of no version: %s", name, s.Image)
		}
		for other, d := range s.DependsOn {
			if d.Condition != types.ServiceConditionHealthy {
				add("%s does not wait until %s is healthy", name, other)
			}
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				add("%s is published beyond this machine", name)
			}
		}
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil {
				add("%s mounts %s, which isn't there", name, v.Source)
			}
		}
		if s.Build == nil {
			continue
		}
		if len(s.Command) == 0 || !commands[s.Command[0]] {
			add("%s runs %q, which the binary doesn't know", name, s.Command)
		}
		if !s.ReadOnly || !slices.Contains(s.CapDrop, "ALL") {
			add("%s may write to its image, or keeps capabilities", name)
		}
		for v, value := range s.Environment {
			if strings.HasPrefix(v, "SOONBEON_") && !variables[v] {
				add("%s sets %s, which no service reads", name, v)
			}
			if v == "SOONBEON_LISTEN" || v == "SOONBEON_ADMIN" {
				listens[name+*value] = true
			}
		}
		for _, port := range s.Ports {
			if !listens[fmt.Sprintf("%s:%d", name, port.Target)] {
				add("%s publishes port %d, where it does not listen", name, port.Target)
			}
		}
	}
	for _, m := range upstream.FindAllStringSubmatch(conf, -1) {
		if !listens[m[1]+":"+m[2]] {
			add("nginx.conf sends to %s:%s, where nobody listens", m[1], m[2])
		}
	}
	return out
}

func composeTexts(t *testing.T) (file, conf string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, composeFile))
	require.NoError(t, err)
	c, err := os.ReadFile(filepath.Join(root, "docs/examples/compose/nginx.conf"))
	require.NoError(t, err)
	return string(b), string(c)
}

// TestCompose: what the file brings up is run by TestRealCompose (services/e2e), without containers.
func TestCompose(t *testing.T) {
	text, conf := composeTexts(t)
	commands, variables := binary(t)
	p, err := parseCompose(t, text)
	require.NoError(t, err)
	require.Len(t, upstream.FindAllString(conf, -1), 3)
	report(t, composeProblems(p, conf, commands, variables))
}

func TestComposeProblemsAreFound(t *testing.T) {
	text, conf := composeTexts(t)
	commands, variables := map[string]bool{"enter": true, "position": true, "issuer": true, "projector": true, "gate": true}, map[string]bool{}
	for _, v := range envNamed.FindAllString(text, -1) {
		variables[v] = true
	}
	for _, c := range []struct{ old, new, want string }{
		{"", "", ""},
		{"restart: unless-stopped", "restarts: unless-stopped", ".restarts false schema"},
		{"enter: {condition: service_healthy}", "entre: {condition: service_healthy}", "undefined service"},
		{"condition: service_healthy", "condition: service_started", "does not wait until"},
		{"condition: service_healthy", "condition: service_health", "must be one of"},
		{"command: [issuer]", "command: [issue]", "the binary doesn't know"},
		{`"127.0.0.1:9090:9090"`, `"9090:9090"`, "beyond this machine"},
		{`"127.0.0.1:9090:9090"`, `"127.0.0.1:9090:9099"`, "does not listen"},
		{`SOONBEON_LISTEN: ":8080"`, `SOONBEON_LISTEN: ":8082"`, "nginx.conf sends to enter:8080"},
		{"SOONBEON_SITE: $", "SOONBEON_SITES_: $", "which no service reads"},
		{"docs/examples/compose/nginx.conf", "docs/examples/nginx.conf", "which isn't there"},
		{"image: redis:7", "image: redis", "of no version"},
		{"read_only: true", "read_only: false", "may write to its image"},
		{"    healthcheck:\n      test: [\"CMD\", \"curl\"", "    x-check:\n      test: [\"CMD\", \"curl\"", "web has no health check"},
		{"SOONBEON_KEYS:?", "SOONBEON_KEY:?", "set it in .env"},
	} {
		require.Contains(t, text, c.old)
		p, err := parseCompose(t, strings.Replace(text, c.old, c.new, 1))
		got := fmt.Sprint(err)
		if err == nil {
			got = strings.Join(composeProblems(p, conf, commands, variables), "\n")
		}
		if c.want == "" {
			require.Empty(t, got)
		} else {
			require.Contains(t, got, c.want, c.new)
		}
	}
}
