package verify

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

const deployDir = "docs/deploy"

// manifests are what is applied to a cluster, by Kubernetes' own types.
type manifests struct {
	deployments map[string]*apps.Deployment
	services    map[string]*core.Service
	configs     map[string]*core.ConfigMap
	ingresses   []*networking.Ingress
	policies    []*networking.NetworkPolicy
	budgets     []*policy.PodDisruptionBudget
	scalers     []*autoscaling.HorizontalPodAutoscaler
}

// add takes one document; what a type has no field for is an error.
func (m *manifests) add(text []byte) error {
	var kind meta.TypeMeta
	if err := yaml.Unmarshal(text, &kind); err != nil {
		return err
	}
	strict := func(v any) error {
		if err := yaml.UnmarshalStrict(text, v); err != nil {
			return fmt.Errorf("%s: %w", kind.Kind, err)
		}
		return nil
	}
	switch kind.APIVersion + " " + kind.Kind {
	case "apps/v1 Deployment":
		v := new(apps.Deployment)
		err := strict(v)
		m.deployments[v.Name] = v
		return err
	case "v1 Service":
		v := new(core.Service)
		err := strict(v)
		m.services[v.Name] = v
		return err
	case "v1 ConfigMap":
		v := new(core.ConfigMap)
		err := strict(v)
		m.configs[v.Name] = v
		return err
	case "networking.k8s.io/v1 Ingress":
		m.ingresses = append(m.ingresses, new(networking.Ingress))
		return strict(m.ingresses[len(m.ingresses)-1])
	case "networking.k8s.io/v1 NetworkPolicy":
		m.policies = append(m.policies, new(networking.NetworkPolicy))
		return strict(m.policies[len(m.policies)-1])
	case "policy/v1 PodDisruptionBudget":
		m.budgets = append(m.budgets, new(policy.PodDisruptionBudget))
		return strict(m.budgets[len(m.budgets)-1])
	case "autoscaling/v2 HorizontalPodAutoscaler":
		m.scalers = append(m.scalers, new(autoscaling.HorizontalPodAutoscaler))
		return strict(m.scalers[len(m.scalers)-1])
	}
	return fmt.Errorf("nobody here knows %s %s", kind.APIVersion, kind.Kind)
}

var documentBreak = regexp.MustCompile(`(?m)^---$`)

