package barrier_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/barrier"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// indexOf waits for a member, requires that it was admitted, and returns its index.
func indexOf(t testing.TB, a *harness.Call[int]) int {
	t.Helper()
	index, err := a.Wait()
	require.NoError(t, err)
	return index
}

func TestRealA22BarrierOpensForNMembersFromNClientsRoundAfterRound(t *testing.T) {
	const n, rounds = 5, 10
	path, conn := harness.NewPath(t), harness.Raw(t)
	var wg sync.WaitGroup
	seen := make([][]int, rounds)
	var mu sync.Mutex
	for range n {
		b := zkrecipes.NewBarrier(recipetest.Dial(t, nil), path, n)
		wg.Go(func() {
			for r := range rounds {
				index, err := b.Wait(harness.Within(t, 20*time.Second))
				if err != nil {
					t.Error(r, err)
					return
				}
				mu.Lock()
				seen[r] = append(seen[r], index)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, indexes := range seen {
		slices.Sort(indexes)
		require.Equal(t, []int{0, 1, 2, 3, 4}, indexes)
	}
	harness.Eventually(t, "an empty barrier", func() bool { return len(harness.Children(t, conn, path)) == 0 })
	data, _, err := conn.Get(path)
	require.NoError(t, err)
	require.Equal(t, "5", string(data))
}

// barrierOf2 returns the barrier of two that tests in bubbles use.
func barrierOf2(c *zkrecipes.Client) *zkrecipes.Barrier { return zkrecipes.NewBarrier(c, "/b", 2) }

func TestA22CancelledMemberLeavesNothingAndMayComeAgain(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, b := barrierOf2(w.Stranger(nil)), barrierOf2(w.Stranger(nil))
		for range 3 {
			first := recipetest.WaitLater(t, a)
			synctest.Wait()
			require.Len(t, w.Present(), 1)
			reason := errors.New("changed my mind")
			first.Cancel(reason)
			_, err := first.Wait()
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, reason)
			require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
			synctest.Wait()
			require.Empty(t, w.Srv.Children("/b"), "the empty round is deleted, too")
		}
		second := recipetest.WaitLater(t, b)
		synctest.Wait()
		require.True(t, second.Waiting())
		recipetest.Indexes(t, second, recipetest.WaitLater(t, a))
		recipetest.MembersLeft()
		require.Empty(t, w.Srv.Children("/b"))
	})
}

// A round stays open until the last of its members has left. Members that arrive in
// the meantime are not admitted by it. They make up the next round.
func TestA22EarlyArrivalsAreNotAdmittedByThePreviousRound(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		slow := barrierOf2(w.Stranger(nil))
		first := recipetest.WaitLater(t, slow)
		synctest.Wait()
		// Two members leave. The first to do so is delayed.
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLeaveRound, For: 5 * time.Second})
		other := barrierOf2(w.Stranger(nil))
		recipetest.Indexes(t, first, recipetest.WaitLater(t, other))
		recipetest.MembersLeft()
		require.Len(t, w.Present(), 1)
		var early []*harness.Call[int]
		for range 3 {
			early = append(early, recipetest.WaitLater(t, barrierOf2(w.Stranger(nil))))
		}
		synctest.Wait()
		for _, e := range early {
			require.True(t, e.Waiting())
		}
		require.Len(t, w.Present(), 1, "no early arrival has joined")
		time.Sleep(6 * time.Second)
		passed := 0
		for _, e := range early {
			if !e.Waiting() {
				passed++
			}
		}
		require.Equal(t, 2, passed, "the next round")
		early = slices.DeleteFunc(early, func(e *harness.Call[int]) bool { return !e.Waiting() })
		recipetest.Indexes(t, early[0], recipetest.WaitLater(t, other))
	})
}

