package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const (
	opEnter      = opJoin
	opOpenAll    = "multi(create,setData)"        // opens a double barrier
	opReplace    = "multi(delete,create,setData)" // opens it and replaces an older ready
	opDepart     = "multi(delete,setData)"        // gives up
	opLastLeaves = "multi(check,delete,delete)"   // the last member leaves
)

// couple returns the double barrier of two members that tests in bubbles use.
func couple(c *Client) *DoubleBarrier { return NewDoubleBarrier(c, "/d", 2) }

// inside returns the names of its members, including Curator's.
func (w *world) inside() []string {
	return slices.DeleteFunc(w.srv.Children("/d"), func(name string) bool { return name == "ready" })
}

// enter calls Enter in the background.
func enter(t testing.TB, d *DoubleBarrier) *harness.Call[*Visit] { return harness.Go(t, d.Enter) }

// visits waits until all calls of Enter have returned, and returns their visits.
func visits(t testing.TB, as ...*harness.Call[*Visit]) (vs []*Visit) {
	t.Helper()
	for _, a := range as {
		v, err := a.Wait()
		require.NoError(t, err)
		require.NoError(t, v.Err())
		vs = append(vs, v)
	}
	return vs
}

// leaveAll calls Leave on all visits at the same time and waits for all of them.
func leaveAll(t testing.TB, vs ...*Visit) {
	t.Helper()
	var ls []*harness.Call[struct{}]
	for _, v := range vs {
		ls = append(ls, harness.GoErr(t, v.Leave))
	}
	for _, l := range ls {
		_, err := l.Wait()
		require.NoError(t, err)
	}
}

// watching waits until a client has n watches of any kind and no request in flight.
func watching(t testing.TB, c *Client, n int) {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("%d watches", n), func() bool { return watchesOf(c) == n && idle(c) })
}

// No Enter returns before n members have called it, and no Leave before n members
// have called that. The barrier is used again at once, and leaves nothing behind.
func TestRealA22DoubleBarrierAllEnterAllLeave(t *testing.T) {
	const n, rounds = 4, 10
	path, conn := harness.NewPath(t), harness.Raw(t)
	var wg sync.WaitGroup
	var coming, leaving atomic.Int32
	for range n {
		d := NewDoubleBarrier(dial(t, nil), path, n)
		wg.Go(func() {
			for r := range rounds {
				coming.Add(1)
				v, err := d.Enter(harness.Within(t, 30*time.Second))
				if err != nil {
					t.Error(err)
					return
				}
				if there := coming.Load(); there < int32(n*(r+1)) {
					t.Errorf("Enter has returned after %d calls in %d rounds", there, r+1)
				}
				leaving.Add(1)
				if err := v.Leave(harness.Within(t, 30*time.Second)); err != nil {
					t.Error(err)
					return
				}
				if gone := leaving.Load(); gone < int32(n*(r+1)) {
					t.Errorf("Leave has returned after %d calls in %d rounds", gone, r+1)
				}
			}
		})
	}
	wg.Wait()
	require.Empty(t, harness.Children(t, conn, path))
}

func TestA22DoubleBarrierIsAThreshold(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first := enter(t, couple(w.stranger(nil)))
		synctest.Wait()
		require.True(t, first.Waiting())
		vs := visits(t, first, enter(t, couple(w.stranger(nil))))
		vs = append(vs, visits(t, enter(t, couple(w.stranger(nil))))...)
		require.Len(t, w.inside(), 3)
		leaveAll(t, vs...)
		require.Empty(t, w.srv.Children("/d"))
	})
}

func TestA22DoubleBarrierWorksForOneMemberAndForMembersOfOneClient(t *testing.T) {
	c, path := dial(t, nil), harness.NewPath(t)
	leaveAll(t, visits(t, enter(t, NewDoubleBarrier(c, path, 1)))...)
	d := NewDoubleBarrier(c, path+"/below", 5)
	for range 3 {
		var as []*harness.Call[*Visit]
		for range 5 {
			as = append(as, enter(t, d))
		}
		leaveAll(t, visits(t, as...)...)
	}
	require.Empty(t, harness.Children(t, harness.Raw(t), path+"/below"))
}

