package zkrecipes

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestA22ACancelThatFindsItsMemberDeletedChecksWhetherTheRoundWasOpenedWithIt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first := waitLater(t, NewBarrier(w.stranger(nil), "/b", 2))
		synctest.Wait()
		znode := "/b/round/" + w.srv.Children("/b/round")[0]
		w.plan.Add(zktest.Fault{Do: zktest.Answer, Code: -7, Op: "multi", Path: znode})
		first.Cancel(nil) // the server answers that it is too busy, and the client retries in a moment
		synctest.Wait()
		require.True(t, first.Waiting())
		other := w.stranger(nil)
		index, err := waitLater(t, NewBarrier(other, "/b", 2)).Wait()
		require.NoError(t, err)
		require.Equal(t, 1, index)
		membersLeft() // and the round still stands
		s, _ := other.client.Session()
		require.NoError(t, s.Multi(t.Context(), &zk.DeleteRequest{Path: znode, Version: -1}).Err())
		require.True(t, first.Waiting())
		index, err = first.Wait()
		require.NoError(t, err)
		require.Equal(t, 0, index)
	}, zktest.TickTime(time.Second))
}

func TestB35JoinOfABarrierInFlightAtCloseReturnsErrClosed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, path := range []string{"/round", "/double"} {
			c := w.stranger(nil)
			w.plan.Add(zktest.Fault{Do: zktest.Withhold, Op: "multi", Path: path + "*"})
			end := make(chan error, 1)
			if path == "/round" {
				b := NewBarrier(c, path, 2)
				go func() { _, err := b.Wait(t.Context()); end <- err }()
			} else {
				d := NewDoubleBarrier(c, path, 2)
				go func() { _, err := d.Enter(t.Context()); end <- err }()
			}
			synctest.Wait()
			require.Empty(t, end)
			_ = c.Close() // an error, as the server is silent
			err := <-end
			require.ErrorIs(t, err, ErrClosed)
			require.NotErrorIs(t, err, zk.ErrSessionExpired)
		}
	}, zktest.TickTime(time.Second))
}

func TestB45RoundOpensForTheOthersWhenAMemberDiesDuringTheOpening(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, b, c := w.stranger(nil), w.stranger(nil), w.stranger(nil)
		waitLater(t, NewBarrier(a, "/b", 2))
		synctest.Wait()
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opOpenRound, For: time.Second, Times: 2})
		second := waitLater(t, NewBarrier(b, "/b", 2))
		synctest.Wait()
		third := waitLater(t, NewBarrier(c, "/b", 2)) // both are about to open the round with the first
		synctest.Wait()
		require.True(t, w.srv.Expire(sessionID(a)))
		indexes(t, second, third)
	}, zktest.TickTime(time.Second))
}

// The first member of a round is canceled, or its session ends, at any of its requests.
func TestB102FirstMemberLeavesNothing(t *testing.T) {
	for _, op := range []string{"createContainer", "multi(create,create,create)", "multi(check,create,setData)", "getData", "getChildren2"} {
		for _, do := range []zktest.Fault{
			{Do: zktest.Delay, For: 2 * time.Second}, {Do: zktest.Delay, For: 2 * time.Second, After: true},
			{Do: zktest.Drop}, {Do: zktest.Drop, After: true}, {Do: zktest.Expire}, {Do: zktest.Expire, After: true},
		} {
			t.Run(fmt.Sprint(op, " ", do.Do, do.After), func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					c := w.stranger(nil)
					do.Op = op
					w.plan.Add(do)
					a := waitLater(t, barrierOf2(c))
					time.Sleep(time.Second)
					a.Cancel(nil)
					_, err := a.Wait()
					require.Error(t, err)
					time.Sleep(time.Minute)
					require.Empty(t, w.srv.Children("/b"))
				})
			})
		}
	}
}

// The session of the only member ends while it waits, or an operator deletes its znode.
func TestB102OnlyMemberThatIsGoneLeavesNothing(t *testing.T) {
	for name, end := range map[string]func(w *world, c *Client){
		"expiry":   func(w *world, c *Client) { require.True(w.t, w.srv.Expire(sessionID(c))) },
		"eviction": func(w *world, c *Client) { require.NoError(w.t, w.bare().Delete(roundOf2+"/"+w.present()[0].Name, -1)) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.stranger(nil)
				a := waitLater(t, barrierOf2(c))
				time.Sleep(time.Minute)
				end(w, c)
				_, err := a.Wait()
				require.Error(t, err)
				time.Sleep(time.Minute)
				require.Empty(t, w.srv.Children("/b"))
			})
		})
	}
}