// The previous round rejects an early arrival and is deleted before the early arrival
// lists it. The member that the listing then shows belongs to the next round. The
// early arrival must not wait for it to leave.
func TestA22EarlyArrivalThatFindsTheNextRoundJoinsIt(t *testing.T) {
	for name, op := range map[string]string{"listing late": "getChildren2", "watching late": "getData"} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				a, b, c := barrierOf2(w.Stranger(nil)), barrierOf2(w.Stranger(nil)), barrierOf2(w.Stranger(nil))
				first := recipetest.WaitLater(t, a)
				synctest.Wait()
				w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLeaveRound, For: time.Second})
				recipetest.Indexes(t, first, recipetest.WaitLater(t, b))
				recipetest.MembersLeft()
				require.Len(t, w.Present(), 1)
				path := recipetest.RoundOf2
				if op == "getData" {
					path += "/_c_*"
				}
				w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: op, Path: path, For: 5 * time.Second})
				early := recipetest.WaitLater(t, c)
				synctest.Wait()
				time.Sleep(2 * time.Second)
				require.Empty(t, w.Present(), "the previous round is gone")
				next := recipetest.WaitLater(t, a)
				synctest.Wait()
				require.Len(t, w.Present(), 1)
				require.True(t, next.Waiting())
				require.True(t, early.Waiting())
				time.Sleep(4 * time.Second)
				recipetest.Indexes(t, early, next)
			})
		})
	}
}

// All members were admitted and died before they could leave. The next arrival
// deletes their round.
func TestA22RoundWhoseMembersDiedIsCleanedUpByTheNextArrival(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, d := w.Stranger(nil), w.Stranger(nil)
		w.Plan.Add(zktest.Fault{Do: zktest.Withhold, Op: recipetest.OpLeaveRound, Times: 2})
		recipetest.Indexes(t, recipetest.WaitLater(t, barrierOf2(c)), recipetest.WaitLater(t, barrierOf2(d)))
		recipetest.MembersLeft()
		require.True(t, w.Srv.Expire(recipetest.SessionID(c)))
		early := recipetest.WaitLater(t, barrierOf2(w.Stranger(nil)))
		synctest.Wait()
		require.Len(t, w.Present(), 1)
		require.True(t, w.Srv.Expire(recipetest.SessionID(d)))
		synctest.Wait()
		require.Len(t, w.Present(), 1, "the member of the next round")
		recipetest.Indexes(t, early, recipetest.WaitLater(t, barrierOf2(w.Stranger(nil))))
		recipetest.MembersLeft()
		require.Empty(t, w.Srv.Children("/b"))

		// The same, if nobody was waiting when they died.
		e, f := w.Stranger(nil), w.Stranger(nil)
		w.Plan.Add(zktest.Fault{Do: zktest.Withhold, Op: recipetest.OpLeaveRound, Times: 2})
		recipetest.Indexes(t, recipetest.WaitLater(t, barrierOf2(e)), recipetest.WaitLater(t, barrierOf2(f)))
		recipetest.MembersLeft()
		require.True(t, w.Srv.Expire(recipetest.SessionID(e)))
		require.True(t, w.Srv.Expire(recipetest.SessionID(f)))
		require.Equal(t, []string{"ready"}, w.Srv.Children(recipetest.RoundOf2))
		recipetest.Indexes(t, recipetest.WaitLater(t, barrierOf2(w.Stranger(nil))), recipetest.WaitLater(t, barrierOf2(w.Stranger(nil))))
	})
}

func TestA22MemberThatDiesBeforeTheOpeningIsNotCounted(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		dies := recipetest.WaitLater(t, barrierOf2(c))
		synctest.Wait()
		require.True(t, w.Srv.Expire(recipetest.SessionID(c)))
		_, err := dies.Wait()
		require.ErrorIs(t, err, zk.ErrSessionExpired)
		first := recipetest.WaitLater(t, barrierOf2(w.Stranger(nil)))
		synctest.Wait()
		require.True(t, first.Waiting())
		require.Len(t, w.Present(), 1)
		recipetest.Indexes(t, first, recipetest.WaitLater(t, barrierOf2(w.Stranger(nil))))
	})
}

