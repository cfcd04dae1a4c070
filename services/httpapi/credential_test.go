package httpapi_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/services/httpapi"
)

// verify accepts tokens that begin with "good", and returns them.
func verify(token string) (string, error) {
	if token == "expired" {
		return "", httpapi.Problemf(httpapi.CredentialInvalid, "it has expired")
	}
	if !strings.HasPrefix(token, "good") {
		return "", errors.New("no good: " + token)
	}
	return token, nil
}

func TestFault21_Cookies(t *testing.T) {
	var thirty []string
	for i := range 30 {
		thirty = append(thirty, fmt.Sprintf("other%d=%s", i, strings.Repeat("v", 50)))
	}
	others := strings.Join(thirty, "; ")
	const ours = "__Host-soonbeon-main"
	for name, tc := range map[string]struct {
		cookies []string // one Cookie header each
		want    string
	}{
		"alone":                       {[]string{ours + "=good"}, "good"},
		"among thirty others":         {[]string{others + "; " + ours + "=good; " + others}, "good"},
		"last":                        {[]string{others + "; " + ours + "=good"}, "good"},
		"first":                       {[]string{ours + "=good; " + others}, "good"},
		"quoted":                      {[]string{ours + `="good"`}, "good"},
		"doubled, the second holds":   {[]string{ours + "=stale; " + ours + "=good"}, "good"},
		"doubled, the first holds":    {[]string{ours + "=good1; " + ours + "=good2"}, "good1"},
		"doubled, in two headers":     {[]string{ours + "=stale", ours + "=good"}, "good"},
		"an empty one before":         {[]string{ours + "=; " + ours + "=good"}, "good"},
		"between broken ones":         {[]string{`a="b; c={"x":1,"y":[2]}; ` + ours + "=good; =; ;;; d"}, "good"},
		"no space between":            {[]string{"a=b;" + ours + "=good;c=d"}, "good"},
		"of another queue":            {[]string{ours + "2=good; __Host-soonbeon-mai=good; __Host-soonbeon-=good"}, ""},
		"in another case":             {[]string{"__host-soonbeon-main=good"}, ""},
		"doubled, none holds":         {[]string{ours + "=bad; " + ours + "=worse"}, "invalid"},
		"with a control character":    {[]string{ours + "=good\x00"}, ""},
		"hundreds, the last one good": {[]string{strings.Repeat(ours+"=bad; ", 500) + ours + "=good"}, "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header["Cookie"] = tc.cookies
			got, source, err := httpapi.Authenticate(r, "main", verify)
			var p *httpapi.Problem
			switch tc.want {
			case "":
				require.ErrorAs(t, err, &p)
				require.Equal(t, httpapi.CredentialMissing, p.Code)
				require.Equal(t, httpapi.FromNowhere, source)
			case "invalid":
				require.ErrorAs(t, err, &p)
				require.Equal(t, httpapi.CredentialInvalid, p.Code)
				require.NotContains(t, p.Error(), "bad", "the token stays out of it")
				require.Equal(t, httpapi.FromCookie, source)
			default:
				require.NoError(t, err)
				require.Equal(t, tc.want, got)
				require.Equal(t, httpapi.FromCookie, source)
			}
		})
	}
}

func TestAuthorization(t *testing.T) {
	for name, tc := range map[string]struct {
		headers []string
		want    string // "" is credential_invalid
	}{
		"bearer":           {[]string{"Bearer good"}, "good"},
		"in another case":  {[]string{"bearer  good "}, "good"},
		"twice":            {[]string{"Bearer good", "Bearer good"}, ""},
		"two in one":       {[]string{"Bearer bad, Bearer good"}, ""},
		"basic":            {[]string{"Basic Z29vZDpnb29k"}, ""},
		"without a scheme": {[]string{"good"}, ""},
		"without a token":  {[]string{"Bearer "}, ""},
		"empty":            {[]string{""}, ""},
		"forged":           {[]string{"Bearer bad"}, ""},
		"expired":          {[]string{"Bearer expired"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header = http.Header{"Authorization": tc.headers, "Cookie": {"__Host-soonbeon-main=good-cookie"}}
			got, source, err := httpapi.Authenticate(r, "main", verify)
			require.Equal(t, httpapi.FromHeader, source, "the cookie doesn't count beside the header")
			if tc.want != "" {
				require.NoError(t, err)
				require.Equal(t, tc.want, got)
				return
			}
			var p *httpapi.Problem
			require.ErrorAs(t, err, &p)
			require.Equal(t, httpapi.CredentialInvalid, p.Code)
			if name == "expired" {
				require.Equal(t, "it has expired", p.Detail)
			}
		})
	}
}

func TestReceiptCookie(t *testing.T) {
	c, err := http.ParseSetCookie(httpapi.ReceiptCookie("main", "a.b-c_d"))
	require.NoError(t, err)
	require.NoError(t, c.Valid())
	require.Equal(t, "__Host-soonbeon-main", c.Name)
	require.Equal(t, "a.b-c_d", c.Value)
	require.True(t, c.Secure && c.HttpOnly && c.Path == "/" && c.Domain == "" && c.MaxAge == 0)
	require.Equal(t, http.SameSiteLaxMode, c.SameSite)
	c, err = http.ParseSetCookie(httpapi.ForgetCookie("main"))
	require.NoError(t, err)
	require.True(t, c.Value == "" && c.MaxAge < 0)
}
