package e2e

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/gate"
	"github.com/soonbeon/soonbeon/services/e2e/realservers"
)

// composed is docker-compose.yml, started here without containers: each service as the process that its container would be, with
// the file's command and environment, a Kafka and a Redis from realservers, and this machine's nginx with the mounted configuration.
// What can't be the same is the names: a service's name with a port becomes a loopback address, a mounted path the file here.
type composed struct {
	text    string
	project *types.Project
	names   *strings.Replacer // from the composed network's names to this machine's
	at      map[string]string // "service:port" in the composed network, to host:port here
	conf    string            // nginx's folder
	env     map[string][]string
}

// readCompose loads the file as compose does: against the specification's schema, with what it interpolates, and consistent.
func readCompose(t *testing.T, env types.Mapping) *composed {
	t.Helper()
	text, err := os.ReadFile("../../docker-compose.yml")
	require.NoError(t, err)
	dir, err := filepath.Abs("../..")
	require.NoError(t, err)
	p, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{WorkingDir: dir, Environment: env,
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(dir, "docker-compose.yml"), Content: text}}},
		func(o *loader.Options) { o.SetProjectName("soonbeon", true) })
	require.NoError(t, err)
	return &composed{text: string(text), project: p, at: map[string]string{}, conf: t.TempDir(), env: map[string][]string{}}
}

// port makes a loopback address for a port of a service, under the name that the others know it by.
func (c *composed) port(t *testing.T, service string, port string) string {
	t.Helper()
	name := service + ":" + port
	if c.at[name] == "" {
		c.at[name] = fmt.Sprintf("127.0.0.1:%d", realservers.Port(t))
	}
	return c.at[name]
}

// published is where a person on the host reaches a port of the file.
func (c *composed) published(t *testing.T, port string) string {
	t.Helper()
	for name, s := range c.project.Services {
		for _, p := range s.Ports {
			if p.Published == port {
				require.Equal(t, "127.0.0.1", p.HostIP, "%s is published beyond this machine", name)
				return "localhost" + strings.TrimPrefix(c.port(t, name, fmt.Sprint(p.Target)), "127.0.0.1")
			}
		}
	}
	t.Fatalf("no service is published at %s", port)
	return ""
}

func isOurs(s types.ServiceConfig) bool { return s.Image == "soonbeon:local" }

// up starts everything in the order of depends_on, each when those that it waits for are healthy by their own health checks.
func (c *composed) up(t *testing.T) {
	t.Helper()
	kafka := realservers.Kafka(t, 3)
	for i, addr := range kafka.Addrs() {
		c.at[fmt.Sprintf("kafka%d:9092", i+1)] = addr
	}
	command := c.project.Services["redis"].Command
	require.Equal(t, "redis-server", command[0])
	c.at["redis:6379"] = realservers.Redis(t, command[1:]...).Addr()
	for name, s := range c.project.Services {
		if !isOurs(s) {
			continue
		}
		for _, v := range []string{"SOONBEON_LISTEN", "SOONBEON_ADMIN"} {
			require.Regexp(t, `^:\d+$`, *s.Environment[v], "%s of %s: it must be reached from other containers", v, name)
			c.port(t, name, (*s.Environment[v])[1:])
		}
	}
	var pairs []string
	for _, port := range []string{"8080", "9090"} {
		pairs = append(pairs, "localhost:"+port, c.published(t, port))
	}
	for name, addr := range c.at {
		pairs = append(pairs, name, addr)
	}
	// The gate believes whoever is in the composed network, which is here the loopback one.
	c.names = strings.NewReplacer(append(pairs, "10.0.0.0/8", "127.0.0.0/8")...)

	done := map[string]bool{"redis": true, "kafka1": true, "kafka2": true, "kafka3": true}
	var begin func(name string)
	begin = func(name string) {
		if done[name] {
			return
		}
		done[name] = true
		s := c.project.Services[name]
		for other, d := range s.DependsOn {
			require.Equal(t, types.ServiceConditionHealthy, d.Condition, "%s waits for %s", name, other)
			require.NotNil(t, c.project.Services[other].HealthCheck, "%s waits for %s to be healthy", name, other)
			begin(other)
		}
		if isOurs(s) {
			c.soonbeon(t, s)
		} else {
			c.nginx(t, s)
		}
	}
	for name := range c.project.Services {
		begin(name)
	}
}

