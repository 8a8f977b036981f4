package zkconn_test

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// TLS on the secure port of a real server, which requires a certificate of its clients.

// secureNode starts a server whose name is 127.0.0.1. Only clients with a certificate of
// clients can connect.
func secureNode(t *testing.T, servers, clients *harness.CA) *zkserver.Node {
	t.Helper()
	harness.NeedsOwn(t)
	cert, key := harness.PEM(t, servers.Issue(t, "127.0.0.1"))
	return harness.OwnNode(t, zkserver.Config{TLS: &zkserver.TLS{Keystore: slices.Concat(key, cert), Truststore: clients.PEM()}})
}

func TestRealSecurePortServesOnlyVerifiedPeers(t *testing.T) {
	t.Parallel()
	servers, clients := harness.NewCA(t), harness.NewCA(t)
	node := secureNode(t, servers, clients)
	as := func(cert tls.Certificate, roots *harness.CA) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: roots.Pool()}
	}
	alice := as(clients.Issue(t, "alice"), servers)
	secure := []string{node.SecureAddr()}
	ctx := harness.Within(t, 2*time.Minute)

	t.Run("locks", func(t *testing.T) {
		path := harness.NewPath(t)
		l := recipetest.LockOn(t, zkrecipes.NewMutex(recipetest.DialTo(t, secure, &zkrecipes.Options{TLS: alice}), path))
		waiter := recipetest.LockLater(t, zkrecipes.NewMutex(recipetest.DialTo(t, secure, &zkrecipes.Options{TLS: alice}), path))
		_, err := l.Commit(ctx)
		require.NoError(t, err)
		require.NoError(t, l.Release())
		require.NoError(t, waiter.Get().Release())
	})

	t.Run("locks of one certificate's owner alone", func(t *testing.T) {
		path := harness.NewPath(t)
		owned := &zkrecipes.Options{TLS: alice, ACL: []zk.ACL{{Perms: zk.PermAll, Scheme: "x509", ID: "CN=alice"}}}
		l := recipetest.LockOn(t, zkrecipes.NewMutex(recipetest.DialTo(t, secure, owned), path))
		_, err := zkrecipes.NewMutex(recipetest.DialTo(t, secure, &zkrecipes.Options{TLS: as(clients.Issue(t, "bob"), servers)}), path).Lock(ctx)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		waiter := recipetest.LockLater(t, zkrecipes.NewMutex(recipetest.DialTo(t, secure, owned), path))
		require.NoError(t, l.Release())
		require.NoError(t, waiter.Get().Release())
	})

	_, port, err := net.SplitHostPort(node.SecureAddr())
	require.NoError(t, err)
	for name, test := range map[string]struct {
		server string
		tls    *tls.Config
		says   string
	}{
		"wrong name":                      {"localhost:" + port, alice, "certificate is not valid for any names, but wanted to match localhost"},
		"unknown authority of the server": {secure[0], as(clients.Issue(t, "alice"), harness.NewCA(t)), "certificate signed by unknown authority"},
		"unknown authority of the client": {secure[0], as(harness.NewCA(t).Issue(t, "alice"), servers), "remote error: tls:"},
		"client without a certificate":    {secure[0], &tls.Config{RootCAs: servers.Pool()}, "remote error: tls:"},
		"client without TLS":              {secure[0], nil, "handshake"},
		"the port without TLS":            {node.Addr(), alice, "TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, dialer := recipetest.OneAttempt(ctx, new(net.Dialer).DialContext)
			c, err := zkrecipes.Dial(ctx, []string{test.server}, &zkrecipes.Options{TLS: test.tls, Dialer: dialer})
			require.Nil(t, c)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorContains(t, err, "zkrecipes: dial "+test.server)
			require.ErrorContains(t, err, test.says)
		})
	}
}
