package barrier_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The table of faults (recipetest.Faults) for both kinds of barrier.
func TestBarriersUnderEachFaultAtEachRequest(t *testing.T) {
	recipetest.Faults(t, recipetest.BarrierDrivers()...)
}

// One of the requests of three members of a round fails in some way. The round
// opens for all of them or for none. A member that cannot find out returns
// ErrUncertain.
func TestB45WhateverHappensToARequestTheRoundOpensForAllOrForNone(t *testing.T) {
	seen := map[string]int{}
	try := func(t *testing.T, fault zktest.Fault) (met bool) {
		o := &recipetest.Observer{Dir: recipetest.RoundOf2}
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			const n = 3
			var clients []*zkrecipes.Client
			for range n {
				clients = append(clients, w.Stranger(nil))
			}
			w.Plan.Add(fault)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			var mu sync.Mutex
			indexes := map[int]bool{}
			uncertain, stuck := 0, 0
			var wg sync.WaitGroup
			for _, c := range clients {
				wg.Go(func() {
					for {
						index, err := zkrecipes.NewBarrier(c, "/b", n).Wait(ctx)
						if errors.Is(err, zk.ErrSessionExpired) && !errors.Is(err, zkrecipes.ErrUncertain) {
							continue // certainly not in an opened round: it waits again
						}
						mu.Lock()
						defer mu.Unlock()
						switch {
						case err == nil:
							if indexes[index] {
								t.Error("two members have the same index:", index)
							}
							indexes[index] = true
						case errors.Is(err, zkrecipes.ErrUncertain):
							uncertain++
						case ctx.Err() != nil:
							stuck++
						default:
							t.Error(err)
						}
						return
					}
				})
			}
			wg.Wait()
			recipetest.MembersLeft() // a fault may hit their leaves, too
			met = w.Met()
			for _, stood := range o.Openings() {
				require.GreaterOrEqual(t, stood, n)
			}
			if uncertain == 0 || len(indexes) > 0 {
				require.Zero(t, stuck)
			}
			require.LessOrEqual(t, uncertain, 1)
			seen[fmt.Sprintf("%d through, %d uncertain", len(indexes), uncertain)]++
			time.Sleep(time.Minute)
			require.Empty(t, w.Present())
			if !met { // it would hit the next round
				return
			}

			wg = sync.WaitGroup{}
			for range n {
				c := w.Stranger(nil)
				wg.Go(func() {
					if _, err := zkrecipes.NewBarrier(c, "/b", n).Wait(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}, o.Option())
		return met
	}
	// Which request meets the opening depends on the order of events.
	for tries := 0; tries < 20 && seen["2 through, 1 uncertain"] == 0; tries++ {
		recipetest.EachRequest(t, recipetest.Mishaps, try)
	}
	t.Log(seen)
	require.NotZero(t, seen["2 through, 1 uncertain"])
}

// While another member waits, one cancels while one of its requests is in flight.
// Either the round opens with both of them, or it opens with neither and the
// cancelled member is removed.
func TestB32CancelAtAnyRequestReturnsAnIndexOrRemovesTheMember(t *testing.T) {
	delays := []zktest.Fault{
		{Do: zktest.Delay, For: time.Second}, {Do: zktest.Delay, For: time.Second, After: true},
	}
	seen := map[string]int{}
	for name, first := range map[string]bool{"first to arrive": true, "last to arrive": false} {
		t.Run(name, func(t *testing.T) {
			recipetest.EachRequest(t, delays, func(t *testing.T, fault zktest.Fault) (met bool) {
				o := &recipetest.Observer{Dir: recipetest.RoundOf2}
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					b, other := barrierOf2(w.Stranger(nil)), barrierOf2(w.Stranger(nil))
					var a, partner *harness.Call[int]
					if !first {
						partner = recipetest.WaitLater(t, other)
						synctest.Wait()
					}
					w.Plan.Add(fault)
					a = recipetest.WaitLater(t, b)
					if first {
						time.Sleep(500 * time.Millisecond)
						partner = recipetest.WaitLater(t, other)
					}
					synctest.Wait()
					reason := errors.New("enough")
					a.Cancel(reason)
					time.Sleep(5 * time.Second)
					_, err := a.Wait()
					met = w.Met()
					if err == nil {
						seen["named"]++
						_, err := partner.Wait()
						require.NoError(t, err)
						return
					}
					seen["not named"]++
					require.ErrorIs(t, err, reason)
					require.NotErrorIs(t, err, zkrecipes.ErrUncertain, "the client was connected")
					require.True(t, partner.Waiting())
					require.Len(t, w.Present(), 1, "the partner")
					recipetest.Indexes(t, partner, recipetest.WaitLater(t, b))
					for _, stood := range o.Openings() {
						require.Equal(t, 2, stood)
					}
				}, o.Option())
				return met
			})
		})
	}
	t.Log(seen)
	require.NotZero(t, seen["named"])
	require.NotZero(t, seen["not named"])
}

