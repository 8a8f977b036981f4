package zkrecipes

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const (
	opCount       = "multi(setData,setData)"                // the receipt and the value
	opCountInTurn = "multi(setData,setData,setData,delete)" // and the place
)

// count adds to the counter and returns the value.
func count(t testing.TB, x *Counter, delta int64) int64 {
	t.Helper()
	v, err := x.Add(t.Context(), delta)
	require.NoError(t, err)
	return v
}

// countLater adds in the background.
func countLater(t testing.TB, x *Counter, delta int64) *harness.Call[int64] {
	return harness.Go(t, func(ctx context.Context) (int64, error) { return x.Add(ctx, delta) })
}

// text returns the data of a znode.
func (w *world) text(path string) string {
	w.t.Helper()
	data, _, err := w.bare().Get(path)
	require.NoError(w.t, err)
	return string(data)
}

// write writes the data of a znode as somebody else, and creates it if need be.
func (w *world) write(path, data string) {
	w.t.Helper()
	conn := w.bare()
	_, err := conn.Set(path, []byte(data), -1)
	if err == zk.ErrNoNode {
		_, err = conn.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
	}
	require.NoError(w.t, err)
}

func TestACounterCounts(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x := NewCounter(w.stranger(nil), "/n/counter")
		v, err := x.Get(t.Context())
		require.NoError(t, err)
		require.Zero(t, v)
		require.NotContains(t, w.srv.Tree(), "/n", "a read creates nothing")
		require.Equal(t, int64(5), count(t, x, 5))
		require.Equal(t, int64(3), count(t, x, -2))
		require.Equal(t, "3", w.text("/n/counter"))
		require.NoError(t, x.Set(t.Context(), -7))
		require.Equal(t, "-7", w.text("/n/counter"))
		for _, c := range []struct {
			old, value int64
			swapped    bool
		}{{3, 4, false}, {-7, 4, true}, {-7, 5, false}, {4, 4, true}} {
			swapped, err := x.CompareAndSet(t.Context(), c.old, c.value)
			require.NoError(t, err)
			require.Equal(t, c.swapped, swapped, c)
		}
		v, err = NewCounter(w.stranger(nil), "/n/counter").Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(4), v)
	})
}

// Nothing deletes an idle counter, whoever has made its znode.
func TestAnIdleCounterStays(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		require.NoError(t, NewMutex(c, "/parent/lock").Do(t.Context(), nothing)) // /parent is a container
		count(t, NewCounter(c, "/new"), 1)
		count(t, NewCounter(c, "/parent"), 2)
		count(t, NewCounter(c, "/parent"), 2)
		require.NoError(t, c.Close())
		time.Sleep(5 * time.Hour)
		require.Equal(t, "1", w.text("/new"))
		require.Equal(t, "4", w.text("/parent"))
		require.Empty(t, w.srv.Children("/new"))
		require.Equal(t, []string{"counter"}, w.srv.Children("/parent"))
	})
}

// The session keeps no receipt of a counter that it has not used for a while.
func TestACountersReceiptIsGivenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		for i := range 3 {
			count(t, NewCounter(c, fmt.Sprintf("/c%d", i)), 1)
		}
		require.Equal(t, 3, c.Status().Znodes)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, c.Status().Znodes)
		require.Equal(t, int64(2), count(t, NewCounter(c, "/c0"), 1))
	})
}

func TestACounterSharesItsPathWithOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x := NewCounter(w.stranger(nil), "/c")
		w.write("/c", "") // as kazoo creates it
		require.Equal(t, int64(1), count(t, x, 1))
		w.write("/c", "41")
		require.Equal(t, int64(42), count(t, x, 1))
		w.write("/c", "-3")
		swapped, err := x.CompareAndSet(t.Context(), -3, 7)
		require.NoError(t, err)
		require.True(t, swapped, "it knew 42")
		w.write("/c", "8")
		swapped, err = x.CompareAndSet(t.Context(), 7, 1)
		require.NoError(t, err)
		require.False(t, swapped, "it knew 7")
		require.Equal(t, "8", w.text("/c"))
	})
}

