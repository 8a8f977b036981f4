package zkconn_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// How a client finds its servers and connects to them.

// withoutDeadlines is a connection that supports no deadlines, as those of
// x/crypto/ssh.
type withoutDeadlines struct{ net.Conn }

func (withoutDeadlines) SetDeadline(time.Time) error { return os.ErrNoDeadline }

func TestB17ConnectionsWithoutDeadlinesAreRefused(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := zkrecipes.Dial(ctx, harness.Servers(), &zkrecipes.Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		return withoutDeadlines{nc}, err
	}})
	require.ErrorIs(t, err, os.ErrNoDeadline)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "made a connection without deadlines")
}

func TestB50HostNamesAreResolvedForEveryAttempt(t *testing.T) {
	t.Run("one name does not resolve", func(t *testing.T) {
		names := recipetest.ServerNames(2)
		var mu sync.Mutex
		var asked []string
		c := recipetest.DialTo(t, names, &zkrecipes.Options{
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, addr)
				if addr == asked[0] {
					return nil, &net.DNSError{Err: "no such host", Name: addr, IsNotFound: true}
				}
				return new(net.Dialer).DialContext(ctx, network, harness.Server())
			},
		})
		recipetest.RequireUsable(t, c)
		mu.Lock()
		defer mu.Unlock()
		require.ElementsMatch(t, names, asked, "each name as it was given")
	})

	t.Run("no name resolves", func(t *testing.T) {
		lookup := &net.DNSError{Err: "no such host", Name: "zk-0.test", IsNotFound: true}
		_, err := zkrecipes.Dial(harness.Within(t, 100*time.Millisecond), recipetest.ServerNames(1), &zkrecipes.Options{
			Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, lookup },
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, lookup)
		require.ErrorContains(t, err, "zk-0.test:2181")
	})

	t.Run("a server has moved", func(t *testing.T) {
		here, there := harness.NewProxy(t, harness.Server()), harness.NewProxy(t, harness.Server())
		var at atomic.Pointer[harness.Proxy]
		at.Store(here)
		var names sync.Map
		c := recipetest.DialTo(t, []string{"zk.test"}, &zkrecipes.Options{
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				names.Store(addr, true)
				return new(net.Dialer).DialContext(ctx, network, at.Load().Addr())
			},
		})
		s, _ := recipetest.Core(c).Session()
		l, err := zkrecipes.NewMutex(c, harness.NewPath(t)).Lock(harness.Within(t, 20*time.Second))
		require.NoError(t, err)
		lost := recipetest.ConnectionNumber(s)
		at.Store(there)
		here.Refuse(true)
		recipetest.AwaitReconnect(t, s, lost)
		require.NoError(t, l.Release(), "the same session")
		require.Equal(t, 1, there.CountOf(recipetest.OpRelease))
		names.Range(func(name, _ any) bool {
			require.Equal(t, "zk.test:2181", name)
			return true
		})
	})

	t.Run("the default dialer resolves", func(t *testing.T) {
		p := harness.NewProxy(t, harness.Server())
		_, port, err := net.SplitHostPort(p.Addr())
		require.NoError(t, err)
		c := recipetest.DialTo(t, []string{"localhost:" + port}, nil)
		s, _ := recipetest.Core(c).Session()
		lost := recipetest.ConnectionNumber(s)
		p.Drop()
		recipetest.AwaitReconnect(t, s, lost)
	})
}

