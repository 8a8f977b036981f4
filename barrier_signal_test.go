package zkrecipes

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The signal, by whose event the members of a Barrier learn that their round is open.

// inRound returns a barrier of n, of a Client of its own, at the path that these tests use.
func (w *world) inRound(n int) *Barrier { return NewBarrier(w.stranger(nil), "/b", n) }

func TestA22MembersAreInTheRoundByTheEventAlone(t *testing.T) {
	for name, shared := range map[string]bool{"of several Clients": false, "of one Client": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				last := w.inRound(4)
				b := w.inRound(4)
				var as []*harness.Call[int]
				for range 3 {
					as = append(as, waitLater(t, b))
					synctest.Wait()
					if !shared {
						b = w.inRound(4)
					}
				}
				last.rounds.ForgetSize()
				require.NoError(t, last.rounds.CheckSize(t.Context(), live(t, clientOf(last.rounds.Line.Client))))
				requests := w.requests(func() {
					as = append(as, waitLater(t, last))
					for i, a := range as {
						require.Equal(t, i, indexOf(t, a), "in the order of arrival")
					}
					membersLeft()
				})
				require.Equal(t, map[string]int{
					opJoinRound: 1, "getChildren2": 1, "getData": 1, // the last to come lists the members, and reads n
					"multi(check,create,setData,check,check,check,check,check)": 1,
					opLeaveRound: 4, opDeleteRound: 1,
				}, requests)
				require.Empty(t, w.srv.Children("/b"))
			})
		})
	}
}

// The round was opened while a surplus member listed it.
func TestA22SurplusArrivalThatSeesTheSignalRaisedWaitsForTheNextRound(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.plan.Add(
			zktest.Fault{Do: zktest.Delay, Op: "getChildren2", Path: roundOf2, For: time.Second},
			zktest.Fault{Do: zktest.Delay, Op: "getChildren2", Path: roundOf2, For: 2 * time.Second, Skip: 1},
		)
		var as []*harness.Call[int]
		for range 4 {
			as = append(as, waitLater(t, w.inRound(3)))
			synctest.Wait()
		}
		require.Len(t, w.present(), 4)
		time.Sleep(5 * time.Second)
		indexes(t, as[:3]...)
		require.True(t, as[3].Waiting())
		indexes(t, as[3], waitLater(t, w.inRound(3)), waitLater(t, w.inRound(3)))
	})
}

// A member's session ended before the opening, so a number does not tell the index.
func TestA22MembersOfARoundWithHolesReadTheirIndexes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var as []*harness.Call[int]
		var cs []*Client
		for range 3 {
			b := w.inRound(4)
			as, cs = append(as, waitLater(t, b)), append(cs, clientOf(b.rounds.Line.Client))
			synctest.Wait()
		}
		require.True(t, w.srv.Expire(sessionID(cs[1])))
		_, err := as[1].Wait()
		require.ErrorIs(t, err, ErrLost)
		as = append(as[:1], as[2])
		as = append(as, waitLater(t, w.inRound(4)))
		synctest.Wait()
		last := w.inRound(4)
		require.NoError(t, last.rounds.CheckSize(t.Context(), live(t, clientOf(last.rounds.Line.Client))))
		requests := w.requests(func() {
			as = append(as, waitLater(t, last))
			for i, a := range as {
				require.Equal(t, i, indexOf(t, a), "in the order of arrival")
			}
			membersLeft()
		})
		require.Equal(t, 3+1, requests["getData"], "each waiting member reads ready, and the last to come n")
		require.Equal(t, 1, requests["multi(check,delete,setData,check,check,check,check,check)"])
		require.Equal(t, 1, requests["multi(check,delete,delete)"], "the member that deletes the round knows that the signal is gone")
		require.Empty(t, w.srv.Children("/b"))
	})
}

// The connection is lost after the watch was answered. The watch is set again, but its
// event proves nothing any more.
func TestB21AnEventAfterAReconnectMakesAMemberRead(t *testing.T) {
	for name, before := range map[string]bool{"opened after the reconnect": true, "opened before it": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c, other := w.stranger(nil), w.inRound(2)
				a := waitLater(t, barrierOf2(c))
				synctest.Wait()
				w.away(c)
				if before {
					w.back()
					time.Sleep(10 * time.Second)
					synctest.Wait()
					require.True(t, a.Waiting())
				}
				requests := w.requests(func() {
					require.Equal(t, 1, indexOf(t, waitLater(t, other)))
					w.back()
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
			inBubble(t, func(t *testing.T, w *world) {
				c, conn := w.stranger(nil), w.bare()
				first, second := w.inRound(2), w.inRound(2)
				a := waitLater(t, barrierOf2(c))
				synctest.Wait()
				w.away(c)
				wipe(t, conn, roundOf2)
				w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opLeaveRound, For: time.Hour, Times: 2})
				others := []*harness.Call[int]{waitLater(t, first)}
				synctest.Wait()
				if opened {
					indexes(t, append(others, waitLater(t, second))...)
					membersLeft()
				}
				w.back()
				_, err := a.Wait()
				require.ErrorIs(t, err, ErrEvicted)
				require.ErrorIs(t, err, ErrUncertain)
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
	inBubble(t, func(t *testing.T, w *world) {
		first, second := w.inRound(2), w.inRound(2)
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getChildren2", Path: readyOf2 + "/signal-of2", For: time.Second})
		a := waitLater(t, barrierOf2(w.stranger(nil)))
		synctest.Wait()
		wipe(t, w.bare(), roundOf2)
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opLeaveRound, For: time.Hour, Times: 2})
		indexes(t, waitLater(t, first), waitLater(t, second))
		_, err := a.Wait()
		require.ErrorIs(t, err, ErrEvicted)
		require.ErrorIs(t, err, ErrUncertain)
	})
}

// A member has the connection on which its watch was answered, and its round is opened
// just before an operator deletes the member. The event proves the index.
func TestB22MemberThatIsEvictedWithTheEventOnItsWayIsInTheRound(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		still := harness.NewLink(w.srv)
		a := waitLater(t, barrierOf2(w.stranger(&Options{Dialer: still.Dial, SessionTimeout: time.Minute})))
		time.Sleep(10 * time.Second) // it watches its own znode
		synctest.Wait()
		own := w.present()[0].Name
		still.Stop()
		b := waitLater(t, barrierOf2(w.stranger(nil)))
		require.Equal(t, 1, indexOf(t, b))
		membersLeft()
		wipe(t, w.bare(), roundOf2)
		require.NotContains(t, w.srv.Children("/b"), "round", own)
		still.Resume()
		require.Zero(t, indexOf(t, a), "although nobody could read it any more")
	}, zktest.SessionTimeouts(time.Second, time.Hour))
}

