package gate

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// paths says what of a site is behind the gate.
//
// Servers read one address in several ways: some join "//", resolve "/../" before or after that, decode "%2f" (once, or twice), take
// a backslash for a slash, drop ";…", end a path at "#", or take "//x/y" for the path "/y" of a host. The gate can't know which the
// site does, nor what a proxy did before, so a request is let past only when it is outside by each of these readings and by each of
// them applied to another.
type paths struct {
	rules []pathRule // the longest first
	free  bool       // what no rule covers
	fold  bool
}

type pathRule struct {
	path string // without a slash at the end; "" is everything
	free bool
}

// newPaths checks the rules; protect and exempt are paths, each with everything below it.
func newPaths(protect, exempt []string, fold bool) (paths, error) {
	p := paths{free: len(protect) > 0, fold: fold}
	for _, list := range []struct {
		of   []string
		free bool
	}{{protect, false}, {exempt, true}} {
		for _, given := range list.of {
			rule := p.folded(strings.TrimSuffix(given, "/"))
			if !strings.HasPrefix(given, "/") || strings.ContainsAny(given, `%\;?#`) || rule != "" && (path.Clean(rule) != rule || rule == "/") {
				return p, fmt.Errorf("path %.80q: a path begins with a slash and is plain: not escaped, without //, dots, ';', '?' and '#'", given)
			}
			if slices.ContainsFunc(p.rules, func(r pathRule) bool { return r.path == rule }) {
				return p, fmt.Errorf("path %.80q is given twice", given)
			}
			p.rules = append(p.rules, pathRule{rule, list.free})
		}
	}
	slices.SortStableFunc(p.rules, func(a, b pathRule) int { return len(b.path) - len(a.path) })
	return p, nil
}

func (p *paths) folded(s string) string {
	if p.fold {
		return strings.ToLower(s)
	}
	return s
}

// maxReadings is how many ways to read one path are looked at, and maxRead how many bytes they may have together, before it is taken for
// an attempt to get around the gate.
const (
	maxReadings = 128
	maxRead     = 64 << 10
)

// readings are what one server or another makes of a path. Each is applied to what the others gave, too.
var readings = [...]func(string) string{
	func(s string) string { return decode(s, func(byte) bool { return true }) },
	func(s string) string { return decode(s, isUnreserved) },                                       // RFC 3986, Envoy, browsers
	func(s string) string { return decode(s, func(c byte) bool { return c == '/' || c == '\\' }) }, // Envoy, if so set
	func(s string) string { return strings.ReplaceAll(s, `\`, "/") },                               // browsers, Node, Envoy, IIS
	func(s string) string { return before(s, '#') },                                                // nginx, Node
	func(s string) string { return before(s, '?') },                                                // who parses again what was decoded
	func(s string) string { return before(s, ';') },
	withoutParams, // Tomcat, Jetty
	squeeze,       // nginx; and then resolved, as Go and Caddy do
	resolved,      // browsers, Node, Envoy, nginx with merge_slashes off
	withoutHost,   // Node: new URL(req.url, base)
	withoutTails,  // Windows
}

// protects says whether a request for the path, as it came, is the gate's business.
func (p *paths) protects(target string) bool {
	if len(p.rules) == 0 {
		return true
	}
	if !strings.HasPrefix(target, "/") {
		return true // "*", or nothing that we know
	}
	if isPlain(target) {
		return p.covers(target)
	}
	all, size := []string{target}, len(target)
	for i := 0; i < len(all); i++ {
		if isUnreadable(all[i]) || p.covers(all[i]) {
			return true
		}
		for _, read := range readings {
			if s := read(all[i]); !slices.Contains(all, s) {
				if size += len(s); size > maxRead || len(all) == maxReadings {
					return true
				}
				all = append(all, s)
			}
		}
	}
	return false
}

// isPlain finds that there is one way to read s. It is what nearly all paths are.
func isPlain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c <= ' ' || c >= 0x7f || strings.IndexByte(`%\;?#`, c) >= 0:
			return false
		case c == '/' && i > 0 && (s[i-1] == '/' || s[i-1] == '.'):
			return false
		case c == '.' && (i == len(s)-1 || s[i-1] == '/'):
			return false
		}
	}
	return true
}

// isUnreadable finds what no server should be asked for, and what those that take it read in ways of their own: characters that
// can't be seen, "/" and "." written with more bytes than they need, and "%u002f".
func isUnreadable(s string) bool {
	for i := range len(s) {
		next := byte(0)
		if i+1 < len(s) {
			next = s[i+1]
		}
		switch c := s[i]; {
		case c < ' ' || c == 0x7f || c == 0xc0 || c == 0xc1:
			return true
		case (c == 0xe0 && next >= 0x80 && next < 0xa0) || (c == 0xf0 && next >= 0x80 && next < 0x90):
			return true
		case c == '%' && (next == 'u' || next == 'U') && i+5 < len(s) &&
			unhex(s[i+2]) >= 0 && unhex(s[i+3]) >= 0 && unhex(s[i+4]) >= 0 && unhex(s[i+5]) >= 0:
			return true
		}
	}
	return false
}

// covers says whether s, read as it is, is protected.
func (p *paths) covers(s string) bool {
	if !p.fold {
		return p.coversExactly(s)
	}
	// Some compare small letters and some big ones, which differ in a few: "ſ" is a big S.
	small := strings.ToLower(s)
	return p.coversExactly(small) || p.coversExactly(strings.ToLower(strings.ToUpper(s)))
}

func (p *paths) coversExactly(s string) bool {
	for _, r := range p.rules {
		if rest, ok := strings.CutPrefix(s, r.path); ok && (rest == "" || rest[0] == '/') {
			return !r.free
		}
	}
	return !p.free
}

// decode undoes one round of percent-escaping of the bytes that which names; what is no escape stays.
func decode(s string, which func(byte) bool) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if hi, lo := unhex(s[i+1]), unhex(s[i+2]); hi >= 0 && lo >= 0 && which(byte(hi<<4|lo)) {
				b = append(b, byte(hi<<4|lo))
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}

func isUnreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// squeeze joins slashes.
func squeeze(s string) string {
	if !strings.Contains(s, "//") {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := range len(s) {
		if s[i] != '/' || i == 0 || s[i-1] != '/' {
			b = append(b, s[i])
		}
	}
	return string(b)
}

// before is s up to the first c.
func before(s string, c byte) string {
	if i := strings.IndexByte(s, c); i > 0 {
		return s[:i]
	}
	return s
}

// withoutHost takes "//host/path" for an address without its scheme.
func withoutHost(s string) string {
	if !strings.HasPrefix(s, "//") {
		return s
	}
	s = strings.TrimLeft(s, "/")
	if i := strings.IndexByte(s, '/'); i >= 0 {
		return s[i:]
	}
	return "/"
}

// withoutTails drops dots and spaces from the end of each segment, unless it has nothing else.
func withoutTails(s string) string {
	segments := strings.Split(s, "/")
	for i, segment := range segments {
		if short := strings.TrimRight(segment, ". "); short != "" {
			segments[i] = short
		}
	}
	return strings.Join(segments, "/")
}

// withoutParams drops ";…" from each segment.
func withoutParams(s string) string {
	segments := strings.Split(s, "/")
	for i := range segments {
		segments[i], _, _ = strings.Cut(segments[i], ";")
	}
	return strings.Join(segments, "/")
}
