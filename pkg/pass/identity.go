package pass

import (
	"fmt"
	"slices"
	"time"

	"github.com/soonbeon/soonbeon/pkg/queue"
)

// VerifyIdentity checks a token that the site signed for one of its users, and returns the user as a visitor. The token
// is a JWT: alg HS256; kid one of the list; typ "JWT" or none; sub a visitor id; exp, and iat and nbf where given, true
// at the time now, give or take Leeway; aud, where given, names "soonbeon", so that a token that the site signed for
// another service with the same key is refused. It fails with ErrInvalid, ErrNotYet or ErrExpired.
func (k *SiteKeys) VerifyIdentity(token string, now time.Time) (queue.Visitor, error) {
	var c siteClaims
	err := k.ring.verify(token, &c)
	if err == nil {
		err = c.judge(now)
	}
	if err != nil {
		return "", fmt.Errorf("identity token: %w", err)
	}
	return c.Subject, nil
}

func (c *siteClaims) judge(now time.Time) error {
	if queue.CheckVisitor(c.Subject) != nil {
		return errSubject
	}
	if c.Audience.set && !slices.Contains(c.Audience.of, identityKind.audience()) {
		return errAudience
	}
	if err := c.lifetime(); err != nil {
		return err
	}
	return c.at(now)
}
