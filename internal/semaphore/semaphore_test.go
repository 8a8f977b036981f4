package semaphore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A30
func TestSemaphoreHasNHoldersAndTheNextWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, w *recipetest.World) {
		var ls []*zkrecipes.SlotLease
		for i := range 3 {
			ls = append(ls, recipetest.Acquire(t, w.Semaphore(3), 1))
			require.Equal(t, i, ls[i].Slot(), "the lowest slot")
			require.NoError(t, ls[i].Err())
		}
		a := waits(w, 3, 1)
		requireLocked(t, w.Semaphore(3), 1)
		synctest.Wait()
		require.Len(t, w.Srv.Children("/s/line"), 1, "the loser left nothing")
		recipetest.ReleaseSlots(t, ls[1])
		require.ErrorIs(t, ls[1].Err(), zkrecipes.ErrReleased)
		l := a.Get()
		require.Equal(t, []int{1}, l.Slots())
		require.Greater(t, l.Token(), ls[1].Token(), "the token of a slot grows")
		require.Equal(t, []int{0, 1, 2}, w.Taken())
		recipetest.ReleaseSlots(t, l, ls[0], ls[2])
	})
}

// A31: Slots that come free do not go to small requests behind a large one.
func TestSemaphoreLargeRequestIsNotOvertaken(t *testing.T) {
	inBubble(t, func(t *testing.T, w *recipetest.World) {
		ls := []*zkrecipes.SlotLease{recipetest.Acquire(t, w.Semaphore(3), 1), recipetest.Acquire(t, w.Semaphore(3), 1), recipetest.Acquire(t, w.Semaphore(3), 1)}
		large := waits(w, 3, 3)
		small := waits(w, 3, 1)
		for _, l := range ls {
			require.True(t, large.Waiting())
			requireLocked(t, w.Semaphore(3), 1)
			recipetest.ReleaseSlots(t, l)
			stillWaits(t, small)
		}
		l := large.Get()
		require.Equal(t, []int{0, 1, 2}, l.Slots())
		recipetest.ReleaseSlots(t, l)
		served(t, small)
	})
}

// A value that knows of free slots, and asks nobody, does not overtake either.
func TestSemaphoreThatRemembersFreeSlotsDoesNotOvertake(t *testing.T) {
	inBubble(t, func(t *testing.T, w *recipetest.World) {
		x := w.WarmSemaphore(2)
		held := recipetest.Acquire(t, x, 1)
		large := waits(w, 2, 2)
		small := recipetest.WaitsFor(t, x, 1)
		require.Equal(t, []int{0}, w.Taken())
		recipetest.ReleaseSlots(t, held)
		served(t, large, small)
	})
}

// The value knows free slots, and the version of a line which was deleted since. Another
// line has the same version.
func TestSemaphoreThatRemembersAnotherLineDoesNotOvertake(t *testing.T) {
	inBubble(t, func(t *testing.T, w *recipetest.World) {
		x := w.WarmSemaphore(1)
		recipetest.RemoveTree(t, w.Bare(), "/s")
		held := recipetest.Acquire(t, w.Semaphore(1), 1)
		first := waits(w, 1, 1)
		requests := w.Requests(func() {
			requireLocked(t, x, 1)
		})
		require.Equal(t, 1, requests[recipetest.OpTakeFree], "it was tried")
		synctest.Wait()
		require.Equal(t, []int{0}, w.Taken(), "and given back")
		next := recipetest.WaitsFor(t, x, 1)
		recipetest.ReleaseSlots(t, held)
		l := first.Get()
		stillWaits(t, next)
		recipetest.ReleaseSlots(t, l)
		served(t, next)
	})
}

// untilReturned has others use a slot until a call returns, and tells how often.
func untilReturned[R any](t *testing.T, a *harness.Call[R], use func()) (uses int) {
	t.Helper()
	for ; a.Waiting(); uses++ {
		require.Less(t, uses, 20*zkconn.MaxTries)
		use()
	}
	return uses
}

// A slot is free all the time, and each transaction that takes it comes too late.
func TestTryAcquireReturnsErrLockedIfOthersAreQuickerEachTime(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x, use := w.DistantSemaphore()
		before := w.Srv.Counts()
		a := harness.Go(t, x.TryAcquire)
		uses := untilReturned(t, a, use)
		recipetest.Fails(t, a, zkrecipes.ErrLocked)
		require.Equal(t, uses+zkconn.MaxTries, w.Srv.Counts().Sub(before).Requests[recipetest.OpTakeFree])
		require.Empty(t, w.Srv.Children("/s/slots"))
		cycle(t, x, 2)
	})
}

// A caller that may wait stands in line then, and nobody is quicker any more.
func TestAcquireStandsInLineIfOthersAreQuickerEachTime(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x, use := w.DistantSemaphore()
		before := w.Srv.Counts()
		a := recipetest.AcquireLater(t, x, 1)
		uses := untilReturned(t, a, use)
		did := w.Srv.Counts().Sub(before).Requests
		require.Positive(t, did[recipetest.OpTakeTurn])
		require.LessOrEqual(t, did[recipetest.OpTakeFree], uses+3, "after four attempts")
		served(t, a)
		require.Empty(t, w.Srv.Children("/s/slots"))
	})
}

