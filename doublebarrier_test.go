package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const (
	opEnter      = opJoin
	opOpenAll    = "multi(create,setData)"        // opens one of two
	opReplace    = "multi(delete,create,setData)" // over an older ready
	opDepart     = "multi(delete,setData)"        // gives up
	opLastLeaves = "multi(check,delete,delete)"   // the last one leaves
)

// couple returns the double barrier of two that tests in bubbles use.
func couple(c *Client) *DoubleBarrier { return NewDoubleBarrier(c, "/d", 2) }

// inside returns the members that stand at it, Curator's too.
func (w *world) inside() []string {
	return slices.DeleteFunc(w.srv.Children("/d"), func(name string) bool { return name == "ready" })
}

// enter has a member enter, in the background.
func enter(t testing.TB, d *DoubleBarrier) *going[*Visit] { return goes(t, d.Enter) }

// visits waits for all to have entered.
func visits(t testing.TB, as ...*going[*Visit]) (vs []*Visit) {
	t.Helper()
	for _, a := range as {
		v, err := a.wait()
		require.NoError(t, err)
		require.NoError(t, v.Err())
		vs = append(vs, v)
	}
	return vs
}

// leaveAll has all leave, and waits for that.
func leaveAll(t testing.TB, vs ...*Visit) {
	t.Helper()
	var ls []*going[struct{}]
	for _, v := range vs {
		ls = append(ls, does(t, v.Leave))
	}
	for _, l := range ls {
		_, err := l.wait()
		require.NoError(t, err)
	}
}

// watching waits until a client has n watches, of any kind, and nothing under way.
func watching(t testing.TB, c *Client, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d watches", n), func() bool { return watchesOf(c) == n && c.idle() })
}

// Nobody enters before n are there, nobody has left before all come to leave, and
// all that again, at once, with nothing left behind at the end.
func TestA22DoubleBarrierAllEnterAllLeave(t *testing.T) {
	const n, rounds = 4, 10
	path, conn := newPath(t), raw(t)
	var wg sync.WaitGroup
	var coming, leaving atomic.Int32
	for range n {
		d := NewDoubleBarrier(dial(t, nil), path, n)
		wg.Go(func() {
			for r := range rounds {
				coming.Add(1)
				v, err := d.Enter(within(t, 30*time.Second))
				if err != nil {
					t.Error(err)
					return
				}
				if there := coming.Load(); there < int32(n*(r+1)) {
					t.Errorf("entered when %d had come in %d rounds", there, r+1)
				}
				leaving.Add(1)
				if err := v.Leave(within(t, 30*time.Second)); err != nil {
					t.Error(err)
					return
				}
				if gone := leaving.Load(); gone < int32(n*(r+1)) {
					t.Errorf("left when %d had come to leave in %d rounds", gone, r+1)
				}
			}
		})
	}
	wg.Wait()
	require.Empty(t, children(t, conn, path))
}

func TestA22DoubleBarrierIsAThreshold(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first := enter(t, couple(w.stranger(nil)))
		synctest.Wait()
		require.True(t, first.waiting())
		vs := visits(t, first, enter(t, couple(w.stranger(nil))))
		vs = append(vs, visits(t, enter(t, couple(w.stranger(nil))))...)
		require.Len(t, w.inside(), 3)
		leaveAll(t, vs...)
		require.Empty(t, w.srv.Children("/d"))
	})
}

func TestA22DoubleBarrierOfOneAndOfMembersOfOneClient(t *testing.T) {
	c, path := dial(t, nil), newPath(t)
	leaveAll(t, visits(t, enter(t, NewDoubleBarrier(c, path, 1)))...)
	d := NewDoubleBarrier(c, path+"/below", 5)
	for range 3 {
		var as []*going[*Visit]
		for range 5 {
			as = append(as, enter(t, d))
		}
		leaveAll(t, visits(t, as...)...)
	}
	require.Empty(t, children(t, raw(t), path+"/below"))
}

func TestA22MemberThatDiesInsideHangsNobodysLeave(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const n = 4
		for dies := range n { // by the order of the names, which says who waits for whom
			var clients []*Client
			var as []*going[*Visit]
			for range n {
				c := w.stranger(nil)
				clients = append(clients, c)
				as = append(as, enter(t, NewDoubleBarrier(c, "/d", n)))
			}
			vs := visits(t, as...)
			victim := slices.IndexFunc(vs, func(v *Visit) bool { return v.l.g.place().name == w.inside()[dies] })
			var leaves []*going[struct{}]
			for i, v := range vs {
				if i != victim {
					leaves = append(leaves, does(t, v.Leave))
				}
			}
			synctest.Wait()
			for _, l := range leaves {
				require.True(t, l.waiting(), "one is inside")
			}
			require.True(t, w.srv.Expire(sessionID(clients[victim])))
			for _, l := range leaves {
				_, err := l.wait()
				require.NoError(t, err)
			}
			<-vs[victim].Context(t.Context()).Done()
			require.ErrorIs(t, vs[victim].Leave(t.Context()), ErrLost)
			require.Empty(t, w.srv.Children("/d"))
		}
	})
}

// A run that crashed has left its ready.
func TestA22OldReadyLetsNobodyPassAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		leaveAll(t, visits(t, enter(t, NewDoubleBarrier(w.stranger(nil), "/d", 1)))...)
		conn := w.bare()
		old, err := conn.Create("/d/ready", []byte("old"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		first := enter(t, couple(w.stranger(nil)))
		time.Sleep(time.Minute)
		require.True(t, first.waiting())
		require.Len(t, w.inside(), 1)
		vs := visits(t, first, enter(t, couple(w.stranger(nil))))
		data, stat, err := conn.Get(old)
		require.NoError(t, err)
		require.NotEqual(t, "old", string(data))
		require.Equal(t, stat.Czxid, vs[0].since)
		require.Equal(t, stat.Czxid, vs[1].since)
		leaveAll(t, vs...)
		require.Empty(t, w.srv.Children("/d"))
	})
}

// A crash of all leaves what the next ones do not trip over.
func TestA22DoubleBarrierIsUsedAgainAfterAllHaveDied(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c, d := w.stranger(nil), w.stranger(nil)
		vs := visits(t, enter(t, couple(c)), enter(t, couple(d)))
		require.True(t, w.srv.Expire(sessionID(c)))
		require.True(t, w.srv.Expire(sessionID(d)))
		for _, v := range vs {
			<-v.Context(t.Context()).Done()
		}
		require.Equal(t, []string{"ready"}, w.srv.Children("/d"))
		first := enter(t, couple(c))
		synctest.Wait()
		require.True(t, first.waiting())
		leaveAll(t, visits(t, first, enter(t, couple(d)))...)
		require.Empty(t, w.srv.Children("/d"))
	})
}

