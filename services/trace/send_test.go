package trace

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"io"
	stdlog "log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// send makes n spans as the environment of the test says, and hands them to the collector. The error is that of the sending.
func send(t *testing.T, n int) error { t.Helper(); return sendUntil(t.Context(), t, n) }

func sendUntil(ctx context.Context, t *testing.T, n int) error {
	t.Helper()
	tracer, err := New(t.Context(), "soonbeon", os.Getenv, zap.NewNop())
	require.NoError(t, err)
	for range n {
		_, span := tracer.tracer.Start(t.Context(), "x")
		span.End()
	}
	err = tracer.provider.ForceFlush(ctx)
	require.NoError(t, tracer.Stop(t.Context()))
	return err
}

// OpenTelemetry's own variables hold.
func TestTheEnvironmentSaysHowTracesAreSent(t *testing.T) {
	var posts atomic.Int64
	var header atomic.Value
	sink := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		posts.Add(1)
		header.Store(r.Header.Get("X-Api-Key"))
	})
	collector := httptest.NewServer(sink)
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")

	t.Run("headers", func(t *testing.T) {
		t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=secret%2Cvalue,other=1")
		require.NoError(t, send(t, 1))
		require.Equal(t, "secret,value", header.Load())
	})
	t.Run("sampler", func(t *testing.T) {
		was := posts.Load()
		t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
		require.NoError(t, send(t, 50))
		t.Setenv("OTEL_TRACES_SAMPLER", "traceidratio")
		t.Setenv("OTEL_TRACES_SAMPLER_ARG", "0")
		require.NoError(t, send(t, 50))
		require.Equal(t, was, posts.Load(), "nothing is sampled, so nothing is sent")
		t.Setenv("OTEL_TRACES_SAMPLER_ARG", "1")
		require.NoError(t, send(t, 50))
		require.Greater(t, posts.Load(), was)
	})
	t.Run("timeout", func(t *testing.T) {
		ctx, given := context.WithCancel(t.Context()) // up by the client; it would try again
		hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			given()
		}))
		defer hangs.Close()
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", hangs.URL)
		t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "50")
		began := time.Now()
		require.Error(t, sendUntil(ctx, t, 1))
		require.Less(t, time.Since(began), 8*time.Second, "its own default is 10 s")
	})
	t.Run("certificate", func(t *testing.T) {
		secure := httptest.NewUnstartedServer(sink)
		secure.Config.ErrorLog = stdlog.New(io.Discard, "", 0)
		secure.StartTLS()
		defer secure.Close()
		file := filepath.Join(t.TempDir(), "ca.pem")
		require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600))
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", secure.URL)
		t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "5000")
		t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", file)
		require.NoError(t, send(t, 1))
		t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "")
		require.ErrorContains(t, send(t, 1), "certificate")
	})
}

// What can't be had is said at the start, without what it was set to: headers hold secrets.
func TestSettingsThatCantBeHadAreRefused(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	for _, tc := range []struct{ name, value, want string }{
		{"OTEL_TRACES_SAMPLER", "sometimes", "sampler"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "hunter2", "parse headers"},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem", "tls ca cert"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_PROTOCOL"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv(tc.name, tc.value)
			_, err := New(t.Context(), "soonbeon", os.Getenv, zap.NewNop())
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
}

// A collector that is away is a line in the log, as all others are, once a minute.
func TestACollectorThatIsAwayIsSaidInTheLog(t *testing.T) {
	core, lines := observer.New(zapcore.DebugLevel)
	now := time.Unix(1000, 0)
	r := &reporter{logger: zap.New(core), now: func() time.Time { return now }}
	for range 5 {
		r.Handle(errors.New("connection refused"))
	}
	require.Equal(t, 1, lines.Len())
	now = now.Add(reportEvery)
	r.Handle(errors.New("connection refused"))
	require.Equal(t, 2, lines.Len())
	require.EqualValues(t, 4, lines.All()[1].ContextMap()["not_logged_since_the_last"])

	// The library itself is told where to say it.
	var out bytes.Buffer
	logger := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{MessageKey: "msg"}), zapcore.AddSync(&out), zapcore.DebugLevel))
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "100")
	told, once := make(chan struct{}), sync.Once{}
	tracer, err := New(t.Context(), "soonbeon", os.Getenv, logger.WithOptions(zap.Hooks(func(zapcore.Entry) error { once.Do(func() { close(told) }); return nil })))
	require.NoError(t, err)
	_, span := tracer.tracer.Start(t.Context(), "x")
	span.End()
	select {
	case <-told:
	case <-time.After(30 * time.Second):
		t.Fatal("nothing was said")
	}
	require.NoError(t, tracer.Stop(t.Context()))
	require.Contains(t, out.String(), "traces can't be sent")
}
