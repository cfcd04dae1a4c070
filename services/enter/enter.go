package enter

import (
	"errors"
	"net/http"

	"github.com/soonbeon/soonbeon/pkg/pass"
	"github.com/soonbeon/soonbeon/pkg/queue"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

// asker is who asks, as the credential says.
type asker struct {
	visitor   queue.Visitor
	admitted  bool  // by a live entry token, and then nothing is to be written
	expiresMs int64 // when the entry token ends
}

// decideEntry says who enters and what is to be written. It reads the request's header and writes nothing. The error is a
// *httpapi.Problem.
func (s *Service) decideEntry(r *http.Request, e *queue.Entry) (asker, queue.Record, error) {
	key, err := idempotencyKey(r.Header["Idempotency-Key"])
	if err != nil {
		return asker{}, queue.Record{}, err
	}
	asBearer := len(r.Header["Authorization"]) > 0 // an entry token counts so alone; the cookie is for receipts
	who, source, err := httpapi.Authenticate(r, e.ID, func(token string) (asker, error) { return s.identify(token, e, asBearer) })
	switch {
	case err == nil && who.admitted:
		return who, queue.Record{}, nil
	case err == nil:
	case source == httpapi.FromCookie:
		return asker{}, queue.Record{}, httpapi.Problemf(httpapi.CredentialInvalid,
			"the cookie holds no valid receipt for this queue; POST /queue/leave makes the browser forget it, and then it can enter anew")
	case source != httpapi.FromNowhere:
		return asker{}, queue.Record{}, err
	default:
		if who.visitor, err = s.newcomer(e.ID, key); err != nil {
			return asker{}, queue.Record{}, err
		}
	}
	return who, queue.Record{Kind: queue.Entered, Visitor: who.visitor, Key: digest(key)}, nil
}

// newcomer is the visitor who shows no credential.
func (s *Service) newcomer(id queue.ID, key string) (queue.Visitor, error) {
	if s.cfg.Identity == Signed {
		return "", httpapi.Problemf(httpapi.CredentialMissing, "a token that the site signed is wanted, as Authorization: Bearer; or a receipt")
	}
	if key == "" {
		return queue.NewVisitor(), nil
	}
	if err := checkLoneKey(key); err != nil {
		return "", err
	}
	return visitorOf(s.cfg.IDSecret, id, key), nil
}

// decideLeave says who leaves. An entry token is none of those who wait, so it is no credential here.
func (s *Service) decideLeave(r *http.Request, e *queue.Entry) (queue.Record, httpapi.Source, error) {
	who, source, err := httpapi.Authenticate(r, e.ID, func(token string) (asker, error) { return s.identify(token, e, false) })
	if err != nil {
		return queue.Record{}, source, err
	}
	return queue.Record{Kind: queue.Left, Visitor: who.visitor}, source, nil
}

// identify says whom a token stands for. The kinds of token can't be taken for one another, so the order is by how often
// they come.
func (s *Service) identify(token string, e *queue.Entry, entryCounts bool) (asker, error) {
	receipt, err := s.keys.VerifyReceipt(token, e.ID)
	if err == nil && earlier(receipt.Made, e) {
		return asker{}, httpapi.Problemf(httpapi.CredentialInvalid, "the receipt is of an earlier queue of this name, which was deleted; enter anew without it")
	}
	if err == nil {
		return asker{visitor: receipt.Visitor}, nil
	}
	if errors.Is(err, pass.ErrOtherQueue) {
		return asker{}, httpapi.Problemf(httpapi.CredentialInvalid, "the receipt is for another queue")
	}
	if s.cfg.Identity == Signed {
		visitor, err := s.cfg.SiteKeys.VerifyIdentity(token, s.cfg.Now())
		if err == nil {
			return asker{visitor: visitor}, nil
		}
		if errors.Is(err, pass.ErrExpired) {
			return asker{}, httpapi.Problemf(httpapi.CredentialInvalid, "the site's token has expired; get a new one from the site")
		}
	}
	if entryCounts {
		entry, err := s.keys.VerifyEntry(token, e.ID, s.cfg.Now())
		if err == nil && earlier(entry.Made, e) {
			return asker{}, httpapi.Problemf(httpapi.CredentialInvalid, "the entry token is of an earlier queue of this name, which was deleted; enter anew without it")
		}
		if err == nil {
			return asker{visitor: entry.Visitor, admitted: true, expiresMs: entry.ExpiresMs}, nil
		}
		if errors.Is(err, pass.ErrExpired) {
			return asker{}, httpapi.Problemf(httpapi.CredentialInvalid, "the entry token has expired; enter with the receipt, or as somebody new")
		}
	}
	return asker{}, err
}

// earlier says that a token was made by a queue of the same name that was deleted since. Tokens of versions that did not say so
// are let pass.
func earlier(made int64, e *queue.Entry) bool { return made != 0 && made != e.Made }
