package barrier_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The n-th member has seen that there are n. Before it opens the barrier, two of them
// leave and another arrives. The newcomer must not be counted together with the
// members that have left.
func TestB45MembersThatGoWhileAnotherOpensAreNotCounted(t *testing.T) {
	for op, path := range map[string]string{"getChildren2": "/d", recipetest.OpOpenAll: "/d/ready"} {
		t.Run(op, func(t *testing.T) {
			o := &recipetest.Observer{Dir: "/d", Created: true}
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				of := func() *harness.Call[*zkrecipes.Visit] {
					return recipetest.Enter(t, zkrecipes.NewDoubleBarrier(w.Stranger(nil), "/d", 3))
				}
				a, b := of(), of()
				synctest.Wait()
				w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: op, Path: path, For: time.Second})
				opens := of()
				synctest.Wait()
				a.Cancel(nil)
				b.Cancel(nil)
				synctest.Wait()
				newcomer := of()
				synctest.Wait()
				require.Len(t, w.Inside(), 2)
				time.Sleep(2 * time.Second)
				require.True(t, opens.Waiting())
				require.True(t, newcomer.Waiting())
				require.Empty(t, o.Openings())
				recipetest.LeaveAll(t, recipetest.Visits(t, opens, newcomer, of())...)
				require.Equal(t, []int{3}, o.Openings())
			}, o.Option())
		})
	}
}

func TestB45MemberThatDiesWhileItOpensADoubleBarrierLeavesTheDutyToTheNext(t *testing.T) {
	for op, path := range map[string]string{"getChildren2": "/d", recipetest.OpOpenAll: "/d/ready"} {
		t.Run(op, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				first := recipetest.Enter(t, recipetest.Couple(w.Stranger(nil)))
				synctest.Wait()
				w.Plan.Add(zktest.Fault{Do: zktest.Expire, Op: op, Path: path})
				_, err := recipetest.Couple(w.Stranger(nil)).Enter(t.Context())
				require.ErrorIs(t, err, zk.ErrSessionExpired)
				require.True(t, first.Waiting())
				recipetest.LeaveAll(t, recipetest.Visits(t, first, recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))))...)
			})
		})
	}
}

func TestB45DoubleBarrierWhoseOpeningReplyIsLostOpensOnce(t *testing.T) {
	for name, after := range map[string]bool{"applied": true, "not applied": false} {
		for _, do := range []zktest.Action{zktest.Drop, zktest.Answer} {
			for _, stale := range []bool{false, true} {
				t.Run(fmt.Sprint(name, do, stale), func(t *testing.T) {
					o := &recipetest.Observer{Dir: "/d", Created: true}
					recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
						op := recipetest.OpOpenAll
						recipetest.LeaveAll(t, recipetest.Visits(t, recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))), recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))))...)
						if stale {
							op = recipetest.OpReplace
							_, err := w.Bare().Create("/d/ready", nil, 0, zk.WorldACL(zk.PermAll))
							require.NoError(t, err)
						}
						o.Openings()
						a := recipetest.Enter(t, recipetest.Couple(w.Stranger(nil)))
						synctest.Wait()
						fault := zktest.Fault{Do: do, After: after, Op: op, Times: 2}
						if do == zktest.Answer {
							fault.Code = jute.ErrConnectionLoss
						}
						w.Plan.Add(fault)
						recipetest.LeaveAll(t, recipetest.Visits(t, a, recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))))...)
						require.Equal(t, []int{2}, o.Openings(), "once")
						require.Empty(t, w.Srv.Children("/d"))
					}, o.Option())
				})
			}
		}
	}
}

