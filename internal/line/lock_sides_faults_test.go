package line_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Faults of the network, the session and operators, for each way to hold a lock.

func TestB01EachSidesJoinWhoseReplyIsLostIsFound(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		for _, foreign := range []bool{false, true} {
			var ahead string
			n := 1
			if foreign {
				ahead, n = r.ByHand(r.By), 2
			}
			r.P.Reset()
			rule := r.P.On(recipetest.OpJoin, 1, harness.DropAfter)
			a := recipetest.Later(t, r.M.Lock)
			r.P.Await(rule)
			r.Queued(n)
			if foreign {
				harness.Eventually(t, "asleep", func() bool { return r.P.CountOf("getData") == 2 && recipetest.Idle(r.C) })
				require.True(t, a.Waiting())
				require.NoError(t, r.Raw.Delete(ahead, -1))
			}
			l := a.Get()
			require.Equal(t, 1, r.P.CountOf(recipetest.OpJoin))
			require.Equal(t, 1, r.P.CountOf("sync"))
			_, stat, err := r.Raw.Get(l.Check().Path)
			require.NoError(t, err)
			require.Equal(t, recipetest.NewToken(stat.Czxid, 0), l.Token())
			require.Len(t, r.InLine(), 1, "one place only")
			require.NoError(t, l.Release())
			r.Queued(0)
			r.P.Off(rule)
		}
	})
}

// Calls that are made while disconnected are carried out once the client is connected
// again. If the session has expired by then, that is in the next session.
func TestB05LocksOfEachSideRequestedWhileDisconnectedAreTakenInTheNextSession(t *testing.T) {
	t.Parallel()
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		old := recipetest.SessionID(r.C)
		password := r.P.Password(old)
		elsewhere := r.Ours(r.C, r.Path+"-elsewhere")
		released, lost := recipetest.Held(t, r.M.Lock), recipetest.Held(t, elsewhere.Lock)
		r.P.Refuse(true)
		s, _ := recipetest.Core(r.C).Session()
		recipetest.AwaitDown(t, s)
		require.NoError(t, released.Release())
		var waiting []*harness.Call[*zkrecipes.Lease]
		for range 3 {
			waiting = append(waiting, recipetest.Later(t, r.M.Lock))
		}
		tried := recipetest.Later(t, r.Ours(r.C, r.Path+"-tried").TryLock)
		committed := make(chan error, 1)
		go func() {
			_, err := lost.Commit(r.Ctx, zkrecipes.OpCreate(r.Path+"-late", nil, 0, nil))
			committed <- err
		}()
		harness.EndSession(t, harness.Server(), old, password)
		r.P.Reset()
		r.P.Refuse(false)
		require.ErrorIs(t, harness.Receive(t, committed), zkrecipes.ErrLost)
		for len(waiting) > 0 { // in whatever order they joined
			i := -1
			harness.Eventually(t, "one is granted", func() bool {
				i = slices.IndexFunc(waiting, func(a *harness.Call[*zkrecipes.Lease]) bool { return !a.Waiting() })
				return i >= 0
			})
			l := waiting[i].Get()
			_, stat, err := r.Raw.Get(l.Check().Path)
			require.NoError(t, err)
			require.Equal(t, recipetest.SessionID(r.C), stat.EphemeralOwner)
			require.NotEqual(t, old, stat.EphemeralOwner)
			require.NoError(t, l.Release())
			waiting = slices.Delete(waiting, i, i+1)
		}
		require.NoError(t, tried.Get().Release())
		r.Queued(0)
		require.Equal(t, 4, r.P.CountOf(recipetest.OpJoin), "one for each call")
		require.Equal(t, 4, r.P.CountOf(r.Release), "none for the expired session")
		require.Zero(t, r.P.CountOf("multi(check,create)"))
	})
}

func TestB06EachSidesReleaseGoesOnInTheBackground(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		rule := r.P.On(r.Release, 1, harness.DropBefore)
		l := recipetest.Held(t, r.M.Lock)
		require.NoError(t, l.Release())
		r.P.Await(rule)
		require.ErrorIs(t, l.Err(), zkrecipes.ErrReleased, "not held any more, although its place still exists")
		r.Queued(0)
	})
}

func TestB07EachSidesReleaseWhoseReplyIsLostIsDone(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		l := recipetest.Held(t, r.M.Lock)
		a := r.Joins(2, r.Rival)
		r.P.Reset()
		r.P.On(r.Release, 1, harness.DropAfter)
		require.NoError(t, l.Release())
		b := a.Get()
		harness.Eventually(t, "sent again", func() bool { return r.P.CountOf(r.Release) == 2 && recipetest.Idle(r.C) })
		_, err := b.Commit(r.Ctx)
		require.NoError(t, err, "the second release affects nobody")
		require.NoError(t, b.Release())
	})
}

func TestB08EachSidesReleaseWhileDisconnectedReturnsAtOnce(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		l := recipetest.Held(t, r.M.Lock)
		r.P.Refuse(true)
		s, _ := recipetest.Core(r.C).Session()
		harness.Eventually(t, "down", func() bool { up, _ := s.Connected(); return !up })
		began := time.Now()
		require.NoError(t, l.Release())
		require.Less(t, time.Since(began), time.Second)
		r.Queued(1)
		r.P.Refuse(false)
		r.Queued(0)
	})
}

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

