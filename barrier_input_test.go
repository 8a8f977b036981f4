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

// Bad input to a Barrier, and operations that the server refuses.

func TestB36BarrierWithoutTheRightsIsAnErrorAtOnce(t *testing.T) {
	ctx, path, admin := harness.Within(t, 30*time.Second), harness.NewPath(t), harness.Raw(t)
	require.NoError(t, admin.AddAuth("digest", []byte("owner:x")))
	restrict := func(path string, perms int32) {
		_, err := admin.SetACL(path, append(zk.WorldACL(perms), zk.DigestACL(zk.PermAll, "owner", "x")...), -1)
		require.NoError(t, err)
	}
	c, other := dial(t, nil), dial(t, nil)
	wait := func(c *Client) error { _, err := NewBarrier(c, path, 2).Wait(ctx); return err }
	harness.MakeParents(t, admin, parent(path))

	restrict(parent(path), zk.PermRead)
	require.ErrorIs(t, wait(c), zk.ErrNoAuth, "the path cannot be made")
	restrict(parent(path), zk.PermAll)
	_, err := admin.Create(path, []byte("2"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	restrict(path, 0)
	require.ErrorIs(t, wait(c), zk.ErrNoAuth, "nor read")
	restrict(path, zk.PermRead)
	require.ErrorIs(t, wait(c), zk.ErrNoAuth, "nor the round made")
	restrict(path, zk.PermAll)

	waiting := attend(t, NewBarrier(other, path, 2))
	sleeps(t, other, 1)
	for perms, what := range map[int32]string{
		zk.PermAll &^ zk.PermCreate: "no member",
		zk.PermAll &^ zk.PermWrite:  "not counted",
		zk.PermAll &^ zk.PermRead:   "no listing",
	} {
		restrict(path+"/round", perms)
		err := wait(c)
		require.ErrorIs(t, err, zk.ErrNoAuth, what)
		require.NotErrorIs(t, err, ErrUncertain, what)
		restrict(path+"/round", zk.PermAll)
		harness.Eventually(t, "one member", func() bool { return len(harness.Children(t, admin, path+"/round")) == 2 })
		require.True(t, waiting.Waiting(), what)
	}
	restrict(path+"/round/ready", zk.PermAll&^zk.PermWrite)
	err = wait(c)
	require.ErrorIs(t, err, zk.ErrNoAuth, "the round cannot be opened")
	require.NotErrorIs(t, err, ErrUncertain, "nor by others")
	restrict(path+"/round/ready", zk.PermAll)
	indexes(t, waiting, attend(t, NewBarrier(c, path, 2)))
}

func TestB37BarrierOnABusyServer(t *testing.T) {
	for name, after := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				for _, code := range []int32{jute.ErrOperationTimeout, jute.ErrConnectionLoss, jute.ErrThrottled} {
					for _, op := range []string{opAttend, opLetGo, opRound, opOver, opPair, "createContainer", "getData", "getChildren2", "sync"} {
						w.plan.Add(zktest.Fault{Do: zktest.Answer, After: after, Op: op, Code: code, Times: 3})
					}
					for range 2 {
						indexes(t, attend(t, pairing(w.stranger(nil))), attend(t, pairing(w.stranger(nil))))
					}
				}
			})
		})
	}
}

func TestB37BarrierBeyondTheQuotaIsAnErrorAtOnce(t *testing.T) {
	const quota = "quota exceeded"
	for op, why := range map[string]string{
		opAttend: quota, opRound: quota, opPair: quota,
		"createContainer": "-125", // go-zookeeper does not know it
	} {
		t.Run(op, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				var first *harness.Call[int]
				if op == opPair {
					first = attend(t, pairing(w.stranger(nil)))
					synctest.Wait()
				}
				w.plan.Add(zktest.Fault{Do: zktest.Answer, Op: op, Code: jute.ErrQuotaExceeded})
				c := w.stranger(nil)
				a := attend(t, pairing(c))
				_, err := a.Wait()
				require.ErrorContains(t, err, why)
				require.NotErrorIs(t, err, ErrUncertain)
				if first == nil {
					first = attend(t, pairing(c))
				}
				synctest.Wait()
				require.Len(t, w.present(), 1)
				indexes(t, first, attend(t, pairing(w.stranger(nil))))
			})
		})
	}
}

func TestB39BarrierPathsThatAreNone(t *testing.T) {
	ctx, c, conn := harness.Within(t, 20*time.Second), dial(t, nil), harness.Raw(t)
	for path, why := range badPaths {
		_, err := NewBarrier(c, path, 2).Wait(ctx)
		require.EqualError(t, err, why("wait"))
	}
	path := harness.NewPath(t)
	harness.MakeParents(t, conn, parent(path))
	_, err := conn.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	for _, path := range []string{path, path + "/below"} {
		_, err = NewBarrier(c, path, 2).Wait(ctx)
		require.ErrorIs(t, err, zk.ErrNoChildrenForEphemerals)
	}
}

