package zkrecipes

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

	"github.com/zkrecipes/zkrecipes/internal/barrier"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// waitLater starts a member that waits at a barrier, in the background.
func waitLater(t testing.TB, b *Barrier) *harness.Call[int] { return harness.Go(t, b.Wait) }

// indexOf waits for a member, requires that it was admitted, and returns its index.
func indexOf(t testing.TB, a *harness.Call[int]) int {
	t.Helper()
	index, err := a.Wait()
	require.NoError(t, err)
	return index
}

// indexes waits for all members of a round and requires that each has an index of
// its own.
func indexes(t testing.TB, as ...*harness.Call[int]) {
	t.Helper()
	var got, want []int
	for i, a := range as {
		index, err := a.Wait()
		require.NoError(t, err)
		got, want = append(got, index), append(want, i)
	}
	slices.Sort(got)
	require.Equal(t, want, got)
}

func TestRealA22BarrierOpensForNMembersFromNClientsRoundAfterRound(t *testing.T) {
	const n, rounds = 5, 10
	path, conn := harness.NewPath(t), harness.Raw(t)
	var wg sync.WaitGroup
	seen := make([][]int, rounds)
	var mu sync.Mutex
	for range n {
		b := NewBarrier(dial(t, nil), path, n)
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

const (
	opJoinRound   = "multi(check,create,setData)"                   // joins a round
	opLeaveRound  = "multi(delete,setData)"                         // a member leaves an open round
	opCancelWait  = "multi(delete,check,setData)"                   // a member cancels its Wait
	opMakeRound   = "multi(create,create,create)"                   // creates a round
	opDeleteRound = "multi(check,delete,delete,delete,delete)"      // deletes a round whose signal was raised
	opOpenRound   = "multi(check,create,setData,check,check,check)" // opens a round of two members
	roundOf2      = "/b/round"                                      // the round of the barrier that tests in bubbles use
	readyOf2      = roundOf2 + "/ready"
	signalOf2     = readyOf2 + "/signal-of2"
)

// barrierOf2 returns the barrier of two that tests in bubbles use.
func barrierOf2(c *Client) *Barrier { return NewBarrier(c, "/b", 2) }

// present returns the members in that barrier's round.
func (w *world) present() []line.PlaceName {
	return line.PlaceNames(w.srv.Children(roundOf2), barrier.MemberKinds)
}

func TestA22CancelledMemberLeavesNothingAndMayComeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, b := barrierOf2(w.stranger(nil)), barrierOf2(w.stranger(nil))
		for range 3 {
			first := waitLater(t, a)
			synctest.Wait()
			require.Len(t, w.present(), 1)
			reason := errors.New("changed my mind")
			first.Cancel(reason)
			_, err := first.Wait()
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, reason)
			require.NotErrorIs(t, err, ErrUncertain)
			synctest.Wait()
			require.Empty(t, w.srv.Children("/b"), "the empty round is deleted, too")
		}
		second := waitLater(t, b)
		synctest.Wait()
		require.True(t, second.Waiting())
		indexes(t, second, waitLater(t, a))
		membersLeft()
		require.Empty(t, w.srv.Children("/b"))
	})
}

// A round stays open until the last of its members has left. Members that arrive in
// the meantime are not admitted by it. They make up the next round.
func TestA22EarlyArrivalsAreNotAdmittedByThePreviousRound(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		slow := barrierOf2(w.stranger(nil))
		first := waitLater(t, slow)
		synctest.Wait()
		// Two members leave. The first to do so is delayed.
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opLeaveRound, For: 5 * time.Second})
		other := barrierOf2(w.stranger(nil))
		indexes(t, first, waitLater(t, other))
		membersLeft()
		require.Len(t, w.present(), 1)
		var early []*harness.Call[int]
		for range 3 {
			early = append(early, waitLater(t, barrierOf2(w.stranger(nil))))
		}
		synctest.Wait()
		for _, e := range early {
			require.True(t, e.Waiting())
		}
		require.Len(t, w.present(), 1, "no early arrival has joined")
		time.Sleep(6 * time.Second)
		passed := 0
		for _, e := range early {
			if !e.Waiting() {
				passed++
			}
		}
		require.Equal(t, 2, passed, "the next round")
		early = slices.DeleteFunc(early, func(e *harness.Call[int]) bool { return !e.Waiting() })
		indexes(t, early[0], waitLater(t, other))
	})
}

