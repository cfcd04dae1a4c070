package gate

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// paths says what of a site is behind the gate.
//
// Servers read one address in several ways: some join "//", resolve "/../", decode "%2f" (once, or twice), take a backslash for
// a slash, or drop ";…". The gate can't know which the site does, so a request is let past only when it is outside by each of
// these readings.
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

// maxDecodings is how often a path is decoded before it is taken for an attempt to get around the gate.
const maxDecodings = 4

// protects says whether a request for the path, escaped as it came, is the gate's business.
func (p *paths) protects(escaped string) bool {
	if len(p.rules) == 0 {
		return true
	}
	if !strings.HasPrefix(escaped, "/") {
		return true // "*", or nothing that we know
	}
	for range maxDecodings {
		if p.anyReading(escaped) {
			return true
		}
		decoded := decode(escaped)
		if decoded == escaped {
			return strings.ContainsFunc(decoded, func(r rune) bool { return r < ' ' || r == 0x7f })
		}
		escaped = decoded
	}
	return true
}

// anyReading says whether one way to read s, decoded as far as it is, leads behind the gate.
func (p *paths) anyReading(s string) bool {
	readings := []string{s}
	if strings.IndexByte(s, '\\') >= 0 {
		readings = append(readings, strings.ReplaceAll(s, `\`, "/"))
	}
	for _, r := range readings[:len(readings):len(readings)] {
		if strings.IndexByte(r, ';') >= 0 {
			readings = append(readings, withoutParams(r))
		}
	}
	for _, r := range readings {
		if p.covers(r) || p.covers(squeeze(r)) || p.covers(path.Clean(r)) {
			return true
		}
	}
	return false
}

// covers says whether s, read as it is, is protected.
func (p *paths) covers(s string) bool {
	s = p.folded(s)
	for _, r := range p.rules {
		if rest, ok := strings.CutPrefix(s, r.path); ok && (rest == "" || rest[0] == '/') {
			return !r.free
		}
	}
	return !p.free
}

// decode undoes one round of percent-escaping; what is no escape stays.
func decode(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if hi, lo := unhex(s[i+1]), unhex(s[i+2]); hi >= 0 && lo >= 0 {
				b = append(b, byte(hi<<4|lo))
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
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

// withoutParams drops ";…" from each segment.
func withoutParams(s string) string {
	segments := strings.Split(s, "/")
	for i := range segments {
		segments[i], _, _ = strings.Cut(segments[i], ";")
	}
	return strings.Join(segments, "/")
}
