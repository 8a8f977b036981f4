package counter_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/counter"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// The session keeps no receipt of a counter that it has not used for a while.
func TestACountersReceiptIsGivenBack(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		for i := range 3 {
			recipetest.Count(t, zkrecipes.NewCounter(c, fmt.Sprintf("/c%d", i)), 1)
		}
		require.Equal(t, 3, c.Status().Znodes)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, c.Status().Znodes)
		require.Equal(t, int64(2), recipetest.Count(t, zkrecipes.NewCounter(c, "/c0"), 1))
	})
}

// One that does not fit does not keep the others of the same write from being added.
func TestAnOverflowConcernsItsCallAlone(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x := zkrecipes.NewCounter(w.Stranger(nil), "/c")
		require.NoError(t, x.Set(t.Context(), math.MaxInt64-10))
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpCount, For: time.Second})
		first := recipetest.Adds(t, x, 1)
		large := recipetest.Adds(t, x, 100)
		small := recipetest.CountLater(t, x, 2)
		require.Equal(t, int64(math.MaxInt64-9), first.Get())
		recipetest.Fails(t, large, zkrecipes.ErrOverflow)
		require.Equal(t, int64(math.MaxInt64-7), small.Get())
	})
}

// 64 goroutines of a process add while one write is under way: one write more adds for all.
func TestAddsOfOneProcessAreWrittenTogether(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		x := zkrecipes.NewCounter(c, "/c")
		recipetest.Count(t, x, 0)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpCount, For: time.Second})
		requests := w.Requests(func() {
			calls := []*harness.Call[int64]{recipetest.CountLater(t, x, 1)}
			synctest.Wait()
			for range 64 {
				calls = append(calls, recipetest.CountLater(t, zkrecipes.NewCounter(c, "/c"), 1))
			}
			var values []int64
			for _, c := range calls {
				values = append(values, c.Get())
			}
			slices.Sort(values)
			for i, v := range values {
				require.Equal(t, int64(i+1), v, "each gets a value of its own")
			}
		})
		require.Equal(t, 2, recipetest.Writes(requests))
		require.Equal(t, "65", w.Text("/c"))
	})
}

// After 2^32 writes the data have the version that stands for any.
func TestAddDoesNotRelyOnAVersionThatStandsForAny(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.NewCore().Client
		x := counter.New(c, "/c")
		_, err := x.Do(t.Context(), counter.Add(1))
		require.NoError(t, err)
		w.Write("/c", "100")
		counter.SetKnownVersion(c, "/c", -1)
		v, err := x.Do(t.Context(), counter.Add(1))
		require.NoError(t, err)
		require.Equal(t, int64(101), v)
	})
}

// Whoever loses three races stands in line, and then each turn costs one write.
func TestUnderContentionAddsTakeTurns(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		const clients, each = 16, 20
		var calls []*harness.Call[struct{}]
		xs := make([]*zkrecipes.Counter, clients)
		for i := range xs {
			link := harness.NewLink(w.Srv)
			xs[i] = zkrecipes.NewCounter(w.Stranger(&zkrecipes.Options{Dialer: link.Dial}), "/c")
			link.SetLatency(time.Millisecond + time.Duration(i)*37*time.Microsecond)
		}
		before := w.Srv.Counts()
		for _, x := range xs {
			calls = append(calls, harness.GoErr(t, func(ctx context.Context) error {
				for range each {
					if _, err := x.Add(ctx, 1); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		for _, c := range calls {
			c.Get()
		}
		synctest.Wait()
		requests := w.Srv.Counts().Sub(before).Requests
		require.Equal(t, strconv.Itoa(clients*each), w.Text("/c"))
		writes := requests[recipetest.OpCount] + requests[recipetest.OpCountInTurn]
		t.Log(writes, "writes for", clients*each, "adds:", requests)
		require.LessOrEqual(t, writes, clients*each+clients*2*3)
		require.GreaterOrEqual(t, requests[recipetest.OpCountInTurn], clients*each/2, "most wait for their turn")
	})
}

// Each add is carried out once or not at all, and its caller learns which, unless its session
// ends.
func TestAddsSurviveAMishapAtAnyRequest(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, w *recipetest.World, x *zkrecipes.Counter){
		"first": func(*testing.T, *recipetest.World, *zkrecipes.Counter) {},
		"known": func(t *testing.T, w *recipetest.World, x *zkrecipes.Counter) { recipetest.Count(t, x, 1000) },
		"others write": func(t *testing.T, w *recipetest.World, x *zkrecipes.Counter) {
			recipetest.Count(t, x, 500)
			recipetest.Count(t, zkrecipes.NewCounter(w.Stranger(nil), "/c"), 500)
		},
		"in line": func(t *testing.T, w *recipetest.World, x *zkrecipes.Counter) {
			recipetest.Count(t, x, 1000)
			w.CrowdCounter(t, x)
		},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.EachRequest(t, recipetest.Mishaps, func(t *testing.T, fault zktest.Fault) (met bool) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) { met = w.AddsSurvive(t, prepare, fault) })
				return met || fault.Skip < 5
			})
		})
	}
}

// Each reply is lost, but the session lives: nothing is uncertain, and the sum is exact.
func TestManyClientsAddExactlyWhatTheyAreTold(t *testing.T) {
	for _, after := range []bool{false, true} {
		for skip := range 12 {
			t.Run(fmt.Sprint(after, skip), func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: "create2", After: after, Skip: skip},
						zktest.Fault{Do: zktest.Drop, Op: "multi", After: after, Skip: 3 * skip},
						zktest.Fault{Do: zktest.Drop, Op: "multi", After: !after, Skip: 3*skip + 5})
					var calls []*harness.Call[int64]
					for i := range 6 {
						x := zkrecipes.NewCounter(w.Stranger(nil), "/c")
						calls = append(calls, harness.Go(t, func(ctx context.Context) (sum int64, err error) {
							for n := range 4 {
								delta := int64(100*i + n - 7)
								if _, err := x.Add(ctx, delta); err != nil {
									return sum, err
								}
								sum += delta
							}
							return sum, nil
						}))
					}
					sum := int64(0)
					for _, a := range calls {
						sum += a.Get()
					}
					require.Equal(t, strconv.FormatInt(sum, 10), w.Text("/c"))
				})
			})
		}
	}
}

// Somebody else writes the same text as the add whose reply was lost.
func TestALostAddIsNotTakenForTheSameOfAnother(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x, other := zkrecipes.NewCounter(w.Stranger(nil), "/c"), zkrecipes.NewCounter(w.Stranger(nil), "/c")
		recipetest.Count(t, x, 1)
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: recipetest.OpCount}, zktest.Fault{Do: zktest.Refuse, Times: 1})
		a := recipetest.Adds(t, x, 1)
		require.Equal(t, int64(2), recipetest.Count(t, other, 1))
		require.Equal(t, int64(3), a.Get())
		require.Equal(t, "3", w.Text("/c"))
	})
}

func TestAnAddWhoseReceiptIsGoneIsUncertain(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x := zkrecipes.NewCounter(w.Stranger(nil), "/c")
		recipetest.Count(t, x, 1)
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: recipetest.OpCount, After: true}, zktest.Fault{Do: zktest.Refuse, Times: -1})
		a := recipetest.Adds(t, x, 1)
		w.Plan.Stop()
		receipt := "/c/puts/" + w.Srv.Children("/c/puts")[0]
		require.NoError(t, w.Bare().Delete(receipt, -1))
		recipetest.Fails(t, a, zkrecipes.ErrUncertain)
		require.Equal(t, int64(3), recipetest.Count(t, x, 1))
	})
}
