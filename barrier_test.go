package zkrecipes_test

import (
	"context"
	"sync"
	"sync/atomic"
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

// eachBarrier runs f for a Barrier and for a DoubleBarrier, each of two members.
func eachBarrier(t *testing.T, f func(t *testing.T, w *recipetest.World, k recipetest.BarrierCase)) {
	for _, k := range recipetest.BothBarriers {
		t.Run(k.Name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) { f(t, w, k) })
		})
	}
}

// No call returns before n members have come, from n clients, use after use. Members of a
// DoubleBarrier all leave, too.
func TestRealBarriersOpenForNMembersUseAfterUse(t *testing.T) {
	const n, uses = 4, 10
	for _, k := range recipetest.BothBarriers {
		t.Run(k.Name, func(t *testing.T) {
			path, conn := harness.NewPath(t), harness.Raw(t)
			var wg sync.WaitGroup
			var coming, leaving atomic.Int32
			var indexes sync.Map
			for range n {
				arrive := k.Arrive(recipetest.Dial(t, nil), path, n)
				wg.Go(func() {
					for use := range uses {
						coming.Add(1)
						a, err := arrive(harness.Within(t, 2*time.Minute))
						if there := coming.Load(); err != nil || there < int32(n*(use+1)) {
							t.Errorf("through after %d calls in %d uses: %v", there, use+1, err)
							return
						}
						if a.Leave == nil {
							if _, taken := indexes.LoadOrStore([2]int{use, a.Index}, true); taken || a.Index < 0 || a.Index >= n {
								t.Error("index:", a.Index)
							}
							continue
						}
						leaving.Add(1)
						err = a.Leave(harness.Within(t, 2*time.Minute))
						if gone := leaving.Load(); err != nil || gone < int32(n*(use+1)) {
							t.Errorf("left after %d calls in %d uses: %v", gone, use+1, err)
							return
						}
					}
				})
			}
			wg.Wait()
			harness.Eventually(t, "an empty barrier", func() bool { return len(harness.Children(t, conn, path)) == 0 })
		})
	}
}

// Calls count separately, even if they share a Client.
func TestCallsOfOneClientAreSeparateMembers(t *testing.T) {
	for _, n := range []int{1, 5} {
		eachBarrier(t, func(t *testing.T, w *recipetest.World, k recipetest.BarrierCase) {
			c := w.Stranger(nil)
			for range 3 {
				var as []*harness.Call[recipetest.Arrival]
				for range n {
					as = append(as, harness.Go(t, k.Arrive(c, k.Path, n)))
				}
				k.Passes(w, as...)
			}
		})
	}
}

// The session ends in the wait, and at the join. Others may have counted the member of a Barrier.
func TestAMemberIsLostWithItsSession(t *testing.T) {
	eachBarrier(t, func(t *testing.T, w *recipetest.World, k recipetest.BarrierCase) {
		c := w.Stranger(nil)
		a := k.ArrivesIn(w, c)
		require.True(t, w.Srv.Expire(recipetest.SessionID(c)))
		recipetest.Fails(t, a, zkrecipes.ErrLost, zk.ErrSessionExpired)
	})
	for _, after := range []bool{false, true} {
		eachBarrier(t, func(t *testing.T, w *recipetest.World, k recipetest.BarrierCase) {
			lost, join := []error{zkrecipes.ErrLost, zk.ErrSessionExpired}, recipetest.OpEnter
			if k.Name == "barrier" {
				k.ArrivesIn(w, w.Stranger(nil)) // or the first join is refused, as there is no round
				lost, join = append(lost, zkrecipes.ErrUncertain), recipetest.OpJoinRound
			}
			w.Plan.Add(zktest.Fault{Do: zktest.Expire, Op: join, After: after})
			recipetest.Fails(t, k.ArrivesIn(w, w.Stranger(nil)), lost...)
		})
	}
}

