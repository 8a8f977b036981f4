package zkconn_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const saslPassword = "s3cret"

// saslUsers are the users of the servers of these tests.
var saslUsers = map[string]string{"alice": saslPassword, "bob": "b0b"}

// asAlice returns Options that authenticate with the right password.
func asAlice() *zkrecipes.Options {
	return &zkrecipes.Options{SASL: zkrecipes.SASLDigest("alice", saslPassword)}
}

// inSASLBubble runs f with a server that requires SASL.
func inSASLBubble(t *testing.T, f func(t *testing.T, w *recipetest.World)) {
	t.Helper()
	recipetest.InBubble(t, f, zktest.SASL(saslUsers), zktest.RequireSASL())
}

// dialFails dials w's server within a minute, and returns how long it took to fail.
func dialFails(t *testing.T, w *recipetest.World, opts *zkrecipes.Options) (took time.Duration, err error) {
	t.Helper()
	opts.Dialer = w.Srv.DialContext
	began := time.Now()
	_, err = zkrecipes.Dial(harness.Within(t, time.Minute), []string{w.Srv.Addr()}, opts)
	require.Error(t, err)
	return time.Since(began), err
}

func TestEveryRecipeWorksOnAServerThatRequiresSASL(t *testing.T) {
	for _, recipe := range slices.Sorted(maps.Keys(recipetest.Recipes)) {
		t.Run(recipe, func(t *testing.T) {
			inSASLBubble(t, func(t *testing.T, w *recipetest.World) {
				c := w.Stranger(asAlice())
				require.NoError(t, recipetest.UseOnce(t.Context(), recipe, c, w.Path))
			})
		})
	}
}

func TestEachConnectionIsAuthenticatedByTwoRequests(t *testing.T) {
	inSASLBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(asAlice())
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		for connections := 1; connections <= 3; connections++ {
			require.Equal(t, 2*connections, w.Srv.Counts().Requests["sasl"])
			require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
			harness.Eventually(t, "the next connection", func() bool { return w.Srv.Counts().Requests["sasl"] > 2*connections && c.Status().Connected })
		}
		w.Stands(l)
		require.NoError(t, l.Release())
	})
}

func TestDialReturnsAtOnceIfTheServerRefusesThePrincipal(t *testing.T) {
	for _, required := range []bool{true, false} {
		for name, m := range map[string]*zkrecipes.SASL{
			"wrong password": zkrecipes.SASLDigest("alice", "wr0ng"),
			"unknown user":   zkrecipes.SASLDigest("mallory", saslPassword),
		} {
			t.Run(fmt.Sprintf("%s, required: %v", name, required), func(t *testing.T) {
				opts := []zktest.Option{zktest.SASL(saslUsers)}
				if required {
					opts = append(opts, zktest.RequireSASL())
				}
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					took, err := dialFails(t, w, &zkrecipes.Options{SASL: m})
					require.ErrorIs(t, err, zk.ErrAuthFailed)
					require.ErrorContains(t, err, fmt.Sprintf(`server refused SASL DIGEST-MD5 as %q`, m.Principal))
					require.Less(t, took, time.Second)
				}, opts...)
			})
		}
	}
}

func TestAServerWithoutSASLIsPassedOver(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		took, err := dialFails(t, w, asAlice())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, `SASL DIGEST-MD5 as "alice": the server is not configured for SASL`)
		require.GreaterOrEqual(t, took, time.Minute, "another server may be")

		other := zktest.NewServer(t, zktest.InMemory(), zktest.SASL(saslUsers))
		opts := asAlice()
		opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == "with:2181" {
				return other.DialContext(ctx, network, addr)
			}
			return w.Srv.DialContext(ctx, network, addr)
		}
		for range 10 { // the first server is chosen at random
			c, err := zkrecipes.Dial(t.Context(), []string{"without:2181", "with:2181"}, opts)
			require.NoError(t, err)
			require.Equal(t, "with:2181", c.Status().Server)
			require.NoError(t, c.Close())
		}
	})
}