func TestACounterRefusesTextThatIsNoInteger(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		for _, text := range []string{"x", "1.5", "9223372036854775808", " 1", "1_000", "zkrecipes/1 mutex"} {
			w.write("/c", text)
			x := NewCounter(c, "/c")
			_, err := x.Add(t.Context(), 1)
			require.ErrorIs(t, err, ErrPathInUse, text)
			require.ErrorContains(t, err, "/c:")
			require.ErrorContains(t, err, strconv.Quote(text))
			_, err = x.Get(t.Context())
			require.ErrorIs(t, err, ErrPathInUse, text)
			require.ErrorIs(t, x.Set(t.Context(), 1), ErrPathInUse, text)
			require.Equal(t, text, w.text("/c"))
		}
		putOn(t, NewQueue(c, "/q", nil), "a")
		_, err := NewCounter(c, "/q").Add(t.Context(), 1)
		require.ErrorIs(t, err, ErrPathInUse)
		_, err = NewCounter(c, "/q").Get(t.Context())
		require.ErrorIs(t, err, ErrPathInUse)
	})
}

func TestACounterRefusesBadInput(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for name, x := range map[string]*Counter{
			"not made by NewCounter":  nil,
			"not made by NewCounter ": {},
			"nil client":              NewCounter(nil, "/c"),
			"not made by Dial":        NewCounter(&Client{}, "/c"),
			"path":                    NewCounter(w.stranger(nil), "c"),
		} {
			_, err := x.Add(t.Context(), 1)
			require.ErrorContains(t, err, strings.TrimSpace(name))
			_, err = x.Get(t.Context())
			require.ErrorContains(t, err, strings.TrimSpace(name))
			_, err = x.CompareAndSet(t.Context(), 0, 1)
			require.Error(t, err)
			require.Error(t, x.Set(t.Context(), 1))
		}
		c := w.stranger(nil)
		require.NoError(t, c.Close())
		_, err := NewCounter(c, "/c").Add(t.Context(), 1)
		require.ErrorIs(t, err, ErrClosed)
	})
}

func TestASumThatDoesNotFitIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x := NewCounter(w.stranger(nil), "/c")
		for _, c := range []struct{ value, delta int64 }{
			{math.MaxInt64, 1}, {1, math.MaxInt64}, {math.MinInt64, -1}, {-1, math.MinInt64},
		} {
			require.NoError(t, x.Set(t.Context(), c.value))
			v, err := x.Add(t.Context(), c.delta)
			require.ErrorIs(t, err, ErrOverflow)
			require.Zero(t, v)
			require.Equal(t, strconv.FormatInt(c.value, 10), w.text("/c"))
		}
		require.NoError(t, x.Set(t.Context(), math.MaxInt64-1))
		require.Equal(t, int64(math.MaxInt64), count(t, x, 1))
		require.Equal(t, int64(-1), count(t, x, math.MinInt64))
	})
}

// One that does not fit does not keep the others of the same write from being added.
func TestAnOverflowConcernsItsCallAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x := NewCounter(w.stranger(nil), "/c")
		require.NoError(t, x.Set(t.Context(), math.MaxInt64-10))
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opCount, For: time.Second})
		first := countLater(t, x, 1)
		synctest.Wait()
		large := countLater(t, x, 100)
		synctest.Wait()
		small := countLater(t, x, 2)
		require.Equal(t, int64(math.MaxInt64-9), first.Get())
		_, err := large.Wait()
		require.ErrorIs(t, err, ErrOverflow)
		require.Equal(t, int64(math.MaxInt64-7), small.Get())
	})
}

// 64 goroutines of a process add while one write is under way: one write more adds for all.
func TestAddsOfOneProcessAreWrittenTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		x := NewCounter(c, "/c")
		count(t, x, 0)
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opCount, For: time.Second})
		requests := w.requests(func() {
			calls := []*harness.Call[int64]{countLater(t, x, 1)}
			synctest.Wait()
			for range 64 {
				calls = append(calls, countLater(t, NewCounter(c, "/c"), 1))
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
		require.Equal(t, map[string]int{opCount: 2}, withoutPings(requests))
		require.Equal(t, "65", w.text("/c"))
	})
}

