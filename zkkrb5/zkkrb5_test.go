//go:build linux

package zkkrb5_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zkkrb5"
)

// started is what starts servers, since startNode was called first.
var started struct {
	sync.Mutex
	provider *zkserver.Provider
}

func TestMain(m *testing.M) {
	before := goleak.IgnoreCurrent()
	code := m.Run()
	var err error
	if p := started.provider; p != nil {
		err = p.Close()
	}
	if err == nil && code == 0 {
		err = goleak.Find(before)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func findJava() (p *zkserver.Provider, err error) {
	started.Lock()
	defer started.Unlock()
	if started.provider == nil {
		started.provider, err = zkserver.FindJava(context.Background(), nil)
	}
	return started.provider, err
}

// startNode starts a server of that version, "" for the default.
func startNode(t *testing.T, version string, jaas harness.JAAS) *zkserver.Node {
	t.Helper()
	p, err := findJava()
	require.NoError(t, err)
	if version != "" {
		err = p.Fetch(t.Context(), version)
		if errors.Is(err, errors.ErrUnsupported) {
			t.Skip(err)
		}
		require.NoError(t, err)
	}
	node, err := p.Start(t.Context(), jaas.Config(zkserver.Config{Version: version}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, node.Remove(context.Background())) })
	return node
}

// startServer starts a server that requires SASL, as the principal service/localhost, and
// returns localhost:port.
func startServer(t *testing.T, k *kdc, version, service string) string {
	t.Helper()
	jaas := harness.JAAS{
		Server: fmt.Sprintf("  com.sun.security.auth.module.Krb5LoginModule required\n"+
			"  useKeyTab=true storeKey=true useTicketCache=false keyTab=\"%s\" principal=\"%s/localhost@%s\";", k.path("server.keytab"), service, realm),
		Flags: append(harness.RequireSASL, "-Djava.security.krb5.conf="+k.conf()),
	}
	node := startNode(t, version, jaas)
	_, port, err := net.SplitHostPort(node.Addr())
	require.NoError(t, err)
	return net.JoinHostPort("localhost", port)
}

// credentials returns New(cfg) with the KDC's configuration, closed at the end of the test.
func credentials(t *testing.T, k *kdc, cfg zkkrb5.Config) *zkkrb5.Credentials {
	t.Helper()
	cfg.Conf = k.conf()
	c, err := zkkrb5.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func passwordOf(password string) func() (string, error) {
	return func() (string, error) { return password, nil }
}

func dial(t *testing.T, server string, opts *zkrecipes.Options) *zkrecipes.Client {
	t.Helper()
	c, err := zkrecipes.Dial(harness.Within(t, 2*time.Minute), []string{server}, opts)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

const day = 24 * time.Hour

func TestEveryRecipeWorksWithAKeytabAPasswordAndACredentialsCache(t *testing.T) {
	for _, version := range zkserver.Versions[:2] {
		t.Run(version, func(t *testing.T) {
			k := newKDC(t, day)
			k.start(0)
			server := startServer(t, k, version, "zookeeper")
			for name, cfg := range map[string]zkkrb5.Config{
				"keytab":   {Principal: "alice", Keytab: k.path("alice.keytab")},
				"password": {Principal: "alice@" + realm, Password: passwordOf(password)},
				"cache":    {CCache: k.kinit()},
				"both":     {Principal: "alice", CCache: "FILE:" + k.kinit()},
			} {
				t.Run(name, func(t *testing.T) {
					c := dial(t, server, &zkrecipes.Options{SASL: credentials(t, k, cfg).SASL()})
					for _, recipe := range slices.Sorted(maps.Keys(recipetest.Recipes)) {
						require.NoError(t, recipetest.UseOnce(harness.Within(t, 2*time.Minute), recipe, c, "/"+name+"/"+recipe), recipe)
					}
					l := recipetest.LockOn(t, zkrecipes.NewMutex(c, "/lock"))
					acl, err := c.ACL(t.Context(), l.Check().Path)
					require.NoError(t, err)
					require.Equal(t, []zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "alice@" + realm}}, acl)
					require.NoError(t, l.Release())
				})
			}
		})
	}
}

func TestDialReturnsAtOnceIfTheKDCRefusesThePrincipal(t *testing.T) {
	k := newKDC(t, day)
	k.start(0)
	other := newKDC(t, day)
	other.admin("cpw -pw other alice")
	other.admin("ktadd -norandkey -k " + other.path("other.keytab") + " alice")
	server := startServer(t, k, "", "zookeeper")
	for name, cfg := range map[string]zkkrb5.Config{
		"wrong password":    {Principal: "alice", Password: passwordOf("wr0ng")},
		"without preauth":   {Principal: "carol", Password: passwordOf("wr0ng")},
		"unknown principal": {Principal: "mallory", Password: passwordOf(password)},
		"wrong keys":        {Principal: "alice", Keytab: other.path("other.keytab")},
		"no key":            {Principal: "alice", Keytab: k.path("server.keytab")},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := zkrecipes.Dial(harness.Within(t, 2*time.Minute), []string{server}, &zkrecipes.Options{SASL: credentials(t, k, cfg).SASL()})
			require.ErrorIs(t, err, zk.ErrAuthFailed)
			require.ErrorContains(t, err, `SASL GSSAPI as "`+cfg.Principal+"@"+realm+`"`)
			require.NotContains(t, err.Error(), "wr0ng")
			t.Log(err)
		})
	}
}

