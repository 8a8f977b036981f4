package zkrecipes

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// Faults of the network, the session and operators, for each way to hold a lock.

func TestB01EachSidesJoinWhoseReplyIsLostIsFound(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		for _, foreign := range []bool{false, true} {
			var ahead string
			n := 1
			if foreign {
				ahead, n = r.byHand(r.by), 2
			}
			r.p.Reset()
			rule := r.p.On(opJoin, 1, harness.DropAfter)
			a := later(t, r.m.Lock)
			r.p.Await(rule)
			r.queued(n)
			if foreign {
				harness.Eventually(t, "asleep", func() bool { return r.p.CountOf("getData") == 2 && idle(r.c) })
				require.True(t, a.Waiting())
				require.NoError(t, r.raw.Delete(ahead, -1))
			}
			l := a.Get()
			require.Equal(t, 1, r.p.CountOf(opJoin))
			require.Equal(t, 1, r.p.CountOf("sync"))
			_, stat, err := r.raw.Get(l.Check().Path)
			require.NoError(t, err)
			require.Equal(t, newToken(stat.Czxid, 0), l.Token())
			require.Len(t, r.inLine(), 1, "one place only")
			require.NoError(t, l.Release())
			r.queued(0)
			r.p.Off(rule)
		}
	})
}

// Calls that are made while disconnected are carried out once the client is connected
// again. If the session has expired by then, that is in the next session.
func TestB05LocksOfEachSideRequestedWhileDisconnectedAreTakenInTheNextSession(t *testing.T) {
	t.Parallel()
	eachSide(t, func(t *testing.T, r *sideRig) {
		old := sessionID(r.c)
		password := r.p.Password(old)
		elsewhere := r.ours(r.c, r.path+"-elsewhere")
		released, lost := held(t, r.m.Lock), held(t, elsewhere.Lock)
		r.p.Refuse(true)
		s, _ := r.c.client.Session()
		awaitDown(t, s)
		require.NoError(t, released.Release())
		var waiting []*harness.Call[*Lease]
		for range 3 {
			waiting = append(waiting, later(t, r.m.Lock))
		}
		tried := later(t, r.ours(r.c, r.path+"-tried").TryLock)
		committed := make(chan error, 1)
		go func() {
			_, err := lost.Commit(r.ctx, OpCreate(r.path+"-late", nil, 0, nil))
			committed <- err
		}()
		harness.EndSession(t, harness.Server(), old, password)
		r.p.Reset()
		r.p.Refuse(false)
		require.ErrorIs(t, harness.Receive(t, committed), ErrLost)
		for len(waiting) > 0 { // in whatever order they joined
			i := -1
			harness.Eventually(t, "one is granted", func() bool {
				i = slices.IndexFunc(waiting, func(a *harness.Call[*Lease]) bool { return !a.Waiting() })
				return i >= 0
			})
			l := waiting[i].Get()
			_, stat, err := r.raw.Get(l.Check().Path)
			require.NoError(t, err)
			require.Equal(t, sessionID(r.c), stat.EphemeralOwner)
			require.NotEqual(t, old, stat.EphemeralOwner)
			require.NoError(t, l.Release())
			waiting = slices.Delete(waiting, i, i+1)
		}
		require.NoError(t, tried.Get().Release())
		r.queued(0)
		require.Equal(t, 4, r.p.CountOf(opJoin), "one for each call")
		require.Equal(t, 4, r.p.CountOf(r.release), "none for the expired session")
		require.Zero(t, r.p.CountOf("multi(check,create)"))
	})
}

func TestB06EachSidesReleaseGoesOnInTheBackground(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		rule := r.p.On(r.release, 1, harness.DropBefore)
		l := held(t, r.m.Lock)
		require.NoError(t, l.Release())
		r.p.Await(rule)
		require.ErrorIs(t, l.Err(), ErrReleased, "not held any more, although its place still exists")
		r.queued(0)
	})
}

func TestB07EachSidesReleaseWhoseReplyIsLostIsDone(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		l := held(t, r.m.Lock)
		a := r.joins(2, r.rival)
		r.p.Reset()
		r.p.On(r.release, 1, harness.DropAfter)
		require.NoError(t, l.Release())
		b := a.Get()
		harness.Eventually(t, "sent again", func() bool { return r.p.CountOf(r.release) == 2 && idle(r.c) })
		_, err := b.Commit(r.ctx)
		require.NoError(t, err, "the second release affects nobody")
		require.NoError(t, b.Release())
	})
}