func TestB51TLSConnectsOnlyToVerifiedServers(t *testing.T) {
	ca := recipetest.NewTestCA(t)
	p := harness.NewProxy(t, harness.Server())
	secure := ca.Terminator(t, "zk.test", p.Addr())
	to := func(target string) func(context.Context, string, string) (net.Conn, error) {
		return harness.NewTaps(target).Dial
	}
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer mute.Close()

	t.Run("connects, and reconnects", func(t *testing.T) {
		c := recipetest.DialTo(t, []string{"zk.test"}, &zkrecipes.Options{TLS: &tls.Config{RootCAs: ca.Pool()}, Dialer: to(secure)})
		s, _ := recipetest.Core(c).Session()
		l, err := zkrecipes.NewMutex(c, harness.NewPath(t)).Lock(harness.Within(t, 20*time.Second))
		require.NoError(t, err)
		for range 3 {
			lost := recipetest.ConnectionNumber(s)
			p.Drop()
			recipetest.AwaitReconnect(t, s, lost)
		}
		require.NoError(t, l.Release(), "the same session")
		require.NoError(t, c.Close())
	})

	t.Run("ServerName takes precedence over the host name", func(t *testing.T) {
		c := recipetest.DialTo(t, []string{"other.test"}, &zkrecipes.Options{
			TLS: &tls.Config{RootCAs: ca.Pool(), ServerName: "zk.test"}, Dialer: to(secure),
		})
		recipetest.RequireUsable(t, c)
	})

	refused := func(t *testing.T, server string, patience time.Duration, opts *zkrecipes.Options) error {
		t.Helper()
		began := time.Now()
		c, err := zkrecipes.Dial(harness.Within(t, patience), []string{server}, opts)
		if c != nil {
			c.Close()
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, time.Since(began), patience+5*time.Second)
		require.ErrorContains(t, err, "zkrecipes: dial "+server)
		return err
	}
	const short = 300 * time.Millisecond

	t.Run("wrong name", func(t *testing.T) {
		err := refused(t, "other.test:2181", short, &zkrecipes.Options{TLS: &tls.Config{RootCAs: ca.Pool()}, Dialer: to(secure)})
		var wrong x509.HostnameError
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, "other.test", wrong.Host)
	})

	t.Run("unknown CA", func(t *testing.T) {
		err := refused(t, "zk.test:2181", short, &zkrecipes.Options{TLS: &tls.Config{RootCAs: recipetest.NewTestCA(t).Pool()}, Dialer: to(secure)})
		var unknown x509.UnknownAuthorityError
		require.ErrorAs(t, err, &unknown)
	})

	t.Run("server without TLS", func(t *testing.T) {
		err := refused(t, "zk.test:2181", short, &zkrecipes.Options{TLS: &tls.Config{RootCAs: ca.Pool()}, Dialer: to(harness.Server())})
		require.ErrorContains(t, err, "TLS")
	})

	t.Run("server that does not reply", func(t *testing.T) {
		err := refused(t, "zk.test:2181", 1500*time.Millisecond, &zkrecipes.Options{
			SessionTimeout: 2 * time.Second, // half a second for each attempt
			TLS:            &tls.Config{RootCAs: ca.Pool()}, Dialer: to(mute.Addr().String()),
		})
		require.ErrorContains(t, err, "TLS")
	})

	t.Run("client without TLS", func(t *testing.T) {
		err := refused(t, "zk.test:2181", short, &zkrecipes.Options{Dialer: to(secure)})
		require.ErrorContains(t, err, "handshake")
	})
}

func TestDialGivesUpWithItsContextWhateverTheServerDoes(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer mute.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed.Close()
	withheld := harness.NewProxy(t, harness.Server())
	withheld.On("auth", 0, harness.Withhold)
	cut := harness.NewProxy(t, harness.Server())
	cut.On("connect", 0, harness.DropAfter)
	for name, dialer := range map[string]func(context.Context, string, string) (net.Conn, error){
		"black hole": func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"nobody listens":                harness.NewTaps(closed.Addr().String()).Dial,
		"never replies":                 harness.NewTaps(mute.Addr().String()).Dial,
		"does not reply to credentials": harness.NewTaps(withheld.Addr()).Dial,
		"closes at once":                harness.NewTaps(cut.Addr()).Dial,
	} {
		t.Run(name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			ctx := harness.Within(t, 100*time.Millisecond)
			c, err := zkrecipes.Dial(ctx, []string{"zk.test"}, &zkrecipes.Options{Dialer: dialer})
			deadline, _ := ctx.Deadline()
			took := time.Since(deadline)
			require.Nil(t, c)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Less(t, took, recipetest.PromptClose)
			if name != "does not reply to credentials" && name != "closes at once" { // the proxy's own goroutines
				require.NoError(t, goleak.Find(before))
			}
		})
	}
}