// A fault hits one request of two members. The barrier opens for two or for none, and
// all members that are inside can leave.
func TestB45WhateverHappensToARequestTheDoubleBarrierOpensForTwoAndLetsAllGo(t *testing.T) {
	seen := map[string]int{}
	recipetest.EachRequest(t, recipetest.Mishaps, func(t *testing.T, fault zktest.Fault) (met bool) {
		o := &recipetest.Observer{Dir: "/d", Created: true}
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			use := func(ctx context.Context, clients ...*zkrecipes.Client) (through, lost, stuck int) {
				var mu sync.Mutex
				var wg sync.WaitGroup
				for _, c := range clients {
					wg.Go(func() {
						var v *zkrecipes.Visit
						for {
							var err error
							if v, err = recipetest.Couple(c).Enter(ctx); err == nil {
								break
							}
							if ctx.Err() != nil {
								mu.Lock()
								stuck++
								mu.Unlock()
								return
							}
							if !errors.Is(err, zk.ErrSessionExpired) && !errors.Is(err, zkrecipes.ErrLost) {
								t.Error(err)
								return
							}
						}
						time.Sleep(time.Second)
						err := v.Leave(t.Context())
						mu.Lock()
						defer mu.Unlock()
						switch {
						case err == nil:
							through++
							if names := o.Remain(recipetest.VisitOf(v).OpenedAt); len(names) > 0 {
								t.Error("Leave has returned, and these members remain:", names)
							}
						case errors.Is(err, zkrecipes.ErrLost):
							lost++
						default:
							t.Error(err)
						}
					})
				}
				wg.Wait()
				return through, lost, stuck
			}
			clients := []*zkrecipes.Client{w.Stranger(nil), w.Stranger(nil)}
			w.Plan.Add(fault)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			through, lost, stuck := use(ctx, clients...)
			met = w.Met()
			seen[fmt.Sprintf("%d left, %d lost, %d stuck", through, lost, stuck)]++
			require.LessOrEqual(t, lost+stuck, 1)
			time.Sleep(time.Minute)
			require.Empty(t, w.Inside())
			least := 2
			if fault.Do == zktest.Expire {
				least = 1 // a member can die between the listing of two and the opening
			}
			for _, stood := range o.Openings() {
				require.GreaterOrEqual(t, stood, least)
			}
			if !met { // it would hit the next use
				return
			}
			through, _, _ = use(t.Context(), w.Stranger(nil), w.Stranger(nil))
			require.Equal(t, 2, through)
			for _, stood := range o.Openings() {
				require.GreaterOrEqual(t, stood, 2)
			}
			synctest.Wait()
			require.Empty(t, w.Srv.Children("/d"))
		}, o.Option())
		return met
	})
	t.Log(seen)
	require.NotZero(t, seen["2 left, 0 lost, 0 stuck"])
}

// A member cancels Enter while one of its requests is under way, and a partner waits.
// Either both have entered, or the member leaves no znode.
func TestB32EnterThatIsCancelledAtEveryStepHasEnteredOrIsGone(t *testing.T) {
	delays := []zktest.Fault{
		{Do: zktest.Delay, For: time.Second}, {Do: zktest.Delay, For: time.Second, After: true},
	}
	seen := map[string]int{}
	recipetest.EachRequest(t, delays, func(t *testing.T, fault zktest.Fault) (met bool) {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			partner := recipetest.Enter(t, recipetest.Couple(w.Stranger(nil)))
			c := w.Stranger(nil)
			synctest.Wait()
			w.Plan.Add(fault)
			a := recipetest.Enter(t, recipetest.Couple(c))
			synctest.Wait()
			reason := errors.New("enough")
			a.Cancel(reason)
			time.Sleep(5 * time.Second)
			v, err := a.Wait()
			met = w.Met()
			if err == nil {
				seen["entered"]++
				recipetest.LeaveAll(t, append(recipetest.Visits(t, partner), v)...)
				return
			}
			require.Nil(t, v)
			require.ErrorIs(t, err, reason)
			if partner.Waiting() {
				seen["gone"]++
				require.Len(t, w.Inside(), 1, "the partner")
				recipetest.LeaveAll(t, recipetest.Visits(t, partner, recipetest.Enter(t, recipetest.Couple(c)))...)
				return
			}
			seen["gone, but it has opened the barrier"]++
			recipetest.LeaveAll(t, recipetest.Visits(t, partner)...)
			require.Empty(t, w.Srv.Children("/d"))
		})
		return met || fault.Skip < 6
	})
	t.Log(seen)
	require.NotZero(t, seen["entered"])
	require.NotZero(t, seen["gone"])
}