func TestB08EachSidesReleaseWhileDisconnectedReturnsAtOnce(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		l := held(t, r.m.Lock)
		r.p.Refuse(true)
		s, _ := r.c.client.Session()
		harness.Eventually(t, "down", func() bool { up, _ := s.Connected(); return !up })
		began := time.Now()
		require.NoError(t, l.Release())
		require.Less(t, time.Since(began), time.Second)
		r.queued(1)
		r.p.Refuse(false)
		r.queued(0)
	})
}

func TestB09ExpiryEndsALeaseOfEachSide(t *testing.T) {
	t.Parallel()
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			var e events
			r := side.rig(t, &Options{Trace: e.trace()})
			l := held(t, r.m.Lock)
			work := l.Context(r.ctx)
			r.p.Expire()
			require.ErrorIs(t, harness.Cause(t, work), ErrLost)
			require.NoError(t, r.ctx.Err())
			require.ErrorIs(t, l.Err(), ErrLost)
			require.Zero(t, l.ValidUntil())
			_, err := l.Commit(r.ctx, OpCreate(r.path+"/late", nil, 0, nil))
			require.ErrorIs(t, err, ErrLost)
			_, _, err = l.Get(r.ctx, r.path)
			require.ErrorIs(t, err, ErrLost)
			_, err = r.m.Lock(l.Reentrant(r.ctx))
			require.ErrorIs(t, err, ErrLost)
			harness.Eventually(t, "the Trace event", func() bool { return e.count("lost") == 1 })

			// In the next session the lease is still lost, and was not taken again.
			require.NoError(t, r.ours(r.c, r.path+"-other").Do(r.ctx, nothing))
			require.ErrorIs(t, l.Err(), ErrLost)
			r.queued(0)
		})
	}
}

func TestB10EachSideJoinsAgainAtTheTail(t *testing.T) {
	t.Parallel()
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			recorder := newRecorder()
			r := side.rig(t, &Options{Trace: recorder.trace()})
			holder := held(t, r.rival.Lock)
			a := r.waits(2)
			first := recorder.nth(t, 1, "queued")
			r.p.Expire()
			again := recorder.nth(t, 2, "queued")
			require.NotEqual(t, first.Session, again.Session)
			r.queued(2)
			require.True(t, a.Waiting())
			require.NoError(t, holder.Release())
			l := a.Get()
			require.Equal(t, again.Place, l.handle.Grant.Place().Name)
			require.NoError(t, l.Release())
		})
	}
}

func TestB12EachSidesReleaseAfterExpiryAffectsNobodyElse(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		l := held(t, r.m.Lock)
		next := r.joins(2, r.rival)
		r.p.Expire()
		b := next.Get()
		harness.Cause(t, l.Context(r.ctx))
		require.ErrorIs(t, l.Release(), ErrLost)
		require.ErrorIs(t, l.Release(), ErrLost)
		_, err := b.Commit(r.ctx)
		require.NoError(t, err)
		require.Greater(t, b.Token(), l.Token())
		require.NoError(t, b.Release())
	})
}

func TestB13ReleasingEachSideTwiceIsReleasingOnce(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		l := held(t, r.m.Lock)
		r.p.Reset()
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
		require.Equal(t, map[string]int{r.release: 1}, r.p.Count())
	})
}

func TestB19EachSideIsGrantedWhenItsPredecessorGoesBetweenListAndWatch(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		ahead := r.byHand(r.by)
		watch := r.p.On("getData", 1, harness.Hold) // its own place's may come first, or behind it
		a := later(t, r.m.Lock)
		r.p.Await(watch)
		require.NoError(t, r.raw.Delete(ahead, -1))
		watch.Release()
		require.NoError(t, a.Get().Release())
	})
}

func TestB20EachSideWaitsOnWhenTheWaiterAheadDies(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		first, middle := r.byHand(r.by), r.byHand(r.by)
		a := r.waits(3)
		require.NoError(t, r.raw.Delete(middle, -1))
		harness.Eventually(t, "new predecessor", func() bool { return r.p.CountOf("getData") == 1 && idle(r.c) })
		require.True(t, a.Waiting())
		require.NoError(t, r.raw.Delete(first, -1))
		require.NoError(t, a.Get().Release())
	})
}

