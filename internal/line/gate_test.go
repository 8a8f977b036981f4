package line_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const (
	opShut = "multi(create)"
	opOpen = "multi(delete)"
)

// isOpenTo requires that IsOpen returns want.
func isOpenTo(t testing.TB, g *zkrecipes.Gate, want bool) {
	t.Helper()
	open, err := g.IsOpen(harness.Within(t, time.Minute))
	require.NoError(t, err)
	require.Equal(t, want, open)
}

func TestRealA22GateLetsThroughWhenOpen(t *testing.T) {
	path := harness.NewPath(t)
	c := recipetest.Dial(t, nil)
	g, other := zkrecipes.NewGate(recipetest.Dial(t, nil), path), zkrecipes.NewGate(c, path)
	ctx := harness.Within(t, 20*time.Second)
	require.NoError(t, g.Wait(ctx))
	require.NoError(t, g.Shut(ctx))
	require.NoError(t, other.Shut(ctx), "it is shut already")
	isOpenTo(t, other, false)
	var waits []*harness.Call[struct{}]
	for range 5 {
		waits = append(waits, harness.GoErr(t, other.Wait), harness.GoErr(t, zkrecipes.NewGate(c, path).Wait))
	}
	recipetest.Sleeps(t, c, 1)
	for _, w := range waits {
		require.True(t, w.Waiting())
	}
	require.NoError(t, g.Open(ctx))
	for _, w := range waits {
		_, err := w.Wait()
		require.NoError(t, err)
	}
	require.NoError(t, other.Open(ctx), "it is open already")
	isOpenTo(t, other, true)
	require.Zero(t, recipetest.WatchesOf(c))
}

func TestA22WaitOnAnOpenGateReturnsAtOnceAndLeavesNoWatch(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		began := time.Now()
		require.NoError(t, zkrecipes.NewGate(c, "/no/such/gate").Wait(t.Context()))
		require.Zero(t, time.Since(began))
		require.Zero(t, recipetest.WatchesOf(c))
		require.Empty(t, w.Srv.Children("/no"))
	})
}

// The client's server, a follower, has not applied Shut yet.
func TestA22GateBehindALaggingFollowerLetsNobodyThroughWhileShut(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		guard := zkrecipes.NewGate(w.Stranger(nil), "/gate")
		looks, waits := zkrecipes.NewGate(w.Stranger(nil), "/gate"), zkrecipes.NewGate(w.Stranger(nil), "/gate")
		require.NoError(t, guard.Shut(t.Context()))
		isOpenTo(t, looks, false)
		passing := harness.GoErr(t, waits.Wait)
		synctest.Wait()
		require.True(t, passing.Waiting())
		require.NoError(t, guard.Open(t.Context()))
		_, err := passing.Wait()
		require.NoError(t, err)
		isOpenTo(t, looks, true)
	}, recipetest.Behind(1, 3))
}

// The client's server, a follower, sends the event of Open before it has applied the
// Shut that followed.
func TestA22GateOpenedAndShutAgainLetsNobodyThroughOnTheOldEvent(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		guard := zkrecipes.NewGate(w.Stranger(nil), "/gate")
		require.NoError(t, guard.Shut(t.Context()))
		c := w.Stranger(nil)
		waits := harness.GoErr(t, zkrecipes.NewGate(c, "/gate").Wait)
		synctest.Wait()
		s, _ := recipetest.Core(c).Session()
		watches := s.Inspect().Watches
		require.Len(t, watches, 1)
		first := watches[0]
		require.Equal(t, "/gate", first.Path)
		require.NoError(t, guard.Open(t.Context()))
		require.NoError(t, guard.Shut(t.Context()))
		time.Sleep(6 * time.Second) // the follower has applied both by now
		<-first.Fired()
		require.True(t, first.Deleted())
		require.True(t, waits.Waiting())
		require.NoError(t, guard.Open(t.Context()))
		_, err := waits.Wait()
		require.NoError(t, err)
	}, recipetest.Behind(1, 2))
}

func TestA22SpuriousWakeUpsOpenNoGate(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		g := zkrecipes.NewGate(c, "/gate")
		require.NoError(t, g.Shut(t.Context()))
		waits := harness.GoErr(t, g.Wait)
		synctest.Wait()
		for _, event := range []int32{jute.EventDataChanged, jute.EventDeleted} {
			recipetest.Spurious(c, "/gate", event)
			synctest.Wait()
			require.True(t, waits.Waiting())
		}
		// An event that is not spurious but opens nothing: an operator writes into the gate.
		_, err := w.Insider().Set("/gate", []byte("note"), -1)
		require.NoError(t, err)
		synctest.Wait()
		require.True(t, waits.Waiting())
		require.Equal(t, 1, recipetest.WatchesOf(c))
		require.NoError(t, g.Open(t.Context()))
		_, err = waits.Wait()
		require.NoError(t, err)
	})
}

