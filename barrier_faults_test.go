package zkrecipes

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

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// One of the requests of three members of a round fails in some way. The round
// opens for all of them or for none. A member that cannot find out returns
// ErrUncertain.
func TestB45WhateverHappensToARequestTheRoundOpensForAllOrForNone(t *testing.T) {
	seen := map[string]int{}
	try := func(t *testing.T, fault zktest.Fault) (met bool) {
		o := &observer{dir: roundOf2}
		inBubble(t, func(t *testing.T, w *world) {
			const n = 3
			var clients []*Client
			for range n {
				clients = append(clients, w.stranger(nil))
			}
			w.plan.Add(fault)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			var mu sync.Mutex
			indexes := map[int]bool{}
			uncertain, stuck := 0, 0
			var wg sync.WaitGroup
			for _, c := range clients {
				wg.Go(func() {
					for {
						index, err := NewBarrier(c, "/b", n).Wait(ctx)
						if errors.Is(err, zk.ErrSessionExpired) && !errors.Is(err, ErrUncertain) {
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
						case errors.Is(err, ErrUncertain):
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
			membersLeft() // a fault may hit their leaves, too
			met = w.met()
			for _, stood := range o.openings() {
				require.GreaterOrEqual(t, stood, n)
			}
			if uncertain == 0 || len(indexes) > 0 {
				require.Zero(t, stuck)
			}
			require.LessOrEqual(t, uncertain, 1)
			seen[fmt.Sprintf("%d through, %d uncertain", len(indexes), uncertain)]++
			time.Sleep(time.Minute)
			require.Empty(t, w.present())
			if !met { // it would hit the next round
				return
			}

			wg = sync.WaitGroup{}
			for range n {
				c := w.stranger(nil)
				wg.Go(func() {
					if _, err := NewBarrier(c, "/b", n).Wait(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}, o.option())
		return met
	}
	// Which request meets the opening depends on the order of events.
	for tries := 0; tries < 20 && seen["2 through, 1 uncertain"] == 0; tries++ {
		eachRequest(t, mishaps, try)
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
			eachRequest(t, delays, func(t *testing.T, fault zktest.Fault) (met bool) {
				o := &observer{dir: roundOf2}
				inBubble(t, func(t *testing.T, w *world) {
					b, other := barrierOf2(w.stranger(nil)), barrierOf2(w.stranger(nil))
					var a, partner *harness.Call[int]
					if !first {
						partner = waitLater(t, other)
						synctest.Wait()
					}
					w.plan.Add(fault)
					a = waitLater(t, b)
					if first {
						time.Sleep(500 * time.Millisecond)
						partner = waitLater(t, other)
					}
					synctest.Wait()
					reason := errors.New("enough")
					a.Cancel(reason)
					time.Sleep(5 * time.Second)
					_, err := a.Wait()
					met = w.met()
					if err == nil {
						seen["named"]++
						_, err := partner.Wait()
						require.NoError(t, err)
						return
					}
					seen["not named"]++
					require.ErrorIs(t, err, reason)
					require.NotErrorIs(t, err, ErrUncertain, "the client was connected")
					require.True(t, partner.Waiting())
					require.Len(t, w.present(), 1, "the partner")
					indexes(t, partner, waitLater(t, b))
					for _, stood := range o.openings() {
						require.Equal(t, 2, stood)
					}
				}, o.option())
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
		inBubble(t, func(t *testing.T, w *world) {
			a := waitLater(t, barrierOf2(w.stranger(nil)))
			synctest.Wait()
			w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opCancelWait, For: time.Second})
			a.Cancel(nil)
			synctest.Wait()
			require.True(t, a.Waiting())
			indexes(t, a, waitLater(t, barrierOf2(w.stranger(nil))))
			synctest.Wait()
			require.Empty(t, w.srv.Children("/b"))
		})
	})
	t.Run("the cancel is applied first", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			a := waitLater(t, barrierOf2(w.stranger(nil)))
			synctest.Wait()
			w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opOpenRound, For: time.Second})
			partner := waitLater(t, barrierOf2(w.stranger(nil)))
			synctest.Wait()
			a.Cancel(nil)
			_, err := a.Wait()
			require.ErrorIs(t, err, context.Canceled)
			time.Sleep(2 * time.Second)
			require.True(t, partner.Waiting(), "the opening was refused")
			indexes(t, partner, waitLater(t, barrierOf2(w.stranger(nil))))
		})
	})
	t.Run("the reply to the cancel is lost", func(t *testing.T) {
		for name, opened := range map[string]bool{"opened": true, "not opened": false} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					c := w.stranger(nil)
					a := waitLater(t, barrierOf2(c))
					synctest.Wait()
					w.plan.Add(zktest.Fault{Do: zktest.Answer, After: true, Op: opCancelWait, Code: jute.ErrOperationTimeout, Times: 2})
					if opened {
						w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opCancelWait, For: time.Second})
					}
					a.Cancel(nil)
					synctest.Wait()
					if opened {
						indexes(t, a, waitLater(t, barrierOf2(w.stranger(nil))))
						return
					}
					_, err := a.Wait()
					require.ErrorIs(t, err, context.Canceled)
					require.NotErrorIs(t, err, ErrUncertain)
					require.NotErrorIs(t, err, ErrEvicted)
					require.Empty(t, w.present())
				})
			})
		}
	})
}

