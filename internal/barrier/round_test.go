package barrier_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestA22ACancelThatFindsItsMemberDeletedChecksWhetherTheRoundWasOpenedWithIt(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		first := recipetest.WaitLater(t, zkrecipes.NewBarrier(w.Stranger(nil), "/b", 2))
		synctest.Wait()
		znode := "/b/round/" + w.Srv.Children("/b/round")[0]
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: -7, Op: "multi", Path: znode})
		first.Cancel(nil) // the server answers that it is too busy, and the client retries in a moment
		synctest.Wait()
		require.True(t, first.Waiting())
		other := w.Stranger(nil)
		index, err := recipetest.WaitLater(t, zkrecipes.NewBarrier(other, "/b", 2)).Wait()
		require.NoError(t, err)
		require.Equal(t, 1, index)
		recipetest.MembersLeft() // and the round still stands
		s, _ := recipetest.Core(other).Session()
		require.NoError(t, s.Multi(t.Context(), &zk.DeleteRequest{Path: znode, Version: -1}).Err())
		require.True(t, first.Waiting())
		index, err = first.Wait()
		require.NoError(t, err)
		require.Equal(t, 0, index)
	}, zktest.TickTime(time.Second))
}

func TestB35JoinOfABarrierInFlightAtCloseReturnsErrClosed(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		for _, path := range []string{"/round", "/double"} {
			c := w.Stranger(nil)
			w.Plan.Add(zktest.Fault{Do: zktest.Withhold, Op: "multi", Path: path + "*"})
			end := make(chan error, 1)
			if path == "/round" {
				b := zkrecipes.NewBarrier(c, path, 2)
				go func() { _, err := b.Wait(t.Context()); end <- err }()
			} else {
				d := zkrecipes.NewDoubleBarrier(c, path, 2)
				go func() { _, err := d.Enter(t.Context()); end <- err }()
			}
			synctest.Wait()
			require.Empty(t, end)
			_ = c.Close() // an error, as the server is silent
			err := <-end
			require.ErrorIs(t, err, zkrecipes.ErrClosed)
			require.NotErrorIs(t, err, zk.ErrSessionExpired)
		}
	}, zktest.TickTime(time.Second))
}

func TestB45RoundOpensForTheOthersWhenAMemberDiesDuringTheOpening(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, b, c := w.Stranger(nil), w.Stranger(nil), w.Stranger(nil)
		recipetest.WaitLater(t, zkrecipes.NewBarrier(a, "/b", 2))
		synctest.Wait()
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpOpenRound, For: time.Second, Times: 2})
		second := recipetest.WaitLater(t, zkrecipes.NewBarrier(b, "/b", 2))
		synctest.Wait()
		third := recipetest.WaitLater(t, zkrecipes.NewBarrier(c, "/b", 2)) // both are about to open the round with the first
		synctest.Wait()
		require.True(t, w.Srv.Expire(recipetest.SessionID(a)))
		recipetest.Indexes(t, second, third)
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
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					c := w.Stranger(nil)
					do.Op = op
					w.Plan.Add(do)
					a := recipetest.WaitLater(t, barrierOf2(c))
					time.Sleep(time.Second)
					a.Cancel(nil)
					_, err := a.Wait()
					require.Error(t, err)
					time.Sleep(time.Minute)
					require.Empty(t, w.Srv.Children("/b"))
				})
			})
		}
	}
}

// The session of the only member ends while it waits, or an operator deletes its znode.
func TestB102OnlyMemberThatIsGoneLeavesNothing(t *testing.T) {
	for name, end := range map[string]func(w *recipetest.World, c *zkrecipes.Client){
		"expiry": func(w *recipetest.World, c *zkrecipes.Client) {
			require.True(w.T, w.Srv.Expire(recipetest.SessionID(c)))
		},
		"eviction": func(w *recipetest.World, c *zkrecipes.Client) {
			require.NoError(w.T, w.Bare().Delete(recipetest.RoundOf2+"/"+w.Present()[0].Name, -1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c := w.Stranger(nil)
				a := recipetest.WaitLater(t, barrierOf2(c))
				time.Sleep(time.Minute)
				end(w, c)
				_, err := a.Wait()
				require.Error(t, err)
				time.Sleep(time.Minute)
				require.Empty(t, w.Srv.Children("/b"))
			})
		})
	}
}

