package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// observer is told each change below a barrier's members, as it is applied, and
// counts who stands when ready says that they may go.
type observer struct {
	mu       sync.Mutex
	dir      string // the members' parent
	created  bool   // what says so is ready's creation; else that it is written
	standing map[string]bool
	opened   []int                     // how many stood, each time
	stood    map[int64]map[string]bool // who, by the transaction
}

func (o *observer) option() zktest.Option {
	o.standing, o.stood = map[string]bool{}, map[int64]map[string]bool{}
	return zktest.OnChange(func(c zktest.Change) {
		o.mu.Lock()
		defer o.mu.Unlock()
		switch name, ok := strings.CutPrefix(c.Path, o.dir+"/"); {
		case !ok:
		case name == "ready":
			if c.Created == o.created && !c.Deleted {
				o.opened = append(o.opened, len(o.standing))
				o.stood[c.Zxid] = maps.Clone(o.standing)
			}
		case c.Created:
			o.standing[name] = true
		case c.Deleted:
			delete(o.standing, name)
		}
	})
}

// openings returns how many stood at each, since the last call.
func (o *observer) openings() []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	opened := o.opened
	o.opened = nil
	return opened
}

// remain returns who still stands of those who stood at that opening.
func (o *observer) remain(zxid int64) (names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name := range o.stood[zxid] {
		if o.standing[name] {
			names = append(names, name)
		}
	}
	return names
}

// mishaps are what can happen to a request.
var mishaps = []zktest.Fault{
	{Do: zktest.Drop}, {Do: zktest.Drop, After: true},
	{Do: zktest.Expire}, {Do: zktest.Expire, After: true},
	{Do: zktest.Withhold}, {Do: zktest.Withhold, After: true},
	{Do: zktest.Delay, For: 3 * time.Second}, {Do: zktest.Delay, For: 3 * time.Second, After: true},
	{Do: zktest.Answer, Code: jute.ErrOperationTimeout}, {Do: zktest.Answer, Code: jute.ErrOperationTimeout, After: true},
}

// eachRequest runs f with each mishap to the first request, to the second, ...,
// until there is none that it could happen to. f adds the fault to the plan.
func eachRequest(t *testing.T, mishaps []zktest.Fault, f func(t *testing.T, fault zktest.Fault) (met bool)) {
	for _, fault := range mishaps {
		n := 0
		for met := true; met; fault.Skip++ {
			t.Run(fmt.Sprint(fault), func(t *testing.T) { met = f(t, fault) })
			n++
			require.Less(t, n, 500)
		}
		require.Greater(t, n, 5, "requests")
	}
}

// met reports whether the only fault of the plan has fired.
func (w *world) met() bool {
	for _, n := range w.plan.Fired() {
		return n > 0
	}
	return false
}

