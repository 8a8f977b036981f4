package barrier_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Members of a DoubleBarrier enter and leave.

// A ready that is left from a run that crashed opens nothing.
func TestOldReadyLetsNobodyPassAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.allLeave(w.visits(1)...)
		w.Write("/d/ready", "old")
		first := w.enters(2)
		time.Sleep(time.Minute)
		require.True(t, first.Waiting())
		require.Len(t, w.Inside(), 1)
		vs := recipetest.Visits(t, first, w.enters(2))
		require.NotEqual(t, "old", w.Text("/d/ready"))
		w.allLeave(vs...)
	})
}

// A member enters for the next use while the members of the last one leave.
func TestNewcomerDoesNotHoldUpLeave(t *testing.T) {
	each(t, map[string]int{"it waits": 3, "it enters": 2}, func(t *testing.T, w *world, n int) {
		vs := w.visits(n)
		leaves := []*harness.Call[struct{}]{w.leaves(vs[0])}
		before := len(w.Inside())
		as := []entering{w.enters(n)}
		require.Len(t, w.Inside(), before+1)
		require.Equal(t, before+1 < n, as[0].Waiting())
		for _, v := range vs[1:] {
			leaves = append(leaves, w.leaves(v))
		}
		for _, l := range leaves {
			l.Get()
		}
		require.Len(t, w.Inside(), 1)
		for as[0].Waiting() {
			require.Less(t, len(as), n)
			as = append(as, w.enters(n))
		}
		w.leave(as...)
	})
}

// The last member to leave sees a newcomer's znode beside its own, and then the newcomer
// gives up, before or after the last member has left. One of them has to delete ready: neither
// may leave that to the other.
func TestEnterCancelledWhileTheLastMemberLeavesDeletesReady(t *testing.T) {
	each(t, map[string]bool{"before": false, "after": true}, func(t *testing.T, w *world, after bool) {
		vs := w.visits(3)
		w.dies(vs[1])
		w.dies(vs[2])
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLastLeaves, For: time.Second})
		leaves := w.leaves(vs[0])
		newcomer := w.enters(3)
		require.Len(t, w.Inside(), 2)
		if after {
			leaves.Get()
			require.True(t, newcomer.Waiting())
			require.Contains(t, w.Srv.Children("/d"), "ready")
		}
		recipetest.Cancels(t, newcomer)
		leaves.Get()
		synctest.Wait()
		require.Empty(t, w.Srv.Children("/d"))
	})
}

// The next use may open between the last member's listing and its leaving. Then ready
// belongs to that use. A member of it may read ready late.
func TestLastToLeaveKeepsTheReadyOfTheNextUse(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		vs := w.visits(3)
		w.dies(vs[1])
		w.dies(vs[2])
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLastLeaves, For: time.Second})
		leaves := w.leaves(vs[0])
		early := w.enters(3)
		require.True(t, early.Waiting())
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getData", Path: "/d/ready", Skip: 1, For: 2 * time.Second})
		late := w.enters(3) // together with the member that leaves
		require.False(t, late.Waiting())
		require.True(t, early.Waiting())
		leaves.Get()
		require.True(t, early.Waiting())
		require.Contains(t, w.Srv.Children("/d"), "ready")
		w.leave(late, early)
	})
}

// A member lists again each time the first of those that it waits for has left. Their names are
// random, so that happens about as often as the logarithm of their number.
func TestLeavingADoubleBarrierCostsACommitAndAFewReadsEach(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const n = 30
		vs := w.visits(n)
		before := w.Srv.Counts()
		var leaves []*harness.Call[struct{}]
		for _, v := range vs {
			leaves = append(leaves, w.leaves(v))
		}
		for _, l := range leaves {
			l.Get()
		}
		did := w.Srv.Counts().Sub(before)
		require.Equal(t, n, did.Transactions)
		require.LessOrEqual(t, did.Requests["getData"], 8*n)
		require.LessOrEqual(t, did.Requests["getChildren2"], did.Requests["getData"]+n)
		require.Empty(t, w.Srv.Children("/d"))
	})
}

// The names of Curator's and kazoo's members are UUIDs, with and without dashes, and
// neither looks at czxids.
func TestMembersOfOtherLibrariesCountAndAreWaitedFor(t *testing.T) {
	each(t, map[string]string{"Curator": "f1e2d3c-4b5a-4678-9abc-def012345678", "kazoo": "f1e2d3c4b5a46789abcdef012345678"}, func(t *testing.T, w *world, uuid string) {
		conn := w.Bare()
		w.acquaint(w.DoubleOf(2))
		for _, name := range []string{"/d/0" + uuid, "/d/f" + uuid} { // it sorts before ours, and behind
			for _, first := range []bool{true, false} {
				var a entering
				if !first {
					a = w.enters(2)
				}
				_, err := conn.Create(name, []byte{}, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
				if first {
					a = w.enters(2)
				} else { // the other library's member opens
					require.True(t, a.Waiting())
					w.Write("/d/ready", "")
				}
				v := recipetest.Visits(t, a)[0]
				require.Contains(t, w.Srv.Children("/d"), "ready", "theirs enter when it exists")
				leaves := w.leaves(v)
				require.True(t, leaves.Waiting())
				require.Equal(t, []string{name[len("/d/"):]}, w.Inside())
				require.NoError(t, conn.Delete(name, -1))
				leaves.Get()
				require.Empty(t, w.Srv.Children("/d"))
			}
		}
	})
}
