package zkrecipes_test

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

// listed returns contenders.
func listed(t *testing.T, contenders func(context.Context) ([]zkrecipes.Contender, error)) []zkrecipes.Contender {
	t.Helper()
	cs, err := contenders(t.Context())
	require.NoError(t, err)
	return cs
}

// standing returns the identities of contenders, with a * for those with Held. It checks
// what all members of barriers have in common.
func standing(t *testing.T, contenders func(context.Context) ([]zkrecipes.Contender, error)) (all []string) {
	t.Helper()
	began := time.Now().Add(-time.Hour)
	for _, c := range listed(t, contenders) {
		if c.Held {
			c.Identity += "*"
		}
		require.False(t, c.Reader)
		require.Zero(t, c.Token)
		require.NotZero(t, c.Session)
		require.True(t, c.Since.After(began))
		all = append(all, c.Identity)
	}
	return all
}

func TestMembersOfABarrierAreListedInOrderOfArrival(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		b := zkrecipes.NewBarrier(w.Stranger(nil), "/b", 2)
		require.ErrorIs(t, errOf(b.Contenders)(t.Context()), zkrecipes.ErrUnused)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLeaveRound, For: time.Minute, Times: -1})
		first := recipetest.WaitLater(t, zkrecipes.NewBarrier(w.Member(1), "/b", 2))
		synctest.Wait()
		require.Equal(t, []string{"member 1"}, standing(t, b.Contenders))
		second := recipetest.WaitLater(t, zkrecipes.NewBarrier(w.Member(2), "/b", 2))
		recipetest.Indexes(t, first, second)
		early := recipetest.WaitLater(t, zkrecipes.NewBarrier(w.Member(3), "/b", 2)) // waits until they have left
		synctest.Wait()
		require.True(t, early.Waiting())
		require.Equal(t, []string{"member 1*", "member 2*"}, standing(t, b.Contenders))
		time.Sleep(2 * time.Minute)
		require.Equal(t, []string{"member 3"}, standing(t, b.Contenders))
		recipetest.Indexes(t, early, recipetest.WaitLater(t, zkrecipes.NewBarrier(w.Member(4), "/b", 2)))
		time.Sleep(2 * time.Minute)
		require.Empty(t, standing(t, b.Contenders))
	})
}

// Three members are there when a round for two is opened.
func TestASurplusMemberOfABarrierIsListedAsWaiting(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLeaveRound, For: time.Minute, Times: -1})
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpOpenRound, For: 2 * time.Second, Times: 2})
		var as []*harness.Call[int]
		for n := range 3 {
			as = append(as, recipetest.WaitLater(t, zkrecipes.NewBarrier(w.Member(n), "/b", 2)))
			synctest.Wait()
		}
		b := zkrecipes.NewBarrier(w.Stranger(nil), "/b", 7) // its n does not matter for a list
		require.Equal(t, []string{"member 0", "member 1", "member 2"}, standing(t, b.Contenders))
		recipetest.Indexes(t, as[:2]...)
		require.Contains(t, standing(t, b.Contenders), "member 1*")
		require.NotContains(t, standing(t, b.Contenders), "member 2*")
	})
}

func TestMembersOfADoubleBarrierAreListedInOrderOfArrival(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		d := recipetest.Couple(w.Stranger(nil))
		require.ErrorIs(t, errOf(d.Contenders)(t.Context()), zkrecipes.ErrUnused)
		one, two := w.Member(1), w.Member(2)
		first := recipetest.Enter(t, recipetest.Couple(one))
		synctest.Wait()
		require.Equal(t, []string{"member 1"}, standing(t, d.Contenders))
		curator := w.Bare()
		_, err := curator.Create("/d/00000000-4e5f-4a6b-8c7d-000000000001", []byte("curator"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		require.Equal(t, []string{"member 1", "curator"}, standing(t, d.Contenders))
		second := recipetest.Enter(t, recipetest.Couple(two))
		recipetest.Visits(t, first, second)
		require.Equal(t, []string{"member 1*", "curator*", "member 2*"}, standing(t, d.Contenders))
		for _, c := range []*zkrecipes.Client{one, two} { // they crash, so that ready remains
			require.True(t, w.Srv.Expire(c.Status().Session))
		}
		curator.Close()
		synctest.Wait()
		next := recipetest.Enter(t, recipetest.Couple(w.Member(3)))
		synctest.Wait()
		require.True(t, next.Waiting())
		require.Equal(t, []string{"member 3"}, standing(t, d.Contenders))
		recipetest.Visits(t, next, recipetest.Enter(t, recipetest.Couple(w.Member(4))))
		require.Equal(t, []string{"member 3*", "member 4*"}, standing(t, d.Contenders))
	})
}

func TestAMemberThatMayNotBeReadIsListedByItsName(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		d := recipetest.Couple(w.Stranger(nil))
		a := recipetest.Enter(t, recipetest.Couple(w.Member(1)))
		synctest.Wait()
		_, err := w.Bare().Create("/d/00000000-4e5f-4a6b-8c7d-000000000001", nil, zk.FlagEphemeral, zk.DigestACL(zk.PermAll, "other", "secret"))
		require.NoError(t, err)
		cs := listed(t, d.Contenders)
		require.Len(t, cs, 2)
		require.Equal(t, "member 1", cs[0].Identity)
		require.Equal(t, zkrecipes.Contender{Place: "00000000-4e5f-4a6b-8c7d-000000000001", Path: "/d/00000000-4e5f-4a6b-8c7d-000000000001"}, cs[1])
		recipetest.Cancels(t, a)
	})
}