// Three members of one round, and something happens to one of their requests.
// Either all are told that it was opened, or none is; who cannot know says so.
func TestB45WhateverHappensToARequestTheRoundOpensForAllOrForNone(t *testing.T) {
	seen := map[string]int{}
	eachRequest(t, mishaps, func(t *testing.T, fault zktest.Fault) (met bool) {
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
							continue // not named, for certain: it comes again
						}
						mu.Lock()
						defer mu.Unlock()
						switch {
						case err == nil:
							if indexes[index] {
								t.Error("one index twice:", index)
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
	})
	t.Log(seen)
	require.NotZero(t, seen["2 through, 1 uncertain"])
}

// Another waits, and one cancels while one of its requests is under way: either
// the round is opened with it, and both are told, or neither is.
func TestB32MemberThatCancelsAtEveryStepIsNamedAndToldSoOrNeither(t *testing.T) {
	delays := []zktest.Fault{
		{Do: zktest.Delay, For: time.Second}, {Do: zktest.Delay, For: time.Second, After: true},
	}
	seen := map[string]int{}
	for name, first := range map[string]bool{"first to come": true, "last to come": false} {
		t.Run(name, func(t *testing.T) {
			eachRequest(t, delays, func(t *testing.T, fault zktest.Fault) (met bool) {
				o := &observer{dir: roundOf2}
				inBubble(t, func(t *testing.T, w *world) {
					b, other := pairing(w.stranger(nil)), pairing(w.stranger(nil))
					var a, partner *going[int]
					if !first {
						partner = attend(t, other)
						synctest.Wait()
					}
					w.plan.Add(fault)
					a = attend(t, b)
					if first {
						time.Sleep(500 * time.Millisecond)
						partner = attend(t, other)
					}
					synctest.Wait()
					reason := errors.New("enough")
					a.cancel(reason)
					time.Sleep(5 * time.Second)
					_, err := a.wait()
					met = w.met()
					if err == nil {
						seen["named"]++
						_, err := partner.wait()
						require.NoError(t, err)
						return
					}
					seen["not named"]++
					require.ErrorIs(t, err, reason)
					require.NotErrorIs(t, err, ErrUncertain, "it was connected")
					require.True(t, partner.waiting())
					require.Len(t, w.present(), 1, "the partner")
					indexes(t, partner, attend(t, b))
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

// The opening and the cancelling are on their way at the same time.
func TestB32CancelRacingTheOpeningEachOrder(t *testing.T) {
	t.Run("the opening comes first", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			a := attend(t, pairing(w.stranger(nil)))
			synctest.Wait()
			w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opGiveUp, For: time.Second})
			a.cancel(nil)
			synctest.Wait()
			require.True(t, a.waiting())
			indexes(t, a, attend(t, pairing(w.stranger(nil))))
			synctest.Wait()
			require.Empty(t, w.srv.Children("/b"))
		})
	})
	t.Run("the cancelling comes first", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			a := attend(t, pairing(w.stranger(nil)))
			synctest.Wait()
			w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opPair, For: time.Second})
			partner := attend(t, pairing(w.stranger(nil)))
			synctest.Wait()
			a.cancel(nil)
			_, err := a.wait()
			require.ErrorIs(t, err, context.Canceled)
			time.Sleep(2 * time.Second)
			require.True(t, partner.waiting(), "the opening was refused")
			indexes(t, partner, attend(t, pairing(w.stranger(nil))))
		})
	})
	t.Run("its answer is lost", func(t *testing.T) {
		for name, opened := range map[string]bool{"opened": true, "not opened": false} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					c := w.stranger(nil)
					a := attend(t, pairing(c))
					synctest.Wait()
					w.plan.Add(zktest.Fault{Do: zktest.Answer, After: true, Op: opGiveUp, Code: jute.ErrOperationTimeout, Times: 2})
					if opened {
						w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opGiveUp, For: time.Second})
					}
					a.cancel(nil)
					synctest.Wait()
					if opened {
						indexes(t, a, attend(t, pairing(w.stranger(nil))))
						return
					}
					_, err := a.wait()
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
	for name, first := range map[string]bool{"first": true, "last, with the duty to open": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				b, other := pairing(w.stranger(nil)), pairing(w.stranger(nil))
				var partner *going[int]
				if !first {
					partner = attend(t, other)
					synctest.Wait()
				}
				// The search fails at first, too.
				joins := 1
				if first {
					joins = 2 // the first finds no round
				}
				w.plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: opAttend, Skip: joins - 1},
					zktest.Fault{Do: zktest.Drop, Op: "sync", Times: 2})
				var a *going[int]
				requests := w.requests(func() { a = attend(t, b); time.Sleep(time.Second) })
				require.Equal(t, joins, requests[opAttend], "found, not repeated")
				if first {
					require.Len(t, w.present(), 1)
					partner = attend(t, other)
				}
				indexes(t, a, partner)
				synctest.Wait()
				require.Empty(t, w.srv.Children("/b"))
			})
		})
	}
}

// The server of the next connection does not have the join yet.
func TestB03SearchForAMemberAsksBehindASync(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := attend(t, pairing(w.stranger(nil)))
		synctest.Wait()
		b := pairing(w.stranger(nil))
		w.plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: opAttend})
		requests := w.requests(func() { indexes(t, a, attend(t, b)) })
		require.Equal(t, 1, requests[opAttend])
	}, behind(2, 1))
}

func TestB45OpeningWhoseReplyIsLost(t *testing.T) {
	for name, after := range map[string]bool{"applied": true, "not applied": false} {
		for _, do := range []zktest.Action{zktest.Drop, zktest.Answer} {
			t.Run(name+" "+string(do), func(t *testing.T) {
				o := &observer{dir: roundOf2}
				inBubble(t, func(t *testing.T, w *world) {
					a := attend(t, pairing(w.stranger(nil)))
					synctest.Wait()
					w.plan.Add(zktest.Fault{Do: do, After: after, Op: opPair, Code: jute.ErrConnectionLoss, Times: 2})
					indexes(t, a, attend(t, pairing(w.stranger(nil))))
					require.Equal(t, []int{2}, o.openings(), "once")
				}, o.option())
			})
		}
	}
}

func TestB07MemberThatLeavesWhoseReplyIsLost(t *testing.T) {
	for name, after := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: opLetGo, Times: 2})
				a, b := pairing(w.stranger(nil)), pairing(w.stranger(nil))
				for range 2 {
					indexes(t, attend(t, a), attend(t, b))
				}
				synctest.Wait()
				require.Empty(t, w.present())
			})
		})
	}
}

// It waits while there is no connection; the session ends, and the next one has
// the only member.
func TestB05JoinOfABarrierWhileDisconnectedRunsInTheNextSessionOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		indexes(t, attend(t, pairing(c)), attend(t, pairing(c))) // agreed
		synctest.Wait()
		w.away(c)
		a := attend(t, pairing(c))
		synctest.Wait()
		id := sessionID(c)
		w.srv.Expire(id)
		w.back()
		time.Sleep(time.Minute)
		require.NotEqual(t, id, sessionID(c))
		require.Len(t, w.present(), 1)
		require.True(t, a.waiting())
		indexes(t, a, attend(t, pairing(w.stranger(nil))))
	})
}

