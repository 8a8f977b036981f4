package zkrecipes

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What operators and other programs do to the znodes of a Barrier.

// An operator deletes the znode of a waiting member.
func TestB22EvictedMemberOfABarrierGetsErrEvictedAndIsNotCounted(t *testing.T) {
	for name, pause := range map[string]time.Duration{"early": 0, "late": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				a := waitLater(t, barrierOf2(w.stranger(nil)))
				time.Sleep(pause)
				synctest.Wait()
				require.NoError(t, w.bare().Delete(roundOf2+"/"+w.present()[0].Name, -1))
				time.Sleep(2 * time.Second)
				require.False(t, a.Waiting())
				_, err := a.Wait()
				require.ErrorIs(t, err, ErrEvicted)
				require.NotErrorIs(t, err, ErrUncertain)
				one := waitLater(t, barrierOf2(w.stranger(nil)))
				synctest.Wait()
				require.True(t, one.Waiting())
				indexes(t, one, waitLater(t, barrierOf2(w.stranger(nil))))
			})
		})
	}
}

// The search for the reply to the join has set the watch on the member already.
func TestB22EvictedMemberWhoseJoinWasSearchedForGetsErrEvicted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: opJoinRound, Skip: 1}) // the first one finds no round
		a := waitLater(t, barrierOf2(w.stranger(nil)))
		time.Sleep(500 * time.Millisecond)
		require.True(t, a.Waiting())
		require.NoError(t, w.bare().Delete(roundOf2+"/"+w.present()[0].Name, -1))
		synctest.Wait()
		require.False(t, a.Waiting(), "at once")
		_, err := a.Wait()
		require.ErrorIs(t, err, ErrEvicted)
	})
}

// The round was opened with a member whose znode is deleted before its client has
// read of the opening.
func TestB22MemberEvictedAfterTheOpeningGetsItsIndex(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		still := harness.NewLink(w.srv)
		a := waitLater(t, barrierOf2(w.stranger(&Options{Dialer: still.Dial, SessionTimeout: time.Minute})))
		time.Sleep(10 * time.Second) // it watches its own znode
		synctest.Wait()
		still.Stop()
		own := w.present()[0].Name
		index := indexOf(t, waitLater(t, barrierOf2(w.stranger(nil))))
		membersLeft()
		require.Len(t, w.present(), 1, "the other has left")
		require.NoError(t, w.bare().Delete(roundOf2+"/"+own, -1))
		still.Resume()
		require.Equal(t, 1-index, indexOf(t, a))
	}, zktest.SessionTimeouts(time.Second, time.Hour))
}

// wipe deletes a tree in one transaction.
func wipe(t testing.TB, conn *zk.Conn, path string) {
	t.Helper()
	var ops []any
	var add func(path string)
	add = func(path string) {
		for _, name := range harness.Children(t, conn, path) {
			add(path + "/" + name)
		}
		ops = append(ops, &zk.DeleteRequest{Path: path, Version: -1})
	}
	add(path)
	_, err := conn.Multi(ops...)
	require.NoError(t, err)
}

func TestB23MembersOfADeletedRoundGetErrEvicted(t *testing.T) {
	for _, what := range []string{"/b/round", "/b"} {
		for name, again := range map[string]bool{"and created again": true, "for good": false} {
			t.Run(what+" "+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					c := w.stranger(nil)
					a := waitLater(t, NewBarrier(c, "/b", 3))
					still := harness.NewLink(w.srv)
					d := w.stranger(&Options{Dialer: still.Dial})
					b := waitLater(t, NewBarrier(d, "/b", 3))
					synctest.Wait()
					still.Stop() // this client reads of the deletion later
					wipe(t, w.bare(), what)
					var others []*harness.Call[int]
					if again {
						for range 2 {
							others = append(others, waitLater(t, NewBarrier(w.stranger(nil), "/b", 3)))
						}
						synctest.Wait()
					}
					still.Resume()
					for _, m := range []*harness.Call[int]{a, b} {
						_, err := m.Wait()
						require.ErrorIs(t, err, ErrEvicted)
						require.ErrorIs(t, err, ErrUncertain, "nobody knows any more whether the round had been opened")
					}
					for len(others) < 3 {
						others = append(others, waitLater(t, NewBarrier(c, "/b", 3)))
					}
					indexes(t, others...)
				})
			})
		}
	}
}