// One comes for the next use while the last is being left.
func TestA22NewcomerDoesNotHoldUpLeave(t *testing.T) {
	for name, n := range map[string]int{"it waits": 3, "it enters": 2} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				of := func() *DoubleBarrier { return NewDoubleBarrier(w.stranger(nil), "/d", n) }
				var as []*going[*Visit]
				for range n {
					as = append(as, enter(t, of()))
				}
				vs := visits(t, as...)
				leaves := []*going[struct{}]{does(t, vs[0].Leave)}
				synctest.Wait()
				before := len(w.inside())
				newcomer := enter(t, of())
				synctest.Wait()
				require.Len(t, w.inside(), before+1)
				require.Equal(t, before+1 < n, newcomer.waiting())
				for _, v := range vs[1:] {
					leaves = append(leaves, does(t, v.Leave))
				}
				for _, l := range leaves {
					_, err := l.wait()
					require.NoError(t, err)
				}
				require.Len(t, w.inside(), 1)
				if newcomer.waiting() {
					as = []*going[*Visit]{newcomer}
					for len(as) < n {
						synctest.Wait()
						require.True(t, newcomer.waiting())
						as = append(as, enter(t, of()))
					}
					leaveAll(t, visits(t, as...)...)
				} else {
					leaveAll(t, visits(t, newcomer)...)
				}
				require.Empty(t, w.srv.Children("/d"))
			})
		})
	}
}

func TestA22CancelledEnterLeavesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		reason := errors.New("changed my mind")
		for range 100 {
			a := enter(t, couple(c))
			synctest.Wait()
			require.Len(t, w.inside(), 1)
			a.cancel(reason)
			_, err := a.wait()
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, reason)
			synctest.Wait()
			require.Empty(t, w.srv.Children("/d"))
		}
		require.Equal(t, 1, watchesOf(c), "on ready")
		first := enter(t, couple(w.stranger(nil)))
		synctest.Wait()
		require.True(t, first.waiting())
		leaveAll(t, visits(t, first, enter(t, couple(c)))...)
	})
}

// Neither the last to leave, beside whom another stands, nor that other one, who
// gives up, may think that it is for somebody else to delete ready.
func TestA22WhoGivesUpAfterTheLastHasLeftDeletesReady(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		of := func() *DoubleBarrier { return NewDoubleBarrier(w.stranger(nil), "/d", 3) }
		vs := visits(t, enter(t, of()), enter(t, of()), enter(t, of()))
		leaves := []*going[struct{}]{does(t, vs[0].Leave), does(t, vs[1].Leave)}
		synctest.Wait()
		w.srv.Expire(vs[2].l.g.s.wire.ID())
		newcomer := enter(t, of())
		for _, l := range leaves {
			_, err := l.wait()
			require.NoError(t, err)
		}
		synctest.Wait()
		if newcomer.waiting() {
			newcomer.cancel(nil)
		} else {
			leaveAll(t, visits(t, newcomer)...)
		}
		synctest.Wait()
		require.Empty(t, w.srv.Children("/d"))
	})
	// The same, in this order: one comes before the last has left.
	inBubble(t, func(t *testing.T, w *world) {
		vs := visits(t, enter(t, couple(w.stranger(nil))), enter(t, couple(w.stranger(nil))))
		require.True(t, w.srv.Expire(vs[1].l.g.s.wire.ID()))
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opLastLeaves, For: time.Second})
		leaves := does(t, vs[0].Leave)
		synctest.Wait()
		newcomer := enter(t, NewDoubleBarrier(w.stranger(nil), "/d", 3))
		synctest.Wait()
		require.Len(t, w.inside(), 2)
		_, err := leaves.wait()
		require.NoError(t, err)
		require.True(t, newcomer.waiting())
		require.Contains(t, w.srv.Children("/d"), "ready")
		newcomer.cancel(nil)
		_, err = newcomer.wait()
		require.ErrorIs(t, err, context.Canceled)
		synctest.Wait()
		require.Empty(t, w.srv.Children("/d"))
	})
}

// One came and gave up between the last one's listing and its leaving.
func TestA22LastToLeaveDeletesReadyAlthoughSomebodyHasComeAndGone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		vs := visits(t, enter(t, couple(w.stranger(nil))), enter(t, couple(w.stranger(nil))))
		require.True(t, w.srv.Expire(vs[1].l.g.s.wire.ID()))
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opLastLeaves, For: time.Second})
		leaves := does(t, vs[0].Leave)
		synctest.Wait()
		newcomer := enter(t, NewDoubleBarrier(w.stranger(nil), "/d", 3))
		synctest.Wait()
		newcomer.cancel(nil)
		synctest.Wait()
		_, err := leaves.wait()
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, w.srv.Children("/d"))
	})
}

// The path may have changed since its version was seen: ready is another's then.
func TestA22LastToLeaveDeletesNoReadyOfTheNextUse(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		vs := visits(t, enter(t, couple(w.stranger(nil))), enter(t, couple(w.stranger(nil))))
		require.True(t, w.srv.Expire(vs[1].l.g.s.wire.ID()))
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opLastLeaves, For: time.Second})
		leaves := does(t, vs[0].Leave)
		synctest.Wait()
		next := visits(t, enter(t, NewDoubleBarrier(w.stranger(nil), "/d", 2))) // with the one that leaves
		_, err := leaves.wait()
		require.NoError(t, err)
		require.Contains(t, w.srv.Children("/d"), "ready")
		require.Len(t, w.inside(), 1)
		leaveAll(t, next...)
		require.Empty(t, w.srv.Children("/d"))
	})
}

func TestA22SpuriousWakeUpsLetNobodyIn(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		a := enter(t, couple(c))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Equal(t, 2, watchesOf(c))
		own := "/d/" + w.inside()[0]
		for range 3 {
			for _, event := range []int32{jute.EventCreated, jute.EventDataChanged, jute.EventDeleted} {
				spurious(c, "/d/ready", event)
				synctest.Wait()
				require.True(t, a.waiting())
			}
			for _, event := range []int32{jute.EventDataChanged, jute.EventDeleted} {
				spurious(c, own, event)
				synctest.Wait()
				require.True(t, a.waiting())
			}
			require.Equal(t, 2, watchesOf(c))
		}
		require.Len(t, w.inside(), 1)
		leaveAll(t, visits(t, a, enter(t, couple(w.stranger(nil))))...)
	})
}

