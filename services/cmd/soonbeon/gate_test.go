package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/pass"
)

func TestGateServesUntilItIsStopped(t *testing.T) {
	keys, err := pass.GenerateKeys()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, []string{"gate", "--listen=127.0.0.1:0", "--admin=127.0.0.1:0", "--waiting-room=https://wait.example", "--keys=" + keys}, w, io.Discard)
		_ = w.CloseWithError(io.EOF)
		ended <- err
	}()
	at := regexp.MustCompile(`ask at (http://[0-9.:]+)/`)
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		require.NotContains(t, lines.Text(), keys)
		if m := at.FindStringSubmatch(lines.Text()); m != nil {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, m[1]+"/forward/main", nil)
			require.NoError(t, err)
			req.Header.Set("X-Forwarded-Method", "GET")
			req.Header.Set("X-Forwarded-Uri", "/")
			res, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, 401, res.StatusCode)
			cancel()
		}
	}
	require.ErrorIs(t, ctx.Err(), context.Canceled, "it never said where it is")
	require.NoError(t, <-ended)
}

func TestGateSaysWhatIsWrong(t *testing.T) {
	t.Setenv("SOONBEON_KEYS", "")
	err := run(t.Context(), []string{"gate", "--waiting-room=https://wait.example", "--queues=Main", "--redis=127.0.0.1:1"}, io.Discard, io.Discard)
	require.ErrorContains(t, err, "--queues")
	require.ErrorContains(t, err, "SOONBEON_KEYS")
	err = run(t.Context(), []string{"gate"}, io.Discard, io.Discard)
	require.ErrorContains(t, err, "--waiting-room")
}
