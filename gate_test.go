package zkrecipes_test

import (
	"context"
	"errors"
	"strings"
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

const (
	opShut = "create2"
	opOpen = "delete"
)

// isOpenTo requires that IsOpen returns want.
func isOpenTo(t testing.TB, g *zkrecipes.Gate, want bool) {
	t.Helper()
	open, err := g.IsOpen(harness.Within(t, time.Minute))
	require.NoError(t, err)
	require.Equal(t, want, open)
}

// gates are two Gates on one path, in Clients of their own.
func gates(t *testing.T, f func(t *testing.T, w *recipetest.World, g, other *zkrecipes.Gate, c *zkrecipes.Client), opts ...zktest.Option) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		other, c := w.Stranger(nil), w.Stranger(nil)
		f(t, w, zkrecipes.NewGate(c, "/gate"), zkrecipes.NewGate(other, "/gate"), c)
	}, opts...)
}

// waitsAt calls Wait and requires that the call waits.
func waitsAt(t *testing.T, g *zkrecipes.Gate) *harness.Call[struct{}] {
	t.Helper()
	a := harness.GoErr(t, g.Wait)
	synctest.Wait()
	require.True(t, a.Waiting())
	return a
}

// A gate works under a prefix that does not exist yet, and with Curator's
// DistributedBarrier: either library may create and delete the znode.
func TestRealGateLetsThroughWhenOpen(t *testing.T) {
	path, conn, taps := harness.NewPath(t), harness.Raw(t), harness.NewTaps(harness.Server())
	c := recipetest.Dial(t, &zkrecipes.Options{Dialer: taps.Dial})
	g := zkrecipes.NewGate(recipetest.Dial(t, &zkrecipes.Options{Prefix: path, Identity: "me"}), "/deep/gate")
	path += "/deep/gate"
	other := zkrecipes.NewGate(c, path)
	ctx := harness.Within(t, 2*time.Minute)
	isOpenTo(t, g, true)
	require.NoError(t, g.Wait(ctx))
	require.NoError(t, g.Shut(ctx))
	data, stat, err := conn.Get(path)
	require.NoError(t, err)
	require.Equal(t, "zkrecipes/1 gate me", string(data))
	require.Zero(t, stat.EphemeralOwner)
	require.NoError(t, other.Shut(ctx), "it is shut already")
	isOpenTo(t, other, false)
	var waits []*harness.Call[struct{}]
	for range 5 {
		waits = append(waits, harness.GoErr(t, other.Wait), harness.GoErr(t, zkrecipes.NewGate(c, path).Wait))
	}
	harness.Eventually(t, "a look at the gate", func() bool { return taps.Count("getData") > 0 })
	for _, w := range waits {
		require.True(t, w.Waiting())
	}
	require.NoError(t, g.Open(ctx))
	for _, w := range waits {
		w.Get()
	}
	require.NoError(t, other.Open(ctx), "it is open already")
	isOpenTo(t, other, true)

	_, err = conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll)) // Curator's setBarrier
	require.NoError(t, err)
	isOpenTo(t, g, false)
	require.NoError(t, conn.Delete(path, -1)) // its removeBarrier
	require.NoError(t, g.Wait(ctx))
}

// The client's server, a follower, has not applied Shut yet.
func TestGateBehindALaggingFollowerLetsNobodyThroughWhileShut(t *testing.T) {
	gates(t, func(t *testing.T, w *recipetest.World, g, other *zkrecipes.Gate, _ *zkrecipes.Client) {
		looks := zkrecipes.NewGate(w.Stranger(nil), "/gate")
		require.NoError(t, other.Shut(t.Context()))
		isOpenTo(t, looks, false)
		passing := waitsAt(t, g)
		require.NoError(t, other.Open(t.Context()))
		passing.Get()
		isOpenTo(t, looks, true)
	}, recipetest.Behind(1, 3))
}

