package zkrecipes

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Bad input to a DoubleBarrier, and operations that the server refuses.

func TestB36DoubleBarrierWithoutTheRightsIsAnErrorAtOnce(t *testing.T) {
	ctx, path, admin := harness.Within(t, 30*time.Second), harness.NewPath(t), harness.Raw(t)
	require.NoError(t, admin.AddAuth("digest", []byte("owner:x")))
	restrict := func(path string, perms int32) {
		_, err := admin.SetACL(path, append(zk.WorldACL(perms), zk.DigestACL(zk.PermAll, "owner", "x")...), -1)
		require.NoError(t, err)
	}
	try := func() error { _, err := NewDoubleBarrier(dial(t, nil), path, 2).Enter(ctx); return err }
	harness.MakeParents(t, admin, parent(path))
	restrict(parent(path), zk.PermRead)
	require.ErrorIs(t, try(), zk.ErrNoAuth, "the path cannot be made")
	restrict(parent(path), zk.PermAll)

	c := dial(t, nil)
	waiting := enter(t, NewDoubleBarrier(c, path, 2))
	watching(t, c, 1)
	for perms, what := range map[int32]string{
		zk.PermAll &^ zk.PermCreate: "no member",
		zk.PermAll &^ zk.PermRead:   "no listing",
	} {
		restrict(path, perms)
		require.ErrorIs(t, try(), zk.ErrNoAuth, what)
		restrict(path, zk.PermAll)
		harness.Eventually(t, "one member", func() bool { return len(harness.Children(t, admin, path)) == 1 })
	}
	restrict(path, zk.PermAll&^zk.PermWrite)
	require.ErrorContains(t, try(), "the znode may not be written")
	restrict(path, zk.PermAll)
	harness.Eventually(t, "one member", func() bool { return len(harness.Children(t, admin, path)) == 1 })
	require.True(t, waiting.Waiting())
	leaveAll(t, visits(t, waiting, enter(t, NewDoubleBarrier(dial(t, nil), path, 2)))...)
}

func TestB37DoubleBarrierOnABusyServer(t *testing.T) {
	for name, after := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				for _, code := range []int32{jute.ErrOperationTimeout, jute.ErrConnectionLoss, jute.ErrThrottled} {
					for _, op := range []string{opEnter, opOpenAll, opLastLeaves, "multi(delete)", "createContainer", "getData", "exists", "getChildren2", "sync"} {
						w.plan.Add(zktest.Fault{Do: zktest.Answer, After: after, Op: op, Code: code, Times: 3})
					}
					for range 2 {
						leaveAll(t, visits(t, enter(t, couple(w.stranger(nil))), enter(t, couple(w.stranger(nil))))...)
					}
					synctest.Wait()
					require.Empty(t, w.srv.Children("/d"))
				}
			})
		})
	}
}

func TestB37DoubleBarrierBeyondTheQuotaIsAnErrorAtOnce(t *testing.T) {
	for _, op := range []string{opEnter, opOpenAll} {
		t.Run(op, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				first := enter(t, couple(w.stranger(nil)))
				synctest.Wait()
				w.plan.Add(zktest.Fault{Do: zktest.Answer, Op: op, Code: jute.ErrQuotaExceeded})
				_, err := couple(w.stranger(nil)).Enter(t.Context())
				require.ErrorContains(t, err, "quota exceeded")
				synctest.Wait()
				require.Len(t, w.inside(), 1)
				leaveAll(t, visits(t, first, enter(t, couple(w.stranger(nil))))...)
			})
		})
	}
}

