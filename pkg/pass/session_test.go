package pass

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestASessionIsNoEntryTokenAndNotTheReverse(t *testing.T) {
	line, err := GenerateKeys()
	require.NoError(t, err)
	keys, err := ParseKeys(line)
	require.NoError(t, err)
	now := time.UnixMilli(1764471234_000)
	e := Entry{Queue: "main", Visitor: "v", Ticket: 7, AdmittedMs: now.UnixMilli(), ExpiresMs: now.Add(time.Minute).UnixMilli(), Made: 5}
	session, err := keys.SignSession(e)
	require.NoError(t, err)
	entry, err := keys.SignEntry(e)
	require.NoError(t, err)

	got, err := keys.VerifySession(session, "main", now)
	require.NoError(t, err)
	require.Equal(t, e, got)
	_, err = keys.VerifyEntry(session, "main", now)
	require.ErrorIs(t, err, ErrInvalid)
	_, err = keys.VerifyReceipt(session, "main")
	require.ErrorIs(t, err, ErrInvalid)
	_, err = keys.VerifySession(entry, "main", now)
	require.ErrorIs(t, err, ErrInvalid)

	_, err = keys.VerifySession(session, "other", now)
	require.ErrorIs(t, err, ErrOtherQueue)
	_, err = keys.VerifySession(session, "main", now.Add(time.Hour))
	require.ErrorIs(t, err, ErrExpired)
	_, err = keys.VerifySession(session, "main", now.Add(-time.Hour))
	require.ErrorIs(t, err, ErrNotYet)
	_, err = keys.SignSession(Entry{Queue: "main"})
	require.Error(t, err)
}
