package zkrecipes

import (
	"context"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Close, at bad moments.

func TestCloseDoesNotWaitForASessionThatEndsMeanwhile(t *testing.T) {
	p := newProxy(t, harness.shared[0])
	c := dialTo(t, []string{p.addr()}, nil)
	s, _ := c.session()
	end := p.takeOver() // Close waits a quarter of the timeout, there must be time for the rest
	s.calling.add()     // a call that takes its time
	answered := sync.OnceFunc(s.calling.finish)
	defer answered()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.Close()
	}()
	eventually(t, "draining", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.draining
	})
	end()
	p.drop() // the next connection hears that the session is over
	<-s.over
	<-s.parked
	answered()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		require.FailNow(t, "Close hangs")
	}
}

func TestCloseInTheMiddleOfAHandshakeIsQuick(t *testing.T) {
	slow := 0
	for range 10 {
		p := newProxy(t, harness.shared[0])
		c := dialTo(t, []string{p.addr()}, nil)
		rule := p.on("connect", 1, hold)
		p.drop()
		p.await(rule)
		began := time.Now()
		require.ErrorContains(t, c.Close(), "left to time out")
		if time.Since(began) > 500*time.Millisecond {
			slow++
		}
		rule.release()
	}
	require.LessOrEqual(t, slow, 1, "a goroutine that did not run for 3 ms costs a second")
}

// x/crypto/ssh's connections are such.
type withoutDeadlines struct{ net.Conn }

func (withoutDeadlines) SetDeadline(time.Time) error { return os.ErrNoDeadline }

func TestB17ConnectionsWithoutDeadlinesAreRefused(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := Dial(ctx, harness.shared, &Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		return withoutDeadlines{nc}, err
	}})
	require.ErrorIs(t, err, os.ErrNoDeadline)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "Options.Dialer made a connection without deadlines")
}

func TestServersAreHostsWithOrWithoutAPort(t *testing.T) {
	for server, want := range map[string]string{
		"h": "h:2181", "h:1": "h:1", "1.2.3.4": "1.2.3.4:2181", "1.2.3.4:99": "1.2.3.4:99",
		"::1": "[::1]:2181", "[::1]": "[::1]:2181", "[::1]:99": "[::1]:99",
	} {
		got, err := parseServer(server)
		require.NoError(t, err, server)
		require.Equal(t, want, got)
	}
	for _, server := range []string{"", ":1", "h:", "h:x", "h:0", "h:65536", "h:2181/chroot", "a:b:c", "a,b", "a b"} {
		_, err := parseServer(server)
		require.ErrorContains(t, err, "is not host or host:port", server)
	}
}
