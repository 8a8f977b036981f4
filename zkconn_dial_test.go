package zkrecipes

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// How a client finds its servers and connects to them.

// withoutDeadlines is a connection that supports no deadlines, as those of
// x/crypto/ssh.
type withoutDeadlines struct{ net.Conn }

func (withoutDeadlines) SetDeadline(time.Time) error { return os.ErrNoDeadline }

func TestB17ConnectionsWithoutDeadlinesAreRefused(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := Dial(ctx, harness.Servers(), &Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		return withoutDeadlines{nc}, err
	}})
	require.ErrorIs(t, err, os.ErrNoDeadline)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "made a connection without deadlines")
}

func TestB50HostNamesAreResolvedForEveryAttempt(t *testing.T) {
	t.Run("one name does not resolve", func(t *testing.T) {
		names := serverNames(2)
		var mu sync.Mutex
		var asked []string
		c := dialTo(t, names, &Options{
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
		requireUsable(t, c)
		mu.Lock()
		defer mu.Unlock()
		require.ElementsMatch(t, names, asked, "each name as it was given")
	})

	t.Run("no name resolves", func(t *testing.T) {
		lookup := &net.DNSError{Err: "no such host", Name: "zk-0.test", IsNotFound: true}
		_, err := Dial(harness.Within(t, 100*time.Millisecond), serverNames(1), &Options{
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
		c := dialTo(t, []string{"zk.test"}, &Options{
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				names.Store(addr, true)
				return new(net.Dialer).DialContext(ctx, network, at.Load().Addr())
			},
		})
		s, _ := c.client.Session()
		l, err := NewMutex(c, harness.NewPath(t)).Lock(harness.Within(t, 20*time.Second))
		require.NoError(t, err)
		lost := connectionNumber(s)
		at.Store(there)
		here.Refuse(true)
		awaitReconnect(t, s, lost)
		require.NoError(t, l.Release(), "the same session")
		require.Equal(t, 1, there.CountOf(opRelease))
		names.Range(func(name, _ any) bool {
			require.Equal(t, "zk.test:2181", name)
			return true
		})
	})

	t.Run("the default dialer resolves", func(t *testing.T) {
		p := harness.NewProxy(t, harness.Server())
		_, port, err := net.SplitHostPort(p.Addr())
		require.NoError(t, err)
		c := dialTo(t, []string{"localhost:" + port}, nil)
		s, _ := c.client.Session()
		lost := connectionNumber(s)
		p.Drop()
		awaitReconnect(t, s, lost)
	})
}

// testCA is a certificate authority.
type testCA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newTestCA(t testing.TB) *testCA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &testCA{cert, key}
}

func (ca *testCA) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return pool
}

// issue returns a certificate for a server or a client of that name, which may be an
// address.
func (ca *testCA) issue(t testing.TB, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &key.PublicKey, ca.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// terminator starts a TLS server for name that forwards to target. It returns its
// address.
func (ca *testCA) terminator(t testing.TB, name, target string) string {
	t.Helper()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{ca.issue(t, name)}})
	require.NoError(t, err)
	var wg sync.WaitGroup
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
	pass := func(to, from net.Conn) {
		defer to.Close()
		defer from.Close()
		io.Copy(to, from)
	}
	wg.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				client.Close()
				continue
			}
			wg.Go(func() { pass(server, client) })
			wg.Go(func() { pass(client, server) })
		}
	})
	return ln.Addr().String()
}

func TestB51TLSConnectsOnlyToVerifiedServers(t *testing.T) {
	ca := newTestCA(t)
	p := harness.NewProxy(t, harness.Server())
	secure := ca.terminator(t, "zk.test", p.Addr())
	to := func(target string) func(context.Context, string, string) (net.Conn, error) {
		return harness.NewTaps(target).Dial
	}
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer mute.Close()

	t.Run("connects, and reconnects", func(t *testing.T) {
		c := dialTo(t, []string{"zk.test"}, &Options{TLS: &tls.Config{RootCAs: ca.pool()}, Dialer: to(secure)})
		s, _ := c.client.Session()
		l, err := NewMutex(c, harness.NewPath(t)).Lock(harness.Within(t, 20*time.Second))
		require.NoError(t, err)
		for range 3 {
			lost := connectionNumber(s)
			p.Drop()
			awaitReconnect(t, s, lost)
		}
		require.NoError(t, l.Release(), "the same session")
		require.NoError(t, c.Close())
	})

	t.Run("ServerName takes precedence over the host name", func(t *testing.T) {
		c := dialTo(t, []string{"other.test"}, &Options{
			TLS: &tls.Config{RootCAs: ca.pool(), ServerName: "zk.test"}, Dialer: to(secure),
		})
		requireUsable(t, c)
	})

	refused := func(t *testing.T, server string, patience time.Duration, opts *Options) error {
		t.Helper()
		began := time.Now()
		c, err := Dial(harness.Within(t, patience), []string{server}, opts)
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
		err := refused(t, "other.test:2181", short, &Options{TLS: &tls.Config{RootCAs: ca.pool()}, Dialer: to(secure)})
		var wrong x509.HostnameError
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, "other.test", wrong.Host)
	})

	t.Run("unknown CA", func(t *testing.T) {
		err := refused(t, "zk.test:2181", short, &Options{TLS: &tls.Config{RootCAs: newTestCA(t).pool()}, Dialer: to(secure)})
		var unknown x509.UnknownAuthorityError
		require.ErrorAs(t, err, &unknown)
	})

	t.Run("server without TLS", func(t *testing.T) {
		err := refused(t, "zk.test:2181", short, &Options{TLS: &tls.Config{RootCAs: ca.pool()}, Dialer: to(harness.Server())})
		require.ErrorContains(t, err, "TLS")
	})

	t.Run("server that does not reply", func(t *testing.T) {
		err := refused(t, "zk.test:2181", 1500*time.Millisecond, &Options{
			SessionTimeout: 2 * time.Second, // half a second for each attempt
			TLS:            &tls.Config{RootCAs: ca.pool()}, Dialer: to(mute.Addr().String()),
		})
		require.ErrorContains(t, err, "TLS")
	})

	t.Run("client without TLS", func(t *testing.T) {
		err := refused(t, "zk.test:2181", short, &Options{Dialer: to(secure)})
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
			c, err := Dial(ctx, []string{"zk.test"}, &Options{Dialer: dialer})
			deadline, _ := ctx.Deadline()
			took := time.Since(deadline)
			require.Nil(t, c)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Less(t, took, promptClose)
			if name != "does not reply to credentials" && name != "closes at once" { // the proxy's own goroutines
				require.NoError(t, goleak.Find(before))
			}
		})
	}
}