func parseManifests(text []byte) (*manifests, error) {
	m := &manifests{deployments: map[string]*apps.Deployment{}, services: map[string]*core.Service{}, configs: map[string]*core.ConfigMap{}}
	for _, doc := range documentBreak.Split(string(text), -1) {
		if err := m.add([]byte(doc)); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// problems are what Kubernetes would take and would not work.
func (m *manifests) problems(commands, variables map[string]bool) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	selects := func(what string, labels map[string]string) {
		for _, d := range m.deployments {
			if len(labels) > 0 && contains(d.Spec.Template.Labels, labels) {
				return
			}
		}
		add("%s chooses no pod", what)
	}
	for name, d := range m.deployments {
		selects("deployment "+name, d.Spec.Selector.MatchLabels)
		if len(d.Spec.Template.Spec.Containers) != 1 {
			add("deployment %s has not one container", name)
			continue
		}
		c := d.Spec.Template.Spec.Containers[0]
		if len(c.Args) == 0 || !commands[c.Args[0]] {
			add("deployment %s runs %q, which the binary doesn't know", name, c.Args)
		}
		for what, p := range map[string]*core.Probe{"startup": c.StartupProbe, "readiness": c.ReadinessProbe, "liveness": c.LivenessProbe} {
			want := map[string]string{"startup": "/readyz", "readiness": "/readyz", "liveness": "/healthz"}[what]
			if p == nil || p.HTTPGet == nil || p.HTTPGet.Path != want || !hasPort(c, p.HTTPGet.Port) {
				add("deployment %s: the %s probe does not ask %s at a port that it has", name, what, want)
			}
		}
		if s := c.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
			d.Spec.Template.Spec.SecurityContext == nil || !*d.Spec.Template.Spec.SecurityContext.RunAsNonRoot {
			add("deployment %s may write to its image, or runs as root", name)
		}
		for _, from := range c.EnvFrom {
			if from.ConfigMapRef != nil && m.configs[from.ConfigMapRef.Name] == nil {
				add("deployment %s takes settings from %s, which isn't there", name, from.ConfigMapRef.Name)
			}
		}
		protected := false
		for _, b := range m.budgets {
			protected = protected || contains(d.Spec.Template.Labels, b.Spec.Selector.MatchLabels)
		}
		if !protected {
			add("deployment %s has no PodDisruptionBudget", name)
		}
		scaled := false
		for _, s := range m.scalers {
			scaled = scaled || s.Spec.ScaleTargetRef.Kind == "Deployment" && s.Spec.ScaleTargetRef.Name == name
		}
		if scaled == (d.Spec.Replicas != nil) {
			add("deployment %s: either it says how many pods it has, or its autoscaler does", name)
		}
	}
	for name, s := range m.services {
		selects("service "+name, s.Spec.Selector)
		for _, d := range m.deployments {
			if contains(d.Spec.Template.Labels, s.Spec.Selector) && !hasPort(d.Spec.Template.Spec.Containers[0], s.Spec.Ports[0].TargetPort) {
				add("service %s goes to the port %s, which %s doesn't have", name, s.Spec.Ports[0].TargetPort.String(), d.Name)
			}
		}
	}
	for _, s := range m.scalers {
		if m.deployments[s.Spec.ScaleTargetRef.Name] == nil {
			add("autoscaler %s scales %s, which isn't there", s.Name, s.Spec.ScaleTargetRef.Name)
		}
		if s.Spec.MinReplicas == nil || *s.Spec.MinReplicas < 2 {
			add("autoscaler %s may leave one pod", s.Name)
		}
	}
	for _, b := range m.budgets {
		selects("budget "+b.Name, b.Spec.Selector.MatchLabels)
	}
	for _, p := range m.policies {
		selects("policy "+p.Name, p.Spec.PodSelector.MatchLabels)
	}
	for _, i := range m.ingresses {
		for _, r := range i.Spec.Rules {
			for _, p := range r.HTTP.Paths {
				if s := m.services[p.Backend.Service.Name]; s == nil || s.Spec.Ports[0].Name != p.Backend.Service.Port.Name {
					add("ingress %s: %s goes to %s, which isn't there", i.Name, p.Path, p.Backend.Service.Name)
				}
			}
		}
	}
	for name, c := range m.configs {
		for v := range c.Data {
			if !variables[v] {
				add("config %s sets %s, which no service reads", name, v)
			}
		}
	}
	return out
}

func contains(labels, wanted map[string]string) bool {
	for k, v := range wanted {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func hasPort(c core.Container, p intstr.IntOrString) bool {
	for _, have := range c.Ports {
		if have.Name == p.StrVal || p.StrVal == "" && have.ContainerPort == p.IntVal {
			return true
		}
	}
	return false
}

// binary is what the deployments run: its sub-commands, and the variables that they read.
func binary(t *testing.T) (commands, variables map[string]bool) {
	t.Helper()
	commands, variables = map[string]bool{"enter": true, "position": true, "issuer": true, "projector": true, "gate": true}, map[string]bool{}
	for _, name := range envNamed.FindAllString(help(t), -1) { // which fails where one of the commands isn't there
		variables[name] = true
	}
	return commands, variables
}

// kustomize renders a folder. The program comes with the other tools (services/tools.mod), and isn't fetched by a test.
func kustomize(t *testing.T, dir string) []byte {
	t.Helper()
	cmd := exec.Command("go", "tool", "-modfile=tools.mod", "kustomize", "build", filepath.Join(root, deployDir, dir))
	cmd.Dir = filepath.Join(root, "services")
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOPROXY=off", "GOFLAGS=")
	if dir, err := filepath.Abs(filepath.Join(root, deployDir, dir)); err == nil {
		cmd.Args[len(cmd.Args)-1] = dir
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && strings.Contains(stderr.String(), "GOPROXY=off") {
		t.Skip("kustomize is not in the module cache (cd services && GOWORK=off go mod download -modfile=tools.mod)")
	}
	require.NoError(t, err, stderr.String())
	return out
}

func TestDeployments(t *testing.T) {
	commands, variables := binary(t)
	for dir, deployments := range map[string]int{"base": 4, "example": 4} {
		t.Run(dir, func(t *testing.T) {
			m, err := parseManifests(kustomize(t, dir))
			require.NoError(t, err)
			require.Len(t, m.deployments, deployments)
			require.NotEmpty(t, m.policies)
			report(t, m.problems(commands, variables))
		})
	}
}

// TestDeploymentProblemsAreFound takes the files as they are, without kustomize, and breaks them.
func TestDeploymentProblemsAreFound(t *testing.T) {
	var good []string
	for _, f := range []string{"config", "enter", "position", "issuer", "projector", "network"} {
		text, err := os.ReadFile(filepath.Join(root, deployDir, "base", f+".yaml"))
		require.NoError(t, err)
		good = append(good, string(text))
	}
	text := strings.Join(good, "---\n")
	commands, variables := map[string]bool{"enter": true, "position": true, "issuer": true, "projector": true}, map[string]bool{}
	for _, v := range envNamed.FindAllString(text, -1) {
		variables[v] = true
	}
	m, err := parseManifests([]byte(text))
	require.NoError(t, err)
	require.Empty(t, m.problems(commands, variables))
	for _, c := range []struct{ old, new, want string }{
		{"replicas: 2", "replica: 2", "unknown field"},
		{"readOnlyRootFilesystem: true", "readOnlyRootFilesystem: 1", "Deployment"},
		{"kind: NetworkPolicy", "kind: NetworkPolice", "nobody here knows"},
		{"args: [issuer]", "args: [issue]", "the binary doesn't know"},
		{"path: /readyz", "path: /ready", "probe"},
		{"port: private}", "port: privat}", "probe"},
		{"targetPort: public", "targetPort: http", "which soonbeon-enter doesn't have"},
		{"name: soonbeon-enter}", "name: soonbeon-enters}", "which isn't there"},
		{"minReplicas: 2", "minReplicas: 1", "may leave one pod"},
		{"SOONBEON_KAFKA:", "SOONBEON_KAFKAS:", "no service reads"},
		{"runAsNonRoot: true", "runAsNonRoot: false", "runs as root"},
		{"  replicas: 2\n", "", "its autoscaler does"},
	} {
		require.Contains(t, text, c.old)
		m, err := parseManifests([]byte(strings.Replace(text, c.old, c.new, 1)))
		got := fmt.Sprint(err)
		if err == nil {
			got = strings.Join(m.problems(commands, variables), "\n")
		}
		require.Contains(t, got, c.want, c.new)
	}
}
