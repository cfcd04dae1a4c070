package load

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
)

// checker judges entry tokens: by the keys where they are known, else by what anybody can read in them. Its errors
// never quote the token.
type checker struct {
	queue queue.ID
	keys  *pass.Keys // nil: not given
}

// entry reads a token that was received at now.
func (c checker) entry(token string, now time.Time) (pass.Entry, error) {
	if c.keys == nil {
		return readEntry(token, c.queue, now)
	}
	e, err := c.keys.VerifyEntry(token, c.queue, now)
	if err != nil {
		return pass.Entry{}, fmt.Errorf("verify: %w", err)
	}
	return e, nil
}

// receipt checks that a fresh receipt is for this visitor and ticket. Without keys there is nothing to say.
func (c checker) receipt(receipt, visitor string, ticket int64) error {
	if c.keys == nil {
		return nil
	}
	r, err := c.keys.VerifyReceipt(receipt, c.queue)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	if r.Visitor != visitor || int64(r.Ticket) != ticket {
		return fmt.Errorf("it is for ticket %d, the answer around it for %d, or for another visitor", r.Ticket, ticket)
	}
	return nil
}

// readEntry reads a token as a client without keys can: shape, kind, queue and times, not the signature.
func readEntry(token string, q queue.ID, now time.Time) (pass.Entry, error) {
	if len(token) > pass.MaxToken {
		return pass.Entry{}, fmt.Errorf("it is longer than %d bytes", pass.MaxToken)
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 || parts[2] == "" {
		return pass.Entry{}, errors.New("it is not three parts")
	}
	var head struct {
		Alg string `json:"alg"`
		Kid string `json:"kid"`
		Typ string `json:"typ"`
	}
	var claims struct {
		Audience string      `json:"aud"`
		Subject  string      `json:"sub"`
		ID       string      `json:"jti"`
		Issued   json.Number `json:"iat"`
		Expires  json.Number `json:"exp"`
	}
	for i, into := range []any{&head, &claims} {
		b, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || json.Unmarshal(b, into) != nil {
			return pass.Entry{}, fmt.Errorf("part %d is not base64url of a JSON object as expected", i+1)
		}
	}
	if head.Alg != "HS256" || head.Typ != "soonbeon-entry+jwt" || head.Kid == "" {
		return pass.Entry{}, errors.New("its header is not that of an entry token")
	}
	if claims.Audience != "soonbeon:gate:"+string(q) {
		return pass.Entry{}, errors.New("it is for another queue")
	}
	digits, ok := strings.CutPrefix(claims.ID, string(q)+"/")
	ticket, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || ticket < 1 || claims.Subject == "" {
		return pass.Entry{}, errors.New("its jti is not queue/ticket, or its sub is empty")
	}
	issued, err1 := claims.Issued.Float64()
	expires, err2 := claims.Expires.Float64()
	if err1 != nil || err2 != nil || expires <= issued {
		return pass.Entry{}, errors.New("its iat and exp are not a time and a later one")
	}
	e := pass.Entry{
		Queue: q, Visitor: claims.Subject, Ticket: queue.Ticket(ticket),
		AdmittedMs: int64(math.Round(issued * 1000)), ExpiresMs: int64(math.Round(expires * 1000)),
	}
	if now.Add(pass.Leeway).UnixMilli() < e.AdmittedMs {
		return pass.Entry{}, pass.ErrNotYet
	}
	if now.Add(-pass.Leeway).UnixMilli() > e.ExpiresMs {
		return pass.Entry{}, pass.ErrExpired
	}
	return e, nil
}