// The n-th member has seen that there are n. One of them dies before the n-th member
// has listed the round, or before it has opened it.
func TestB45MemberThatDiesWhileAnotherOpensIsNotCounted(t *testing.T) {
	for _, op := range []string{"getChildren2", recipetest.OpOpenRound} {
		t.Run(op, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c := w.Stranger(nil)
				dies := recipetest.WaitLater(t, barrierOf2(c))
				synctest.Wait()
				w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: op, For: time.Second})
				opens := recipetest.WaitLater(t, barrierOf2(w.Stranger(nil)))
				synctest.Wait()
				require.Len(t, w.Present(), 2)
				require.True(t, w.Srv.Expire(recipetest.SessionID(c)))
				_, err := dies.Wait()
				require.ErrorIs(t, err, zk.ErrSessionExpired)
				require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
				time.Sleep(2 * time.Second)
				require.True(t, opens.Waiting())
				recipetest.Indexes(t, opens, recipetest.WaitLater(t, barrierOf2(w.Stranger(nil))))
			})
		})
	}
}

// The n-th member dies before it has opened the round. Fewer than n are left, so the
// next arrival has to open it.
func TestB45MemberThatDiesWhileItOpensLeavesTheDutyToTheNext(t *testing.T) {
	for _, op := range []string{"getChildren2", recipetest.OpOpenRound} {
		t.Run(op, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				first := recipetest.WaitLater(t, barrierOf2(w.Stranger(nil)))
				synctest.Wait()
				w.Plan.Add(zktest.Fault{Do: zktest.Expire, Op: op})
				dies := recipetest.WaitLater(t, barrierOf2(w.Stranger(nil)))
				_, err := dies.Wait()
				require.ErrorIs(t, err, zk.ErrSessionExpired)
				require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
				require.True(t, first.Waiting())
				recipetest.Indexes(t, first, recipetest.WaitLater(t, barrierOf2(w.Stranger(nil))))
			})
		})
	}
}

// The opening is applied, and the session of the member that sent it ends. The round
// is open for that member, too.
func TestB45MemberThatDiesWithItsOpeningAppliedOpensForAll(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLeaveRound, For: time.Minute, Times: -1}) // the round stays
		first := recipetest.WaitLater(t, barrierOf2(w.Stranger(nil)))
		synctest.Wait()
		w.Plan.Add(zktest.Fault{Do: zktest.Expire, After: true, Op: recipetest.OpOpenRound})
		recipetest.Indexes(t, first, recipetest.WaitLater(t, barrierOf2(w.Stranger(nil))))
	})
}

// The same, but the round is deleted before the member can read it. The member cannot
// learn the outcome any more and returns ErrUncertain.
func TestB45MemberWhoseRoundHasGoneIsUncertain(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		first := recipetest.WaitLater(t, barrierOf2(w.Stranger(nil)))
		synctest.Wait()
		w.Plan.Add(zktest.Fault{Do: zktest.Expire, After: true, Op: recipetest.OpOpenRound})
		dies := recipetest.WaitLater(t, barrierOf2(w.Stranger(nil)))
		require.Zero(t, indexOf(t, first))
		_, err := dies.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		require.ErrorIs(t, err, zk.ErrSessionExpired)
		recipetest.Indexes(t, recipetest.WaitLater(t, barrierOf2(w.Stranger(nil))), recipetest.WaitLater(t, barrierOf2(w.Stranger(nil))))
	})
}

func TestA22SurplusArrivalWaitsForTheNextRound(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		b := zkrecipes.NewBarrier(w.Stranger(nil), "/b", 3)
		var as []*harness.Call[int]
		// The listings are delayed, so nobody opens the round until four have joined.
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getChildren2", Path: recipetest.RoundOf2, For: time.Second, Times: 2})
		for range 4 {
			as = append(as, recipetest.WaitLater(t, zkrecipes.NewBarrier(w.Stranger(nil), "/b", 3)))
			synctest.Wait()
		}
		require.Len(t, w.Present(), 4)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		recipetest.Indexes(t, as[:3]...)
		require.True(t, as[3].Waiting())
		require.Len(t, w.Present(), 1)
		recipetest.Indexes(t, as[3], recipetest.WaitLater(t, b), recipetest.WaitLater(t, b))
	})
}