// A Leave that is cancelled at any step has left the barrier. The next Leave of the
// same visit waits for the other members.
func TestB32LeaveThatIsCancelledAtEveryStepHasLeft(t *testing.T) {
	delays := []zktest.Fault{
		{Do: zktest.Delay, For: time.Second}, {Do: zktest.Delay, For: time.Second, After: true},
	}
	recipetest.EachRequest(t, delays, func(t *testing.T, fault zktest.Fault) (met bool) {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			vs := recipetest.Visits(t, recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))), recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))))
			slices.SortFunc(vs, func(a, b *zkrecipes.Visit) int {
				return strings.Compare(recipetest.HandleOf(recipetest.LeaseOf(a)).Grant.Place().Name, recipetest.HandleOf(recipetest.LeaseOf(b)).Grant.Place().Name)
			})
			if fault.After { // Leave keeps one member's znode until the others have left; test both
				slices.Reverse(vs)
			}
			synctest.Wait()
			w.Plan.Add(fault)
			leaves := harness.GoErr(t, vs[0].Leave)
			synctest.Wait()
			leaves.Cancel(errors.Join(zk.ErrNoNode, zk.ErrBadVersion))
			synctest.Wait()
			_, err := leaves.Wait()
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, vs[0].Err(), zkrecipes.ErrReleased)
			met = w.Met()
			time.Sleep(5 * time.Second)
			require.Equal(t, []string{recipetest.HandleOf(recipetest.LeaseOf(vs[1])).Grant.Place().Name}, w.Inside())
			leaves = harness.GoErr(t, vs[0].Leave)
			synctest.Wait()
			require.True(t, leaves.Waiting(), "the other is inside")
			require.NoError(t, vs[1].Leave(t.Context()))
			_, err = leaves.Wait()
			require.NoError(t, err)
			require.NoError(t, vs[0].Leave(t.Context()), "once more")
			require.Empty(t, w.Srv.Children("/d"))
		})
		return met || fault.Skip < 6
	})
}

func TestB32LeaveWithAContextThatHasEndedLeaves(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 20 {
			vs := recipetest.Visits(t, recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))), recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))))
			for _, v := range vs {
				require.ErrorIs(t, v.Leave(ctx), context.Canceled)
			}
			synctest.Wait()
			require.Empty(t, w.Srv.Children("/d"), "ready is deleted, too")
		}
	})
}

func TestB13LeavingTwiceAndAtOnceIsLeavingOnce(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		vs := recipetest.Visits(t, recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))), recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))))
		var leaves []*harness.Call[struct{}]
		for range 5 {
			leaves = append(leaves, harness.GoErr(t, vs[0].Leave))
		}
		impatient := harness.GoErr(t, vs[0].Leave)
		synctest.Wait()
		impatient.Cancel(nil)
		_, err := impatient.Wait()
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, vs[1].Leave(t.Context()))
		for _, l := range leaves {
			_, err := l.Wait()
			require.NoError(t, err)
		}
	})
}

// A client has abandoned a member whose znode still exists. That member must not be
// counted as the partner of the client's next member.
func TestB33AbandonedMemberIsNotCountedWithItsClientsNextOne(t *testing.T) {
	abandon := map[string]func(*testing.T, *recipetest.World, *zkrecipes.Client){
		"Enter was cancelled": func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) {
			a := recipetest.Enter(t, recipetest.Couple(c))
			synctest.Wait()
			a.Cancel(nil)
			_, err := a.Wait()
			require.ErrorIs(t, err, context.Canceled)
		},
		"Enter was cancelled before the reply to its join": func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) {
			w.Plan.Add(zktest.Fault{Do: zktest.Delay, After: true, Op: recipetest.OpEnter, For: time.Second})
			a := recipetest.Enter(t, recipetest.Couple(c))
			synctest.Wait()
			a.Cancel(nil)
			_, err := a.Wait()
			require.ErrorIs(t, err, context.Canceled)
		},
		"Leave was cancelled": func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) {
			other := w.Stranger(nil)
			vs := recipetest.Visits(t, recipetest.Enter(t, recipetest.Couple(c)), recipetest.Enter(t, recipetest.Couple(other)))
			require.NoError(t, other.Close())
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, vs[0].Leave(ctx), context.Canceled)
		},
	}
	for name, f := range abandon {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c := w.Stranger(nil)
				for _, op := range []string{recipetest.OpDepart, "multi(delete)"} {
					w.Plan.Add(zktest.Fault{Do: zktest.Answer, Op: op, Code: jute.ErrThrottled, Times: 5})
				}
				f(t, w, c)
				a := recipetest.Enter(t, recipetest.Couple(c))
				for range 50 {
					time.Sleep(100 * time.Millisecond)
					require.True(t, a.Waiting())
				}
				require.Len(t, w.Inside(), 1)
				recipetest.LeaveAll(t, recipetest.Visits(t, a, recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))))...)
				synctest.Wait()
				require.Zero(t, recipetest.Abandoned(c))
			})
		})
	}
}