func TestB01JoinOfABarrierWhoseReplyIsLostIsFound(t *testing.T) {
	for name, first := range map[string]bool{"first": true, "last, which opens the round": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				b, other := barrierOf2(w.stranger(nil)), barrierOf2(w.stranger(nil))
				var partner *harness.Call[int]
				if !first {
					partner = waitLater(t, other)
					synctest.Wait()
				}
				// The search for the join fails at first, too.
				joins := 1
				if first {
					joins = 2 // the first attempt finds no round
				}
				w.plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: opJoinRound, Skip: joins - 1},
					zktest.Fault{Do: zktest.Drop, Op: "sync", Times: 2})
				var a *harness.Call[int]
				requests := w.requests(func() { a = waitLater(t, b); time.Sleep(time.Second) })
				require.Equal(t, joins, requests[opJoinRound], "the join is found, not repeated")
				if first {
					require.Len(t, w.present(), 1)
					partner = waitLater(t, other)
				}
				indexes(t, a, partner)
				membersLeft()
				require.Empty(t, w.srv.Children("/b"))
			})
		})
	}
}

// The client reconnects to a server that has not applied the join yet.
func TestB03SearchForALostJoinOfABarrierSyncsFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := waitLater(t, barrierOf2(w.stranger(nil)))
		synctest.Wait()
		b := barrierOf2(w.stranger(nil))
		w.plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: opJoinRound})
		requests := w.requests(func() { indexes(t, a, waitLater(t, b)) })
		require.Equal(t, 1, requests[opJoinRound])
	}, behind(2, 1))
}

func TestB45OpeningWhoseReplyIsLostHappensOnce(t *testing.T) {
	for name, after := range map[string]bool{"applied": true, "not applied": false} {
		for _, do := range []zktest.Action{zktest.Drop, zktest.Answer} {
			t.Run(name+" "+string(do), func(t *testing.T) {
				o := &observer{dir: roundOf2}
				inBubble(t, func(t *testing.T, w *world) {
					a := waitLater(t, barrierOf2(w.stranger(nil)))
					synctest.Wait()
					fault := zktest.Fault{Do: do, After: after, Op: opOpenRound, Times: 2}
					if do == zktest.Answer {
						fault.Code = jute.ErrConnectionLoss
					}
					w.plan.Add(fault)
					indexes(t, a, waitLater(t, barrierOf2(w.stranger(nil))))
					require.Equal(t, []int{2}, o.openings(), "opened once")
				}, o.option())
			})
		}
	}
}

func TestB07LeaveOfABarrierWhoseReplyIsLostRemovesTheMember(t *testing.T) {
	for name, after := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: opLeaveRound, Times: 2})
				a, b := barrierOf2(w.stranger(nil)), barrierOf2(w.stranger(nil))
				for range 2 {
					indexes(t, waitLater(t, a), waitLater(t, b))
				}
				membersLeft()
				require.Empty(t, w.present())
			})
		})
	}
}

// A Wait that begins while the client is disconnected joins in the next session
// if the current one expires. No member is left of the expired one.
func TestB05JoinOfABarrierWhileDisconnectedRunsInTheNextSessionOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		indexes(t, waitLater(t, barrierOf2(c)), waitLater(t, barrierOf2(c))) // the barrier's size is known
		membersLeft()
		w.away(c)
		a := waitLater(t, barrierOf2(c))
		synctest.Wait()
		id := sessionID(c)
		w.srv.Expire(id)
		w.back()
		time.Sleep(time.Minute)
		require.NotEqual(t, id, sessionID(c))
		require.Len(t, w.present(), 1)
		require.True(t, a.Waiting())
		indexes(t, a, waitLater(t, barrierOf2(w.stranger(nil))))
	})
}

// The round opens while the client's link is stalled, and the client reads of it
// after its session has expired. The round was opened with this member, so Wait
// returns its index.
func TestB11MemberOfAnOpenedRoundGetsItsIndexAfterItsSessionExpired(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		still := harness.NewLink(w.srv)
		c := w.stranger(&Options{Dialer: still.Dial})
		a := waitLater(t, barrierOf2(c))
		synctest.Wait()
		still.Stop()
		partner := waitLater(t, barrierOf2(w.stranger(nil)))
		index := indexOf(t, partner)
		membersLeft()
		require.Len(t, w.present(), 1)
		time.Sleep(11 * time.Second)
		require.Empty(t, w.present(), "expired")
		require.True(t, a.Waiting())
		still.Resume()
		require.Equal(t, 1-index, indexOf(t, a))
	})
}