func TestA22SpuriousWakeUpsOpenNoRound(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		a := recipetest.WaitLater(t, barrierOf2(c))
		time.Sleep(5 * time.Second) // by now it watches its own znode and ready, too
		synctest.Wait()
		require.Equal(t, 3, recipetest.WatchesOf(c))
		own := recipetest.RoundOf2 + "/" + w.Present()[0].Name
		for range 3 {
			for _, event := range []int32{jute.EventDataChanged, jute.EventChildrenChanged, jute.EventDeleted} {
				for _, path := range []string{recipetest.ReadyOf2, recipetest.SignalOf2} {
					recipetest.Spurious(c, path, event)
					synctest.Wait()
					require.True(t, a.Waiting())
				}
			}
			recipetest.Spurious(c, own, jute.EventDataChanged)
			time.Sleep(5 * time.Second)
			synctest.Wait()
			require.True(t, a.Waiting())
			require.Equal(t, 3, recipetest.WatchesOf(c))
		}
		require.Len(t, w.Present(), 1)
		recipetest.Indexes(t, a, recipetest.WaitLater(t, barrierOf2(w.Stranger(nil))))
	})
}

// The event says that the member's znode was deleted, but it was not.
func TestA22SpuriousDeletionEventEvictsNobody(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		a := recipetest.WaitLater(t, barrierOf2(c))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		recipetest.Spurious(c, recipetest.RoundOf2+"/"+w.Present()[0].Name, jute.EventDeleted)
		synctest.Wait()
		require.True(t, a.Waiting())
		recipetest.Indexes(t, a, recipetest.WaitLater(t, barrierOf2(w.Stranger(nil))))
	})
}

