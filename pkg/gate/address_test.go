package gate

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var sites = []string{"https://shop.example", "https://other.example:8443/", "http://localhost:3000"}

func TestReturnAddressesThatAreTaken(t *testing.T) {
	for given, want := range map[string]string{
		"https://shop.example":                             "https://shop.example/",
		"https://shop.example/":                            "https://shop.example/",
		"HTTPS://Shop.Example:443/A":                       "https://shop.example/A",
		"https://other.example:8443/x":                     "https://other.example:8443/x",
		"http://localhost:3000/x":                          "http://localhost:3000/x",
		"https://shop.example?a=b":                         "https://shop.example/?a=b",
		"https://shop.example#top":                         "https://shop.example/#top",
		"https://shop.example/a+b?c=d+e&f=%2B#g+h":         "https://shop.example/a+b?c=d+e&f=%2B#g+h",
		"https://shop.example/a%2Fb%23?x=%26&x=2":          "https://shop.example/a%2Fb%23?x=%26&x=2",
		"https://shop.example/공연/7?이름=가#나":                 "https://shop.example/%EA%B3%B5%EC%97%B0/7?%EC%9D%B4%EB%A6%84=%EA%B0%80#%EB%82%98",
		"https://shop.example/%EA%B3%B5%EC%97%B0":          "https://shop.example/%EA%B3%B5%EC%97%B0",
		"https://shop.example/공%2F연":                       "https://shop.example/%EA%B3%B5%2F%EC%97%B0",
		"https://shop.example//evil.example":               "https://shop.example//evil.example",
		"https://shop.example/?to=https://evil.example":    "https://shop.example/?to=https://evil.example",
		"/checkout/7?item=a&item=b#c":                      "https://shop.example/checkout/7?item=a&item=b#c",
		"/한글":                                              "https://shop.example/%ED%95%9C%EA%B8%80",
		"https://shop.example/a'b":                         "https://shop.example/a'b",
		`https://shop.example/?q="<x>"`:                    "https://shop.example/?q=%22%3Cx%3E%22",
		"https://shop.example/a/../b":                      "https://shop.example/a/../b",
		"https://shop.example/?" + strings.Repeat("x", 99): "https://shop.example/?" + strings.Repeat("x", 99),
	} {
		got, err := ReturnAddress(given, sites)
		if assert.NoError(t, err, given) {
			assert.Equal(t, want, got, given)
			again, err := ReturnAddress(got, sites)
			assert.NoError(t, err, got)
			assert.Equal(t, got, again, "a second time it changes nothing")
		}
	}
}

func TestReturnAddressesThatAreRefused(t *testing.T) {
	for _, given := range []string{
		"", "checkout", "?a=b", "#a", "//evil.example", "///evil.example", `/\evil.example`, `\\evil.example`, `\/evil.example`,
		"/.//evil.example", "/a/..//evil.example", "/./..//evil.example/", "/%2e//evil.example", "/a/%2E.//evil.example",
		"https://evil.example/", "https://shop.example.evil.example/", "https://shop.example@evil.example/", "https://evil.example#@shop.example",
		"https://u:secret@shop.example/", "https://u@shop.example/", `https://evil.example\@shop.example/`, `https://shop.example\.evil.example/`,
		"http://shop.example/", "https://shop.example:8443/", "https://shop.example./", "https://localhost:3000/",
		"https:shop.example/", "https:/shop.example/", "https:///shop.example/", "://shop.example", "//shop.example/",
		"javascript:alert(1)", "data:text/html,x", "JavaScript://shop.example/%0aalert(1)", "ftp://shop.example/", "file:///etc/passwd",
		"https://shop.example/a b", " https://shop.example/", "https://shop.example/ ", "\thttps://shop.example/", "https://shop.example/\n",
		"https://shop.example/\r\nSet-Cookie: a=b", "https://shop.example/\x00", "https://shop.example/\x7f", "https://shop.example/\u0085",
		"https://shop.example/\u202e", "https://shop.example/\ufeff", "https://shop.example/\u00a0x", "https://shop.example/\xff",
		"https://shop.еxample/", "https://ｓhop.example/", "https://shop。example/", "https://shop%2eexample/", "https://shop.example/%zz",
		"https://[::1]/", "https://:443/", "https://",
		"https://shop.example/" + strings.Repeat("x", MaxReturn), "/" + strings.Repeat("x", MaxReturn-4), "/" + strings.Repeat("가", MaxReturn/9),
	} {
		got, err := ReturnAddress(given, sites)
		if assert.Error(t, err, "%q became %q", given, got) {
			assert.NotContains(t, err.Error(), "secret")
		}
	}
	_, err := ReturnAddress("/x", nil)
	require.ErrorContains(t, err, "no site")
	_, err = ReturnAddress("/x", []string{"https://shop.example", "http://shop.example"})
	require.ErrorContains(t, err, "allowed origin 2")
}