func TestA22LeaveDoesNotWaitForAMemberThatDied(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const n = 4
		for dies := range n { // in the order of the names, on which it depends which member waits for which
			var clients []*Client
			var as []*harness.Call[*Visit]
			for range n {
				c := w.stranger(nil)
				clients = append(clients, c)
				as = append(as, enter(t, NewDoubleBarrier(c, "/d", n)))
			}
			vs := visits(t, as...)
			victim := slices.IndexFunc(vs, func(v *Visit) bool { return v.l.handle.Grant.Place().Name == w.inside()[dies] })
			var leaves []*harness.Call[struct{}]
			for i, v := range vs {
				if i != victim {
					leaves = append(leaves, harness.GoErr(t, v.Leave))
				}
			}
			synctest.Wait()
			for _, l := range leaves {
				require.True(t, l.Waiting(), "one member is inside")
			}
			require.True(t, w.srv.Expire(sessionID(clients[victim])))
			for _, l := range leaves {
				_, err := l.Wait()
				require.NoError(t, err)
			}
			<-vs[victim].Context(t.Context()).Done()
			require.ErrorIs(t, vs[victim].Leave(t.Context()), ErrLost)
			require.Empty(t, w.srv.Children("/d"))
		}
	})
}

// A ready that is left from a run that crashed opens nothing.
func TestA22OldReadyLetsNobodyPassAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		leaveAll(t, visits(t, enter(t, NewDoubleBarrier(w.stranger(nil), "/d", 1)))...)
		conn := w.bare()
		old, err := conn.Create("/d/ready", []byte("old"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		first := enter(t, couple(w.stranger(nil)))
		time.Sleep(time.Minute)
		require.True(t, first.Waiting())
		require.Len(t, w.inside(), 1)
		vs := visits(t, first, enter(t, couple(w.stranger(nil))))
		data, stat, err := conn.Get(old)
		require.NoError(t, err)
		require.NotEqual(t, "old", string(data))
		require.Equal(t, stat.Czxid, vs[0].visit.OpenedAt)
		require.Equal(t, stat.Czxid, vs[1].visit.OpenedAt)
		leaveAll(t, vs...)
		require.Empty(t, w.srv.Children("/d"))
	})
}

// When all members crash, what they leave behind does not disturb the next ones.
func TestA22DoubleBarrierIsUsedAgainAfterAllHaveDied(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c, d := w.stranger(nil), w.stranger(nil)
		vs := visits(t, enter(t, couple(c)), enter(t, couple(d)))
		require.True(t, w.srv.Expire(sessionID(c)))
		require.True(t, w.srv.Expire(sessionID(d)))
		for _, v := range vs {
			<-v.Context(t.Context()).Done()
		}
		require.Equal(t, []string{"ready"}, w.srv.Children("/d"))
		first := enter(t, couple(c))
		synctest.Wait()
		require.True(t, first.Waiting())
		leaveAll(t, visits(t, first, enter(t, couple(d)))...)
		require.Empty(t, w.srv.Children("/d"))
	})
}

// A member enters for the next use while the members of the last one leave.
func TestA22NewcomerDoesNotHoldUpLeave(t *testing.T) {
	for name, n := range map[string]int{"it waits": 3, "it enters": 2} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				of := func() *DoubleBarrier { return NewDoubleBarrier(w.stranger(nil), "/d", n) }
				var as []*harness.Call[*Visit]
				for range n {
					as = append(as, enter(t, of()))
				}
				vs := visits(t, as...)
				leaves := []*harness.Call[struct{}]{harness.GoErr(t, vs[0].Leave)}
				synctest.Wait()
				before := len(w.inside())
				newcomer := enter(t, of())
				synctest.Wait()
				require.Len(t, w.inside(), before+1)
				require.Equal(t, before+1 < n, newcomer.Waiting())
				for _, v := range vs[1:] {
					leaves = append(leaves, harness.GoErr(t, v.Leave))
				}
				for _, l := range leaves {
					_, err := l.Wait()
					require.NoError(t, err)
				}
				require.Len(t, w.inside(), 1)
				if newcomer.Waiting() {
					as = []*harness.Call[*Visit]{newcomer}
					for len(as) < n {
						synctest.Wait()
						require.True(t, newcomer.Waiting())
						as = append(as, enter(t, of()))
					}
					leaveAll(t, visits(t, as...)...)
				} else {
					leaveAll(t, visits(t, newcomer)...)
				}
				require.Empty(t, w.srv.Children("/d"))
			})
		})
	}
}

