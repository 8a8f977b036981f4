package barrier_test

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

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// watching waits until a client has n watches of any kind and no request in flight.
func watching(t testing.TB, c *zkrecipes.Client, n int) {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("%d watches", n), func() bool { return recipetest.WatchesOf(c) == n && recipetest.Idle(c) })
}

// No Enter returns before n members have called it, and no Leave before n members
// have called that. The barrier is used again at once, and leaves nothing behind.
func TestRealA22DoubleBarrierAllEnterAllLeave(t *testing.T) {
	const n, rounds = 4, 10
	path, conn := harness.NewPath(t), harness.Raw(t)
	var wg sync.WaitGroup
	var coming, leaving atomic.Int32
	for range n {
		d := zkrecipes.NewDoubleBarrier(recipetest.Dial(t, nil), path, n)
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
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		first := recipetest.Enter(t, recipetest.Couple(w.Stranger(nil)))
		synctest.Wait()
		require.True(t, first.Waiting())
		vs := recipetest.Visits(t, first, recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))))
		vs = append(vs, recipetest.Visits(t, recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))))...)
		require.Len(t, w.Inside(), 3)
		recipetest.LeaveAll(t, vs...)
		require.Empty(t, w.Srv.Children("/d"))
	})
}

func TestA22DoubleBarrierWorksForOneMemberAndForMembersOfOneClient(t *testing.T) {
	c, path := recipetest.Dial(t, nil), harness.NewPath(t)
	recipetest.LeaveAll(t, recipetest.Visits(t, recipetest.Enter(t, zkrecipes.NewDoubleBarrier(c, path, 1)))...)
	d := zkrecipes.NewDoubleBarrier(c, path+"/below", 5)
	for range 3 {
		var as []*harness.Call[*zkrecipes.Visit]
		for range 5 {
			as = append(as, recipetest.Enter(t, d))
		}
		recipetest.LeaveAll(t, recipetest.Visits(t, as...)...)
	}
	require.Empty(t, harness.Children(t, harness.Raw(t), path+"/below"))
}

func TestA22LeaveDoesNotWaitForAMemberThatDied(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		const n = 4
		for dies := range n { // in the order of the names, on which it depends which member waits for which
			var clients []*zkrecipes.Client
			var as []*harness.Call[*zkrecipes.Visit]
			for range n {
				c := w.Stranger(nil)
				clients = append(clients, c)
				as = append(as, recipetest.Enter(t, zkrecipes.NewDoubleBarrier(c, "/d", n)))
			}
			vs := recipetest.Visits(t, as...)
			victim := slices.IndexFunc(vs, func(v *zkrecipes.Visit) bool {
				return recipetest.HandleOf(recipetest.LeaseOf(v)).Grant.Place().Name == w.Inside()[dies]
			})
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
			require.True(t, w.Srv.Expire(recipetest.SessionID(clients[victim])))
			for _, l := range leaves {
				_, err := l.Wait()
				require.NoError(t, err)
			}
			<-vs[victim].Context(t.Context()).Done()
			require.ErrorIs(t, vs[victim].Leave(t.Context()), zkrecipes.ErrLost)
			require.Empty(t, w.Srv.Children("/d"))
		}
	})
}

// A ready that is left from a run that crashed opens nothing.
func TestA22OldReadyLetsNobodyPassAlone(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		recipetest.LeaveAll(t, recipetest.Visits(t, recipetest.Enter(t, zkrecipes.NewDoubleBarrier(w.Stranger(nil), "/d", 1)))...)
		conn := w.Bare()
		old, err := conn.Create("/d/ready", []byte("old"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		first := recipetest.Enter(t, recipetest.Couple(w.Stranger(nil)))
		time.Sleep(time.Minute)
		require.True(t, first.Waiting())
		require.Len(t, w.Inside(), 1)
		vs := recipetest.Visits(t, first, recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))))
		data, stat, err := conn.Get(old)
		require.NoError(t, err)
		require.NotEqual(t, "old", string(data))
		require.Equal(t, stat.Czxid, recipetest.VisitOf(vs[0]).OpenedAt)
		require.Equal(t, stat.Czxid, recipetest.VisitOf(vs[1]).OpenedAt)
		recipetest.LeaveAll(t, vs...)
		require.Empty(t, w.Srv.Children("/d"))
	})
}