func TestOrigins(t *testing.T) {
	for given, want := range map[string]string{
		"https://Shop.Example": "https://shop.example", "https://shop.example:443/": "https://shop.example", "https://xn--bj0bj06e.example": "https://xn--bj0bj06e.example",
		"http://127.0.0.1:80": "http://127.0.0.1", "http://[::1]:8080": "http://[::1]:8080", "https://shop.example:": "https://shop.example",
	} {
		got, err := Origin(given)
		require.NoError(t, err, given)
		require.Equal(t, want, got)
	}
	for _, given := range []string{
		"", "shop.example", "null", "*", "https://*.example", "http://shop.example", "https://shop.example/a", "https://shop.example?", "https://shop.example?a",
		"https://shop.example#a", "https://u@shop.example", "https://한국.example", "https://", "https://a b",
	} {
		got, err := Origin(given)
		require.Error(t, err, "%q became %q", given, got)
	}
}

func TestWhereToArrive(t *testing.T) {
	for given, want := range map[string][2]string{
		"https://shop.example/checkout/7?a=b+c#d": {"https://shop.example/.well-known/soonbeon/arrive/main", "/checkout/7?a=b+c#d"},
		"http://localhost:3000":                   {"http://localhost:3000/.well-known/soonbeon/arrive/main", "/"},
		"https://shop.example//evil.example":      {"https://shop.example/.well-known/soonbeon/arrive/main", "/evil.example"},
	} {
		action, to, err := Arrival("main", given)
		require.NoError(t, err)
		require.Equal(t, want, [2]string{action, to})
	}
	for _, given := range []string{"", "/x", "//x", "javascript:alert(1)", "https://u@shop.example/"} {
		_, _, err := Arrival("main", given)
		require.Error(t, err, given)
	}
}

// Whatever is let through leads to an allowed origin, by Go's reading and by the way that browsers read, and says the same when
// it is looked at again.
func FuzzReturnAddress(f *testing.F) {
	for _, s := range []string{
		"https://shop.example/a?b#c", "/a", "//evil", `/\evil`, "/.//evil", "https://shop.example@evil/", "/%2f%2fevil", "https://shop.example/공연?이름=1+2",
		"/a/..//b", "https://shop.example:443", "http:\\\\evil", "/\t/evil", "https://SHOP.example/%",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ReturnAddress(s, sites)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(got), MaxReturn)
		for _, r := range got {
			require.True(t, r > ' ' && r < 0x7f && r != '\\', got)
		}
		u, err := url.Parse(got)
		require.NoError(t, err)
		require.Nil(t, u.User)
		require.Contains(t, []string{"https://shop.example", "https://other.example:8443", "http://localhost:3000"}, u.Scheme+"://"+u.Host)
		again, err := ReturnAddress(got, sites)
		require.NoError(t, err)
		require.Equal(t, got, again)

		action, to, err := Arrival("main", got)
		require.NoError(t, err)
		require.Equal(t, u.Scheme+"://"+u.Host+ArrivePath("main"), action)
		require.True(t, strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "//"), to)
		if local, err := localPath(to); err == nil { // the gate takes it, and changes nothing
			require.Equal(t, to, local)
		}
	})
}

// Whatever the gate redirects to stays on its site.
func FuzzLocalPath(f *testing.F) {
	for _, s := range []string{"", "/", "//evil", "/.//evil", "/a/../..//evil", `/\evil`, "/%2f/evil", "/a#//b", "/?//b", "/공연", "/a:b", "/;//x"} {
		f.Add(s)
	}
	base := &url.URL{Scheme: "https", Host: "shop.example", Path: "/.well-known/x"}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := localPath(s)
		if err != nil {
			return
		}
		u, err := base.Parse(got)
		require.NoError(t, err)
		require.Equal(t, "shop.example", u.Host)
		require.False(t, strings.HasPrefix(u.EscapedPath(), "//"), u)
		require.NotContains(t, got, `\`)
	})
}
