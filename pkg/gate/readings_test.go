package gate

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// reader is how one server makes a path of a target: in the order of its fields. It shares nothing with the code that it judges.
type reader struct {
	name   string
	hosts  bool   // "//host/path" is the path of a host
	ends   string // what ends a path
	only   string // what is decoded first, "" for nothing
	back   bool   // "\" is a slash
	params bool   // ";…" is dropped from each segment
	early  bool   // all is decoded before dots are looked at; else after
	joins  bool   // empty segments go before dots are looked at
	dots   bool
	late   bool // all is decoded at the end
	squash bool // empty segments go at the end
}

var readers = []reader{
	{name: "nginx", ends: "?#", early: true, joins: true, dots: true},
	{name: "nginx, merge_slashes off", ends: "?#", early: true, dots: true},
	{name: "Node, url.parse", ends: "?#", back: true, late: true},
	{name: "Node, new URL", hosts: true, ends: "?#", back: true, dots: true, late: true},
	{name: "Go's mux and Caddy", ends: "?", early: true, joins: true, dots: true},
	{name: "Envoy", ends: "?#", only: `/\`, back: true, dots: true},
	{name: "Envoy, merge_slashes", ends: "?", back: true, dots: true, squash: true},
	{name: "HAProxy, normalize-uri", ends: "?#", only: "abcdefghijklmnopqrstuvwxyz-._~", joins: true, dots: true},
	{name: "Tomcat", ends: "?", params: true, early: true, joins: true, dots: true},
	{name: "Jetty", ends: "?#", params: true, dots: true, late: true},
	{name: "Tomcat, backslashes allowed", ends: "?", params: true, early: true, back: true, dots: true, squash: true},
	{name: "Python, urlsplit", hosts: true, ends: "?#", late: true},
	{name: "one that only decodes", ends: "?", late: true},
}

func (r reader) read(s string) string {
	for len(s) > 0 {
		i := strings.IndexAny(s, r.ends)
		if i < 0 {
			break
		}
		s = s[:i]
	}
	if r.only != "" {
		s = unescape(s, r.only)
	}
	if r.back {
		s = strings.Join(strings.Split(s, `\`), "/")
	}
	if r.hosts && len(s) > 1 && s[1] == '/' {
		for s != "" && s[0] == '/' {
			s = s[1:]
		}
		for s != "" && s[0] != '/' {
			s = s[1:]
		}
	}
	if r.params {
		var kept []byte
		dropping := false
		for _, c := range []byte(s) {
			dropping = c != '/' && (dropping || c == ';')
			if !dropping {
				kept = append(kept, c)
			}
		}
		s = string(kept)
	}
	if r.early {
		s = unescape(s, "")
		if r.back {
			s = strings.Join(strings.Split(s, `\`), "/")
		}
	}
	var out []string
	for i, segment := range strings.Split(s, "/") {
		plain := segment
		if r.dots {
			plain = unescape(segment, ".")
		}
		switch {
		case i == 0 || r.joins && segment == "" || r.dots && plain == ".":
		case r.dots && plain == "..":
			if len(out) > 0 {
				out = out[:len(out)-1]
			}
		default:
			out = append(out, segment)
		}
	}
	if r.squash {
		var full []string
		for _, segment := range out {
			if segment != "" {
				full = append(full, segment)
			}
		}
		out = full
	}
	s = "/" + strings.Join(out, "/")
	if r.late {
		s = unescape(s, "")
	}
	return s
}

// unescape decodes the given bytes, all of them where none is given.
func unescape(s, only string) string {
	const digits = "0123456789abcdef"
	parts := strings.Split(s, "%")
	out := parts[0]
	for _, part := range parts[1:] {
		hi, lo := -1, -1
		if len(part) >= 2 {
			hi, lo = strings.IndexByte(digits, part[0]|0x20), strings.IndexByte(digits, part[1]|0x20)
		}
		if c := byte(hi<<4 | lo); hi >= 0 && lo >= 0 && (only == "" || strings.IndexByte(only, c) >= 0) {
			out += string([]byte{c}) + part[2:]
		} else {
			out += "%" + part
		}
	}
	return out
}

// behind reads s as a path that a router compares with what it has, segment by segment.
func behind(s string) bool {
	dir := strings.Split(s+"/", "/")
	return len(dir) > 2 && dir[0] == "" && dir[1] == "checkout" && dir[2] != "help"
}

// judge fails where one of the readers, or two in a row, gets behind the gate by a path that the gate lets past.
func judge(t *testing.T, p *paths, s string) {
	t.Helper()
	if !strings.HasPrefix(s, "/") || p.protects(s) {
		return
	}
	for _, front := range readers {
		once := front.read(s)
		require.False(t, behind(once), "%q is %q for %s", s, once, front.name)
		for _, site := range readers {
			twice := site.read(once)
			require.False(t, behind(twice), "%q is %q for %s behind %s", s, twice, site.name, front.name)
		}
	}
}

// pieces are what ways around a gate are made of.
var pieces = []string{
	"/", "/", "/", "/checkout", "checkout", "/help", "/a", "..", "/..", "/../", "/./", ".", "//", "%2e", "%2E", "%2f", "%5c", `\`, ";x=y", ";", "%3b", "#", "%23",
	"?", "%3f", "%63heckout", "%252e", "%252f", "%2563", "%25", "%", "..;/", "x",
}

// However a server reads a path, and whatever one in front of it made of that: if it is behind the gate, so is the request.
func TestNoReadingLeadsAroundTheGate(t *testing.T) {
	p, err := newPaths([]string{"/checkout"}, []string{"/checkout/help"}, false)
	require.NoError(t, err)
	rnd := rand.New(rand.NewPCG(1, 2))
	past := 0
	for range 5_000 {
		s := "/"
		for range 1 + rnd.IntN(7) {
			s += pieces[rnd.IntN(len(pieces))]
		}
		judge(t, &p, s)
		if !p.protects(s) {
			past++
		}
	}
	require.Greater(t, past, 500, "what is outside by all of them is let past")
}

func FuzzPaths(f *testing.F) {
	for _, s := range []string{
		"/checkout/7", "/static/../checkout", "/%63heckout", "//checkout", "/a/..;/checkout", `/a\..\checkout`, "/%25%36%33heckout", "/é%", "/checkout#", "/a//../checkout",
	} {
		f.Add(s)
	}
	p, err := newPaths([]string{"/checkout"}, []string{"/checkout/help"}, false)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, s string) { judge(t, &p, s) })
}

// A path that is all special characters costs a bounded time.
func BenchmarkPathWithManyReadings(b *testing.B) {
	p, err := newPaths([]string{"/checkout"}, nil, false)
	require.NoError(b, err)
	for name, s := range map[string]string{
		"plain": "/static/app.js", "escaped": "/%EA%B3%B5%EC%97%B0/7",
		"hostile": "/" + strings.Repeat(`%252f..;x\%2e#a//`, 400),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p.protects(s)
			}
		})
	}
}