func TestDialReturnsAtOnceIfTheServerRequiresSASLAndThereIsNone(t *testing.T) {
	for _, auth := range [][]zkrecipes.Auth{nil, {{Scheme: "digest", Data: []byte("u:p")}}} {
		inSASLBubble(t, func(t *testing.T, w *recipetest.World) {
			took, err := dialFails(t, w, &zkrecipes.Options{Auth: auth})
			require.ErrorIs(t, err, zk.ErrAuthFailed)
			require.EqualError(t, err, "zkrecipes: dial "+w.Srv.Addr()+": the server requires SASL (Options.SASL)")
			require.Less(t, took, time.Second)
		})
	}
}

func TestRefusedAttemptsToConnectAreTold(t *testing.T) {
	for name, tt := range map[string]struct {
		opts  *zkrecipes.Options
		fault zktest.Fault
		says  string
	}{
		"the principal": {asAlice(), zktest.Fault{Op: "sasl", Code: jute.ErrAuthFailed}, `server refused SASL DIGEST-MD5 as "alice"`},
		"a credential":  {&zkrecipes.Options{Auth: []zkrecipes.Auth{{Scheme: "digest", Data: []byte("u:p")}}}, zktest.Fault{Op: "auth", Code: jute.ErrAuthFailed}, `server refused the credential of scheme "digest"`},
		"no SASL":       {&zkrecipes.Options{}, zktest.Fault{Op: "getEphemerals", Code: jute.ErrSASL}, "the server requires SASL (Options.SASL)"},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				var told []zkrecipes.TraceSession
				tt.opts.Trace = &zkrecipes.Trace{Session: func(e zkrecipes.TraceSession) { told = append(told, e) }}
				c := w.Client(tt.opts)
				id := recipetest.SessionID(c)
				tt.fault.Do, tt.fault.Times = zktest.Answer, 2
				w.Plan.Add(tt.fault)
				require.True(t, w.Srv.Disconnect(id))
				time.Sleep(5 * time.Second)
				synctest.Wait()
				require.True(t, c.Status().Connected)
				require.Len(t, told, 5, "connected, disconnected, refused twice, connected")
				require.False(t, told[1].Refused)
				for _, e := range told[2:4] {
					require.True(t, e.Refused)
					require.Equal(t, zkrecipes.SessionDisconnected, e.State)
					require.Equal(t, []any{id, w.Srv.Addr()}, []any{e.ID, e.Server})
					require.ErrorIs(t, e.Err, zk.ErrAuthFailed)
					require.ErrorContains(t, e.Err, tt.says)
				}
				require.Equal(t, zkrecipes.SessionConnected, told[4].State)
			}, zktest.SASL(saslUsers))
		})
	}
}

// Each step of the exchange, on a connection that resumes the session.
func TestALeaseOutlivesAFaultAtAnyStepOfTheExchange(t *testing.T) {
	for step := range 2 {
		for _, fault := range []zktest.Fault{
			{Do: zktest.Drop}, {Do: zktest.Drop, After: true}, {Do: zktest.Withhold}, {Do: zktest.Withhold, After: true},
			{Do: zktest.Delay, For: 5 * time.Second}, {Do: zktest.Delay, After: true, For: 5 * time.Second},
			{Do: zktest.Answer, Code: jute.ErrOperationTimeout}, {Do: zktest.Answer, After: true, Code: jute.ErrOperationTimeout},
			{Do: zktest.Answer, Code: jute.ErrAuthFailed}, {Do: zktest.Answer, After: true, Code: jute.ErrSASL},
		} {
			fault.Op, fault.Skip = "sasl", step
			t.Run(fault.String(), func(t *testing.T) {
				inSASLBubble(t, func(t *testing.T, w *recipetest.World) {
					c := w.Client(asAlice())
					l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
					w.Plan.Add(fault)
					require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
					harness.Eventually(t, "the session is resumed", func() bool { return recipetest.FiredOf(w.Plan) == 1 && c.Status().Connected })
					w.Stands(l)
					require.NoError(t, l.Release())
				})
			})
		}
	}
}