// The previous round rejects an early arrival and is deleted before the early arrival
// lists it. The member that the listing then shows belongs to the next round. The
// early arrival must not wait for it to leave.
func TestA22EarlyArrivalThatFindsTheNextRoundJoinsIt(t *testing.T) {
	for name, op := range map[string]string{"listing late": "getChildren2", "watching late": "getData"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				a, b, c := barrierOf2(w.stranger(nil)), barrierOf2(w.stranger(nil)), barrierOf2(w.stranger(nil))
				first := waitLater(t, a)
				synctest.Wait()
				w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opLeaveRound, For: time.Second})
				indexes(t, first, waitLater(t, b))
				membersLeft()
				require.Len(t, w.present(), 1)
				path := roundOf2
				if op == "getData" {
					path += "/_c_*"
				}
				w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: op, Path: path, For: 5 * time.Second})
				early := waitLater(t, c)
				synctest.Wait()
				time.Sleep(2 * time.Second)
				require.Empty(t, w.present(), "the previous round is gone")
				next := waitLater(t, a)
				synctest.Wait()
				require.Len(t, w.present(), 1)
				require.True(t, next.Waiting())
				require.True(t, early.Waiting())
				time.Sleep(4 * time.Second)
				indexes(t, early, next)
			})
		})
	}
}

// All members were admitted and died before they could leave. The next arrival
// deletes their round.
func TestA22RoundWhoseMembersDiedIsCleanedUpByTheNextArrival(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c, d := w.stranger(nil), w.stranger(nil)
		w.plan.Add(zktest.Fault{Do: zktest.Withhold, Op: opLeaveRound, Times: 2})
		indexes(t, waitLater(t, barrierOf2(c)), waitLater(t, barrierOf2(d)))
		membersLeft()
		require.True(t, w.srv.Expire(sessionID(c)))
		early := waitLater(t, barrierOf2(w.stranger(nil)))
		synctest.Wait()
		require.Len(t, w.present(), 1)
		require.True(t, w.srv.Expire(sessionID(d)))
		synctest.Wait()
		require.Len(t, w.present(), 1, "the member of the next round")
		indexes(t, early, waitLater(t, barrierOf2(w.stranger(nil))))
		membersLeft()
		require.Empty(t, w.srv.Children("/b"))

		// The same, if nobody was waiting when they died.
		e, f := w.stranger(nil), w.stranger(nil)
		w.plan.Add(zktest.Fault{Do: zktest.Withhold, Op: opLeaveRound, Times: 2})
		indexes(t, waitLater(t, barrierOf2(e)), waitLater(t, barrierOf2(f)))
		membersLeft()
		require.True(t, w.srv.Expire(sessionID(e)))
		require.True(t, w.srv.Expire(sessionID(f)))
		require.Equal(t, []string{"ready"}, w.srv.Children(roundOf2))
		indexes(t, waitLater(t, barrierOf2(w.stranger(nil))), waitLater(t, barrierOf2(w.stranger(nil))))
	})
}

func TestA22MemberThatDiesBeforeTheOpeningIsNotCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		dies := waitLater(t, barrierOf2(c))
		synctest.Wait()
		require.True(t, w.srv.Expire(sessionID(c)))
		_, err := dies.Wait()
		require.ErrorIs(t, err, zk.ErrSessionExpired)
		first := waitLater(t, barrierOf2(w.stranger(nil)))
		synctest.Wait()
		require.True(t, first.Waiting())
		require.Len(t, w.present(), 1)
		indexes(t, first, waitLater(t, barrierOf2(w.stranger(nil))))
	})
}

// The n-th member has seen that there are n. One of them dies before the n-th member
// has listed the round, or before it has opened it.
func TestB45MemberThatDiesWhileAnotherOpensIsNotCounted(t *testing.T) {
	for _, op := range []string{"getChildren2", opOpenRound} {
		t.Run(op, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.stranger(nil)
				dies := waitLater(t, barrierOf2(c))
				synctest.Wait()
				w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: op, For: time.Second})
				opens := waitLater(t, barrierOf2(w.stranger(nil)))
				synctest.Wait()
				require.Len(t, w.present(), 2)
				require.True(t, w.srv.Expire(sessionID(c)))
				_, err := dies.Wait()
				require.ErrorIs(t, err, zk.ErrSessionExpired)
				require.NotErrorIs(t, err, ErrUncertain)
				time.Sleep(2 * time.Second)
				require.True(t, opens.Waiting())
				indexes(t, opens, waitLater(t, barrierOf2(w.stranger(nil))))
			})
		})
	}
}

