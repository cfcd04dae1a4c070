package gate

import (
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhichPathsAreBehindTheGate(t *testing.T) {
	p, err := newPaths([]string{"/checkout/", "/공연"}, []string{"/checkout/help", "/checkout/help/free/"}, false)
	require.NoError(t, err)
	for given, want := range map[string]bool{
		"/": false, "/static/app.js": false, "/checkouts": false, "/a%20b": false, "/a;b=c": false, "/a//b": false, "/100%": false,
		"/checkout": true, "/checkout/": true, "/checkout/7": true, "/checkout/helper": true,
		"/checkout/help": false, "/checkout/help/": false, "/checkout/help/1": false,
		"/%EA%B3%B5%EC%97%B0/7": true, "/공연": true, "/%EA%B3%B5%EC%97%B1": false,
		"//checkout": true, "//checkout/../static": true, "/./checkout": true, "/static/../checkout": true, "/static//..//checkout": true,
		"/checkout/help/../7": true, "/checkout/help/%2e%2e/7": true, "/checkout/help/..%2f7": true, "/checkout/help%2f..%2f7": true,
		"/%63heckout": true, "/%2563heckout": true, "/%252563heckout": true, "/static/%252e%252e/checkout": true,
		`/static\..\checkout`: true, "/static/..%5ccheckout": true, "/static/..;/checkout": true, "/checkout;a=b/7": true, "/;x/checkout": true,
		"/checkout%2f7": true, "/checkout%00": true, "/static%00": true, "/static%0a": true, "/x/%2525252525": true,
		"*": true, "": true, "checkout": true, "http://x/y": true,
		"/Checkout": false,
	} {
		assert.Equal(t, want, p.protects(given), given)
	}

	p, err = newPaths([]string{"/Checkout"}, nil, true)
	require.NoError(t, err)
	for _, given := range []string{"/checkout", "/CHECKOUT/7", "/%43heckout"} {
		assert.True(t, p.protects(given), given)
	}

	p, err = newPaths(nil, []string{"/static"}, false)
	require.NoError(t, err)
	assert.True(t, p.protects("/") && p.protects("/x") && p.protects("/static/../x") && p.protects("/x/../static"))
	assert.False(t, p.protects("/static/x"))

	p, err = newPaths(nil, nil, false)
	require.NoError(t, err)
	assert.True(t, p.protects("/") && p.protects("/static"))

	p, err = newPaths([]string{"/"}, []string{"/static"}, false)
	require.NoError(t, err)
	assert.True(t, p.protects("/x"))
	assert.False(t, p.protects("/static/x"))
}

func TestPathsThatCannotBeConfigured(t *testing.T) {
	for _, given := range []string{"", "checkout", "/a//b", "/./a", "/a/..", "/%2f", `/a\b`, "/a;b", "/a?b", "/a#b", "//"} {
		_, err := newPaths([]string{given}, nil, false)
		require.ErrorContains(t, err, "path", given)
	}
	_, err := newPaths([]string{"/a"}, []string{"/a/"}, false)
	require.ErrorContains(t, err, "twice")
	_, err = newPaths([]string{"/a", "/A"}, nil, true)
	require.ErrorContains(t, err, "twice")
}

// However a server reads a path: if one of the usual readings is behind the gate, so is the request.
func FuzzPaths(f *testing.F) {
	for _, s := range []string{"/checkout/7", "/static/../checkout", "/%63heckout", "//checkout", "/a/..;/checkout", `/a\..\checkout`, "/%25%36%33heckout", "/é%"} {
		f.Add(s)
	}
	p, err := newPaths([]string{"/checkout"}, []string{"/checkout/help"}, false)
	require.NoError(f, err)
	behind := func(s string) bool {
		s = path.Clean("/" + s)
		in := func(s, dir string) bool { return s == dir || strings.HasPrefix(s, dir+"/") }
		return in(s, "/checkout") && !in(s, "/checkout/help")
	}
	f.Fuzz(func(t *testing.T, s string) {
		once, err := url.PathUnescape(s)
		if err != nil {
			once = s
		}
		twice, err := url.PathUnescape(once)
		if err != nil {
			twice = once
		}
		for _, reading := range []string{s, once, twice, strings.ReplaceAll(once, `\`, "/"), withoutParams(s), withoutParams(once)} {
			if behind(reading) {
				require.True(t, p.protects(s), "%q is read as %q", s, reading)
			}
		}
	})
}