// The request that opens the round and the one that cancels a member are in flight
// at the same time.
func TestB32CancelRacingTheOpeningInEitherOrder(t *testing.T) {
	t.Run("the opening is applied first", func(t *testing.T) {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			a := recipetest.WaitLater(t, barrierOf2(w.Stranger(nil)))
			synctest.Wait()
			w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpCancelWait, For: time.Second})
			a.Cancel(nil)
			synctest.Wait()
			require.True(t, a.Waiting())
			recipetest.Indexes(t, a, recipetest.WaitLater(t, barrierOf2(w.Stranger(nil))))
			synctest.Wait()
			require.Empty(t, w.Srv.Children("/b"))
		})
	})
	t.Run("the cancel is applied first", func(t *testing.T) {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			a := recipetest.WaitLater(t, barrierOf2(w.Stranger(nil)))
			synctest.Wait()
			w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpOpenRound, For: time.Second})
			partner := recipetest.WaitLater(t, barrierOf2(w.Stranger(nil)))
			synctest.Wait()
			a.Cancel(nil)
			_, err := a.Wait()
			require.ErrorIs(t, err, context.Canceled)
			time.Sleep(2 * time.Second)
			require.True(t, partner.Waiting(), "the opening was refused")
			recipetest.Indexes(t, partner, recipetest.WaitLater(t, barrierOf2(w.Stranger(nil))))
		})
	})
	t.Run("the reply to the cancel is lost", func(t *testing.T) {
		for name, opened := range map[string]bool{"opened": true, "not opened": false} {
			t.Run(name, func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					c := w.Stranger(nil)
					a := recipetest.WaitLater(t, barrierOf2(c))
					synctest.Wait()
					w.Plan.Add(zktest.Fault{Do: zktest.Answer, After: true, Op: recipetest.OpCancelWait, Code: jute.ErrOperationTimeout, Times: 2})
					if opened {
						w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpCancelWait, For: time.Second})
					}
					a.Cancel(nil)
					synctest.Wait()
					if opened {
						recipetest.Indexes(t, a, recipetest.WaitLater(t, barrierOf2(w.Stranger(nil))))
						return
					}
					_, err := a.Wait()
					require.ErrorIs(t, err, context.Canceled)
					require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
					require.NotErrorIs(t, err, zkrecipes.ErrEvicted)
					require.Empty(t, w.Present())
				})
			})
		}
	})
}

func TestB01JoinOfABarrierWhoseReplyIsLostIsFound(t *testing.T) {
	for name, first := range map[string]bool{"first": true, "last, which opens the round": false} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				b, other := barrierOf2(w.Stranger(nil)), barrierOf2(w.Stranger(nil))
				var partner *harness.Call[int]
				if !first {
					partner = recipetest.WaitLater(t, other)
					synctest.Wait()
				}
				// The search for the join fails at first, too.
				joins := 1
				if first {
					joins = 2 // the first attempt finds no round
				}
				w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: recipetest.OpJoinRound, Skip: joins - 1},
					zktest.Fault{Do: zktest.Drop, Op: "sync", Times: 2})
				var a *harness.Call[int]
				requests := w.Requests(func() { a = recipetest.WaitLater(t, b); time.Sleep(time.Second) })
				require.Equal(t, joins, requests[recipetest.OpJoinRound], "the join is found, not repeated")
				if first {
					require.Len(t, w.Present(), 1)
					partner = recipetest.WaitLater(t, other)
				}
				recipetest.Indexes(t, a, partner)
				recipetest.MembersLeft()
				require.Empty(t, w.Srv.Children("/b"))
			})
		})
	}
}

