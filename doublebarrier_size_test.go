package zkrecipes

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Members of a DoubleBarrier that disagree on n.

// doubleOf returns a double barrier of n on the path that tests in bubbles use.
func (w *world) doubleOf(n int) *DoubleBarrier { return NewDoubleBarrier(w.stranger(nil), "/d", n) }

// acquaint lets a double barrier be used, so that it knows the path and its members.
func acquaint(t testing.TB, d *DoubleBarrier) {
	t.Helper()
	a := enter(t, d)
	synctest.Wait()
	a.Cancel(nil)
	_, err := a.Wait()
	require.ErrorIs(t, err, context.Canceled)
}

func TestB78MembersOfADoubleBarrierThatDisagreeOnNGetAnErrorThatNamesBoth(t *testing.T) {
	for _, n := range []int{2, 4} {
		inBubble(t, func(t *testing.T, w *world) {
			as := []*harness.Call[*Visit]{enter(t, w.doubleOf(3))}
			synctest.Wait()
			wrong := w.doubleOf(n)
			for range 2 {
				_, err := wrong.Enter(t.Context())
				requireSize(t, err, "a double barrier of 3 members is used as one of ")
				require.Len(t, w.inside(), 1, "it leaves nothing behind")
				require.True(t, as[0].Waiting())
			}
			as = append(as, enter(t, w.doubleOf(3)), enter(t, w.doubleOf(3)))
			vs := visits(t, as...)
			_, err := wrong.Enter(t.Context())
			require.ErrorIs(t, err, ErrSize, "they are inside")
			leaveAll(t, vs...)
			require.Empty(t, w.srv.Children("/d"))
		})
	}
}

// The path is reaped, or deleted, and used for another n.
func TestB78DoubleBarrierThatRemembersAnotherNIsAnErrorAndOpensNothing(t *testing.T) {
	for _, n := range []int{2, 4} {
		inBubble(t, func(t *testing.T, w *world) {
			old := w.doubleOf(n)
			acquaint(t, old)
			wipe(t, w.bare(), "/d")
			a := enter(t, w.doubleOf(3))
			synctest.Wait()
			_, err := old.Enter(t.Context())
			requireSize(t, err, "a double barrier of 3 members is used as one of ")
			require.True(t, a.Waiting())
			leaveAll(t, visits(t, a, enter(t, w.doubleOf(3)), enter(t, w.doubleOf(3)))...)
			require.Empty(t, w.srv.Children("/d"))
		})
	}
}

// The path is the same, and was empty when others began to use it for another n.
func TestB78MemberOfADoubleBarrierIsNotCountedForAnotherN(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		old := w.doubleOf(3)
		acquaint(t, old)
		a := enter(t, w.doubleOf(2))
		synctest.Wait()
		wrong := enter(t, old)
		synctest.Wait()
		require.True(t, a.Waiting(), "the other one does not count")
		vs := visits(t, a, enter(t, w.doubleOf(2)))
		_, err := wrong.Wait()
		requireSize(t, err, "a double barrier of 2 members is used as one of 3")
		leaveAll(t, vs...)
		require.Empty(t, w.srv.Children("/d"))
	})
}

// The n of a barrier that nobody uses may be changed.
func TestB78EmptyDoubleBarrierMayBeUsedForAnotherN(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, n := range []int{2, 3, 1} {
			var as []*harness.Call[*Visit]
			for range n {
				as = append(as, enter(t, w.doubleOf(n)))
			}
			leaveAll(t, visits(t, as...)...)
		}
	})
}

// A ready that others have created does not say for how many it is.
func TestB78ReadyOfOthersLetsMembersInWhateverItHolds(t *testing.T) {
	for _, data := range []string{"", "10.0.0.7", "7", "host with spaces", "7 of ours", "of ours", "often 7"} {
		inBubble(t, func(t *testing.T, w *world) {
			a := enter(t, couple(w.stranger(nil)))
			synctest.Wait()
			_, err := w.bare().Create("/d/ready", []byte(data), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			leaveAll(t, visits(t, a)...)
		})
	}
	// One that may not be read, and is left from an earlier use. Since 3.9 nobody learns
	// that it exists, and Enter fails.
	inBubble(t, func(t *testing.T, w *world) {
		acquaint(t, couple(w.stranger(nil)))
		_, err := w.bare().Create("/d/ready", nil, 0, zk.WorldACL(zk.PermAll&^zk.PermRead))
		require.NoError(t, err)
		leaveAll(t, visits(t, enter(t, w.doubleOf(1)))...)
		require.Empty(t, w.srv.Children("/d"))
	}, zktest.Emulate(zktest.ZooKeeper38))
}

// The names of kazoo's members are uuids without dashes.
func TestB26KazoosMembersCountAndAreWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		conn := w.bare()
		acquaint(t, couple(w.stranger(nil)))
		// One name sorts before ours, and one behind.
		for i, name := range []string{"0f1e2d3c4b5a46789abcdef012345678", "ff1e2d3c4b5a46789abcdef012345678"} {
			for _, first := range []bool{true, false} {
				var a *harness.Call[*Visit]
				if !first {
					a = enter(t, couple(w.stranger(nil)))
					synctest.Wait()
				}
				_, err := conn.Create("/d/"+name, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
				if first {
					a = enter(t, couple(w.stranger(nil)))
				} else { // kazoo's member opens
					_, err := conn.Create("/d/ready", nil, 0, zk.WorldACL(zk.PermAll))
					require.NoError(t, err)
				}
				v := visits(t, a)[0]
				leaves := harness.GoErr(t, v.Leave)
				synctest.Wait()
				require.True(t, leaves.Waiting())
				// Whoever sorts first stays until the others have left.
				require.Len(t, w.inside(), 1+i)
				require.NoError(t, conn.Delete("/d/"+name, -1))
				_, err = leaves.Wait()
				require.NoError(t, err)
				require.Empty(t, w.srv.Children("/d"))
			}
		}
	})
}

// An operator takes the permission to write, and gives it back.
func TestB36DoubleBarrierWorksAgainAsSoonAsItsPathMayBeWritten(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		admin := w.bare()
		require.NoError(t, admin.AddAuth("digest", []byte("owner:x")))
		c := w.stranger(nil)
		acquaint(t, couple(c))
		restrict := func(perms int32) {
			_, err := admin.SetACL("/d", append(zk.WorldACL(perms), zk.DigestACL(zk.PermAll, "owner", "x")...), -1)
			require.NoError(t, err)
		}
		for range 2 {
			restrict(zk.PermAll &^ zk.PermWrite)
			for range 2 {
				_, err := couple(c).Enter(harness.Within(t, time.Minute))
				require.ErrorContains(t, err, "may not be written")
			}
			restrict(zk.PermAll)
			leaveAll(t, visits(t, enter(t, couple(c)), enter(t, couple(c)))...)
		}
	})
}
