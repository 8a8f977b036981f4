package zkrecipes

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

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/wire"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const (
	opShut = "multi(create)"
	opOpen = "multi(delete)"
)

// spurious delivers an event to a client although nothing has changed.
func spurious(c *Client, path string, event int32) {
	s, _ := c.client.Session()
	s.OnEvent(wire.Event{Type: event, Path: path})
}

// isOpenTo requires that IsOpen returns want.
func isOpenTo(t testing.TB, g *Gate, want bool) {
	t.Helper()
	open, err := g.IsOpen(harness.Within(t, time.Minute))
	require.NoError(t, err)
	require.Equal(t, want, open)
}

func TestRealA22GateLetsThroughWhenOpen(t *testing.T) {
	path := harness.NewPath(t)
	c := dial(t, nil)
	g, other := NewGate(dial(t, nil), path), NewGate(c, path)
	ctx := harness.Within(t, 20*time.Second)
	require.NoError(t, g.Wait(ctx))
	require.NoError(t, g.Shut(ctx))
	require.NoError(t, other.Shut(ctx), "it is shut already")
	isOpenTo(t, other, false)
	var waits []*harness.Call[struct{}]
	for range 5 {
		waits = append(waits, harness.GoErr(t, other.Wait), harness.GoErr(t, NewGate(c, path).Wait))
	}
	sleeps(t, c, 1)
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
	require.Zero(t, watchesOf(c))
}

func TestA22WaitOnAnOpenGateReturnsAtOnceAndLeavesNoWatch(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		began := time.Now()
		requests := w.requests(func() {
			require.NoError(t, NewGate(c, "/no/such/gate").Wait(t.Context()))
		})
		require.Zero(t, time.Since(began))
		require.Equal(t, map[string]int{"getData": 1, "sync": 1, "exists": 1}, requests)
		require.Zero(t, watchesOf(c))
		require.Empty(t, w.srv.Children("/no"))
	})
}

// The client's server, a follower, has not applied Shut yet.
func TestA22GateBehindALaggingFollowerLetsNobodyThroughWhileShut(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		guard := NewGate(w.stranger(nil), "/gate")
		looks, waits := NewGate(w.stranger(nil), "/gate"), NewGate(w.stranger(nil), "/gate")
		require.NoError(t, guard.Shut(t.Context()))
		isOpenTo(t, looks, false)
		passing := harness.GoErr(t, waits.Wait)
		synctest.Wait()
		require.True(t, passing.Waiting())
		require.NoError(t, guard.Open(t.Context()))
		_, err := passing.Wait()
		require.NoError(t, err)
		isOpenTo(t, looks, true)
	}, behind(1, 3))
}

// The client's server, a follower, sends the event of Open before it has applied the
// Shut that followed.
func TestA22GateOpenedAndShutAgainLetsNobodyThroughOnTheOldEvent(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		guard := NewGate(w.stranger(nil), "/gate")
		require.NoError(t, guard.Shut(t.Context()))
		c := w.stranger(nil)
		waits := harness.GoErr(t, NewGate(c, "/gate").Wait)
		synctest.Wait()
		s, _ := c.client.Session()
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
	}, behind(1, 2))
}

func TestA22SpuriousWakeUpsOpenNoGate(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		g := NewGate(c, "/gate")
		require.NoError(t, g.Shut(t.Context()))
		waits := harness.GoErr(t, g.Wait)
		synctest.Wait()
		for _, event := range []int32{jute.EventDataChanged, jute.EventDeleted} {
			spurious(c, "/gate", event)
			synctest.Wait()
			require.True(t, waits.Waiting())
		}
		// An event that is not spurious but opens nothing: an operator writes into the gate.
		_, err := w.insider().Set("/gate", []byte("note"), -1)
		require.NoError(t, err)
		synctest.Wait()
		require.True(t, waits.Waiting())
		require.Equal(t, 1, watchesOf(c))
		require.NoError(t, g.Open(t.Context()))
		_, err = waits.Wait()
		require.NoError(t, err)
	})
}

