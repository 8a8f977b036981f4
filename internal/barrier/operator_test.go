package barrier_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What operators and other programs do to the znodes of a Barrier.

// An operator deletes the znode of a waiting member.
func TestB22EvictedMemberOfABarrierGetsErrEvictedAndIsNotCounted(t *testing.T) {
	for name, pause := range map[string]time.Duration{"early": 0, "late": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				a := recipetest.WaitLater(t, barrierOf2(w.Stranger(nil)))
				time.Sleep(pause)
				synctest.Wait()
				require.NoError(t, w.Bare().Delete(recipetest.RoundOf2+"/"+w.Present()[0].Name, -1))
				time.Sleep(2 * time.Second)
				require.False(t, a.Waiting())
				_, err := a.Wait()
				require.ErrorIs(t, err, zkrecipes.ErrEvicted)
				require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
				one := recipetest.WaitLater(t, barrierOf2(w.Stranger(nil)))
				synctest.Wait()
				require.True(t, one.Waiting())
				recipetest.Indexes(t, one, recipetest.WaitLater(t, barrierOf2(w.Stranger(nil))))
			})
		})
	}
}

// The search for the reply to the join has set the watch on the member already.
func TestB22EvictedMemberWhoseJoinWasSearchedForGetsErrEvicted(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: recipetest.OpJoinRound, Skip: 1}) // the first one finds no round
		a := recipetest.WaitLater(t, barrierOf2(w.Stranger(nil)))
		time.Sleep(500 * time.Millisecond)
		require.True(t, a.Waiting())
		require.NoError(t, w.Bare().Delete(recipetest.RoundOf2+"/"+w.Present()[0].Name, -1))
		synctest.Wait()
		require.False(t, a.Waiting(), "at once")
		_, err := a.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrEvicted)
	})
}

// The round was opened with a member whose znode is deleted before its client has
// read of the opening.
func TestB22MemberEvictedAfterTheOpeningGetsItsIndex(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		still := harness.NewLink(w.Srv)
		a := recipetest.WaitLater(t, barrierOf2(w.Stranger(&zkrecipes.Options{Dialer: still.Dial, SessionTimeout: time.Minute})))
		time.Sleep(10 * time.Second) // it watches its own znode
		synctest.Wait()
		still.Stop()
		own := w.Present()[0].Name
		index := indexOf(t, recipetest.WaitLater(t, barrierOf2(w.Stranger(nil))))
		recipetest.MembersLeft()
		require.Len(t, w.Present(), 1, "the other has left")
		require.NoError(t, w.Bare().Delete(recipetest.RoundOf2+"/"+own, -1))
		still.Resume()
		require.Equal(t, 1-index, indexOf(t, a))
	}, zktest.SessionTimeouts(time.Second, time.Hour))
}

func TestB23MembersOfADeletedRoundGetErrEvicted(t *testing.T) {
	for _, what := range []string{"/b/round", "/b"} {
		for name, again := range map[string]bool{"and created again": true, "for good": false} {
			t.Run(what+" "+name, func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					c := w.Stranger(nil)
					a := recipetest.WaitLater(t, zkrecipes.NewBarrier(c, "/b", 3))
					still := harness.NewLink(w.Srv)
					d := w.Stranger(&zkrecipes.Options{Dialer: still.Dial})
					b := recipetest.WaitLater(t, zkrecipes.NewBarrier(d, "/b", 3))
					synctest.Wait()
					still.Stop() // this client reads of the deletion later
					recipetest.Wipe(t, w.Bare(), what)
					var others []*harness.Call[int]
					if again {
						for range 2 {
							others = append(others, recipetest.WaitLater(t, zkrecipes.NewBarrier(w.Stranger(nil), "/b", 3)))
						}
						synctest.Wait()
					}
					still.Resume()
					for _, m := range []*harness.Call[int]{a, b} {
						_, err := m.Wait()
						require.ErrorIs(t, err, zkrecipes.ErrEvicted)
						require.ErrorIs(t, err, zkrecipes.ErrUncertain, "nobody knows any more whether the round had been opened")
					}
					for len(others) < 3 {
						others = append(others, recipetest.WaitLater(t, zkrecipes.NewBarrier(c, "/b", 3)))
					}
					recipetest.Indexes(t, others...)
				})
			})
		}
	}
}

