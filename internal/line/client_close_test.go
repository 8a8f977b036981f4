package line_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// However much a Client holds and waits for, Close only ends the session. That deletes all of
// it at once, when all contexts have ended.
func TestCloseEndsAllContextsAndThenTheSession(t *testing.T) {
	const leases, waiters, others = 1000, 1500, 20
	var ends []func() error
	var once sync.Once
	early := 0 // leases that lasted when the first place was deleted
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, other := w.Stranger(nil), w.Stranger(nil)
		held := recipetest.LockOn(t, zkrecipes.NewMutex(other, "/held"))
		var waiting []*harness.Call[*zkrecipes.Lease]
		for range waiters {
			waiting = append(waiting, recipetest.LockLater(t, zkrecipes.NewMutex(c, "/held")))
		}
		var next []*harness.Call[*zkrecipes.Lease]
		for i := range leases {
			m := zkrecipes.NewMutex(c, fmt.Sprintf("/many/%04d", i))
			ends = append(ends, recipetest.LockOn(t, m).Err)
			if i < others {
				next = append(next, recipetest.LockLater(t, zkrecipes.NewMutex(other, m.Path())))
			}
		}
		recipetest.PutOn(t, zkrecipes.NewQueue(other, "/q", nil), "0")
		ends = append(ends,
			recipetest.Acquire(t, zkrecipes.NewSemaphore(c, "/sem", 3), 2).Err,
			recipetest.Campaigns(t, zkrecipes.NewElection(c, "/el"), "v").Err,
			recipetest.TakeOn(t, zkrecipes.NewQueue(c, "/q", nil)).Err)
		requests := w.Requests(func() {
			require.NoError(t, c.Close())
			for _, one := range next {
				one.Get()
			}
		})
		require.Zero(t, early)
		for _, err := range ends {
			require.ErrorIs(t, err(), zkrecipes.ErrClosed)
		}
		for _, one := range waiting {
			_, err := one.Wait()
			require.ErrorIs(t, err, zkrecipes.ErrClosed)
		}
		require.Equal(t, 1, requests["closeSession"])
		require.Equal(t, others, requests["getChildren2"], "those who were next")
		require.Equal(t, 1+others, recipetest.Sum(requests))
		require.NoError(t, held.Release())
	}, zktest.OnChange(func(ch zktest.Change) {
		if ch.Deleted {
			once.Do(func() {
				for _, err := range ends {
					if err() == nil {
						early++
					}
				}
			})
		}
	}))
}

func TestCloseSaysHowManyZnodesItHadNoTimeToDelete(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var log recipetest.Warnings
		c, away := w.Stranger(&zkrecipes.Options{Logger: log.Logger()}), w.Stranger(nil)
		ls := w.LockMany(c, 5)
		recipetest.LockOn(t, zkrecipes.NewMutex(away, "/other"))
		began := time.Now()
		w.Plan.Add(zktest.Fault{Do: zktest.Withhold, Op: "multi", Times: -1})
		for _, l := range ls {
			go l.Release()
		}
		synctest.Wait()
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