func TestB01GateIsShutAndOpenedAlthoughRepliesAreLost(t *testing.T) {
	for name, after := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				g := zkrecipes.NewGate(w.Stranger(nil), "/gate")
				w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: opShut, Times: 2})
				require.Equal(t, 3, w.Requests(func() { require.NoError(t, g.Shut(t.Context())) })[opShut])
				require.Equal(t, []string{"gate", "zookeeper"}, w.Srv.Children("/"))
				w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: opOpen, Times: 2})
				require.Equal(t, 3, w.Requests(func() { require.NoError(t, g.Open(t.Context())) })[opOpen])
				require.Equal(t, []string{"zookeeper"}, w.Srv.Children("/"))
			})
		})
	}
}

// The session expires with the reply. The gate's znode belongs to no session.
func TestB10GateIsShutAndOpenedAlthoughTheSessionExpires(t *testing.T) {
	for name, after := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				g := zkrecipes.NewGate(w.Stranger(nil), "/gate")
				w.Plan.Add(zktest.Fault{Do: zktest.Expire, After: after, Op: opShut})
				require.NoError(t, g.Shut(t.Context()))
				require.Equal(t, []string{"gate", "zookeeper"}, w.Srv.Children("/"))
				w.Plan.Add(zktest.Fault{Do: zktest.Expire, After: after, Op: opOpen})
				require.NoError(t, g.Open(t.Context()))
				require.Equal(t, []string{"zookeeper"}, w.Srv.Children("/"))
			})
		})
	}
}

// The context ends before the request is sent, while it is in flight, or before its
// reply. The outcome is uncertain only if the request was sent.
func TestB32ShutAndOpenWhoseContextEndsAreUncertainOnlyOnceSent(t *testing.T) {
	reason := errors.New("enough")
	for op, f := range map[string]func(*zkrecipes.Gate, context.Context) error{
		opShut: (*zkrecipes.Gate).Shut,
		opOpen: (*zkrecipes.Gate).Open,
	} {
		for name, after := range map[string]bool{"before": false, "after": true} {
			t.Run(op+" "+name, func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					g, other := zkrecipes.NewGate(w.Stranger(nil), "/gate"), zkrecipes.NewGate(w.Stranger(nil), "/gate")
					if op == opOpen {
						require.NoError(t, other.Shut(t.Context()))
					}
					w.Plan.Add(zktest.Fault{Do: zktest.Delay, After: after, Op: op, For: time.Second})
					writes := harness.GoErr(t, func(ctx context.Context) error { return f(g, ctx) })
					synctest.Wait()
					writes.Cancel(reason)
					synctest.Wait()
					require.False(t, writes.Waiting(), "it does not wait for the reply")
					_, err := writes.Wait()
					require.ErrorIs(t, err, zkrecipes.ErrUncertain)
					require.ErrorIs(t, err, context.Canceled)
					require.ErrorIs(t, err, reason)
					time.Sleep(2 * time.Second)
					isOpenTo(t, other, op == opOpen) // it was carried out, in fact
				})
			})
		}
		t.Run(op+" while disconnected", func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c := w.Stranger(nil)
				w.Away(c)
				writes := harness.GoErr(t, func(ctx context.Context) error { return f(zkrecipes.NewGate(c, "/gate"), ctx) })
				synctest.Wait()
				// The cause of a context is not a server's answer, whichever error it is.
				writes.Cancel(errors.Join(zk.ErrNodeExists, zk.ErrNoNode, zk.ErrSessionExpired))
				_, err := writes.Wait()
				require.ErrorIs(t, err, context.Canceled)
				require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
				requests := w.Requests(func() { w.Back(); time.Sleep(time.Minute) })
				require.Zero(t, requests[op], "it is not sent later")
			})
		})
	}
}

// Close leaves the gate shut, as its znode belongs to no session.
func TestB35CloseEndsTheWaitsAtAGateAndLeavesItShut(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		g, other := zkrecipes.NewGate(c, "/gate"), zkrecipes.NewGate(w.Stranger(nil), "/gate")
		require.NoError(t, g.Shut(t.Context()))
		waits := harness.GoErr(t, g.Wait)
		synctest.Wait()
		require.NoError(t, c.Close())
		_, err := waits.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		require.NotErrorIs(t, err, context.Canceled)
		isOpenTo(t, other, false)
		for _, f := range []func(context.Context) error{g.Wait, g.Shut, g.Open} {
			require.ErrorIs(t, f(t.Context()), zkrecipes.ErrClosed)
		}
		_, err = g.IsOpen(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
	})
}