// The opening is on its way to a client that hears it after its session has
// ended: it was named, and is told so.
func TestB11MemberThatWasNamedBeforeItsSessionEndedIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		still := newStall(w.srv)
		c := w.stranger(&Options{Dialer: still.Dial})
		a := attend(t, pairing(c))
		synctest.Wait()
		still.stop()
		partner := attend(t, pairing(w.stranger(nil)))
		index := indexOf(t, partner)
		synctest.Wait()
		require.Len(t, w.present(), 1)
		time.Sleep(11 * time.Second)
		require.Empty(t, w.present(), "expired")
		require.True(t, a.waiting())
		still.resume()
		require.Equal(t, 1-index, indexOf(t, a))
	})
}

// Not named, and another round with the same numbers stands when it hears: that
// one's ready tells nothing about it.
func TestB11MemberOfAnExpiredSessionDoesNotBelieveAnotherRoundsReady(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		still := newStall(w.srv)
		c := w.stranger(&Options{Dialer: still.Dial})
		a := attend(t, pairing(c))
		synctest.Wait()
		number := w.present()[0].number
		still.lose()
		time.Sleep(11 * time.Second)
		require.Empty(t, w.present())
		conn := w.bare()
		require.NoError(t, conn.Delete(readyOf2, -1))
		require.NoError(t, conn.Delete(roundOf2, -1))
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opLetGo, For: time.Hour, Times: -1})
		one := attend(t, pairing(w.stranger(nil)))
		synctest.Wait()
		require.Equal(t, number, w.present()[0].number, "the same number")
		indexes(t, one, attend(t, pairing(w.stranger(nil))))
		still.resume()
		_, err := a.wait()
		require.ErrorIs(t, err, zk.ErrSessionExpired)
		require.ErrorIs(t, err, ErrUncertain, "its own round has gone")
		w.back()
	})
}

func TestB18BarrierWaitsThroughAServerRestart(t *testing.T) {
	node := ownNode(t, zkserver.Config{})
	servers := []string{node.Addr()}
	path := newPath(t)
	var waiting []*going[int]
	for range 2 {
		c := dialTo(t, servers, nil)
		waiting = append(waiting, attend(t, NewBarrier(c, path, 3)))
		sleeps(t, c, 1)
	}
	require.NoError(t, node.Kill(t.Context()))
	require.NoError(t, node.Restart(t.Context()))
	last := attend(t, NewBarrier(dialTo(t, servers, nil), path, 3))
	indexes(t, append(waiting, last)...)
}

func TestB21RoundOpenedWhileDisconnectedIsHeardOfAfterTheReconnect(t *testing.T) {
	r := newRig(t, nil)
	path := r.path + "-b"
	a := attend(t, NewBarrier(r.c, path, 2))
	sleeps(t, r.c, 1)
	r.p.refusing(true)
	partner := attend(t, NewBarrier(dial(t, nil), path, 2))
	index := indexOf(t, partner)
	require.True(t, a.waiting())
	r.p.refusing(false)
	require.Equal(t, 1-index, indexOf(t, a))
}

// An operator deletes a member.
func TestB22EvictedMemberOfABarrierIsToldAndNotCounted(t *testing.T) {
	for name, pause := range map[string]time.Duration{"early": 0, "late": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				a := attend(t, pairing(w.stranger(nil)))
				time.Sleep(pause)
				synctest.Wait()
				require.NoError(t, w.bare().Delete(roundOf2+"/"+w.present()[0].name, -1))
				time.Sleep(2 * time.Second)
				require.False(t, a.waiting())
				_, err := a.wait()
				require.ErrorIs(t, err, ErrEvicted)
				require.NotErrorIs(t, err, ErrUncertain)
				one := attend(t, pairing(w.stranger(nil)))
				synctest.Wait()
				require.True(t, one.waiting())
				indexes(t, one, attend(t, pairing(w.stranger(nil))))
			})
		})
	}
}

// A member that was named is deleted before it has heard.
func TestB22EvictedMemberThatWasNamedIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		still := newStall(w.srv)
		a := attend(t, pairing(w.stranger(&Options{Dialer: still.Dial, SessionTimeout: time.Minute})))
		time.Sleep(10 * time.Second) // it watches its own znode
		synctest.Wait()
		still.stop()
		own := w.present()[0].name
		index := indexOf(t, attend(t, pairing(w.stranger(nil))))
		synctest.Wait()
		require.Len(t, w.present(), 1, "the other has left")
		require.NoError(t, w.bare().Delete(roundOf2+"/"+own, -1))
		still.resume()
		require.Equal(t, 1-index, indexOf(t, a))
	}, zktest.SessionTimeouts(time.Second, time.Hour))
}