func TestB10EachSideJoinsAgainAtTheTail(t *testing.T) {
	t.Parallel()
	for _, side := range recipetest.Sides {
		t.Run(side.Name, func(t *testing.T) {
			recorder := recipetest.NewRecorder()
			r := side.Rig(t, &zkrecipes.Options{Trace: recorder.Trace()})
			holder := recipetest.Held(t, r.Rival.Lock)
			a := r.Waits(2)
			first := recorder.Nth(t, 1, "queued")
			r.P.Expire()
			again := recorder.Nth(t, 2, "queued")
			require.NotEqual(t, first.Session, again.Session)
			r.Queued(2)
			require.True(t, a.Waiting())
			require.NoError(t, holder.Release())
			l := a.Get()
			require.Equal(t, again.Place, recipetest.HandleOf(l).Grant.Place().Name)
			require.NoError(t, l.Release())
		})
	}
}

func TestB12EachSidesReleaseAfterExpiryAffectsNobodyElse(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		l := recipetest.Held(t, r.M.Lock)
		next := r.Joins(2, r.Rival)
		r.P.Expire()
		b := next.Get()
		harness.Cause(t, l.Context(r.Ctx))
		require.ErrorIs(t, l.Release(), zkrecipes.ErrLost)
		require.ErrorIs(t, l.Release(), zkrecipes.ErrLost)
		_, err := b.Commit(r.Ctx)
		require.NoError(t, err)
		require.Greater(t, b.Token(), l.Token())
		require.NoError(t, b.Release())
	})
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

func TestB19EachSideIsGrantedWhenItsPredecessorGoesBetweenListAndWatch(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		ahead := r.ByHand(r.By)
		watch := r.P.On("getData", 1, harness.Hold) // its own place's may come first, or behind it
		a := recipetest.Later(t, r.M.Lock)
		r.P.Await(watch)
		require.NoError(t, r.Raw.Delete(ahead, -1))
		watch.Release()
		require.NoError(t, a.Get().Release())
	})
}

func TestB20EachSideWaitsOnWhenTheWaiterAheadDies(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		first, middle := r.ByHand(r.By), r.ByHand(r.By)
		a := r.Waits(3)
		require.NoError(t, r.Raw.Delete(middle, -1))
		harness.Eventually(t, "new predecessor", func() bool { return r.P.CountOf("getData") == 1 && recipetest.Idle(r.C) })
		require.True(t, a.Waiting())
		require.NoError(t, r.Raw.Delete(first, -1))
		require.NoError(t, a.Get().Release())
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

func TestB22EachSideLosesAPlaceThatAnOperatorDeletes(t *testing.T) {
	t.Parallel()
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		t.Run("waiter", func(t *testing.T) {
			l := recipetest.Held(t, r.Rival.Lock)
			a := r.Waits(2)
			require.NoError(t, r.Raw.Delete(r.Path+"/"+r.InLine()[1].Name, -1))
			_, err := a.Wait()
			require.ErrorIs(t, err, zkrecipes.ErrEvicted)
			require.NoError(t, l.Release())
		})
		t.Run("waiter, before it looks", func(t *testing.T) {
			ahead := r.ByHand(r.By)
			list := r.P.On("getChildren2", 1, harness.Hold)
			a := recipetest.Later(t, r.M.Lock)
			r.P.Await(list)
			require.NoError(t, r.Raw.Delete(r.Path+"/"+r.InLine()[1].Name, -1))
			list.Release()
			_, err := a.Wait()
			require.ErrorIs(t, err, zkrecipes.ErrEvicted)
			require.NoError(t, r.Raw.Delete(ahead, -1))
			r.P.Off(list)
		})
		t.Run("holder", func(t *testing.T) {
			l := recipetest.Held(t, r.M.Lock)
			require.NoError(t, r.Raw.Delete(l.Check().Path, -1))
			_, err := l.Commit(r.Ctx)
			require.ErrorIs(t, err, zkrecipes.ErrLost, "Commit fails at once")
			require.ErrorIs(t, l.Err(), zkrecipes.ErrLost)
		})
		t.Run("holder that releases", func(t *testing.T) {
			l := recipetest.Held(t, r.M.Lock)
			require.NoError(t, r.Raw.Delete(l.Check().Path, -1))
			require.ErrorIs(t, l.Release(), zkrecipes.ErrLost)
		})
		t.Run("holder that watches its place", func(t *testing.T) {
			l := recipetest.Held(t, r.M.Lock)
			work := l.Context(r.Ctx)
			require.NoError(t, r.Raw.Delete(l.Check().Path, -1))
			require.ErrorIs(t, harness.Cause(t, work), zkrecipes.ErrLost) // its watch is armed after a tenth of the timeout
		})
		t.Run("holder that waited", func(t *testing.T) {
			ahead := r.ByHand(r.By)
			a := r.Joins(2, r.M)
			require.NoError(t, r.Raw.Delete(ahead, -1))
			l := a.Get()
			require.NoError(t, r.Raw.Delete(l.Check().Path, -1))
			require.ErrorIs(t, harness.Cause(t, l.Context(r.Ctx)), zkrecipes.ErrLost) // at once
			require.ErrorIs(t, l.Release(), zkrecipes.ErrLost)
			r.Queued(0)
		})
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