func TestB36GateWithoutPermissionIsAnErrorAtOnce(t *testing.T) {
	ctx, path, admin := harness.Within(t, 20*time.Second), harness.NewPath(t), harness.Raw(t)
	require.NoError(t, admin.AddAuth("digest", []byte("owner:x")))
	acl := func(perms int32) []zk.ACL {
		return append(zk.WorldACL(perms), zk.DigestACL(zk.PermAll, "owner", "x")...)
	}
	harness.MakeParents(t, admin, path)
	g := zkrecipes.NewGate(recipetest.Dial(t, nil), path+"/gate")

	_, err := admin.SetACL(path, acl(zk.PermRead), -1)
	require.NoError(t, err)
	require.ErrorIs(t, g.Shut(ctx), zk.ErrNoAuth)
	require.ErrorIs(t, zkrecipes.NewGate(recipetest.ClientOf(recipetest.LineOf(g).Client), path+"/below/gate").Shut(ctx), zk.ErrNoAuth)
	isOpenTo(t, g, true)

	_, err = admin.Create(path+"/gate", nil, 0, acl(zk.PermAll&^zk.PermRead))
	require.NoError(t, err)
	require.ErrorIs(t, g.Wait(ctx), zk.ErrNoAuth)
	require.ErrorIs(t, g.Open(ctx), zk.ErrNoAuth)
}

func TestB37GateRetriesOnABusyServerAndReportsAnExceededQuota(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		g := zkrecipes.NewGate(w.Stranger(nil), "/gate")
		for _, after := range []bool{false, true} {
			for _, code := range []int32{jute.ErrOperationTimeout, jute.ErrConnectionLoss, jute.ErrThrottled} {
				for _, op := range []string{opShut, opOpen, "getData", "exists", "sync"} {
					w.Plan.Add(zktest.Fault{Do: zktest.Answer, After: after, Op: op, Code: code, Times: 3})
				}
				require.NoError(t, g.Shut(t.Context()))
				isOpenTo(t, g, false)
				waits := harness.GoErr(t, g.Wait)
				synctest.Wait()
				require.NoError(t, g.Open(t.Context()))
				_, err := waits.Wait()
				require.NoError(t, err)
				isOpenTo(t, g, true)
			}
		}
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Op: opShut, Code: jute.ErrQuotaExceeded})
		require.ErrorContains(t, g.Shut(t.Context()), "quota exceeded")
		isOpenTo(t, g, true)
	})
}

func TestB39InvalidGatePathsAreErrors(t *testing.T) {
	ctx, c, conn := harness.Within(t, 20*time.Second), recipetest.Dial(t, nil), harness.Raw(t)
	for path, why := range recipetest.BadPaths {
		require.EqualError(t, zkrecipes.NewGate(c, path).Shut(ctx), why("shut"))
		require.EqualError(t, zkrecipes.NewGate(c, path).Open(ctx), why("open"))
		require.EqualError(t, zkrecipes.NewGate(c, path).Wait(ctx), why("wait"))
		_, err := zkrecipes.NewGate(c, path).IsOpen(ctx)
		require.EqualError(t, err, why("look at"))
	}
	path := harness.NewPath(t)
	harness.MakeParents(t, conn, zkconn.Parent(path))
	_, err := conn.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	require.ErrorIs(t, zkrecipes.NewGate(c, path+"/gate").Shut(ctx), zk.ErrNoChildrenForEphemerals)
}

func TestB40AZeroGateIsAnError(t *testing.T) {
	var none context.Context
	var nilGate *zkrecipes.Gate
	ctx := harness.Within(t, 20*time.Second)
	for g, want := range map[*zkrecipes.Gate]string{
		nilGate:                      `"": not made by its constructor`,
		{}:                           `"": not made by its constructor`,
		zkrecipes.NewGate(nil, "/g"): `/g: nil client`,
		zkrecipes.NewGate(&zkrecipes.Client{}, "/g"): `/g: client was not made by Dial`,
	} {
		require.ErrorContains(t, g.Shut(ctx), "zkrecipes: shut "+want)
		require.ErrorContains(t, g.Open(ctx), "zkrecipes: open "+want)
		require.ErrorContains(t, g.Wait(ctx), "zkrecipes: wait "+want)
		_, err := g.IsOpen(ctx)
		require.ErrorContains(t, err, "zkrecipes: look at "+want)
	}
	g := zkrecipes.NewGate(recipetest.Dial(t, nil), "/g")
	require.ErrorContains(t, g.Shut(none), "nil context")
	require.ErrorContains(t, g.Open(none), "nil context")
	require.ErrorContains(t, g.Wait(none), "nil context")
	_, err := g.IsOpen(none)
	require.ErrorContains(t, err, "nil context")
}

