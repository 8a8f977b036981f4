package barrier_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Other clients and operators change the znodes of a DoubleBarrier.

func TestB22EvictedMemberOfADoubleBarrierGetsAnError(t *testing.T) {
	for name, pause := range map[string]time.Duration{"early": 0, "late": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				conn := w.Bare()
				a := recipetest.Enter(t, recipetest.Couple(w.Stranger(nil)))
				time.Sleep(pause)
				synctest.Wait()
				require.NoError(t, conn.Delete("/d/"+w.Inside()[0], -1))
				time.Sleep(2 * time.Second)
				require.False(t, a.Waiting())
				_, err := a.Wait()
				require.ErrorIs(t, err, zkrecipes.ErrEvicted)

				vs := recipetest.Visits(t, recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))), recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))))
				time.Sleep(pause)
				synctest.Wait()
				require.NoError(t, conn.Delete(recipetest.HandleOf(recipetest.LeaseOf(vs[0])).Grant.Place().Path, -1))
				require.NoError(t, vs[1].Leave(t.Context()), "it does not wait for the evicted member")
				time.Sleep(2 * time.Second)
				require.ErrorIs(t, vs[0].Err(), zkrecipes.ErrLost)
				require.ErrorIs(t, vs[0].Leave(t.Context()), zkrecipes.ErrLost)
				require.Empty(t, w.Srv.Children("/d"))
			})
		})
	}
}

func TestB23DeletingADoubleBarrierEvictsItsMembers(t *testing.T) {
	t.Run("waiting members", func(t *testing.T) {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			a := recipetest.Enter(t, recipetest.Couple(w.Stranger(nil)))
			synctest.Wait()
			recipetest.Wipe(t, w.Bare(), "/d")
			_, err := a.Wait()
			require.ErrorIs(t, err, zkrecipes.ErrEvicted)
			recipetest.LeaveAll(t, recipetest.Visits(t, recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))), recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))))...)
		})
	})
	t.Run("waiting members, one of which opens it", func(t *testing.T) {
		for op, path := range map[string]string{"getChildren2": "/d", recipetest.OpOpenAll: "/d/ready"} {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				a := recipetest.Enter(t, recipetest.Couple(w.Stranger(nil)))
				synctest.Wait()
				w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: op, Path: path, For: time.Second})
				b := recipetest.Enter(t, recipetest.Couple(w.Stranger(nil)))
				synctest.Wait()
				require.Len(t, w.Inside(), 2)
				recipetest.Wipe(t, w.Bare(), "/d")
				for _, m := range []*harness.Call[*zkrecipes.Visit]{a, b} {
					_, err := m.Wait()
					require.ErrorIs(t, err, zkrecipes.ErrEvicted)
				}
			})
		}
	})
	t.Run("members inside", func(t *testing.T) {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			vs := recipetest.Visits(t, recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))), recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))))
			leaves := harness.GoErr(t, vs[0].Leave)
			synctest.Wait()
			recipetest.Wipe(t, w.Bare(), "/d")
			_, err := leaves.Wait()
			require.NoError(t, err, "no member is left inside")
			time.Sleep(2 * time.Second)
			require.ErrorIs(t, vs[1].Leave(t.Context()), zkrecipes.ErrLost)
		})
	})
}

func TestB24DoubleBarrierWhosePathWasReapedIsCreatedAgain(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, d := w.Stranger(nil), w.Stranger(nil)
		for range 3 {
			recipetest.LeaveAll(t, recipetest.Visits(t, recipetest.Enter(t, recipetest.Couple(c)), recipetest.Enter(t, recipetest.Couple(d)))...)
			recipetest.Wipe(t, w.Bare(), "/d")
		}
	})
}

// Children that are not members are not counted, and nobody waits for them to leave.
func TestB25ForeignChildrenOfADoubleBarrierAreNotCounted(t *testing.T) {
	path, conn := harness.NewPath(t), harness.Raw(t)
	c := recipetest.Dial(t, nil)
	a := recipetest.Enter(t, zkrecipes.NewDoubleBarrier(c, path, 3))
	watching(t, c, 1)
	var junk []string
	for _, name := range []string{
		"x", "member", "member-", "member-12", "_c_x", "ünï-member-000000000x", "readyy", "Ready",
		"1f1e2d3c-4b5a-4678-9abc-def01234567", "1f1e2d3c-4b5a-4678-9abc-def0123456789", "1f1e2d3c-4b5a-4678-9abcxdef012345678",
		"0f1e2d3c4b5a46789abcdef01234567", "0f1e2d3c4b5a46789abcdef0123456789", "0F1E2D3C4B5A46789ABCDEF012345678", strings.Repeat("é", 16),
	} {
		_, err := conn.Create(path+"/"+name, nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		junk = append(junk, name)
	}
	b := recipetest.Enter(t, zkrecipes.NewDoubleBarrier(c, path, 3))
	harness.Eventually(t, "two members", func() bool { return len(harness.Children(t, conn, path)) == len(junk)+2 })
	watching(t, c, 1)
	require.True(t, b.Waiting())
	b.Cancel(nil)
	_, err := b.Wait()
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, a.Waiting())
	recipetest.LeaveAll(t, recipetest.Visits(t, a, recipetest.Enter(t, zkrecipes.NewDoubleBarrier(c, path, 3)), recipetest.Enter(t, zkrecipes.NewDoubleBarrier(recipetest.Dial(t, nil), path, 3)))...)
	require.ElementsMatch(t, junk, harness.Children(t, conn, path))

	// A lock's place is not ignored: it shows that another recipe uses the path.
	_, err = conn.Create(path+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	_, err = zkrecipes.NewDoubleBarrier(c, path, 1).Enter(harness.Within(t, 20*time.Second))
	require.ErrorContains(t, err, "another recipe uses this path")
}

func TestB28EnterFailsWhenTheSequenceCounterIsExhausted(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		recipetest.LeaveAll(t, recipetest.Visits(t, recipetest.Enter(t, zkrecipes.NewDoubleBarrier(c, "/d", 1)))...)
		for _, next := range []int32{line.MaxNumber + 1, 1<<31 - 1, -5} {
			require.NoError(t, w.Srv.SetCounter("/d", next))
			_, err := zkrecipes.NewDoubleBarrier(c, "/d", 1).Enter(harness.Within(t, time.Minute))
			require.ErrorIs(t, err, zkrecipes.ErrExhausted)
			synctest.Wait()
			require.Empty(t, w.Srv.Children("/d"))
		}
	})
}