// An operator deletes the signal before the round is opened. The members wait on.
func TestB23RoundOpensWithoutItsSignal(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		as := []*harness.Call[int]{waitLater(t, w.inRound(3))}
		synctest.Wait()
		require.NoError(t, w.bare().Delete(readyOf2+"/signal-of3", -1))
		synctest.Wait()
		require.True(t, as[0].Waiting())
		as = append(as, waitLater(t, w.inRound(3)))
		synctest.Wait()
		as = append(as, waitLater(t, w.inRound(3)))
		indexes(t, as...)
		membersLeft()
		require.Empty(t, w.srv.Children("/b"))
	})
}

// A round without a signal, as a client that knows none would create it.
func TestA22RoundThatNeverHadASignalIsUsed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var ops []any
		for _, path := range []string{"/b", roundOf2, readyOf2} {
			ops = append(ops, &zk.CreateRequest{Path: path, Data: []byte{}, Acl: zk.WorldACL(zk.PermAll)})
		}
		_, err := w.bare().Multi(ops...)
		require.NoError(t, err)
		a := waitLater(t, w.inRound(2))
		synctest.Wait()
		indexes(t, a, waitLater(t, w.inRound(2)))
		membersLeft()
		require.Empty(t, w.srv.Children("/b"))
	})
}

// The signal of a round is for those who wait for the n of the member that created it.
// They, and those who wait for another n, must all wake.
func TestB78MembersOfAnotherNDoNotBelieveTheSignal(t *testing.T) {
	for name, order := range map[string][]int{
		"comes first": {5, 3, 3, 3}, "comes second": {3, 5, 3, 3}, "is the last": {3, 3, 5, 3}, "is one too many": {3, 3, 3, 5},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				old := used(t, w.stranger(nil), 5)
				_, err := w.insider().Set("/b", []byte("3"), -1)
				require.NoError(t, err)
				// Nobody opens the round until all four have joined.
				w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getChildren2", Path: roundOf2, For: 300 * time.Millisecond, Times: -1})
				began := time.Now()
				var as []*harness.Call[int]
				var wrong *harness.Call[int]
				for _, n := range order {
					if n == 5 {
						wrong = waitLater(t, old)
					} else {
						as = append(as, waitLater(t, w.inRound(n)))
					}
					synctest.Wait()
				}
				require.Len(t, w.present(), 4)
				_, err = wrong.Wait()
				requireSize(t, err, "a barrier of 3 members is used as one of 5")
				require.Less(t, time.Since(began), time.Second, "before it reads n again")
				indexes(t, as...)
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Empty(t, w.srv.Children("/b"))
			})
		})
	}
}

// A round whose members have died is opened by members that wait for another n than the
// first one did.
func TestA22RoundThatWasCreatedForAnotherNIsUsed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		dies := waitLater(t, NewBarrier(c, "/b", 3))
		synctest.Wait()
		require.True(t, w.srv.Expire(sessionID(c)))
		_, err := dies.Wait()
		require.ErrorIs(t, err, ErrLost)
		_, err = w.insider().Set("/b", []byte("2"), -1)
		require.NoError(t, err)
		a := waitLater(t, w.inRound(2))
		synctest.Wait()
		indexes(t, a, waitLater(t, w.inRound(2)))
		membersLeft()
		require.Empty(t, w.srv.Children("/b"))
	})
}

// Something stands below a raised signal, which can be deleted by nobody then. The next
// round cannot begin, and says why.
func TestB23SignalThatCannotBeDeletedIsReported(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := waitLater(t, w.inRound(2))
		synctest.Wait()
		conn, open := w.bare(), readyOf2+"/signal-of2/open"
		for _, path := range []string{open, open + "/x"} {
			_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		indexOf(t, a)
		membersLeft()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var errs []error
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 2 {
			b := w.inRound(2)
			wg.Go(func() {
				_, err := b.Wait(ctx)
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			})
		}
		began := w.srv.Counts()
		wg.Wait()
		t.Log(errs)
		total := 0
		for _, n := range w.srv.Counts().Sub(began).Requests {
			total += n
		}
		require.Less(t, total, 200, "nobody tries without end")
	})
}