// A32: Two clients that take two of two slots again and again both go on: nobody holds half of
// what both need.
func TestSemaphoreClientsThatTakeAllSlotsBothGoOn(t *testing.T) {
	inBubble(t, func(t *testing.T, w *recipetest.World) {
		var wg sync.WaitGroup
		for range 2 {
			x := w.Semaphore(2)
			wg.Go(func() {
				for range 100 {
					if err := x.Do(t.Context(), func(context.Context, *zkrecipes.SlotLease) error { return nil }); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	})
}

// A01
func TestSemaphoreDoReleasesEvenAfterAPanic(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x := w.Semaphore(1)
		broken := errors.New("broken")
		require.ErrorIs(t, x.Do(harness.Within(t, time.Minute), func(context.Context, *zkrecipes.SlotLease) error { return broken }), broken)
		require.Panics(t, func() {
			_ = x.Do(harness.Within(t, time.Minute), func(context.Context, *zkrecipes.SlotLease) error { panic("f") })
		})
		w.SemaphoreAtRest()
		require.ErrorContains(t, x.Do(harness.Within(t, time.Minute), nil), "nil function")
	})
}

// A15
func TestSemaphoreHoldersAreListed(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x := w.Semaphore(4)
		require.ErrorIs(t, second(x.Holders(t.Context())), zkrecipes.ErrUnused, "there is no path")
		var want []zkrecipes.SlotHolder
		for i, identity := range []string{"one", "two"} {
			c := w.Stranger(&zkrecipes.Options{Identity: identity})
			l := recipetest.Acquire(t, zkrecipes.NewSemaphore(c, "/s", 4), 1+i)
			want = append(want, zkrecipes.SlotHolder{Slots: l.Slots(), Token: l.Token(), Identity: identity, Session: recipetest.SessionID(c)})
		}
		w.Write("/s/slots/other", "")
		hs, err := x.Holders(t.Context())
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), hs[1].Since, time.Minute)
		for i := range hs {
			require.NotEmpty(t, hs[i].ID)
			hs[i].Since, hs[i].ID = time.Time{}, ""
		}
		require.Equal(t, want, hs)
	})
}

// A04
func TestSemaphoreIsReapedWhenIdle(t *testing.T) {
	for name, take := range map[string]func(*zkrecipes.Semaphore, context.Context) (*zkrecipes.SlotLease, error){
		"Acquire": (*zkrecipes.Semaphore).Acquire, "TryAcquire": (*zkrecipes.Semaphore).TryAcquire,
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				const while = 6*time.Minute + 7*time.Second // so that no check of the reaper falls on an end of it
				x := w.Semaphore(2)
				for range 3 { // each finds the path gone, and makes it anew
					var ls []*zkrecipes.SlotLease
					for range 2 {
						l, err := take(x, harness.Within(t, time.Hour))
						require.NoError(t, err)
						ls = append(ls, l)
						time.Sleep(while) // the line is reaped, but the slots are not
						require.NoError(t, l.Err())
					}
					recipetest.ReleaseSlots(t, ls...)
					require.NotEmpty(t, w.Srv.Children("/s"))
					time.Sleep(while)
					require.NotContains(t, w.Srv.Children("/"), "s")
				}
			}, zktest.ContainerCheckInterval(time.Minute))
		})
	}
}

// Several checks prove all the slots: an operator takes one of them away.
func TestChecksOfASlotLeaseGuardAllItsSlots(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		l, conn := recipetest.Acquire(t, w.Semaphore(3), 2), w.Bare()
		var ops []any
		for _, check := range l.Checks() {
			ops = append(ops, check)
		}
		require.Len(t, ops, 2)
		_, err := conn.Multi(ops...)
		require.NoError(t, err)
		require.NoError(t, conn.Delete(w.SlotNode(1), -1))
		_, err = conn.Multi(ops...)
		require.ErrorIs(t, err, zk.ErrNoNode)
		_, err = l.Commit(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLost)
		require.Empty(t, new(zkrecipes.SlotLease).Checks())
	})
}

// A departure wakes the first in line. If that enters, it wakes its successor, which is
// then the first. Nobody else wakes, however many wait.
func TestSemaphoreDepartureWakesTheFirstOf200Waiters(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		const n = 200
		var held []*zkrecipes.SlotLease
		holder := w.Semaphore(3)
		for range 3 {
			held = append(held, recipetest.Acquire(t, holder, 1))
		}
		cr := &recipetest.Crowd{W: w}
		first := recipetest.AcquireLater(t, zkrecipes.NewSemaphore(cr.Client(), "/s", 3), 3)
		synctest.Wait()
		var as []*harness.Call[*zkrecipes.SlotLease]
		for range n {
			as = append(as, recipetest.AcquireLater(t, zkrecipes.NewSemaphore(cr.Client(), "/s", 3), 1))
			synctest.Wait()
		}
		require.Len(t, w.Srv.Children("/s/line"), n+1)
		for range 2 {
			require.Equal(t, 1, cr.Woken(func() { recipetest.ReleaseSlots(t, held[0]) }), "the first, which cannot enter yet")
			held = held[1:]
		}
		require.Equal(t, 2, cr.Woken(func() { recipetest.ReleaseSlots(t, held[0]) }), "the first, and its successor")
		require.Equal(t, 5, cr.Woken(func() { served(t, first) }), "the client that leaves, the three that enter, and the next")
		for i := range 10 {
			before := w.Srv.Counts()
			require.Equal(t, 3, cr.Woken(func() { recipetest.ReleaseSlots(t, as[i].Get()) }), "the client that leaves, the first, and its successor")
			did := w.Srv.Counts().Sub(before)
			require.Equal(t, 5, recipetest.Sum(did.Requests))
			require.Equal(t, 2, did.Events["NodeChildrenChanged"], "the departure to the first, and its entry to itself")
			require.True(t, as[i+4].Waiting())
		}
	})
}
