package zkconn_test

import (
	"context"
	"crypto/tls"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// Real servers with a JAAS configuration.

// saslNode starts a server with saslUsers and these flags.
func saslNode(t *testing.T, cfg zkserver.Config, flags []string) *zkserver.Node {
	t.Helper()
	return harness.OwnNode(t, harness.JAAS{Server: harness.DigestUsers(saslUsers), Flags: flags}.Config(cfg))
}

// eachVersion runs f with both versions of ZooKeeper.
func eachVersion(t *testing.T, f func(t *testing.T, version string)) {
	for _, version := range zkserver.Versions[:2] {
		t.Run(version, func(t *testing.T) {
			harness.NeedsVersion(t, version)
			f(t, version)
		})
	}
}

func TestRealServersLetInWhoeverKnowsThePassword(t *testing.T) {
	eachVersion(t, func(t *testing.T, version string) {
		for name, flags := range map[string][]string{
			"optional": nil, "sessionRequireClientSASLAuth": harness.RequireSASL, "enforce.auth.schemes": harness.EnforceSASL,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				node := saslNode(t, zkserver.Config{Version: version}, flags)
				servers, ctx := []string{node.Addr()}, harness.Within(t, 5*time.Minute)
				for m, why := range map[*zkrecipes.SASL]string{
					zkrecipes.SASLDigest("alice", "wr0ng"): `server refused SASL DIGEST-MD5 as "alice"`,
					// ZooKeeper 3.8.0 looks up the password of the known user who was last
					// (SaslServerCallbackHandler.userName is shared), so it takes any other
					// name with that password.
					zkrecipes.SASLDigest("mallory", "n0body's"): `server refused SASL DIGEST-MD5 as "mallory"`,
				} {
					_, err := zkrecipes.Dial(ctx, servers, &zkrecipes.Options{SASL: m})
					require.ErrorIs(t, err, zk.ErrAuthFailed, why)
					require.ErrorContains(t, err, why)
				}
				alice := recipetest.DialTo(t, servers, asAlice())
				for _, recipe := range slices.Sorted(maps.Keys(recipetest.Recipes)) {
					require.NoError(t, recipetest.UseOnce(ctx, recipe, alice, "/all/"+recipe), recipe)
				}
				l := recipetest.LockOn(t, zkrecipes.NewMutex(alice, "/lock"))
				acl, err := alice.ACL(ctx, l.Check().Path)
				require.NoError(t, err)
				require.Equal(t, []zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "alice"}}, acl)
				bob := recipetest.DialTo(t, servers, &zkrecipes.Options{SASL: zkrecipes.SASLDigest("bob", saslUsers["bob"])})
				_, err = zkrecipes.NewMutex(bob, "/lock").TryLock(ctx)
				require.ErrorIs(t, err, zk.ErrNoAuth)
				require.NoError(t, l.Release())

				anybody, err := zkrecipes.Dial(ctx, servers, nil)
				if flags == nil {
					require.NoError(t, err)
					require.NoError(t, anybody.Close())
				} else {
					require.ErrorIs(t, err, zk.ErrAuthFailed)
					require.ErrorContains(t, err, "the server requires SASL (Options.SASL)")
				}
			})
		}
	})
}

// With allowSaslFailedClients, the servers go on with a client that they have refused. Its
// principal is not that of the connection, so the client must not go on.
func TestRealServersThatLetInWhomTheyRefuseAreNotBelieved(t *testing.T) {
	eachVersion(t, func(t *testing.T, version string) {
		t.Parallel()
		node := saslNode(t, zkserver.Config{Version: version}, []string{"-Dzookeeper.allowSaslFailedClients=true"})
		servers := []string{node.Addr()}
		c := recipetest.DialTo(t, servers, asAlice())
		require.NoError(t, recipetest.UseOnce(harness.Within(t, time.Minute), "mutex", c, "/lock"))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := zkrecipes.Dial(ctx, servers, &zkrecipes.Options{SASL: zkrecipes.SASLDigest("alice", "wr0ng")})
		require.ErrorContains(t, err, `SASL DIGEST-MD5 as "alice": `)
	})
}