// When all members crash, what they leave behind does not disturb the next ones.
func TestA22DoubleBarrierIsUsedAgainAfterAllHaveDied(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, d := w.Stranger(nil), w.Stranger(nil)
		vs := recipetest.Visits(t, recipetest.Enter(t, recipetest.Couple(c)), recipetest.Enter(t, recipetest.Couple(d)))
		require.True(t, w.Srv.Expire(recipetest.SessionID(c)))
		require.True(t, w.Srv.Expire(recipetest.SessionID(d)))
		for _, v := range vs {
			<-v.Context(t.Context()).Done()
		}
		require.Equal(t, []string{"ready"}, w.Srv.Children("/d"))
		first := recipetest.Enter(t, recipetest.Couple(c))
		synctest.Wait()
		require.True(t, first.Waiting())
		recipetest.LeaveAll(t, recipetest.Visits(t, first, recipetest.Enter(t, recipetest.Couple(d)))...)
		require.Empty(t, w.Srv.Children("/d"))
	})
}

// A member enters for the next use while the members of the last one leave.
func TestA22NewcomerDoesNotHoldUpLeave(t *testing.T) {
	for name, n := range map[string]int{"it waits": 3, "it enters": 2} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				of := func() *zkrecipes.DoubleBarrier { return zkrecipes.NewDoubleBarrier(w.Stranger(nil), "/d", n) }
				var as []*harness.Call[*zkrecipes.Visit]
				for range n {
					as = append(as, recipetest.Enter(t, of()))
				}
				vs := recipetest.Visits(t, as...)
				leaves := []*harness.Call[struct{}]{harness.GoErr(t, vs[0].Leave)}
				synctest.Wait()
				before := len(w.Inside())
				newcomer := recipetest.Enter(t, of())
				synctest.Wait()
				require.Len(t, w.Inside(), before+1)
				require.Equal(t, before+1 < n, newcomer.Waiting())
				for _, v := range vs[1:] {
					leaves = append(leaves, harness.GoErr(t, v.Leave))
				}
				for _, l := range leaves {
					_, err := l.Wait()
					require.NoError(t, err)
				}
				require.Len(t, w.Inside(), 1)
				if newcomer.Waiting() {
					as = []*harness.Call[*zkrecipes.Visit]{newcomer}
					for len(as) < n {
						synctest.Wait()
						require.True(t, newcomer.Waiting())
						as = append(as, recipetest.Enter(t, of()))
					}
					recipetest.LeaveAll(t, recipetest.Visits(t, as...)...)
				} else {
					recipetest.LeaveAll(t, recipetest.Visits(t, newcomer)...)
				}
				require.Empty(t, w.Srv.Children("/d"))
			})
		})
	}
}

func TestA22CancelledEnterLeavesNothing(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		reason := errors.New("changed my mind")
		for range 100 {
			a := recipetest.Enter(t, recipetest.Couple(c))
			synctest.Wait()
			require.Len(t, w.Inside(), 1)
			a.Cancel(reason)
			_, err := a.Wait()
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, reason)
			synctest.Wait()
			require.Empty(t, w.Srv.Children("/d"))
		}
		require.Equal(t, 1, recipetest.WatchesOf(c), "on ready")
		first := recipetest.Enter(t, recipetest.Couple(w.Stranger(nil)))
		synctest.Wait()
		require.True(t, first.Waiting())
		recipetest.LeaveAll(t, recipetest.Visits(t, first, recipetest.Enter(t, recipetest.Couple(c)))...)
	})
}