// soonbeon starts one of our services. It is ready when the file's own health check says so.
func (c *composed) soonbeon(t *testing.T, s types.ServiceConfig) {
	t.Helper()
	var env []string
	for k, v := range s.Environment {
		if v == nil {
			continue // one of the shell's that isn't set
		}
		value := c.names.Replace(*v)
		if k == "SOONBEON_LISTEN" || k == "SOONBEON_ADMIN" {
			value = c.at[s.Name+*v]
		}
		env = append(env, k+"="+value)
	}
	c.env[s.Name] = env
	check := s.HealthCheck.Test
	require.Equal(t, []string{"CMD", "/soonbeon"}, []string(check[:2]))
	realservers.Process(t, realservers.ProcessConfig{Name: s.Name, Path: binary, Args: s.Command, Env: env, Dir: t.TempDir(),
		Ready: func(ctx context.Context) error {
			cmd := exec.CommandContext(ctx, binary, check[2:]...)
			cmd.Env = append(os.Environ(), env...)
			out, err := cmd.CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		}})
}

// nginx starts this machine's with the mounted configuration.
func (c *composed) nginx(t *testing.T, s types.ServiceConfig) {
	t.Helper()
	require.Contains(t, s.Image, "nginx:")
	path := program(t, "apt-get install nginx", "nginx", "/usr/sbin/nginx")
	var text string
	var mounted []string
	for _, v := range s.Volumes {
		require.True(t, v.ReadOnly, v.Target)
		if v.Target == "/etc/nginx/nginx.conf" {
			b, err := os.ReadFile(v.Source)
			require.NoError(t, err)
			text = string(b)
			continue
		}
		_, err := os.Stat(v.Source)
		require.NoError(t, err, "what compose would make as an empty folder of root's")
		mounted = append(mounted, v.Target, v.Source)
	}
	require.Equal(t, []string{"/tmp:mode=1777"}, []string(s.Tmpfs), "where it writes")
	port := fmt.Sprint(s.Ports[0].Target)
	require.Contains(t, text, "listen "+port+";")
	text = strings.NewReplacer(append(mounted, "/tmp/", c.conf+"/", "/dev/stdout", c.conf+"/access.log",
		"listen "+port+";", "listen "+c.port(t, s.Name, port)+";")...).Replace(c.names.Replace(text))
	require.NoError(t, os.WriteFile(filepath.Join(c.conf, "nginx.conf"), []byte(text), 0o600))
	check := s.HealthCheck.Test
	require.Equal(t, []string{"CMD", "curl", "-fsS"}, []string(check[:3]))
	health := strings.ReplaceAll(check[3], "127.0.0.1:"+port, c.port(t, s.Name, port))
	realservers.Process(t, realservers.ProcessConfig{Name: s.Name, Path: path, Dir: c.conf,
		Args: []string{"-p", c.conf, "-c", "nginx.conf", "-e", "stderr", "-g", "daemon off; master_process off;"},
		Ready: func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, health, nil)
			if err != nil {
				return err
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			defer res.Body.Close()
			if res.StatusCode >= 400 {
				return fmt.Errorf("%s answers %s", health, res.Status)
			}
			return nil
		}})
}

var documentedCommand = regexp.MustCompile(`(?m)^#   docker compose exec -e SOONBEON_OPERATOR_TOKEN=.* (\w+) /soonbeon (queue .*)$`)

// browser is one that keeps cookies and follows redirects, and has no scripts.
type browser struct{ http.Client }

func newBrowser(t *testing.T) *browser {
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &browser{http.Client{Jar: jar, Timeout: 20 * time.Second}}
}

func (b *browser) get(t *testing.T, at string) (*url.URL, int, string) {
	t.Helper()
	return b.do(t, http.MethodGet, at, nil)
}

func (b *browser) post(t *testing.T, at string, form url.Values) (*url.URL, int, string) {
	t.Helper()
	return b.do(t, http.MethodPost, at, form)
}

func (b *browser) do(t *testing.T, method, at string, form url.Values) (*url.URL, int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	req.Header.Set("Accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", req.URL.Scheme+"://"+req.URL.Host)
	}
	res, err := b.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.Request.URL, res.StatusCode, string(body)
}

// admitted waits on the event stream for the entry token.
func admitted(t *testing.T, at, receipt string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"/queue/events?queue=main", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+receipt)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	kind := ""
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			kind = name
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && kind == "admitted" {
			var told struct{ Token string }
			require.NoError(t, json.Unmarshal([]byte(data), &told))
			return told.Token
		}
	}
	t.Fatal("the stream ended without a token")
	return ""
}