// The secure port has another implementation of connections, Netty's.
func TestRealServersTakeSASLOverTLS(t *testing.T) {
	eachVersion(t, func(t *testing.T, version string) {
		t.Parallel()
		ca := harness.NewCA(t)
		cert, key := harness.PEM(t, ca.Issue(t, "127.0.0.1"))
		node := saslNode(t, zkserver.Config{Version: version, TLS: &zkserver.TLS{Keystore: slices.Concat(key, cert)}}, harness.RequireSASL)
		servers, ctx := []string{node.SecureAddr()}, harness.Within(t, 5*time.Minute)
		secure := &tls.Config{RootCAs: ca.Pool()}
		c := recipetest.DialTo(t, servers, &zkrecipes.Options{SASL: asAlice().SASL, TLS: secure})
		require.NoError(t, recipetest.UseOnce(ctx, "mutex", c, "/lock"))
		_, err := zkrecipes.Dial(ctx, servers, &zkrecipes.Options{SASL: zkrecipes.SASLDigest("alice", "wr0ng"), TLS: secure})
		require.ErrorIs(t, err, zk.ErrAuthFailed)
		_, err = zkrecipes.Dial(ctx, servers, &zkrecipes.Options{TLS: secure})
		require.ErrorIs(t, err, zk.ErrAuthFailed)
		require.ErrorContains(t, err, "the server requires SASL (Options.SASL)")
	})
}

func TestRealServersTakeNamesAndPasswordsInAnyScript(t *testing.T) {
	users := map[string]string{"jürgen": "pässwörd", "ключ": "пароль", "alice": "pässwörd-пароль"}
	node := harness.OwnNode(t, harness.JAAS{Server: harness.DigestUsers(users), Flags: append(harness.RequireSASL, "-Dfile.encoding=UTF-8")}.Config(zkserver.Config{}))
	for user, password := range users {
		c := recipetest.DialTo(t, []string{node.Addr()}, &zkrecipes.Options{SASL: zkrecipes.SASLDigest(user, password)})
		require.NoError(t, recipetest.UseOnce(harness.Within(t, time.Minute), "mutex", c, "/"+user))
	}
}

// The server is switched from off to optional, to required, to off and to required.
func TestRealServersAreSwitchedToSASLAndBackUnderLiveClients(t *testing.T) {
	eachVersion(t, func(t *testing.T, version string) {
		t.Parallel()
		jaas := harness.JAAS{Server: harness.DigestUsers(saslUsers)}
		node := harness.OwnNode(t, jaas.Config(zkserver.Config{Version: version}))
		servers, ctx := []string{node.Addr()}, harness.Within(t, 10*time.Minute)
		restart := func() {
			t.Helper()
			require.NoError(t, node.Kill(ctx))
			require.NoError(t, node.Restart(ctx))
		}
		var log recipetest.Warnings
		// The list of these clients is open, as during a migration.
		open := func(m *zkrecipes.SASL) *zkrecipes.Options {
			return &zkrecipes.Options{SASL: m, ACL: zk.WorldACL(zk.PermAll), Logger: log.Logger()}
		}
		plain := recipetest.DialTo(t, servers, open(nil))
		use := func(c *zkrecipes.Client) {
			t.Helper()
			require.NoError(t, zkrecipes.NewMutex(c, "/line").Do(ctx, recipetest.Nothing))
		}
		refused := func(c *zkrecipes.Client, why string) {
			t.Helper()
			harness.Eventually(t, "the client is not let in", func() bool { return strings.Contains(log.String(), why) })
			require.False(t, c.Status().Connected)
		}
		jaas.SwitchOff(t, node)
		restart()
		use(plain)

		jaas.SwitchOn(t, node)
		restart()
		alice := recipetest.DialTo(t, servers, open(asAlice().SASL))
		use(alice)
		use(plain)

		jaas.SwitchOn(t, node, harness.RequireSASL...)
		restart()
		use(alice)
		refused(plain, "the server requires SASL (Options.SASL)")

		jaas.SwitchOff(t, node)
		restart()
		use(plain)
		refused(alice, "the server is not configured for SASL")

		jaas.SwitchOn(t, node, harness.RequireSASL...)
		restart()
		use(alice)
	})
}