func TestB40ABarrierThatIsNone(t *testing.T) {
	var none context.Context
	var nilBarrier *Barrier
	ctx := harness.Within(t, 20*time.Second)
	c := dial(t, nil)
	for b, want := range map[*Barrier]string{
		nilBarrier:                     `"": not made by its constructor`,
		{}:                             `"": not made by its constructor`,
		NewBarrier(nil, "/b", 2):       `/b: nil client`,
		NewBarrier(&Client{}, "/b", 2): `/b: client was not made by Dial`,
		NewBarrier(c, "/b", 0):         `/b: a barrier of 0 members`,
		NewBarrier(c, "/b", -1):        `/b: a barrier of -1 members`,
	} {
		_, err := b.Wait(ctx)
		require.ErrorContains(t, err, "zkrecipes: wait "+want)
	}
	_, err := NewBarrier(c, "/b", 2).Wait(none)
	require.EqualError(t, err, "zkrecipes: wait /b: nil context")
}

// The transaction that opens a round names all its members: what has no room is
// refused before anything is sent.
func TestB52BarrierOfMoreMembersThanATransactionHasRoomFor(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		most := 0
		for openingSize(roundOf2, most+1) <= jute.MaxFrame {
			most++
		}
		require.Greater(t, most, 9000)
		requests := w.requests(func() {
			for _, n := range []int{most + 1, 1 << 20, 1 << 40, int(^uint(0) >> 1), int(^uint(0)>>1)/111 + 1} {
				_, err := NewBarrier(c, "/b", n).Wait(t.Context())
				require.ErrorContains(t, err, fmt.Sprintf("a barrier of %d members: request of", n))
				require.ErrorContains(t, err, "servers accept 1048575")
			}
		})
		require.Empty(t, requests)
		require.NoError(t, NewBarrier(c, "/b", most).check(t.Context()))

		// The size is that of the largest one in fact, and no less.
		name := "_c_" + newUUID() + "-member-"
		var ms []member
		ops := []any{nil}
		for i := range most { // every other number, of ten digits
			number := 1_000_000_000 + int32(2*i)
			ms = append(ms, member{number: number})
			ops = append(ops, &zk.CheckVersionRequest{Path: fmt.Sprintf("%s/%s%d", roundOf2, name, number), Version: -1})
		}
		ops[0] = &zk.SetDataRequest{Path: readyOf2, Data: ranges(ms)}
		frame := make([]byte, 0, 1<<20)
		for _, op := range ops {
			frame = appendOp(frame, op)
		}
		size := 8 + len(appendOpHeader(frame, -1, true)) // xid and operation
		require.LessOrEqual(t, size, openingSize(roundOf2, most))
		require.Greater(t, size, openingSize(roundOf2, most-1))
	})
}

func TestB52BarrierOfAnIdentityThatNoRequestHasRoomFor(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(&Options{Identity: strings.Repeat("x", 1<<20)})
		_, err := pairing(c).Wait(t.Context())
		require.ErrorContains(t, err, "servers accept 1048575")
		require.NotErrorIs(t, err, ErrUncertain)
		require.Empty(t, w.present())
		require.Equal(t, 1, w.srv.Requests()["connect"], "the connection is untouched")
	})
}

func TestB48SomebodysDataIsNoBarrier(t *testing.T) {
	ctx, path, conn := harness.Within(t, 20*time.Second), harness.NewPath(t), harness.Raw(t)
	harness.MakeParents(t, conn, path)
	c := dial(t, nil)
	for i, data := range []string{"mine", "-2", "0", "2 ", "zkrecipes/1 mutex", "99999999999999999999"} {
		path := fmt.Sprint(path, "/", i)
		_, err := conn.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		_, err = NewBarrier(c, path, 2).Wait(ctx)
		require.ErrorContains(t, err, fmt.Sprintf("the znode holds other data than a barrier's number of members: %q", data))
		got, stat, err := conn.Get(path)
		require.NoError(t, err)
		require.Equal(t, data, string(got))
		require.Zero(t, stat.Version)
		require.Empty(t, harness.Children(t, conn, path))
	}
	// One that is empty is anybody's: made as a parent, mostly.
	indexes(t, attend(t, NewBarrier(c, path, 2)), attend(t, NewBarrier(dial(t, nil), path, 2)))
	data, _, err := conn.Get(path)
	require.NoError(t, err)
	require.Equal(t, "2", string(data))
}

// Nor is it written over when it comes between the look and the first join.
func TestB64DataPutOnAnEmptyZnodeBeforeABarrierClaimsItIsKept(t *testing.T) {
	r := newRig(t, nil)
	path := r.path + "-b"
	harness.MakeParents(t, r.raw, path)
	rule := r.p.On("multi(setData)", 1, harness.Hold)
	a := attend(t, NewBarrier(r.c, path, 2))
	r.p.Await(rule)
	_, err := r.raw.Set(path, []byte("mine"), -1)
	require.NoError(t, err)
	rule.Release()
	_, err = a.Wait()
	require.ErrorContains(t, err, `number of members: "mine"`)
	data, _, err := r.raw.Get(path)
	require.NoError(t, err)
	require.Equal(t, "mine", string(data))
}

func TestB57HooksMayUseBarriersAndClose(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var c *Client
		said := make(chan error, 3)
		c = w.stranger(&Options{Trace: &Trace{SessionDown: func(TraceEvent) {
			said <- NewGate(c, "/gate").Shut(context.Background())
			_, err := NewBarrier(c, "/b", 1).Wait(context.Background())
			said <- err
			said <- c.Close()
		}}})
		a := attend(t, NewBarrier(c, "/waits", 2))
		synctest.Wait()
		require.True(t, w.srv.Disconnect(sessionID(c)))
		for range 3 {
			require.NoError(t, <-said)
		}
		_, err := a.Wait()
		require.ErrorIs(t, err, ErrClosed)
	})
}