func TestA22GateWaitsThroughTheEndOfTheSession(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		guard, c := NewGate(w.stranger(nil), "/gate"), w.stranger(nil)
		require.NoError(t, guard.Shut(t.Context()))
		waits := harness.GoErr(t, NewGate(c, "/gate").Wait)
		synctest.Wait()
		require.True(t, w.srv.Expire(sessionID(c)))
		time.Sleep(time.Second)
		require.True(t, waits.Waiting())
		require.NoError(t, guard.Open(t.Context()))
		_, err := waits.Wait()
		require.NoError(t, err)
	})
}

func TestB01GateIsShutAndOpenedAlthoughRepliesAreLost(t *testing.T) {
	for name, after := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				g := NewGate(w.stranger(nil), "/gate")
				w.plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: opShut, Times: 2})
				require.Equal(t, 3, w.requests(func() { require.NoError(t, g.Shut(t.Context())) })[opShut])
				require.Equal(t, []string{"gate", "zookeeper"}, w.srv.Children("/"))
				w.plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: opOpen, Times: 2})
				require.Equal(t, 3, w.requests(func() { require.NoError(t, g.Open(t.Context())) })[opOpen])
				require.Equal(t, []string{"zookeeper"}, w.srv.Children("/"))
			})
		})
	}
}

// The session expires with the reply. The gate's znode belongs to no session.
func TestB10GateIsShutAndOpenedAlthoughTheSessionExpires(t *testing.T) {
	for name, after := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				g := NewGate(w.stranger(nil), "/gate")
				w.plan.Add(zktest.Fault{Do: zktest.Expire, After: after, Op: opShut})
				require.NoError(t, g.Shut(t.Context()))
				require.Equal(t, []string{"gate", "zookeeper"}, w.srv.Children("/"))
				w.plan.Add(zktest.Fault{Do: zktest.Expire, After: after, Op: opOpen})
				require.NoError(t, g.Open(t.Context()))
				require.Equal(t, []string{"zookeeper"}, w.srv.Children("/"))
			})
		})
	}
}

func TestB19GateThatOpensBetweenTheLookAndTheWatchLetsThrough(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g, guard := NewGate(w.stranger(nil), "/gate"), NewGate(w.stranger(nil), "/gate")
		require.NoError(t, guard.Shut(t.Context()))
		for _, after := range []bool{false, true} {
			w.plan.Add(zktest.Fault{Do: zktest.Delay, After: after, Op: "getData", Path: "/gate", For: time.Second})
			waits := harness.GoErr(t, g.Wait)
			synctest.Wait()
			require.NoError(t, guard.Open(t.Context()))
			_, err := waits.Wait()
			require.NoError(t, err)
			require.NoError(t, guard.Shut(t.Context()))
		}
	})
}

func TestB21GateOpenedWhileDisconnectedLetsThroughAfterTheReconnect(t *testing.T) {
	r := newRig(t, nil)
	guard := NewGate(dial(t, nil), r.path+"-gate")
	require.NoError(t, guard.Shut(r.ctx))
	waits := harness.GoErr(t, NewGate(r.c, r.path+"-gate").Wait)
	sleeps(t, r.c, 1)
	r.p.Refuse(true)
	require.NoError(t, guard.Open(r.ctx))
	require.True(t, waits.Waiting())
	r.p.Refuse(false)
	_, err := waits.Wait()
	require.NoError(t, err)
}