// And let nobody go.
func TestA22SpuriousWakeUpsLetNobodyLeave(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		vs := visits(t, enter(t, couple(c)), enter(t, couple(w.stranger(nil))))
		leaves := does(t, vs[0].Leave)
		synctest.Wait()
		for range 3 {
			for _, event := range []int32{jute.EventDataChanged, jute.EventDeleted} {
				spurious(c, vs[1].l.g.place().path, event)
				synctest.Wait()
				require.True(t, leaves.waiting())
			}
		}
		require.NoError(t, vs[1].Leave(t.Context()))
		_, err := leaves.wait()
		require.NoError(t, err)
	})
}

func TestA22ExpiryWhileEnteringIsAnError(t *testing.T) {
	r := newRig(t, nil)
	d := NewDoubleBarrier(r.c, r.path+"-d", 2)
	a := enter(t, d)
	watching(t, r.c, 1)
	r.p.expire()
	_, err := a.wait()
	require.ErrorIs(t, err, zk.ErrSessionExpired)
	a = enter(t, d)
	leaveAll(t, visits(t, a, enter(t, NewDoubleBarrier(dial(t, nil), r.path+"-d", 2)))...)
}

// Curator's members stand under a bare uuid, and do not know of czxids.
func TestA22CuratorsMembersCountAndAreWaitedFor(t *testing.T) {
	ctx, path, conn := within(t, 30*time.Second), newPath(t), raw(t)
	c := dial(t, nil)
	theirs := func(uuid string) string {
		name, err := conn.Create(path+"/"+uuid, []byte{}, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		return name
	}
	makeParents(t, conn, path)
	// One whose name sorts before ours, and one behind: ours begin with "_".
	for _, uuid := range []string{"0f1e2d3c-4b5a-4678-9abc-def012345678", "ff1e2d3c-4b5a-4678-9abc-def012345678"} {
		name := theirs(uuid)
		v := visits(t, enter(t, NewDoubleBarrier(c, path, 2)))[0]
		require.Contains(t, children(t, conn, path), "ready", "by which they enter")
		leaves := does(t, v.Leave)
		ours := 1
		if uuid[0] == '0' { // the first waits, the others delete theirs
			ours = 0
		}
		eventually(t, "waiting to leave", func() bool { return watchesOf(c) == 1 && c.idle() })
		eventually(t, "ours", func() bool { return len(children(t, conn, path)) == 2+ours })
		require.True(t, leaves.waiting())
		require.NoError(t, conn.Delete(name, -1))
		_, err := leaves.wait()
		require.NoError(t, err)
		require.Empty(t, children(t, conn, path))
	}
	// Theirs is the last to come, and makes ready.
	a := enter(t, NewDoubleBarrier(c, path, 2))
	watching(t, c, 1)
	name := theirs("aaaaaaaa-4b5a-4678-9abc-def012345678")
	require.True(t, a.waiting())
	_, err := conn.Create(path+"/ready", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	v := visits(t, a)[0]
	require.NoError(t, conn.Delete(name, -1)) // it leaves: the highest, when it is
	require.NoError(t, v.Leave(ctx))
	require.Empty(t, children(t, conn, path))
}

// The n-th has seen n, and some of them go, and others come, before it has
// opened: who has come must not pass with those who have gone.
func TestB45MembersThatGoWhileAnotherOpensAreNotCounted(t *testing.T) {
	for op, path := range map[string]string{"getChildren2": "/d", opOpenAll: "/d/ready"} {
		t.Run(op, func(t *testing.T) {
			o := &observer{dir: "/d", created: true}
			inBubble(t, func(t *testing.T, w *world) {
				of := func() *going[*Visit] { return enter(t, NewDoubleBarrier(w.stranger(nil), "/d", 3)) }
				a, b := of(), of()
				synctest.Wait()
				w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: op, Path: path, For: time.Second})
				opens := of()
				synctest.Wait()
				a.cancel(nil)
				b.cancel(nil)
				synctest.Wait()
				newcomer := of()
				synctest.Wait()
				require.Len(t, w.inside(), 2)
				time.Sleep(2 * time.Second)
				require.True(t, opens.waiting())
				require.True(t, newcomer.waiting())
				require.Empty(t, o.openings())
				leaveAll(t, visits(t, opens, newcomer, of())...)
				require.Equal(t, []int{3}, o.openings())
			}, o.option())
		})
	}
}

func TestB45MemberThatDiesWhileItOpensADoubleBarrierLeavesTheDutyToTheNext(t *testing.T) {
	for op, path := range map[string]string{"getChildren2": "/d", opOpenAll: "/d/ready"} {
		t.Run(op, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				first := enter(t, couple(w.stranger(nil)))
				synctest.Wait()
				w.plan.Add(zktest.Fault{Do: zktest.Expire, Op: op, Path: path})
				_, err := couple(w.stranger(nil)).Enter(t.Context())
				require.ErrorIs(t, err, zk.ErrSessionExpired)
				require.True(t, first.waiting())
				leaveAll(t, visits(t, first, enter(t, couple(w.stranger(nil))))...)
			})
		})
	}
}

func TestB45OpeningOfADoubleBarrierWhoseReplyIsLost(t *testing.T) {
	for name, after := range map[string]bool{"applied": true, "not applied": false} {
		for _, do := range []zktest.Action{zktest.Drop, zktest.Answer} {
			for _, stale := range []bool{false, true} {
				t.Run(fmt.Sprint(name, do, stale), func(t *testing.T) {
					o := &observer{dir: "/d", created: true}
					inBubble(t, func(t *testing.T, w *world) {
						op := opOpenAll
						leaveAll(t, visits(t, enter(t, couple(w.stranger(nil))), enter(t, couple(w.stranger(nil))))...)
						if stale {
							op = opReplace
							_, err := w.bare().Create("/d/ready", nil, 0, zk.WorldACL(zk.PermAll))
							require.NoError(t, err)
						}
						o.openings()
						a := enter(t, couple(w.stranger(nil)))
						synctest.Wait()
						w.plan.Add(zktest.Fault{Do: do, After: after, Op: op, Code: jute.ErrConnectionLoss, Times: 2})
						leaveAll(t, visits(t, a, enter(t, couple(w.stranger(nil))))...)
						require.Equal(t, []int{2}, o.openings(), "once")
						require.Empty(t, w.srv.Children("/d"))
					}, o.option())
				})
			}
		}
	}
}