// The session expires before the round opens. When the client reads again, another
// round with the same sequence numbers stands. That round's ready says nothing about
// this member.
func TestB11MemberOfAnExpiredSessionIgnoresTheReadyOfAnotherRound(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		still := harness.NewLink(w.srv)
		c := w.stranger(&Options{Dialer: still.Dial})
		a := waitLater(t, barrierOf2(c))
		synctest.Wait()
		number := w.present()[0].Number
		still.Lose()
		time.Sleep(11 * time.Second)
		require.Empty(t, w.present())
		wipe(t, w.bare(), roundOf2)
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opLeaveRound, For: time.Hour, Times: -1})
		one := waitLater(t, barrierOf2(w.stranger(nil)))
		synctest.Wait()
		require.Equal(t, number, w.present()[0].Number, "the same number")
		indexes(t, one, waitLater(t, barrierOf2(w.stranger(nil))))
		still.Resume()
		_, err := a.Wait()
		require.ErrorIs(t, err, zk.ErrSessionExpired)
		require.ErrorIs(t, err, ErrUncertain, "its own round is gone")
		w.back()
	})
}

func TestRealB18BarrierWaitsThroughAServerRestart(t *testing.T) {
	node := harness.OwnNode(t, zkserver.Config{})
	servers := []string{node.Addr()}
	path := harness.NewPath(t)
	var waiting []*harness.Call[int]
	for range 2 {
		c := dialTo(t, servers, nil)
		waiting = append(waiting, waitLater(t, NewBarrier(c, path, 3)))
		sleeps(t, c, 1)
	}
	require.NoError(t, node.Kill(t.Context()))
	require.NoError(t, node.Restart(t.Context()))
	last := waitLater(t, NewBarrier(dialTo(t, servers, nil), path, 3))
	indexes(t, append(waiting, last)...)
}

func TestB21RoundOpenedWhileDisconnectedReleasesTheWaiterAfterTheReconnect(t *testing.T) {
	r := newRig(t, nil)
	path := r.path + "-b"
	a := waitLater(t, NewBarrier(r.c, path, 2))
	sleeps(t, r.c, 1)
	r.p.Refuse(true)
	partner := waitLater(t, NewBarrier(dial(t, nil), path, 2))
	index := indexOf(t, partner)
	require.True(t, a.Waiting())
	r.p.Refuse(false)
	require.Equal(t, 1-index, indexOf(t, a))
}

// unresolvedPaths returns the number of paths at which a client still resolves
// requests whose callers have left.
func unresolvedPaths(c *Client) int {
	c.client.Mu.Lock()
	defer c.client.Mu.Unlock()
	return len(c.client.Abandoned)
}

// A Wait that is cancelled while disconnected returns at once. The client's next
// Wait joins only once the old member is gone, so that a client never completes a
// round with its own cancelled member.
func TestB33NextWaitOfAClientStartsOnceTheCancelledOneIsResolved(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		b := barrierOf2(c)
		a := waitLater(t, b)
		synctest.Wait()
		w.away(c)
		a.Cancel(errors.New("enough"))
		synctest.Wait()
		require.False(t, a.Waiting())
		_, err := a.Wait()
		require.ErrorIs(t, err, ErrUncertain)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "enough")
		require.Len(t, w.present(), 1)
		again := waitLater(t, NewBarrier(c, "/b", 2))
		late := waitLater(t, b)
		synctest.Wait()
		late.Cancel(nil)
		_, err = late.Wait()
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, ErrUncertain, "it has not joined")
		w.back()
		w.plan.Add(zktest.Fault{Do: zktest.Answer, Op: opCancelWait, Code: jute.ErrThrottled, Times: 5})
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			require.LessOrEqual(t, len(w.present()), 1)
			require.True(t, again.Waiting())
		}
		require.Len(t, w.present(), 1)
		indexes(t, again, waitLater(t, barrierOf2(w.stranger(nil))))
		synctest.Wait()
		require.Zero(t, unresolvedPaths(c))
	})
}

