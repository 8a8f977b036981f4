package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// tally is what the calls on a counter have returned: the sum of what was added, and what may
// have been.
type tally struct {
	sum       int64
	uncertain []int64
}

func (y *tally) note(t *testing.T, delta int64, err error) {
	t.Helper()
	switch {
	case err == nil:
		y.sum += delta
	case errors.Is(err, ErrUncertain):
		y.uncertain = append(y.uncertain, delta)
	default:
		require.NoError(t, err)
	}
}

// allows reports whether the counter can have that value: with some of what is uncertain.
func (y *tally) allows(value int64) bool {
	for some := range 1 << len(y.uncertain) {
		sum := y.sum
		for i, delta := range y.uncertain {
			if some>>i&1 == 1 {
				sum += delta
			}
		}
		if sum == value {
			return true
		}
	}
	return false
}

// Each add is carried out once or not at all, and its caller learns which, unless its session
// ends.
func TestAddsSurviveAMishapAtAnyRequest(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, w *world, x *Counter){
		"first": func(*testing.T, *world, *Counter) {},
		"known": func(t *testing.T, w *world, x *Counter) { count(t, x, 1000) },
		"others write": func(t *testing.T, w *world, x *Counter) {
			count(t, x, 500)
			count(t, NewCounter(w.stranger(nil), "/c"), 500)
		},
		"in line": func(t *testing.T, w *world, x *Counter) {
			count(t, x, 1000)
			w.crowdCounter(t, x)
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachRequestOf(t, 3, mishaps, func(t *testing.T, fault zktest.Fault) (met bool) {
				inBubble(t, func(t *testing.T, w *world) { met = w.addsSurvive(t, prepare, fault) })
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

// crowdCounter has the counter's client lose races until it waits for its turn.
func (w *world) crowdCounter(t *testing.T, x *Counter) {
	t.Helper()
	conn := w.bare()
	text := w.text("/c")
	for i := range 3 {
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opCount, Skip: i, For: time.Second})
	}
	before := w.srv.Counts().Requests[opCountInTurn]
	a := countLater(t, x, 0)
	for range 3 {
		time.Sleep(900 * time.Millisecond)
		_, err := conn.Set("/c", []byte(text), -1)
		require.NoError(t, err)
		time.Sleep(101 * time.Millisecond)
	}
	a.Get()
	synctest.Wait()
	require.Equal(t, before+1, w.srv.Counts().Requests[opCountInTurn], "it stood in line: %v", w.srv.Counts().Requests)
}

// firedOf returns how often faults of the plan have fired.
func firedOf(p *zktest.Plan) (n int) {
	for _, fired := range p.Fired() {
		n += fired
	}
	return n
}

func (w *world) addsSurvive(t *testing.T, prepare func(*testing.T, *world, *Counter), fault zktest.Fault) (met bool) {
	c := w.stranger(nil)
	x := NewCounter(c, "/c")
	prepare(t, w, x)
	y := &tally{}
	if v, _ := x.Get(t.Context()); v != 0 {
		y.sum = v
	}
	w.plan.Stop()
	before := firedOf(w.plan)
	w.plan.Add(fault)
	var calls []*harness.Call[int64]
	for i := range 3 { // of different sizes, so that the sum tells which were added
		calls = append(calls, countLater(t, x, 1<<i))
	}
	time.Sleep(time.Minute)
	fired := firedOf(w.plan) - before
	w.plan.Stop()
	for i, a := range calls {
		v, err := a.Wait()
		y.note(t, 1<<i, err)
		if err != nil {
			require.Contains(t, []zktest.Action{zktest.Expire, zktest.Withhold}, fault.Do, "the session lives: %v", err)
		} else {
			require.NotZero(t, v)
		}
	}
	time.Sleep(time.Minute)
	v, err := NewCounter(w.stranger(nil), "/c").Get(t.Context())
	require.NoError(t, err)
	require.True(t, y.allows(v), "%d, of %+v", v, y)
	sum, err := x.Add(t.Context(), 64)
	require.NoError(t, err)
	require.Equal(t, v+64, sum)
	return fired > 0
}

// Each reply is lost, but the session lives: nothing is uncertain, and the sum is exact.
func TestManyClientsAddExactlyWhatTheyAreTold(t *testing.T) {
	for _, after := range []bool{false, true} {
		for skip := range 12 {
			t.Run(fmt.Sprint(after, skip), func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					w.plan.Add(zktest.Fault{Do: zktest.Drop, Op: "multi", After: after, Skip: 3 * skip},
						zktest.Fault{Do: zktest.Drop, Op: "multi", After: !after, Skip: 3*skip + 5})
					var calls []*harness.Call[int64]
					for i := range 6 {
						x := NewCounter(w.stranger(nil), "/c")
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
					require.Equal(t, strconv.FormatInt(sum, 10), w.text("/c"))
				})
			})
		}
	}
}

// Somebody else writes the same text as the add whose reply was lost.
func TestALostAddIsNotTakenForTheSameOfAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x, other := NewCounter(w.stranger(nil), "/c"), NewCounter(w.stranger(nil), "/c")
		count(t, x, 1)
		w.plan.Add(zktest.Fault{Do: zktest.Drop, Op: opCount}, zktest.Fault{Do: zktest.Refuse, Times: 1})
		a := countLater(t, x, 1)
		synctest.Wait()
		require.Equal(t, int64(2), count(t, other, 1))
		require.Equal(t, int64(3), a.Get())
		require.Equal(t, "3", w.text("/c"))
	})
}

func TestAnAddWhoseReceiptIsGoneIsUncertain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x := NewCounter(w.stranger(nil), "/c")
		count(t, x, 1)
		w.plan.Add(zktest.Fault{Do: zktest.Drop, Op: opCount, After: true}, zktest.Fault{Do: zktest.Refuse, Times: -1})
		a := countLater(t, x, 1)
		synctest.Wait()
		w.plan.Stop()
		receipt := "/c/puts/" + w.srv.Children("/c/puts")[0]
		require.NoError(t, w.bare().Delete(receipt, -1))
		_, err := a.Wait()
		require.ErrorIs(t, err, ErrUncertain)
		require.Equal(t, int64(3), count(t, x, 1))
	})
}