// The context ends before the request is sent, while it is in flight, or before its
// reply. The outcome is uncertain only if the request was sent.
func TestB32ShutAndOpenWhoseContextEndsAreUncertainOnlyOnceSent(t *testing.T) {
	reason := errors.New("enough")
	for op, f := range map[string]func(*Gate, context.Context) error{
		opShut: (*Gate).Shut,
		opOpen: (*Gate).Open,
	} {
		for name, after := range map[string]bool{"before": false, "after": true} {
			t.Run(op+" "+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					g, other := NewGate(w.stranger(nil), "/gate"), NewGate(w.stranger(nil), "/gate")
					if op == opOpen {
						require.NoError(t, other.Shut(t.Context()))
					}
					w.plan.Add(zktest.Fault{Do: zktest.Delay, After: after, Op: op, For: time.Second})
					writes := harness.GoErr(t, func(ctx context.Context) error { return f(g, ctx) })
					synctest.Wait()
					writes.Cancel(reason)
					synctest.Wait()
					require.False(t, writes.Waiting(), "it does not wait for the reply")
					_, err := writes.Wait()
					require.ErrorIs(t, err, ErrUncertain)
					require.ErrorIs(t, err, context.Canceled)
					require.ErrorIs(t, err, reason)
					time.Sleep(2 * time.Second)
					isOpenTo(t, other, op == opOpen) // it was carried out, in fact
				})
			})
		}
		t.Run(op+" while disconnected", func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.stranger(nil)
				w.away(c)
				writes := harness.GoErr(t, func(ctx context.Context) error { return f(NewGate(c, "/gate"), ctx) })
				synctest.Wait()
				// The cause of a context is not a server's answer, whichever error it is.
				writes.Cancel(errors.Join(zk.ErrNodeExists, zk.ErrNoNode, zk.ErrSessionExpired))
				_, err := writes.Wait()
				require.ErrorIs(t, err, context.Canceled)
				require.NotErrorIs(t, err, ErrUncertain)
				requests := w.requests(func() { w.back(); time.Sleep(time.Minute) })
				require.Zero(t, requests[op], "it is not sent later")
			})
		})
	}
}

func TestB32WaitAtAGateWhoseContextEndsDoesNotPass(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		g := NewGate(c, "/gate")
		require.NoError(t, g.Shut(t.Context()))
		var waits *harness.Call[struct{}]
		for i, fault := range []zktest.Fault{
			{}, // while it waits
			{Do: zktest.Delay, Op: "getData", For: time.Second},
			{Do: zktest.Delay, Op: "getData", For: time.Second, After: true},
		} {
			if fault.Do != "" {
				c = w.stranger(nil) // the first client has its watch already
				g = NewGate(c, "/gate")
				w.plan.Add(fault)
			}
			waits = harness.GoErr(t, g.Wait)
			synctest.Wait()
			waits.Cancel(zk.ErrNoNode)
			synctest.Wait()
			require.False(t, waits.Waiting(), i)
			_, err := waits.Wait()
			require.ErrorIs(t, err, context.Canceled)
		}
		// The watch that the client has is used again.
		time.Sleep(2 * time.Second)
		requests := w.requests(func() {
			for range 1000 {
				waits = harness.GoErr(t, g.Wait)
				synctest.Wait()
				waits.Cancel(nil)
				_, err := waits.Wait()
				require.ErrorIs(t, err, context.Canceled)
			}
		})
		require.Empty(t, requests)
		require.Equal(t, 1, watchesOf(c))
	})
}

// Close leaves the gate shut, as its znode belongs to no session.
func TestB35CloseEndsTheWaitsAtAGateAndLeavesItShut(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		g, other := NewGate(c, "/gate"), NewGate(w.stranger(nil), "/gate")
		require.NoError(t, g.Shut(t.Context()))
		waits := harness.GoErr(t, g.Wait)
		synctest.Wait()
		require.NoError(t, c.Close())
		_, err := waits.Wait()
		require.ErrorIs(t, err, ErrClosed)
		require.NotErrorIs(t, err, context.Canceled)
		isOpenTo(t, other, false)
		for _, f := range []func(context.Context) error{g.Wait, g.Shut, g.Open} {
			require.ErrorIs(t, f(t.Context()), ErrClosed)
		}
		_, err = g.IsOpen(t.Context())
		require.ErrorIs(t, err, ErrClosed)
	})
}