// The client reconnects to a server that has not applied the join yet.
func TestB03SearchForALostJoinOfABarrierSyncsFirst(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a := recipetest.WaitLater(t, barrierOf2(w.Stranger(nil)))
		synctest.Wait()
		b := barrierOf2(w.Stranger(nil))
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: recipetest.OpJoinRound})
		requests := w.Requests(func() { recipetest.Indexes(t, a, recipetest.WaitLater(t, b)) })
		require.Equal(t, 1, requests[recipetest.OpJoinRound])
	}, recipetest.Behind(2, 1))
}

func TestB45OpeningWhoseReplyIsLostHappensOnce(t *testing.T) {
	for name, after := range map[string]bool{"applied": true, "not applied": false} {
		for _, do := range []zktest.Action{zktest.Drop, zktest.Answer} {
			t.Run(name+" "+string(do), func(t *testing.T) {
				o := &recipetest.Observer{Dir: recipetest.RoundOf2}
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					a := recipetest.WaitLater(t, barrierOf2(w.Stranger(nil)))
					synctest.Wait()
					fault := zktest.Fault{Do: do, After: after, Op: recipetest.OpOpenRound, Times: 2}
					if do == zktest.Answer {
						fault.Code = jute.ErrConnectionLoss
					}
					w.Plan.Add(fault)
					recipetest.Indexes(t, a, recipetest.WaitLater(t, barrierOf2(w.Stranger(nil))))
					require.Equal(t, []int{2}, o.Openings(), "opened once")
				}, o.Option())
			})
		}
	}
}

func TestB07LeaveOfABarrierWhoseReplyIsLostRemovesTheMember(t *testing.T) {
	for name, after := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: recipetest.OpLeaveRound, Times: 2})
				a, b := barrierOf2(w.Stranger(nil)), barrierOf2(w.Stranger(nil))
				for range 2 {
					recipetest.Indexes(t, recipetest.WaitLater(t, a), recipetest.WaitLater(t, b))
				}
				recipetest.MembersLeft()
				require.Empty(t, w.Present())
			})
		})
	}
}

// A Wait that begins while the client is disconnected joins in the next session
// if the current one expires. No member is left of the expired one.
func TestB05JoinOfABarrierWhileDisconnectedRunsInTheNextSessionOnly(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		recipetest.Indexes(t, recipetest.WaitLater(t, barrierOf2(c)), recipetest.WaitLater(t, barrierOf2(c))) // the barrier's size is known
		recipetest.MembersLeft()
		w.Away(c)
		a := recipetest.WaitLater(t, barrierOf2(c))
		synctest.Wait()
		id := recipetest.SessionID(c)
		w.Srv.Expire(id)
		w.Back()
		time.Sleep(time.Minute)
		require.NotEqual(t, id, recipetest.SessionID(c))
		require.Len(t, w.Present(), 1)
		require.True(t, a.Waiting())
		recipetest.Indexes(t, a, recipetest.WaitLater(t, barrierOf2(w.Stranger(nil))))
	})
}

// The round opens while the client's link is stalled, and the client reads of it
// after its session has expired. The round was opened with this member, so Wait
// returns its index.
func TestB11MemberOfAnOpenedRoundGetsItsIndexAfterItsSessionExpired(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		still := harness.NewLink(w.Srv)
		c := w.Stranger(&zkrecipes.Options{Dialer: still.Dial})
		a := recipetest.WaitLater(t, barrierOf2(c))
		synctest.Wait()
		still.Stop()
		partner := recipetest.WaitLater(t, barrierOf2(w.Stranger(nil)))
		index := indexOf(t, partner)
		recipetest.MembersLeft()
		require.Len(t, w.Present(), 1)
		time.Sleep(11 * time.Second)
		require.Empty(t, w.Present(), "expired")
		require.True(t, a.Waiting())
		still.Resume()
		require.Equal(t, 1-index, indexOf(t, a))
	})
}

// The session expires before the round opens. When the client reads again, another
// round with the same sequence numbers stands. That round's ready says nothing about
// this member.
func TestB11MemberOfAnExpiredSessionIgnoresTheReadyOfAnotherRound(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		still := harness.NewLink(w.Srv)
		c := w.Stranger(&zkrecipes.Options{Dialer: still.Dial})
		a := recipetest.WaitLater(t, barrierOf2(c))
		synctest.Wait()
		number := w.Present()[0].Number
		still.Lose()
		time.Sleep(11 * time.Second)
		require.Empty(t, w.Present())
		recipetest.Wipe(t, w.Bare(), recipetest.RoundOf2)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLeaveRound, For: time.Hour, Times: -1})
		one := recipetest.WaitLater(t, barrierOf2(w.Stranger(nil)))
		synctest.Wait()
		require.Equal(t, number, w.Present()[0].Number, "the same number")
		recipetest.Indexes(t, one, recipetest.WaitLater(t, barrierOf2(w.Stranger(nil))))
		still.Resume()
		_, err := a.Wait()
		require.ErrorIs(t, err, zk.ErrSessionExpired)
		require.ErrorIs(t, err, zkrecipes.ErrUncertain, "its own round is gone")
		w.Back()
	})
}

