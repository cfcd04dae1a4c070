package verify

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/services/httpapi"
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
	secrets     map[string]map[string]bool // that README.md says to make, and what is in them
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
	// chosen are the deployments whose pods a selector chooses.
	chosen := func(what string, s *meta.LabelSelector) []*apps.Deployment {
		var found []*apps.Deployment
		selector, err := meta.LabelSelectorAsSelector(s)
		if err != nil {
			add("%s: %v", what, err)
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(m.deployments)) {
			if d := m.deployments[name]; !selector.Empty() && selector.Matches(labels.Set(d.Spec.Template.Labels)) {
				found = append(found, d)
			}
		}
		if len(found) == 0 {
			add("%s chooses no pod", what)
		}
		return found
	}
	selects := func(what string, labels map[string]string) { chosen(what, &meta.LabelSelector{MatchLabels: labels}) }
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
		out = append(out, m.settingsProblems(d, variables)...)
		if port := d.Spec.Template.Annotations["prometheus.io/port"]; !hasPort(c, intstr.FromString("private")) || port != fmt.Sprint(portOf(c, "private")) {
			add("deployment %s: Prometheus is sent to port %s, which is not the private one", name, port)
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
		for _, metric := range s.Spec.Metrics {
			d := m.deployments[s.Spec.ScaleTargetRef.Name]
			if d == nil {
				break
			}
			if metric.Resource == nil || metric.Resource.Target.AverageUtilization == nil {
				add("autoscaler %s goes by something else than a resource's use", s.Name)
			} else if _, ok := d.Spec.Template.Spec.Containers[0].Resources.Requests[metric.Resource.Name]; !ok {
				add("autoscaler %s goes by the use of %s, of which the pods request none", s.Name, metric.Resource.Name)
			}
		}
	}
	for _, b := range m.budgets {
		selects("budget "+b.Name, b.Spec.Selector.MatchLabels)
	}
	into, outOf := map[string]map[string]bool{}, map[string]map[string]bool{} // by deployment: "public from ingress-nginx", "TCP 9092"
	for name := range m.deployments {
		into[name], outOf[name] = map[string]bool{}, map[string]bool{}
	}
	for _, p := range m.policies {
		for _, d := range chosen("policy "+p.Name, &p.Spec.PodSelector) {
			c := d.Spec.Template.Spec.Containers[0]
			for _, rule := range p.Spec.Ingress {
				for _, port := range rule.Ports {
					if port.Port == nil || !hasPort(c, *port.Port) {
						add("policy %s lets in to a port that %s does not have", p.Name, d.Name)
						continue
					}
					for _, from := range rule.From {
						switch {
						case from.NamespaceSelector != nil && from.PodSelector == nil:
							into[d.Name][port.Port.String()+" from "+from.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"]] = true
						case from.PodSelector != nil && from.NamespaceSelector == nil:
							into[d.Name][port.Port.String()+" from "+from.PodSelector.MatchLabels["app.kubernetes.io/component"]] = true
						}
					}
				}
			}
			for _, rule := range p.Spec.Egress {
				for _, port := range rule.Ports {
					outOf[d.Name][fmt.Sprintf("%s %s", *port.Protocol, port.Port)] = true
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.deployments)) {
		c := m.deployments[name].Spec.Template.Spec.Containers[0]
		if hasPort(c, intstr.FromString("public")) && !into[name]["public from ingress-nginx"] {
			add("policies: nobody comes from the ingress to the public port of %s", name)
		}
		if into[name]["private from ingress-nginx"] {
			add("policies: the ingress comes to the private port of %s", name)
		}
		if !into[name]["private from monitoring"] {
			add("policies: Prometheus does not come to %s", name)
		}
		for _, port := range m.reaches(m.deployments[name]) {
			if !outOf[name][port] {
				add("policies: %s does not come out to %s", name, port)
			}
		}
		written, _ := m.settings(m.deployments[name])
		room, asks := strings.CutPrefix(written["SOONBEON_ROOM"], "http://")
		if asks && len(m.deployments) > 1 { // the gate alone doesn't know the others
			asked := m.services[room]
			if asked == nil || asked.Spec.Ports[0].Port != 80 {
				add("deployment %s asks %s, which isn't there", name, room)
			} else if !into[asked.Name]["public from "+strings.TrimPrefix(name, "soonbeon-")] {
				add("policies: %s does not come in to %s", name, asked.Name)
			}
		}
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
	return append(out, m.routeProblems()...)
}

// settings are those of a deployment's container that are written here, and the names of those that are secret.
func (m *manifests) settings(d *apps.Deployment) (written map[string]string, secret map[string]bool) {
	written, secret = map[string]string{}, map[string]bool{}
	c := d.Spec.Template.Spec.Containers[0]
	for _, from := range c.EnvFrom {
		if from.ConfigMapRef != nil && m.configs[from.ConfigMapRef.Name] != nil {
			maps.Copy(written, m.configs[from.ConfigMapRef.Name].Data)
		}
		if from.SecretRef != nil {
			maps.Copy(secret, m.secrets[from.SecretRef.Name])
		}
	}
	for _, v := range c.Env {
		if v.ValueFrom == nil {
			written[v.Name] = v.Value
		} else if v.ValueFrom.SecretKeyRef != nil {
			secret[v.Name] = true
		}
	}
	return written, secret
}

func (m *manifests) settingsProblems(d *apps.Deployment, variables map[string]bool) []string {
	var out []string
	add := func(format string, args ...any) {
		out = append(out, fmt.Sprintf("deployment "+d.Name+": "+format, args...))
	}
	c := d.Spec.Template.Spec.Containers[0]
	for _, from := range c.EnvFrom {
		if from.ConfigMapRef != nil && m.configs[from.ConfigMapRef.Name] == nil {
			add("takes settings from %s, which isn't there", from.ConfigMapRef.Name)
		}
		if from.SecretRef != nil && m.secrets[from.SecretRef.Name] == nil {
			add("takes secrets from %s, which README.md does not make", from.SecretRef.Name)
		}
	}
	for _, v := range c.Env {
		if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil && !m.secrets[v.ValueFrom.SecretKeyRef.Name][v.ValueFrom.SecretKeyRef.Key] {
			add("takes %s from the secret %s, in which README.md does not put it", v.ValueFrom.SecretKeyRef.Key, v.ValueFrom.SecretKeyRef.Name)
		}
	}
	written, secret := m.settings(d)
	for _, v := range slices.Concat(slices.Sorted(maps.Keys(written)), slices.Sorted(maps.Keys(secret))) {
		if !variables[v] {
			add("is given %s, which no service reads", v)
		}
	}
	needed := []string{"SOONBEON_KAFKA", "SOONBEON_REDIS"}
	if c.Args[0] == "gate" {
		needed = []string{"SOONBEON_WAITING_ROOM", "SOONBEON_SITE", "SOONBEON_TRUSTED_PROXIES", "SOONBEON_ROOM"}
	}
	for _, v := range needed {
		if written[v] == "" {
			add("is not given %s", v)
		}
	}
	if !secret["SOONBEON_KEYS"] {
		add("is not given SOONBEON_KEYS")
	}
	for port, v := range map[string]string{"public": "SOONBEON_LISTEN", "private": "SOONBEON_ADMIN"} {
		if hasPort(c, intstr.FromString(port)) && written[v] != fmt.Sprintf(":%d", portOf(c, port)) {
			add("the %s port is %d, and %s is %q", port, portOf(c, port), v, written[v])
		}
	}
	return out
}

// reaches are the ports elsewhere that a deployment has to come out to.
func (m *manifests) reaches(d *apps.Deployment) []string {
	out := []string{"UDP 53", "TCP 53"}
	written, _ := m.settings(d)
	for _, v := range []string{"SOONBEON_KAFKA", "SOONBEON_REDIS"} {
		for _, addr := range strings.FieldsFunc(written[v], func(r rune) bool { return r == ',' }) {
			_, port, _ := strings.Cut(addr, ":")
			out = append(out, "TCP "+port)
		}
	}
	if d.Spec.Template.Spec.Containers[0].Args[0] == "gate" { // which traces nothing, and asks the position service
		out = append(out, "TCP 8080")
	} else {
		out = append(out, "TCP 4318") // OTLP over HTTP, as collectors have it
	}
	return out
}

// routeProblems are paths that the ingress, where there is one, sends to whom they are not for.
func (m *manifests) routeProblems() []string {
	var out []string
	if len(m.ingresses) == 0 {
		return nil
	}
	for path, want := range map[string]string{
		"/queue/enter": "soonbeon-enter", "/queue/enter/form": "soonbeon-enter", "/queue/leave": "soonbeon-enter",
		"/queue/wait": "soonbeon-position", "/queue/position": "soonbeon-position", "/queue/events": "soonbeon-position", "/queue/info": "soonbeon-position",
		"/queue/complete":                   "soonbeon-position", // which has no such path: it is the site's, and enter's
		"/.well-known/soonbeon/arrive/main": "soonbeon-gate",
		"/metrics":                          "", "/admin/queues": "", "/": "",
	} {
		got, longest := "", -1
		for _, i := range m.ingresses {
			for _, r := range i.Spec.Rules {
				for _, p := range r.HTTP.Paths {
					exact := *p.PathType == networking.PathTypeExact
					prefix := strings.TrimSuffix(p.Path, "/")
					fits := path == p.Path || !exact && (path == prefix || strings.HasPrefix(path, prefix+"/"))
					if rank := len(p.Path) * 2; fits && rank > longest {
						got, longest = p.Backend.Service.Name, rank
					}
				}
			}
		}
		if got != want {
			out = append(out, fmt.Sprintf("ingress: %s goes to %q, not to %q", path, got, want))
		}
	}
	streams := slices.ContainsFunc(m.ingresses, func(i *networking.Ingress) bool {
		timeout, _ := strconv.Atoi(i.Annotations["nginx.ingress.kubernetes.io/proxy-read-timeout"])
		return i.Annotations["nginx.ingress.kubernetes.io/proxy-buffering"] == "off" && timeout >= 30
	})
	if !streams {
		out = append(out, "ingress: event streams are held back, or ended between two signs of life")
	}
	return out
}

func portOf(c core.Container, name string) int32 {
	for _, p := range c.Ports {
		if p.Name == name {
			return p.ContainerPort
		}
	}
	return 0
}

var (
	secretMade = regexp.MustCompile(`(?s)create secret generic (\S+)(.*?)\n\s+cp `)
	secretKey  = regexp.MustCompile(`--from-literal=(\w+)=`)
)

// secretsMade are those that README.md says to make by hand.
func secretsMade(t *testing.T) map[string]map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, deployDir, "README.md"))
	require.NoError(t, err)
	out := map[string]map[string]bool{}
	for _, made := range secretMade.FindAllStringSubmatch(string(text), -1) {
		out[made[1]] = map[string]bool{}
		for _, key := range secretKey.FindAllStringSubmatch(made[2], -1) {
			out[made[1]][key[1]] = true
		}
	}
	require.Len(t, out, 1)
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
	secrets := secretsMade(t)
	for dir, deployments := range map[string]int{"base": 4, "gate": 1, "example": 5} {
		t.Run(dir, func(t *testing.T) {
			m, err := parseManifests(kustomize(t, dir))
			require.NoError(t, err)
			require.Len(t, m.deployments, deployments)
			require.NotEmpty(t, m.policies)
			m.secrets = secrets
			report(t, m.problems(commands, variables))
		})
	}
}