func TestB21EachSideIsGrantedWhenItsPredecessorGoesWhileDisconnected(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		ahead := r.byHand(r.by)
		a := r.waits(2)
		r.p.Refuse(true)
		require.NoError(t, r.raw.Delete(ahead, -1))
		r.p.Reset()
		r.p.Refuse(false)
		l := a.Get()
		require.Equal(t, map[string]int{"setWatches": 1, "getChildren2": 1}, r.p.Count())
		require.NoError(t, l.Release())
	})
}

func TestB22EachSideLosesAPlaceThatAnOperatorDeletes(t *testing.T) {
	t.Parallel()
	eachSide(t, func(t *testing.T, r *sideRig) {
		t.Run("waiter", func(t *testing.T) {
			l := held(t, r.rival.Lock)
			a := r.waits(2)
			require.NoError(t, r.raw.Delete(r.path+"/"+r.inLine()[1].Name, -1))
			_, err := a.Wait()
			require.ErrorIs(t, err, ErrEvicted)
			require.NoError(t, l.Release())
		})
		t.Run("waiter, before it looks", func(t *testing.T) {
			ahead := r.byHand(r.by)
			list := r.p.On("getChildren2", 1, harness.Hold)
			a := later(t, r.m.Lock)
			r.p.Await(list)
			require.NoError(t, r.raw.Delete(r.path+"/"+r.inLine()[1].Name, -1))
			list.Release()
			_, err := a.Wait()
			require.ErrorIs(t, err, ErrEvicted)
			require.NoError(t, r.raw.Delete(ahead, -1))
			r.p.Off(list)
		})
		t.Run("holder", func(t *testing.T) {
			l := held(t, r.m.Lock)
			require.NoError(t, r.raw.Delete(l.Check().Path, -1))
			_, err := l.Commit(r.ctx)
			require.ErrorIs(t, err, ErrLost, "Commit fails at once")
			require.ErrorIs(t, l.Err(), ErrLost)
		})
		t.Run("holder that releases", func(t *testing.T) {
			l := held(t, r.m.Lock)
			require.NoError(t, r.raw.Delete(l.Check().Path, -1))
			require.ErrorIs(t, l.Release(), ErrLost)
		})
		t.Run("holder that watches its place", func(t *testing.T) {
			l := held(t, r.m.Lock)
			work := l.Context(r.ctx)
			require.NoError(t, r.raw.Delete(l.Check().Path, -1))
			require.ErrorIs(t, harness.Cause(t, work), ErrLost) // its watch is armed after a tenth of the timeout
		})
		t.Run("holder that waited", func(t *testing.T) {
			ahead := r.byHand(r.by)
			a := r.joins(2, r.m)
			require.NoError(t, r.raw.Delete(ahead, -1))
			l := a.Get()
			require.NoError(t, r.raw.Delete(l.Check().Path, -1))
			require.ErrorIs(t, harness.Cause(t, l.Context(r.ctx)), ErrLost) // at once
			require.ErrorIs(t, l.Release(), ErrLost)
			r.queued(0)
		})
	})
}

func TestB28OnEachSideNoPlaceBeyondTheLimitIsGranted(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		r.c.client.LastNumber = 2 // a real limit takes two thousand million creates; the rig has used number 0
		for range 2 {
			require.NoError(t, r.m.Do(r.ctx, nothing))
		}
		for _, lock := range []func(context.Context) (*Lease, error){r.m.Lock, r.m.Lock, r.m.Lock, r.m.Lock, r.m.TryLock} {
			l := held(t, lock) // of a new line where the number was beyond the limit
			require.LessOrEqual(t, r.inLine()[0].Number, r.c.client.LastNumber)
			require.NoError(t, l.Release())
		}
		r.queued(0)
	})
}

func TestB49EachSideListsAfterAnEventThatFollowsAReconnect(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		holder := held(t, r.rival.Lock)
		a := r.waits(2)
		r.p.Drop()
		s, _ := r.c.client.Session()
		harness.Eventually(t, "up again", func() bool { up, _ := s.Connected(); return up && r.p.CountOf("setWatches") == 1 })
		r.p.Reset()
		require.NoError(t, holder.Release())
		l := a.Get()
		require.Equal(t, map[string]int{"getChildren2": 1}, r.p.Count(), "it lists, as the event is only a hint")
		require.NoError(t, l.Release())
	})
}