// Others come or go between the last member's listing and its opening, which is refused then.
// The round is opened with three members that are there.
func TestB45RoundOpensForThoseThatAreThereIfOthersCameOrWent(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, w *recipetest.World, as []*harness.Call[int]) (there []*harness.Call[int]){
		"one has left": func(t *testing.T, w *recipetest.World, as []*harness.Call[int]) []*harness.Call[int] {
			as[1].Cancel(nil)
			_, err := as[1].Wait()
			require.ErrorIs(t, err, context.Canceled)
			return []*harness.Call[int]{as[0], recipetest.WaitLater(t, w.InRound(3))}
		},
		"one was deleted": func(t *testing.T, w *recipetest.World, as []*harness.Call[int]) []*harness.Call[int] {
			require.NoError(t, w.Bare().Delete(recipetest.RoundOf2+"/"+slices.MinFunc(w.Present(), placename.Parts.Compare).Name, -1))
			return []*harness.Call[int]{as[1], recipetest.WaitLater(t, w.InRound(3))}
		},
		"one has left and another has come": func(t *testing.T, w *recipetest.World, as []*harness.Call[int]) []*harness.Call[int] {
			as[0].Cancel(nil)
			_, err := as[0].Wait()
			require.ErrorIs(t, err, context.Canceled)
			b := recipetest.WaitLater(t, w.InRound(3))
			synctest.Wait()
			return []*harness.Call[int]{as[1], b}
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := &recipetest.Observer{Dir: recipetest.RoundOf2}
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				var as []*harness.Call[int]
				for range 2 {
					as = append(as, recipetest.WaitLater(t, w.InRound(3)))
					synctest.Wait()
				}
				const opening = "multi(check,create,setData,check,check,check,check)"
				w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: opening, For: time.Second})
				requests := w.Requests(func() {
					last := recipetest.WaitLater(t, w.InRound(3))
					synctest.Wait()
					recipetest.Indexes(t, append(change(t, w, as), last)...)
				})
				require.Equal(t, 1, requests[opening], "which was refused")
				require.Equal(t, []int{3}, o.Openings())
			}, o.Option())
		})
	}
}

// A Wait whose context has ended sends nothing.
func TestB32WaitOfAnEndedContextSendsNothing(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		b := used(t, w.Stranger(nil), 2)
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Empty(t, w.Requests(func() {
			_, err := b.Wait(ctx)
			require.ErrorIs(t, err, context.Canceled)
		}))
	})
}

// Others may have counted a member that is deleted because it cannot be read.
func TestB36MemberThatCannotBeReadIsUncertain(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: recipetest.OpJoinRound, Skip: 1}, // there is no round yet
			zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoAuth, Op: "getData", Path: recipetest.RoundOf2 + "/_c_*"})
		_, err := w.InRound(2).Wait(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		synctest.Wait()
		require.Empty(t, w.Present())
	})
}

// A member's next join is sent behind its leave: else it would be refused, and watch its own
// znode of the round before.
func TestA22MemberThatComesBackAtOnceDoesNotWaitForItself(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		first := recipetest.WaitLater(t, w.InRound(2))
		synctest.Wait()
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLeaveRound, Path: recipetest.RoundOf2 + "/" + w.Present()[0].Name, For: time.Hour})
		b := w.InRound(2)
		var again *harness.Call[int]
		requests := w.Requests(func() {
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
		require.Equal(t, 1+2, requests[recipetest.OpJoinRound], "refused, and refused behind its watch")
	})
}

// The last member to leave deletes the round, even if its connection breaks just then.
func TestTheLastMemberDeletesTheRoundAlthoughItsConnectionBreaks(t *testing.T) {
	for _, after := range []bool{false, true} {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: recipetest.OpDeleteRound, After: after})
			recipetest.Indexes(t, recipetest.WaitLater(t, zkrecipes.NewBarrier(w.Stranger(nil), "/b", 1)))
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Empty(t, w.Srv.Children("/b"))
		})
	}
}
