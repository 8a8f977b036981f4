package recipetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
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
	case errors.Is(err, zkrecipes.ErrUncertain):
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

// CrowdCounter has the counter's client lose races until it waits for its turn.
func (w *World) CrowdCounter(t *testing.T, x *zkrecipes.Counter) {
	t.Helper()
	conn := w.Bare()
	text := w.Text("/c")
	for i := range 3 {
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: OpCount, Skip: i, For: time.Second})
	}
	before := w.Srv.Counts().Requests[OpCountInTurn]
	a := CountLater(t, x, 0)
	for range 3 {
		time.Sleep(900 * time.Millisecond)
		_, err := conn.Set("/c", []byte(text), -1)
		require.NoError(t, err)
		time.Sleep(101 * time.Millisecond)
	}
	a.Get()
	synctest.Wait()
	require.Equal(t, before+1, w.Srv.Counts().Requests[OpCountInTurn], "it stood in line: %v", w.Srv.Counts().Requests)
}

// Adds begins to add, and returns when the call sleeps.
func Adds(t testing.TB, x *zkrecipes.Counter, delta int64) *harness.Call[int64] {
	return settled(CountLater(t, x, delta))
}

// FiredOf returns how often faults of the plan have fired.
func FiredOf(p *zktest.Plan) (n int) {
	for _, fired := range p.Fired() {
		n += fired
	}
	return n
}

func (w *World) AddsSurvive(t *testing.T, prepare func(*testing.T, *World, *zkrecipes.Counter), fault zktest.Fault) (met bool) {
	c := w.Stranger(nil)
	x := zkrecipes.NewCounter(c, "/c")
	prepare(t, w, x)
	y := &tally{}
	if v, _ := x.Get(t.Context()); v != 0 {
		y.sum = v
	}
	w.Plan.Stop()
	before := FiredOf(w.Plan)
	w.Plan.Add(fault)
	var calls []*harness.Call[int64]
	for i := range 3 { // of different sizes, so that the sum tells which were added
		calls = append(calls, CountLater(t, x, 1<<i))
	}
	time.Sleep(time.Minute)
	fired := FiredOf(w.Plan) - before
	w.Plan.Stop()
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
	v, err := zkrecipes.NewCounter(w.Stranger(nil), "/c").Get(t.Context())
	require.NoError(t, err)
	require.True(t, y.allows(v), "%d, of %+v", v, y)
	sum, err := x.Add(t.Context(), 64)
	require.NoError(t, err)
	require.Equal(t, v+64, sum)
	return fired > 0
}

const (
	OpCount       = "multi(setData,setData)"                // the receipt and the value
	OpCountInTurn = "multi(setData,setData,setData,delete)" // and the place
)

// Count adds to the counter and returns the value.
func Count(t testing.TB, x *zkrecipes.Counter, delta int64) int64 {
	t.Helper()
	v, err := x.Add(t.Context(), delta)
	require.NoError(t, err)
	return v
}

// CountLater adds in the background.
func CountLater(t testing.TB, x *zkrecipes.Counter, delta int64) *harness.Call[int64] {
	return harness.Go(t, func(ctx context.Context) (int64, error) { return x.Add(ctx, delta) })
}

// Text returns the data of a znode.
func (w *World) Text(path string) string {
	w.T.Helper()
	data, _, err := w.Bare().Get(path)
	require.NoError(w.T, err)
	return string(data)
}

// Write writes the data of a znode as somebody else, and creates it if need be.
func (w *World) Write(path, data string) {
	w.T.Helper()
	conn := w.Bare()
	_, err := conn.Set(path, []byte(data), -1)
	if err == zk.ErrNoNode {
		_, err = conn.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
	}
	require.NoError(w.T, err)
}