// The client's clock has ended the visit, but the session survives.
func TestB33MemberOfALostVisitIsNotCountedWithItsClientsNextOne(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		link := harness.NewLink(w.Srv)
		c := w.Stranger(&zkrecipes.Options{Dialer: link.Dial, SessionTimeout: 10 * time.Second})
		other := w.Stranger(nil)
		vs := recipetest.Visits(t, recipetest.Enter(t, recipetest.Couple(c)), recipetest.Enter(t, recipetest.Couple(other)))
		synctest.Wait()
		link.Stop()
		time.Sleep(10*time.Second + 100*time.Millisecond)
		require.ErrorIs(t, vs[0].Err(), zkrecipes.ErrLost)
		require.ErrorIs(t, vs[0].Leave(t.Context()), zkrecipes.ErrLost)
		leaves := harness.GoErr(t, vs[1].Leave)
		synctest.Wait()
		a := recipetest.Enter(t, recipetest.Couple(c))
		synctest.Wait()
		link.Resume()
		time.Sleep(time.Minute)
		_, err := leaves.Wait()
		require.NoError(t, err)
		require.True(t, a.Waiting())
		require.Len(t, w.Inside(), 1)
		recipetest.LeaveAll(t, recipetest.Visits(t, a, recipetest.Enter(t, recipetest.Couple(other)))...)
	})
}

func TestB01JoinOfADoubleBarrierWhoseReplyIsLostIsFound(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a := recipetest.Enter(t, recipetest.Couple(w.Stranger(nil)))
		synctest.Wait()
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: recipetest.OpEnter}, zktest.Fault{Do: zktest.Drop, Op: "sync", Times: 2})
		b := recipetest.Couple(w.Stranger(nil))
		var vs []*zkrecipes.Visit
		requests := w.Requests(func() { vs = recipetest.Visits(t, a, recipetest.Enter(t, b)) })
		require.Equal(t, 2, requests[recipetest.OpEnter], "the join, and the opening")
		require.Len(t, w.Inside(), 2)
		recipetest.LeaveAll(t, vs...)
		require.Empty(t, w.Srv.Children("/d"))
	})
}

// The session ends together with the reply to the join. Enter must return an error,
// because other members may have entered together with this one.
func TestB10JoinOfADoubleBarrierWhoseReplyIsLostWithTheSessionIsAnError(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		recipetest.LeaveAll(t, recipetest.Visits(t, recipetest.Enter(t, zkrecipes.NewDoubleBarrier(c, "/d", 1)))...)
		for _, after := range []bool{false, true} {
			w.Plan.Add(zktest.Fault{Do: zktest.Expire, After: after, Op: recipetest.OpEnter})
			_, err := recipetest.Couple(c).Enter(harness.Within(t, time.Minute))
			require.ErrorIs(t, err, zk.ErrSessionExpired)
			require.Empty(t, w.Inside())
		}
	})
}

// The reply arrives after the session has ended. Enter must not succeed: the member's
// znode is gone, so no member would wait for it.
func TestB11EnterWhoseReplyComesAfterTheSessionsEndIsAnError(t *testing.T) {
	for _, last := range []bool{false, true} {
		t.Run(fmt.Sprint("last: ", last), func(t *testing.T) {
			var c *harness.Link
			var once sync.Once
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c = harness.NewLink(w.Srv)
				d := w.Stranger(&zkrecipes.Options{Dialer: c.Dial})
				var a, partner *harness.Call[*zkrecipes.Visit]
				if last {
					partner = recipetest.Enter(t, recipetest.Couple(w.Stranger(nil)))
					synctest.Wait()
					a = recipetest.Enter(t, recipetest.Couple(d))
				} else {
					a = recipetest.Enter(t, recipetest.Couple(d))
					synctest.Wait()
					partner = recipetest.Enter(t, recipetest.Couple(w.Stranger(nil)))
				}
				recipetest.Visits(t, partner)
				time.Sleep(11 * time.Second)
				require.Len(t, w.Inside(), 1, "expired")
				require.True(t, a.Waiting())
				c.Resume()
				v, err := a.Wait()
				require.Nil(t, v)
				require.ErrorIs(t, err, zk.ErrSessionExpired)
			}, zktest.OnChange(func(ch zktest.Change) {
				if ch.Created && ch.Path == "/d/ready" {
					once.Do(func() { c.Stop() })
				}
			}))
		})
	}
}