// A znode with children is not a gate but somebody's tree.
func TestB48OpenDeletesNoTree(t *testing.T) {
	ctx, path, conn := harness.Within(t, 20*time.Second), harness.NewPath(t), harness.Raw(t)
	harness.MakeParents(t, conn, path+"/child")
	require.ErrorIs(t, zkrecipes.NewGate(recipetest.Dial(t, nil), path).Open(ctx), zk.ErrNotEmpty)
	require.Equal(t, []string{"child"}, harness.Children(t, conn, path))
}

func TestB52GateWithAnIdentityAboveTheLimitIsRefused(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(&zkrecipes.Options{Identity: strings.Repeat("x", 1<<20)})
		requests := w.Requests(func() {
			require.ErrorContains(t, zkrecipes.NewGate(c, "/gate").Shut(t.Context()), "servers accept 1048575")
		})
		require.Empty(t, requests)
		require.NoError(t, zkrecipes.NewGate(c, "/gate").Open(t.Context()), "the connection is untouched")
	})
}

// A gate works under a prefix that does not exist yet, and with Curator's
// DistributedBarrier: either library may create and delete the znode.
func TestA22GateIsAPersistentZnodeUnderThePrefix(t *testing.T) {
	ctx, path, conn := harness.Within(t, 20*time.Second), harness.NewPath(t), harness.Raw(t)
	g := zkrecipes.NewGate(recipetest.Dial(t, &zkrecipes.Options{Prefix: path, Identity: "me"}), "/deep/gate")
	isOpenTo(t, g, true)
	require.NoError(t, g.Shut(ctx))
	data, stat, err := conn.Get(path + "/deep/gate")
	require.NoError(t, err)
	require.Equal(t, "zkrecipes/1 gate me", string(data))
	require.Zero(t, stat.EphemeralOwner)
	require.NoError(t, conn.Delete(path+"/deep/gate", -1)) // Curator's removeBarrier
	require.NoError(t, g.Wait(ctx))
	_, err = conn.Create(path+"/deep/gate", nil, 0, zk.WorldACL(zk.PermAll)) // its setBarrier
	require.NoError(t, err)
	isOpenTo(t, g, false)
	require.NoError(t, g.Open(ctx))
}

// What refuses an attempt says nothing of the one before, whose reply was lost.
func TestAWriteThatIsRefusedAfterALostReplyIsUncertain(t *testing.T) {
	const badVersion, noNode, noAuth = -103, -101, -102
	for name, c := range map[string]struct {
		op     string
		call   func(w *recipetest.World) func(ctx context.Context) error
		code   int32
		reason error
	}{
		"shut, contended": {opShut, func(w *recipetest.World) func(context.Context) error {
			return zkrecipes.NewGate(w.Stranger(nil), "/p/gate").Shut
		}, noNode, zkrecipes.ErrContended},
		"shut, refused": {opShut, func(w *recipetest.World) func(context.Context) error {
			return zkrecipes.NewGate(w.Stranger(nil), "/p/gate").Shut
		}, noAuth, zk.ErrNoAuth},
		"open, refused": {opOpen, func(w *recipetest.World) func(context.Context) error {
			return zkrecipes.NewGate(w.Stranger(nil), "/p/gate").Open
		}, noAuth, zk.ErrNoAuth},
		"resize, contended": {"multi", resizeTo3, badVersion, zkrecipes.ErrContended},
		"resize, refused":   {"multi", resizeTo3, noAuth, zk.ErrNoAuth},
	} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", applied: ", after), func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					harness.MakeParents(t, w.Bare(), "/p")
					call := c.call(w)
					w.Plan.Add(
						zktest.Fault{Do: zktest.Drop, After: after, Op: c.op},
						zktest.Fault{Do: zktest.Answer, Op: c.op, Skip: 1, Times: -1, Code: c.code})
					err := call(harness.Within(t, time.Minute))
					require.ErrorIs(t, err, c.reason)
					require.ErrorIs(t, err, zkrecipes.ErrUncertain)
				})
			})
		}
		t.Run(name+", at once", func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				harness.MakeParents(t, w.Bare(), "/p")
				call := c.call(w)
				w.Plan.Add(zktest.Fault{Do: zktest.Answer, Op: c.op, Times: -1, Code: c.code})
				err := call(harness.Within(t, time.Minute))
				require.ErrorIs(t, err, c.reason)
				require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
			})
		})
	}
}

func resizeTo3(w *recipetest.World) func(context.Context) error {
	x := w.WarmSemaphore(2)
	return func(ctx context.Context) error { return x.Resize(ctx, 3) }
}

// A znode with children is a line, a queue or a user's own, so Open says that it is no gate.
func TestOpenOfAPathWithChildrenDeletesNothing(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		lease := recipetest.LockOn(t, zkrecipes.NewMutex(c, "/gate"))
		err := zkrecipes.NewGate(c, "/gate").Open(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
		require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
		require.EqualError(t, err, "zkrecipes: open /gate: the znode has children, so it is no gate")
		require.NoError(t, lease.Release())
	})
}