// Two members, and something happens to one of their requests. The barrier opens
// for two or for none, and lets all go who are inside.
func TestB45WhateverHappensToARequestTheDoubleBarrierOpensForTwoAndLetsAllGo(t *testing.T) {
	seen := map[string]int{}
	eachRequest(t, mishaps, func(t *testing.T, fault zktest.Fault) (met bool) {
		o := &observer{dir: "/d", created: true}
		inBubble(t, func(t *testing.T, w *world) {
			use := func(ctx context.Context, clients ...*Client) (through, lost, stuck int) {
				var mu sync.Mutex
				var wg sync.WaitGroup
				for _, c := range clients {
					wg.Go(func() {
						var v *Visit
						for {
							var err error
							if v, err = couple(c).Enter(ctx); err == nil {
								break
							}
							if ctx.Err() != nil {
								mu.Lock()
								stuck++
								mu.Unlock()
								return
							}
							if !errors.Is(err, zk.ErrSessionExpired) && !errors.Is(err, ErrLost) {
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
							if names := o.remain(v.since); len(names) > 0 {
								t.Error("it has left, and these remain:", names)
							}
						case errors.Is(err, ErrLost):
							lost++
						default:
							t.Error(err)
						}
					})
				}
				wg.Wait()
				return through, lost, stuck
			}
			clients := []*Client{w.stranger(nil), w.stranger(nil)}
			w.plan.Add(fault)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			through, lost, stuck := use(ctx, clients...)
			met = w.met()
			seen[fmt.Sprintf("%d left, %d lost, %d stuck", through, lost, stuck)]++
			require.LessOrEqual(t, lost+stuck, 1)
			time.Sleep(time.Minute)
			require.Empty(t, w.inside())
			through, _, _ = use(t.Context(), w.stranger(nil), w.stranger(nil))
			require.Equal(t, 2, through)
			for _, stood := range o.openings() {
				require.GreaterOrEqual(t, stood, 2)
			}
			synctest.Wait()
			require.Empty(t, w.srv.Children("/d"))
		}, o.option())
		return met
	})
	t.Log(seen)
	require.NotZero(t, seen["2 left, 0 lost, 0 stuck"])
}

// Another waits, and one cancels while one of its requests is under way. It has
// entered, with the other, or nothing of it is left.
func TestB32EnterThatIsCancelledAtEveryStepHasEnteredOrIsGone(t *testing.T) {
	delays := []zktest.Fault{
		{Do: zktest.Delay, For: time.Second}, {Do: zktest.Delay, For: time.Second, After: true},
	}
	seen := map[string]int{}
	eachRequest(t, delays, func(t *testing.T, fault zktest.Fault) (met bool) {
		inBubble(t, func(t *testing.T, w *world) {
			partner := enter(t, couple(w.stranger(nil)))
			c := w.stranger(nil)
			synctest.Wait()
			w.plan.Add(fault)
			a := enter(t, couple(c))
			synctest.Wait()
			reason := errors.New("enough")
			a.cancel(reason)
			time.Sleep(5 * time.Second)
			v, err := a.wait()
			met = w.met()
			if err == nil {
				seen["entered"]++
				leaveAll(t, append(visits(t, partner), v)...)
				return
			}
			require.Nil(t, v)
			require.ErrorIs(t, err, reason)
			if partner.waiting() {
				seen["gone"]++
				require.Len(t, w.inside(), 1, "the partner")
				leaveAll(t, visits(t, partner, enter(t, couple(c)))...)
				return
			}
			seen["gone, and its opening done"]++
			leaveAll(t, visits(t, partner)...)
			require.Empty(t, w.srv.Children("/d"))
		})
		return met || fault.Skip < 6
	})
	t.Log(seen)
	require.NotZero(t, seen["entered"])
	require.NotZero(t, seen["gone"])
}

// A Leave that is given up at any step has left, and the next one waits for the
// others.
func TestB32LeaveThatIsCancelledAtEveryStepHasLeft(t *testing.T) {
	delays := []zktest.Fault{
		{Do: zktest.Delay, For: time.Second}, {Do: zktest.Delay, For: time.Second, After: true},
	}
	eachRequest(t, delays, func(t *testing.T, fault zktest.Fault) (met bool) {
		inBubble(t, func(t *testing.T, w *world) {
			vs := visits(t, enter(t, couple(w.stranger(nil))), enter(t, couple(w.stranger(nil))))
			slices.SortFunc(vs, func(a, b *Visit) int {
				return strings.Compare(a.l.g.place().name, b.l.g.place().name)
			})
			if fault.After { // the one that waits with its znode standing, and the other
				slices.Reverse(vs)
			}
			synctest.Wait()
			w.plan.Add(fault)
			leaves := does(t, vs[0].Leave)
			synctest.Wait()
			leaves.cancel(errors.Join(zk.ErrNoNode, zk.ErrBadVersion))
			synctest.Wait()
			_, err := leaves.wait()
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, vs[0].Err(), ErrReleased)
			met = w.met()
			time.Sleep(5 * time.Second)
			require.Equal(t, []string{vs[1].l.g.place().name}, w.inside())
			leaves = does(t, vs[0].Leave)
			synctest.Wait()
			require.True(t, leaves.waiting(), "the other is inside")
			require.NoError(t, vs[1].Leave(t.Context()))
			_, err = leaves.wait()
			require.NoError(t, err)
			require.NoError(t, vs[0].Leave(t.Context()), "it stays so")
			require.Empty(t, w.srv.Children("/d"))
		})
		return met || fault.Skip < 6
	})
}

func TestB32LeaveWithAContextThatHasEndedLeaves(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 20 {
			vs := visits(t, enter(t, couple(w.stranger(nil))), enter(t, couple(w.stranger(nil))))
			for _, v := range vs {
				require.ErrorIs(t, v.Leave(ctx), context.Canceled)
			}
			synctest.Wait()
			require.Empty(t, w.srv.Children("/d"), "ready neither")
		}
	})
}

func TestB13LeavingTwiceAndAtOnceIsLeavingOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		vs := visits(t, enter(t, couple(w.stranger(nil))), enter(t, couple(w.stranger(nil))))
		var leaves []*going[struct{}]
		for range 5 {
			leaves = append(leaves, does(t, vs[0].Leave))
		}
		impatient := does(t, vs[0].Leave)
		synctest.Wait()
		impatient.cancel(nil)
		_, err := impatient.wait()
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, vs[1].Leave(t.Context()))
		for _, l := range leaves {
			_, err := l.wait()
			require.NoError(t, err)
		}
	})
}