func TestB09ExpiryInsideEndsTheVisit(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	path := r.Path + "-d"
	vs := recipetest.Visits(t, recipetest.Enter(t, zkrecipes.NewDoubleBarrier(r.C, path, 2)), recipetest.Enter(t, zkrecipes.NewDoubleBarrier(recipetest.Dial(t, nil), path, 2)))
	work := vs[0].Context(r.Ctx)
	r.P.Expire()
	require.ErrorIs(t, harness.Cause(t, work), zkrecipes.ErrLost)
	require.ErrorIs(t, vs[0].Err(), zkrecipes.ErrLost)
	require.ErrorIs(t, vs[0].Leave(r.Ctx), zkrecipes.ErrLost)
	require.ErrorIs(t, vs[0].Leave(r.Ctx), zkrecipes.ErrLost)
	require.NoError(t, vs[1].Leave(r.Ctx), "it does not wait for the expired member")
	require.ErrorIs(t, vs[1].Err(), zkrecipes.ErrReleased)
	require.ErrorIs(t, harness.Cause(t, vs[1].Context(r.Ctx)), zkrecipes.ErrReleased)
}

// A client that is cut off from the servers ends its visit before the servers can
// expire its session.
func TestB16VisitOfAClientThatIsCutOffEndsInTime(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		link := harness.NewLink(w.Srv)
		c := w.Stranger(&zkrecipes.Options{Dialer: link.Dial})
		vs := recipetest.Visits(t, recipetest.Enter(t, recipetest.Couple(c)), recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))))
		began := time.Now()
		link.Lose()
		work := vs[0].Context(t.Context())
		<-work.Done()
		require.ErrorIs(t, context.Cause(work), zkrecipes.ErrLost)
		require.LessOrEqual(t, time.Since(began), 10*time.Second)
		require.Len(t, w.Inside(), 2)
		link.Resume()
	})
}

// The session of a member ends while Leave waits for the others. That member has left.
// The server of its next session lags and does not show the others, so Leave has to
// sync first.
func TestB10LeaveContinuesInTheNextSessionAfterASync(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		d := w.Stranger(nil)
		c := w.Stranger(nil)
		vs := recipetest.Visits(t, recipetest.Enter(t, recipetest.Couple(c)), recipetest.Enter(t, recipetest.Couple(d)))
		leaves := harness.GoErr(t, vs[0].Leave)
		synctest.Wait()
		require.True(t, w.Srv.Expire(recipetest.SessionID(c)))
		time.Sleep(20 * time.Second)
		require.True(t, leaves.Waiting())
		require.NoError(t, vs[1].Leave(t.Context()))
		_, err := leaves.Wait()
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, w.Srv.Children("/d"))
	}, recipetest.Behind(1, 6))
}

func TestRealB18DoubleBarrierSurvivesServerRestarts(t *testing.T) {
	node := harness.OwnNode(t, zkserver.Config{})
	servers := []string{node.Addr()}
	path := harness.NewPath(t)
	restart := func() {
		require.NoError(t, node.Kill(t.Context()))
		require.NoError(t, node.Restart(t.Context()))
	}
	c, d := recipetest.DialTo(t, servers, nil), recipetest.DialTo(t, servers, nil)
	a := recipetest.Enter(t, zkrecipes.NewDoubleBarrier(c, path, 2))
	watching(t, c, 1)
	restart()
	require.True(t, a.Waiting())
	vs := recipetest.Visits(t, a, recipetest.Enter(t, zkrecipes.NewDoubleBarrier(d, path, 2)))
	leaves := harness.GoErr(t, vs[0].Leave)
	harness.Eventually(t, "leaving", func() bool { return vs[0].Err() != nil })
	restart()
	require.NoError(t, vs[1].Err())
	require.True(t, leaves.Waiting())
	require.NoError(t, vs[1].Leave(harness.Within(t, 20*time.Second)))
	_, err := leaves.Wait()
	require.NoError(t, err)
	require.Empty(t, harness.Children(t, harness.RawTo(t, servers), path))
}

func TestB21DoubleBarrierOpensAndEmptiesWhileAMemberIsDisconnected(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	path := r.Path + "-d"
	a := recipetest.Enter(t, zkrecipes.NewDoubleBarrier(r.C, path, 2))
	watching(t, r.C, 1)
	r.P.Refuse(true)
	other := recipetest.Visits(t, recipetest.Enter(t, zkrecipes.NewDoubleBarrier(recipetest.Dial(t, nil), path, 2)))[0]
	require.True(t, a.Waiting())
	r.P.Refuse(false)
	v := recipetest.Visits(t, a)[0]
	leaves := harness.GoErr(t, v.Leave)
	watching(t, r.C, 1) // on the other member
	r.P.Refuse(true)
	others := harness.GoErr(t, other.Leave)
	harness.Eventually(t, "leaving", func() bool { return other.Err() != nil })
	r.P.Refuse(false)
	for _, l := range []*harness.Call[struct{}]{leaves, others} {
		_, err := l.Wait()
		require.NoError(t, err)
	}
	require.Empty(t, harness.Children(t, r.Raw, path))
}