// fails returns why an exchange with the server cannot begin, for now.
func fails(t *testing.T, server string, m *zkrecipes.SASL) string {
	t.Helper()
	_, err := m.Exchange(harness.Within(t, 2*time.Minute), zkrecipes.SASLServer{Name: server, Address: server})
	require.Error(t, err)
	require.NotErrorIs(t, err, zk.ErrAuthFailed)
	t.Log(err)
	return err.Error()
}

func TestAServerWithAnotherPrincipalIsNotUsed(t *testing.T) {
	k := newKDC(t, day)
	k.start(0)
	server := startServer(t, k, "", "other")
	alice := zkkrb5.Config{Principal: "alice", Keytab: k.path("alice.keytab")}
	// The server has no key for the ticket.
	_, err := zkrecipes.Dial(harness.Within(t, 2*time.Minute), []string{server}, &zkrecipes.Options{SASL: credentials(t, k, alice).SASL()})
	require.ErrorIs(t, err, zk.ErrAuthFailed)
	require.ErrorContains(t, err, `server refused SASL GSSAPI as "alice@`+realm)

	// The KDC does not know the server's principal.
	alice.Service = "unknown"
	require.Contains(t, fails(t, server, credentials(t, k, alice).SASL()), "ticket for unknown/localhost")
	alice.Service = "zookeeper"
	require.Contains(t, fails(t, strings.Replace(server, "localhost", "127.0.0.1", 1), credentials(t, k, alice).SASL()), "ticket for zookeeper/127.0.0.1")

	alice.Service = "other"
	alice.CanonicalizeHost = true // of 127.0.0.1, in /etc/hosts
	dial(t, strings.Replace(server, "localhost", "127.0.0.1", 1), &zkrecipes.Options{SASL: credentials(t, k, alice).SASL()})
	alice.CanonicalizeHost = false
	dial(t, server, &zkrecipes.Options{SASL: credentials(t, k, alice).SASL()})
}

func TestAClockThatDiffersTooMuchIsNamed(t *testing.T) {
	k := newKDC(t, day)
	k.start(0)
	server := startServer(t, k, "", "zookeeper")
	k.stop()
	k.start(time.Hour)
	for _, cfg := range []zkkrb5.Config{
		{Principal: "alice", Keytab: k.path("alice.keytab")}, {Principal: "alice", Password: passwordOf(password)}, {Principal: "carol", Password: passwordOf(password)},
	} {
		require.Contains(t, fails(t, server, credentials(t, k, cfg).SASL()), "the clocks of this machine and of the KDC differ too much")
	}
	k.stop()
	k.start(0)
	dial(t, server, &zkrecipes.Options{SASL: credentials(t, k, zkkrb5.Config{Principal: "alice", Keytab: k.path("alice.keytab")}).SASL()})
}