// The n-th member dies before it has opened the round. Fewer than n are left, so the
// next arrival has to open it.
func TestB45MemberThatDiesWhileItOpensLeavesTheDutyToTheNext(t *testing.T) {
	for _, op := range []string{"getChildren2", opOpenRound} {
		t.Run(op, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				first := waitLater(t, barrierOf2(w.stranger(nil)))
				synctest.Wait()
				w.plan.Add(zktest.Fault{Do: zktest.Expire, Op: op})
				dies := waitLater(t, barrierOf2(w.stranger(nil)))
				_, err := dies.Wait()
				require.ErrorIs(t, err, zk.ErrSessionExpired)
				require.NotErrorIs(t, err, ErrUncertain)
				require.True(t, first.Waiting())
				indexes(t, first, waitLater(t, barrierOf2(w.stranger(nil))))
			})
		})
	}
}

// The opening is applied, and the session of the member that sent it ends. The round
// is open for that member, too.
func TestB45MemberThatDiesWithItsOpeningAppliedOpensForAll(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opLeaveRound, For: time.Minute, Times: -1}) // the round stays
		first := waitLater(t, barrierOf2(w.stranger(nil)))
		synctest.Wait()
		w.plan.Add(zktest.Fault{Do: zktest.Expire, After: true, Op: opOpenRound})
		indexes(t, first, waitLater(t, barrierOf2(w.stranger(nil))))
	})
}

// The same, but the round is deleted before the member can read it. The member cannot
// learn the outcome any more and returns ErrUncertain.
func TestB45MemberWhoseRoundHasGoneIsUncertain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first := waitLater(t, barrierOf2(w.stranger(nil)))
		synctest.Wait()
		w.plan.Add(zktest.Fault{Do: zktest.Expire, After: true, Op: opOpenRound})
		dies := waitLater(t, barrierOf2(w.stranger(nil)))
		require.Zero(t, indexOf(t, first))
		_, err := dies.Wait()
		require.ErrorIs(t, err, ErrUncertain)
		require.ErrorIs(t, err, zk.ErrSessionExpired)
		indexes(t, waitLater(t, barrierOf2(w.stranger(nil))), waitLater(t, barrierOf2(w.stranger(nil))))
	})
}

func TestA22SurplusArrivalWaitsForTheNextRound(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		b := NewBarrier(w.stranger(nil), "/b", 3)
		var as []*harness.Call[int]
		// The listings are delayed, so nobody opens the round until four have joined.
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getChildren2", Path: roundOf2, For: time.Second, Times: 2})
		for range 4 {
			as = append(as, waitLater(t, NewBarrier(w.stranger(nil), "/b", 3)))
			synctest.Wait()
		}
		require.Len(t, w.present(), 4)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		indexes(t, as[:3]...)
		require.True(t, as[3].Waiting())
		require.Len(t, w.present(), 1)
		indexes(t, as[3], waitLater(t, b), waitLater(t, b))
	})
}

func TestA22SpuriousWakeUpsOpenNoRound(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		a := waitLater(t, barrierOf2(c))
		time.Sleep(5 * time.Second) // by now it watches its own znode and ready, too
		synctest.Wait()
		require.Equal(t, 3, watchesOf(c))
		own := roundOf2 + "/" + w.present()[0].Name
		for range 3 {
			for _, event := range []int32{jute.EventDataChanged, jute.EventChildrenChanged, jute.EventDeleted} {
				for _, path := range []string{readyOf2, signalOf2} {
					spurious(c, path, event)
					synctest.Wait()
					require.True(t, a.Waiting())
				}
			}
			spurious(c, own, jute.EventDataChanged)
			time.Sleep(5 * time.Second)
			synctest.Wait()
			require.True(t, a.Waiting())
			require.Equal(t, 3, watchesOf(c))
		}
		require.Len(t, w.present(), 1)
		indexes(t, a, waitLater(t, barrierOf2(w.stranger(nil))))
	})
}