// A member that this client has given up, and that still stands, is not the
// partner of its next one.
func TestB33NextMemberOfAClientDoesNotMeetItself(t *testing.T) {
	giveUp := map[string]func(*testing.T, *world, *Client){
		"Enter was cancelled": func(t *testing.T, w *world, c *Client) {
			a := enter(t, couple(c))
			synctest.Wait()
			a.cancel(nil)
			_, err := a.wait()
			require.ErrorIs(t, err, context.Canceled)
		},
		"Enter was cancelled before the join was answered": func(t *testing.T, w *world, c *Client) {
			w.plan.Add(zktest.Fault{Do: zktest.Delay, After: true, Op: opEnter, For: time.Second})
			a := enter(t, couple(c))
			synctest.Wait()
			a.cancel(nil)
			_, err := a.wait()
			require.ErrorIs(t, err, context.Canceled)
		},
		"Leave was given up": func(t *testing.T, w *world, c *Client) {
			other := w.stranger(nil)
			vs := visits(t, enter(t, couple(c)), enter(t, couple(other)))
			require.NoError(t, other.Close())
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, vs[0].Leave(ctx), context.Canceled)
		},
	}
	for name, f := range giveUp {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.stranger(nil)
				for _, op := range []string{opDepart, "multi(delete)"} {
					w.plan.Add(zktest.Fault{Do: zktest.Answer, Op: op, Code: jute.ErrThrottled, Times: 5})
				}
				f(t, w, c)
				a := enter(t, couple(c))
				for range 50 {
					time.Sleep(100 * time.Millisecond)
					require.True(t, a.waiting())
				}
				require.Len(t, w.inside(), 1)
				leaveAll(t, visits(t, a, enter(t, couple(w.stranger(nil))))...)
				synctest.Wait()
				require.Zero(t, leftBehind(c))
			})
		})
	}
}

// The clock has ended the visit, and the session lives on.
func TestB33NextMemberAfterALostVisitDoesNotMeetItself(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		still := newStall(w.srv)
		c := w.stranger(&Options{Dialer: still.Dial, SessionTimeout: 10 * time.Second})
		other := w.stranger(nil)
		vs := visits(t, enter(t, couple(c)), enter(t, couple(other)))
		synctest.Wait()
		still.stop()
		time.Sleep(10*time.Second + 100*time.Millisecond)
		require.ErrorIs(t, vs[0].Err(), ErrLost)
		require.ErrorIs(t, vs[0].Leave(t.Context()), ErrLost)
		leaves := does(t, vs[1].Leave)
		synctest.Wait()
		a := enter(t, couple(c))
		synctest.Wait()
		still.resume()
		time.Sleep(time.Minute)
		_, err := leaves.wait()
		require.NoError(t, err)
		require.True(t, a.waiting())
		require.Len(t, w.inside(), 1)
		leaveAll(t, visits(t, a, enter(t, couple(other)))...)
	})
}

func TestB01JoinOfADoubleBarrierWhoseReplyIsLostIsFound(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := enter(t, couple(w.stranger(nil)))
		synctest.Wait()
		w.plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: opEnter}, zktest.Fault{Do: zktest.Drop, Op: "sync", Times: 2})
		b := couple(w.stranger(nil))
		var vs []*Visit
		requests := w.requests(func() { vs = visits(t, a, enter(t, b)) })
		require.Equal(t, 2, requests[opEnter], "one joins, and opens")
		require.Len(t, w.inside(), 2)
		leaveAll(t, vs...)
		require.Empty(t, w.srv.Children("/d"))
	})
}

// The join was seen, the session ends with its answer: it is an error, since
// others may have entered with it.
func TestB10JoinOfADoubleBarrierWhoseAnswerIsLostWithTheSessionIsAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		leaveAll(t, visits(t, enter(t, NewDoubleBarrier(c, "/d", 1)))...)
		for _, after := range []bool{false, true} {
			w.plan.Add(zktest.Fault{Do: zktest.Expire, After: after, Op: opEnter})
			_, err := couple(c).Enter(within(t, time.Minute))
			require.ErrorIs(t, err, zk.ErrSessionExpired)
			require.Empty(t, w.inside())
		}
	})
}

// The answer comes after the session's end: to have entered would be to be inside
// with nobody.
func TestB11EnterWhoseAnswerComesAfterTheSessionsEndIsAnError(t *testing.T) {
	for _, last := range []bool{false, true} {
		t.Run(fmt.Sprint("last: ", last), func(t *testing.T) {
			var c *stall
			var once sync.Once
			inBubble(t, func(t *testing.T, w *world) {
				c = newStall(w.srv)
				d := w.stranger(&Options{Dialer: c.Dial})
				var a, partner *going[*Visit]
				if last {
					partner = enter(t, couple(w.stranger(nil)))
					synctest.Wait()
					a = enter(t, couple(d))
				} else {
					a = enter(t, couple(d))
					synctest.Wait()
					partner = enter(t, couple(w.stranger(nil)))
				}
				visits(t, partner)
				time.Sleep(11 * time.Second)
				require.Len(t, w.inside(), 1, "expired")
				require.True(t, a.waiting())
				c.resume()
				v, err := a.wait()
				require.Nil(t, v)
				require.ErrorIs(t, err, zk.ErrSessionExpired)
			}, zktest.OnChange(func(ch zktest.Change) {
				if ch.Created && ch.Path == "/d/ready" {
					once.Do(func() { c.stop() })
				}
			}))
		})
	}
}

func TestB09ExpiryInsideEndsTheVisit(t *testing.T) {
	r := newRig(t, nil)
	path := r.path + "-d"
	vs := visits(t, enter(t, NewDoubleBarrier(r.c, path, 2)), enter(t, NewDoubleBarrier(dial(t, nil), path, 2)))
	work := vs[0].Context(r.ctx)
	r.p.expire()
	require.ErrorIs(t, waitFor(t, work), ErrLost)
	require.ErrorIs(t, vs[0].Err(), ErrLost)
	require.ErrorIs(t, vs[0].Leave(r.ctx), ErrLost)
	require.ErrorIs(t, vs[0].Leave(r.ctx), ErrLost)
	require.NoError(t, vs[1].Leave(r.ctx), "it is not waited for")
	require.ErrorIs(t, vs[1].Err(), ErrReleased)
	require.ErrorIs(t, waitFor(t, vs[1].Context(r.ctx)), ErrReleased)
}