func TestAClientWaitsForAKDCThatIsDown(t *testing.T) {
	k := newKDC(t, day)
	k.start(0)
	server := startServer(t, k, "", "zookeeper")
	k.stop()
	alice := credentials(t, k, zkkrb5.Config{Principal: "alice", Keytab: k.path("alice.keytab")}).SASL()
	require.Contains(t, fails(t, server, alice), "log in as alice@"+realm)
	dialing := harness.Go(t, func(ctx context.Context) (*zkrecipes.Client, error) {
		return zkrecipes.Dial(ctx, []string{server}, &zkrecipes.Options{SASL: alice})
	})
	k.start(0)
	require.NoError(t, dialing.Get().Close())
	k.stop()
	dial(t, server, &zkrecipes.Options{SASL: alice}) // with the ticket that it has
}

func TestAnExchangeEndsWithItsContextAndTheAnswerOfTheKDCIsKept(t *testing.T) {
	k := newKDC(t, day)
	k.start(0)
	alice := credentials(t, k, zkkrb5.Config{Principal: "alice", Keytab: k.path("alice.keytab")}).SASL()
	server := zkrecipes.SASLServer{Name: "localhost:2181", Address: "127.0.0.1:2181"}
	k.signal(syscall.SIGSTOP)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := alice.Exchange(ctx, server)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "the KDC has not answered yet")
	k.signal(syscall.SIGCONT)
	_, err = alice.Exchange(t.Context(), server)
	require.NoError(t, err)
	k.stop()
	_, err = alice.Exchange(ctx, server)
	require.NoError(t, err, "it asks nobody")
}

// The connection breaks again and again, so each ticket is needed.
func TestALockIsHeldForLongerThanATicketLives(t *testing.T) {
	t.Parallel()
	const life = 6 * time.Second
	k := newKDC(t, life)
	k.start(0)
	server := startServer(t, k, "", "zookeeper")
	for name, cfg := range map[string]zkkrb5.Config{
		"keytab":   {Principal: "alice", Keytab: k.path("alice.keytab")},
		"password": {Principal: "alice", Password: passwordOf(password)},
		"cache":    {CCache: k.kinit()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if cfg.CCache != "" {
				k.kinitAgain(t)
			}
			var conns breakable
			c := dial(t, server, &zkrecipes.Options{SASL: credentials(t, k, cfg).SASL(), Dialer: conns.dial})
			l := recipetest.LockOn(t, zkrecipes.NewMutex(c, "/"+name))
			until := time.Now().Add(3 * life)
			for n := 1; time.Now().Before(until); n++ {
				conns.breakAll()
				harness.Eventually(t, "the next connection", func() bool { return conns.made() > n && c.Status().Connected })
				require.NoError(t, l.Err())
				time.Sleep(time.Second)
			}
			require.NoError(t, l.Release())
		})
	}
}

// breakable are connections that a test can break.
type breakable struct {
	mu   sync.Mutex
	all  []net.Conn
	open []net.Conn
}

func (b *breakable) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.all, b.open = append(b.all, nc), append(b.open, nc)
	}
	return nc, err
}

func (b *breakable) breakAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, nc := range b.open {
		nc.Close()
	}
	b.open = nil
}

func (b *breakable) made() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.all)
}