// An operator deletes the znode of a waiting member, early or late.
func TestEvictedMemberGetsErrEvictedAndIsNotCounted(t *testing.T) {
	for _, pause := range []time.Duration{0, 5 * time.Second} {
		eachBarrier(t, func(t *testing.T, w *recipetest.World, k recipetest.BarrierCase) {
			a := k.ArrivesIn(w, w.Stranger(nil))
			time.Sleep(pause)
			synctest.Wait()
			require.NoError(t, w.Bare().Delete(k.Path+k.Members+"/"+k.Standing(w)[0], -1))
			time.Sleep(2 * time.Second)
			require.False(t, a.Waiting())
			recipetest.Fails(t, a, zkrecipes.ErrEvicted)
			one := k.ArrivesIn(w, w.Stranger(nil))
			require.True(t, one.Waiting())
			k.Passes(w, one, k.ArrivesIn(w, w.Stranger(nil)))
		})
	}
}

// A surplus arrival waits for the next round: when nobody opens the round until four have
// joined, or when it is opened while the fourth lists it.
func TestSurplusArrivalWaitsForTheNextRound(t *testing.T) {
	list := zktest.Fault{Do: zktest.Delay, Op: "getChildren2", Path: recipetest.RoundOf2, For: time.Second}
	later := list
	later.For, later.Skip = 2*time.Second, 1
	twice := list
	twice.Times = 2
	cases := map[string][]zktest.Fault{"not opened": {twice}, "opened": {list, later}}
	recipetest.EachInBubble(t, cases, func(t *testing.T, w *recipetest.World, faults []zktest.Fault) {
		w.Plan.Add(faults...)
		var as []*harness.Call[int]
		for range 4 {
			as = append(as, w.WaitsIn(w.Stranger(nil), 3))
		}
		require.Len(t, w.Present(), 4)
		time.Sleep(5 * time.Second)
		recipetest.Indexes(t, as[:3]...)
		require.True(t, as[3].Waiting())
		recipetest.MembersLeft()
		require.Len(t, w.Present(), 1)
		recipetest.Indexes(t, as[3], w.WaitsIn(w.Stranger(nil), 3), w.WaitsIn(w.Stranger(nil), 3))
	})
}

// A member that ignores the error must not take itself for member 0, the leader.
func TestWaitOfABarrierThatFailsReturnsMinusOne(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		ended, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		for _, wait := range []func() (int, error){
			func() (int, error) { return (*zkrecipes.Barrier)(nil).Wait(t.Context()) },
			func() (int, error) { return zkrecipes.NewBarrier(c, "/b", 0).Wait(t.Context()) },
			func() (int, error) { return zkrecipes.NewBarrier(c, "/b", 2).Wait(canceled) },
			func() (int, error) { return zkrecipes.NewBarrier(c, "/b", 2).Wait(ended) },
			func() (int, error) { return zkrecipes.NewBarrier(c, "/b", 3).Wait(t.Context()) }, // the path holds 2
		} {
			index, err := wait()
			require.Error(t, err)
			require.Equal(t, -1, index, err)
		}
	})
}

// Members leave before Close returns, and the last one deletes the round.
func TestMembersHaveLeftWhenTheirClientIsClosed(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLeaveRound, For: time.Second, Times: 2})
		c, d := w.Stranger(nil), w.Stranger(nil)
		recipetest.Indexes(t, w.WaitsIn(c, 2), w.WaitsIn(d, 2))
		require.Len(t, w.Present(), 2)
		require.NoError(t, c.Close())
		require.NoError(t, d.Close())
		require.Empty(t, w.Srv.Children("/b"))
	})
}

func TestDoubleBarrierIsAThreshold(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		enters := func() *harness.Call[*zkrecipes.Visit] {
			return recipetest.EnterLater(t, zkrecipes.NewDoubleBarrier(w.Stranger(nil), "/d", 2))
		}
		first := enters()
		require.True(t, first.Waiting())
		vs := recipetest.Visits(t, first, enters())
		vs = append(vs, recipetest.Visits(t, enters())...)
		require.Len(t, w.Inside(), 3)
		recipetest.LeaveAll(t, vs...)
		synctest.Wait()
		require.Empty(t, w.Srv.Children("/d"))
	})
}
