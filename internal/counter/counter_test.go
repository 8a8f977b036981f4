package counter_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
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

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// withCounter runs f in a bubble with a counter at /c, in a session of its own.
func withCounter(t *testing.T, f func(t *testing.T, w *recipetest.World, x *zkrecipes.Counter)) {
	t.Helper()
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) { f(t, w, zkrecipes.NewCounter(w.Stranger(nil), "/c")) })
}

// adds begins to add, and returns when the call sleeps.
func adds(t *testing.T, x *zkrecipes.Counter, delta int64) *harness.Call[int64] {
	a := recipetest.CountLater(t, x, delta)
	synctest.Wait()
	return a
}

func TestACounterCounts(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x := zkrecipes.NewCounter(w.Stranger(nil), "/n/counter")
		v, err := x.Get(t.Context())
		require.NoError(t, err)
		require.Zero(t, v)
		require.NotContains(t, w.Srv.Tree(), "/n", "a read creates nothing")
		require.Equal(t, int64(5), recipetest.Count(t, x, 5))
		require.Equal(t, int64(3), recipetest.Count(t, x, -2))
		require.Equal(t, "3", w.Text("/n/counter"))
		require.NoError(t, x.Set(t.Context(), -7))
		require.Equal(t, "-7", w.Text("/n/counter"))
		for _, c := range []struct {
			old, value int64
			swapped    bool
		}{{3, 4, false}, {-7, 4, true}, {-7, 5, false}, {4, 4, true}} {
			swapped, err := x.CompareAndSet(t.Context(), c.old, c.value)
			require.NoError(t, err)
			require.Equal(t, c.swapped, swapped, c)
		}
		v, err = zkrecipes.NewCounter(w.Stranger(nil), "/n/counter").Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(4), v)
	})
}

// Nothing deletes an idle counter, whoever has made its znode.
func TestAnIdleCounterStays(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		require.NoError(t, zkrecipes.NewMutex(c, "/parent/lock").Do(t.Context(), recipetest.Nothing)) // /parent is a container
		recipetest.Count(t, zkrecipes.NewCounter(c, "/new"), 1)
		recipetest.Count(t, zkrecipes.NewCounter(c, "/parent"), 2)
		recipetest.Count(t, zkrecipes.NewCounter(c, "/parent"), 2)
		require.NoError(t, c.Close())
		time.Sleep(5 * time.Hour)
		require.Equal(t, "1", w.Text("/new"))
		require.Equal(t, "4", w.Text("/parent"))
		require.Empty(t, w.Srv.Children("/new"))
		require.Equal(t, []string{"counter"}, w.Srv.Children("/parent"))
	})
}

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

func TestACounterSharesItsPathWithOthers(t *testing.T) {
	withCounter(t, func(t *testing.T, w *recipetest.World, x *zkrecipes.Counter) {
		w.Write("/c", "") // as kazoo creates it
		require.Equal(t, int64(1), recipetest.Count(t, x, 1))
		w.Write("/c", "41")
		require.Equal(t, int64(42), recipetest.Count(t, x, 1))
		w.Write("/c", "-3")
		swapped, err := x.CompareAndSet(t.Context(), -3, 7)
		require.NoError(t, err)
		require.True(t, swapped, "it knew 42")
		w.Write("/c", "8")
		swapped, err = x.CompareAndSet(t.Context(), 7, 1)
		require.NoError(t, err)
		require.False(t, swapped, "it knew 7")
		require.Equal(t, "8", w.Text("/c"))
	})
}

func TestACounterRefusesTextThatIsNoInteger(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		for _, text := range []string{"x", "1.5", "9223372036854775808", " 1", "1_000", "zkrecipes/1 mutex"} {
			w.Write("/c", text)
			x := zkrecipes.NewCounter(c, "/c")
			_, err := x.Add(t.Context(), 1)
			require.ErrorIs(t, err, zkrecipes.ErrPathInUse, text)
			require.ErrorContains(t, err, "/c:")
			require.ErrorContains(t, err, strconv.Quote(text))
			_, err = x.Get(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrPathInUse, text)
			require.ErrorIs(t, x.Set(t.Context(), 1), zkrecipes.ErrPathInUse, text)
			require.Equal(t, text, w.Text("/c"))
		}
		recipetest.PutOn(t, zkrecipes.NewQueue(c, "/q", nil), "a")
		_, err := zkrecipes.NewCounter(c, "/q").Add(t.Context(), 1)
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
		_, err = zkrecipes.NewCounter(c, "/q").Get(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
	})
}

func TestACounterRefusesBadInput(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		for name, x := range map[string]*zkrecipes.Counter{
			"not made by NewCounter":  nil,
			"not made by NewCounter ": {},
			"nil client":              zkrecipes.NewCounter(nil, "/c"),
			"not made by Dial":        zkrecipes.NewCounter(&zkrecipes.Client{}, "/c"),
			"path":                    zkrecipes.NewCounter(w.Stranger(nil), "c"),
		} {
			_, err := x.Add(t.Context(), 1)
			require.ErrorContains(t, err, strings.TrimSpace(name))
			_, err = x.Get(t.Context())
			require.ErrorContains(t, err, strings.TrimSpace(name))
			_, err = x.CompareAndSet(t.Context(), 0, 1)
			require.Error(t, err)
			require.Error(t, x.Set(t.Context(), 1))
		}
		c := w.Stranger(nil)
		require.NoError(t, c.Close())
		_, err := zkrecipes.NewCounter(c, "/c").Add(t.Context(), 1)
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
	})
}

