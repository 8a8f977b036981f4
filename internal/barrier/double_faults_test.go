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
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Faults and operators that hit the members of a DoubleBarrier.

// The n-th member has seen that there are n. Before it opens the barrier, two of them go,
// since they are cancelled or their sessions end, and another arrives. The newcomer must not be
// counted together with the members that have gone.
func TestMembersThatGoWhileAnotherOpensAreNotCounted(t *testing.T) {
	for name, late := range doubleKind.opening(zktest.Delay) {
		for _, die := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", they die: ", die), func(t *testing.T) {
				o := doubleKind.observer()
				inBubble(t, func(t *testing.T, w *world) {
					c, d := w.Stranger(nil), w.Stranger(nil)
					gone := []entering{w.entersIn(c, 3), w.entersIn(d, 3)}
					late.For = time.Second
					w.Plan.Add(late)
					opens := w.enters(3)
					require.Len(t, w.Inside(), 3)
					if die {
						w.expire(c)
						w.expire(d)
					} else {
						recipetest.Cancels(t, gone[0])
						recipetest.Cancels(t, gone[1])
					}
					synctest.Wait()
					newcomer := w.enters(3)
					require.Len(t, w.Inside(), 2)
					time.Sleep(2 * time.Second)
					require.True(t, opens.Waiting())
					require.True(t, newcomer.Waiting())
					require.Empty(t, o.Openings())
					w.leave(opens, newcomer, w.enters(3))
					require.Equal(t, []int{3}, o.Openings())
				}, o.Option())
			})
		}
	}
}

// A Leave that is cancelled at any step has left the barrier when it returns. The next
// Leave of the same visit waits for the other members.
func TestLeaveThatIsCancelledAtEveryStepHasLeft(t *testing.T) {
	delays := []zktest.Fault{{Do: zktest.Delay, For: time.Second}, {Do: zktest.Delay, For: time.Second, After: true}}
	recipetest.EachRequest(t, delays, func(t *testing.T, fault zktest.Fault) (met bool) {
		inBubble(t, func(t *testing.T, w *world) {
			vs := w.visits(2)
			w.sortByName(vs)
			if fault.After { // Leave keeps one member's znode until the others have left; test both
				slices.Reverse(vs)
			}
			w.Plan.Add(fault)
			leaves := w.leaves(vs[0])
			leaves.Cancel(errors.Join(zk.ErrNoNode, zk.ErrBadVersion))
			synctest.Wait()
			require.False(t, leaves.Waiting())
			time.Sleep(3 * time.Second)
			require.Equal(t, []string{strings.TrimPrefix(w.znodeOf(vs[1]), "/d/")}, w.Inside())
			recipetest.Fails(t, leaves, context.Canceled)
			require.ErrorIs(t, vs[0].Err(), zkrecipes.ErrReleased)
			met = w.Met()
			time.Sleep(5 * time.Second)
			leaves = w.leaves(vs[0])
			require.True(t, leaves.Waiting(), "the other is inside")
			w.allLeave(vs[1])
			leaves.Get()
			require.NoError(t, vs[0].Leave(t.Context()), "once more")
		})
		return met || fault.Skip < 6
	})
}

// The last member has left in the background: as the connection breaks, it does not know that it was
// the last, or has not deleted ready yet.
func TestTheLastMemberDeletesReadyAlthoughItsConnectionBreaks(t *testing.T) {
	each(t, map[string]zktest.Fault{
		"as it leaves":         {Do: zktest.Drop, After: true, Op: recipetest.OpDepart},
		"as it deletes ready":  {Do: zktest.Drop, Op: "multi(check,delete)"},
		"as ready was deleted": {Do: zktest.Drop, After: true, Op: "multi(check,delete)"},
	}, func(t *testing.T, w *world, fault zktest.Fault) {
		v := w.visits(1)[0]
		w.Plan.Add(fault)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, v.Leave(ctx), context.Canceled)
		time.Sleep(5 * time.Second)
		require.True(t, w.Met())
		require.Empty(t, w.Srv.Children("/d"))
	})
}

