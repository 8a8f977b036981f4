package counter_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

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
			eachRequestOf(t, 3, recipetest.Mishaps, func(t *testing.T, fault zktest.Fault) (met bool) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) { met = w.AddsSurvive(t, prepare, fault) })
				return met
			})
		})
	}
}

// eachRequestOf is like eachRequest for calls that send fewer requests.
func eachRequestOf(t *testing.T, least int, mishaps []zktest.Fault, f func(t *testing.T, fault zktest.Fault) (met bool)) {
	for _, fault := range mishaps {
		n := 0
		for met := true; met; fault.Skip++ {
			t.Run(fmt.Sprint(fault), func(t *testing.T) { met = f(t, fault) })
			n++
			require.Less(t, n, 500)
			require.False(t, t.Failed())
		}
		require.GreaterOrEqual(t, n, least, "requests")
	}
}

// Each reply is lost, but the session lives: nothing is uncertain, and the sum is exact.
func TestManyClientsAddExactlyWhatTheyAreTold(t *testing.T) {
	for _, after := range []bool{false, true} {
		for skip := range 12 {
			t.Run(fmt.Sprint(after, skip), func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: "multi", After: after, Skip: 3 * skip},
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
		a := recipetest.CountLater(t, x, 1)
		synctest.Wait()
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
		a := recipetest.CountLater(t, x, 1)
		synctest.Wait()
		w.Plan.Stop()
		receipt := "/c/puts/" + w.Srv.Children("/c/puts")[0]
		require.NoError(t, w.Bare().Delete(receipt, -1))
		_, err := a.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		require.Equal(t, int64(3), recipetest.Count(t, x, 1))
	})
}