// One client waits at many gates, barriers and double barriers. All of them open while
// it is disconnected. Every watch is armed again, also those on znodes that do not
// exist.
func TestB31WaitersNoticeBarriersThatOpenedWhileTheyWereDisconnected(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		const each = 300
		c, other := w.Stranger(nil), w.Stranger(nil)
		var waits []*harness.Call[struct{}]
		var opens []func(context.Context) error
		for i := range each {
			gate, barrier, double := fmt.Sprint("/gates/", i), fmt.Sprint("/barriers/", i), fmt.Sprint("/doubles/", i)
			require.NoError(t, zkrecipes.NewGate(other, gate).Shut(t.Context()))
			waits = append(waits,
				harness.GoErr(t, zkrecipes.NewGate(c, gate).Wait),
				harness.GoErr(t, func(ctx context.Context) error { _, err := zkrecipes.NewBarrier(c, barrier, 2).Wait(ctx); return err }),
				harness.GoErr(t, func(ctx context.Context) error {
					_, err := zkrecipes.NewDoubleBarrier(c, double, 2).Enter(ctx)
					return err
				}))
			opens = append(opens,
				zkrecipes.NewGate(other, gate).Open,
				func(ctx context.Context) error {
					_, err := zkrecipes.NewBarrier(other, barrier, 2).Wait(ctx)
					return err
				},
				func(ctx context.Context) error {
					_, err := zkrecipes.NewDoubleBarrier(other, double, 2).Enter(ctx)
					return err
				})
		}
		synctest.Wait()
		require.Equal(t, 3*each, recipetest.WatchesOf(c))
		w.Away(c)
		for _, open := range opens {
			require.NoError(t, open(t.Context()))
		}
		synctest.Wait()
		for _, a := range waits {
			require.True(t, a.Waiting())
		}
		w.Back()
		for _, a := range waits {
			_, err := a.Wait()
			require.NoError(t, err)
		}
	})
}

func TestB35CloseEndsVisitsAndWaitingMembers(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		vs := recipetest.Visits(t, recipetest.Enter(t, recipetest.Couple(c)), recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))))
		leaves := harness.GoErr(t, recipetest.Visits(t, recipetest.Enter(t, recipetest.Couple(c)))[0].Leave)
		waits := recipetest.Enter(t, zkrecipes.NewDoubleBarrier(c, "/other", 2))
		work := vs[0].Context(t.Context())
		synctest.Wait()
		require.True(t, leaves.Waiting())
		require.NoError(t, c.Close())
		require.NoError(t, c.Close())
		require.ErrorIs(t, context.Cause(work), zkrecipes.ErrClosed)
		require.ErrorIs(t, vs[0].Err(), zkrecipes.ErrClosed)
		require.ErrorIs(t, vs[0].Leave(t.Context()), zkrecipes.ErrClosed)
		_, err := leaves.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		_, err = waits.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		_, err = recipetest.Couple(c).Enter(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		require.Len(t, w.Inside(), 1)
		require.Empty(t, w.Srv.Children("/other"))
		require.NoError(t, vs[1].Leave(t.Context()))
		require.Empty(t, w.Srv.Children("/d"))
	})
}

func TestB35CloseWhileDisconnectedEndsVisitsAndWaitingMembers(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		vs := recipetest.Visits(t, recipetest.Enter(t, recipetest.Couple(c)), recipetest.Enter(t, recipetest.Couple(w.Stranger(nil))))
		waits := recipetest.Enter(t, zkrecipes.NewDoubleBarrier(c, "/other", 2))
		synctest.Wait()
		w.Away(c)
		began := time.Now()
		require.ErrorContains(t, c.Close(), "left to time out")
		_, err := waits.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		require.ErrorIs(t, vs[0].Err(), zkrecipes.ErrClosed)
		require.Less(t, time.Since(began), 2*time.Second)
		require.NoError(t, vs[1].Leave(harness.Within(t, time.Minute)), "it returns once the other session has timed out")
	})
}