func TestB24BarrierWhosePathWasReapedIsCreatedAgain(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, b := barrierOf2(w.Stranger(nil)), barrierOf2(w.Stranger(nil))
		for range 3 {
			recipetest.Indexes(t, recipetest.WaitLater(t, a), recipetest.WaitLater(t, b))
			recipetest.MembersLeft()
			recipetest.Wipe(t, w.Bare(), "/b")
			recipetest.Indexes(t, recipetest.WaitLater(t, a), recipetest.WaitLater(t, b))
			recipetest.MembersLeft()
			// As if the path was reaped each time before the round is created.
			w.Plan.Add(zktest.Fault{Do: zktest.Answer, Op: recipetest.OpMakeRound, Code: jute.ErrNoNode, Times: 5})
		}
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Op: recipetest.OpMakeRound, Code: jute.ErrNoNode, Times: -1})
		_, err := a.Wait(t.Context())
		require.ErrorIs(t, err, zkconn.ErrContended, "the number of retries is bounded")
	})
}

// Children whose names are not those of members.
func TestB25ForeignChildrenOfABarrierAreNotCounted(t *testing.T) {
	ctx, path, conn := harness.Within(t, 30*time.Second), harness.NewPath(t), harness.Raw(t)
	c := recipetest.Dial(t, nil)
	a := recipetest.WaitLater(t, zkrecipes.NewBarrier(c, path, 2))
	recipetest.Sleeps(t, c, 1)
	for _, name := range []string{
		"x", "member", "member-", "member-12", "_c_x", "ünï-member-000000000x", "lock-0000000001", "readyy",
		"_c_" + recipetest.CuratorUUID(0) + "-__READ__0000000001", recipetest.CuratorUUID(1),
	} {
		for _, dir := range []string{path, path + "/round"} {
			_, err := conn.Create(dir+"/"+name, nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
	}
	require.True(t, a.Waiting())
	early := recipetest.WaitLater(t, zkrecipes.NewBarrier(recipetest.Dial(t, nil), path, 2))
	recipetest.Indexes(t, a, early)
	// The server does not delete an opened round that has such a child.
	_, err := zkrecipes.NewBarrier(c, path, 2).Wait(ctx)
	require.ErrorContains(t, err, "path is used by something else")
	require.ErrorContains(t, err, "stands in the round")
	for _, name := range harness.Children(t, conn, path+"/round") {
		if name != "ready" {
			require.NoError(t, conn.Delete(path+"/round/"+name, -1))
		}
	}
	recipetest.Indexes(t, recipetest.WaitLater(t, zkrecipes.NewBarrier(c, path, 2)), recipetest.WaitLater(t, zkrecipes.NewBarrier(recipetest.Dial(t, nil), path, 2)))
}

func TestB28RoundWhoseCounterIsExhaustedIsAnError(t *testing.T) {
	for name, next := range map[string]int32{"past the limit": line.MaxNumber + 1, "at its end": 1<<31 - 1, "negative": -5} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c := w.Stranger(nil)
				a := recipetest.WaitLater(t, barrierOf2(c))
				synctest.Wait()
				require.NoError(t, w.Srv.SetCounter(recipetest.RoundOf2, next))
				_, err := barrierOf2(c).Wait(t.Context())
				require.ErrorIs(t, err, zkrecipes.ErrExhausted)
				synctest.Wait()
				require.True(t, a.Waiting())
				require.Len(t, w.Present(), 1)
			})
		})
	}
}

