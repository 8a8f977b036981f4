package servertest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/fence/internal/dbtest/suite"
)

const nginxConfig = `daemon off;
worker_processes 1;
error_log stderr;
pid %[1]s/pid;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	upstream services { server %[3]s; server %[4]s; }
	server {
		listen %[2]s;
		location / { proxy_pass http://services; }
	}
}
`

// nginx runs Debian's nginx before two services, with its defaults, and returns its URL.
func nginx(t *testing.T, one, two string) string {
	bin, err := exec.LookPath("nginx")
	if err != nil {
		bin = "/usr/sbin/nginx"
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	config := filepath.Join(dir, "nginx.conf")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, nginxConfig, dir, addr, one, two), 0o644))
	var log strings.Builder
	cmd := exec.Command(bin, "-c", config, "-p", dir)
	cmd.Stderr = &log
	require.NoError(t, cmd.Start(), "scripts/setup-databases.sh installs nginx")
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		ended <- <-ended
	})
	require.Eventually(t, func() bool {
		select {
		case err := <-ended:
			ended <- err
			require.NoError(t, err, log.String())
			require.Fail(t, "nginx ended")
		default:
		}
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		conn.Close()
		return true
	}, 2*time.Minute, 10*time.Millisecond)
	return "http://" + addr
}

// Two instances of a service behind nginx, with one table of fences, are one guard.
func TestTwoInstancesBehindNginxRefuseAnEarlierHolder(t *testing.T) {
	for _, d := range databases {
		t.Run(d.Name, func(t *testing.T) {
			w := suite.NewWorld(t, d, nil)
			var mu sync.Mutex
			served := map[string]int{}
			instance := func(name string) *httptest.Server {
				guard := w.Over(suite.Open(t, d, ""), nil)
				srv := httptest.NewServer(fence.Handler(guard, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					mu.Lock()
					served[name]++
					mu.Unlock()
					h, _ := fence.FromContext(r.Context())
					if err := guard.Do(r.Context(), h, w.Add(r.Context())); err != nil {
						fence.Refuse(rw, err)
					}
				}), nil))
				t.Cleanup(srv.Close)
				return srv
			}
			one, two := instance("one"), instance("two")
			url := nginx(t, one.Listener.Addr().String(), two.Listener.Addr().String())
			client := &http.Client{Transport: &fence.Transport{}}
			put := func(h fence.Holder) error {
				ctx := context.Background()
				if h != nil {
					ctx = fence.NewContext(ctx, h)
				}
				r, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader("9"))
				require.NoError(t, err)
				resp, err := client.Do(r)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				if err := fence.ResponseError(resp); err != nil {
					return err
				}
				require.Equal(t, http.StatusOK, resp.StatusCode)
				return nil
			}
			old, now := fence.Tokens{"/locks/ordersä, 1": 256}, fence.Tokens{"/locks/ordersä, 1": 512}
			require.NoError(t, put(old))
			require.NoError(t, put(old))
			require.NoError(t, put(now))
			for range 4 { // each instance, whichever has seen the later one
				require.ErrorIs(t, put(old), fence.ErrFenced)
			}
			require.NoError(t, put(now))
			require.ErrorIs(t, put(nil), fence.ErrNoToken)
			mu.Lock()
			defer mu.Unlock()
			require.Len(t, served, 2)
			require.EqualValues(t, 4, w.Balance(t))
		})
	}
}
