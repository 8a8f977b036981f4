package barrier_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The signal, by whose event the members of a Barrier learn that their round is open.

func TestA22MembersAreInTheRoundByTheEventAlone(t *testing.T) {
	for name, shared := range map[string]bool{"of several Clients": false, "of one Client": true} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				last := w.InRound(4)
				b := w.InRound(4)
				var as []*harness.Call[int]
				for range 3 {
					as = append(as, recipetest.WaitLater(t, b))
					synctest.Wait()
					if !shared {
						b = w.InRound(4)
					}
				}
				recipetest.RoundsOf(last).ForgetSize()
				require.NoError(t, recipetest.RoundsOf(last).CheckSize(t.Context(), recipetest.Live(t, recipetest.ClientOf(recipetest.RoundsOf(last).Line.Client))))
				requests := w.Requests(func() {
					as = append(as, recipetest.WaitLater(t, last))
					for i, a := range as {
						require.Equal(t, i, indexOf(t, a), "in the order of arrival")
					}
					recipetest.MembersLeft()
				})
				require.Equal(t, []int{1, 1, 0}, []int{requests["getChildren2"], requests["getData"], requests["exists"]}, "the last to come lists the members, and reads n")
				require.Empty(t, w.Srv.Children("/b"))
			})
		})
	}
}

// The round was opened while a surplus member listed it.
func TestA22SurplusArrivalThatSeesTheSignalRaisedWaitsForTheNextRound(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		w.Plan.Add(
			zktest.Fault{Do: zktest.Delay, Op: "getChildren2", Path: recipetest.RoundOf2, For: time.Second},
			zktest.Fault{Do: zktest.Delay, Op: "getChildren2", Path: recipetest.RoundOf2, For: 2 * time.Second, Skip: 1},
		)
		var as []*harness.Call[int]
		for range 4 {
			as = append(as, recipetest.WaitLater(t, w.InRound(3)))
			synctest.Wait()
		}
		require.Len(t, w.Present(), 4)
		time.Sleep(5 * time.Second)
		recipetest.Indexes(t, as[:3]...)
		require.True(t, as[3].Waiting())
		recipetest.Indexes(t, as[3], recipetest.WaitLater(t, w.InRound(3)), recipetest.WaitLater(t, w.InRound(3)))
	})
}

// A member's session ended before the opening, so a number does not tell the index.
func TestA22MembersOfARoundWithHolesReadTheirIndexes(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var as []*harness.Call[int]
		var cs []*zkrecipes.Client
		for range 3 {
			b := w.InRound(4)
			as, cs = append(as, recipetest.WaitLater(t, b)), append(cs, recipetest.ClientOf(recipetest.RoundsOf(b).Line.Client))
			synctest.Wait()
		}
		require.True(t, w.Srv.Expire(recipetest.SessionID(cs[1])))
		_, err := as[1].Wait()
		require.ErrorIs(t, err, zkrecipes.ErrLost)
		as = append(as[:1], as[2])
		as = append(as, recipetest.WaitLater(t, w.InRound(4)))
		synctest.Wait()
		last := w.InRound(4)
		require.NoError(t, recipetest.RoundsOf(last).CheckSize(t.Context(), recipetest.Live(t, recipetest.ClientOf(recipetest.RoundsOf(last).Line.Client))))
		requests := w.Requests(func() {
			as = append(as, recipetest.WaitLater(t, last))
			for i, a := range as {
				require.Equal(t, i, indexOf(t, a), "in the order of arrival")
			}
			recipetest.MembersLeft()
		})
		require.Equal(t, 3+1, requests["getData"], "each waiting member reads ready, and the last to come n")
		require.Equal(t, 1, requests["multi(check,delete,setData,check,check,check,check,check)"])
		require.Equal(t, 1, requests["multi(check,delete,delete)"], "the member that deletes the round knows that the signal is gone")
		require.Empty(t, w.Srv.Children("/b"))
	})
}