func TestACounterCostsOneRequestAndOneCommitForEachWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x := NewCounter(w.stranger(nil), "/c")
		requestsOf := func(f func()) map[string]int { return withoutPings(w.requests(f)) }
		require.Equal(t, map[string]int{
			"getData": 2, "multi(create)": 3, "createContainer": 1, opCount: 1,
		}, requestsOf(func() { count(t, x, 1) }), "the counter, the receipts' parent, the receipt")
		require.Equal(t, map[string]int{opCount: 1}, requestsOf(func() { count(t, x, 1) }))
		require.Equal(t, map[string]int{opCount: 1}, requestsOf(func() { require.NoError(t, x.Set(t.Context(), 7)) }))
		require.Equal(t, map[string]int{"sync": 1, "getData": 1}, requestsOf(func() { x.Get(t.Context()) }))
		require.Equal(t, map[string]int{"sync": 1, "getData": 1}, requestsOf(func() { x.CompareAndSet(t.Context(), 1, 2) }))
		require.Equal(t, map[string]int{opCount: 1}, requestsOf(func() { x.CompareAndSet(t.Context(), 7, 2) }))
		w.write("/c", "100")
		require.Equal(t, map[string]int{opCount: 2, "sync": 1, "getData": 1}, requestsOf(func() { count(t, x, 1) }), "others were quicker")
		y := NewCounter(w.stranger(nil), "/c")
		require.Equal(t, map[string]int{"getData": 1, "multi(create)": 1, opCount: 1}, requestsOf(func() { count(t, y, 1) }), "another client's first")
	})
}

// Whoever loses three races stands in line, and then each turn costs one write.
func TestUnderContentionAddsTakeTurns(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const clients, adds = 16, 20
		var calls []*harness.Call[struct{}]
		xs := make([]*Counter, clients)
		for i := range xs {
			xs[i] = NewCounter(w.stranger(nil), "/c")
		}
		before := w.srv.Counts()
		for _, x := range xs {
			calls = append(calls, harness.GoErr(t, func(ctx context.Context) error {
				for range adds {
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
		requests := w.srv.Counts().Sub(before).Requests
		require.Equal(t, strconv.Itoa(clients*adds), w.text("/c"))
		writes := requests[opCount] + requests[opCountInTurn]
		t.Log(writes, "writes for", clients*adds, "adds:", requests)
		require.LessOrEqual(t, writes, clients*adds+clients*2*maxLostWrites)
		require.GreaterOrEqual(t, requests[opCountInTurn], clients*adds/2, "most wait for their turn")
	})
}

const maxLostWrites = 3

// Callers that leave before their add is under way have not added.
func TestACallerThatLeavesInTimeHasNotAdded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x := NewCounter(w.stranger(nil), "/c")
		count(t, x, 1)
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opCount, For: time.Second})
		first := countLater(t, x, 10)
		synctest.Wait()
		second := countLater(t, x, 100)
		synctest.Wait()
		second.Cancel(nil)
		_, err := second.Wait()
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, ErrUncertain)
		require.Equal(t, int64(11), first.Get())
		synctest.Wait()
		require.Equal(t, "11", w.text("/c"))

		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opCount, For: time.Second})
		third := countLater(t, x, 1000)
		synctest.Wait()
		third.Cancel(nil)
		_, err = third.Wait()
		require.ErrorIs(t, err, ErrUncertain)
		require.ErrorIs(t, err, context.Canceled)
		time.Sleep(2 * time.Second)
		require.Equal(t, "1011", w.text("/c"), "it was under way")
	})
}

func TestAnAddWaitsForAConnectionAndCanBeCanceledMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		x := NewCounter(c, "/c")
		w.away(c)
		a, b := countLater(t, x, 1), countLater(t, x, 2)
		synctest.Wait()
		b.Cancel(nil)
		_, err := b.Wait()
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, ErrUncertain)
		w.back()
		require.Equal(t, int64(1), a.Get())
	})
}

func TestACounterThatMayNotBeWrittenReturnsTheServersError(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		_, err := w.bare().Create("/c", []byte("5"), 0, append(zk.WorldACL(zk.PermRead|zk.PermCreate), zk.DigestACL(zk.PermWrite, "a", "b")...))
		require.NoError(t, err)
		x := NewCounter(w.stranger(nil), "/c")
		_, err = x.Add(t.Context(), 1)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.NotErrorIs(t, err, ErrUncertain)
		v, err := x.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(5), v)
	})
}

func TestShutdownWaitsForAddsAndCloseEndsThem(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		x := NewCounter(c, "/c")
		count(t, x, 1)
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opCount, For: time.Second})
		a := countLater(t, x, 1)
		synctest.Wait()
		require.NoError(t, c.Shutdown(t.Context()))
		require.Equal(t, int64(2), a.Get())

		c = w.stranger(nil)
		x = NewCounter(c, "/c")
		count(t, x, 1)
		w.plan.Add(zktest.Fault{Do: zktest.Withhold, Op: opCount})
		a = countLater(t, x, 1)
		synctest.Wait()
		c.Close()
		_, err := a.Wait()
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, err, ErrUncertain)
	})
}