func TestLeavingTwiceAndAtOnceIsLeavingOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		vs := w.visits(2)
		var leaves []*harness.Call[struct{}]
		for range 5 {
			leaves = append(leaves, harness.GoErr(t, vs[0].Leave))
		}
		recipetest.Cancels(t, w.leaves(vs[0]))
		w.allLeave(vs[1])
		for _, l := range leaves {
			l.Get()
		}
	})
}

// For now the server rejects the deletion of a member's znode: a first Leave times out.
func TestASecondLeaveReturnsWhenTheMemberIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		vs := w.visits(2)
		for _, op := range []string{"multi", "delete"} {
			w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: jute.ErrOperationTimeout, Op: op, Path: w.znodeOf(vs[0]), Times: -1})
		}
		require.ErrorIs(t, vs[0].Leave(harness.Within(t, time.Second)), context.DeadlineExceeded)
		w.dies(vs[1])
		again := w.leaves(vs[0])
		time.Sleep(3 * time.Second)
		require.True(t, again.Waiting(), "the znode still exists and would be counted")
		w.Plan.Stop()
		again.Get()
		require.Empty(t, w.Srv.Children("/d"))
	}, zktest.TickTime(time.Second))
}

// A client has abandoned a member whose znode still exists. That member must not be
// counted as the partner of the client's next member.
func TestAbandonedMemberIsNotCountedWithItsClientsNextOne(t *testing.T) {
	each(t, map[string]func(*testing.T, *world, *zkrecipes.Client){
		"Enter was cancelled": func(t *testing.T, w *world, c *zkrecipes.Client) {
			recipetest.Cancels(t, w.entersIn(c, 2))
		},
		"Enter was cancelled before the reply to its join": func(t *testing.T, w *world, c *zkrecipes.Client) {
			w.Plan.Add(zktest.Fault{Do: zktest.Delay, After: true, Op: recipetest.OpEnter, For: time.Second})
			recipetest.Cancels(t, w.entersIn(c, 2))
		},
		"Leave was cancelled": func(t *testing.T, w *world, c *zkrecipes.Client) {
			other := w.Stranger(nil)
			vs := recipetest.Visits(t, w.entersIn(c, 2), w.entersIn(other, 2))
			require.NoError(t, other.Close())
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, vs[0].Leave(ctx), context.Canceled)
		},
	}, func(t *testing.T, w *world, abandon func(*testing.T, *world, *zkrecipes.Client)) {
		c := w.Stranger(nil)
		for _, op := range []string{recipetest.OpDepart, "delete"} {
			w.Plan.Add(zktest.Fault{Do: zktest.Answer, Op: op, Code: jute.ErrThrottled, Times: 5})
		}
		abandon(t, w, c)
		a := recipetest.Enter(t, recipetest.Couple(c))
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			require.True(t, a.Waiting())
		}
		require.Len(t, w.Inside(), 1)
		w.leave(a, w.enters(2))
		w.leave(w.entersIn(c, 2), w.enters(2)) // nothing is waited for any more
	})
}

// The client's clock has ended the visit, before the servers could have expired its session,
// but the session survives.
func TestMemberOfALostVisitIsNotCountedWithItsClientsNextOne(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		link := harness.NewLink(w.Srv)
		c, other := w.Stranger(&zkrecipes.Options{Dialer: link.Dial, SessionTimeout: 10 * time.Second}), w.Stranger(nil)
		vs := recipetest.Visits(t, w.entersIn(c, 2), w.entersIn(other, 2))
		work := vs[0].Context(t.Context())
		began := time.Now()
		link.Stop()
		<-work.Done()
		require.LessOrEqual(t, time.Since(began), 10*time.Second)
		require.ErrorIs(t, context.Cause(work), zkrecipes.ErrLost)
		require.Len(t, w.Inside(), 2)
		time.Sleep(100 * time.Millisecond)
		require.ErrorIs(t, vs[0].Err(), zkrecipes.ErrLost)
		require.ErrorIs(t, vs[0].Leave(t.Context()), zkrecipes.ErrLost)
		leaves := w.leaves(vs[1])
		a := w.entersIn(c, 2)
		link.Resume()
		time.Sleep(time.Minute)
		leaves.Get()
		require.True(t, a.Waiting())
		require.Len(t, w.Inside(), 1)
		w.leave(a, w.entersIn(other, 2))
	})
}