func TestSpuriousWakeUpsOpenNoGate(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		link := harness.NewLink(w.Srv)
		c := w.Stranger(&zkrecipes.Options{Dialer: link.Dial})
		g := zkrecipes.NewGate(c, "/gate")
		require.NoError(t, g.Shut(t.Context()))
		waits := waitsAt(t, g)
		for _, event := range []int32{jute.EventDataChanged, jute.EventDeleted} {
			link.Deliver(event, "/gate")
			synctest.Wait()
			require.True(t, waits.Waiting())
		}
		// An event that is not spurious but opens nothing: an operator writes into the gate.
		w.Write("/gate", "note")
		synctest.Wait()
		require.True(t, waits.Waiting())
		require.Len(t, w.SessionOf(c).Watches, 1)
		require.NoError(t, g.Open(t.Context()))
		waits.Get()
		require.Empty(t, w.SessionOf(c).Watches)
	})
}

// The gate's znode belongs to no session. That waits survive faults, TestLocksUnderEachFaultAtEachRequest
// shows.
func TestShutAndOpenAreCarriedOutWithAMishapAtAnyRequest(t *testing.T) {
	recipetest.EachRequest(t, recipetest.Mishaps, func(t *testing.T, fault zktest.Fault) (met bool) {
		gates(t, func(t *testing.T, w *recipetest.World, g, other *zkrecipes.Gate, _ *zkrecipes.Client) {
			w.Plan.Add(fault)
			require.NoError(t, g.Shut(t.Context()))
			isOpenTo(t, g, false)
			isOpenTo(t, other, false)
			require.NoError(t, g.Open(t.Context()))
			isOpenTo(t, g, true)
			isOpenTo(t, other, true)
			met = w.Met()
		})
		return met
	})
}

// The context ends while the request is in flight, before its reply, or before it is sent.
// The outcome is uncertain only if the request was sent.
func TestAShutWhoseContextEndsIsUncertainOnlyOnceSent(t *testing.T) {
	for _, when := range []string{"before", "after", "disconnected"} {
		t.Run(when, func(t *testing.T) {
			gates(t, func(t *testing.T, w *recipetest.World, g, other *zkrecipes.Gate, c *zkrecipes.Client) {
				// The cause of a context is not a server's answer, whichever error it is.
				reason := errors.Join(zk.ErrNodeExists, zk.ErrNoNode, zk.ErrSessionExpired)
				if when == "disconnected" {
					w.Away(c)
				} else {
					w.Plan.Add(zktest.Fault{Do: zktest.Delay, After: when == "after", Op: opShut, For: time.Second})
				}
				writes := harness.GoErr(t, g.Shut)
				synctest.Wait()
				writes.Cancel(reason)
				synctest.Wait()
				require.False(t, writes.Waiting(), "it does not wait for the reply")
				_, err := writes.Wait()
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, when != "disconnected", errors.Is(err, zkrecipes.ErrUncertain))
				w.Back()
				time.Sleep(time.Minute)
				isOpenTo(t, other, when == "disconnected")
			})
		})
	}
}

// Close leaves the gate shut, as its znode belongs to no session.
func TestCloseEndsTheWaitsAtAGateAndLeavesItShut(t *testing.T) {
	gates(t, func(t *testing.T, w *recipetest.World, g, other *zkrecipes.Gate, c *zkrecipes.Client) {
		require.NoError(t, g.Shut(t.Context()))
		waits := waitsAt(t, g)
		require.NoError(t, c.Close())
		require.NotErrorIs(t, recipetest.Fails(t, waits, zkrecipes.ErrClosed), context.Canceled)
		isOpenTo(t, other, false)
		for _, f := range []func(context.Context) error{g.Wait, g.Shut, g.Open, errOf(g.IsOpen)} {
			require.ErrorIs(t, f(t.Context()), zkrecipes.ErrClosed)
		}
	})
}