// wipe deletes a tree, at once.
func wipe(t testing.TB, conn *zk.Conn, path string) {
	t.Helper()
	var ops []any
	var add func(path string)
	add = func(path string) {
		for _, name := range children(t, conn, path) {
			add(path + "/" + name)
		}
		ops = append(ops, &zk.DeleteRequest{Path: path, Version: -1})
	}
	add(path)
	_, err := conn.Multi(ops...)
	require.NoError(t, err)
}

func TestB23RoundDeletedUnderItsMembers(t *testing.T) {
	for _, what := range []string{"/b/round", "/b"} {
		for name, again := range map[string]bool{"and made again": true, "for good": false} {
			t.Run(what+" "+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					c := w.stranger(nil)
					a := attend(t, NewBarrier(c, "/b", 3))
					still := newStall(w.srv)
					d := w.stranger(&Options{Dialer: still.Dial})
					b := attend(t, NewBarrier(d, "/b", 3))
					synctest.Wait()
					still.stop() // it hears of it later
					wipe(t, w.bare(), what)
					var others []*going[int]
					if again {
						for range 2 {
							others = append(others, attend(t, NewBarrier(w.stranger(nil), "/b", 3)))
						}
						synctest.Wait()
					}
					still.resume()
					for _, m := range []*going[int]{a, b} {
						_, err := m.wait()
						require.ErrorIs(t, err, ErrEvicted)
						require.ErrorIs(t, err, ErrUncertain, "whether the round had been opened is not known any more")
					}
					for len(others) < 3 {
						others = append(others, attend(t, NewBarrier(c, "/b", 3)))
					}
					indexes(t, others...)
				})
			})
		}
	}
}

func TestB24BarrierWhosePathWasReapedIsMadeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, b := pairing(w.stranger(nil)), pairing(w.stranger(nil))
		for range 3 {
			indexes(t, attend(t, a), attend(t, b))
			synctest.Wait()
			wipe(t, w.bare(), "/b")
			indexes(t, attend(t, a), attend(t, b))
			synctest.Wait()
			// Each time before the round is there.
			w.plan.Add(zktest.Fault{Do: zktest.Answer, Op: opRound, Code: jute.ErrNoNode, Times: 5})
		}
		w.plan.Add(zktest.Fault{Do: zktest.Answer, Op: opRound, Code: jute.ErrNoNode, Times: -1})
		_, err := a.Wait(t.Context())
		require.ErrorIs(t, err, errContended, "a bounded number of times")
	})
}

// Children that are no members.
func TestB25ForeignChildrenOfABarrierAreNotCounted(t *testing.T) {
	ctx, path, conn := within(t, 30*time.Second), newPath(t), raw(t)
	c := dial(t, nil)
	a := attend(t, NewBarrier(c, path, 2))
	sleeps(t, c, 1)
	for _, name := range []string{
		"x", "member", "member-", "member-12", "_c_x", "ünï-member-000000000x", "lock-0000000001", "readyy",
		"_c_" + curatorUUID(0) + "-__READ__0000000001", curatorUUID(1),
	} {
		for _, dir := range []string{path, path + "/round"} {
			_, err := conn.Create(dir+"/"+name, nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
	}
	require.True(t, a.waiting())
	early := attend(t, NewBarrier(dial(t, nil), path, 2))
	indexes(t, a, early)
	// An opened round with such a child can never be deleted.
	_, err := NewBarrier(c, path, 2).Wait(ctx)
	require.ErrorContains(t, err, "stands in the round, which cannot be deleted: something else uses this path")
	for _, name := range children(t, conn, path+"/round") {
		if name != "ready" {
			require.NoError(t, conn.Delete(path+"/round/"+name, -1))
		}
	}
	indexes(t, attend(t, NewBarrier(c, path, 2)), attend(t, NewBarrier(dial(t, nil), path, 2)))
}

func TestB28CounterOfARoundAtItsEnd(t *testing.T) {
	for name, next := range map[string]int32{"past the limit": maxNumber + 1, "at its end": 1<<31 - 1, "negative": -5} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.stranger(nil)
				a := attend(t, pairing(c))
				synctest.Wait()
				require.NoError(t, w.srv.SetCounter(roundOf2, next))
				_, err := pairing(c).Wait(t.Context())
				require.ErrorIs(t, err, ErrExhausted)
				synctest.Wait()
				require.True(t, a.waiting())
				require.Len(t, w.present(), 1)
			})
		})
	}
}

// leftBehind returns at how many paths a client still settles what its callers left.
func leftBehind(c *Client) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.left)
}

// A member that is cancelled while it is disconnected returns at once, and this
// client's next one comes when the old one has gone: it does not meet itself.
func TestB33NextMemberOfAClientWaitsUntilTheCancelledOneIsSettled(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		b := pairing(c)
		a := attend(t, b)
		synctest.Wait()
		w.away(c)
		a.cancel(errors.New("enough"))
		synctest.Wait()
		require.False(t, a.waiting())
		_, err := a.wait()
		require.ErrorIs(t, err, ErrUncertain)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "enough")
		require.Len(t, w.present(), 1)
		again := attend(t, NewBarrier(c, "/b", 2))
		late := attend(t, b)
		synctest.Wait()
		late.cancel(nil)
		_, err = late.wait()
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, ErrUncertain, "it has not begun")
		w.back()
		w.plan.Add(zktest.Fault{Do: zktest.Answer, Op: opGiveUp, Code: jute.ErrThrottled, Times: 5})
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			require.LessOrEqual(t, len(w.present()), 1)
			require.True(t, again.waiting())
		}
		require.Len(t, w.present(), 1)
		indexes(t, again, attend(t, pairing(w.stranger(nil))))
		synctest.Wait()
		require.Zero(t, leftBehind(c))
	})
}

