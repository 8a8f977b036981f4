package zkrecipes

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

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
		synctest.Wait() // the other has left, and the round still stands
		s, _ := other.session()
		_, _, err = s.Multi(t.Context(), &zk.DeleteRequest{Path: znode, Version: -1})
		require.NoError(t, err)
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
		w.failRolls(1, 0)
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
		"eviction": func(w *world, c *Client) { require.NoError(w.t, w.bare().Delete(roundOf2+"/"+w.present()[0].name, -1)) },
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