// The connection is lost after the watch was answered. The watch is set again, but its
// event proves nothing any more.
func TestB21AnEventAfterAReconnectMakesAMemberRead(t *testing.T) {
	for name, before := range map[string]bool{"opened after the reconnect": true, "opened before it": false} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c, other := w.Stranger(nil), w.InRound(2)
				a := recipetest.WaitLater(t, barrierOf2(c))
				synctest.Wait()
				w.Away(c)
				if before {
					w.Back()
					time.Sleep(10 * time.Second)
					synctest.Wait()
					require.True(t, a.Waiting())
				}
				requests := w.Requests(func() {
					require.Equal(t, 1, indexOf(t, recipetest.WaitLater(t, other)))
					w.Back()
					require.Zero(t, indexOf(t, a))
				})
				require.GreaterOrEqual(t, requests["getData"], 1+1+1, "the path's data twice, and ready")
			})
		})
	}
}

// While a member's connection is lost, an operator deletes the round, and another one
// takes its place. The watch fires, but another member has the number by now.
func TestB23MemberDoesNotBelieveTheSignalOfAnotherRound(t *testing.T) {
	for name, opened := range map[string]bool{"open": true, "not open": false} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c, conn := w.Stranger(nil), w.Bare()
				first, second := w.InRound(2), w.InRound(2)
				a := recipetest.WaitLater(t, barrierOf2(c))
				synctest.Wait()
				w.Away(c)
				recipetest.Wipe(t, conn, recipetest.RoundOf2)
				w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLeaveRound, For: time.Hour, Times: 2})
				others := []*harness.Call[int]{recipetest.WaitLater(t, first)}
				synctest.Wait()
				if opened {
					recipetest.Indexes(t, append(others, recipetest.WaitLater(t, second))...)
					recipetest.MembersLeft()
				}
				w.Back()
				_, err := a.Wait()
				require.ErrorIs(t, err, zkrecipes.ErrEvicted)
				require.ErrorIs(t, err, zkrecipes.ErrUncertain)
				if !opened {
					require.True(t, others[0].Waiting())
				}
			})
		})
	}
}

// An operator deletes the round before the member watches its signal, and another round is
// opened in its place.
func TestB23MemberThatWatchesALaterRoundsSignalDoesNotBelieveIt(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		first, second := w.InRound(2), w.InRound(2)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getChildren2", Path: recipetest.ReadyOf2 + "/signal-of2", For: time.Second})
		a := recipetest.WaitLater(t, barrierOf2(w.Stranger(nil)))
		synctest.Wait()
		recipetest.Wipe(t, w.Bare(), recipetest.RoundOf2)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLeaveRound, For: time.Hour, Times: 2})
		recipetest.Indexes(t, recipetest.WaitLater(t, first), recipetest.WaitLater(t, second))
		_, err := a.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrEvicted)
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
	})
}

// A member has the connection on which its watch was answered, and its round is opened
// just before an operator deletes the member. The event proves the index.
func TestB22MemberThatIsEvictedWithTheEventOnItsWayIsInTheRound(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		still := harness.NewLink(w.Srv)
		a := recipetest.WaitLater(t, barrierOf2(w.Stranger(&zkrecipes.Options{Dialer: still.Dial, SessionTimeout: time.Minute})))
		time.Sleep(10 * time.Second) // it watches its own znode
		synctest.Wait()
		own := w.Present()[0].Name
		still.Stop()
		b := recipetest.WaitLater(t, barrierOf2(w.Stranger(nil)))
		require.Equal(t, 1, indexOf(t, b))
		recipetest.MembersLeft()
		recipetest.Wipe(t, w.Bare(), recipetest.RoundOf2)
		require.NotContains(t, w.Srv.Children("/b"), "round", own)
		still.Resume()
		require.Zero(t, indexOf(t, a), "although nobody could read it any more")
	}, zktest.SessionTimeouts(time.Second, time.Hour))
}

// An operator deletes the signal before the round is opened. The members wait on.
func TestB23RoundOpensWithoutItsSignal(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		as := []*harness.Call[int]{recipetest.WaitLater(t, w.InRound(3))}
		synctest.Wait()
		require.NoError(t, w.Bare().Delete(recipetest.ReadyOf2+"/signal-of3", -1))
		synctest.Wait()
		require.True(t, as[0].Waiting())
		as = append(as, recipetest.WaitLater(t, w.InRound(3)))
		synctest.Wait()
		as = append(as, recipetest.WaitLater(t, w.InRound(3)))
		recipetest.Indexes(t, as...)
		recipetest.MembersLeft()
		require.Empty(t, w.Srv.Children("/b"))
	})
}