func TestTicketsAreRenewedWhileNothingConnects(t *testing.T) {
	t.Parallel()
	const life = 24 * time.Second
	k := newKDC(t, life)
	k.start(0)
	server := startServer(t, k, "", "zookeeper")
	var conns breakable
	c := dial(t, server, &zkrecipes.Options{
		SASL:   credentials(t, k, zkkrb5.Config{Principal: "alice", Keytab: k.path("alice.keytab")}).SASL(),
		Dialer: conns.dial,
	})
	l := recipetest.LockOn(t, zkrecipes.NewMutex(c, "/lock"))
	time.Sleep(life + life/6) // all tickets of the beginning have expired
	k.stop()                  // so those of the background must do
	conns.breakAll()
	harness.Eventually(t, "the next connection", func() bool { return conns.made() == 2 && c.Status().Connected })
	require.NoError(t, l.Release())
}

func TestAnExpiredCredentialsCacheIsNamed(t *testing.T) {
	const life = 3 * time.Second
	k := newKDC(t, life)
	k.start(0)
	alice := credentials(t, k, zkkrb5.Config{CCache: k.kinit()})
	time.Sleep(life + time.Second)
	_, err := alice.SASL().Exchange(t.Context(), zkrecipes.SASLServer{Name: "localhost:2181", Address: "127.0.0.1:2181"})
	require.ErrorContains(t, err, "has expired at ")
	require.ErrorContains(t, err, "run kinit")
	require.NotErrorIs(t, err, zk.ErrAuthFailed)
	k.kinitAgain(t)
	harness.Eventually(t, "the next ticket is used", func() bool {
		_, err := alice.SASL().Exchange(t.Context(), zkrecipes.SASLServer{Name: "localhost:2181", Address: "127.0.0.1:2181"})
		return err == nil
	})
}

func TestConfigsThatContradictThemselvesAreRefused(t *testing.T) {
	k := newKDC(t, day)
	keytab := k.path("alice.keytab")
	for want, cfg := range map[string]zkkrb5.Config{
		"zkkrb5: more than one of Keytab, Password and CCache is set": {Principal: "alice", Keytab: keytab, Password: passwordOf("x")},
		"zkkrb5: no Principal": {Keytab: keytab},
		"no such file":         {Principal: "alice", Keytab: k.path("none")},
		"credentials cache":    {CCache: k.path("none")},
		"cut short":            {CCache: k.conf() + ".cut"},
	} {
		require.NoError(t, os.WriteFile(k.conf()+".cut", []byte{5, 4, 0}, 0o600))
		cfg.Conf = k.conf()
		_, err := zkkrb5.New(cfg)
		require.ErrorContains(t, err, want, "%+v", cfg)
	}
	_, err := zkkrb5.New(zkkrb5.Config{Principal: "alice", Keytab: keytab, Conf: k.path("none")})
	require.ErrorContains(t, err, "none")
}

func TestNoPasswordIsPrinted(t *testing.T) {
	k := newKDC(t, day)
	k.start(0)
	var text strings.Builder
	cfg := zkkrb5.Config{Principal: "alice", Password: passwordOf(password)}
	c := credentials(t, k, cfg)
	opts := &zkrecipes.Options{SASL: c.SASL()}
	server := zkrecipes.SASLServer{Name: "localhost:1", Address: "127.0.0.1:1"}
	exchange, err := c.SASL().Exchange(t.Context(), server)
	require.NoError(t, err)
	k.stop()
	_, failed := credentials(t, k, cfg).SASL().Exchange(t.Context(), server)
	require.Error(t, failed)
	_, _, wrong := exchange.Step([]byte("x"))
	require.Error(t, wrong)
	for _, verb := range []string{"%v", "%+v", "%#v"} {
		fmt.Fprintf(&text, verb+"\n", wrong)
		fmt.Fprintf(&text, verb+"\n", exchange)
		fmt.Fprintf(&text, verb+"\n", cfg)
		fmt.Fprintf(&text, verb+"\n", opts)
		fmt.Fprintf(&text, verb+"\n", *opts.SASL)
		fmt.Fprintf(&text, verb+"\n", failed)
	}
	require.NotContains(t, text.String(), password)
}