func TestA22RoundsInQuickSuccessionDoNotMix(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		const n, rounds = 3, 20
		var mu sync.Mutex
		var wg sync.WaitGroup
		through := make([]int, n) // rounds that each member has passed
		for i := range n {
			b := zkrecipes.NewBarrier(w.Stranger(nil), "/b", n)
			wg.Go(func() {
				for range rounds {
					if _, err := b.Wait(t.Context()); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					through[i]++
					if slices.Max(through)-slices.Min(through) > 1 {
						t.Error("a member is two rounds ahead:", through)
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		recipetest.MembersLeft()
		require.Empty(t, w.Srv.Children("/b"))
	})
}

func TestA22ParticipantsThatDisagreeOnNGetAnErrorThatNamesBoth(t *testing.T) {
	ctx, path := harness.Within(t, 20*time.Second), harness.NewPath(t)
	c := recipetest.Dial(t, nil)
	a := recipetest.WaitLater(t, zkrecipes.NewBarrier(c, path, 2))
	recipetest.Sleeps(t, c, 1)
	_, err := zkrecipes.NewBarrier(recipetest.Dial(t, nil), path, 3).Wait(ctx)
	require.EqualError(t, err, "zkrecipes: wait "+path+": wrong size: a barrier of 2 members is used as one of 3")
	require.True(t, a.Waiting())
	recipetest.Indexes(t, a, recipetest.WaitLater(t, zkrecipes.NewBarrier(recipetest.Dial(t, nil), path, 2)))

	// If members arrive at once, the first to arrive sets the number.
	for range 10 {
		path := harness.NewPath(t)
		var as []*harness.Call[int]
		for n := range 2 {
			for range 1 + n {
				as = append(as, recipetest.WaitLater(t, zkrecipes.NewBarrier(c, path, 1+n)))
			}
		}
		agreed := 0
		for _, a := range as {
			index, err := a.Wait()
			if err == nil {
				require.Less(t, index, 2)
				agreed++
				continue
			}
			require.ErrorIs(t, err, zkrecipes.ErrSize)
		}
		require.Contains(t, []int{1, 2}, agreed)
	}
}

func TestA22BarrierOfOneNeverWaits(t *testing.T) {
	ctx, b := harness.Within(t, 20*time.Second), zkrecipes.NewBarrier(recipetest.Dial(t, nil), harness.NewPath(t), 1)
	for range 5 {
		index, err := b.Wait(ctx)
		require.NoError(t, err)
		require.Zero(t, index)
	}
}

// Calls of Wait count separately, even if they share a Client or a Barrier.
func TestA22CallsOfOneClientAreSeparateMembers(t *testing.T) {
	c, path := recipetest.Dial(t, nil), harness.NewPath(t)
	b := zkrecipes.NewBarrier(c, path, 5)
	for range 3 {
		var as []*harness.Call[int]
		for i := range 5 {
			if i == 3 {
				b = zkrecipes.NewBarrier(c, path, 5)
			}
			as = append(as, recipetest.WaitLater(t, b))
		}
		recipetest.Indexes(t, as...)
	}
	harness.Eventually(t, "no watches", func() bool { return recipetest.WatchesOf(c) == 0 })
}

func TestA22ExpiryWhileWaitingIsAnError(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	b := zkrecipes.NewBarrier(r.C, r.Path+"-b", 2)
	a := recipetest.WaitLater(t, b)
	recipetest.Sleeps(t, r.C, 1)
	r.P.Expire()
	_, err := a.Wait()
	require.ErrorIs(t, err, zk.ErrSessionExpired)
	require.NotErrorIs(t, err, zkrecipes.ErrUncertain, "the round still exists and has not been opened")
	recipetest.Indexes(t, recipetest.WaitLater(t, b), recipetest.WaitLater(t, zkrecipes.NewBarrier(recipetest.Dial(t, nil), r.Path+"-b", 2)))
}

// The data of ready are ranges of numbers, so that they do not grow with n.
func TestReadyHoldsRanges(t *testing.T) {
	of := func(numbers ...int32) (ms []placename.Parts) {
		for _, n := range numbers {
			ms = append(ms, placename.Parts{Number: n})
		}
		return ms
	}
	require.Equal(t, "1-4,6,8-9", string(barrier.Ranges(of(1, 2, 3, 4, 6, 8, 9))))
	for number, want := range map[int32]int{1: 0, 4: 3, 6: 4, 8: 5, 9: 6} {
		index, n, err := barrier.IndexIn([]byte("1-4,6,8-9"), number)
		require.NoError(t, err)
		require.Equal(t, 7, n)
		require.Equal(t, want, index)
	}
	for _, number := range []int32{-1, 0, 5, 7, 10} {
		_, _, err := barrier.IndexIn([]byte("1-4,6,8-9"), number)
		require.Equal(t, barrier.ErrExcluded, err)
	}
	for _, junk := range []string{"", "x", "-1", "4-1", "1-", "1-x", ",", "99999999999"} {
		_, _, err := barrier.IndexIn([]byte(junk), 7)
		require.ErrorIs(t, err, barrier.ErrWritten, junk)
	}
}

// A member that ignores the error must not take itself for member 0, the leader.
func TestWaitOfABarrierThatFailsReturnsMinusOne(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		ended, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		for _, wait := range []func() (int, error){
			func() (int, error) { return (*zkrecipes.Barrier)(nil).Wait(t.Context()) },
			func() (int, error) { return zkrecipes.NewBarrier(c, "/b", 0).Wait(t.Context()) },
			func() (int, error) { return barrierOf2(c).Wait(canceled) },
			func() (int, error) { return barrierOf2(c).Wait(ended) },
			func() (int, error) { return zkrecipes.NewBarrier(c, "/b", 3).Wait(t.Context()) }, // the path holds 2
		} {
			index, err := wait()
			require.Error(t, err)
			require.Equal(t, -1, index, err)
		}
	})
}
