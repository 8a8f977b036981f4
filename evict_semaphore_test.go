package zkrecipes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// slots3 is a semaphore of three slots, of which two have holders that took one and two, with
// two waiters, and an operator who does not know n.
type slots3 struct {
	*recipetest.World
	one, two      *zkrecipes.SlotLease
	first, second *harness.Call[*zkrecipes.SlotLease]
	operator      *zkrecipes.Client
	looks         *zkrecipes.Semaphore
	began         time.Time
}

func inFullSemaphore(t *testing.T, f func(t *testing.T, w *slots3)) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x := &slots3{World: w, operator: w.Stranger(nil), began: time.Now()}
		x.one = recipetest.Acquire(t, zkrecipes.NewSemaphore(w.Stranger(nil), "/s", 3), 1)
		time.Sleep(time.Hour)
		x.two = recipetest.Acquire(t, zkrecipes.NewSemaphore(w.Stranger(nil), "/s", 3), 2)
		time.Sleep(time.Hour)
		x.first = recipetest.WaitsFor(t, zkrecipes.NewSemaphore(w.Stranger(nil), "/s", 3), 2)
		x.second = recipetest.WaitsFor(t, zkrecipes.NewSemaphore(w.Stranger(nil), "/s", 3), 1)
		synctest.Wait()
		x.looks = zkrecipes.NewSemaphore(x.operator, "/s", 0)
		f(t, x)
	})
}

func TestASemaphoresContendersAreItsSlotsAndItsWaiters(t *testing.T) {
	inFullSemaphore(t, func(t *testing.T, w *slots3) {
		w.Write("/s/slots/other", "")
		cs := listed(t, w.looks.Contenders)
		require.Len(t, cs, 5)
		for i, c := range cs {
			require.Equal(t, i < 3, c.Held, c)
			require.NotEmpty(t, c.Identity)
			require.NotZero(t, c.Czxid)
		}
		require.Equal(t, w.began, cs[0].HeldSince)
		require.Equal(t, w.one.Checks()[0].Path, cs[0].Path)
		require.Equal(t, w.began.Add(time.Hour), cs[1].HeldSince)
		require.Equal(t, w.two.Checks()[0].Path, cs[1].Path)
		require.Equal(t, w.two.Checks()[1].Path, cs[2].Path)
		require.Zero(t, cs[3].HeldSince)
		require.Less(t, cs[3].Token, cs[4].Token)
	})
}

func TestTheSizeOfASemaphoreIsReadWithoutKnowingIt(t *testing.T) {
	inFullSemaphore(t, func(t *testing.T, w *slots3) {
		n, err := w.looks.Size(t.Context())
		require.NoError(t, err)
		require.Equal(t, 3, n)
		require.NoError(t, w.looks.Resize(t.Context(), 5))
		n, err = zkrecipes.NewSemaphore(w.operator, "/s", 0).Size(t.Context())
		require.NoError(t, err)
		require.Equal(t, 5, n)
		require.Equal(t, 2, len(w.first.Get().Slots()))
	})
}

func TestTheSizeOfAnotherRecipeOrOfNoneIsAnError(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		recipetest.PutOn(t, zkrecipes.NewQueue(c, "/q", nil), "a")
		for path, want := range map[string]error{"/none": zkrecipes.ErrUnused, w.Path: zkrecipes.ErrPathInUse, "/q": zkrecipes.ErrPathInUse} {
			require.ErrorIs(t, errOf(zkrecipes.NewSemaphore(c, path, 0).Size)(t.Context()), want, path)
			require.ErrorIs(t, errOf(zkrecipes.NewSemaphore(c, path, 0).Contenders)(t.Context()), want, path)
		}
		require.ErrorContains(t, errOf((*zkrecipes.Semaphore)(nil).Size)(t.Context()), "constructor")
		require.ErrorContains(t, errOf(zkrecipes.NewSemaphore(c, "/none", 0).Acquire)(t.Context()), "n is 0 slots: must be from 1 to 2147483647")
	})
}

func TestAnEvictedSlotEndsTheLeaseWithAllItsSlots(t *testing.T) {
	inFullSemaphore(t, func(t *testing.T, w *slots3) {
		slot := listed(t, w.looks.Contenders)[2]
		for _, c := range []zkrecipes.Contender{slot, {Path: slot.Path, Czxid: slot.Czxid}} {
			spares(t, w.operator, c)
		}
		require.NoError(t, w.two.Err())
		evicts(t, w.operator, slot, anyway, true)
		require.Len(t, w.first.Get().Slots(), 2, "the other slot was given back")
		require.ErrorIs(t, w.two.Err(), zkrecipes.ErrLost)
		require.NoError(t, w.one.Err())
		evicts(t, w.operator, slot, anyway, false)
	})
}

