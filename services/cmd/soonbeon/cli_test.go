package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/soonbeon/soonbeon/pkg/pass"
)

func TestSmallCommands(t *testing.T) {
	out, code, err := soonbeon(t, "version")
	require.NoError(t, err)
	require.Zero(t, code)
	require.Equal(t, "soonbeon "+version+"\n", out)

	first, _, err := soonbeon(t, "keys")
	require.NoError(t, err)
	_, err = pass.ParseKeys(first)
	require.NoError(t, err)
	second, _, err := soonbeon(t, "keys")
	require.NoError(t, err)
	require.NotEqual(t, first, second)
}

// Each flag has its default and its variable in the help.
func TestHelp(t *testing.T) {
	out, code, err := soonbeon(t, "standalone", "--help")
	require.NoError(t, err)
	require.Zero(t, code)
	for _, want := range []string{"--rate=175", "$SOONBEON_RATE", "--kafka=HOST:PORT", "$SOONBEON_KEYS", "--grant-ttl=300s", "$SOONBEON_REDIS_PASSWORD"} {
		require.Contains(t, out, want)
	}
	out, _, err = soonbeon(t, "--help")
	require.NoError(t, err)
	for _, want := range []string{"standalone", "enter", "projector", "issuer", "position", "load", "keys"} {
		require.Contains(t, out, "\n  "+want+" ")
	}
}

// The environment is read, a flag counts before it, and what is wrong there is told by the same name.
func TestEnvironment(t *testing.T) {
	t.Setenv("SOONBEON_RATE", "-3")
	t.Setenv("SOONBEON_DATA", t.TempDir())
	_, code, err := soonbeon(t, "standalone", "--admin=nowhere")
	require.Equal(t, 1, code)
	require.ErrorContains(t, err, "not -3")
	require.ErrorContains(t, err, "--admin: host:port is wanted")
	_, _, err = soonbeon(t, "standalone", "--admin=nowhere", "--rate=-4")
	require.ErrorContains(t, err, "not -4")
}

func TestHealthcheck(t *testing.T) {
	p := serving(t, t.TempDir())
	addr := p.Private()
	_, port, _ := strings.Cut(addr, ":")
	check := func(args ...string) error {
		return run(t.Context(), append([]string{"healthcheck"}, args...), io.Discard, new(bytes.Buffer))
	}
	require.NoError(t, check("--admin="+addr, "--alive"))
	require.Eventually(t, func() bool { return check("--admin=0.0.0.0:"+port) == nil }, 20*time.Second, 20*time.Millisecond, "what it listens on is not where to ask")
	unready := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "log: away", http.StatusServiceUnavailable)
	}))
	defer unready.Close()
	require.ErrorContains(t, check("--admin="+unready.Listener.Addr().String()), "log: away")
	stop(t, p)
	require.Error(t, check("--admin="+addr, "--alive"))
	require.ErrorContains(t, check("--admin=nowhere"), "--admin")
}