func TestRealB18BarrierWaitsThroughAServerRestart(t *testing.T) {
	node := harness.OwnNode(t, zkserver.Config{})
	servers := []string{node.Addr()}
	path := harness.NewPath(t)
	var waiting []*harness.Call[int]
	for range 2 {
		c := recipetest.DialTo(t, servers, nil)
		waiting = append(waiting, recipetest.WaitLater(t, zkrecipes.NewBarrier(c, path, 3)))
		recipetest.Sleeps(t, c, 1)
	}
	require.NoError(t, node.Kill(t.Context()))
	require.NoError(t, node.Restart(t.Context()))
	last := recipetest.WaitLater(t, zkrecipes.NewBarrier(recipetest.DialTo(t, servers, nil), path, 3))
	recipetest.Indexes(t, append(waiting, last)...)
}

func TestB21RoundOpenedWhileDisconnectedReleasesTheWaiterAfterTheReconnect(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	path := r.Path + "-b"
	a := recipetest.WaitLater(t, zkrecipes.NewBarrier(r.C, path, 2))
	recipetest.Sleeps(t, r.C, 1)
	r.P.Refuse(true)
	partner := recipetest.WaitLater(t, zkrecipes.NewBarrier(recipetest.Dial(t, nil), path, 2))
	index := indexOf(t, partner)
	require.True(t, a.Waiting())
	r.P.Refuse(false)
	require.Equal(t, 1-index, indexOf(t, a))
}

// A Wait that is cancelled while disconnected returns at once. The client's next
// Wait joins only once the old member is gone, so that a client never completes a
// round with its own cancelled member.
func TestB33NextWaitOfAClientStartsOnceTheCancelledOneIsResolved(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		b := barrierOf2(c)
		a := recipetest.WaitLater(t, b)
		synctest.Wait()
		w.Away(c)
		a.Cancel(errors.New("enough"))
		synctest.Wait()
		require.False(t, a.Waiting())
		_, err := a.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "enough")
		require.Len(t, w.Present(), 1)
		again := recipetest.WaitLater(t, zkrecipes.NewBarrier(c, "/b", 2))
		late := recipetest.WaitLater(t, b)
		synctest.Wait()
		late.Cancel(nil)
		_, err = late.Wait()
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, zkrecipes.ErrUncertain, "it has not joined")
		w.Back()
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Op: recipetest.OpCancelWait, Code: jute.ErrThrottled, Times: 5})
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			require.LessOrEqual(t, len(w.Present()), 1)
			require.True(t, again.Waiting())
		}
		require.Len(t, w.Present(), 1)
		recipetest.Indexes(t, again, recipetest.WaitLater(t, barrierOf2(w.Stranger(nil))))
		synctest.Wait()
		require.Zero(t, recipetest.Abandoned(c))
	})
}

// The round opens with a member that was cancelled while its client was
// disconnected.
func TestB33WaitCancelledWhileDisconnectedMayStillBeInTheRound(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, other := w.Stranger(nil), w.Stranger(nil)
		a := recipetest.WaitLater(t, barrierOf2(c))
		synctest.Wait()
		w.Away(c)
		a.Cancel(nil)
		_, err := a.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		require.Zero(t, 1-indexOf(t, recipetest.WaitLater(t, barrierOf2(other))), "with the cancelled member")
		recipetest.MembersLeft()
		again, next := recipetest.WaitLater(t, barrierOf2(c)), recipetest.WaitLater(t, barrierOf2(other))
		synctest.Wait()
		require.True(t, next.Waiting(), "the old member holds the round")
		w.Back()
		time.Sleep(time.Minute)
		recipetest.Indexes(t, again, next)
	})
}