// The paths that probes ask are paths of the private port; a path that isn't there is a 404.
func TestProbesAskWhatThereIs(t *testing.T) {
	h := httpapi.NewAdmin(lifecycle.NewReadiness(), prometheus.NewRegistry())
	for path, want := range map[string]int{"/readyz": http.StatusOK, "/healthz": http.StatusOK, "/metrics": http.StatusOK, "/ready": http.StatusNotFound} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		require.Equal(t, want, w.Code, path)
	}
}

// TestDeploymentProblemsAreFound takes the files as they are, without kustomize, and breaks them.
func TestDeploymentProblemsAreFound(t *testing.T) {
	var good []string
	for _, f := range []string{"base/config", "base/enter", "base/position", "base/issuer", "base/projector", "base/network", "gate/gate", "example/ingress"} {
		text, err := os.ReadFile(filepath.Join(root, deployDir, f+".yaml"))
		require.NoError(t, err)
		good = append(good, string(text))
	}
	text := strings.Join(good, "---\n")
	commands, variables := map[string]bool{"enter": true, "position": true, "issuer": true, "projector": true, "gate": true}, map[string]bool{}
	for _, v := range envNamed.FindAllString(text, -1) {
		variables[v] = true
	}
	secrets := secretsMade(t)
	for v := range secrets["soonbeon"] {
		variables[v] = true
	}
	m, err := parseManifests([]byte(text))
	require.NoError(t, err)
	m.secrets = secrets
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
		{"SOONBEON_KAFKA: kafka:9092", "SOONBEON_KAFKA: kafka:9093", "does not come out to TCP 9093"},
		{`SOONBEON_LISTEN: ":8080"`, `SOONBEON_LISTEN: ":8081"`, `the public port is 8080, and SOONBEON_LISTEN is ":8081"`},
		{"  SOONBEON_WAITING_ROOM: https://wait.example.com\n", "", "is not given SOONBEON_WAITING_ROOM"},
		{"secretRef: {name: soonbeon}", "secretRef: {name: soonbean}", "which README.md does not make"},
		{"key: SOONBEON_KEYS}", "key: SOONBEON_KEY}", "in which README.md does not put it"},
		{"prometheus.io/port: \"9090\"", "prometheus.io/port: \"9091\"", "not the private one"},
		{"resource: {name: cpu", "resource: {name: gpu", "of which the pods request none"},
		{"{protocol: UDP, port: 53}", "{protocol: TCP, port: 53}", "does not come out to UDP 53"},
		{"{protocol: TCP, port: 6379}", "{protocol: TCP, port: 6380}", "does not come out to TCP 6379"},
		{"{protocol: TCP, port: 4318}", "{protocol: TCP, port: 4317}", "does not come out to TCP 4318"},
		{"        - {protocol: TCP, port: private}\n  egress:", "        - {protocol: TCP, port: privat}\n  egress:", "to a port that soonbeon-enter does not have"},
		{"        - {protocol: TCP, port: private}\n  egress:", "        - {protocol: TCP, port: 9091}\n  egress:", "Prometheus does not come to soonbeon-enter"},
		{"values: [enter, position]", "values: [enter]", "nobody comes from the ingress to the public port of soonbeon-position"},
		{"component: gate}\n      ports:", "component: gates}\n      ports:", "soonbeon-gate does not come in to soonbeon-position"},
		{"{protocol: TCP, port: 8080}", "{protocol: TCP, port: 80}", "soonbeon-gate does not come out to TCP 8080"},
		{"SOONBEON_ROOM: http://soonbeon-position", "SOONBEON_ROOM: http://soonbeon-positions", "which isn't there"},
		{"operator: In", "operator: Within", "is not a valid"},
		{"metadata.name: ingress-nginx", "metadata.name: ingress", "nobody comes from the ingress"},
		{"metadata.name: monitoring", "metadata.name: ingress-nginx", "the ingress comes to the private port"},
		{"{path: /queue/enter, pathType: Prefix", "{path: /queue/enter, pathType: Exact", "/queue/enter/form goes to"},
		{"proxy-buffering: \"off\"", "proxy-buffering: \"on\"", "event streams are held back"},
		{"proxy-read-timeout: \"60\"", "proxy-read-timeout: \"9\"", "event streams are held back"},
	} {
		require.Contains(t, text, c.old)
		m, err := parseManifests([]byte(strings.Replace(text, c.old, c.new, 1)))
		got := fmt.Sprint(err)
		if err == nil {
			m.secrets = secrets
			got = strings.Join(m.problems(commands, variables), "\n")
		}
		require.Contains(t, got, c.want, c.new)
	}
}