// Cut off from the servers, the visit ends before another could think so.
func TestB16VisitOfAClientThatIsCutOffEndsInTime(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		still := newStall(w.srv)
		c := w.stranger(&Options{Dialer: still.Dial})
		vs := visits(t, enter(t, couple(c)), enter(t, couple(w.stranger(nil))))
		began := time.Now()
		still.lose()
		work := vs[0].Context(t.Context())
		<-work.Done()
		require.ErrorIs(t, context.Cause(work), ErrLost)
		require.LessOrEqual(t, time.Since(began), 10*time.Second)
		require.Len(t, w.inside(), 2)
		still.resume()
	})
}

// The session of one that waits for the others to leave ends. It has left; the
// server of the next session is behind, and does not show the others.
func TestB10LeaveGoesOnInTheNextSessionBehindASync(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		d := w.stranger(nil)
		c := w.stranger(nil)
		vs := visits(t, enter(t, couple(c)), enter(t, couple(d)))
		leaves := does(t, vs[0].Leave)
		synctest.Wait()
		require.True(t, w.srv.Expire(sessionID(c)))
		time.Sleep(20 * time.Second)
		require.True(t, leaves.waiting())
		require.NoError(t, vs[1].Leave(t.Context()))
		_, err := leaves.wait()
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, w.srv.Children("/d"))
	}, behind(1, 6))
}

func TestB18DoubleBarrierThroughAServerRestart(t *testing.T) {
	node := ownNode(t, zkserver.Config{})
	servers := []string{node.Addr()}
	path := newPath(t)
	restart := func() {
		require.NoError(t, node.Kill(t.Context()))
		require.NoError(t, node.Restart(t.Context()))
	}
	c, d := dialTo(t, servers, nil), dialTo(t, servers, nil)
	a := enter(t, NewDoubleBarrier(c, path, 2))
	watching(t, c, 1)
	restart()
	require.True(t, a.waiting())
	vs := visits(t, a, enter(t, NewDoubleBarrier(d, path, 2)))
	leaves := does(t, vs[0].Leave)
	eventually(t, "leaving", func() bool { return vs[0].Err() != nil })
	restart()
	require.NoError(t, vs[1].Err())
	require.True(t, leaves.waiting())
	require.NoError(t, vs[1].Leave(within(t, 20*time.Second)))
	_, err := leaves.wait()
	require.NoError(t, err)
	require.Empty(t, children(t, rawTo(t, servers), path))
}

func TestB21DoubleBarrierOpenedAndLeftWhileDisconnected(t *testing.T) {
	r := newRig(t, nil)
	path := r.path + "-d"
	a := enter(t, NewDoubleBarrier(r.c, path, 2))
	watching(t, r.c, 1)
	r.p.refusing(true)
	other := visits(t, enter(t, NewDoubleBarrier(dial(t, nil), path, 2)))[0]
	require.True(t, a.waiting())
	r.p.refusing(false)
	v := visits(t, a)[0]
	leaves := does(t, v.Leave)
	watching(t, r.c, 2) // the other, and ready
	r.p.refusing(true)
	others := does(t, other.Leave)
	eventually(t, "leaving", func() bool { return other.Err() != nil })
	r.p.refusing(false)
	for _, l := range []*going[struct{}]{leaves, others} {
		_, err := l.wait()
		require.NoError(t, err)
	}
	require.Empty(t, children(t, r.raw, path))
}

func TestB22EvictedMemberOfADoubleBarrier(t *testing.T) {
	for name, pause := range map[string]time.Duration{"early": 0, "late": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				conn := w.bare()
				a := enter(t, couple(w.stranger(nil)))
				time.Sleep(pause)
				synctest.Wait()
				require.NoError(t, conn.Delete("/d/"+w.inside()[0], -1))
				time.Sleep(2 * time.Second)
				require.False(t, a.waiting())
				_, err := a.wait()
				require.ErrorIs(t, err, ErrEvicted)

				vs := visits(t, enter(t, couple(w.stranger(nil))), enter(t, couple(w.stranger(nil))))
				time.Sleep(pause)
				synctest.Wait()
				require.NoError(t, conn.Delete(vs[0].l.g.place().path, -1))
				require.NoError(t, vs[1].Leave(t.Context()), "it is not waited for")
				time.Sleep(2 * time.Second)
				require.ErrorIs(t, vs[0].Err(), ErrLost)
				require.ErrorIs(t, vs[0].Leave(t.Context()), ErrLost)
				require.Empty(t, w.srv.Children("/d"))
			})
		})
	}
}

func TestB23DoubleBarrierDeletedUnderItsMembers(t *testing.T) {
	t.Run("who wait", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			a := enter(t, couple(w.stranger(nil)))
			synctest.Wait()
			wipe(t, w.bare(), "/d")
			_, err := a.wait()
			require.ErrorIs(t, err, ErrEvicted)
			leaveAll(t, visits(t, enter(t, couple(w.stranger(nil))), enter(t, couple(w.stranger(nil))))...)
		})
	})
	t.Run("one of whom opens", func(t *testing.T) {
		for op, path := range map[string]string{"getChildren2": "/d", opOpenAll: "/d/ready"} {
			inBubble(t, func(t *testing.T, w *world) {
				a := enter(t, couple(w.stranger(nil)))
				synctest.Wait()
				w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: op, Path: path, For: time.Second})
				b := enter(t, couple(w.stranger(nil)))
				synctest.Wait()
				require.Len(t, w.inside(), 2)
				wipe(t, w.bare(), "/d")
				for _, m := range []*going[*Visit]{a, b} {
					_, err := m.wait()
					require.ErrorIs(t, err, ErrEvicted)
				}
			})
		}
	})
	t.Run("who are inside", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			vs := visits(t, enter(t, couple(w.stranger(nil))), enter(t, couple(w.stranger(nil))))
			leaves := does(t, vs[0].Leave)
			synctest.Wait()
			wipe(t, w.bare(), "/d")
			_, err := leaves.wait()
			require.NoError(t, err, "nobody is inside")
			time.Sleep(2 * time.Second)
			require.ErrorIs(t, vs[1].Leave(t.Context()), ErrLost)
		})
	})
}

func TestB24DoubleBarrierWhosePathWasReapedIsMadeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c, d := w.stranger(nil), w.stranger(nil)
		for range 3 {
			leaveAll(t, visits(t, enter(t, couple(c)), enter(t, couple(d)))...)
			wipe(t, w.bare(), "/d")
		}
	})
}