// The round was opened while the one who cancelled could not hear.
func TestB33CancelledWhileDisconnectedAndNamedAfterAll(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c, other := w.stranger(nil), w.stranger(nil)
		a := attend(t, pairing(c))
		synctest.Wait()
		w.away(c)
		a.cancel(nil)
		_, err := a.wait()
		require.ErrorIs(t, err, ErrUncertain)
		require.Zero(t, 1-indexOf(t, attend(t, pairing(other))), "with the one who cancelled")
		again, next := attend(t, pairing(c)), attend(t, pairing(other))
		synctest.Wait()
		require.True(t, next.waiting(), "the old member holds the round")
		w.back()
		time.Sleep(time.Minute)
		indexes(t, again, next)
	})
}

// What was never sent is no member.
func TestB32WaitThatIsCancelledBeforeItIsSentIsNotUncertain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		indexes(t, attend(t, pairing(c)), attend(t, pairing(c)))
		synctest.Wait()
		w.away(c)
		b := pairing(c)
		for range 50 {
			a := attend(t, b)
			synctest.Wait()
			// A cause is not the servers' answer, whatever it says.
			a.cancel(errors.Join(zk.ErrNoNode, zk.ErrBadVersion, zk.ErrSessionExpired))
			_, err := a.wait()
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, ErrUncertain)
			require.NotErrorIs(t, err, errContended)
		}
		requests := w.requests(func() { w.back(); time.Sleep(time.Minute) })
		require.Zero(t, requests[opAttend])
	})
}

// An early comer that gives up was never a member.
func TestB32EarlyComerThatIsCancelledIsNotUncertain(t *testing.T) {
	for name, gone := range map[string]bool{"connected": false, "disconnected": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.plan.Add(zktest.Fault{Do: zktest.Withhold, Op: opLetGo, Times: 2})
				indexes(t, attend(t, pairing(w.stranger(nil))), attend(t, pairing(w.stranger(nil))))
				c := w.stranger(nil)
				early := attend(t, pairing(c))
				synctest.Wait()
				require.True(t, early.waiting())
				require.Len(t, w.present(), 2)
				if gone {
					w.away(c)
				}
				early.cancel(nil)
				synctest.Wait()
				require.False(t, early.waiting())
				_, err := early.wait()
				require.ErrorIs(t, err, context.Canceled)
				require.NotErrorIs(t, err, ErrUncertain)
			})
		})
	}
}

// Ten thousand members that are cancelled leave no member, and one watch.
func TestB32CancelledMembersLeaveNoWatches(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		b := pairing(c)
		for range 1000 {
			a := attend(t, b)
			synctest.Wait()
			a.cancel(nil)
			_, err := a.wait()
			require.ErrorIs(t, err, context.Canceled)
		}
		synctest.Wait()
		require.Empty(t, w.present())
		require.LessOrEqual(t, watchesOf(c), 1, "on ready, while there is a round")
	})
}

func TestB35BarrierAndClose(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		var as []*going[int]
		for range 5 {
			as = append(as, attend(t, NewBarrier(c, "/b", 6)))
		}
		synctest.Wait()
		other := attend(t, NewBarrier(w.stranger(nil), "/other", 2))
		require.NoError(t, c.Close())
		for _, a := range as {
			_, err := a.wait()
			require.ErrorIs(t, err, ErrClosed)
			require.NotErrorIs(t, err, ErrUncertain)
			require.NotErrorIs(t, err, context.Canceled)
		}
		require.Empty(t, w.present())
		require.NoError(t, c.Close())
		_, err := NewBarrier(c, "/b", 6).Wait(t.Context())
		require.ErrorIs(t, err, ErrClosed)
		require.True(t, other.waiting())
	})
}

// The opening is on its way when the Client is closed.
func TestB35CloseRacingTheOpening(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		a := attend(t, pairing(c))
		synctest.Wait()
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opGiveUp, For: time.Second})
		closed := does(t, func(context.Context) error { return c.Close() })
		synctest.Wait()
		indexes(t, a, attend(t, pairing(w.stranger(nil))))
		_, err := closed.wait()
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, w.srv.Children("/b"))
	})
}

func TestB35BarrierAndCloseWhileDisconnected(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		a := attend(t, pairing(c))
		synctest.Wait()
		w.away(c)
		began := time.Now()
		require.ErrorContains(t, c.Close(), "left to time out")
		_, err := a.wait()
		require.Less(t, time.Since(began), 2*time.Second)
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, err, ErrUncertain)
		w.back()
		time.Sleep(time.Minute)
		require.Empty(t, w.present())
	})
}

