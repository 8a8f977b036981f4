package line_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Whichever request of a join of a long line is lost, and whenever the predecessor leaves:
// the lock is granted, to one after the other, and no place remains.
func TestAFaultInAJoinOfALongLineLosesNoTurn(t *testing.T) {
	const latency = 40 * time.Millisecond
	type point struct {
		op    string
		skip  int
		after bool
	}
	var points []point
	for _, after := range []bool{false, true} {
		points = append(points, point{op: recipetest.OpJoin, skip: 0, after: after})
		for skip := range 4 { // the line, the two places, and one more
			points = append(points, point{op: "getData", skip: skip, after: after})
		}
	}
	for _, do := range []zktest.Action{zktest.Drop, zktest.Expire, zktest.Delay, zktest.Answer} {
		for _, at := range points {
			for leaves := range 3 {
				t.Run(fmt.Sprint(do, at, leaves), func(t *testing.T) {
					recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
						g := w.Guesser()
						l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
						g.Link.SetLatency(latency)
						fault := zktest.Fault{Do: do, Op: at.op, Skip: at.skip, After: at.after}
						switch do {
						case zktest.Delay:
							fault.For = 3 * latency / 2
						case zktest.Answer:
							fault.Code = jute.ErrThrottled
						}
						w.Plan.Add(fault)
						calls := []*harness.Call[*zkrecipes.Lease]{w.LockLater(g.C)}
						time.Sleep(latency / 4)
						calls = append(calls, w.LockLater(g.C), w.LockLater(g.C))
						time.Sleep(time.Duration(leaves) * latency)
						l.Release() // may be lost
						for range calls {
							var held *zkrecipes.Lease
							for i := 0; held == nil; i++ {
								require.Less(t, i, 1000, "nobody holds")
								time.Sleep(latency)
								for j, a := range calls {
									if a != nil && !a.Waiting() {
										require.Nil(t, held, "two hold")
										held, calls[j] = a.Get(), nil
									}
								}
							}
							held.Release()
						}
						time.Sleep(30 * time.Second)
						require.Empty(t, w.Line())
					})
				})
			}
		}
	}
}

// The two watches of a waiter are set at different times, in either order. Whatever happens
// in between, a place that was deleted is granted nothing, and the next one is granted.
func TestAWaiterEvictedBetweenItsTwoWatchesIsGrantedNothing(t *testing.T) {
	const between = time.Second
	for i := range 20 { // the order is the scheduler's
		for _, releaseFirst := range []bool{false, true} {
			t.Run(fmt.Sprint(i, releaseFirst), func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					g := w.Guesser()
					holder := w.Client(nil)
					s, _ := recipetest.Core(g.C).Session()
					require.True(t, s.EnforcesACLs(t.Context(), "/")) // asked once a session
					l := recipetest.LockOn(t, zkrecipes.NewMutex(holder, w.Path))
					w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getData", Skip: 2, For: between})
					a := w.LockLater(g.C)
					require.Equal(t, 1, w.Plan.Fired()["delay before"])
					behind := w.LockLater(w.Stranger(nil))
					evict := func() { require.NoError(t, w.Bare().Delete(w.Path+"/"+w.Line()[len(w.Line())-2].Name, -1)) }
					release := func() { require.NoError(t, l.Release()) }
					first, second := evict, release
					if releaseFirst {
						first, second = release, evict
					}
					time.Sleep(between / 4)
					first()
					time.Sleep(between / 4)
					second()
					time.Sleep(2 * between)
					_, err := a.Wait()
					require.ErrorIs(t, err, zkrecipes.ErrEvicted)
					require.NoError(t, behind.Get().Release())
					require.Empty(t, w.Line())
				})
			})
		}
	}
}