func TestA22CancelledEnterLeavesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		reason := errors.New("changed my mind")
		for range 100 {
			a := enter(t, couple(c))
			synctest.Wait()
			require.Len(t, w.inside(), 1)
			a.Cancel(reason)
			_, err := a.Wait()
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, reason)
			synctest.Wait()
			require.Empty(t, w.srv.Children("/d"))
		}
		require.Equal(t, 1, watchesOf(c), "on ready")
		first := enter(t, couple(w.stranger(nil)))
		synctest.Wait()
		require.True(t, first.Waiting())
		leaveAll(t, visits(t, first, enter(t, couple(c)))...)
	})
}

// The last member to leave sees a newcomer's znode beside its own, and then the
// newcomer gives up. One of them has to delete ready: neither may leave that to the
// other.
func TestA22EnterCancelledAfterTheLastMemberLeftDeletesReady(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		of := func() *DoubleBarrier { return NewDoubleBarrier(w.stranger(nil), "/d", 3) }
		vs := visits(t, enter(t, of()), enter(t, of()), enter(t, of()))
		leaves := []*harness.Call[struct{}]{harness.GoErr(t, vs[0].Leave), harness.GoErr(t, vs[1].Leave)}
		synctest.Wait()
		w.srv.Expire(vs[2].l.handle.Grant.Session.ID())
		newcomer := enter(t, of())
		for _, l := range leaves {
			_, err := l.Wait()
			require.NoError(t, err)
		}
		synctest.Wait()
		if newcomer.Waiting() {
			newcomer.Cancel(nil)
		} else {
			leaveAll(t, visits(t, newcomer)...)
		}
		synctest.Wait()
		require.Empty(t, w.srv.Children("/d"))
	})
	// The same in a fixed order: the newcomer joins before the last member has left.
	inBubble(t, func(t *testing.T, w *world) {
		vs := visits(t, enter(t, w.doubleOf(3)), enter(t, w.doubleOf(3)), enter(t, w.doubleOf(3)))
		for _, v := range vs[1:] {
			require.True(t, w.srv.Expire(v.l.handle.Grant.Session.ID()))
		}
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opLastLeaves, For: time.Second})
		leaves := harness.GoErr(t, vs[0].Leave)
		synctest.Wait()
		newcomer := enter(t, w.doubleOf(3))
		synctest.Wait()
		require.Len(t, w.inside(), 2)
		_, err := leaves.Wait()
		require.NoError(t, err)
		require.True(t, newcomer.Waiting())
		require.Contains(t, w.srv.Children("/d"), "ready")
		newcomer.Cancel(nil)
		_, err = newcomer.Wait()
		require.ErrorIs(t, err, context.Canceled)
		synctest.Wait()
		require.Empty(t, w.srv.Children("/d"))
	})
}

// A newcomer joins and gives up after the last member has listed and before it has
// left.
func TestA22LastToLeaveDeletesReadyAlthoughSomebodyHasComeAndGone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		vs := visits(t, enter(t, w.doubleOf(3)), enter(t, w.doubleOf(3)), enter(t, w.doubleOf(3)))
		for _, v := range vs[1:] {
			require.True(t, w.srv.Expire(v.l.handle.Grant.Session.ID()))
		}
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opLastLeaves, For: time.Second})
		leaves := harness.GoErr(t, vs[0].Leave)
		synctest.Wait()
		newcomer := enter(t, w.doubleOf(3))
		synctest.Wait()
		newcomer.Cancel(nil)
		synctest.Wait()
		_, err := leaves.Wait()
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, w.srv.Children("/d"))
	})
}

// The next use may open between the last member's listing and its leaving. Then
// ready belongs to that use.
func TestA22LastToLeaveKeepsTheReadyOfTheNextUse(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		vs := visits(t, enter(t, couple(w.stranger(nil))), enter(t, couple(w.stranger(nil))))
		require.True(t, w.srv.Expire(vs[1].l.handle.Grant.Session.ID()))
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opLastLeaves, For: time.Second})
		leaves := harness.GoErr(t, vs[0].Leave)
		synctest.Wait()
		next := visits(t, enter(t, NewDoubleBarrier(w.stranger(nil), "/d", 2))) // together with the member that leaves
		_, err := leaves.Wait()
		require.NoError(t, err)
		require.Contains(t, w.srv.Children("/d"), "ready")
		require.Len(t, w.inside(), 1)
		leaveAll(t, next...)
		require.Empty(t, w.srv.Children("/d"))
	})
}