func TestB39DoubleBarrierPathsThatAreNone(t *testing.T) {
	ctx, c, conn := harness.Within(t, 20*time.Second), dial(t, nil), harness.Raw(t)
	for path, why := range badPaths {
		_, err := NewDoubleBarrier(c, path, 2).Enter(ctx)
		require.EqualError(t, err, why("enter"))
	}
	path := harness.NewPath(t)
	harness.MakeParents(t, conn, parent(path))
	_, err := conn.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	for _, path := range []string{path, path + "/below"} {
		_, err = NewDoubleBarrier(c, path, 2).Enter(ctx)
		require.ErrorIs(t, err, zk.ErrNoChildrenForEphemerals)
	}
}

func TestB40ADoubleBarrierThatIsNone(t *testing.T) {
	var none context.Context
	var nilBarrier *DoubleBarrier
	ctx := harness.Within(t, 20*time.Second)
	c := dial(t, nil)
	for d, want := range map[*DoubleBarrier]string{
		nilBarrier:                           `"": not made by its constructor`,
		{}:                                   `"": not made by its constructor`,
		NewDoubleBarrier(nil, "/d", 2):       `/d: nil client`,
		NewDoubleBarrier(&Client{}, "/d", 2): `/d: client was not made by Dial`,
		NewDoubleBarrier(c, "/d", 0):         `/d: a double barrier of 0 members`,
		NewDoubleBarrier(c, "/d", -1):        `/d: a double barrier of -1 members`,
	} {
		v, err := d.Enter(ctx)
		require.Nil(t, v)
		require.ErrorContains(t, err, "zkrecipes: enter "+want)
	}
	_, err := NewDoubleBarrier(c, "/d", 2).Enter(none)
	require.EqualError(t, err, "zkrecipes: enter /d: nil context")
	var nilVisit *Visit
	require.EqualError(t, nilVisit.Leave(ctx), `zkrecipes: leave "": not made by Enter`)
	require.EqualError(t, new(Visit).Leave(ctx), `zkrecipes: leave "": not made by Enter`)
	path := harness.NewPath(t)
	v := visits(t, enter(t, NewDoubleBarrier(c, path, 1)))[0]
	require.EqualError(t, v.Leave(none), "zkrecipes: leave "+path+": nil context")
	require.NoError(t, v.Err())
	require.Panics(t, func() { v.Context(none) })
	require.NoError(t, v.Leave(ctx))
}

func TestB48SomebodysDataIsNoDoubleBarrier(t *testing.T) {
	ctx, path, conn := harness.Within(t, 20*time.Second), harness.NewPath(t), harness.Raw(t)
	harness.MakeParents(t, conn, parent(path))
	c := dial(t, nil)
	for i, data := range []string{"mine", "2"} {
		path := fmt.Sprint(path, i)
		_, err := conn.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		_, err = NewDoubleBarrier(c, path, 1).Enter(ctx)
		require.ErrorContains(t, err, "the znode holds data of its own")
		got, stat, err := conn.Get(path)
		require.NoError(t, err)
		require.Equal(t, data, string(got))
		require.Zero(t, stat.Version)
		require.Empty(t, harness.Children(t, conn, path))
	}
}

func TestB52DoubleBarrierOfAnIdentityThatNoRequestHasRoomFor(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(&Options{Identity: strings.Repeat("x", 1<<20)})
		requests := w.requests(func() {
			_, err := couple(c).Enter(t.Context())
			require.ErrorContains(t, err, "servers accept 1048575")
		})
		require.Zero(t, requests[opEnter])
	})
}

func TestB57HooksOfAVisitMayCloseTheClient(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var c *Client
		closed := make(chan error, 1)
		c = w.stranger(&Options{Trace: &Trace{Granted: func(e TraceEvent) {
			if e.Path == "/d" {
				closed <- c.Close()
			}
		}}})
		a := enter(t, NewDoubleBarrier(c, "/d", 1))
		v, err := a.Wait()
		if err == nil {
			<-v.Context(t.Context()).Done()
			err = v.Err()
		}
		require.ErrorIs(t, err, ErrClosed)
		require.NoError(t, <-closed)
		synctest.Wait()
		require.Empty(t, w.inside())
	})
}
