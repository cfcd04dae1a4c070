package pass

import (
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/golang-jwt/jwt/v5"
)

// Leeway is how far the clocks of those who sign and those who verify may be apart.
const Leeway = 30 * time.Second

// maxMs is the end of the year 9999, so that a date in milliseconds in the place of seconds is found out.
const maxMs = 253_402_300_799_999

// date is a NumericDate of RFC 7519, in milliseconds; set tells 1970 from none.
type date struct {
	ms  int64
	set bool
}

// UnmarshalJSONFrom reads seconds, with or without decimals; what is finer than a millisecond is cut off. Negative dates
// and exponents are refused.
func (d *date) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	v, err := dec.ReadValue()
	if err != nil {
		return err
	}
	whole, fraction, _ := strings.Cut(string(v), ".")
	for i := range len(fraction) {
		if fraction[i] < '0' || fraction[i] > '9' {
			return errClaims // an exponent
		}
	}
	ms, err := strconv.ParseUint(whole+(fraction + "000")[:3], 10, 63)
	if err != nil || ms > maxMs {
		return errClaims
	}
	*d = date{int64(ms), true}
	return nil
}

func (d date) numeric() *jwt.NumericDate {
	if !d.set {
		return nil
	}
	return &jwt.NumericDate{Time: time.UnixMilli(d.ms)}
}

// appendDate writes ms, which is in 0 to maxMs, as seconds with three decimals.
func appendDate(b []byte, ms int64) []byte {
	b = strconv.AppendInt(b, ms/1000, 10)
	f := ms % 1000
	return append(b, '.', byte('0'+f/100), byte('0'+f/10%10), byte('0'+f%10))
}

// times are the dates of a token.
type times struct {
	IssuedAt  date `json:"iat"`
	NotBefore date `json:"nbf"`
	ExpiresAt date `json:"exp"`
}

// lifetime finds dates that never can be right.
func (t times) lifetime() error {
	if !t.ExpiresAt.set {
		return errNoExpiry
	}
	if t.IssuedAt.set && t.ExpiresAt.ms <= t.IssuedAt.ms {
		return errLifetime
	}
	return nil
}

// at judges the dates at the time now. Both ends of the leeway are still inside.
func (t times) at(now time.Time) error {
	ms, leeway := now.UnixMilli(), Leeway.Milliseconds()
	if t.NotBefore.set && t.NotBefore.ms > ms+leeway || t.IssuedAt.set && t.IssuedAt.ms > ms+leeway {
		return ErrNotYet
	}
	if t.ExpiresAt.ms < ms-leeway {
		return ErrExpired
	}
	return nil
}

func (t times) GetExpirationTime() (*jwt.NumericDate, error) { return t.ExpiresAt.numeric(), nil }
func (t times) GetIssuedAt() (*jwt.NumericDate, error)       { return t.IssuedAt.numeric(), nil }
func (t times) GetNotBefore() (*jwt.NumericDate, error)      { return t.NotBefore.numeric(), nil }
func (t times) GetIssuer() (string, error)                   { return "", nil }

// payload is what a token's middle part is read into.
type payload interface {
	jwt.Claims
	UnmarshalJSON([]byte) error
}

// claims are those of receipts and entry tokens.
type claims struct {
	times
	Audience string `json:"aud"`
	Subject  string `json:"sub"`
	ID       string `json:"jti"`
	Ticket   int64  `json:"ticket"`
	Ahead    *int64 `json:"ahead"`
	Made     int64  `json:"made"`
	Sure     bool   `json:"sure"`
	Drawn    int64  `json:"drawn"`
}

// UnmarshalJSON is what golang-jwt's encoding/json finds. Version 2 refuses names given twice, invalid UTF-8 and what
// follows the object, and minds the case of names.
func (c *claims) UnmarshalJSON(b []byte) error {
	if c.readPlain(b) {
		return nil
	}
	type plain claims // without this method
	return jsonv2.Unmarshal(b, (*plain)(c))
}

func (c *claims) GetSubject() (string, error)            { return c.Subject, nil }
func (c *claims) GetAudience() (jwt.ClaimStrings, error) { return jwt.ClaimStrings{c.Audience}, nil }

// siteClaims are those of a site's identity tokens.
type siteClaims struct {
	times
	Audience audience `json:"aud"`
	Subject  string   `json:"sub"`
}

// UnmarshalJSON is as strict as that of claims.
func (c *siteClaims) UnmarshalJSON(b []byte) error {
	type plain siteClaims
	return jsonv2.Unmarshal(b, (*plain)(c))
}

func (c *siteClaims) GetSubject() (string, error)            { return c.Subject, nil }
func (c *siteClaims) GetAudience() (jwt.ClaimStrings, error) { return c.Audience.of, nil }

// audience is one name or a list of them; set tells an empty list from none.
type audience struct {
	of  jwt.ClaimStrings
	set bool
}

// UnmarshalJSONFrom reads a string or an array of strings.
func (a *audience) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	a.set = true
	if dec.PeekKind() == '[' {
		return jsonv2.UnmarshalDecode(dec, (*[]string)(&a.of))
	}
	var one string
	if err := jsonv2.UnmarshalDecode(dec, &one); err != nil {
		return err
	}
	a.of = jwt.ClaimStrings{one}
	return nil
}
