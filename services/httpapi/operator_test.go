package httpapi_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/services/httpapi"
)

const (
	annas = "anna-anna-anna-anna-anna-anna-anna"
	newer = "newer-newer-newer-newer-newer-newer"
	bobs  = "bob:bob:bob:bob:bob:bob:bob:bob:bob"
)

func TestCredentials(t *testing.T) {
	c, err := httpapi.ParseCredentials(" anna:" + annas + ", bob:" + bobs + ",anna:" + newer)
	require.NoError(t, err)
	require.True(t, c.Any())
	for name, tc := range map[string]struct {
		header []string
		cookie string
		name   string
		code   httpapi.Code
	}{
		"hers":                   {[]string{"Bearer " + annas}, "", "anna", ""},
		"her new one":            {[]string{"bearer  " + newer}, "", "anna", ""},
		"his, with colons":       {[]string{"Bearer " + bobs}, "", "bob", ""},
		"with a visitor's":       {[]string{"Bearer " + bobs}, "__Host-soonbeon-main=x", "bob", ""},
		"none":                   {nil, "", "", httpapi.CredentialMissing},
		"none, and some cookie":  {nil, "session=1", "", httpapi.CredentialMissing},
		"a visitor's cookie":     {nil, "a=b; __Host-soonbeon-main=x", "", httpapi.CredentialForbidden},
		"a receipt":              {[]string{"Bearer eyJhbGciOiJIUzI1NiJ9.e30.AAAA"}, "", "", httpapi.CredentialForbidden},
		"the beginning":          {[]string{"Bearer " + annas[:33]}, "", "", httpapi.CredentialForbidden},
		"more than it":           {[]string{"Bearer " + annas + "a"}, "", "", httpapi.CredentialForbidden},
		"with the name":          {[]string{"Bearer anna:" + annas}, "", "", httpapi.CredentialForbidden},
		"of another scheme":      {[]string{"Basic " + annas}, "", "", httpapi.CredentialForbidden},
		"twice":                  {[]string{"Bearer " + annas, "Bearer " + annas}, "", "", httpapi.CredentialForbidden},
		"the header and nothing": {[]string{"Bearer "}, "", "", httpapi.CredentialForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header["Authorization"] = tc.header
			r.Header.Set("Cookie", tc.cookie)
			got, err := c.Check(r)
			require.Equal(t, tc.name, got)
			if tc.code == "" {
				require.NoError(t, err)
				return
			}
			var p *httpapi.Problem
			require.ErrorAs(t, err, &p)
			require.Equal(t, tc.code, p.Code)
			require.NotContains(t, p.Detail, "anna-")
		})
	}
	for _, none := range []*httpapi.Credentials{nil, {}} {
		require.False(t, none.Any())
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", "Bearer "+annas)
		_, err := none.Check(r)
		require.ErrorContains(t, err, "credential_forbidden")
		r.Header.Del("Authorization")
		_, err = none.Check(r)
		require.ErrorContains(t, err, "credential_missing")
	}
}

func TestCredentialListsAreChecked(t *testing.T) {
	_, err := httpapi.ParseCredentials(strings.Join([]string{annas, "Anna:" + newer, ":" + bobs, "bob:short", "eve:" + newer,
		"tom:" + strings.Repeat("é", 20), strings.Repeat("x", 33) + ":" + strings.Repeat("y", 513)}, ","))
	for _, want := range []string{
		"credential 1: not name:secret", "credential 2: a name is 1 to 32", "credential 3: a name is", "credential 4: a secret has 32 to 512 characters, not 5",
		"credential 5: has the secret of credential 2", "credential 6: a secret is visible ASCII", "credential 7: a name is", "credential 7: a secret has",
	} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), "newer-")
	require.NotContains(t, err.Error(), "anna-")
	_, err = httpapi.ParseCredentials(strings.Repeat("a:"+annas+",", 65))
	require.ErrorContains(t, err, "at most 64")
	c, err := httpapi.ParseCredentials("  ")
	require.NoError(t, err)
	require.False(t, c.Any())
}

func TestCredentialsAreNotPrinted(t *testing.T) {
	c, err := httpapi.ParseCredentials("anna:" + annas)
	require.NoError(t, err)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		require.Equal(t, "httpapi.Credentials(anna)", fmt.Sprintf(verb, c))
	}
	require.NotPanics(t, func() { _ = fmt.Sprint((*httpapi.Credentials)(nil)) })
}

func TestProblemsHaveMembers(t *testing.T) {
	f := newFixture(t, httpapi.Config{})
	w := httptest.NewRecorder()
	p := httpapi.Problemf(httpapi.QueueClosed, "it is over").With("reason", "sold_out").With("mistakes", []string{"a"})
	require.NoError(t, httpapi.WriteProblem(f.e.NewContext(httptest.NewRequest("GET", "/", nil), w), p))
	require.Equal(t, 410, w.Code)
	require.JSONEq(t, `{"type":"urn:soonbeon:problem:queue_closed","title":"The queue takes nobody in any more","status":410,
		"code":"queue_closed","detail":"it is over","reason":"sold_out","mistakes":["a"]}`, w.Body.String())
}