// TestRealCompose walks through what `docker compose up` brings, at the addresses that the head of the file names.
func TestRealCompose(t *testing.T) {
	realservers.Required(t)
	var secret [24]byte
	_, _ = rand.Read(secret[:])
	operator := hex.EncodeToString(secret[:])
	c := readCompose(t, types.Mapping{"SOONBEON_KEYS": strings.TrimSpace(run(t, nil, "keys").out), "SOONBEON_OPERATORS": "me:" + operator})
	c.up(t)
	site, operators := "http://"+c.published(t, "8080"), "http://"+c.published(t, "9090")
	for _, address := range []string{"http://localhost:8080", "http://localhost:9090", "http://localhost:8080/queue/wait?queue=main"} {
		require.Contains(t, c.text, "#   ", address)
	}

	// To the site, and so into the line; then by the page's own requests to the turn, and back to where one was going.
	person := newBrowser(t)
	const target = "/?a=1+2"
	at, status, body := person.get(t, site+target)
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, site+"/queue/wait", at.Scheme+"://"+at.Host+at.Path)
	require.Contains(t, body, "/.well-known/soonbeon/arrive/main")
	for _, asset := range regexp.MustCompile(`(?:src|href)="(/queue/[^"]+)"`).FindAllStringSubmatch(body, -1) {
		_, status, _ := person.get(t, site+strings.ReplaceAll(asset[1], "&amp;", "&"))
		require.Equal(t, http.StatusOK, status, asset[1])
	}
	entered := enter(t, site, "Origin: "+site)
	require.Equal(t, http.StatusAccepted, entered.status, entered.body)
	require.Equal(t, http.StatusOK, position(t, site, entered.Receipt).status)
	token := admitted(t, site, entered.Receipt)
	back, err := gate.ReturnAddress(at.Query().Get("return"), []string{site})
	require.NoError(t, err)
	action, to, err := gate.Arrival("main", back)
	require.NoError(t, err)
	at, status, body = person.post(t, action, url.Values{"token": {token}, "to": {to}})
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, site+target, at.String())
	require.Regexp(t, `You are in\.(?s:.*)Your ticket was <b>\d+</b>`, body)

	// Without scripts: the form, and the page that the browser is sent back to.
	plain := newBrowser(t)
	at, status, body = plain.post(t, site+"/queue/enter/form", url.Values{"queue": {"main"}, "key": {"a-key-of-somebody-without-scripts"}, "return": {site + "/"}})
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, "/queue/wait", at.Path)
	require.NotContains(t, body, `action="/queue/enter/form"`, "it has a place")

	// A program; and what is nobody's at this address.
	require.Equal(t, http.StatusUnauthorized, ask(t, http.MethodGet, site+"/api", "", "Accept: application/json").status)
	require.Equal(t, http.StatusNotFound, ask(t, http.MethodPost, site+"/queue/complete", "{}", asJSON).status)
	for _, private := range []string{"/metrics", "/admin/queues", "/docs", "/dashboard/events", "/readyz", "/nginx/main"} {
		require.Equal(t, http.StatusUnauthorized, ask(t, http.MethodGet, site+private, "", "Accept: application/json").status, private)
	}

	// Operators.
	for path, want := range map[string]string{"/": "soonbeon", "/docs": "/admin/queues", "/metrics": "soonbeon_"} {
		got := ask(t, http.MethodGet, operators+path, "")
		require.Equal(t, http.StatusOK, got.status, path)
		require.Contains(t, got.body, want, path)
	}
	until(t, 15*time.Second, "the gate is told which queue there is", func() bool {
		return strings.Contains(ask(t, http.MethodGet, "http://"+c.at["gate:9090"]+"/metrics", "").body, `soonbeon_gate_questions_total{queue="main",result="answered"}`)
	})
	commands := documentedCommand.FindAllStringSubmatch(c.text, -1)
	require.Len(t, commands, 2)
	for _, m := range commands {
		r := run(t, append(c.env[m[1]], "SOONBEON_OPERATOR_TOKEN="+operator), strings.Fields(m[2])...)
		require.Zero(t, r.code, "%s: %s%s", m[0], r.out, r.errOut)
		require.Contains(t, r.out, "main", m[0])
	}
	r := run(t, nil, "load", "--target", site, "--visitors=100", "--rate=200", "--expect-rate=20")
	require.Zero(t, r.code, "%s%s", r.out, r.errOut)

	log, err := os.ReadFile(filepath.Join(c.conf, "access.log"))
	require.NoError(t, err)
	require.NotContains(t, string(log), token)
}