// A round without a signal, as a client that knows none would create it.
func TestA22RoundThatNeverHadASignalIsUsed(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var ops []any
		for _, path := range []string{"/b", recipetest.RoundOf2, recipetest.ReadyOf2} {
			ops = append(ops, &zk.CreateRequest{Path: path, Data: []byte{}, Acl: zk.WorldACL(zk.PermAll)})
		}
		_, err := w.Bare().Multi(ops...)
		require.NoError(t, err)
		a := recipetest.WaitLater(t, w.InRound(2))
		synctest.Wait()
		recipetest.Indexes(t, a, recipetest.WaitLater(t, w.InRound(2)))
		recipetest.MembersLeft()
		require.Empty(t, w.Srv.Children("/b"))
	})
}

// The signal of a round is for those who wait for the n of the member that created it.
// They, and those who wait for another n, must all wake.
func TestB78MembersOfAnotherNDoNotBelieveTheSignal(t *testing.T) {
	for name, order := range map[string][]int{
		"comes first": {5, 3, 3, 3}, "comes second": {3, 5, 3, 3}, "is the last": {3, 3, 5, 3}, "is one too many": {3, 3, 3, 5},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				old := used(t, w.Stranger(nil), 5)
				_, err := w.Insider().Set("/b", []byte("3"), -1)
				require.NoError(t, err)
				// Nobody opens the round until all four have joined.
				w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getChildren2", Path: recipetest.RoundOf2, For: 300 * time.Millisecond, Times: -1})
				began := time.Now()
				var as []*harness.Call[int]
				var wrong *harness.Call[int]
				for _, n := range order {
					if n == 5 {
						wrong = recipetest.WaitLater(t, old)
					} else {
						as = append(as, recipetest.WaitLater(t, w.InRound(n)))
					}
					synctest.Wait()
				}
				require.Len(t, w.Present(), 4)
				_, err = wrong.Wait()
				recipetest.RequireSize(t, err, "a barrier of 3 members is used as one of 5")
				require.Less(t, time.Since(began), time.Second, "before it reads n again")
				recipetest.Indexes(t, as...)
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Empty(t, w.Srv.Children("/b"))
			})
		})
	}
}

// A round whose members have died is opened by members that wait for another n than the
// first one did.
func TestA22RoundThatWasCreatedForAnotherNIsUsed(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		dies := recipetest.WaitLater(t, zkrecipes.NewBarrier(c, "/b", 3))
		synctest.Wait()
		require.True(t, w.Srv.Expire(recipetest.SessionID(c)))
		_, err := dies.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrLost)
		_, err = w.Insider().Set("/b", []byte("2"), -1)
		require.NoError(t, err)
		a := recipetest.WaitLater(t, w.InRound(2))
		synctest.Wait()
		recipetest.Indexes(t, a, recipetest.WaitLater(t, w.InRound(2)))
		recipetest.MembersLeft()
		require.Empty(t, w.Srv.Children("/b"))
	})
}

// Something stands below a raised signal, which can be deleted by nobody then. The next
// round cannot begin, and says why.
func TestB23SignalThatCannotBeDeletedIsReported(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a := recipetest.WaitLater(t, w.InRound(2))
		synctest.Wait()
		conn, open := w.Bare(), recipetest.ReadyOf2+"/signal-of2/open"
		for _, path := range []string{open, open + "/x"} {
			_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		indexOf(t, a)
		recipetest.MembersLeft()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var errs []error
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 2 {
			b := w.InRound(2)
			wg.Go(func() {
				_, err := b.Wait(ctx)
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			})
		}
		began := w.Srv.Counts()
		wg.Wait()
		t.Log(errs)
		total := 0
		for _, n := range w.Srv.Counts().Sub(began).Requests {
			total += n
		}
		require.Less(t, total, 200, "nobody tries without end")
	})
}
