package barrier_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Members of a DoubleBarrier that disagree on n.

// acquaint lets a double barrier be used, so that it knows the path and its members.
func acquaint(t testing.TB, d *zkrecipes.DoubleBarrier) {
	t.Helper()
	a := recipetest.Enter(t, d)
	synctest.Wait()
	a.Cancel(nil)
	_, err := a.Wait()
	require.ErrorIs(t, err, context.Canceled)
}

func TestB78MembersOfADoubleBarrierThatDisagreeOnNGetAnErrorThatNamesBoth(t *testing.T) {
	for _, n := range []int{2, 4} {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			as := []*harness.Call[*zkrecipes.Visit]{recipetest.Enter(t, w.DoubleOf(3))}
			synctest.Wait()
			wrong := w.DoubleOf(n)
			for range 2 {
				_, err := wrong.Enter(t.Context())
				recipetest.RequireSize(t, err, "a double barrier of 3 members is used as one of ")
				require.Len(t, w.Inside(), 1, "it leaves nothing behind")
				require.True(t, as[0].Waiting())
			}
			as = append(as, recipetest.Enter(t, w.DoubleOf(3)), recipetest.Enter(t, w.DoubleOf(3)))
			vs := recipetest.Visits(t, as...)
			_, err := wrong.Enter(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrSize, "they are inside")
			recipetest.LeaveAll(t, vs...)
			require.Empty(t, w.Srv.Children("/d"))
		})
	}
}

// The path is reaped, or deleted, and used for another n.
func TestB78DoubleBarrierThatRemembersAnotherNIsAnErrorAndOpensNothing(t *testing.T) {
	for _, n := range []int{2, 4} {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			old := w.DoubleOf(n)
			acquaint(t, old)
			recipetest.Wipe(t, w.Bare(), "/d")
			a := recipetest.Enter(t, w.DoubleOf(3))
			synctest.Wait()
			_, err := old.Enter(t.Context())
			recipetest.RequireSize(t, err, "a double barrier of 3 members is used as one of ")
			require.True(t, a.Waiting())
			recipetest.LeaveAll(t, recipetest.Visits(t, a, recipetest.Enter(t, w.DoubleOf(3)), recipetest.Enter(t, w.DoubleOf(3)))...)
			require.Empty(t, w.Srv.Children("/d"))
		})
	}
}

// The path is the same, and was empty when others began to use it for another n.
func TestB78MemberOfADoubleBarrierIsNotCountedForAnotherN(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		old := w.DoubleOf(3)
		acquaint(t, old)
		a := recipetest.Enter(t, w.DoubleOf(2))
		synctest.Wait()
		wrong := recipetest.Enter(t, old)
		synctest.Wait()
		require.True(t, a.Waiting(), "the other one does not count")
		vs := recipetest.Visits(t, a, recipetest.Enter(t, w.DoubleOf(2)))
		_, err := wrong.Wait()
		recipetest.RequireSize(t, err, "a double barrier of 2 members is used as one of 3")
		recipetest.LeaveAll(t, vs...)
		require.Empty(t, w.Srv.Children("/d"))
	})
}

// The n of a barrier that nobody uses may be changed.
func TestB78EmptyDoubleBarrierMayBeUsedForAnotherN(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		for _, n := range []int{2, 3, 1} {
			var as []*harness.Call[*zkrecipes.Visit]
			for range n {
				as = append(as, recipetest.Enter(t, w.DoubleOf(n)))
			}
			recipetest.LeaveAll(t, recipetest.Visits(t, as...)...)
		}
	})
}

// A ready that others have created does not say for how many it is.
func TestB78ReadyOfOthersLetsMembersInWhateverItHolds(t *testing.T) {
	for _, data := range []string{"", "10.0.0.7", "7", "host with spaces", "7 of ours", "of ours", "often 7"} {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			a := recipetest.Enter(t, recipetest.Couple(w.Stranger(nil)))
			synctest.Wait()
			_, err := w.Bare().Create("/d/ready", []byte(data), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			recipetest.LeaveAll(t, recipetest.Visits(t, a)...)
		})
	}
	// One that may not be read, and is left from an earlier use. Since 3.9 nobody learns
	// that it exists, and Enter fails.
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		acquaint(t, recipetest.Couple(w.Stranger(nil)))
		_, err := w.Bare().Create("/d/ready", nil, 0, zk.WorldACL(zk.PermAll&^zk.PermRead))
		require.NoError(t, err)
		recipetest.LeaveAll(t, recipetest.Visits(t, recipetest.Enter(t, w.DoubleOf(1)))...)
		require.Empty(t, w.Srv.Children("/d"))
	}, zktest.Emulate(zktest.ZooKeeper38))
}

// The names of kazoo's members are uuids without dashes.
func TestB26KazoosMembersCountAndAreWaitedFor(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		conn := w.Bare()
		acquaint(t, recipetest.Couple(w.Stranger(nil)))
		// One name sorts before ours, and one behind.
		for i, name := range []string{"0f1e2d3c4b5a46789abcdef012345678", "ff1e2d3c4b5a46789abcdef012345678"} {
			for _, first := range []bool{true, false} {
				var a *harness.Call[*zkrecipes.Visit]
				if !first {
					a = recipetest.Enter(t, recipetest.Couple(w.Stranger(nil)))
					synctest.Wait()
				}
				_, err := conn.Create("/d/"+name, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
				if first {
					a = recipetest.Enter(t, recipetest.Couple(w.Stranger(nil)))
				} else { // kazoo's member opens
					_, err := conn.Create("/d/ready", nil, 0, zk.WorldACL(zk.PermAll))
					require.NoError(t, err)
				}
				v := recipetest.Visits(t, a)[0]
				leaves := harness.GoErr(t, v.Leave)
				synctest.Wait()
				require.True(t, leaves.Waiting())
				// Whoever sorts first stays until the others have left.
				require.Len(t, w.Inside(), 1+i)
				require.NoError(t, conn.Delete("/d/"+name, -1))
				_, err = leaves.Wait()
				require.NoError(t, err)
				require.Empty(t, w.Srv.Children("/d"))
			}
		}
	})
}

// An operator takes the permission to write, and gives it back.
func TestB36DoubleBarrierWorksAgainAsSoonAsItsPathMayBeWritten(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		admin := w.Bare()
		require.NoError(t, admin.AddAuth("digest", []byte("owner:x")))
		c := w.Stranger(nil)
		acquaint(t, recipetest.Couple(c))
		restrict := func(perms int32) {
			_, err := admin.SetACL("/d", append(zk.WorldACL(perms), zk.DigestACL(zk.PermAll, "owner", "x")...), -1)
			require.NoError(t, err)
		}
		for range 2 {
			restrict(zk.PermAll &^ zk.PermWrite)
			for range 2 {
				_, err := recipetest.Couple(c).Enter(harness.Within(t, time.Minute))
				require.ErrorContains(t, err, "may not be written")
			}
			restrict(zk.PermAll)
			recipetest.LeaveAll(t, recipetest.Visits(t, recipetest.Enter(t, recipetest.Couple(c)), recipetest.Enter(t, recipetest.Couple(c)))...)
		}
	})
}