func TestTheSessionExpiresInTheMiddleOfTheExchange(t *testing.T) {
	for step := range 2 {
		for _, after := range []bool{false, true} {
			inSASLBubble(t, func(t *testing.T, w *recipetest.World) {
				c := w.Client(asAlice())
				l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
				w.Plan.Add(zktest.Fault{Do: zktest.Expire, Op: "sasl", Skip: step, After: after})
				require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
				require.ErrorIs(t, harness.Cause(t, l.Context(t.Context())), zkrecipes.ErrLost)
				require.NoError(t, recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path)).Release(), "in the next session")
			})
		}
	}
}

// A password is changed on the servers, and later on the client's side.
func TestAClientThatIsNotLetInAgainLosesItsLeasesInTime(t *testing.T) {
	inSASLBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(asAlice())
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		rival := w.LockLater(w.Stranger(asAlice()))
		until := l.ValidUntil()
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Op: "sasl", Skip: 1, Code: jute.ErrAuthFailed, Times: -1})
		require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
		require.ErrorIs(t, harness.Cause(t, l.Context(t.Context())), zkrecipes.ErrLost)
		require.False(t, time.Now().Before(until.Add(-time.Second)))
		require.False(t, c.Status().Connected)
		require.NoError(t, rival.Get().Release(), "the client gives its session up")
		_, err := zkrecipes.NewMutex(c, w.Path).Lock(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, `server refused SASL DIGEST-MD5 as "alice"`)
		w.Plan.Stop()
		require.NoError(t, recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path)).Release())
	})
}

func TestWhatAClientWithSASLCreatesIsItsPrincipalsOwn(t *testing.T) {
	digest := []zkrecipes.Auth{{Scheme: "digest", Data: []byte("app:pw")}}
	ids := zk.DigestACL(zk.PermAll, "app", "pw")
	sasl := zk.ACL{Perms: zk.PermAll, Scheme: "sasl", ID: "alice"}
	alice := asAlice().SASL
	for name, tt := range map[string]struct {
		opts zkrecipes.Options
		want []zk.ACL
	}{
		"SASL alone":           {zkrecipes.Options{SASL: alice}, []zk.ACL{sasl}},
		"with Auth":            {zkrecipes.Options{SASL: alice, Auth: digest}, append([]zk.ACL{sasl}, ids...)},
		"scheme auth":          {zkrecipes.Options{SASL: alice, Auth: digest, ACL: zk.AuthACL(zk.PermAll)}, append([]zk.ACL{sasl}, ids...)},
		"scheme auth, no Auth": {zkrecipes.Options{SASL: alice, ACL: append(zk.AuthACL(zk.PermAll), zk.WorldACL(zk.PermRead)...)}, append([]zk.ACL{sasl}, zk.WorldACL(zk.PermRead)...)},
		"Options.ACL":          {zkrecipes.Options{SASL: alice, ACL: zk.WorldACL(zk.PermAll)}, zk.WorldACL(zk.PermAll)},
	} {
		t.Run(name, func(t *testing.T) {
			inSASLBubble(t, func(t *testing.T, w *recipetest.World) {
				c := w.Stranger(&tt.opts)
				l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
				_, err := l.Commit(t.Context(), zkrecipes.OpCreate("/data", nil, 0, nil))
				require.NoError(t, err)
				for _, path := range []string{w.Path, l.Check().Path, "/data"} {
					acl, err := c.ACL(t.Context(), path)
					require.NoError(t, err)
					require.Equal(t, tt.want, acl, path)
				}
				require.NoError(t, l.Release())
				_, err = zkrecipes.NewMutex(w.Stranger(&zkrecipes.Options{SASL: zkrecipes.SASLDigest("bob", "b0b")}), w.Path).TryLock(t.Context())
				if name == "Options.ACL" {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, zk.ErrNoAuth)
				}
			})
		})
	}
	unnamed := *alice
	unnamed.Principal = ""
	_, err := zkrecipes.Dial(t.Context(), []string{"h"}, &zkrecipes.Options{SASL: &unnamed})
	require.EqualError(t, err, "zkrecipes: dial h: Options.ACL is needed: the principal of SASL DIGEST-MD5 is not known")
	_, err = zkrecipes.Dial(t.Context(), []string{"h"}, &zkrecipes.Options{SASL: &unnamed, ACL: zk.AuthACL(zk.PermAll)})
	require.EqualError(t, err, `zkrecipes: dial h: Options.ACL: ACL of scheme "auth": the principal of SASL DIGEST-MD5 is not known; list it explicitly`)
	for _, incomplete := range []*zkrecipes.SASL{{}, {Mechanism: "X"}, {Exchange: alice.Exchange}} {
		_, err = zkrecipes.Dial(t.Context(), []string{"h"}, &zkrecipes.Options{SASL: incomplete})
		require.EqualError(t, err, "zkrecipes: dial h: Options.SASL has no Mechanism or no Exchange")
	}
}