func TestB24BarrierWhosePathWasReapedIsCreatedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, b := barrierOf2(w.stranger(nil)), barrierOf2(w.stranger(nil))
		for range 3 {
			indexes(t, waitLater(t, a), waitLater(t, b))
			membersLeft()
			wipe(t, w.bare(), "/b")
			indexes(t, waitLater(t, a), waitLater(t, b))
			membersLeft()
			// As if the path was reaped each time before the round is created.
			w.plan.Add(zktest.Fault{Do: zktest.Answer, Op: opMakeRound, Code: jute.ErrNoNode, Times: 5})
		}
		w.plan.Add(zktest.Fault{Do: zktest.Answer, Op: opMakeRound, Code: jute.ErrNoNode, Times: -1})
		_, err := a.Wait(t.Context())
		require.ErrorIs(t, err, zkconn.ErrContended, "the number of retries is bounded")
	})
}

// Children whose names are not those of members.
func TestB25ForeignChildrenOfABarrierAreNotCounted(t *testing.T) {
	ctx, path, conn := harness.Within(t, 30*time.Second), harness.NewPath(t), harness.Raw(t)
	c := dial(t, nil)
	a := waitLater(t, NewBarrier(c, path, 2))
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
	require.True(t, a.Waiting())
	early := waitLater(t, NewBarrier(dial(t, nil), path, 2))
	indexes(t, a, early)
	// The server does not delete an opened round that has such a child.
	_, err := NewBarrier(c, path, 2).Wait(ctx)
	require.ErrorContains(t, err, "path is used by something else")
	require.ErrorContains(t, err, "stands in the round")
	for _, name := range harness.Children(t, conn, path+"/round") {
		if name != "ready" {
			require.NoError(t, conn.Delete(path+"/round/"+name, -1))
		}
	}
	indexes(t, waitLater(t, NewBarrier(c, path, 2)), waitLater(t, NewBarrier(dial(t, nil), path, 2)))
}

func TestB28RoundWhoseCounterIsExhaustedIsAnError(t *testing.T) {
	for name, next := range map[string]int32{"past the limit": line.MaxNumber + 1, "at its end": 1<<31 - 1, "negative": -5} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.stranger(nil)
				a := waitLater(t, barrierOf2(c))
				synctest.Wait()
				require.NoError(t, w.srv.SetCounter(roundOf2, next))
				_, err := barrierOf2(c).Wait(t.Context())
				require.ErrorIs(t, err, ErrExhausted)
				synctest.Wait()
				require.True(t, a.Waiting())
				require.Len(t, w.present(), 1)
			})
		})
	}
}

// An operator writes to ready. No member waits for ever, and the next round is not
// blocked.
func TestB45ReadyWrittenBySomebodyElseLeavesNobodyWaiting(t *testing.T) {
	for name, data := range map[string]string{"empty": "", "junk": "go!", "no number": "1-", "two numbers": "7-8"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.stranger(nil)
				a := waitLater(t, barrierOf2(c))
				synctest.Wait()
				conn := w.insider()
				_, err := conn.Set(readyOf2, []byte(data), -1)
				require.NoError(t, err)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if name == "two numbers" { // which means that a round with other members was opened
					require.True(t, a.Waiting())
				} else {
					_, err = a.Wait()
					require.ErrorContains(t, err, "znode ready was written by somebody else")
					require.ErrorIs(t, err, ErrUncertain)
					a = waitLater(t, barrierOf2(c))
				}
				indexes(t, a, waitLater(t, barrierOf2(w.stranger(nil))))
				membersLeft()

				// A ready that was written twice is not deleted, as nobody knows what it
				// stands for.
				a = waitLater(t, barrierOf2(c))
				synctest.Wait()
				write := &zk.SetDataRequest{Path: readyOf2, Data: []byte("go!"), Version: -1}
				_, err = conn.Multi(write, write)
				require.NoError(t, err)
				_, err = a.Wait()
				require.ErrorIs(t, err, ErrUncertain)
				synctest.Wait()
				_, err = barrierOf2(c).Wait(t.Context())
				require.ErrorContains(t, err, "znode ready was written by somebody else, and the round cannot be deleted")
			})
		})
	}
}