// Children that are no members neither count nor are waited for.
func TestB25ForeignChildrenOfADoubleBarrierAreNotCounted(t *testing.T) {
	path, conn := newPath(t), raw(t)
	c := dial(t, nil)
	a := enter(t, NewDoubleBarrier(c, path, 2))
	watching(t, c, 1)
	var junk []string
	for _, name := range []string{
		"x", "member", "member-", "member-12", "_c_x", "ünï-member-000000000x", "readyy", "Ready",
		"1f1e2d3c-4b5a-4678-9abc-def01234567", "1f1e2d3c-4b5a-4678-9abc-def0123456789", "1f1e2d3c-4b5a-4678-9abcxdef012345678",
	} {
		_, err := conn.Create(path+"/"+name, nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		junk = append(junk, name)
	}
	b := enter(t, NewDoubleBarrier(c, path, 3))
	eventually(t, "three", func() bool { return len(children(t, conn, path)) == len(junk)+2 })
	watching(t, c, 1)
	require.True(t, b.waiting())
	b.cancel(nil)
	_, err := b.wait()
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, a.waiting())
	leaveAll(t, visits(t, a, enter(t, NewDoubleBarrier(dial(t, nil), path, 2)))...)
	require.ElementsMatch(t, junk, children(t, conn, path))

	// The place of a lock is no junk: the path is another recipe's.
	_, err = conn.Create(path+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	_, err = NewDoubleBarrier(c, path, 1).Enter(within(t, 20*time.Second))
	require.ErrorContains(t, err, "another recipe uses this path")
}

func TestB28CounterOfADoubleBarrierAtItsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		leaveAll(t, visits(t, enter(t, NewDoubleBarrier(c, "/d", 1)))...)
		for _, next := range []int32{maxNumber + 1, 1<<31 - 1, -5} {
			require.NoError(t, w.srv.SetCounter("/d", next))
			_, err := NewDoubleBarrier(c, "/d", 1).Enter(within(t, time.Minute))
			require.ErrorIs(t, err, ErrExhausted)
			synctest.Wait()
			require.Empty(t, w.srv.Children("/d"))
		}
	})
}

// One client waits at many gates, barriers and double barriers, and all of them
// open while it is away: each watch is armed again, those on what is not there
// too.
func TestB31BarriersThatOpenWhileAClientIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const each = 300
		c, other := w.stranger(nil), w.stranger(nil)
		var waits []*going[struct{}]
		var opens []func(context.Context) error
		for i := range each {
			gate, barrier, double := fmt.Sprint("/gates/", i), fmt.Sprint("/barriers/", i), fmt.Sprint("/doubles/", i)
			require.NoError(t, NewGate(other, gate).Shut(t.Context()))
			waits = append(waits,
				does(t, NewGate(c, gate).Wait),
				does(t, func(ctx context.Context) error { _, err := NewBarrier(c, barrier, 2).Wait(ctx); return err }),
				does(t, func(ctx context.Context) error { _, err := NewDoubleBarrier(c, double, 2).Enter(ctx); return err }))
			opens = append(opens,
				NewGate(other, gate).Open,
				func(ctx context.Context) error { _, err := NewBarrier(other, barrier, 2).Wait(ctx); return err },
				func(ctx context.Context) error { _, err := NewDoubleBarrier(other, double, 2).Enter(ctx); return err })
		}
		synctest.Wait()
		require.Equal(t, 3*each, watchesOf(c))
		w.away(c)
		for _, open := range opens {
			require.NoError(t, open(t.Context()))
		}
		synctest.Wait()
		for _, a := range waits {
			require.True(t, a.waiting())
		}
		w.back()
		for _, a := range waits {
			_, err := a.wait()
			require.NoError(t, err)
		}
	})
}

func TestB35DoubleBarrierAndClose(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		vs := visits(t, enter(t, couple(c)), enter(t, couple(w.stranger(nil))))
		leaves := does(t, visits(t, enter(t, couple(c)))[0].Leave)
		waits := enter(t, NewDoubleBarrier(c, "/other", 2))
		work := vs[0].Context(t.Context())
		synctest.Wait()
		require.True(t, leaves.waiting())
		require.NoError(t, c.Close())
		require.NoError(t, c.Close())
		require.ErrorIs(t, context.Cause(work), ErrClosed)
		require.ErrorIs(t, vs[0].Err(), ErrClosed)
		require.ErrorIs(t, vs[0].Leave(t.Context()), ErrClosed)
		_, err := leaves.wait()
		require.ErrorIs(t, err, ErrClosed)
		_, err = waits.wait()
		require.ErrorIs(t, err, ErrClosed)
		_, err = couple(c).Enter(t.Context())
		require.ErrorIs(t, err, ErrClosed)
		require.Len(t, w.inside(), 1)
		require.Empty(t, w.srv.Children("/other"))
		require.NoError(t, vs[1].Leave(t.Context()))
		require.Empty(t, w.srv.Children("/d"))
	})
}

func TestB35DoubleBarrierAndCloseWhileDisconnected(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		vs := visits(t, enter(t, couple(c)), enter(t, couple(w.stranger(nil))))
		waits := enter(t, NewDoubleBarrier(c, "/other", 2))
		synctest.Wait()
		w.away(c)
		began := time.Now()
		require.ErrorContains(t, c.Close(), "left to time out")
		_, err := waits.wait()
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, vs[0].Err(), ErrClosed)
		require.Less(t, time.Since(began), 2*time.Second)
		require.NoError(t, vs[1].Leave(within(t, time.Minute)), "when the session has timed out")
	})
}