func TestB36BarrierWithoutTheRightsIsAnErrorAtOnce(t *testing.T) {
	ctx, path, admin := within(t, 30*time.Second), newPath(t), raw(t)
	require.NoError(t, admin.AddAuth("digest", []byte("owner:x")))
	restrict := func(path string, perms int32) {
		_, err := admin.SetACL(path, append(zk.WorldACL(perms), zk.DigestACL(zk.PermAll, "owner", "x")...), -1)
		require.NoError(t, err)
	}
	c, other := dial(t, nil), dial(t, nil)
	wait := func(c *Client) error { _, err := NewBarrier(c, path, 2).Wait(ctx); return err }
	makeParents(t, admin, parent(path))

	restrict(parent(path), zk.PermRead)
	require.ErrorIs(t, wait(c), zk.ErrNoAuth, "the path cannot be made")
	restrict(parent(path), zk.PermAll)
	_, err := admin.Create(path, []byte("2"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	restrict(path, 0)
	require.ErrorIs(t, wait(c), zk.ErrNoAuth, "nor read")
	restrict(path, zk.PermRead)
	require.ErrorIs(t, wait(c), zk.ErrNoAuth, "nor the round made")
	restrict(path, zk.PermAll)

	waiting := attend(t, NewBarrier(other, path, 2))
	sleeps(t, other, 1)
	for perms, what := range map[int32]string{
		zk.PermAll &^ zk.PermCreate: "no member",
		zk.PermAll &^ zk.PermWrite:  "not counted",
		zk.PermAll &^ zk.PermRead:   "no listing",
	} {
		restrict(path+"/round", perms)
		err := wait(c)
		require.ErrorIs(t, err, zk.ErrNoAuth, what)
		require.NotErrorIs(t, err, ErrUncertain, what)
		restrict(path+"/round", zk.PermAll)
		eventually(t, "one member", func() bool { return len(children(t, admin, path+"/round")) == 2 })
		require.True(t, waiting.waiting(), what)
	}
	restrict(path+"/round/ready", zk.PermAll&^zk.PermWrite)
	err = wait(c)
	require.ErrorIs(t, err, zk.ErrNoAuth, "the round cannot be opened")
	require.NotErrorIs(t, err, ErrUncertain, "nor by others")
	restrict(path+"/round/ready", zk.PermAll)
	indexes(t, waiting, attend(t, NewBarrier(c, path, 2)))
}

func TestB37BarrierOnABusyServer(t *testing.T) {
	for name, after := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				for _, code := range []int32{jute.ErrOperationTimeout, jute.ErrConnectionLoss, jute.ErrThrottled} {
					for _, op := range []string{opAttend, opLetGo, opRound, opOver, opPair, "createContainer", "getData", "getChildren2", "sync"} {
						w.plan.Add(zktest.Fault{Do: zktest.Answer, After: after, Op: op, Code: code, Times: 3})
					}
					for range 2 {
						indexes(t, attend(t, pairing(w.stranger(nil))), attend(t, pairing(w.stranger(nil))))
					}
				}
			})
		})
	}
}

func TestB37BarrierBeyondTheQuotaIsAnErrorAtOnce(t *testing.T) {
	const quota = "quota exceeded"
	for op, why := range map[string]string{
		opAttend: quota, opRound: quota, opPair: quota,
		"createContainer": "-125", // go-zookeeper does not know it
	} {
		t.Run(op, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				var first *going[int]
				if op == opPair {
					first = attend(t, pairing(w.stranger(nil)))
					synctest.Wait()
				}
				w.plan.Add(zktest.Fault{Do: zktest.Answer, Op: op, Code: jute.ErrQuotaExceeded})
				c := w.stranger(nil)
				a := attend(t, pairing(c))
				_, err := a.wait()
				require.ErrorContains(t, err, why)
				require.NotErrorIs(t, err, ErrUncertain)
				if first == nil {
					first = attend(t, pairing(c))
				}
				synctest.Wait()
				require.Len(t, w.present(), 1)
				indexes(t, first, attend(t, pairing(w.stranger(nil))))
			})
		})
	}
}

func TestB39BarrierPathsThatAreNone(t *testing.T) {
	ctx, c, conn := within(t, 20*time.Second), dial(t, nil), raw(t)
	for path, why := range badPaths {
		_, err := NewBarrier(c, path, 2).Wait(ctx)
		require.EqualError(t, err, why("wait"))
	}
	path := newPath(t)
	makeParents(t, conn, parent(path))
	_, err := conn.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	for _, path := range []string{path, path + "/below"} {
		_, err = NewBarrier(c, path, 2).Wait(ctx)
		require.ErrorIs(t, err, zk.ErrNoChildrenForEphemerals)
	}
}

