package pass

import (
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What sites' libraries really write is accepted.
func TestIdentityOfManyLibraries(t *testing.T) {
	k := mustSite(t, list(pair("a", keyA), pair("b", keyB)))
	for name, token := range map[string]string{
		"plain":               forge(siteHeader, siteBody, keyA),
		"second key":          forge(`{"typ":"JWT","alg":"HS256","kid":"b"}`, siteBody, keyB),
		"no typ":              forge(`{"kid":"a","alg":"HS256"}`, siteBody, keyA),
		"typ in lower case":   forge(`{"kid":"a","alg":"HS256","typ":"jwt"}`, siteBody, keyA),
		"more in the header":  forge(`{"kid":"a","alg":"HS256","cty":"x","x5t":"y"}`, siteBody, keyA),
		"spaces":              forge("{ \"kid\": \"a\",\n \"alg\": \"HS256\" }", strings.ReplaceAll(siteBody, ",", " , "), keyA),
		"no aud, no iat":      forge(siteHeader, `{"sub":"user-1","exp":1764471534}`, keyA),
		"aud a list":          forge(siteHeader, `{"sub":"user-1","exp":1764471534,"aud":["shop","soonbeon"]}`, keyA),
		"float dates":         forge(siteHeader, `{"sub":"user-1","exp":1764471534.123456,"iat":1764471234.0}`, keyA),
		"more claims":         forge(siteHeader, `{"sub":"user-1","exp":1764471534,"roles":["a",{"b":null}],"iss":"shop"}`, keyA),
		"escaped in the name": forge(siteHeader, `{"s\u0075b":"us\u0065r-1","exp":1764471534}`, keyA),
	} {
		visitor, err := k.VerifyIdentity(token, during)
		if assert.NoError(t, err, name) {
			assert.Equal(t, "user-1", visitor, name)
		}
	}

	byLibrary := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "user-1", "exp": float64(expires.Unix())})
	byLibrary.Header["kid"] = "a"
	token, err := byLibrary.SignedString(keyA)
	require.NoError(t, err)
	_, err = k.VerifyIdentity(token, during)
	assert.NoError(t, err)
}

func TestIdentityDates(t *testing.T) {
	k := mustSite(t, pair("a", keyA))
	token := forge(siteHeader, `{"sub":"user-1","nbf":1764471234,"exp":1764471534}`, keyA)
	for _, c := range []struct {
		now  time.Time
		want error
	}{
		{issued.Add(-Leeway - time.Second), ErrNotYet},
		{issued.Add(-Leeway), nil},
		{expires.Add(Leeway), nil},
		{expires.Add(Leeway + time.Second), ErrExpired},
	} {
		visitor, err := k.VerifyIdentity(token, c.now)
		if c.want == nil {
			assert.NoError(t, err, c.now)
		} else {
			assert.ErrorIs(t, err, c.want, c.now)
			assert.Empty(t, visitor)
		}
	}
}