func TestB36GateWithoutPermissionIsAnErrorAtOnce(t *testing.T) {
	ctx, path, admin := harness.Within(t, 20*time.Second), harness.NewPath(t), harness.Raw(t)
	require.NoError(t, admin.AddAuth("digest", []byte("owner:x")))
	acl := func(perms int32) []zk.ACL {
		return append(zk.WorldACL(perms), zk.DigestACL(zk.PermAll, "owner", "x")...)
	}
	harness.MakeParents(t, admin, path)
	g := NewGate(dial(t, nil), path+"/gate")

	_, err := admin.SetACL(path, acl(zk.PermRead), -1)
	require.NoError(t, err)
	require.ErrorIs(t, g.Shut(ctx), zk.ErrNoAuth)
	require.ErrorIs(t, NewGate(&Client{g.line.Client}, path+"/below/gate").Shut(ctx), zk.ErrNoAuth)
	isOpenTo(t, g, true)

	_, err = admin.Create(path+"/gate", nil, 0, acl(zk.PermAll&^zk.PermRead))
	require.NoError(t, err)
	require.ErrorIs(t, g.Wait(ctx), zk.ErrNoAuth)
	require.ErrorIs(t, g.Open(ctx), zk.ErrNoAuth)
}

func TestB37GateRetriesOnABusyServerAndReportsAnExceededQuota(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := NewGate(w.stranger(nil), "/gate")
		for _, after := range []bool{false, true} {
			for _, code := range []int32{jute.ErrOperationTimeout, jute.ErrConnectionLoss, jute.ErrThrottled} {
				for _, op := range []string{opShut, opOpen, "getData", "exists", "sync"} {
					w.plan.Add(zktest.Fault{Do: zktest.Answer, After: after, Op: op, Code: code, Times: 3})
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
		w.plan.Add(zktest.Fault{Do: zktest.Answer, Op: opShut, Code: jute.ErrQuotaExceeded})
		require.ErrorContains(t, g.Shut(t.Context()), "quota exceeded")
		isOpenTo(t, g, true)
	})
}

func TestB39InvalidGatePathsAreErrors(t *testing.T) {
	ctx, c, conn := harness.Within(t, 20*time.Second), dial(t, nil), harness.Raw(t)
	for path, why := range badPaths {
		require.EqualError(t, NewGate(c, path).Shut(ctx), why("shut"))
		require.EqualError(t, NewGate(c, path).Open(ctx), why("open"))
		require.EqualError(t, NewGate(c, path).Wait(ctx), why("wait"))
		_, err := NewGate(c, path).IsOpen(ctx)
		require.EqualError(t, err, why("look at"))
	}
	path := harness.NewPath(t)
	harness.MakeParents(t, conn, zkconn.Parent(path))
	_, err := conn.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	require.ErrorIs(t, NewGate(c, path+"/gate").Shut(ctx), zk.ErrNoChildrenForEphemerals)
}

// badPaths maps invalid paths to functions that return an operation's error.
var badPaths = func() map[string]func(op string) string {
	all := map[string]func(string) string{}
	for path, why := range map[string]string{
		"":      `"": path is empty`,
		"b":     `b: path does not begin with "/"`,
		"/":     `/: path is the root`,
		"/b/":   `/b/: path ends with "/"`,
		"/a//b": `/a//b: path contains "//"`,
		"/a/./": `/a/./: path ends with "/"`,
		"/a/.":  `/a/.: path contains the relative element "."`,
		"/\x00": `"/\x00": path contains the character U+0000 at byte 1`,
	} {
		all[path] = func(op string) string { return "zkrecipes: " + op + " " + why }
	}
	return all
}()

func TestB40AZeroGateIsAnError(t *testing.T) {
	var none context.Context
	var nilGate *Gate
	ctx := harness.Within(t, 20*time.Second)
	for g, want := range map[*Gate]string{
		nilGate:                  `"": not made by its constructor`,
		{}:                       `"": not made by its constructor`,
		NewGate(nil, "/g"):       `/g: nil client`,
		NewGate(&Client{}, "/g"): `/g: client was not made by Dial`,
	} {
		require.ErrorContains(t, g.Shut(ctx), "zkrecipes: shut "+want)
		require.ErrorContains(t, g.Open(ctx), "zkrecipes: open "+want)
		require.ErrorContains(t, g.Wait(ctx), "zkrecipes: wait "+want)
		_, err := g.IsOpen(ctx)
		require.ErrorContains(t, err, "zkrecipes: look at "+want)
	}
	g := NewGate(dial(t, nil), "/g")
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
	require.ErrorIs(t, NewGate(dial(t, nil), path).Open(ctx), zk.ErrNotEmpty)
	require.Equal(t, []string{"child"}, harness.Children(t, conn, path))
}

func TestB52GateWithAnIdentityAboveTheLimitIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(&Options{Identity: strings.Repeat("x", 1<<20)})
		requests := w.requests(func() {
			require.ErrorContains(t, NewGate(c, "/gate").Shut(t.Context()), "servers accept 1048575")
		})
		require.Empty(t, requests)
		require.NoError(t, NewGate(c, "/gate").Open(t.Context()), "the connection is untouched")
	})
}