// mechanism returns a SASL whose exchanges f begins.
func mechanism(f func(ctx context.Context, server zkrecipes.SASLServer) (zkrecipes.SASLExchange, error)) *zkrecipes.SASL {
	return &zkrecipes.SASL{Mechanism: "DIGEST-MD5", Principal: "alice", Exchange: f}
}

func TestAMechanismIsToldTheServerAndMayFail(t *testing.T) {
	inSASLBubble(t, func(t *testing.T, w *recipetest.World) {
		right := asAlice().SASL.Exchange
		var servers []zkrecipes.SASLServer
		failures := []error{errors.New("no ticket yet"), nil}
		opts := &zkrecipes.Options{SASL: mechanism(func(ctx context.Context, server zkrecipes.SASLServer) (zkrecipes.SASLExchange, error) {
			servers = append(servers, server)
			if n := len(servers); n <= len(failures) {
				return nil, failures[n-1]
			}
			return right(ctx, server)
		})}
		c := w.Stranger(opts)
		require.True(t, c.Status().Connected)
		want := zkrecipes.SASLServer{Name: w.Srv.Addr(), Address: w.Srv.Addr()}
		require.Equal(t, []zkrecipes.SASLServer{want, want, want}, servers, "tried again after an error, and after no exchange")

		refused := errors.New("the KDC does not know alice")
		took, err := dialFails(t, w, &zkrecipes.Options{SASL: mechanism(func(context.Context, zkrecipes.SASLServer) (zkrecipes.SASLExchange, error) {
			return nil, fmt.Errorf("%w: %w", zk.ErrAuthFailed, refused)
		})})
		require.ErrorIs(t, err, zk.ErrAuthFailed)
		require.ErrorIs(t, err, refused)
		require.ErrorContains(t, err, `SASL DIGEST-MD5 as "alice": `)
		require.Less(t, took, time.Second)

		slow := 0
		_, err = dialFails(t, w, &zkrecipes.Options{SASL: mechanism(func(ctx context.Context, _ zkrecipes.SASLServer) (zkrecipes.SASLExchange, error) {
			slow++
			<-ctx.Done()
			return nil, ctx.Err()
		})})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Greater(t, slow, 10, "each attempt has its own deadline")
	})
}

func TestCloseEndsAnExchangeThatBegins(t *testing.T) {
	inSASLBubble(t, func(t *testing.T, w *recipetest.World) {
		right, hangs := asAlice().SASL.Exchange, false
		c := w.Stranger(&zkrecipes.Options{SASL: mechanism(func(ctx context.Context, server zkrecipes.SASLServer) (zkrecipes.SASLExchange, error) {
			if hangs {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return right(ctx, server)
		})})
		synctest.Wait()
		hangs = true
		require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
		time.Sleep(time.Second)
		began := time.Now()
		require.ErrorIs(t, c.Close(), zkrecipes.ErrSessionNotClosed)
		require.Less(t, time.Since(began), time.Second)
	})
}
