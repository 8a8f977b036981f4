package recipetest

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Rollbacks uses a recipe as its Driver says, by two clients one after the other. At each step
// the servers lose what they have done since an earlier step. Whatever they lose:
//   - what is held afterwards stands on the servers
//   - a newcomer gets through within a session timeout
//   - in the end nothing is left of what the servers had lost the deletion of.
func Rollbacks(t *testing.T, drivers []Driver) {
	for _, d := range drivers {
		for to := range rollbackSteps {
			for from := to + 1; from <= rollbackSteps; from++ {
				t.Run(fmt.Sprintf("%s/from %d to %d", d.Name, from, to), func(t *testing.T) {
					InBubble(t, func(t *testing.T, w *World) { (&rolled{World: w, d: d, to: to, from: from}).run() })
				})
			}
		}
	}
}

// RollbacksOfLostReplies is for what only the transaction tells that is sent again: the reply to one
// of those that end a use is lost, and the next server is behind, so that what was deleted is still
// there. Later the servers lose the deletion.
func RollbacksOfLostReplies(t *testing.T, drivers []Driver) {
	lag := zktest.Fault{Do: zktest.Lag, Behind: 1, For: time.Second, Times: 1}
	later := lag
	later.Skip = 1000 // a server has replicas that lag if its plan has such a fault at first
	for _, d := range drivers {
		for _, waits := range []bool{false, true} {
			for n := range 3 {
				for _, op := range []string{"multi", "delete"} {
					t.Run(fmt.Sprintf("%s/waits: %v, %s %d", d.Name, waits, op, n), func(t *testing.T) {
						InBubble(t, func(t *testing.T, w *World) {
							r := &rolled{World: w, d: d}
							r.loseReply(waits, lag, zktest.Fault{Do: zktest.Drop, Op: op, After: true, Skip: n})
						}, zktest.WithPlan(zktest.NewPlan(later)))
					})
				}
			}
		}
	}
}

// loseReply uses the recipe, with the faults from when it is held or waits. What happens then is lost.
func (r *rolled) loseReply(waits bool, faults ...zktest.Fault) {
	t, d := r.T, r.d
	a, b, helper := r.Stranger(nil), r.Stranger(nil), r.Stranger(nil)
	if d.Ready != nil {
		d.Ready(t, helper)
	}
	synctest.Wait()
	calls := []*harness.Call[Use]{harness.Go(t, func(ctx context.Context) (Use, error) { return d.Take(ctx, a) })}
	synctest.Wait()
	if waits {
		calls = append(calls, harness.Go(t, func(ctx context.Context) (Use, error) { return d.Take(ctx, b) }))
		synctest.Wait()
	}
	snap := r.Srv.Snapshot()
	r.Plan.Add(faults...)
	for _, call := range calls {
		r.end(call)
		synctest.Wait()
	}
	time.Sleep(3 * time.Second)
	r.Plan.Stop()
	for _, call := range calls {
		call.Cancel(context.Canceled)
		call.Wait()
		r.end(call)
	}
	time.Sleep(3 * time.Second)
	r.Srv.Restore(snap)
	time.Sleep(3 * time.Second)
	if d.Ready != nil {
		d.Ready(t, helper)
	}
	r.newcomers()
	time.Sleep(time.Minute) // sessions that are back have expired
	synctest.Wait()
	r.nothingIsLeft()
}

// rolled is a run of Rollbacks.
type rolled struct {
	*World
	d        Driver
	to, from int // steps
	at       int
	snap     *zktest.Snapshot
	calls    []*harness.Call[Use]
}

// rollbackSteps is how often step is called after the first time.
const rollbackSteps = 4

// step is called when the next step has been done.
func (r *rolled) step() {
	time.Sleep(3 * time.Second) // so that what is held for long is watched
	synctest.Wait()
	if r.at == r.to {
		r.snap = r.Srv.Snapshot()
	}
	if r.at == r.from {
		r.Srv.Restore(r.snap)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		r.standsWhatIsHeld()
	}
	r.at++
}

// standsWhatIsHeld requires that the znodes exist of whatever still is held.
func (r *rolled) standsWhatIsHeld() {
	r.T.Helper()
	for _, call := range r.calls {
		select {
		case <-call.Done():
		default:
			continue
		}
		u, err := call.Wait()
		if err != nil || u.Held == nil || u.Held.Err() != nil {
			continue
		}
		for _, place := range u.Places {
			require.Contains(r.T, r.Srv.Children(path.Dir(place)), path.Base(place), "a place that is held")
		}
	}
}

func (r *rolled) run() {
	t, d := r.T, r.d
	a, b := r.Stranger(nil), r.Stranger(nil)
	helper := r.Stranger(nil)
	if d.Ready != nil {
		d.Ready(t, helper)
	}
	r.step()
	for _, c := range []*zkrecipes.Client{a, b} {
		r.calls = append(r.calls, harness.Go(t, func(ctx context.Context) (Use, error) { return d.Take(ctx, c) }))
		r.step()
	}
	for _, call := range r.calls {
		r.end(call)
		r.step()
	}
	for _, call := range r.calls { // if they wait, or have got something since
		call.Cancel(context.Canceled)
		call.Wait()
		r.end(call)
	}
	if d.Ready != nil {
		d.Ready(t, helper)
	}
	r.newcomers()
	time.Sleep(time.Minute) // sessions that are back have expired
	synctest.Wait()
	r.nothingIsLeft()
}

// newcomers use the recipe.
func (r *rolled) newcomers() {
	r.T.Helper()
	n := 1
	if r.d.AlwaysWaits {
		n = 2 // members of a round
	}
	ctx := harness.Within(r.T, 20*time.Second)
	var all []*harness.Call[error]
	for range n {
		c := r.Stranger(nil)
		all = append(all, harness.Go(r.T, func(context.Context) (error, error) {
			u, err := r.d.Take(ctx, c)
			if err == nil && u.Give != nil {
				err = u.Give(ctx)
			}
			return err, nil
		}))
	}
	for _, call := range all {
		require.NoError(r.T, call.Get(), "a newcomer gets through:\n%s", r.Srv.Tree())
	}
}

// end gives back what a call has got, if it has returned.
func (r *rolled) end(call *harness.Call[Use]) {
	select {
	case <-call.Done():
	default:
		return // it waits on
	}
	u, err := call.Wait()
	if err != nil || u.Give == nil {
		return
	}
	_ = u.Give(harness.Within(r.T, time.Minute)) // it may be lost
}

// nothingIsLeft requires that no session has a znode that the recipe does not leave.
func (r *rolled) nothingIsLeft() {
	r.T.Helper()
	for _, s := range r.Srv.Sessions() {
		for _, znode := range s.Ephemerals {
			stays := slices.ContainsFunc(r.d.Stays, func(pattern string) bool {
				ok, _ := path.Match(pattern, znode)
				return ok
			})
			require.True(r.T, stays || strings.Contains(znode, "/puts/"), "%s is left:\n%s", znode, r.Srv.Tree())
		}
	}
}

// AllDrivers are those of all recipes.
func AllDrivers() []Driver {
	return slices.Concat(LockDrivers(),
		[]Driver{KeepDriver(), DowngradeDriver(), LockAllDriver(), GateDriver(), ElectionDriver(), GroupDriver(), ShardsDriver()},
		[]Driver{SemaphoreDriver("one slot of one", 1, 1), SemaphoreDriver("two slots of three", 3, 2)},
		QueueDrivers()[:2], BarrierDrivers()) // a put waits for room, which nobody makes there
}