func TestB45RoundWithoutReadyIsAnErrorWithoutSpinning(t *testing.T) {
	for name, again := range map[string]bool{"deleted": false, "and created again": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.stranger(nil)
				a := waitLater(t, NewBarrier(c, "/b", 3))
				b := waitLater(t, NewBarrier(w.stranger(nil), "/b", 3))
				synctest.Wait()
				conn := w.bare()
				_, err := conn.Multi(&zk.DeleteRequest{Path: readyOf2 + "/signal-of3", Version: -1}, &zk.DeleteRequest{Path: readyOf2, Version: -1})
				require.NoError(t, err)
				if again {
					_, err := conn.Create(readyOf2, nil, 0, zk.WorldACL(zk.PermAll))
					require.NoError(t, err)
				}
				for _, m := range []*harness.Call[int]{a, b} {
					_, err := m.Wait()
					require.ErrorContains(t, err, "znode ready is missing")
				}
				synctest.Wait()
				require.Empty(t, w.present())
				if again {
					return // that round works like any other
				}
				requests := w.requests(func() {
					_, err := NewBarrier(c, "/b", 3).Wait(t.Context())
					require.ErrorContains(t, err, "znode ready is missing")
					require.NotErrorIs(t, err, ErrUncertain)
				})
				require.Equal(t, 2, requests[opJoinRound])
				require.NoError(t, conn.Delete(roundOf2, -1))
				indexes(t, waitLater(t, NewBarrier(c, "/b", 3)), waitLater(t, NewBarrier(c, "/b", 3)), waitLater(t, NewBarrier(c, "/b", 3)))
			})
		})
	}
}

// Somebody has created a child below ready, so the server does not delete it.
func TestB45ReadyThatCannotBeDeletedIsAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		a := waitLater(t, barrierOf2(c))
		synctest.Wait()
		_, err := w.bare().Create(readyOf2+"/child", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		indexes(t, a, waitLater(t, barrierOf2(c)))
		_, err = barrierOf2(c).Wait(t.Context())
		require.ErrorIs(t, err, zk.ErrNotEmpty)
		require.ErrorContains(t, err, "ready cannot be deleted")
	})
}

func TestRealB46WaitAtABarrierIsUncertainWhenTheServerLostItsData(t *testing.T) {
	t.Parallel()
	node := harness.OwnNode(t, zkserver.Config{})
	servers := []string{node.Addr()}
	path := harness.NewPath(t)
	c := dialTo(t, servers, &Options{SessionTimeout: 1500 * time.Millisecond})
	a := waitLater(t, NewBarrier(c, path, 2))
	sleeps(t, c, 3) // on the signal, on ready and on its own znode
	require.NoError(t, node.Wipe(t.Context()))
	_, err := a.Wait()
	require.ErrorIs(t, err, zk.ErrSessionExpired)
	require.ErrorIs(t, err, ErrUncertain, "nobody knows any more whether the round had been opened")
	indexes(t, waitLater(t, NewBarrier(c, path, 2)), waitLater(t, NewBarrier(dialTo(t, servers, nil), path, 2)))
}
