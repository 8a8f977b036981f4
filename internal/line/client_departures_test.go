package line_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// deletions returns how many transactions of requests delete something, and how many places
// the largest of them deletes.
func deletions(requests map[string]int) (n, largest int) {
	for op, count := range requests {
		if deletes := strings.Count(op, "delete"); deletes > 0 {
			n += count
			largest = max(largest, deletes)
		}
	}
	return n, largest
}

// B93: Each waiter gets its holder's signal, although the holders leave together.
func TestCloseDeletesPlacesTogetherAndTellsTheWaiters(t *testing.T) {
	const locks, waiters = 2000, 20
	var c *zkrecipes.Client
	var ls []*zkrecipes.Lease
	var once sync.Once
	early := 0 // leases that lasted when the first place was deleted
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c = w.Stranger(nil)
		for i := range locks {
			ls = append(ls, recipetest.LockOn(t, zkrecipes.NewMutex(c, fmt.Sprintf("/many/%04d", i))))
		}
		other := w.Stranger(nil)
		var next []*harness.Call[*zkrecipes.Lease]
		for i := range waiters {
			next = append(next, recipetest.LockLater(t, zkrecipes.NewMutex(other, ls[i].Path())))
		}
		synctest.Wait()
		requests := w.Requests(func() {
			require.NoError(t, c.Close())
			for _, a := range next {
				a.Get()
			}
		})
		n, largest := deletions(requests)
		require.LessOrEqual(t, n, 2*locks/line.MaxDepartures)
		require.LessOrEqual(t, largest, line.MaxDepartures)
		require.Greater(t, largest, line.MaxDepartures/2)
		require.Zero(t, requests["getChildren2"], "a signal, not a deletion, gives them their turn")
		require.Zero(t, early)
	}, zktest.OnChange(func(ch zktest.Change) {
		if ch.Deleted {
			once.Do(func() {
				for _, l := range ls {
					if l.Err() == nil {
						early++
					}
				}
			})
		}
	}))
}

// A place that is gone makes the transaction fail, and then the others go one by one.
func TestCloseDeletesTheOtherPlacesIfOneIsGone(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		ls := w.LockMany(c, 10)
		x := recipetest.Acquire(t, zkrecipes.NewSemaphore(c, "/sem", 3), 2)
		term := recipetest.Campaigns(t, zkrecipes.NewElection(c, "/el"), "v")
		recipetest.PutOn(t, zkrecipes.NewQueue(w.Stranger(nil), "/q", nil), "0") // with a receipt, which stays
		it := recipetest.TakeOn(t, zkrecipes.NewQueue(c, "/q", nil))
		raw := w.Bare()
		require.NoError(t, raw.Delete(ls[4].Check().Path, -1))
		left := 0 // to the end of the session
		requests := w.Requests(func() {
			w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "closeSession", For: time.Second / 2})
			closed := harness.GoErr(t, func(context.Context) error { return c.Close() })
			synctest.Wait()
			left = w.Bears(c)
			closed.Get()
		})
		require.Zero(t, left)
		n, _ := deletions(requests)
		require.Greater(t, n, 10)
		for _, err := range []error{x.Err(), term.Err(), it.Err(), ls[0].Err()} {
			require.ErrorIs(t, err, zkrecipes.ErrClosed)
		}
	})
}

func TestCloseSaysHowManyZnodesItHadNoTimeToDelete(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var log recipetest.Warnings
		c, away := w.Stranger(&zkrecipes.Options{Logger: log.Logger()}), w.Stranger(nil)
		w.LockMany(c, 5)
		recipetest.LockOn(t, zkrecipes.NewMutex(away, "/other"))
		began := time.Now()
		w.Plan.Add(zktest.Fault{Do: zktest.Withhold, Op: "multi", Times: -1})
		_ = c.Close()
		require.Less(t, time.Since(began), 10*time.Second)
		some := log.With("no time to delete")
		require.Len(t, some, 1)
		require.Contains(t, some[0], "znodes=5")

		w.Away(away)
		err := away.Close()
		require.ErrorIs(t, err, zkrecipes.ErrSessionNotClosed)
		require.ErrorContains(t, err, "with 1 znodes")
	})
}
