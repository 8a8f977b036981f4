package zkrecipes

import (
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
