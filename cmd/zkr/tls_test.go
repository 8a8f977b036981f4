//go:build unix

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	ca := &authority{}
	ca.cert, ca.key = sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil)
	return ca
}

// sign returns a certificate and its key. Without an authority it signs itself.
func sign(t *testing.T, template *x509.Certificate, by *authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if by == nil {
		by = &authority{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, &key.PublicKey, by.key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return cert, key
}

// issue returns the certificate of 127.0.0.1 and its key, as texts in PEM.
func (ca *authority) issue(t *testing.T) (cert, key []byte) {
	t.Helper()
	c, k := sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "alice"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, ca)
	der, err := x509.MarshalPKCS8PrivateKey(k)
	require.NoError(t, err)
	return inPEM("CERTIFICATE", c.Raw), inPEM("PRIVATE KEY", der)
}

func inPEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func (ca *authority) pem() []byte { return inPEM("CERTIFICATE", ca.cert.Raw) }

// newFile writes a file and returns its name.
func newFile(t *testing.T, text []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file.pem")
	require.NoError(t, os.WriteFile(name, text, 0o600))
	return name
}

// secured returns the address of a TLS server before the server, which requires certificates of
// the clients' authority.
func secured(t *testing.T, server string, servers, clients *authority) string {
	t.Helper()
	pair, err := tls.X509KeyPair(servers.issue(t))
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(clients.cert)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
	})
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { pass(client, server) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		wg.Wait() // the programs have ended, and with them their connections
	})
	return ln.Addr().String()
}

// pass passes bytes between the client and the server until one of them ends.
func pass(client net.Conn, server string) {
	defer client.Close()
	to, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(to, client)
		to.Close()
	}()
	_, _ = io.Copy(client, to)
}

func TestTLSWithAClientsCertificate(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	servers, clients := newAuthority(t), newAuthority(t)
	checkTLS(t, secured(t, srv.Addr(), servers, clients), servers, clients)
}

// checkTLS checks that zkr locks at a secure address with the right certificates only.
func checkTLS(t *testing.T, addr string, servers, clients *authority) {
	t.Helper()
	cert, key := clients.issue(t)
	certFile, keyFile, ca := newFile(t, cert), newFile(t, key), newFile(t, servers.pem())
	foreignCert, foreignKey := newAuthority(t).issue(t)
	lock := func(patience string, settings ...string) (int, string) {
		p := prepare(t, addr, "lock", "/tls", "--connect-timeout", patience, "-c", "echo ran")
		p.cmd.Env = append(p.cmd.Env, settings...)
		code := p.start().wait()
		require.Equal(t, code == 0, p.stdout.String() == "ran\n")
		return code, p.stderr.String()
	}
	code, stderr := lock("1m", "ZKR_TLS_CA="+ca, "ZKR_TLS_CERT="+certFile, "ZKR_TLS_KEY="+keyFile)
	require.Zero(t, code, stderr)
	for _, settings := range [][]string{
		{"ZKR_TLS_CA=" + newFile(t, newAuthority(t).pem()), "ZKR_TLS_CERT=" + certFile, "ZKR_TLS_KEY=" + keyFile},
		{"ZKR_TLS_CA=" + ca, "ZKR_TLS_CERT=" + certFile, "ZKR_TLS_KEY=" + keyFile, "ZKR_TLS_SERVER_NAME=zk1"},
		{"ZKR_TLS_CA=" + ca}, // the server requires a certificate
		{"ZKR_TLS_CA=" + ca, "ZKR_TLS_CERT=" + newFile(t, foreignCert), "ZKR_TLS_KEY=" + newFile(t, foreignKey)},
	} {
		code, stderr := lock("3s", settings...)
		require.Equal(t, 69, code, "%v: %s", settings, stderr)
		require.Contains(t, stderr, "certificate")
	}
	for _, settings := range [][]string{
		{"ZKR_TLS_CA=" + ca, "ZKR_TLS_CERT=" + certFile},
		{"ZKR_TLS_CA=" + keyFile},
		{"ZKR_TLS_CA=" + ca, "ZKR_TLS_CERT=" + certFile, "ZKR_TLS_KEY=" + newFile(t, foreignKey)},
		{"ZKR_TLS_CA=/nonexistent"},
	} {
		code, stderr := lock("1m", settings...)
		require.Equal(t, 78, code, "%v: %s", settings, stderr)
		require.NotEmpty(t, stderr)
	}
}
