package events

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stockNginx puts nginx in front of an address, with nothing set that its package does not set but more.
func stockNginx(t *testing.T, upstream, more string) (base string) {
	t.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		if path = "/usr/sbin/nginx"; exec.Command(path, "-v").Run() != nil {
			t.Skip("nginx is not installed (Debian's package nginx-light will do)")
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	dir := t.TempDir()
	conf := fmt.Sprintf(`
pid nginx.pid;
error_log stderr;
events {}
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  server { listen %s; location / { proxy_pass http://%s; %s } }
}`, addr, upstream, more)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o600))
	cmd := exec.Command(path, "-p", dir, "-c", "nginx.conf", "-g", "daemon off; master_process off;")
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	eventually(t, "nginx listens", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return "http://" + addr
}

func TestFault29_BehindAStockNginx(t *testing.T) {
	w := newWorld(t, options{events: func(c *Config) { c.Heartbeat, c.Tick = 2*time.Second, 10*time.Millisecond }})
	base := stockNginx(t, w.server.Addr(), "")
	w.enter("a", "b")
	began := time.Now()
	c := openAt(t, base, "b")
	require.Contains(t, c.next()["data"], `"position":2`)
	require.Less(t, time.Since(began), time.Second, "the first event is not held back")
	e, err := c.read()
	require.NoError(t, err)
	require.Equal(t, event{"": ""}, e)
	w.admit("a", "b")
	began = time.Now()
	require.Equal(t, "admitted", c.next()["event"])
	require.Less(t, time.Since(began), time.Second)
	for _, v := range []string{"a", "b"} { // a storm through the same connections
		require.Equal(t, "admitted", openAt(t, base, v).next()["event"])
	}
	require.NoError(t, w.service.Stop(t.Context()))
}

// A proxy gives up on an answer that says nothing for its proxy_read_timeout (of a stock nginx 60 s; here 1 s). The heartbeat keeps a
// stream on which nothing happens alive for several times as long, and the token still comes; without one in time, the proxy cuts it.
func TestFault29_LongerThanAProxyWaits(t *testing.T) {
	behind := func(t *testing.T, heartbeat time.Duration) (*world, *client) {
		t.Parallel()
		w := newWorld(t, options{events: func(c *Config) { c.Heartbeat = heartbeat }})
		w.enter("a")
		c := openAt(t, stockNginx(t, w.server.Addr(), "proxy_read_timeout 1s;"), "a")
		require.Contains(t, c.next()["data"], `"position":1`)
		return w, c
	}
	t.Run("with a heartbeat", func(t *testing.T) {
		w, c := behind(t, 250*time.Millisecond)
		for began := time.Now(); time.Since(began) < 3*time.Second; {
			e, err := c.read()
			require.NoError(t, err)
			require.Equal(t, event{"": ""}, e)
		}
		w.admit("a")
		require.Equal(t, "admitted", c.next()["event"])
	})
	t.Run("with one that is too slow", func(t *testing.T) {
		_, c := behind(t, 10*time.Second)
		began := time.Now()
		_, err := c.read()
		require.Error(t, err)
		require.Less(t, time.Since(began), 3*time.Second)
	})
}