// The servers reap the line as soon as it is empty.
func TestTheOnlyWaiterOfASemaphoreCanBeEvictedAlthoughItsLineIsReaped(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		holder, operator := zkrecipes.NewSemaphore(w.Stranger(nil), "/s", 1), w.Stranger(nil)
		recipetest.Acquire(t, holder, 1)
		waiter := recipetest.WaitsFor(t, zkrecipes.NewSemaphore(w.Stranger(nil), "/s", 1), 1)
		evicts(t, operator, listed(t, zkrecipes.NewSemaphore(operator, "/s", 0).Contenders)[1], nil, true)
		recipetest.Fails(t, waiter, zkrecipes.ErrEvicted)
		require.NotContains(t, w.Srv.Children("/s"), "line")
	}, zktest.ContainerCheckInterval(100*time.Millisecond))
}

// The first in line holds nothing, unlike the first in the line of a lock.
func TestEachWaiterOfASemaphoreCanBeEvicted(t *testing.T) {
	for i := range 2 {
		inFullSemaphore(t, func(t *testing.T, w *slots3) {
			calls := []*harness.Call[*zkrecipes.SlotLease]{w.first, w.second}
			evicts(t, w.operator, listed(t, w.looks.Contenders)[3+i], nil, true)
			recipetest.Fails(t, calls[i], zkrecipes.ErrEvicted)
			require.NoError(t, w.two.Release())
			calls[1-i].Get()
			require.NoError(t, w.one.Err())
		})
	}
}

// It takes its slots while its eviction is under way.
func TestAWaiterThatEntersMeanwhileKeepsItsSlots(t *testing.T) {
	inFullSemaphore(t, func(t *testing.T, w *slots3) {
		waiter := listed(t, w.looks.Contenders)[3]
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "delete", Path: waiter.Path, For: time.Second})
		a := harness.Go(t, func(ctx context.Context) (bool, error) { return w.operator.Evict(ctx, waiter, nil) })
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, w.two.Release())
		l := w.first.Get()
		require.False(t, a.Get())
		require.NoError(t, l.Err())
	})
}

func TestContendersOfAnElectionAreTheLeaderAndTheCandidates(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		operator := zkrecipes.NewElection(w.Stranger(nil), w.Path)
		require.ErrorIs(t, errOf(operator.Contenders)(t.Context()), zkrecipes.ErrUnused)
		began := time.Now()
		term := recipetest.Campaigns(t, a, "a")
		time.Sleep(time.Hour)
		recipetest.CampaignLater(t, b, "b")
		synctest.Wait()
		cs := listed(t, operator.Contenders)
		require.Len(t, cs, 2)
		require.Equal(t, w.Path+"/leader", cs[0].Path)
		require.Equal(t, "leader", cs[0].Place)
		require.Equal(t, term.Token(), cs[0].Token)
		require.Equal(t, began, cs[0].HeldSince)
		require.True(t, cs[0].Held)
		require.NotEmpty(t, cs[0].Identity)
		require.False(t, cs[1].Held)
		require.Equal(t, began.Add(time.Hour), cs[1].Since)
	})
}

// leaderOf returns the leader among the contenders.
func leaderOf(t *testing.T, e *zkrecipes.Election) zkrecipes.Contender {
	t.Helper()
	cs := listed(t, e.Contenders)
	require.True(t, cs[0].Held)
	return cs[0]
}

func TestAnEvictedLeaderIsDeposed(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		next := recipetest.CampaignLater(t, b, "b")
		time.Sleep(time.Minute)
		c := w.Stranger(nil)
		operator := zkrecipes.NewElection(c, w.Path)
		leader := leaderOf(t, operator)
		spares(t, c, leader)
		require.NoError(t, term.Err())
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: "multi(check,delete)", After: true})
		evicts(t, c, leader, anyway, true)
		require.ErrorIs(t, term.Err(), zkrecipes.ErrLost)
		second := next.Get()
		require.Greater(t, second.Token(), term.Token())

		// The next leader's znode has the same name.
		evicts(t, c, leader, anyway, false)
		time.Sleep(time.Minute)
		require.NoError(t, second.Err())
	})
}

// The leader changes between the look and the deletion.
func TestTheNextLeaderIsNotEvictedInPlaceOfTheLast(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		next := recipetest.CampaignLater(t, b, "b")
		synctest.Wait()
		c := w.Stranger(nil)
		leader := leaderOf(t, zkrecipes.NewElection(c, w.Path))
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "multi(check,delete)", For: time.Second})
		evict := harness.Go(t, func(ctx context.Context) (bool, error) { return c.Evict(ctx, leader, anyway) })
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, term.Resign())
		second := next.Get()
		require.False(t, evict.Get())
		time.Sleep(time.Minute)
		require.NoError(t, second.Err())
		w.LeaderIs("b")
	})
}

func TestALeadersZnodeWithoutItsPlaceIsLeftToTheNextLeader(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		c := w.Stranger(nil)
		leader := leaderOf(t, zkrecipes.NewElection(c, w.Path))
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "multi(check,delete)", Path: w.Path, For: time.Second, Times: 2})
		require.NoError(t, w.Bare().Delete(term.Checks()[0].Path, -1))
		_, err := c.Evict(t.Context(), leader, anyway)
		require.ErrorIs(t, err, zkrecipes.ErrLeaderLeft)
		synctest.Wait()
	})
}
