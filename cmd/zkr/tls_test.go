//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// newFile writes a file and returns its name.
func newFile(t *testing.T, text []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file.pem")
	require.NoError(t, os.WriteFile(name, text, 0o600))
	return name
}

func TestTLSWithAClientsCertificate(t *testing.T) {
	srv := newServer(t)
	servers, clients := harness.NewCA(t), harness.NewCA(t)
	addr := servers.Terminator(t, "127.0.0.1", srv.Addr(), clients)
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