// A join that was never sent made no member.
func TestB32WaitThatIsCancelledBeforeItIsSentIsNotUncertain(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		recipetest.Indexes(t, recipetest.WaitLater(t, barrierOf2(c)), recipetest.WaitLater(t, barrierOf2(c)))
		recipetest.MembersLeft()
		w.Away(c)
		b := barrierOf2(c)
		for range 50 {
			a := recipetest.WaitLater(t, b)
			synctest.Wait()
			// The cause of a context is not a server's answer, whichever error it is.
			a.Cancel(errors.Join(zk.ErrNoNode, zk.ErrBadVersion, zk.ErrSessionExpired))
			_, err := a.Wait()
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
			require.NotErrorIs(t, err, zkconn.ErrContended)
		}
		requests := w.Requests(func() { w.Back(); time.Sleep(time.Minute) })
		require.Zero(t, requests[recipetest.OpJoinRound])
	})
}

// A Wait that is cancelled while the members of the last round still leave has
// not joined yet.
func TestB32WaitCancelledBeforeTheLastRoundIsEmptyIsNotUncertain(t *testing.T) {
	for name, gone := range map[string]bool{"connected": false, "disconnected": true} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				w.Plan.Add(zktest.Fault{Do: zktest.Withhold, Op: recipetest.OpLeaveRound, Times: 2})
				recipetest.Indexes(t, recipetest.WaitLater(t, barrierOf2(w.Stranger(nil))), recipetest.WaitLater(t, barrierOf2(w.Stranger(nil))))
				recipetest.MembersLeft()
				c := w.Stranger(nil)
				waiting := recipetest.WaitLater(t, barrierOf2(c))
				synctest.Wait()
				require.True(t, waiting.Waiting())
				require.Len(t, w.Present(), 2)
				if gone {
					w.Away(c)
				}
				waiting.Cancel(nil)
				synctest.Wait()
				require.False(t, waiting.Waiting())
				_, err := waiting.Wait()
				require.ErrorIs(t, err, context.Canceled)
				require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
			})
		})
	}
}

// A thousand cancelled Waits leave no member behind, and at most one watch.
func TestB32CancelledMembersLeaveNoWatches(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		b := barrierOf2(c)
		for range 1000 {
			a := recipetest.WaitLater(t, b)
			synctest.Wait()
			a.Cancel(nil)
			_, err := a.Wait()
			require.ErrorIs(t, err, context.Canceled)
		}
		synctest.Wait()
		require.Empty(t, w.Present())
		require.LessOrEqual(t, recipetest.WatchesOf(c), 1, "on ready, while a round stands")
	})
}

func TestB35CloseEndsTheWaitsAtABarrier(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		var as []*harness.Call[int]
		for range 5 {
			as = append(as, recipetest.WaitLater(t, zkrecipes.NewBarrier(c, "/b", 6)))
		}
		synctest.Wait()
		other := recipetest.WaitLater(t, zkrecipes.NewBarrier(w.Stranger(nil), "/other", 2))
		require.NoError(t, c.Close())
		for _, a := range as {
			_, err := a.Wait()
			require.ErrorIs(t, err, zkrecipes.ErrClosed)
			require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
			require.NotErrorIs(t, err, context.Canceled)
		}
		require.Empty(t, w.Present())
		require.NoError(t, c.Close())
		_, err := zkrecipes.NewBarrier(c, "/b", 6).Wait(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		require.True(t, other.Waiting())
	})
}

// The request that opens the round overtakes the one by which Close withdraws the
// member.
func TestB35WaitReturnsItsIndexWhenTheRoundOpensDuringClose(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		a := recipetest.WaitLater(t, barrierOf2(c))
		synctest.Wait()
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpCancelWait, For: time.Second})
		closed := harness.GoErr(t, func(context.Context) error { return c.Close() })
		synctest.Wait()
		recipetest.Indexes(t, a, recipetest.WaitLater(t, barrierOf2(w.Stranger(nil))))
		_, err := closed.Wait()
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, w.Srv.Children("/b"))
	})
}

func TestB35WaitAtABarrierIsUncertainAfterCloseWhileDisconnected(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		a := recipetest.WaitLater(t, barrierOf2(c))
		synctest.Wait()
		w.Away(c)
		began := time.Now()
		require.ErrorContains(t, c.Close(), "left to time out")
		_, err := a.Wait()
		require.Less(t, time.Since(began), 2*time.Second)
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		w.Back()
		time.Sleep(time.Minute)
		require.Empty(t, w.Present())
	})
}
