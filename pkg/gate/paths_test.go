package gate

import (
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
		"/checkout%2f7": true, "/checkout%00": true, "/static%00": true, "/static%0a": true, "/x/%" + strings.Repeat("25", 200) + "41": true,
		// A mark that ends a path for some, raw or once it is decoded.
		"/checkout#x": true, "/checkout#/../../static": true, "/static#/../checkout": true, "/checkout%23x": true, "/checkout%2523x": true, "/checkout%3fx": true,
		"/checkout?x": true, "/checkout%3F/../../static": true, "/checkout;/../../static": true, "/static#checkout": false, "/a%23b%3fc": false,
		// Dots that are resolved before slashes are joined, and hosts that no scheme comes before.
		"/x/../checkout//../y": true, "/checkout/7//../../static": true, "/x%2f/%2e%2e/checkout": true, "/a%2fb/../../checkout": true,
		"//x/checkout": true, "///x/checkout": true, `/\x/checkout`: true, "//x/static": false, "//x": false,
		// What Windows drops, and what nobody sends in earnest.
		"/checkout./7": true, "/checkout%20": true, "/static/..%c0%afcheckout": true, "/%c0%ae./x": true, "/%e0%80%afx": true, "/static/%u002e%u002e/x": true,
		"/a...": false, "/.../a": false, "/a.b/c.d": false, "/.well-known/x": false,
		"*": true, "": true, "checkout": true, "http://x/y": true,
		"/Checkout": false,
	} {
		assert.Equal(t, want, p.protects(given), given)
	}

	p, err = newPaths([]string{"/Checkout"}, nil, true)
	require.NoError(t, err)
	for _, given := range []string{"/checkout", "/CHECKOUT/7", "/%43heckout", "/chec%E2%84%AAout"} {
		assert.True(t, p.protects(given), given)
	}
	assert.False(t, p.protects("/checkoutſ"))

	// One of two rules that cover a path is looked for in each reading by itself.
	p, err = newPaths([]string{"/a/checkout"}, nil, false)
	require.NoError(t, err)
	assert.True(t, p.protects("/a//../checkout"))

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
