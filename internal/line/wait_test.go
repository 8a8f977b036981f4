package line_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What happens between a waiter's listing and the watches that it sets then.

// watchesLate begins a call whose listing shows the lease's place, and calls meanwhile. The server gets
// the watch on that place a second later.
func watchesLate(w *recipetest.World, l *zkrecipes.Lease, lock func(context.Context) (*zkrecipes.Lease, error), meanwhile func()) *harness.Call[*zkrecipes.Lease] {
	w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getData", Path: l.Check().Path, For: time.Second})
	a := recipetest.Later(w.T, lock)
	synctest.Wait()
	require.Equal(w.T, 1, w.Plan.Fired()["delay before"])
	meanwhile()
	time.Sleep(900 * time.Millisecond)
	require.True(w.T, a.Waiting())
	return a
}

func TestAWaiterWhoseOnlyPredecessorHasGoneDoesNotListAgain(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		m := zkrecipes.NewMutex(w.Stranger(nil), w.Path)
		requests := w.Requests(func() {
			w.Stands(watchesLate(w, l, m.Lock, func() { require.NoError(t, l.Release()) }).Get())
		})
		require.Equal(t, 1, requests["getChildren2"])
	})
}

// Whoever has to find out why a waiter waits reads these records.
func TestDebugRecordsTellForWhomAPlaceWaitsAndWhyItIsNext(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var log recipetest.Warnings
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		c := w.Stranger(&zkrecipes.Options{Logger: log.Verbose()})
		a := w.LockLater(c)
		holder, place := w.Line()[0].Name, w.Path+"/"+w.Line()[1].Name
		about := fmt.Sprintf("session=%#x place=%s predecessor=%s", uint64(c.Status().Session), place, holder)
		require.Len(t, log.With(`msg="place waits" `+about), 1)
		_, err := w.Bare().Set(place, []byte("x"), -1)
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, log.With(`msg="place was changed by somebody"`), 1)
		require.Len(t, log.With(`msg="place waits" `+about), 2)
		released(t, l, a)
		require.Len(t, log.With(`msg="predecessor of a place has left" `+about+" released=true watch_lost=false zxid="), 1)
	})
}

func TestAWaiterIsNotNextIfAnotherIsAhead(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		ahead := w.LockLater(w.Stranger(nil))
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getData", Path: w.Path + "/" + w.Line()[1].Name, For: time.Second})
		a := w.LockLater(w.Stranger(nil))
		ahead.Cancel(nil)
		time.Sleep(2 * time.Second)
		require.Equal(t, 1, w.Plan.Fired()["delay before"])
		require.True(t, a.Waiting())
		released(t, l, a)
	})
}

// The place behind lists the same predecessor once the waiter's place is gone, and holds.
func TestAWaiterThatIsDeletedIsNotNextWhenItsPredecessorGoes(t *testing.T) {
	recipetest.EachInBubble(t, map[string]bool{"release first": true, "deletion first": false}, func(t *testing.T, w *recipetest.World, releaseFirst bool) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		ahead := w.LockLater(w.Stranger(nil)) // so that the waiter already watches its own place
		a, behind := w.LockLater(w.Stranger(nil)), w.LockLater(w.Stranger(nil))
		mine := w.Path + "/" + w.Line()[2].Name
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getData", Path: l.Check().Path, For: time.Second})
		ahead.Cancel(nil)
		synctest.Wait()
		require.Equal(t, 1, w.Plan.Fired()["delay before"])
		if releaseFirst {
			require.NoError(t, l.Release())
		}
		require.NoError(t, w.Bare().Delete(mine, -1))
		if !releaseFirst {
			require.NoError(t, l.Release())
		}
		_, err := a.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrEvicted)
		w.Stands(behind.Get())
	})
}

// A downgrade deletes the writer's place. The reader's, with its number, stands.
func TestAWriterIsNotNextWhenTheOneAheadDowngrades(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		l, err := zkrecipes.NewRWLock(w.Client(nil), w.Path).Lock(t.Context())
		require.NoError(t, err)
		rw := zkrecipes.NewRWLock(w.Stranger(nil), w.Path)
		a := watchesLate(w, l, rw.Lock, func() {
			require.NoError(t, l.Downgrade(t.Context()))
		})
		time.Sleep(time.Second)
		require.True(t, a.Waiting())
		w.Stands(l)
		released(t, l, a)
	})
}