// The last member to leave sees a newcomer's znode beside its own, and then the
// newcomer gives up. One of them has to delete ready: neither may leave that to the
// other.
func TestA22EnterCancelledAfterTheLastMemberLeftDeletesReady(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		of := func() *zkrecipes.DoubleBarrier { return zkrecipes.NewDoubleBarrier(w.Stranger(nil), "/d", 3) }
		vs := recipetest.Visits(t, recipetest.Enter(t, of()), recipetest.Enter(t, of()), recipetest.Enter(t, of()))
		leaves := []*harness.Call[struct{}]{harness.GoErr(t, vs[0].Leave), harness.GoErr(t, vs[1].Leave)}
		synctest.Wait()
		w.Srv.Expire(recipetest.HandleOf(recipetest.LeaseOf(vs[2])).Grant.Session.ID())
		newcomer := recipetest.Enter(t, of())
		for _, l := range leaves {
			_, err := l.Wait()
			require.NoError(t, err)
		}
		synctest.Wait()
		if newcomer.Waiting() {
			newcomer.Cancel(nil)
		} else {
			recipetest.LeaveAll(t, recipetest.Visits(t, newcomer)...)
		}
		synctest.Wait()
		require.Empty(t, w.Srv.Children("/d"))
	})
	// The same in a fixed order: the newcomer joins before the last member has left.
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		vs := recipetest.Visits(t, recipetest.Enter(t, w.DoubleOf(3)), recipetest.Enter(t, w.DoubleOf(3)), recipetest.Enter(t, w.DoubleOf(3)))
		for _, v := range vs[1:] {
			require.True(t, w.Srv.Expire(recipetest.HandleOf(recipetest.LeaseOf(v)).Grant.Session.ID()))
		}
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLastLeaves, For: time.Second})
		leaves := harness.GoErr(t, vs[0].Leave)
		synctest.Wait()
		newcomer := recipetest.Enter(t, w.DoubleOf(3))
		synctest.Wait()
		require.Len(t, w.Inside(), 2)
		_, err := leaves.Wait()
		require.NoError(t, err)
		require.True(t, newcomer.Waiting())
		require.Contains(t, w.Srv.Children("/d"), "ready")
		newcomer.Cancel(nil)
		_, err = newcomer.Wait()
		require.ErrorIs(t, err, context.Canceled)
		synctest.Wait()
		require.Empty(t, w.Srv.Children("/d"))
	})
}

// A newcomer joins and gives up after the last member has listed and before it has
// left.
func TestA22LastToLeaveDeletesReadyAlthoughSomebodyHasComeAndGone(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		vs := recipetest.Visits(t, recipetest.Enter(t, w.DoubleOf(3)), recipetest.Enter(t, w.DoubleOf(3)), recipetest.Enter(t, w.DoubleOf(3)))
		for _, v := range vs[1:] {
			require.True(t, w.Srv.Expire(recipetest.HandleOf(recipetest.LeaseOf(v)).Grant.Session.ID()))
		}
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLastLeaves, For: time.Second})
		leaves := harness.GoErr(t, vs[0].Leave)
		synctest.Wait()
		newcomer := recipetest.Enter(t, w.DoubleOf(3))
		synctest.Wait()
		newcomer.Cancel(nil)
		synctest.Wait()
		_, err := leaves.Wait()
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, w.Srv.Children("/d"))
	})
}

// The next use may open between the last member's listing and its leaving. Then
// ready belongs to that use.
func TestA22LastToLeaveKeepsTheReadyOfTheNextUse(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		vs := recipetest.Visits(t, recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))), recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))))
		require.True(t, w.Srv.Expire(recipetest.HandleOf(recipetest.LeaseOf(vs[1])).Grant.Session.ID()))
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLastLeaves, For: time.Second})
		leaves := harness.GoErr(t, vs[0].Leave)
		synctest.Wait()
		next := recipetest.Visits(t, recipetest.Enter(t, zkrecipes.NewDoubleBarrier(w.Stranger(nil), "/d", 2))) // together with the member that leaves
		_, err := leaves.Wait()
		require.NoError(t, err)
		require.Contains(t, w.Srv.Children("/d"), "ready")
		require.Len(t, w.Inside(), 1)
		recipetest.LeaveAll(t, next...)
		require.Empty(t, w.Srv.Children("/d"))
	})
}