func TestASumThatDoesNotFitIsRefused(t *testing.T) {
	withCounter(t, func(t *testing.T, w *recipetest.World, x *zkrecipes.Counter) {
		for _, c := range []struct{ value, delta int64 }{
			{math.MaxInt64, 1}, {1, math.MaxInt64}, {math.MinInt64, -1}, {-1, math.MinInt64},
		} {
			require.NoError(t, x.Set(t.Context(), c.value))
			v, err := x.Add(t.Context(), c.delta)
			require.ErrorIs(t, err, zkrecipes.ErrOverflow)
			require.Zero(t, v)
			require.Equal(t, strconv.FormatInt(c.value, 10), w.Text("/c"))
		}
		require.NoError(t, x.Set(t.Context(), math.MaxInt64-1))
		require.Equal(t, int64(math.MaxInt64), recipetest.Count(t, x, 1))
		require.Equal(t, int64(-1), recipetest.Count(t, x, math.MinInt64))
	})
}

// One that does not fit does not keep the others of the same write from being added.
func TestAnOverflowConcernsItsCallAlone(t *testing.T) {
	withCounter(t, func(t *testing.T, w *recipetest.World, x *zkrecipes.Counter) {
		require.NoError(t, x.Set(t.Context(), math.MaxInt64-10))
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpCount, For: time.Second})
		first := adds(t, x, 1)
		large := adds(t, x, 100)
		small := recipetest.CountLater(t, x, 2)
		require.Equal(t, int64(math.MaxInt64-9), first.Get())
		recipetest.Fails(t, large, zkrecipes.ErrOverflow)
		require.Equal(t, int64(math.MaxInt64-7), small.Get())
	})
}

// What refuses a call is not read from a server that lags: it may have been so before the call.
func TestACallIsRefusedByWhatIsSoNow(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		other, x := zkrecipes.NewCounter(w.Stranger(nil), "/c"), zkrecipes.NewCounter(w.Stranger(nil), "/c")
		require.NoError(t, other.Set(t.Context(), 1))
		v, err := x.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(1), v)
		require.NoError(t, other.Set(t.Context(), math.MaxInt64))
		swapped, err := x.CompareAndSet(t.Context(), math.MaxInt64, 2)
		require.NoError(t, err)
		require.True(t, swapped)
	}, recipetest.Behind(1, 20))
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

// Callers that leave before their add is under way have not added.
func TestACallerThatLeavesInTimeHasNotAdded(t *testing.T) {
	withCounter(t, func(t *testing.T, w *recipetest.World, x *zkrecipes.Counter) {
		recipetest.Count(t, x, 1)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpCount, For: time.Second})
		first := adds(t, x, 10)
		second := adds(t, x, 100)
		recipetest.Cancels(t, second)
		require.Equal(t, int64(11), first.Get())
		synctest.Wait()
		require.Equal(t, "11", w.Text("/c"))

		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpCount, For: time.Second})
		third := adds(t, x, 1000)
		recipetest.Cancels(t, third, zkrecipes.ErrUncertain)
		time.Sleep(2 * time.Second)
		require.Equal(t, "1011", w.Text("/c"), "it was under way")
	})
}

func TestAnAddWaitsForAConnectionAndCanBeCanceledMeanwhile(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		x := zkrecipes.NewCounter(c, "/c")
		w.Away(c)
		a, b := recipetest.CountLater(t, x, 1), adds(t, x, 2)
		recipetest.Cancels(t, b)
		w.Back()
		require.Equal(t, int64(1), a.Get())
	})
}

func TestACounterThatMayNotBeWrittenReturnsTheServersError(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		_, err := w.Bare().Create("/c", []byte("5"), 0, append(zk.WorldACL(zk.PermRead|zk.PermCreate), zk.DigestACL(zk.PermWrite, "a", "b")...))
		require.NoError(t, err)
		x := zkrecipes.NewCounter(w.Stranger(nil), "/c")
		_, err = x.Add(t.Context(), 1)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
		v, err := x.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(5), v)
	})
}

func TestShutdownWaitsForAddsAndCloseEndsThem(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		x := zkrecipes.NewCounter(c, "/c")
		recipetest.Count(t, x, 1)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpCount, For: time.Second})
		a := adds(t, x, 1)
		require.NoError(t, c.Shutdown(t.Context()))
		require.Equal(t, int64(2), a.Get())

		c = w.Stranger(nil)
		x = zkrecipes.NewCounter(c, "/c")
		recipetest.Count(t, x, 1)
		w.Plan.Add(zktest.Fault{Do: zktest.Withhold, Op: recipetest.OpCount})
		a = adds(t, x, 1)
		c.Close()
		recipetest.Fails(t, a, zkrecipes.ErrClosed, zkrecipes.ErrUncertain)
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
		a := adds(t, x, 1)
		require.Equal(t, int64(2), recipetest.Count(t, other, 1))
		require.Equal(t, int64(3), a.Get())
		require.Equal(t, "3", w.Text("/c"))
	})
}

func TestAnAddWhoseReceiptIsGoneIsUncertain(t *testing.T) {
	withCounter(t, func(t *testing.T, w *recipetest.World, x *zkrecipes.Counter) {
		recipetest.Count(t, x, 1)
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: recipetest.OpCount, After: true}, zktest.Fault{Do: zktest.Refuse, Times: -1})
		a := adds(t, x, 1)
		w.Plan.Stop()
		receipt := "/c/puts/" + w.Srv.Children("/c/puts")[0]
		require.NoError(t, w.Bare().Delete(receipt, -1))
		recipetest.Fails(t, a, zkrecipes.ErrUncertain)
		require.Equal(t, int64(3), recipetest.Count(t, x, 1))
	})
}