// The reply arrives after the session has ended. Enter must not succeed: the member's
// znode is gone, so no member would wait for it.
func TestEnterWhoseReplyComesAfterTheSessionsEndIsAnError(t *testing.T) {
	for _, last := range []bool{false, true} {
		t.Run(fmt.Sprint("last: ", last), func(t *testing.T) {
			var c *harness.Link
			var once sync.Once
			inBubble(t, func(t *testing.T, w *world) {
				c = harness.NewLink(w.Srv)
				d := w.Stranger(&zkrecipes.Options{Dialer: c.Dial})
				var a, partner entering
				if last {
					partner, a = w.enters(2), w.entersIn(d, 2)
				} else {
					a, partner = w.entersIn(d, 2), w.enters(2)
				}
				recipetest.Visits(t, partner)
				time.Sleep(11 * time.Second)
				require.Len(t, w.Inside(), 1, "expired")
				require.True(t, a.Waiting())
				c.Resume()
				recipetest.Fails(t, a, zk.ErrSessionExpired)
			}, zktest.OnChange(func(ch zktest.Change) {
				if ch.Created && ch.Path == "/d/ready" {
					once.Do(func() { c.Stop() })
				}
			}))
		})
	}
}

// The session of a member ends while Leave waits for the others. That member has left.
// The server of its next session lags and does not show the others, so Leave has to
// sync first.
func TestLeaveContinuesInTheNextSessionAfterASync(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		d, c := w.Stranger(nil), w.Stranger(nil)
		vs := recipetest.Visits(t, w.entersIn(c, 2), w.entersIn(d, 2))
		leaves := w.leaves(vs[0])
		w.expire(c)
		time.Sleep(20 * time.Second)
		require.True(t, leaves.Waiting())
		w.allLeave(vs[1])
		leaves.Get()
	}, recipetest.Behind(1, 6))
}

// A member's join is looked for, as its reply was lost, when an operator deletes it and
// the path.
func TestMemberEvictedFromAReapedDoubleBarrierGetsErrEvicted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: recipetest.OpEnter})
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getChildren2", Skip: 1, For: 5 * time.Second})
		a := w.enters(2)
		time.Sleep(time.Second)
		require.Len(t, w.Inside(), 1)
		recipetest.RemoveTree(t, w.Bare(), "/d")
		recipetest.Fails(t, a, zkrecipes.ErrEvicted)
	}, zktest.TickTime(time.Second))
}

func TestDeletingADoubleBarrierEvictsItsMembers(t *testing.T) {
	none := zktest.Fault{}
	cases := doubleKind.opening(zktest.Delay) // one of those that wait is about to open
	cases["waiting"] = none
	each(t, cases, func(t *testing.T, w *world, late zktest.Fault) {
		as := []entering{w.enters(2)}
		if late != none {
			late.For = time.Second
			w.Plan.Add(late)
			as = append(as, w.enters(2))
		}
		require.Len(t, w.Inside(), len(as))
		recipetest.RemoveTree(t, w.Bare(), "/d")
		for _, a := range as {
			recipetest.Fails(t, a, zkrecipes.ErrEvicted)
		}
		vs := w.visits(2)
		leaves := w.leaves(vs[0])
		recipetest.RemoveTree(t, w.Bare(), "/d")
		leaves.Get() // no member is left inside
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, vs[1].Leave(t.Context()), zkrecipes.ErrLost)
	})
}