func TestA22SpuriousWakeUpsLetNobodyIn(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		a := recipetest.Enter(t, recipetest.Couple(c))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Equal(t, 2, recipetest.WatchesOf(c))
		own := "/d/" + w.Inside()[0]
		for range 3 {
			for _, event := range []int32{jute.EventCreated, jute.EventDataChanged, jute.EventDeleted} {
				recipetest.Spurious(c, "/d/ready", event)
				synctest.Wait()
				require.True(t, a.Waiting())
			}
			for _, event := range []int32{jute.EventDataChanged, jute.EventDeleted} {
				recipetest.Spurious(c, own, event)
				synctest.Wait()
				require.True(t, a.Waiting())
			}
			require.Equal(t, 2, recipetest.WatchesOf(c))
		}
		require.Len(t, w.Inside(), 1)
		recipetest.LeaveAll(t, recipetest.Visits(t, a, recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))))...)
	})
}

func TestA22SpuriousWakeUpsLetNobodyLeave(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		vs := recipetest.Visits(t, recipetest.Enter(t, recipetest.Couple(c)), recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))))
		leaves := harness.GoErr(t, vs[0].Leave)
		synctest.Wait()
		for range 3 {
			for _, event := range []int32{jute.EventDataChanged, jute.EventDeleted} {
				recipetest.Spurious(c, recipetest.HandleOf(recipetest.LeaseOf(vs[1])).Grant.Place().Path, event)
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
	r := recipetest.NewRig(t, nil)
	d := zkrecipes.NewDoubleBarrier(r.C, r.Path+"-d", 2)
	a := recipetest.Enter(t, d)
	watching(t, r.C, 1)
	r.P.Expire()
	_, err := a.Wait()
	require.ErrorIs(t, err, zk.ErrSessionExpired)
	a = recipetest.Enter(t, d)
	recipetest.LeaveAll(t, recipetest.Visits(t, a, recipetest.Enter(t, zkrecipes.NewDoubleBarrier(recipetest.Dial(t, nil), r.Path+"-d", 2)))...)
}

// The names of Curator's members are bare UUIDs, and Curator does not look at czxids.
func TestRealA22CuratorsMembersCountAndAreWaitedFor(t *testing.T) {
	ctx, path, conn := harness.Within(t, 30*time.Second), harness.NewPath(t), harness.Raw(t)
	c := recipetest.Dial(t, nil)
	theirs := func(uuid string) string {
		name, err := conn.Create(path+"/"+uuid, []byte{}, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		return name
	}
	harness.MakeParents(t, conn, path)
	// A name that sorts before ours, and one that sorts after: ours begin with "_".
	for _, uuid := range []string{"0f1e2d3c-4b5a-4678-9abc-def012345678", "ff1e2d3c-4b5a-4678-9abc-def012345678"} {
		name := theirs(uuid)
		v := recipetest.Visits(t, recipetest.Enter(t, zkrecipes.NewDoubleBarrier(c, path, 2)))[0]
		require.Contains(t, harness.Children(t, conn, path), "ready", "Curator's members enter when it exists")
		leaves := harness.GoErr(t, v.Leave)
		ours := 1
		if uuid[0] == '0' { // the first member waits, the others delete their znodes
			ours = 0
		}
		harness.Eventually(t, "waiting to leave", func() bool { return recipetest.WatchesOf(c) == 1 && recipetest.Idle(c) })
		harness.Eventually(t, "ours", func() bool { return len(harness.Children(t, conn, path)) == 2+ours })
		require.True(t, leaves.Waiting())
		require.NoError(t, conn.Delete(name, -1))
		_, err := leaves.Wait()
		require.NoError(t, err)
		require.Empty(t, harness.Children(t, conn, path))
	}
	// Curator's member arrives last and creates ready.
	a := recipetest.Enter(t, zkrecipes.NewDoubleBarrier(c, path, 2))
	watching(t, c, 1)
	name := theirs("aaaaaaaa-4b5a-4678-9abc-def012345678")
	require.True(t, a.Waiting())
	_, err := conn.Create(path+"/ready", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	v := recipetest.Visits(t, a)[0]
	require.NoError(t, conn.Delete(name, -1)) // Curator's member leaves, as its name is the highest
	require.NoError(t, v.Leave(ctx))
	require.Empty(t, harness.Children(t, conn, path))
}