func TestGateWithoutPermissionIsAnErrorAtOnce(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		admin, c := w.Bare(), w.Stranger(nil)
		require.NoError(t, admin.AddAuth("digest", []byte("owner:x")))
		acl := func(perms int32) []zk.ACL {
			return append(zk.WorldACL(perms), zk.DigestACL(zk.PermAll, "owner", "x")...)
		}
		_, err := admin.Create("/a", nil, 0, acl(zk.PermRead))
		require.NoError(t, err)
		g := zkrecipes.NewGate(c, "/a/gate")
		require.ErrorIs(t, g.Shut(t.Context()), zk.ErrNoAuth)
		require.ErrorIs(t, zkrecipes.NewGate(c, "/a/below/gate").Shut(t.Context()), zk.ErrNoAuth)
		isOpenTo(t, g, true)
		_, err = admin.Create("/a/gate", nil, 0, acl(zk.PermAll&^zk.PermRead))
		require.NoError(t, err)
		require.ErrorIs(t, g.Wait(t.Context()), zk.ErrNoAuth)
		require.ErrorIs(t, g.Open(t.Context()), zk.ErrNoAuth)
	})
}

func TestAnIdentityTooLargeForAGateIsRefused(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		long := w.Stranger(&zkrecipes.Options{Identity: strings.Repeat("x", 1<<20)})
		require.Empty(t, w.Requests(func() {
			require.ErrorContains(t, zkrecipes.NewGate(long, "/gate").Shut(t.Context()), "servers accept 1048575")
		}))
		require.NoError(t, zkrecipes.NewGate(long, "/gate").Open(t.Context()), "the connection is untouched")
	})
}

// What refuses an attempt says nothing of the one before, whose reply was lost.
func TestAWriteThatIsRefusedAfterALostReplyIsUncertain(t *testing.T) {
	const badVersion, noNode, noAuth = -103, -101, -102
	shut := func(w *recipetest.World) func(context.Context) error {
		return zkrecipes.NewGate(w.Stranger(nil), "/p/gate").Shut
	}
	open := func(w *recipetest.World) func(context.Context) error {
		return zkrecipes.NewGate(w.Stranger(nil), "/p/gate").Open
	}
	resize := func(w *recipetest.World) func(context.Context) error {
		x := w.WarmSemaphore(2)
		return func(ctx context.Context) error { return x.Resize(ctx, 3) }
	}
	for name, tt := range map[string]struct {
		op     string
		call   func(w *recipetest.World) func(ctx context.Context) error
		code   int32
		reason error
	}{
		"shut, contended":   {opShut, shut, noNode, zkrecipes.ErrContended},
		"shut, refused":     {opShut, shut, noAuth, zk.ErrNoAuth},
		"open, refused":     {opOpen, open, noAuth, zk.ErrNoAuth},
		"resize, contended": {"multi", resize, badVersion, zkrecipes.ErrContended},
		"resize, refused":   {"multi", resize, noAuth, zk.ErrNoAuth},
	} {
		for _, lost := range []string{"reply", "request", "none"} {
			t.Run(name+", lost: "+lost, func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					harness.MakeParents(t, w.Bare(), "/p")
					call, first := tt.call(w), 0
					if lost != "none" {
						w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: lost == "reply", Op: tt.op})
						first = 1
					}
					w.Plan.Add(zktest.Fault{Do: zktest.Answer, Op: tt.op, Skip: first, Times: -1, Code: tt.code})
					w.Plan.Add(zktest.Fault{Do: zktest.Answer, Op: "setData", Times: -1, Code: tt.code}) // what Resize sends again
					err := call(harness.Within(t, time.Minute))
					require.ErrorIs(t, err, tt.reason)
					require.Equal(t, lost != "none", errors.Is(err, zkrecipes.ErrUncertain), "%v", err)
				})
			})
		}
	}
}

// A znode with children is a line, a queue or a user's own, so Open says that it is no gate.
func TestOpenOfAPathWithChildrenDeletesNothing(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		lease := recipetest.LockOn(t, zkrecipes.NewMutex(c, "/gate"))
		err := zkrecipes.NewGate(c, "/gate").Open(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
		require.ErrorIs(t, err, zk.ErrNotEmpty)
		require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
		require.EqualError(t, err, "zkrecipes: open /gate: path is in use by something else: the znode has children, so it is no gate: zk: node has children")
		require.NoError(t, lease.Release())
	})
}