func TestB36DoubleBarrierWithoutTheRightsIsAnErrorAtOnce(t *testing.T) {
	ctx, path, admin := within(t, 30*time.Second), newPath(t), raw(t)
	require.NoError(t, admin.AddAuth("digest", []byte("owner:x")))
	restrict := func(path string, perms int32) {
		_, err := admin.SetACL(path, append(zk.WorldACL(perms), zk.DigestACL(zk.PermAll, "owner", "x")...), -1)
		require.NoError(t, err)
	}
	try := func() error { _, err := NewDoubleBarrier(dial(t, nil), path, 2).Enter(ctx); return err }
	makeParents(t, admin, parent(path))
	restrict(parent(path), zk.PermRead)
	require.ErrorIs(t, try(), zk.ErrNoAuth, "the path cannot be made")
	restrict(parent(path), zk.PermAll)

	c := dial(t, nil)
	waiting := enter(t, NewDoubleBarrier(c, path, 2))
	watching(t, c, 1)
	for perms, what := range map[int32]string{
		zk.PermAll &^ zk.PermCreate: "no member",
		zk.PermAll &^ zk.PermRead:   "no listing",
	} {
		restrict(path, perms)
		require.ErrorIs(t, try(), zk.ErrNoAuth, what)
		restrict(path, zk.PermAll)
		eventually(t, "one member", func() bool { return len(children(t, admin, path)) == 1 })
	}
	restrict(path, zk.PermAll&^zk.PermWrite)
	require.ErrorContains(t, try(), "the znode may not be written")
	restrict(path, zk.PermAll)
	eventually(t, "one member", func() bool { return len(children(t, admin, path)) == 1 })
	require.True(t, waiting.waiting())
	leaveAll(t, visits(t, waiting, enter(t, NewDoubleBarrier(dial(t, nil), path, 2)))...)
}

func TestB37DoubleBarrierOnABusyServer(t *testing.T) {
	for name, after := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				for _, code := range []int32{jute.ErrOperationTimeout, jute.ErrConnectionLoss, jute.ErrThrottled} {
					for _, op := range []string{opEnter, opOpenAll, opLastLeaves, "multi(delete)", "createContainer", "getData", "exists", "getChildren2", "sync"} {
						w.plan.Add(zktest.Fault{Do: zktest.Answer, After: after, Op: op, Code: code, Times: 3})
					}
					for range 2 {
						leaveAll(t, visits(t, enter(t, couple(w.stranger(nil))), enter(t, couple(w.stranger(nil))))...)
					}
					synctest.Wait()
					require.Empty(t, w.srv.Children("/d"))
				}
			})
		})
	}
}

func TestB37DoubleBarrierBeyondTheQuotaIsAnErrorAtOnce(t *testing.T) {
	for _, op := range []string{opEnter, opOpenAll} {
		t.Run(op, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				first := enter(t, couple(w.stranger(nil)))
				synctest.Wait()
				w.plan.Add(zktest.Fault{Do: zktest.Answer, Op: op, Code: jute.ErrQuotaExceeded})
				_, err := couple(w.stranger(nil)).Enter(t.Context())
				require.ErrorContains(t, err, "quota exceeded")
				synctest.Wait()
				require.Len(t, w.inside(), 1)
				leaveAll(t, visits(t, first, enter(t, couple(w.stranger(nil))))...)
			})
		})
	}
}

func TestB39DoubleBarrierPathsThatAreNone(t *testing.T) {
	ctx, c, conn := within(t, 20*time.Second), dial(t, nil), raw(t)
	for path, why := range badPaths {
		_, err := NewDoubleBarrier(c, path, 2).Enter(ctx)
		require.EqualError(t, err, why("enter"))
	}
	path := newPath(t)
	makeParents(t, conn, parent(path))
	_, err := conn.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	for _, path := range []string{path, path + "/below"} {
		_, err = NewDoubleBarrier(c, path, 2).Enter(ctx)
		require.ErrorIs(t, err, zk.ErrNoChildrenForEphemerals)
	}
}

func TestB40ADoubleBarrierThatIsNone(t *testing.T) {
	var none context.Context
	var nilBarrier *DoubleBarrier
	ctx := within(t, 20*time.Second)
	c := dial(t, nil)
	for d, want := range map[*DoubleBarrier]string{
		nilBarrier:                           `"": not made by its constructor`,
		{}:                                   `"": not made by its constructor`,
		NewDoubleBarrier(nil, "/d", 2):       `/d: nil client`,
		NewDoubleBarrier(&Client{}, "/d", 2): `/d: client was not made by Dial`,
		NewDoubleBarrier(c, "/d", 0):         `/d: a double barrier of 0 members`,
		NewDoubleBarrier(c, "/d", -1):        `/d: a double barrier of -1 members`,
	} {
		v, err := d.Enter(ctx)
		require.Nil(t, v)
		require.ErrorContains(t, err, "zkrecipes: enter "+want)
	}
	_, err := NewDoubleBarrier(c, "/d", 2).Enter(none)
	require.EqualError(t, err, "zkrecipes: enter /d: nil context")
	var nilVisit *Visit
	require.EqualError(t, nilVisit.Leave(ctx), `zkrecipes: leave "": not made by Enter`)
	require.EqualError(t, new(Visit).Leave(ctx), `zkrecipes: leave "": not made by Enter`)
	path := newPath(t)
	v := visits(t, enter(t, NewDoubleBarrier(c, path, 1)))[0]
	require.EqualError(t, v.Leave(none), "zkrecipes: leave "+path+": nil context")
	require.NoError(t, v.Err())
	require.Panics(t, func() { v.Context(none) })
	require.NoError(t, v.Leave(ctx))
}

func TestB48SomebodysDataIsNoDoubleBarrier(t *testing.T) {
	ctx, path, conn := within(t, 20*time.Second), newPath(t), raw(t)
	makeParents(t, conn, parent(path))
	c := dial(t, nil)
	for i, data := range []string{"mine", "2"} {
		path := fmt.Sprint(path, i)
		_, err := conn.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		_, err = NewDoubleBarrier(c, path, 1).Enter(ctx)
		require.ErrorContains(t, err, "the znode holds data of its own")
		got, stat, err := conn.Get(path)
		require.NoError(t, err)
		require.Equal(t, data, string(got))
		require.Zero(t, stat.Version)
		require.Empty(t, children(t, conn, path))
	}
}

func TestB52DoubleBarrierOfAnIdentityThatNoRequestHasRoomFor(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(&Options{Identity: strings.Repeat("x", 1<<20)})
		requests := w.requests(func() {
			_, err := couple(c).Enter(t.Context())
			require.ErrorContains(t, err, "servers accept 1048575")
		})
		require.Zero(t, requests[opEnter])
	})
}

func TestB57HooksOfAVisitMayCloseTheClient(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var c *Client
		closed := make(chan error, 1)
		c = w.stranger(&Options{Trace: &Trace{Granted: func(e TraceEvent) {
			if e.Path == "/d" {
				closed <- c.Close()
			}
		}}})
		a := enter(t, NewDoubleBarrier(c, "/d", 1))
		v, err := a.wait()
		if err == nil {
			<-v.Context(t.Context()).Done()
			err = v.Err()
		}
		require.ErrorIs(t, err, ErrClosed)
		require.NoError(t, <-closed)
		synctest.Wait()
		require.Empty(t, w.inside())
	})
}
