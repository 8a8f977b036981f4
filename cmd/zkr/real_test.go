//go:build unix

package main

import (
	"context"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// What a real ZooKeeper decides: when a session ends, and whom it lets in. The other tests run on
// zktest.
func TestReal(t *testing.T) {
	if os.Getenv("ZK_HARNESS") == "zktest" {
		t.Skip("runs on a real ZooKeeper")
	}
	provider, err := zkserver.Find(t.Context(), t.Logf)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, provider.Close()) })
	if provider.External() != nil {
		t.Skip("ZK_SERVERS says nothing of a secure port")
	}
	servers, clients := harness.NewCA(t), harness.NewCA(t)
	cert, key := harness.PEM(t, servers.Issue(t, "127.0.0.1"))
	node, err := provider.Start(t.Context(), zkserver.Config{TLS: &zkserver.TLS{
		Keystore: slices.Concat(key, cert), Truststore: clients.PEM(),
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, node.Remove(context.Background())) })
	t.Run("a stopped holder", func(t *testing.T) {
		server, file := node.Addr(), newRecord(t)
		holder := start(t, server, "lock", "/a", "--session-timeout", "8s", "--", os.Args[0], "writer", string(file), "first", "spread")
		eventually(t, "the first writes", func() bool { return file.count("first") > 20 })
		successor := start(t, server, "lock", "/a", "--", os.Args[0], "writer", string(file), "second", "few")
		eventually(t, "the second waits", func() bool { names, _ := places(t, server, "/a"); return len(names) == 2 })
		holder.signal(syscall.SIGSTOP)
		require.Zero(t, successor.wait(), successor.stderr.String())
		_, last := file.span(t, "first")
		first, _ := file.span(t, "second")
		require.Less(t, last, first)
		holder.signal(syscall.SIGCONT)
		require.Equal(t, 76, holder.wait(), holder.stderr.String())
	})
	t.Run("TLS", func(t *testing.T) { checkTLS(t, node.SecureAddr(), servers, clients) })
}