// Others come or go between the last member's listing and its opening, which is refused then.
// The round is opened with three members that are there.
func TestB45RoundOpensForThoseThatAreThereIfOthersCameOrWent(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, w *world, as []*harness.Call[int]) (there []*harness.Call[int]){
		"one has left": func(t *testing.T, w *world, as []*harness.Call[int]) []*harness.Call[int] {
			as[1].Cancel(nil)
			_, err := as[1].Wait()
			require.ErrorIs(t, err, context.Canceled)
			return []*harness.Call[int]{as[0], waitLater(t, w.inRound(3))}
		},
		"one was deleted": func(t *testing.T, w *world, as []*harness.Call[int]) []*harness.Call[int] {
			require.NoError(t, w.bare().Delete(roundOf2+"/"+slices.MinFunc(w.present(), line.PlaceName.Compare).Name, -1))
			return []*harness.Call[int]{as[1], waitLater(t, w.inRound(3))}
		},
		"one has left and another has come": func(t *testing.T, w *world, as []*harness.Call[int]) []*harness.Call[int] {
			as[0].Cancel(nil)
			_, err := as[0].Wait()
			require.ErrorIs(t, err, context.Canceled)
			b := waitLater(t, w.inRound(3))
			synctest.Wait()
			return []*harness.Call[int]{as[1], b}
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := &observer{dir: roundOf2}
			inBubble(t, func(t *testing.T, w *world) {
				var as []*harness.Call[int]
				for range 2 {
					as = append(as, waitLater(t, w.inRound(3)))
					synctest.Wait()
				}
				const opening = "multi(check,create,setData,check,check,check,check)"
				w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opening, For: time.Second})
				requests := w.requests(func() {
					last := waitLater(t, w.inRound(3))
					synctest.Wait()
					indexes(t, append(change(t, w, as), last)...)
				})
				require.Equal(t, 1, requests[opening], "which was refused")
				require.Equal(t, []int{3}, o.openings())
			}, o.option())
		})
	}
}

// A Wait whose context has ended sends nothing.
func TestB32WaitOfAnEndedContextSendsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		b := used(t, w.stranger(nil), 2)
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Empty(t, w.requests(func() {
			_, err := b.Wait(ctx)
			require.ErrorIs(t, err, context.Canceled)
		}))
	})
}

// Others may have counted a member that is deleted because it cannot be read.
func TestB36MemberThatCannotBeReadIsUncertain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: opJoinRound, Skip: 1}, // there is no round yet
			zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoAuth, Op: "getData", Path: roundOf2 + "/_c_*"})
		_, err := w.inRound(2).Wait(t.Context())
		require.ErrorIs(t, err, ErrUncertain)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		synctest.Wait()
		require.Empty(t, w.present())
	})
}

// A member's next join is sent behind its leave: else it would be refused, and watch its own
// znode of the round before.
func TestA22MemberThatComesBackAtOnceDoesNotWaitForItself(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first := waitLater(t, w.inRound(2))
		synctest.Wait()
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opLeaveRound, Path: roundOf2 + "/" + w.present()[0].Name, For: time.Hour})
		b := w.inRound(2)
		var again *harness.Call[int]
		requests := w.requests(func() {
			again = harness.Go(t, func(ctx context.Context) (int, error) {
				if _, err := b.Wait(ctx); err != nil {
					return -1, err
				}
				return b.Wait(ctx)
			})
			require.Zero(t, indexOf(t, first))
			synctest.Wait()
		})
		require.True(t, again.Waiting())
		require.Equal(t, 1+2, requests[opJoinRound], "refused, and refused behind its watch")
	})
}

// The last member to leave deletes the round, even if its connection breaks just then.
func TestTheLastMemberDeletesTheRoundAlthoughItsConnectionBreaks(t *testing.T) {
	for _, after := range []bool{false, true} {
		inBubble(t, func(t *testing.T, w *world) {
			w.plan.Add(zktest.Fault{Do: zktest.Drop, Op: opDeleteRound, After: after})
			indexes(t, waitLater(t, NewBarrier(w.stranger(nil), "/b", 1)))
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Empty(t, w.srv.Children("/b"))
		})
	}
}