func TestB40ABarrierThatIsNone(t *testing.T) {
	var none context.Context
	var nilBarrier *Barrier
	ctx := within(t, 20*time.Second)
	c := dial(t, nil)
	for b, want := range map[*Barrier]string{
		nilBarrier:                     `"": not made by its constructor`,
		{}:                             `"": not made by its constructor`,
		NewBarrier(nil, "/b", 2):       `/b: nil client`,
		NewBarrier(&Client{}, "/b", 2): `/b: client was not made by Dial`,
		NewBarrier(c, "/b", 0):         `/b: a barrier of 0 members`,
		NewBarrier(c, "/b", -1):        `/b: a barrier of -1 members`,
	} {
		_, err := b.Wait(ctx)
		require.ErrorContains(t, err, "zkrecipes: wait "+want)
	}
	_, err := NewBarrier(c, "/b", 2).Wait(none)
	require.EqualError(t, err, "zkrecipes: wait /b: nil context")
}

// The transaction that opens a round names all its members: what has no room is
// refused before anything is sent.
func TestB52BarrierOfMoreMembersThanATransactionHasRoomFor(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		most := 0
		for openingSize(roundOf2, most+1) <= jute.MaxFrame {
			most++
		}
		require.Greater(t, most, 9000)
		requests := w.requests(func() {
			for _, n := range []int{most + 1, 1 << 20, 1 << 40, int(^uint(0) >> 1), int(^uint(0)>>1)/111 + 1} {
				_, err := NewBarrier(c, "/b", n).Wait(t.Context())
				require.ErrorContains(t, err, fmt.Sprintf("a barrier of %d members: request of", n))
				require.ErrorContains(t, err, "servers accept 1048575")
			}
		})
		require.Empty(t, requests)
		require.NoError(t, NewBarrier(c, "/b", most).check(t.Context()))

		// The size is that of the largest one in fact, and no less.
		name := "_c_" + newUUID() + "-member-"
		var ms []member
		ops := []any{nil}
		for i := range most { // every other number, of ten digits
			number := 1_000_000_000 + int32(2*i)
			ms = append(ms, member{number: number})
			ops = append(ops, &zk.CheckVersionRequest{Path: fmt.Sprintf("%s/%s%d", roundOf2, name, number), Version: -1})
		}
		ops[0] = &zk.SetDataRequest{Path: readyOf2, Data: ranges(ms)}
		frame := make([]byte, 0, 1<<20)
		for _, op := range ops {
			frame = appendOp(frame, op)
		}
		size := 8 + len(appendOpHeader(frame, -1, true)) // xid and operation
		require.LessOrEqual(t, size, openingSize(roundOf2, most))
		require.Greater(t, size, openingSize(roundOf2, most-1))
	})
}

func TestB52BarrierOfAnIdentityThatNoRequestHasRoomFor(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(&Options{Identity: strings.Repeat("x", 1<<20)})
		_, err := pairing(c).Wait(t.Context())
		require.ErrorContains(t, err, "servers accept 1048575")
		require.NotErrorIs(t, err, ErrUncertain)
		require.Empty(t, w.present())
		require.Equal(t, 1, w.srv.Requests()["connect"], "the connection is untouched")
	})
}

// What an operator does to ready. Nobody waits for ever, and the next round is
// not in the way.
func TestB45ReadyThatSomebodyElseHasWritten(t *testing.T) {
	for name, data := range map[string]string{"empty": "", "junk": "go!", "no number": "1-", "a number": "7"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.stranger(nil)
				a := attend(t, pairing(c))
				synctest.Wait()
				conn := w.bare()
				_, err := conn.Set(readyOf2, []byte(data), -1)
				require.NoError(t, err)
				synctest.Wait()
				if name == "a number" { // it reads as if others had been let go
					require.True(t, a.waiting())
				} else {
					_, err = a.wait()
					require.ErrorContains(t, err, "somebody else has written the round's ready")
					require.ErrorIs(t, err, ErrUncertain)
					a = attend(t, pairing(c))
				}
				indexes(t, a, attend(t, pairing(w.stranger(nil))))

				// Written twice, it is not deleted: nobody knows what it stands for.
				a = attend(t, pairing(c))
				synctest.Wait()
				write := &zk.SetDataRequest{Path: readyOf2, Data: []byte("go!"), Version: -1}
				_, err = conn.Multi(write, write)
				require.NoError(t, err)
				_, err = a.wait()
				require.ErrorIs(t, err, ErrUncertain)
				synctest.Wait()
				_, err = pairing(c).Wait(t.Context())
				require.ErrorContains(t, err, "somebody else has written the round's ready, and the round cannot be deleted")
			})
		})
	}
}

