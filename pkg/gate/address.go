package gate

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// MaxReturn is the longest return address, in bytes: browsers and proxies cut longer locations off.
const MaxReturn = 2048

// Origin checks s as an origin that people may be sent to, and returns it in the form that browsers use: lower case, without a
// default port. It is https, or http on this host itself, and has no path, user, query or fragment. A name in other letters
// than ASCII is given as browsers send it ("xn--…").
func Origin(s string) (string, error) {
	u, err := webURL(s)
	if err != nil {
		return "", err
	}
	if u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery {
		return "", errors.New("an origin has no path and no query")
	}
	return originOf(u)
}

// originOf is scheme://host[:port] of u. The host is taken letter by letter and never guessed at: what is not plain is refused,
// since a browser may read it as another host than we do.
func originOf(u *url.URL) (string, error) {
	host := strings.ToLower(u.Host)
	for i := range len(host) {
		c := host[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune(".-_:[]", rune(c)) {
			return "", errors.New("a host is letters, digits, dots and hyphens; other letters are written as xn--…")
		}
	}
	host = strings.TrimSuffix(host, ":")
	switch u.Scheme {
	case "https":
		host = strings.TrimSuffix(host, ":443")
	case "http":
		host = strings.TrimSuffix(host, ":80")
	}
	if host == "" || strings.HasPrefix(host, ":") {
		return "", errors.New("there is no host")
	}
	return u.Scheme + "://" + host, nil
}

// ReturnAddress checks where somebody wants to be sent back to: a whole URL of one of the allowed origins (each as Origin takes
// it), or a path, which is one of the first of them. The result is a whole URL in ASCII, at most MaxReturn bytes, which leads to
// that origin for every reader: a path of "//evil", a backslash, a user, a control character or a space is refused, and what is
// not ASCII is escaped. Queries, plus signs, escapes and fragments come out as they went in.
//
// The error says what is wrong without quoting s, and is fit to be shown.
func ReturnAddress(s string, allowed []string) (string, error) {
	if len(allowed) == 0 {
		return "", errors.New("return address: no site is configured to return to")
	}
	origins := make([]string, len(allowed))
	for i, a := range allowed {
		o, err := Origin(a)
		if err != nil {
			return "", fmt.Errorf("return address: allowed origin %d: %w", i+1, err)
		}
		origins[i] = o
	}
	if strings.HasPrefix(s, "/") {
		path, err := localPath(s)
		if err == nil && len(origins[0])+len(path) > MaxReturn {
			err = errLong
		}
		if err != nil {
			return "", fmt.Errorf("return address: %w", err)
		}
		return origins[0] + path, nil
	}
	origin, rest, err := split(s)
	if err != nil {
		return "", fmt.Errorf("return address: %w", err)
	}
	for _, o := range origins {
		if o == origin {
			if len(o)+len(rest) > MaxReturn {
				return "", fmt.Errorf("return address: %w", errLong)
			}
			return o + rest, nil
		}
	}
	return "", errors.New("return address: it is of a site that is not allowed here")
}

// ArrivePath is where the gate of a queue takes entry tokens in, on every site that has one: see Gate.Arrive.
func ArrivePath(id queue.ID) string { return arrivePrefix + string(id) }

const arrivePrefix = "/.well-known/soonbeon/arrive/"

// Arrival splits an address that ReturnAddress let through into where the entry token is handed over, and where the person goes
// from there. With scripts, a waiting page navigates to action + "#token=" + token + "&to=" + encodeURIComponent(to); without,
// it posts a form with the fields token and to. Either way the token is in no address that a server or a proxy writes down.
func Arrival(id queue.ID, address string) (action, to string, err error) {
	origin, rest, err := split(address)
	if err != nil {
		return "", "", fmt.Errorf("return address: %w", err)
	}
	// Alone, a path of two slashes would be an address of another site.
	return origin + ArrivePath(id), "/" + strings.TrimLeft(rest, "/"), nil
}

var errLong = fmt.Errorf("it has more than %d bytes", MaxReturn)

// split takes a whole URL apart at the end of its host. rest begins with a slash.
func split(s string) (origin, rest string, err error) {
	u, err := parse(s)
	if err != nil {
		return "", "", err
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Opaque != "" || u.User != nil {
		return "", "", errors.New("it is no URL with https, a host, and no user")
	}
	if origin, err = originOf(u); err != nil {
		return "", "", err
	}
	_, rest, _ = strings.Cut(s, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[end:]
	} else {
		rest = ""
	}
	if !strings.HasPrefix(rest, "/") {
		rest = "/" + rest
	}
	return origin, escape(rest), nil
}

// localPath checks a path, with query and fragment, as one that stays on the site that it is read on. "" is "/".
func localPath(s string) (string, error) {
	if s == "" {
		return "/", nil
	}
	u, err := parse(s)
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(s, "/") || strings.HasPrefix(s, "//") || u.Scheme != "" || u.Host != "" || u.Opaque != "" || u.User != nil {
		return "", errors.New("it is no path that begins with one slash")
	}
	// "/.//host" is a path of two slashes once its dots are resolved.
	if strings.HasPrefix(resolved(u.EscapedPath()), "//") {
		return "", errors.New("it is no path that begins with one slash")
	}
	return escape(s), nil
}

// resolved is a path without its dot segments, as browsers take them out: "%2e" is a dot, and slashes are not joined.
func resolved(path string) string {
	var out []string
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		switch strings.ReplaceAll(strings.ToLower(segment), "%2e", ".") {
		case ".":
		case "..":
			out = out[:max(len(out)-1, 0)]
		default:
			out = append(out, segment)
		}
	}
	return "/" + strings.Join(out, "/")
}

// parse refuses what browsers mend in ways of their own before it looks at s as a URL.
func parse(s string) (*url.URL, error) {
	if len(s) > MaxReturn {
		return nil, errLong
	}
	if !utf8.ValidString(s) {
		return nil, errors.New("it is not UTF-8")
	}
	for _, r := range s {
		if r == '\\' || r == ' ' || unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Zs) {
			return nil, errors.New("it has a backslash, a space, or a character that can't be seen")
		}
	}
	u, err := url.Parse(s)
	if err != nil {
		return nil, errors.New("it is no URL") // the parser's error quotes it
	}
	return u, nil
}

// escape makes ASCII of s, and leaves alone what is that already, escapes included.
func escape(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>\\^`{|}", c) >= 0 {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