func TestA22SpuriousWakeUpsLetNobodyIn(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		a := enter(t, couple(c))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Equal(t, 2, watchesOf(c))
		own := "/d/" + w.inside()[0]
		for range 3 {
			for _, event := range []int32{jute.EventCreated, jute.EventDataChanged, jute.EventDeleted} {
				spurious(c, "/d/ready", event)
				synctest.Wait()
				require.True(t, a.Waiting())
			}
			for _, event := range []int32{jute.EventDataChanged, jute.EventDeleted} {
				spurious(c, own, event)
				synctest.Wait()
				require.True(t, a.Waiting())
			}
			require.Equal(t, 2, watchesOf(c))
		}
		require.Len(t, w.inside(), 1)
		leaveAll(t, visits(t, a, enter(t, couple(w.stranger(nil))))...)
	})
}

func TestA22SpuriousWakeUpsLetNobodyLeave(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		vs := visits(t, enter(t, couple(c)), enter(t, couple(w.stranger(nil))))
		leaves := harness.GoErr(t, vs[0].Leave)
		synctest.Wait()
		for range 3 {
			for _, event := range []int32{jute.EventDataChanged, jute.EventDeleted} {
				spurious(c, vs[1].l.handle.Grant.Place().Path, event)
				synctest.Wait()
				require.True(t, leaves.Waiting())
			}
		}
		require.NoError(t, vs[1].Leave(t.Context()))
		_, err := leaves.Wait()
		require.NoError(t, err)
	})
}

func TestA22ExpiryWhileEnteringIsAnError(t *testing.T) {
	r := newRig(t, nil)
	d := NewDoubleBarrier(r.c, r.path+"-d", 2)
	a := enter(t, d)
	watching(t, r.c, 1)
	r.p.Expire()
	_, err := a.Wait()
	require.ErrorIs(t, err, zk.ErrSessionExpired)
	a = enter(t, d)
	leaveAll(t, visits(t, a, enter(t, NewDoubleBarrier(dial(t, nil), r.path+"-d", 2)))...)
}

// The names of Curator's members are bare UUIDs, and Curator does not look at czxids.
func TestRealA22CuratorsMembersCountAndAreWaitedFor(t *testing.T) {
	ctx, path, conn := harness.Within(t, 30*time.Second), harness.NewPath(t), harness.Raw(t)
	c := dial(t, nil)
	theirs := func(uuid string) string {
		name, err := conn.Create(path+"/"+uuid, []byte{}, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		return name
	}
	harness.MakeParents(t, conn, path)
	// A name that sorts before ours, and one that sorts after: ours begin with "_".
	for _, uuid := range []string{"0f1e2d3c-4b5a-4678-9abc-def012345678", "ff1e2d3c-4b5a-4678-9abc-def012345678"} {
		name := theirs(uuid)
		v := visits(t, enter(t, NewDoubleBarrier(c, path, 2)))[0]
		require.Contains(t, harness.Children(t, conn, path), "ready", "Curator's members enter when it exists")
		leaves := harness.GoErr(t, v.Leave)
		ours := 1
		if uuid[0] == '0' { // the first member waits, the others delete their znodes
			ours = 0
		}
		harness.Eventually(t, "waiting to leave", func() bool { return watchesOf(c) == 1 && idle(c) })
		harness.Eventually(t, "ours", func() bool { return len(harness.Children(t, conn, path)) == 2+ours })
		require.True(t, leaves.Waiting())
		require.NoError(t, conn.Delete(name, -1))
		_, err := leaves.Wait()
		require.NoError(t, err)
		require.Empty(t, harness.Children(t, conn, path))
	}
	// Curator's member arrives last and creates ready.
	a := enter(t, NewDoubleBarrier(c, path, 2))
	watching(t, c, 1)
	name := theirs("aaaaaaaa-4b5a-4678-9abc-def012345678")
	require.True(t, a.Waiting())
	_, err := conn.Create(path+"/ready", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	v := visits(t, a)[0]
	require.NoError(t, conn.Delete(name, -1)) // Curator's member leaves, as its name is the highest
	require.NoError(t, v.Leave(ctx))
	require.Empty(t, harness.Children(t, conn, path))
}