// An operator writes to ready. No member waits for ever, and the next round is not
// blocked.
func TestB45ReadyWrittenBySomebodyElseLeavesNobodyWaiting(t *testing.T) {
	for name, data := range map[string]string{"empty": "", "junk": "go!", "no number": "1-", "two numbers": "7-8"} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c := w.Stranger(nil)
				a := recipetest.WaitLater(t, barrierOf2(c))
				synctest.Wait()
				conn := w.Insider()
				_, err := conn.Set(recipetest.ReadyOf2, []byte(data), -1)
				require.NoError(t, err)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if name == "two numbers" { // which means that a round with other members was opened
					require.True(t, a.Waiting())
				} else {
					_, err = a.Wait()
					require.ErrorContains(t, err, "znode ready was written by somebody else")
					require.ErrorIs(t, err, zkrecipes.ErrUncertain)
					a = recipetest.WaitLater(t, barrierOf2(c))
				}
				recipetest.Indexes(t, a, recipetest.WaitLater(t, barrierOf2(w.Stranger(nil))))
				recipetest.MembersLeft()

				// A ready that was written twice is not deleted, as nobody knows what it
				// stands for.
				a = recipetest.WaitLater(t, barrierOf2(c))
				synctest.Wait()
				write := &zk.SetDataRequest{Path: recipetest.ReadyOf2, Data: []byte("go!"), Version: -1}
				_, err = conn.Multi(write, write)
				require.NoError(t, err)
				_, err = a.Wait()
				require.ErrorIs(t, err, zkrecipes.ErrUncertain)
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
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c := w.Stranger(nil)
				a := recipetest.WaitLater(t, zkrecipes.NewBarrier(c, "/b", 3))
				b := recipetest.WaitLater(t, zkrecipes.NewBarrier(w.Stranger(nil), "/b", 3))
				synctest.Wait()
				conn := w.Bare()
				_, err := conn.Multi(&zk.DeleteRequest{Path: recipetest.ReadyOf2 + "/signal-of3", Version: -1}, &zk.DeleteRequest{Path: recipetest.ReadyOf2, Version: -1})
				require.NoError(t, err)
				if again {
					_, err := conn.Create(recipetest.ReadyOf2, nil, 0, zk.WorldACL(zk.PermAll))
					require.NoError(t, err)
				}
				for _, m := range []*harness.Call[int]{a, b} {
					_, err := m.Wait()
					require.ErrorContains(t, err, "znode ready is missing")
				}
				synctest.Wait()
				require.Empty(t, w.Present())
				if again {
					return // that round works like any other
				}
				requests := w.Requests(func() {
					_, err := zkrecipes.NewBarrier(c, "/b", 3).Wait(t.Context())
					require.ErrorContains(t, err, "znode ready is missing")
					require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
				})
				require.Equal(t, 2, requests[recipetest.OpJoinRound])
				require.NoError(t, conn.Delete(recipetest.RoundOf2, -1))
				recipetest.Indexes(t, recipetest.WaitLater(t, zkrecipes.NewBarrier(c, "/b", 3)), recipetest.WaitLater(t, zkrecipes.NewBarrier(c, "/b", 3)), recipetest.WaitLater(t, zkrecipes.NewBarrier(c, "/b", 3)))
			})
		})
	}
}

// Somebody has created a child below ready, so the server does not delete it.
func TestB45ReadyThatCannotBeDeletedIsAnError(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		a := recipetest.WaitLater(t, barrierOf2(c))
		synctest.Wait()
		_, err := w.Bare().Create(recipetest.ReadyOf2+"/child", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		recipetest.Indexes(t, a, recipetest.WaitLater(t, barrierOf2(c)))
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
	c := recipetest.DialTo(t, servers, &zkrecipes.Options{SessionTimeout: 1500 * time.Millisecond})
	a := recipetest.WaitLater(t, zkrecipes.NewBarrier(c, path, 2))
	recipetest.Sleeps(t, c, 3) // on the signal, on ready and on its own znode
	require.NoError(t, node.Wipe(t.Context()))
	_, err := a.Wait()
	require.ErrorIs(t, err, zk.ErrSessionExpired)
	require.ErrorIs(t, err, zkrecipes.ErrUncertain, "nobody knows any more whether the round had been opened")
	recipetest.Indexes(t, recipetest.WaitLater(t, zkrecipes.NewBarrier(c, path, 2)), recipetest.WaitLater(t, zkrecipes.NewBarrier(recipetest.DialTo(t, servers, nil), path, 2)))
}