// The event says that the member's znode was deleted, but it was not.
func TestA22SpuriousDeletionEventEvictsNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		a := waitLater(t, barrierOf2(c))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		spurious(c, roundOf2+"/"+w.present()[0].Name, jute.EventDeleted)
		synctest.Wait()
		require.True(t, a.Waiting())
		indexes(t, a, waitLater(t, barrierOf2(w.stranger(nil))))
	})
}

func TestA22RoundsInQuickSuccessionDoNotMix(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const n, rounds = 3, 20
		var mu sync.Mutex
		var wg sync.WaitGroup
		through := make([]int, n) // rounds that each member has passed
		for i := range n {
			b := NewBarrier(w.stranger(nil), "/b", n)
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
		membersLeft()
		require.Empty(t, w.srv.Children("/b"))
	})
}

func TestA22ParticipantsThatDisagreeOnNGetAnErrorThatNamesBoth(t *testing.T) {
	ctx, path := harness.Within(t, 20*time.Second), harness.NewPath(t)
	c := dial(t, nil)
	a := waitLater(t, NewBarrier(c, path, 2))
	sleeps(t, c, 1)
	_, err := NewBarrier(dial(t, nil), path, 3).Wait(ctx)
	require.EqualError(t, err, "zkrecipes: wait "+path+": wrong size: a barrier of 2 members is used as one of 3")
	require.True(t, a.Waiting())
	indexes(t, a, waitLater(t, NewBarrier(dial(t, nil), path, 2)))

	// If members arrive at once, the first to arrive sets the number.
	for range 10 {
		path := harness.NewPath(t)
		var as []*harness.Call[int]
		for n := range 2 {
			for range 1 + n {
				as = append(as, waitLater(t, NewBarrier(c, path, 1+n)))
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
			require.ErrorIs(t, err, ErrSize)
		}
		require.Contains(t, []int{1, 2}, agreed)
	}
}

func TestA22BarrierOfOneNeverWaits(t *testing.T) {
	ctx, b := harness.Within(t, 20*time.Second), NewBarrier(dial(t, nil), harness.NewPath(t), 1)
	for range 5 {
		index, err := b.Wait(ctx)
		require.NoError(t, err)
		require.Zero(t, index)
	}
}

// Calls of Wait count separately, even if they share a Client or a Barrier.
func TestA22CallsOfOneClientAreSeparateMembers(t *testing.T) {
	c, path := dial(t, nil), harness.NewPath(t)
	b := NewBarrier(c, path, 5)
	for range 3 {
		var as []*harness.Call[int]
		for i := range 5 {
			if i == 3 {
				b = NewBarrier(c, path, 5)
			}
			as = append(as, waitLater(t, b))
		}
		indexes(t, as...)
	}
	harness.Eventually(t, "no watches", func() bool { return watchesOf(c) == 0 })
}

func TestA22ExpiryWhileWaitingIsAnError(t *testing.T) {
	r := newRig(t, nil)
	b := NewBarrier(r.c, r.path+"-b", 2)
	a := waitLater(t, b)
	sleeps(t, r.c, 1)
	r.p.Expire()
	_, err := a.Wait()
	require.ErrorIs(t, err, zk.ErrSessionExpired)
	require.NotErrorIs(t, err, ErrUncertain, "the round still exists and has not been opened")
	indexes(t, waitLater(t, b), waitLater(t, NewBarrier(dial(t, nil), r.path+"-b", 2)))
}

// The data of ready are ranges of numbers, so that they do not grow with n.
func TestReadyHoldsRanges(t *testing.T) {
	of := func(numbers ...int32) (ms []line.PlaceName) {
		for _, n := range numbers {
			ms = append(ms, line.PlaceName{Number: n})
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
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		ended, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		for _, wait := range []func() (int, error){
			func() (int, error) { return (*Barrier)(nil).Wait(t.Context()) },
			func() (int, error) { return NewBarrier(c, "/b", 0).Wait(t.Context()) },
			func() (int, error) { return barrierOf2(c).Wait(canceled) },
			func() (int, error) { return barrierOf2(c).Wait(ended) },
			func() (int, error) { return NewBarrier(c, "/b", 3).Wait(t.Context()) }, // the path holds 2
		} {
			index, err := wait()
			require.Error(t, err)
			require.Equal(t, -1, index, err)
		}
	})
}
