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

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// waitLater has a member wait at a barrier, in the background.
func waitLater(t testing.TB, b *Barrier) *harness.Call[int] { return harness.Go(t, b.Wait) }

// indexOf waits for a member and requires that its round was opened with it.
func indexOf(t testing.TB, a *harness.Call[int]) int {
	t.Helper()
	index, err := a.Wait()
	require.NoError(t, err)
	return index
}

// indexes waits for all and requires that each has an index of its own.
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

func TestA22BarrierOpensForNMembersFromNClientsRoundAfterRound(t *testing.T) {
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
	harness.Eventually(t, "nothing left", func() bool { return len(harness.Children(t, conn, path)) == 0 })
	data, _, err := conn.Get(path)
	require.NoError(t, err)
	require.Equal(t, "5", string(data))
}

const (
	opJoinRound   = "multi(check,create,setData)" // joins a round
	opLeaveRound  = "multi(delete,setData)"       // a member leaves
	opCancelWait  = "multi(delete,check,setData)" // a member cancels
	opMakeRound   = "multi(create,create)"        // makes a round
	opDeleteRound = "multi(delete,delete)"        // deletes one
	opOpenRound   = "multi(setData,check,check)"  // opens one of two
	roundOf2      = "/b/round"                    // of the barrier that tests in bubbles use
	readyOf2      = roundOf2 + "/ready"
)

// barrierOf2 returns the barrier of two that tests in bubbles use.
func barrierOf2(c *Client) *Barrier { return NewBarrier(c, "/b", 2) }

// present returns the members that stand in that barrier's round.
func (w *world) present() []placeName {
	return placeNames(w.srv.Children(roundOf2), memberKinds)
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
			require.Empty(t, w.srv.Children("/b"), "nor a round that nobody is in")
		}
		second := waitLater(t, b)
		synctest.Wait()
		require.True(t, second.Waiting())
		indexes(t, second, waitLater(t, a))
		synctest.Wait()
		require.Empty(t, w.srv.Children("/b"))
	})
}

// The round stays open until the last of its members has left. Until then nobody
// passes by it, and who has come meanwhile are the next.
func TestA22EarlyArrivalsAreNotAdmittedByThePreviousRound(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		slow := barrierOf2(w.stranger(nil))
		first := waitLater(t, slow)
		synctest.Wait()
		// Of the two that leave, the first is held up.
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opLeaveRound, For: 5 * time.Second})
		other := barrierOf2(w.stranger(nil))
		indexes(t, first, waitLater(t, other))
		synctest.Wait()
		require.Len(t, w.present(), 1)
		var early []*harness.Call[int]
		for range 3 {
			early = append(early, waitLater(t, barrierOf2(w.stranger(nil))))
		}
		synctest.Wait()
		for _, e := range early {
			require.True(t, e.Waiting())
		}
		require.Len(t, w.present(), 1, "none of them is a member")
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

// One that is early was refused by a round that has gone before it lists: what it
// finds is a member of the next, and is not to be waited for.
func TestA22EarlyArrivalThatFindsTheNextRoundJoinsIt(t *testing.T) {
	for name, op := range map[string]string{"listing late": "getChildren2", "watching late": "getData"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				a, b, c := barrierOf2(w.stranger(nil)), barrierOf2(w.stranger(nil)), barrierOf2(w.stranger(nil))
				first := waitLater(t, a)
				synctest.Wait()
				w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opLeaveRound, For: time.Second})
				indexes(t, first, waitLater(t, b))
				synctest.Wait()
				require.Len(t, w.present(), 1)
				path := roundOf2
				if op == "getData" {
					path += "/_c_*"
				}
				w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: op, Path: path, For: 5 * time.Second})
				early := waitLater(t, c)
				synctest.Wait()
				time.Sleep(2 * time.Second)
				require.Empty(t, w.present(), "it has gone, in the meantime")
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