func TestB45RoundWithoutReadyIsAnErrorAndNoSpin(t *testing.T) {
	for name, again := range map[string]bool{"deleted": false, "and made again": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.stranger(nil)
				a := attend(t, NewBarrier(c, "/b", 3))
				b := attend(t, NewBarrier(w.stranger(nil), "/b", 3))
				synctest.Wait()
				conn := w.bare()
				require.NoError(t, conn.Delete(readyOf2, -1))
				if again {
					_, err := conn.Create(readyOf2, nil, 0, zk.WorldACL(zk.PermAll))
					require.NoError(t, err)
				}
				for _, m := range []*going[int]{a, b} {
					_, err := m.wait()
					require.ErrorContains(t, err, "the round has no ready: somebody has deleted it")
				}
				synctest.Wait()
				require.Empty(t, w.present())
				if again {
					return // it is as good as any
				}
				requests := w.requests(func() {
					_, err := NewBarrier(c, "/b", 3).Wait(t.Context())
					require.ErrorContains(t, err, "the round has no ready: somebody has deleted it")
					require.NotErrorIs(t, err, ErrUncertain)
				})
				require.Equal(t, 2, requests[opAttend])
				require.NoError(t, conn.Delete(roundOf2, -1))
				indexes(t, attend(t, NewBarrier(c, "/b", 3)), attend(t, NewBarrier(c, "/b", 3)), attend(t, NewBarrier(c, "/b", 3)))
			})
		})
	}
}

// ready with a child of somebody's can never be deleted.
func TestB45ReadyThatCannotBeDeletedIsAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		a := attend(t, pairing(c))
		synctest.Wait()
		_, err := w.bare().Create(readyOf2+"/child", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		indexes(t, a, attend(t, pairing(c)))
		_, err = pairing(c).Wait(t.Context())
		require.ErrorIs(t, err, zk.ErrNotEmpty)
		require.ErrorContains(t, err, "ready cannot be deleted")
	})
}

func TestB46BarrierWhoseServerLostItsData(t *testing.T) {
	node := ownNode(t, zkserver.Config{})
	servers := []string{node.Addr()}
	path := newPath(t)
	c := dialTo(t, servers, &Options{SessionTimeout: 1500 * time.Millisecond})
	a := attend(t, NewBarrier(c, path, 2))
	sleeps(t, c, 2) // its own znode too
	require.NoError(t, node.Wipe(t.Context()))
	_, err := a.wait()
	require.ErrorIs(t, err, zk.ErrSessionExpired)
	require.ErrorIs(t, err, ErrUncertain, "nobody knows any more")
	indexes(t, attend(t, NewBarrier(c, path, 2)), attend(t, NewBarrier(dialTo(t, servers, nil), path, 2)))
}

func TestB48SomebodysDataIsNoBarrier(t *testing.T) {
	ctx, path, conn := within(t, 20*time.Second), newPath(t), raw(t)
	makeParents(t, conn, path)
	c := dial(t, nil)
	for i, data := range []string{"mine", "-2", "0", "2 ", "zkrecipes/1 mutex", "99999999999999999999"} {
		path := fmt.Sprint(path, "/", i)
		_, err := conn.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		_, err = NewBarrier(c, path, 2).Wait(ctx)
		require.ErrorContains(t, err, fmt.Sprintf("the znode holds other data than a barrier's number of members: %q", data))
		got, stat, err := conn.Get(path)
		require.NoError(t, err)
		require.Equal(t, data, string(got))
		require.Zero(t, stat.Version)
		require.Empty(t, children(t, conn, path))
	}
	// One that is empty is anybody's: made as a parent, mostly.
	indexes(t, attend(t, NewBarrier(c, path, 2)), attend(t, NewBarrier(dial(t, nil), path, 2)))
	data, _, err := conn.Get(path)
	require.NoError(t, err)
	require.Equal(t, "2", string(data))
}

// Nor is it written over when it comes between the look and the first join.
func TestB64DataPutOnAnEmptyZnodeBeforeABarrierClaimsItIsKept(t *testing.T) {
	r := newRig(t, nil)
	path := r.path + "-b"
	makeParents(t, r.raw, path)
	rule := r.p.on("multi(setData)", 1, hold)
	a := attend(t, NewBarrier(r.c, path, 2))
	r.p.await(rule)
	_, err := r.raw.Set(path, []byte("mine"), -1)
	require.NoError(t, err)
	rule.release()
	_, err = a.wait()
	require.ErrorContains(t, err, `number of members: "mine"`)
	data, _, err := r.raw.Get(path)
	require.NoError(t, err)
	require.Equal(t, "mine", string(data))
}

func TestB57HooksMayUseBarriersAndClose(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var c *Client
		said := make(chan error, 3)
		c = w.stranger(&Options{Trace: &Trace{SessionDown: func(TraceEvent) {
			said <- NewGate(c, "/gate").Shut(context.Background())
			_, err := NewBarrier(c, "/b", 1).Wait(context.Background())
			said <- err
			said <- c.Close()
		}}})
		a := attend(t, NewBarrier(c, "/waits", 2))
		synctest.Wait()
		require.True(t, w.srv.Disconnect(sessionID(c)))
		for range 3 {
			require.NoError(t, <-said)
		}
		_, err := a.wait()
		require.ErrorIs(t, err, ErrClosed)
	})
}
