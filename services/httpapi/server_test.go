package httpapi_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/soonbeon/soonbeon/pkg/lifecycle"
	"github.com/soonbeon/soonbeon/pkg/lifecycle/lifecycletest"
	"github.com/soonbeon/soonbeon/services/httpapi"
)

func TestServerKeepsTheContractOfAService(t *testing.T) {
	lifecycletest.Stress(t, func(*testing.T) lifecycle.Service {
		return httpapi.NewServer(httpapi.ServerConfig{Name: "test", Address: "127.0.0.1:0"}, http.NotFoundHandler(), zap.NewNop())
	})
}

func TestServerSaysThatThePortIsTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	address := taken.Addr().String()
	s := httpapi.NewServer(httpapi.ServerConfig{Name: "public", Address: address, Setting: "--listen"}, http.NotFoundHandler(), zap.NewNop())
	err = s.Start(t.Context())
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorContains(t, err, "public HTTP server: "+address+" is in use by another process; choose another address with --listen (port 0 takes a free one)")
	require.NoError(t, s.Stop(t.Context()))

	err = httpapi.NewServer(httpapi.ServerConfig{Name: "public", Address: "nonsense"}, http.NotFoundHandler(), zap.NewNop()).Start(t.Context())
	require.ErrorContains(t, err, `can't listen on "nonsense"; choose another address`)
}

// slow answers once it is let go; its request's context is seen by the test.
type slow struct {
	arrived chan context.Context
	release chan struct{}
}

func (s slow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.arrived <- r.Context()
	select {
	case <-s.release:
		_, _ = io.WriteString(w, "done")
	case <-r.Context().Done():
	}
}

func startSlow(t *testing.T, drain time.Duration) (*httpapi.Server, slow, *http.Client) {
	h := slow{make(chan context.Context, 1), make(chan struct{})}
	s := httpapi.NewServer(httpapi.ServerConfig{Name: "test", Address: "127.0.0.1:0", DrainTimeout: drain}, h, zap.NewNop())
	require.NoError(t, s.Start(t.Context()))
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	return s, h, client
}

func TestFault28_RequestsUnderWayEnd(t *testing.T) {
	s, h, client := startSlow(t, 0)
	answered := make(chan string, 1)
	go func() {
		res, err := client.Get("http://" + s.Addr() + "/")
		if err != nil {
			answered <- err.Error()
			return
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		answered <- string(b)
	}()
	ctx := <-h.arrived
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(context.Background()) }()
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", s.Addr())
		if err == nil {
			conn.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	}, 5*time.Second, time.Millisecond, "nothing new is taken")
	require.NoError(t, ctx.Err(), "the request that is under way goes on")
	select {
	case err := <-stopped:
		t.Fatalf("stopped before the request ended: %v", err)
	default:
	}
	close(h.release)
	require.Equal(t, "done", <-answered)
	require.NoError(t, <-stopped)
}

func TestFault28_RequestsThatNeverEndAreCutOff(t *testing.T) {
	s, h, client := startSlow(t, 20*time.Millisecond)
	answered := make(chan error, 1)
	go func() {
		res, err := client.Get("http://" + s.Addr() + "/")
		if err == nil {
			_, err = io.ReadAll(res.Body)
			res.Body.Close()
		}
		answered <- err
	}()
	ctx := <-h.arrived
	require.ErrorContains(t, s.Stop(context.Background()), "cut off")
	<-ctx.Done()
	<-answered
}

func TestAdmin(t *testing.T) {
	readiness := lifecycle.NewReadiness()
	reg := prometheus.NewRegistry()
	_, err := httpapi.New(httpapi.Config{}, zap.NewNop(), reg)
	require.NoError(t, err)
	admin := httpapi.NewAdmin(readiness, reg)
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		admin.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w.Code, w.Body.String()
	}
	status, body := get("/readyz")
	require.Equal(t, 200, status)
	require.JSONEq(t, `{"status":"ready"}`, body)

	var logErr error
	readiness.Check("log", func(context.Context) error { return logErr })
	readiness.Check("redis", func(context.Context) error { return nil })
	readiness.Check("redis", func(context.Context) error { return nil })
	status, body = get("/readyz")
	require.Equal(t, 200, status)
	require.JSONEq(t, `{"status":"ready","checks":{"log":"ok","redis":"ok"}}`, body)

	logErr = errors.New("no broker answers")
	status, body = get("/readyz")
	require.Equal(t, 503, status)
	require.JSONEq(t, `{"status":"not ready","checks":{"log":"no broker answers","redis":"ok"}}`, body)

	status, body = get("/healthz")
	require.Equal(t, 200, status, "alive, whatever it stands on")
	require.JSONEq(t, `{"status":"alive"}`, body)
	status, body = get("/metrics")
	require.Equal(t, 200, status)
	require.Contains(t, body, "soonbeon_http_panics_total 0")
}
