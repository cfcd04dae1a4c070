package pass

import (
	"errors"
	"fmt"
)

// What can be wrong with a token, for errors.Is. The errors that wrap them say more, and never quote the token.
var (
	ErrInvalid    = errors.New("not a valid token")
	ErrExpired    = errors.New("the token has expired")
	ErrNotYet     = errors.New("the token is not valid yet")
	ErrOtherQueue = errors.New("the token is for another queue")
)

// Made once: refusing a flood of forged tokens should cost no more than accepting good ones.
var (
	errTooLong   = fmt.Errorf("longer than %d bytes: %w", MaxToken, ErrInvalid)
	errShape     = fmt.Errorf("not three parts of unpadded base64url: %w", ErrInvalid)
	errHeader    = fmt.Errorf("the header is not one of this kind of token: %w", ErrInvalid)
	errCrit      = fmt.Errorf("the header has critical extensions, which are not supported: %w", ErrInvalid)
	errKid       = fmt.Errorf("no key has this kid: %w", ErrInvalid)
	errSignature = fmt.Errorf("the signature does not match: %w", ErrInvalid)
	errClaims    = fmt.Errorf("the claims are not those of this kind of token: %w", ErrInvalid)
	errAudience  = fmt.Errorf("the audience is somebody else: %w", ErrInvalid)
	errNoExpiry  = fmt.Errorf("there is no exp: %w", ErrInvalid)
	errLifetime  = fmt.Errorf("exp is not after iat: %w", ErrInvalid)
	errSubject   = fmt.Errorf("sub is not a visitor id: %w", ErrInvalid)
)
