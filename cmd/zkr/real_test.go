//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"
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
		file.requireOrder(t)
		holder.signal(syscall.SIGCONT)
		require.Equal(t, 76, holder.wait(), holder.stderr.String())
	})
	t.Run("TLS", func(t *testing.T) { checkTLS(t, node.SecureAddr(), servers, clients) })
}

// newFile writes a file and returns its name.
func newFile(t *testing.T, text []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file.pem")
	require.NoError(t, os.WriteFile(name, text, 0o600))
	return name
}

func TestTLSWithAClientsCertificate(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	servers, clients := harness.NewCA(t), harness.NewCA(t)
	checkTLS(t, servers.Terminator(t, "127.0.0.1", srv.Addr(), clients), servers, clients)
}

// checkTLS checks that zkr locks at a secure address with the right certificates only.
func checkTLS(t *testing.T, addr string, servers, clients *harness.CA) {
	t.Helper()
	cert, key := harness.PEM(t, clients.Issue(t, "alice"))
	certFile, keyFile, ca := newFile(t, cert), newFile(t, key), newFile(t, servers.PEM())
	foreignCert, foreignKey := harness.PEM(t, harness.NewCA(t).Issue(t, "alice"))
	start := func(patience string, settings []string) *program {
		p := prepare(t, addr, "lock", "/tls", "--connect-timeout", patience, "-c", "echo ran")
		p.cmd.Env = append(p.cmd.Env, settings...)
		return p.start()
	}
	end := func(p *program) (int, string) {
		code := p.wait()
		require.Equal(t, code == 0, p.stdout.String() == "ran\n")
		return code, p.stderr.String()
	}
	code, stderr := end(start("10m", []string{"ZKR_TLS_CA=" + ca, "ZKR_TLS_CERT=" + certFile, "ZKR_TLS_KEY=" + keyFile}))
	require.Zero(t, code, stderr)
	refused := [][]string{
		{"ZKR_TLS_CA=" + newFile(t, harness.NewCA(t).PEM()), "ZKR_TLS_CERT=" + certFile, "ZKR_TLS_KEY=" + keyFile},
		{"ZKR_TLS_CA=" + ca, "ZKR_TLS_CERT=" + certFile, "ZKR_TLS_KEY=" + keyFile, "ZKR_TLS_SERVER_NAME=zk1"},
		{"ZKR_TLS_CA=" + ca}, // the server requires a certificate
		{"ZKR_TLS_CA=" + ca, "ZKR_TLS_CERT=" + newFile(t, foreignCert), "ZKR_TLS_KEY=" + newFile(t, foreignKey)},
	}
	// The time in which it has tried at least once.
	const patience = "20s"
	var programs []*program
	for _, settings := range refused {
		programs = append(programs, start(patience, settings))
	}
	for i, p := range programs {
		code, stderr := end(p)
		require.Equal(t, 69, code, "%v: %s", refused[i], stderr)
		require.Contains(t, stderr, "certificate")
	}
}
