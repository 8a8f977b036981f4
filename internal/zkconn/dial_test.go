package zkconn_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"maps"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// How a client finds its servers and connects to them.

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// withoutDeadlines is a connection that supports no deadlines, as those of
// x/crypto/ssh.
type withoutDeadlines struct{ net.Conn }

func (withoutDeadlines) SetDeadline(time.Time) error { return os.ErrNoDeadline }

// No connection can be used.
func TestDialSaysWhyItHasNoConnection(t *testing.T) {
	lookup := &net.DNSError{Err: "no such host", Name: "zk-0.test", IsNotFound: true}
	for name, test := range map[string]struct {
		dial func(nc net.Conn) (net.Conn, error)
		is   error
		says string
	}{
		"connections without deadlines are refused": {func(nc net.Conn) (net.Conn, error) { return withoutDeadlines{nc}, nil }, os.ErrNoDeadline, "made a connection without deadlines"},
		"no name resolves":                          {func(net.Conn) (net.Conn, error) { return nil, lookup }, lookup, "zk-0.test:2181"},
		"the dialer returns no connection":          {func(net.Conn) (net.Conn, error) { return nil, nil }, context.DeadlineExceeded, "the dialer has returned no connection"},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				_, err := zkrecipes.Dial(harness.Within(t, time.Second), recipetest.ServerNames(1), &zkrecipes.Options{
					Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
						nc, err := w.Srv.DialContext(ctx, network, addr)
						require.NoError(t, err)
						return test.dial(nc)
					},
				})
				require.ErrorIs(t, err, test.is)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorContains(t, err, test.says)
			})
		})
	}
}

func TestHostNamesAreResolvedForEveryAttempt(t *testing.T) {
	p := harness.NewProxy(t, harness.Server())
	_, port, err := net.SplitHostPort(p.Addr())
	require.NoError(t, err)
	seen := recipetest.NewRecorder()
	recipetest.DialTo(t, []string{"localhost:" + port}, &zkrecipes.Options{Trace: seen.Trace()})
	p.Drop()
	seen.Nth(t, 2, "up")
}

func TestTLSConnectsOnlyToVerifiedServers(t *testing.T) {
	ca := harness.NewCA(t)
	p := harness.NewProxy(t, harness.Server())
	secure := ca.Terminator(t, "zk.test", p.Addr(), nil)
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer mute.Close()
	trusted := &tls.Config{RootCAs: ca.Pool()}

	t.Run("connects, and reconnects", func(t *testing.T) {
		seen := recipetest.NewRecorder()
		c := recipetest.DialTo(t, []string{"zk.test"}, &zkrecipes.Options{TLS: trusted, Dialer: harness.NewTaps(secure).Dial, Trace: seen.Trace()})
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, harness.NewPath(t)))
		for i := range 3 {
			p.Drop()
			seen.Nth(t, 2+i, "up")
		}
		require.NoError(t, l.Release(), "the same session")
		require.NoError(t, c.Close())
	})

	t.Run("ServerName takes precedence over the host name", func(t *testing.T) {
		c := recipetest.DialTo(t, []string{"other.test"}, &zkrecipes.Options{
			TLS: &tls.Config{RootCAs: ca.Pool(), ServerName: "zk.test"}, Dialer: harness.NewTaps(secure).Dial,
		})
		recipetest.RequireUsable(t, c)
	})

	for name, test := range map[string]struct {
		server, target string
		tls            *tls.Config
		as             any // what errors.As finds, if not nil
		says           string
	}{
		"wrong name":                 {"other.test:2181", secure, trusted, new(x509.HostnameError), "not other.test"},
		"unknown CA":                 {"zk.test:2181", secure, &tls.Config{RootCAs: harness.NewCA(t).Pool()}, new(x509.UnknownAuthorityError), "TLS"},
		"server without TLS":         {"zk.test:2181", harness.Server(), trusted, nil, "TLS"},
		"server that does not reply": {"zk.test:2181", mute.Addr().String(), trusted, nil, "TLS"},
		"client without TLS":         {"zk.test:2181", secure, nil, nil, "handshake"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, dialer := recipetest.OneAttempt(harness.Within(t, 2*time.Minute), harness.NewTaps(test.target).Dial)
			timeout := 6 * time.Minute // a minute for each attempt
			if test.target == mute.Addr().String() {
				timeout = 6 * time.Second
			}
			c, err := zkrecipes.Dial(ctx, []string{test.server}, &zkrecipes.Options{
				SessionTimeout: timeout,
				TLS:            test.tls, Dialer: dialer,
			})
			require.Nil(t, c)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorContains(t, err, "zkrecipes: dial "+test.server)
			require.ErrorContains(t, err, test.says)
			if test.as != nil {
				require.True(t, errors.As(err, test.as))
			}
		})
	}
}

func TestDialGivesUpWithItsContextWhateverTheServerDoes(t *testing.T) {
	ways := maps.Clone(dead)
	ways["does not reply to credentials"] = nil
	recipetest.EachInBubble(t, ways, func(t *testing.T, w *recipetest.World, dial dialFunc) {
		if dial == nil {
			dial = w.Srv.DialContext
			w.Plan.Add(zktest.Fault{Do: zktest.Withhold, Op: "auth", Times: -1})
		}
		ctx := harness.Within(t, 100*time.Millisecond)
		c, err := zkrecipes.Dial(ctx, []string{"zk.test"}, &zkrecipes.Options{Dialer: dial, Auth: []zkrecipes.Auth{{Scheme: "digest", Data: []byte("app:secret")}}})
		require.Nil(t, c)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		deadline, _ := ctx.Deadline()
		require.Less(t, time.Since(deadline), recipetest.PromptClose)
	})
}