// All who have gone through died before they could leave: who comes next cleans up.
func TestA22RoundWhoseMembersDiedIsCleanedUpByTheNextArrival(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c, d := w.stranger(nil), w.stranger(nil)
		w.plan.Add(zktest.Fault{Do: zktest.Withhold, Op: opLeaveRound, Times: 2})
		indexes(t, waitLater(t, barrierOf2(c)), waitLater(t, barrierOf2(d)))
		synctest.Wait()
		require.True(t, w.srv.Expire(sessionID(c)))
		early := waitLater(t, barrierOf2(w.stranger(nil)))
		synctest.Wait()
		require.Len(t, w.present(), 1)
		require.True(t, w.srv.Expire(sessionID(d)))
		synctest.Wait()
		require.Len(t, w.present(), 1, "the next round's")
		indexes(t, early, waitLater(t, barrierOf2(w.stranger(nil))))
		synctest.Wait()
		require.Empty(t, w.srv.Children("/b"))

		// And where nobody was there to see it.
		e, f := w.stranger(nil), w.stranger(nil)
		w.plan.Add(zktest.Fault{Do: zktest.Withhold, Op: opLeaveRound, Times: 2})
		indexes(t, waitLater(t, barrierOf2(e)), waitLater(t, barrierOf2(f)))
		synctest.Wait()
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

// The n-th has seen n, and one of them dies before it has opened the round, or
// even listed it.
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

// The n-th dies with the duty to open. All that are left are fewer, and the next
// to come has the duty.
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

// The opening was applied, and the session of the member that sent it ends: the
// round is open for it too.
func TestB45MemberThatDiesWithItsOpeningAppliedOpensForAll(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opLeaveRound, For: time.Minute, Times: -1}) // the round stays
		first := waitLater(t, barrierOf2(w.stranger(nil)))
		synctest.Wait()
		w.plan.Add(zktest.Fault{Do: zktest.Expire, After: true, Op: opOpenRound})
		indexes(t, first, waitLater(t, barrierOf2(w.stranger(nil))))
	})
}

// The same, and the round has gone before the member can look: that is not known
// any more, and it says so.
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
		// Nobody opens until four are there.
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getChildren2", For: time.Second, Times: 2})
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
		time.Sleep(5 * time.Second) // the own znode is watched too
		synctest.Wait()
		require.Equal(t, 2, watchesOf(c))
		own := roundOf2 + "/" + w.present()[0].name
		for range 3 {
			for _, event := range []int32{jute.EventDataChanged, jute.EventDeleted} {
				spurious(c, readyOf2, event)
				synctest.Wait()
				require.True(t, a.Waiting())
			}
			spurious(c, own, jute.EventDataChanged)
			time.Sleep(5 * time.Second)
			synctest.Wait()
			require.True(t, a.Waiting())
			require.Equal(t, 2, watchesOf(c))
		}
		require.Len(t, w.present(), 1)
		indexes(t, a, waitLater(t, barrierOf2(w.stranger(nil))))
	})
}

// An event that says that the member was deleted, and it was not.
func TestA22SpuriousDeletionEventEvictsNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		a := waitLater(t, barrierOf2(c))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		spurious(c, roundOf2+"/"+w.present()[0].name, jute.EventDeleted)
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
		through := make([]int, n) // rounds of each
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
						t.Error("one is two rounds ahead:", through)
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		require.Empty(t, w.srv.Children("/b"))
	})
}

func TestA22ParticipantsThatDisagreeOnNGetAnErrorThatNamesBoth(t *testing.T) {
	ctx, path := harness.Within(t, 20*time.Second), harness.NewPath(t)
	c := dial(t, nil)
	a := waitLater(t, NewBarrier(c, path, 2))
	sleeps(t, c, 1)
	_, err := NewBarrier(dial(t, nil), path, 3).Wait(ctx)
	require.EqualError(t, err, "zkrecipes: wait "+path+": a barrier of 2 members is used as one of 3")
	require.True(t, a.Waiting())
	indexes(t, a, waitLater(t, NewBarrier(dial(t, nil), path, 2)))

	// Who comes first says it, of those who come at once.
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
			require.ErrorContains(t, err, "is used as one of")
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

// Members of one Client, and of one value, are as many.
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
	require.NotErrorIs(t, err, ErrUncertain, "nobody has opened the round, and it stands")
	indexes(t, waitLater(t, b), waitLater(t, NewBarrier(dial(t, nil), r.path+"-b", 2)))
}

// What is written into ready does not grow with n.
func TestReadyHoldsRanges(t *testing.T) {
	of := func(numbers ...int32) (ms []placeName) {
		for _, n := range numbers {
			ms = append(ms, placeName{number: n})
		}
		return ms
	}
	require.Equal(t, "1-4,6,8-9", string(ranges(of(1, 2, 3, 4, 6, 8, 9))))
	for number, want := range map[int32]int{1: 0, 4: 3, 6: 4, 8: 5, 9: 6} {
		index, err := indexIn([]byte("1-4,6,8-9"), number)
		require.NoError(t, err)
		require.Equal(t, want, index)
	}
	for _, number := range []int32{-1, 0, 5, 7, 10} {
		_, err := indexIn([]byte("1-4,6,8-9"), number)
		require.Equal(t, errExcluded, err)
	}
	for _, junk := range []string{"", "x", "-1", "4-1", "1-", "1-x", ",", "99999999999"} {
		_, err := indexIn([]byte(junk), 7)
		require.ErrorIs(t, err, errWritten, junk)
	}
}
