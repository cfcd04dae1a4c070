package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// The limits of a credential list.
const (
	MinSecret          = 32  // characters of a secret at the least
	MaxSecret          = 512 // characters of a secret at the most
	MaxCredentialName  = 32  // characters of a name
	MaxCredentialsList = 64  // credentials in one list
)

// Credentials are secrets of people and programs that are no visitors: operators, or the protected sites. Each has a name,
// which is all that is ever shown of it. They do not change, and any number of goroutines may use them. A nil *Credentials
// has none, and refuses everybody.
type Credentials struct {
	names   []string
	digests [][sha256.Size]byte
}

// ParseCredentials reads "name:secret[,name:secret…]". A name is 1 to 32 of a-z, 0-9 and '-'; it may come twice, for as long as
// a new secret replaces an old one. A secret is 32 to 512 visible ASCII characters without a comma, and comes once. White space
// around entries is ignored; a list of nothing is no mistake, and lets nobody in. The error names every mistake at once, by place
// and never by what stands there.
func ParseCredentials(setting string) (*Credentials, error) {
	c := &Credentials{}
	if strings.TrimSpace(setting) == "" {
		return c, nil
	}
	parts := strings.Split(setting, ",")
	if len(parts) > MaxCredentialsList {
		return nil, fmt.Errorf("a credential list has at most %d credentials, not %d", MaxCredentialsList, len(parts))
	}
	var errs []error
	first := map[[sha256.Size]byte]int{}
	for i, part := range parts {
		bad := func(format string, a ...any) {
			errs = append(errs, fmt.Errorf("credential %d: %w", i+1, fmt.Errorf(format, a...)))
		}
		name, secret, found := strings.Cut(strings.TrimSpace(part), ":")
		if !found {
			bad("not name:secret") // it may be a bare secret, so it is not quoted
			continue
		}
		if !validName(name) {
			bad("a name is 1 to %d of a-z, 0-9 and '-'", MaxCredentialName)
		}
		digest := sha256.Sum256([]byte(secret))
		switch {
		case len(secret) < MinSecret || len(secret) > MaxSecret:
			bad("a secret has %d to %d characters, not %d", MinSecret, MaxSecret, len(secret))
		case strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }):
			bad("a secret is visible ASCII")
		case first[digest] != 0:
			bad("has the secret of credential %d", first[digest])
		default:
			first[digest] = i + 1
		}
		c.names = append(c.names, name)
		c.digests = append(c.digests, digest)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return c, nil
}

func validName(s string) bool {
	if s == "" || len(s) > MaxCredentialName {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// Any says that there is one at all.
func (c *Credentials) Any() bool { return c != nil && len(c.names) > 0 }

// Format prints the names, whatever the verb: secrets must not get into a log by "%+v".
func (c *Credentials) Format(f fmt.State, _ rune) {
	var names []string
	if c != nil {
		names = c.names
	}
	_, _ = fmt.Fprintf(f, "httpapi.Credentials(%s)", strings.Join(names, ","))
}

// Check returns the name of the credential that the request shows as Authorization: Bearer. The error is a *Problem:
// credential_missing (401) where it shows none, credential_forbidden (403) where it shows anything else, a visitor's receipt,
// entry token or cookie included. Nothing of what was shown is in it. How long it takes does not depend on how much of a
// secret is right.
func (c *Credentials) Check(r *http.Request) (name string, err error) {
	token, err := Bearer(r)
	switch {
	case err != nil:
		return "", forbidden()
	case token == "" && showsVisitor(r):
		return "", forbidden()
	case token == "":
		return "", Problemf(CredentialMissing, "a credential is wanted, as Authorization: Bearer; a visitor's won't do")
	}
	digest, found := sha256.Sum256([]byte(token)), -1
	if c != nil {
		for i := range c.digests {
			found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(c.digests[i][:], digest[:]), i, found)
		}
	}
	if found < 0 {
		return "", forbidden()
	}
	return c.names[found], nil
}

func forbidden() *Problem {
	return Problemf(CredentialForbidden, "what was shown is no credential for this address; a visitor's receipt or entry token never is")
}

// showsVisitor says that there is a cookie of a visitor, of whatever queue.
func showsVisitor(r *http.Request) bool {
	for _, line := range r.Header["Cookie"] {
		if strings.Contains(line, cookiePrefix) {
			return true
		}
	}
	return false
}