// A gate works under a prefix that does not exist yet, and with Curator's
// DistributedBarrier: either library may create and delete the znode.
func TestA22GateIsAPersistentZnodeUnderThePrefix(t *testing.T) {
	ctx, path, conn := harness.Within(t, 20*time.Second), harness.NewPath(t), harness.Raw(t)
	g := NewGate(dial(t, &Options{Prefix: path, Identity: "me"}), "/deep/gate")
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
		call   func(w *world) func(ctx context.Context) error
		code   int32
		reason error
	}{
		"shut, contended":   {opShut, func(w *world) func(context.Context) error { return NewGate(w.stranger(nil), "/p/gate").Shut }, noNode, ErrContended},
		"shut, refused":     {opShut, func(w *world) func(context.Context) error { return NewGate(w.stranger(nil), "/p/gate").Shut }, noAuth, zk.ErrNoAuth},
		"open, refused":     {opOpen, func(w *world) func(context.Context) error { return NewGate(w.stranger(nil), "/p/gate").Open }, noAuth, zk.ErrNoAuth},
		"resize, contended": {"multi", resizeTo3, badVersion, ErrContended},
		"resize, refused":   {"multi", resizeTo3, noAuth, zk.ErrNoAuth},
	} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", applied: ", after), func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					harness.MakeParents(t, w.bare(), "/p")
					call := c.call(w)
					w.plan.Add(
						zktest.Fault{Do: zktest.Drop, After: after, Op: c.op},
						zktest.Fault{Do: zktest.Answer, Op: c.op, Skip: 1, Times: -1, Code: c.code})
					err := call(harness.Within(t, time.Minute))
					require.ErrorIs(t, err, c.reason)
					require.ErrorIs(t, err, ErrUncertain)
				})
			})
		}
		t.Run(name+", at once", func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				harness.MakeParents(t, w.bare(), "/p")
				call := c.call(w)
				w.plan.Add(zktest.Fault{Do: zktest.Answer, Op: c.op, Times: -1, Code: c.code})
				err := call(harness.Within(t, time.Minute))
				require.ErrorIs(t, err, c.reason)
				require.NotErrorIs(t, err, ErrUncertain)
			})
		})
	}
}

func resizeTo3(w *world) func(context.Context) error {
	x := w.warmSemaphore(2)
	return func(ctx context.Context) error { return x.Resize(ctx, 3) }
}