// The round opens with a member that was cancelled while its client was
// disconnected.
func TestB33WaitCancelledWhileDisconnectedMayStillBeInTheRound(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c, other := w.stranger(nil), w.stranger(nil)
		a := waitLater(t, barrierOf2(c))
		synctest.Wait()
		w.away(c)
		a.Cancel(nil)
		_, err := a.Wait()
		require.ErrorIs(t, err, ErrUncertain)
		require.Zero(t, 1-indexOf(t, waitLater(t, barrierOf2(other))), "with the cancelled member")
		membersLeft()
		again, next := waitLater(t, barrierOf2(c)), waitLater(t, barrierOf2(other))
		synctest.Wait()
		require.True(t, next.Waiting(), "the old member holds the round")
		w.back()
		time.Sleep(time.Minute)
		indexes(t, again, next)
	})
}

// A join that was never sent made no member.
func TestB32WaitThatIsCancelledBeforeItIsSentIsNotUncertain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		indexes(t, waitLater(t, barrierOf2(c)), waitLater(t, barrierOf2(c)))
		membersLeft()
		w.away(c)
		b := barrierOf2(c)
		for range 50 {
			a := waitLater(t, b)
			synctest.Wait()
			// The cause of a context is not a server's answer, whichever error it is.
			a.Cancel(errors.Join(zk.ErrNoNode, zk.ErrBadVersion, zk.ErrSessionExpired))
			_, err := a.Wait()
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, ErrUncertain)
			require.NotErrorIs(t, err, zkconn.ErrContended)
		}
		requests := w.requests(func() { w.back(); time.Sleep(time.Minute) })
		require.Zero(t, requests[opJoinRound])
	})
}

// A Wait that is cancelled while the members of the last round still leave has
// not joined yet.
func TestB32WaitCancelledBeforeTheLastRoundIsEmptyIsNotUncertain(t *testing.T) {
	for name, gone := range map[string]bool{"connected": false, "disconnected": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.plan.Add(zktest.Fault{Do: zktest.Withhold, Op: opLeaveRound, Times: 2})
				indexes(t, waitLater(t, barrierOf2(w.stranger(nil))), waitLater(t, barrierOf2(w.stranger(nil))))
				membersLeft()
				c := w.stranger(nil)
				waiting := waitLater(t, barrierOf2(c))
				synctest.Wait()
				require.True(t, waiting.Waiting())
				require.Len(t, w.present(), 2)
				if gone {
					w.away(c)
				}
				waiting.Cancel(nil)
				synctest.Wait()
				require.False(t, waiting.Waiting())
				_, err := waiting.Wait()
				require.ErrorIs(t, err, context.Canceled)
				require.NotErrorIs(t, err, ErrUncertain)
			})
		})
	}
}

// A thousand cancelled Waits leave no member behind, and at most one watch.
func TestB32CancelledMembersLeaveNoWatches(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		b := barrierOf2(c)
		for range 1000 {
			a := waitLater(t, b)
			synctest.Wait()
			a.Cancel(nil)
			_, err := a.Wait()
			require.ErrorIs(t, err, context.Canceled)
		}
		synctest.Wait()
		require.Empty(t, w.present())
		require.LessOrEqual(t, watchesOf(c), 1, "on ready, while a round stands")
	})
}

func TestB35CloseEndsTheWaitsAtABarrier(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		var as []*harness.Call[int]
		for range 5 {
			as = append(as, waitLater(t, NewBarrier(c, "/b", 6)))
		}
		synctest.Wait()
		other := waitLater(t, NewBarrier(w.stranger(nil), "/other", 2))
		require.NoError(t, c.Close())
		for _, a := range as {
			_, err := a.Wait()
			require.ErrorIs(t, err, ErrClosed)
			require.NotErrorIs(t, err, ErrUncertain)
			require.NotErrorIs(t, err, context.Canceled)
		}
		require.Empty(t, w.present())
		require.NoError(t, c.Close())
		_, err := NewBarrier(c, "/b", 6).Wait(t.Context())
		require.ErrorIs(t, err, ErrClosed)
		require.True(t, other.Waiting())
	})
}

// The request that opens the round overtakes the one by which Close withdraws the
// member.
func TestB35WaitReturnsItsIndexWhenTheRoundOpensDuringClose(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		a := waitLater(t, barrierOf2(c))
		synctest.Wait()
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opCancelWait, For: time.Second})
		closed := harness.GoErr(t, func(context.Context) error { return c.Close() })
		synctest.Wait()
		indexes(t, a, waitLater(t, barrierOf2(w.stranger(nil))))
		_, err := closed.Wait()
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, w.srv.Children("/b"))
	})
}

func TestB35WaitAtABarrierIsUncertainAfterCloseWhileDisconnected(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		a := waitLater(t, barrierOf2(c))
		synctest.Wait()
		w.away(c)
		began := time.Now()
		require.ErrorContains(t, c.Close(), "left to time out")
		_, err := a.Wait()
		require.Less(t, time.Since(began), 2*time.Second)
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, err, ErrUncertain)
		w.back()
		time.Sleep(time.Minute)
		require.Empty(t, w.present())
	})
}
