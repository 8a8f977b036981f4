package line_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Faults of the network, the session and operators, for each way to hold a lock.

func TestB09ExpiryEndsALeaseOfEachSide(t *testing.T) {
	t.Parallel()
	for _, side := range recipetest.Sides {
		t.Run(side.Name, func(t *testing.T) {
			var e recipetest.Events
			r := side.Rig(t, &zkrecipes.Options{Trace: e.Trace()})
			l := recipetest.Held(t, r.M.Lock)
			work := l.Context(r.Ctx)
			r.P.Expire()
			require.ErrorIs(t, harness.Cause(t, work), zkrecipes.ErrLost)
			require.NoError(t, r.Ctx.Err())
			require.ErrorIs(t, l.Err(), zkrecipes.ErrLost)
			require.Zero(t, l.ValidUntil())
			_, err := l.Commit(r.Ctx, zkrecipes.OpCreate(r.Path+"/late", nil, 0, nil))
			require.ErrorIs(t, err, zkrecipes.ErrLost)
			_, _, err = l.Get(r.Ctx, r.Path)
			require.ErrorIs(t, err, zkrecipes.ErrLost)
			_, err = r.M.Lock(l.Reentrant(r.Ctx))
			require.ErrorIs(t, err, zkrecipes.ErrLost)
			harness.Eventually(t, "the Trace event", func() bool { return e.Count("lost") == 1 })

			// In the next session the lease is still lost, and was not taken again.
			require.NoError(t, r.Ours(r.C, r.Path+"-other").Do(r.Ctx, recipetest.Nothing))
			require.ErrorIs(t, l.Err(), zkrecipes.ErrLost)
			r.Queued(0)
		})
	}
}

func TestB13ReleasingEachSideTwiceIsReleasingOnce(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		l := recipetest.Held(t, r.M.Lock)
		r.P.Reset()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.NoError(t, l.Release())
		require.Equal(t, 1, recipetest.Sum(r.P.Count()))
	})
}

func TestB21EachSideIsGrantedWhenItsPredecessorGoesWhileDisconnected(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		ahead := r.ByHand(r.By)
		a := r.Waits(2)
		r.P.Refuse(true)
		require.NoError(t, r.Raw.Delete(ahead, -1))
		r.P.Reset()
		r.P.Refuse(false)
		l := a.Get()
		require.Equal(t, 1, r.P.CountOf("getChildren2"), "it lists")
		require.NoError(t, l.Release())
	})
}

func TestB28OnEachSideNoPlaceBeyondTheLimitIsGranted(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		line.SettingsOf(recipetest.Core(r.C)).LastNumber = 2 // a real limit takes two thousand million creates; the rig has used number 0
		for range 2 {
			require.NoError(t, r.M.Do(r.Ctx, recipetest.Nothing))
		}
		for _, lock := range []func(context.Context) (*zkrecipes.Lease, error){r.M.Lock, r.M.Lock, r.M.Lock, r.M.Lock, r.M.TryLock} {
			l := recipetest.Held(t, lock) // of a new line where the number was beyond the limit
			require.LessOrEqual(t, r.InLine()[0].Number, line.SettingsOf(recipetest.Core(r.C)).LastNumber)
			require.NoError(t, l.Release())
		}
		r.Queued(0)
	})
}

func TestB49EachSideListsAfterAnEventThatFollowsAReconnect(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		holder := recipetest.Held(t, r.Rival.Lock)
		a := r.Waits(2)
		r.P.Drop()
		s, _ := recipetest.Core(r.C).Session()
		harness.Eventually(t, "up again", func() bool { up, _ := s.Connected(); return up && r.P.CountOf("setWatches") == 1 })
		r.P.Reset()
		require.NoError(t, holder.Release())
		l := a.Get()
		require.Equal(t, 1, r.P.CountOf("getChildren2"), "it lists, as the event is only a hint")
		require.NoError(t, l.Release())
	})
}
